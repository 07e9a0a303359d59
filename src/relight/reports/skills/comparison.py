"""Is the cheaper model good enough for a skill? Its runs so far, and how sure they make us."""

from collections.abc import Sequence

from msgspec import Struct

from relight.checks import check_number, check_text
from relight.errors import MissingError, RelightError
from relight.reports.skills.arms import CERTAINTY, Arm, Pairing, find_notes, judge_models
from relight.stats.beta import probability_at_least, runs_to_settle
from relight.stats.rates import wilson
from relight.store import Store
from relight.store.derive.skills.uses import KNOWN_NANOS

# a cost of which only a part is known is no cost to compare by
RUNS = f"""
    select model, count(*), count(success), coalesce(sum(success), 0), count({KNOWN_NANOS}),
        coalesce(sum({KNOWN_NANOS}), 0)
    from skill_invocations where skill_name = ? group by model order by model
"""
VERSIONS = """
    select model, skill_version, count(*) from skill_invocations
    where skill_name = ? and skill_version is not null
    group by model, skill_version order by 3 desc, skill_version
"""


class Comparison(Struct, frozen=True, kw_only=True):
    """The models a skill ran on, the dearest first, and one sentence on whether a cheaper does."""

    skill_name: str
    margin: float
    models: list[Arm]
    pairs: list[Pairing]
    verdict: str
    notes: list[str]


def compare_models(
    store: Store, skill: str, *, models: Sequence[str] | None = None, margin: float = 0.05
) -> Comparison:
    """Compare a skill's runs on the other models with those on the dearest.

    Good enough is a success rate of at most `margin` below the dearest one's, with a probability
    of 0.95; "not enough data" is a proper answer. `models` are names, or parts that only one has.
    """
    check_text("skill", skill)
    check_number("margin", margin, least=0, below=1)
    arms = _read_arms(store, skill)
    if models is not None:
        arms = _choose(arms, models, skill)
    arms.sort(key=_dearest_first)
    # the dearest of which anything is known is what the others must come up to
    first = next((n for n, arm in enumerate(arms) if arm.success_rate is not None), 0)
    pairs = [_pair(arms[first], arm, margin) for arm in arms[first + 1 :]]
    return Comparison(
        skill_name=skill,
        margin=margin,
        models=arms,
        pairs=pairs,
        verdict=judge_models(skill, arms, pairs, margin),
        notes=find_notes(arms),
    )


def _read_arms(store: Store, skill: str) -> list[Arm]:
    versions: dict[str | None, list[str]] = {}
    for model, version, _ in store.query(VERSIONS, (skill,)):
        versions.setdefault(model, []).append(version)
    arms = [
        _make_arm(*row, versions=versions.get(row[0], [])) for row in store.query(RUNS, (skill,))
    ]
    if not arms:
        known = [
            name for (name,) in store.query("select distinct skill_name from skill_invocations")
        ]
        # a part of the name is what people write
        known.sort(key=lambda name: (skill not in name, name))
        more = f" and {len(known) - 8} more" if len(known) > 8 else ""
        hint = f"there are {', '.join(known[:8])}{more}" if known else "run `relight import` first"
        raise MissingError(f"no use of a skill {skill!r} is recorded", hint)
    return arms


def _make_arm(
    model: str | None,
    runs: int,
    known: int,
    successes: int,
    priced: int,
    nanos: int,
    *,
    versions: list[str],
) -> Arm:
    rate = successes / known if known else None
    cost = nanos / 1e9 / priced if priced else None
    interval = wilson(successes, known)
    return Arm(
        model=model,
        runs=runs,
        successes=successes,
        failures=known - successes,
        unknown=runs - known,
        success_rate=rate,
        low=interval.low,
        high=interval.high,
        unpriced=runs - priced,
        cost_per_call=cost,
        cost_per_success=cost / rate if cost is not None and rate else None,
        versions=versions,
    )


def _dearest_first(arm: Arm) -> tuple[bool, float, int, str]:
    """Models without a known cost come last: they may be the free ones that run at home."""
    known = arm.successes + arm.failures
    return arm.cost_per_call is None, -(arm.cost_per_call or 0), -known, arm.model or ""


def _choose(arms: Sequence[Arm], models: Sequence[str], skill: str) -> list[Arm]:
    by_name = {arm.model or "unknown": arm for arm in arms}
    chosen = {}
    for name in models:
        found = [name] if name in by_name else [full for full in by_name if name in full]
        if len(found) != 1:
            told = f"ran on several models like {name!r}" if found else f"never ran on {name!r}"
            raise MissingError(f"{skill} {told}", f"it ran on {', '.join(found or by_name)}")
        chosen[found[0]] = by_name[found[0]]
    if len(chosen) < 2:
        raise RelightError("models must name two or more to compare", "leave it out for all")
    return list(chosen.values())


def _pair(dearest: Arm, other: Arm, margin: float) -> Pairing:
    a, b = (dearest.successes, dearest.failures), (other.successes, other.failures)
    dear, cost = dearest.cost_per_call, other.cost_per_call
    probability = probability_at_least(a, b, margin=margin) if sum(a) and sum(b) else None
    return Pairing(
        model=other.model,
        against=dearest.model,
        is_cheaper=None if dear is None or cost is None else cost < dear,
        probability=probability,
        is_settled=probability is not None and not 1 - CERTAINTY < probability < CERTAINTY,
        more_runs=None
        if probability is None
        else runs_to_settle(a, b, margin=margin, certainty=CERTAINTY),
    )
