"""The results of templates: outcomes of the sessions that began with each version."""

import time
from collections.abc import Sequence

from msgspec import Struct

from relight.judging.kinds import TASK_TYPES
from relight.stats.beta import probability_at_least
from relight.stats.evalues import weigh_posteriors
from relight.stats.rates import decay
from relight.store import Store, provisions
from relight.store.provisions import count_arm_outcomes
from relight.store.templates import read_version_names
from relight.times import write_time
from relight.warm import library
from relight.warm.library import Template

HALF_LIFE_DAYS = 30.0
PRIOR_WEIGHT = 5.0
HARM = 0.95
# the difference that harm is expected to make
HARM_SIZE = 0.3
_DAY_MS = 86_400_000


class Posterior(Struct, frozen=True):
    """A Beta posterior of a success rate, with the outcomes that made it."""

    a: float
    b: float
    successes: int
    known: int
    unknown: int

    @property
    def rate(self) -> float:
        return self.a / (self.a + self.b)

    def describe(self) -> str:
        """Return the outcomes in words; the rate is an estimate, by which templates are ranked."""
        if not self.known:
            return "no results are known yet"
        return f"{self.successes} of {self.known} sessions of known outcome succeeded"


class VersionStats(Struct, frozen=True, rename={"success": "successes", "failure": "failures"}):
    """The sessions that began with one version of a template, or were held out from it."""

    template: str
    version: int
    warm: int
    cold: int
    success: int
    failure: int
    unknown: int
    # decisions that no recorded session followed
    unfollowed: int
    retired_at: str | None
    retired_why: str | None


class TemplateTotals(Struct, frozen=True, kw_only=True):
    """The number of templates, the examples in those in use, and the results of all versions."""

    live: int
    candidates: int
    retired: int
    examples: int
    warm: int
    cold: int
    successes: int
    failures: int
    unknown: int
    unfollowed: int


class TypeTotals(TemplateTotals, frozen=True, kw_only=True):
    """The totals of one task type."""

    task_type: str


class TemplateStats(Struct, frozen=True):
    """The results of every version of every template, and totals by task type."""

    templates: list[VersionStats]
    types: list[TypeTotals]
    total: TemplateTotals


def read_posteriors(
    store: Store, templates: Sequence[Template], *, now: int | None = None
) -> list[Posterior]:
    """Return the recent success rate of each template's newest version.

    The pooled rate of all templates is the prior.
    """
    at = int(time.time() * 1000) if now is None else now
    pooled = count_arm_outcomes(store, "warm")
    rate = (pooled[0] + 1) / (sum(pooled) + 2)
    grouped: dict[tuple[int, int], list[provisions.StartedSession]] = {}
    for session in provisions.read_warm_sessions(store, [one.id for one in templates]):
        grouped.setdefault((session.template_id, session.version), []).append(session)
    posteriors = []
    for template in templates:
        a, b, known = PRIOR_WEIGHT * rate, PRIOR_WEIGHT * (1 - rate), 0
        successes = 0
        own = grouped.get((template.id, template.version), [])
        for session in own:
            weight = decay(max(at - session.began_at, 0) / _DAY_MS, HALF_LIFE_DAYS)
            a += weight * (session.outcome == "success")
            b += weight * (session.outcome == "failure")
            successes += session.outcome == "success"
            known += session.outcome in ("success", "failure")
        posteriors.append(Posterior(a, b, successes, known, len(own) - known))
    return posteriors


def find_harm(store: Store, template: Template) -> str | None:
    """Return why a template must retire: it is probably worse than no template.

    It is compared only with the sessions held out from it, since other tasks may be easier. The
    test runs before every session, so it uses a bound that holds at all looks together. A plain
    probability would in time retire every fourth harmless template.
    """
    warm = count_arm_outcomes(store, "warm", template_id=template.id, version=template.version)
    cold = count_arm_outcomes(store, "cold", template_id=template.id)
    if not sum(warm) or not sum(cold):
        return None
    found = weigh_posteriors(cold, warm, tau=HARM_SIZE, error=2 * (1 - HARM))  # a one-sided test
    if found.high >= 0:
        return None
    worse = 1 - probability_at_least(cold, warm)
    return (
        f"worse than starting cold with a probability of {worse:.2f}:"
        f" {warm[0]:.0f} of {sum(warm):.0f} succeeded with version {template.version},"
        f" {cold[0]:.0f} of {sum(cold):.0f} without"
    )


def retire_if_harmful(store: Store, template: Template, *, now: int | None = None) -> bool:
    """Retire a live template that does harm; True if it was retired."""
    if template.state != "live" or (why := find_harm(store, template)) is None:
        return False
    library.retire_template(store, template.name, why=why, now=now)
    return True


def read_template_stats(store: Store) -> TemplateStats:
    """Return the results of each version of each template, with totals by task type."""
    rows = read_stats(store)
    every = [*library.read_templates(store), *library.read_candidates(store)]
    types = [
        TypeTotals(task_type=name, **_add_up(some, rows))
        for name in TASK_TYPES
        if (some := [one for one in every if one.task_type == name])
    ]
    return TemplateStats(rows, types, TemplateTotals(**_add_up(every, rows)))


def _add_up(templates: Sequence[Template], rows: Sequence[VersionStats]) -> dict[str, int]:
    """Return the totals of templates, by name."""
    names = {one.name for one in templates}
    own = [row for row in rows if row.template in names]
    live = [one for one in templates if one.state == "live"]
    return {
        "live": len(live),
        "candidates": sum(one.state == "candidate" for one in templates),
        "retired": sum(one.state == "retired" for one in templates),
        "examples": sum(map(library.count_examples, live)),
        "warm": sum(row.warm for row in own),
        "cold": sum(row.cold for row in own),
        "successes": sum(row.success for row in own),
        "failures": sum(row.failure for row in own),
        "unknown": sum(row.unknown for row in own),
        "unfollowed": sum(row.unfollowed for row in own),
    }


def read_stats(store: Store) -> list[VersionStats]:
    """Return the results of each version of each template."""
    given = {
        (one.template_id, one.version, one.arm): one.sessions
        for one in provisions.count_by_arm(store)
    }
    decided = provisions.count_decisions(store)
    outcomes = {
        (one.template_id, one.version, one.outcome): one.sessions
        for one in provisions.count_by_outcome(store)
    }
    stats = []
    for one in read_version_names(store):
        own = (one.template_id, one.version)
        warm, cold = (given.get((*own, arm), 0) for arm in ("warm", "cold"))
        success, failure = (outcomes.get((*own, end), 0) for end in ("success", "failure"))
        stats.append(
            VersionStats(
                template=one.name,
                version=one.version,
                warm=warm,
                cold=cold,
                success=success,
                failure=failure,
                unknown=warm - success - failure,
                unfollowed=decided.get(own, 0) - warm - cold,
                retired_at=write_time(one.retired_at),
                retired_why=one.retired_why,
            )
        )
    return stats
