"""What templates achieved: the sessions that began with each version, and what came of them."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from relight.posterior import probability_at_least
from relight.stats import Counts
from relight.store import Store
from relight.templates.library import Template, retire_template
from relight.times import write_time

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
    rows = store.query(
        "select template_id, provision.version, provision.created_at, session.outcome"
        f" {JOINED} and arm = 'warm'"
    )
    pooled = [outcome == "success" for *_, outcome in rows if outcome in ("success", "failure")]
    rate = (sum(pooled) + 1) / (len(pooled) + 2)
    posteriors = []
    for template in templates:
        a, b, known, unknown = PRIOR_WEIGHT * rate, PRIOR_WEIGHT * (1 - rate), 0, 0
        for template_id, version, began_at, outcome in rows:
            if (template_id, version) != (template.id, template.version):
                continue
            weight = 0.5 ** (max(at - began_at, 0) / _DAY_MS / HALF_LIFE_DAYS)
            a += weight * (outcome == "success")
            b += weight * (outcome == "failure")
            known += outcome in ("success", "failure")
            unknown += outcome not in ("success", "failure")
        posteriors.append(Posterior(a, b, known, unknown))
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
    """Why a template must go: it is worse than no template with a probability above 0.95."""
    warm = count_outcomes(store, "warm", template_id=template.id, version=template.version)
    if not warm[1]:
        return None
    cold = count_outcomes(store, "cold")
    if not sum(cold):
        return None
    worse = 1 - probability_at_least(cold, warm)
    if worse <= HARM:
        return None
    return (
        f"worse than starting cold with a probability of {worse:.2f}: {warm[0]:.0f} of"
        f" {sum(warm):.0f} succeeded with version {template.version},"
        f" {cold[0]:.0f} of {sum(cold):.0f} without"
    )


def retire_if_harmful(store: Store, template: Template, *, now: int | None = None) -> bool:
    """Retire a live template that does harm; gives whether it did."""
    if template.retired_at is not None or (why := find_harm(store, template)) is None:
        return False
    retire_template(store, template.name, why=why, now=now)
    return True


def read_stats(store: Store) -> list[dict[str, Any]]:
    """What each version of each template achieved, the sessions it was held out from beside it."""
    rows = store.query(
        "select name, version, retired_at, retired_why, template.id from template"
        " join template_version on template_id = template.id order by name, version"
    )
    stats = []
    for name, version, retired_at, retired_why, template_id in rows:
        given = dict(
            store.query(
                "select arm, count(*) from provision where template_id = ? and version = ?"
                " group by arm",
                (template_id, version),
            )
        )
        counts = count_outcomes(store, "warm", template_id=template_id, version=version)
        warm = given.get("warm", 0)
        stats.append(
            {
                "template": name,
                "version": version,
                "warm": warm,
                "cold": given.get("cold", 0),
                "success": int(counts[0]),
                "failure": int(counts[1]),
                "unknown": warm - int(sum(counts)),
                "retired_at": write_time(retired_at),
                "retired_why": retired_why,
            }
        )
    return stats
