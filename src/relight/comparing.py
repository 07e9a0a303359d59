"""Is the cheaper model good enough for a skill? Its runs so far, and how sure they make us."""

from collections.abc import Sequence

from msgspec import Struct

from relight.errors import RelightError
from relight.posterior import probability_at_least, runs_to_settle
from relight.stats import wilson
from relight.store import Store

CERTAINTY = 0.95
RUNS = """
    select model, count(*), count(success), coalesce(sum(success), 0), count(cost_nanos),
        coalesce(sum(cost_nanos), 0)
    from skill_invocations where skill_name = ? group by model order by model
"""
VERSIONS = """
    select model, skill_version, count(*) from skill_invocations
    where skill_name = ? and skill_version is not null
    group by model, skill_version order by 3 desc, skill_version
"""


class Arm(Struct, frozen=True, kw_only=True):
    """A skill's runs on one model; rates are over known outcomes, costs over known costs."""

    model: str | None
    runs: int
    successes: int
    failures: int
    unknown: int
    success_rate: float | None
    low: float
    high: float
    unpriced: int
    cost_per_call: float | None
    cost_per_success: float | None
    versions: list[str]


class Pairing(Struct, frozen=True, kw_only=True):
    """A cheaper model against the dearest: `probability` that it succeeds as often, less a margin.

    `more_runs` of each would settle it at the rates seen so far; None where none would, or where
    nobody can tell.
    """

    cheaper: str | None
    dearer: str | None
    probability: float | None
    is_settled: bool
    more_runs: int | None


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
    """Compare a skill's runs on the cheaper models with those on the dearest.

    Good enough is a success rate of at most `margin` below the dearest one's, with a probability
    of 0.95; "not enough data" is a proper answer.
    """
    _check_margin(margin)
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
        verdict=_judge(skill, arms, pairs, margin),
        notes=_find_notes(arms),
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
        hint = (
            f"there are {', '.join(sorted(known)[:8])}" if known else "run `relight import` first"
        )
        raise RelightError(f"no use of a skill {skill!r} is recorded", hint)
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


def _dearest_first(arm: Arm) -> tuple[bool, float]:
    """Models without a known cost come last: they may be the free ones that run at home."""
    return arm.cost_per_call is None, -(arm.cost_per_call or 0)


def _choose(arms: Sequence[Arm], models: Sequence[str], skill: str) -> list[Arm]:
    by_name = {arm.model: arm for arm in arms}
    for name in models:
        if name not in by_name:
            names = ", ".join(arm.model or "unknown" for arm in arms)
            raise RelightError(f"{skill} never ran on {name!r}", f"it ran on {names}")
    return [by_name[name] for name in dict.fromkeys(models)]


def _pair(dearer: Arm, cheaper: Arm, margin: float) -> Pairing:
    a, b = (dearer.successes, dearer.failures), (cheaper.successes, cheaper.failures)
    if not sum(a) or not sum(b):
        return Pairing(
            cheaper=cheaper.model,
            dearer=dearer.model,
            probability=None,
            is_settled=False,
            more_runs=None,
        )
    probability = probability_at_least(a, b, margin=margin)
    return Pairing(
        cheaper=cheaper.model,
        dearer=dearer.model,
        probability=probability,
        is_settled=not 1 - CERTAINTY < probability < CERTAINTY,
        more_runs=runs_to_settle(a, b, margin=margin, certainty=CERTAINTY),
    )


def _judge(skill: str, arms: Sequence[Arm], pairs: Sequence[Pairing], margin: float) -> str:
    """One sentence: the cheapest model that is good enough, or why nobody can say."""
    known = [arm for arm in arms if arm.success_rate is not None]
    if len(known) < 2:
        which = f"only {_name(known[0].model)} has" if known else "no model has"
        return f"Not enough data: {which} runs of {skill} with a known outcome."
    good = [pair for pair in pairs if pair.is_settled and (pair.probability or 0) >= CERTAINTY]
    if good:
        pair = good[-1]
        return (
            f"{_name(pair.cheaper)} is good enough for {skill}: with a probability of"
            f" {pair.probability:.0%} it succeeds as often as {_name(pair.dearer)}, less"
            f" {_points(margin)} at most{_tell_saving(arms, pair)}."
        )
    open_pairs = [pair for pair in pairs if not pair.is_settled and pair.probability is not None]
    if not open_pairs:
        worse = " and ".join(_name(pair.cheaper) for pair in pairs if pair.is_settled)
        verb = "are" if " and " in worse else "is"
        return (
            f"{worse} {verb} not good enough for {skill}: with a probability of"
            f" {CERTAINTY:.0%} or more the success rate is over {_points(margin)} below that of"
            f" {_name(pairs[0].dearer)}."
        )
    pair = min(open_pairs, key=lambda one: (one.more_runs is None, one.more_runs or 0))
    more = (
        f"about {pair.more_runs:,} more runs of each would settle it"
        if pair.more_runs
        else "at these rates more runs would hardly settle it"
    )
    return (
        f"Not enough data: that {_name(pair.cheaper)} succeeds as often as {_name(pair.dearer)} at"
        f" {skill}, less {_points(margin)} at most, has a probability of {pair.probability:.0%};"
        f" {more}."
    )


def _tell_saving(arms: Sequence[Arm], pair: Pairing) -> str:
    costs = {arm.model: arm.cost_per_success for arm in arms}
    cheap, dear = costs[pair.cheaper], costs[pair.dearer]
    if cheap is None or dear is None:
        return ""
    return f", at ${cheap:.4g} a success in place of ${dear:.4g}"


def _find_notes(arms: Sequence[Arm]) -> list[str]:
    """What a reader of the verdict must know: other versions, and costs nobody knows."""
    notes = []
    if _differ(arms):
        told = [arm for arm in arms if arm.versions]
        each = "; ".join(f"{_name(arm.model)}: {', '.join(arm.versions[:3])}" for arm in told)
        notes.append(
            f"the skill's versions differ between models ({each}), so part of a difference may be"
            " the skill's own"
        )
    if unpriced := [arm.model for arm in arms if arm.cost_per_call is None]:
        names = ", ".join(_name(model) for model in unpriced)
        notes.append(
            f'the cost of {names} is unknown: add [prices."{unpriced[0]}"] to config.toml, then run'
            " `relight rebuild --prices`"
        )
    if unknown := sum(arm.unknown for arm in arms):
        notes.append(f"{unknown:,} runs of unknown outcome are left out")
    return notes


def _differ(arms: Sequence[Arm]) -> bool:
    """Whether models ran other versions; a declared one and a hash may be of the same text."""
    for is_hash in (False, True):
        told = [{v for v in arm.versions if v.startswith("sha256:") is is_hash} for arm in arms]
        if len({frozenset(versions) for versions in told if versions}) > 1:
            return True
    return False


def _check_margin(margin: object) -> None:
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < 1:
        raise RelightError(f"margin must be from 0 up and below 1, not {margin!r}")


def _name(model: str | None) -> str:
    return model or "an unknown model"


def _points(margin: float) -> str:
    return f"{margin * 100:g} points"
