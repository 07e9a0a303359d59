"""Models as arms of a comparison, and what is to be said of them in a sentence."""

from collections.abc import Sequence

from msgspec import Struct

CERTAINTY = 0.95


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
    """A model against the dearest: `probability` that it succeeds as often, less a margin.

    `is_cheaper` is None where a cost is unknown. `more_runs` of each would settle it at the rates
    seen so far; None where none would, or where nobody can tell.
    """

    model: str | None
    against: str | None
    is_cheaper: bool | None
    probability: float | None
    is_settled: bool
    more_runs: int | None


def judge_models(skill: str, arms: Sequence[Arm], pairs: Sequence[Pairing], margin: float) -> str:
    """One sentence: the cheapest model that is good enough, or why nobody can say."""
    known = [arm for arm in arms if arm.success_rate is not None]
    if len(known) < 2:
        which = f"only {_name(known[0].model)} has" if known else "no model has"
        return f"Not enough data: {which} runs of {skill} with a known outcome."
    asked = [pair for pair in pairs if pair.is_cheaper is not False]
    if not asked:
        return f"No model is cheaper than {_name(pairs[0].against)}: a call costs the same on each."
    good = [pair for pair in asked if pair.is_settled and (pair.probability or 0) >= CERTAINTY]
    if good:
        return _tell_good(skill, arms, good, margin)
    if unsettled := [one for one in asked if not one.is_settled and one.probability is not None]:
        return _tell_unsettled(skill, unsettled, margin)
    if worse := [pair for pair in asked if pair.is_settled]:
        return _tell_worse(skill, worse, margin)
    names = " and ".join(_name(pair.model) for pair in asked)
    return f"Not enough data: no run of {skill} on {names} has a known outcome."


def _tell_good(skill: str, arms: Sequence[Arm], good: Sequence[Pairing], margin: float) -> str:
    # the cheapest of those that are known to be cheaper
    pair = next((pair for pair in reversed(good) if pair.is_cheaper), good[-1])
    return (
        f"{_name(pair.model)} is good enough for {skill}: with a probability of"
        f" {_percent(pair.probability)} it succeeds as often as {_name(pair.against)}"
        f"{_within(margin)}{_tell_saving(arms, pair)}."
    )


def _tell_unsettled(skill: str, unsettled: Sequence[Pairing], margin: float) -> str:
    pair = max(unsettled, key=lambda one: one.probability or 0)
    more = "at these rates more runs would hardly settle it"
    if pair.more_runs:
        runs = "run" if pair.more_runs == 1 else "runs"
        more = f"about {pair.more_runs:,} more {runs} of each would settle it"
    return (
        f"Not enough data: that {_name(pair.model)} succeeds as often as {_name(pair.against)} at"
        f" {skill}{_within(margin)}{',' if margin else ''} has a probability of"
        f" {_percent(pair.probability)}; {more}."
    )


def _tell_worse(skill: str, worse: Sequence[Pairing], margin: float) -> str:
    names = " and ".join(_name(pair.model) for pair in worse)
    below = f"over {_points(margin)} below" if margin else "below"
    return (
        f"{names} {'are' if len(worse) > 1 else 'is'} not good enough for {skill}: with a"
        f" probability of {CERTAINTY:.0%} or more the success rate is {below} that of"
        f" {_name(worse[0].against)}."
    )


def _tell_saving(arms: Sequence[Arm], pair: Pairing) -> str:
    if pair.is_cheaper is None:
        return "; whether it is cheaper is unknown"
    costs = {arm.model: arm.cost_per_success for arm in arms}
    cheap, dear = costs[pair.model], costs[pair.against]
    if cheap is None or dear is None:
        return ""
    return f", at ${cheap:.4g} a success in place of ${dear:.4g}"


def find_notes(arms: Sequence[Arm]) -> list[str]:
    """What a reader of the verdict must know: other versions, and what nobody knows."""
    notes = []
    if _differ(arms):
        told = [arm for arm in arms if arm.versions]
        each = "; ".join(f"{_name(arm.model)}: {', '.join(arm.versions[:3])}" for arm in told)
        notes.append(
            f"the skill's versions differ between models ({each}), so part of a difference may be"
            " the skill's own"
        )
    unpriced = [arm.model for arm in arms if arm.cost_per_call is None]
    if named := [model for model in unpriced if model is not None]:
        notes.append(
            f'the cost of {", ".join(named)} is unknown: add [prices."{named[0]}"] to config.toml,'
            " then run `relight rebuild --prices`"
        )
    if None in unpriced:
        notes.append("the cost of runs on an unknown model is unknown")
    if partly := sum(arm.unpriced for arm in arms if arm.cost_per_call is not None):
        notes.append(f"{_leave_out(partly, 'unknown or partly known cost')} of the costs")
    if unknown := sum(arm.unknown for arm in arms):
        notes.append(_leave_out(unknown, "unknown outcome"))
    return notes


def _differ(arms: Sequence[Arm]) -> bool:
    """Whether models ran other versions; a declared one and a hash may be of the same text."""
    for is_hash in (False, True):
        told = [{v for v in arm.versions if v.startswith("sha256:") is is_hash} for arm in arms]
        if len({frozenset(versions) for versions in told if versions}) > 1:
            return True
    return False


def _name(model: str | None) -> str:
    return model or "an unknown model"


def _leave_out(number: int, what: str) -> str:
    runs = "1 run" if number == 1 else f"{number:,} runs"
    return f"{runs} of {what} {'is' if number == 1 else 'are'} left out"


def _points(margin: float) -> str:
    return f"{margin * 100:g} points"


def _within(margin: float) -> str:
    return f", less {_points(margin)} at most" if margin else ""


def _percent(probability: float | None) -> str:
    """A share of certainty, which is never all of it.

    >>> _percent(0.9998)
    'over 99%'
    """
    return "over 99%" if (probability or 0) > 0.995 else f"{probability:.0%}"
