"""What templates achieved: the sessions that began with each version, and what came of them."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from relight.stats.beta import probability_at_least
from relight.stats.rates import Counts, decay
from relight.stats.trials import always_valid_rates
from relight.store import Store
from relight.times import write_time
from relight.warm.library import Template, retire_template

HALF_LIFE_DAYS = 30.0
PRIOR_WEIGHT = 5.0
HARM = 0.95
_DAY_MS = 86_400_000
# A session is known by its agent's own id, told when it began.
JOINED = """
    from provision join session on session.key = provision.session_key
        and (provision.source is null or provision.source = session.source)
    where provision.template_id is not null
"""


class Posterior(Struct, frozen=True):
    """A Beta posterior of a success rate, with the outcomes that made it."""

    a: float
    b: float
    known: int
    unknown: int

    def tell(self) -> str:
        if not self.known:
            return "nothing is known yet of what it achieved"
        return f"success in {self.a / (self.a + self.b):.0%} of {self.known} known outcomes"


def read_posteriors(
    store: Store, templates: Sequence[Template], *, now: int | None = None
) -> list[Posterior]:
    """How well each template's newest version did lately; the pooled rate is the prior."""
    at = int(time.time() * 1000) if now is None else now
    marks = ",".join("?" * len(templates))
    rows = store.query(
        "select template_id, provision.version, provision.created_at, session.outcome"
        f" {JOINED} and arm = 'warm' and template_id in ({marks})",
        [one.id for one in templates],
    )
    pooled = count_outcomes(store, "warm")
    rate = (pooled[0] + 1) / (sum(pooled) + 2)
    grouped: dict[tuple[int, int], list[tuple[int, str | None]]] = {}
    for template_id, version, began_at, outcome in rows:
        grouped.setdefault((template_id, version), []).append((began_at, outcome))
    posteriors = []
    for template in templates:
        a, b, known = PRIOR_WEIGHT * rate, PRIOR_WEIGHT * (1 - rate), 0
        own = grouped.get((template.id, template.version), [])
        for began_at, outcome in own:
            weight = decay(max(at - began_at, 0) / _DAY_MS, HALF_LIFE_DAYS)
            a += weight * (outcome == "success")
            b += weight * (outcome == "failure")
            known += outcome in ("success", "failure")
        posteriors.append(Posterior(a, b, known, len(own) - known))
    return posteriors


def count_outcomes(
    store: Store, arm: str, *, template_id: int | None = None, version: int | None = None
) -> Counts:
    """Successes and failures among the sessions of an arm, of all templates or of one version."""
    rows = store.query(
        "select coalesce(sum(outcome = 'success'), 0), coalesce(sum(outcome = 'failure'), 0)"
        f" {JOINED} and arm = ?1"
        " and (?2 is null or template_id = ?2) and (?3 is null or provision.version = ?3)",
        (arm, template_id, version),
    )
    return rows[0][0], rows[0][1]


def find_harm(store: Store, template: Template) -> str | None:
    """Why a template must go: it is worse than no template with a probability above 0.95.

    It is compared with the sessions that were held out from it, and no others: their tasks may be
    easier. As this is asked before every session, the probability is one that holds however often
    it is asked; a plain one would sooner or later retire every fourth that does no harm.
    """
    warm = count_outcomes(store, "warm", template_id=template.id, version=template.version)
    cold = count_outcomes(store, "cold", template_id=template.id)
    if not sum(warm) or not sum(cold):
        return None
    view = always_valid_rates(cold, warm, confidence=2 * HARM - 1)  # one side of it is asked for
    if view.high >= 0:
        return None
    worse = 1 - probability_at_least(cold, warm)
    return (
        f"worse than starting cold with a probability of {worse:.2f}:"
        f" {warm[0]:.0f} of {sum(warm):.0f} succeeded with version {template.version},"
        f" {cold[0]:.0f} of {sum(cold):.0f} without"
    )


def retire_if_harmful(store: Store, template: Template, *, now: int | None = None) -> bool:
    """Retire a live template that does harm; gives whether it did."""
    if template.state != "live" or (why := find_harm(store, template)) is None:
        return False
    retire_template(store, template.name, why=why, now=now)
    return True


def read_stats(store: Store) -> list[dict[str, Any]]:
    """What each version of each template achieved, the sessions it was held out from beside it."""
    rows = store.query(
        "select name, version, retired_at, retired_why, template.id from template"
        " join template_version on template_id = template.id"
        " where proposed_at is null order by name, version"
    )
    given = {
        tuple(key): count
        for *key, count in store.query(
            "select template_id, version, arm, count(*) from provision"
            " where template_id is not null group by template_id, version, arm"
        )
    }
    outcomes = {
        tuple(key): count
        for *key, count in store.query(
            f"select template_id, provision.version, outcome, count(*) {JOINED} and arm = 'warm'"
            " group by template_id, provision.version, outcome"
        )
    }
    stats = []
    for name, version, retired_at, retired_why, template_id in rows:
        own = (template_id, version)
        warm = given.get((*own, "warm"), 0)
        success, failure = (outcomes.get((*own, one), 0) for one in ("success", "failure"))
        stats.append(
            {
                "template": name,
                "version": version,
                "warm": warm,
                "cold": given.get((*own, "cold"), 0),
                "success": success,
                "failure": failure,
                "unknown": warm - success - failure,
                "retired_at": write_time(retired_at),
                "retired_why": retired_why,
            }
        )
    return stats
