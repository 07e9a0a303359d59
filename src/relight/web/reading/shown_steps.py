"""The steps of a session that a page shows: by kind, tool and words, one part after another."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup, escape
from msgspec import Struct

from relight.reports.trace import Step
from relight.text import make_line

PART = 100
AROUND = 90  # characters on both sides of a hit
KINDS = ("prompt", "answer", "call", "error", "compaction")
TEXTS = ("text", "arguments", "result", "injected")

TextName = Literal["text", "arguments", "result", "injected"]


class StepChoice(Struct, frozen=True):
    """The steps that are wanted; empty is any."""

    kind: str = ""
    tool: str = ""
    find: str = ""

    @property
    def is_any(self) -> bool:
        return not (self.kind or self.tool or self.find)


class StepPart(Struct, frozen=True, kw_only=True):
    """A part of the chosen steps, its number from 1, and how many parts there are."""

    steps: Sequence[Step]
    number: int
    parts: int
    chosen: int

    @property
    def first(self) -> int:
        return (self.number - 1) * PART + 1


def is_error(step: Step) -> bool:
    """True for a call that failed, and for an answer that the model failed to give."""
    return step.label == "error"


def is_prompt(step: Step) -> bool:
    """True for what a person, or an agent in their place, asked."""
    return step.kind == "prompt"


def choose_steps(steps: Sequence[Step], choice: StepChoice) -> list[Step]:
    """Return the steps of a kind and tool that have these words anywhere, also in results."""
    words = choice.find.lower()
    return [
        step
        for step in steps
        if (
            not choice.kind
            or step.kind == choice.kind
            or (choice.kind == "error" and is_error(step))
        )
        and (not choice.tool or step.tool == choice.tool)
        and (not words or any(words in text.lower() for text in _list_texts(step)))
    ]


def cut_chosen(steps: Sequence[Step], *, step: int | None, part: int | None) -> StepPart:
    """Return the part that holds a step, or the part with this number, else the first."""
    parts = max(-(-len(steps) // PART), 1)
    if step is not None:
        # the step itself, or the first after it, if it is not among the chosen
        place = next((at for at, one in enumerate(steps) if one.step >= step), len(steps) - 1)
        part = max(place, 0) // PART + 1
    number = min(max(part or 1, 1), parts)
    shown = steps[(number - 1) * PART : number * PART]
    return StepPart(steps=shown, number=number, parts=parts, chosen=len(steps))


def count_kinds(steps: Sequence[Step]) -> dict[str, int]:
    """Return the number of steps of each kind that there is, in the order of `KINDS`."""
    counts = Counter(step.kind for step in steps)
    failed = sum(map(is_error, steps))
    found = {name: failed if name == "error" else counts[name] for name in KINDS}  # type: ignore[index]
    return {name: number for name, number in found.items() if number}


def list_tools(steps: Sequence[Step]) -> list[tuple[str, int]]:
    """Return the tools of a session and how often each was called, the most frequent first."""
    counts = Counter(step.tool for step in steps if step.tool)
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def find_snippet(step: Step, words: str) -> Markup | None:
    """Return the words around the first hit in a step, which is marked; None without one."""
    for text in _list_texts(step):
        at = text.lower().find(words.lower())
        if at >= 0:
            begin, end = max(at - AROUND, 0), at + len(words) + AROUND
            before, after = "… " if begin else "", " …" if end < len(text) else ""
            return Markup("{}{}{}").format(before, mark_hits(text[begin:end], words), after)
    return None


def mark_hits(text: str, words: str) -> Markup:
    """Return a text on one line with each hit marked.

    >>> mark_hits("a test_price", "PRICE")
    Markup('a test_<mark>price</mark>')
    """
    line = make_line(text, 4 * AROUND)
    if not words:
        return escape(line)
    parts, low, at = [], line.lower(), 0
    # a letter whose small form is longer would move the places
    while len(low) == len(line) and (hit := low.find(words.lower(), at)) >= 0:
        found = line[hit : hit + len(words)]
        parts.append(Markup("{}<mark>{}</mark>").format(line[at:hit], found))
        at = hit + len(words)
    return Markup("").join([*parts, escape(line[at:])])


def _list_texts(step: Step) -> list[str]:
    texts = (step.text, step.command, step.path, step.result, step.arguments, step.injected)
    return [text for text in (*texts, step.tool, step.evidence, step.reason) if text]
