"""A session's prompts, each with its cost, its time and how it ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from relight.reports.trace import Step
from relight.times import read_time
from relight.web.reading.shown_steps import is_error

Span = tuple[int, int]  # begin and end in Unix milliseconds
N = TypeVar("N", int, float)
MOST_PROMPTS = 300


class PromptEntry(Struct, frozen=True, kw_only=True):
    """A prompt and what followed it, up to the next.

    `outcome` is known if tests ran, or if the last call failed; the times are in milliseconds.
    The cost is unknown if the agent records only sums for the whole session.
    """

    step: int
    name: str
    at: int | None
    cost_usd: float | None
    unpriced: int
    steps: int
    errors: int
    outcome: str | None
    evidence: str
    model_ms: int
    tool_ms: int
    waited_ms: int


class StepSpans(Struct, frozen=True):
    """The times when the model and tools were busy, and when the agent waited for a person.

    `summed_ms` is the model's time that is only known as a sum of several calls.
    """

    model: list[Span]
    tool: list[Span]
    failed: list[Span]
    waiting: list[Span]
    summed_ms: int = 0


def make_outline(steps: Sequence[Step], tests: Mapping[int, str]) -> list[PromptEntry]:
    """Return the prompts of a session; `tests` are the results of test runs by step."""
    places = [at for at, step in enumerate(steps) if step.kind == "prompt"]
    if steps and (not places or places[0] > 0):
        places = [0, *places]
    # what the agent only counts for the whole session belongs to no prompt, unless it has one
    sums = [step for step in steps if is_sum(step)] if len(places) > 1 else []
    found = []
    for begin, end in pairwise([*places, len(steps)]):
        part, before = steps[begin:end], steps[begin - 1] if begin else None
        spans = find_spans(part, before)
        cost, unpriced = _add_costs(part, sums) if sums else _find_cost(part[-1], before)
        outcome, evidence = _find_outcome(part, tests)
        found.append(
            PromptEntry(
                step=part[0].step,
                name=_find_name(part[0]),
                at=read_time(part[0].at),
                cost_usd=cost,
                unpriced=unpriced,
                steps=len(part),
                errors=sum(map(is_error, part)),
                outcome=outcome,
                evidence=evidence,
                model_ms=sum_spans(spans.model),
                tool_ms=sum_spans(spans.tool),
                waited_ms=sum_spans(spans.waiting),
            )
        )
    return found


def is_sum(step: Step) -> bool:
    """True for figures of several model calls, of which only the sum was recorded."""
    return step.usage_status == "reconciled" or (step.turns or 0) > 1


def _find_name(step: Step) -> str:
    """Return the words of a prompt: those that a person typed, else those that the agent added."""
    if step.kind != "prompt":
        return "before the first prompt"
    return step.text or step.injected or "a prompt without words"


def _find_cost(last: Step, before: Step | None) -> tuple[float | None, int]:
    """Return the cost of the steps up to the last, and how many of their turns have no price."""
    known = 0.0 if before is None else before.running_cost_usd
    cost = None if last.running_cost_usd is None else last.running_cost_usd - (known or 0.0)
    unpriced = last.running_unpriced_turns - (before.running_unpriced_turns if before else 0)
    return None if unpriced and not cost else cost, unpriced


def _add_costs(part: Sequence[Step], sums: Sequence[Step]) -> tuple[float | None, int]:
    """Return the cost of the calls that are recorded one by one, and how many have no price.

    Calls that are only in the sums make it a lower bound.
    """
    own = [step for step in part if step.turns is not None and not is_sum(step)]
    known = [step.cost_usd for step in own if step.cost_usd is not None]
    if not known:
        return None, len(own)
    return sum(known), len(own) - len(known) + any(step.turns for step in sums)


def _find_outcome(part: Sequence[Step], tests: Mapping[int, str]) -> tuple[str | None, str]:
    """Return what the steps after a prompt prove: the tests run last, else a failed last call."""
    calls = [step for step in part if step.kind == "call"]
    ran = [tests[step.step] for step in calls if step.step in tests]
    if ran:
        return ("success" if ran[-1] == "passed" else "failure"), f"tests {ran[-1]}"
    if calls and is_error(calls[-1]):
        return "failure", "last call failed"
    return None, ""


def find_spans(steps: Sequence[Step], before: Step | None = None) -> StepSpans:
    """Return the times of steps; a response is recorded when it arrives, a call when it begins."""
    found, summed = StepSpans([], [], [], []), 0
    last = None if before is None else read_time(before.ended_at) or read_time(before.at)
    for step in steps:
        at = read_time(step.at)
        if is_sum(step):
            # it stands at one time, but its calls were at many
            summed += step.model_ms or 0
            continue
        if at is None:
            continue
        if step.model_ms:
            found.model.append((at - step.model_ms, at))
        end = at
        if step.kind == "call" and step.duration_ms:
            end = at + step.duration_ms
            (found.failed if is_error(step) else found.tool).append((at, end))
        elif step.kind == "prompt" and last is not None and at > last:
            found.waiting.append((last, at))
        if step.kind != "pause":
            last = max(last or end, end)
    found.tool.extend(found.failed)
    return replace(found, summed_ms=summed)


def sum_spans(spans: Sequence[Span]) -> int:
    """Return the time that some spans cover together; one that ends before it begins covers none.

    >>> sum_spans([(0, 5), (3, 8), (10, 11), (20, 14)])
    9
    """
    return sum(max(end - begin, 0) for begin, end in merge_spans(spans, 0))


def merge_spans(spans: Iterable[tuple[N, N]], gap: float) -> Iterator[tuple[N, N]]:
    """Yield spans in order, those that touch or are closer than `gap` as one.

    >>> list(merge_spans([(5, 7), (0, 2), (2, 4)], 0))
    [(0, 4), (5, 7)]
    """
    last: tuple[N, N] | None = None
    for begin, end in sorted(spans):
        if last is not None and begin - last[1] <= gap:
            last = (last[0], max(last[1], end))
        else:
            if last is not None:
                yield last
            last = (begin, end)
    if last is not None:
        yield last
