"""The measures of experiments in words: what each is called, how it is told, which way is good."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from relight.stats.rates import Estimate
from relight.text import count, dollars, seconds
from relight.web.charts.intervals import IntervalRow, draw_intervals
from relight.web.charts.svg import find_ticks
from relight.web.rendering import share

Tell = Callable[[float], str]


ARM_COLOURS = {"cold": "s7", "warm": "s1"}


class Words(Struct, frozen=True):
    """How a measure is told; `more_is_better` is None where nobody aims at it."""

    title: str
    tell: Tell
    more_is_better: bool | None = False


WORDS = {
    "success_rate": Words("Task success", share, True),
    "first_30_failure_rate": Words("Failures in the first 30 calls", share),
    "seconds_to_first_success": Words("Time to the first call that worked", seconds),
    "failures_per_session": Words("Failed calls a session", "{:.2f}".format),
    "failures_per_run": Words("Failed calls a run", "{:.2f}".format),
    "tools_per_session": Words("Different tools a session", "{:.2f}".format, None),
    "calls_per_run": Words("Calls a run", "{:.1f}".format, None),
    "tokens_per_session": Words("Tokens a session", count),
    "tokens_per_run": Words("Tokens a run", count),
    "cost_usd_per_session": Words("Cost of a session", dollars),
    "cost_usd_per_run": Words("Cost of a run", dollars),
    "seconds_per_model_call": Words("Time of a model call", seconds),
    "seconds_per_run": Words("Time of a run", seconds),
    "missing_tools_per_session": Words("Calls of missing tools", "{:.2f}".format),
}


def find_words(name: str) -> Words:
    return WORDS.get(name) or Words(name.replace("_", " ").capitalize(), "{:.3g}".format, None)


def tell_measure(
    name: str, arms: Sequence[IntervalRow], difference: Estimate | None, p_value: float | None
) -> dict[str, Any] | None:
    """A measure with its arms drawn and how far they are apart; None of nothing to see."""
    words, estimates = find_words(name), [arm.estimate for arm in arms]
    if not is_telling(*estimates):
        return None
    bounds = find_bounds(words, *estimates)
    return {
        "name": name,
        "title": words.title,
        "chart": draw_intervals(words.title, arms, formatter=words.tell, bounds=bounds),
        "difference": tell_difference(difference, words, p_value),
    }


def is_telling(*arms: Estimate | None) -> bool:
    """Whether there is anything to see: of what never happened there is not."""
    return any(arm is not None and arm.value for arm in arms)


def find_bounds(words: Words, *arms: Estimate | None) -> tuple[float, float]:
    """A scale from nothing to a round figure; of success to all of it."""
    if words.more_is_better and words.tell is share:
        return 0.0, 1.0
    ends = [end for arm in arms if arm for end in (arm.value, arm.high) if end is not None]
    return 0.0, find_ticks(max(ends, default=0.0))[-1]


class Difference(Struct, frozen=True):
    """How far two arms are apart, and whether that is `good` or `bad`; empty where unsure."""

    text: str
    kind: str
    p_value: float | None


def tell_difference(
    found: Estimate | None, words: Words, p_value: float | None
) -> Difference | None:
    if found is None or found.value is None:
        return None
    is_sure = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    kind = ""
    if is_sure and words.more_is_better is not None:
        kind = "good" if (found.value > 0) is words.more_is_better else "bad"

    def sign(value: float) -> str:
        return ("−" if value < 0 else "+") + words.tell(abs(value))

    text = sign(found.value)
    if found.low is not None and found.high is not None:
        text += f" ({sign(found.low)} to {sign(found.high)})"
    return Difference(text, kind, p_value)
