"""Causes of a change in a series of runs: model, skill, agent, prompt, template, failing tools."""

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from relight.store import Store
from relight.store.queries.run_series import RunFact, SeriesRun, read_run_facts
from relight.times import write_time

# runs on either side of the change that are compared
BESIDE = 40
# the true change is rarely further from the named run than this, and mostly before it
EARLIER, LATER = 12, 4
# a switch is clear if so many of ten runs on each side agree
SIDE, AGREEING, FEWEST_BEFORE, FEWEST_AFTER = 10, 0.8, 5, 3
# a tool's failures are named if they are in so many runs more
FEWEST_FAILURES, LEAST_SHARE, TIMES_AS_OFTEN, MOST_TOOLS = 3, 0.25, 3, 2
NOT_USED = "none"


class ChangedFact(Struct, frozen=True, kw_only=True):
    """Something that changed at the same time as a series; `at` is the first run with it."""

    kind: str
    name: str | None
    before: str | None
    after: str | None
    at: str | None
    text: str


def find_changes(
    store: Store, runs: Sequence[SeriesRun], since: int, *, has_model: bool = True
) -> list[ChangedFact]:
    """Return what changed about the runs of a series near a moment; never a cause, only a time."""
    center = sum(run.at < since for run in runs)
    near = runs[max(0, center - BESIDE) : center + BESIDE]
    center -= max(0, center - BESIDE)
    sessions = sorted({run.session_id for run in near if run.session_id is not None})
    facts: dict[int, list[RunFact]] = {}
    for fact in read_run_facts(store, sessions):
        facts.setdefault(fact.session_id, []).append(fact)
    found = []
    for kind, name, values in _list_values(near, facts, has_model=has_model):
        switch = find_switch(values, center)
        if switch is not None:
            place, before, after = switch
            at, day = near[place].at, format_day(near[place].at, store.timezone)
            text = f"On {day} {_describe(kind, name, before, after)}"
            found.append(
                ChangedFact(
                    kind=kind,
                    name=name,
                    before=None if before is None else str(before),
                    after=None if after is None else str(after),
                    at=write_time(at),
                    text=text,
                )
            )
    return [*found, *_find_failing_tools(near, facts, center)]


def find_switch(values: Sequence[Hashable], center: int) -> tuple[int, Hashable, Hashable] | None:
    """Return the run near the center from which on a value is another, and both values.

    None is an unknown value. A value that goes to and fro is no switch.

    >>> find_switch(["2.1"] * 20 + ["2.2"] * 9, 24)
    (20, '2.1', '2.2')
    >>> find_switch(["a", "b"] * 15, 15)
    """
    best: tuple[float, int, Hashable, Hashable] | None = None
    for place in range(max(1, center - EARLIER), min(len(values), center + LATER)):
        before = [one for one in values[max(0, place - SIDE) : place] if one is not None]
        after = [one for one in values[place : place + SIDE] if one is not None]
        if len(before) < FEWEST_BEFORE or len(after) < FEWEST_AFTER:
            continue
        (old, olds), (new, news) = (
            Counter(before).most_common(1)[0],
            Counter(after).most_common(1)[0],
        )
        shares = olds / len(before), news / len(after)
        if old == new or min(shares) < AGREEING or values[place] != new:
            continue
        if best is None or sum(shares) > best[0]:
            best = (sum(shares), place, old, new)
    return best and best[1:]


def format_day(at: int, timezone: str) -> str:
    """Return a day as people say it.

    >>> format_day(1793664000000, "UTC")
    '3 Nov 2026'
    """
    moment = datetime.fromtimestamp(at / 1000, ZoneInfo(timezone))
    return f"{moment.day} {moment:%b %Y}"


def _list_values(
    runs: Sequence[SeriesRun], facts: dict[int, list[RunFact]], *, has_model: bool
) -> list[tuple[str, str | None, list[str | None]]]:
    """Return each fact that may have changed, by kind and name, with its value in every run."""
    listed: list[tuple[str, str | None, list[str | None]]] = []
    if has_model:
        listed.append(("model", None, [run.model for run in runs]))
    own = [facts.get(run.session_id or 0, []) for run in runs]
    names = {(one.kind, one.name) for found in own for one in found if one.kind != "tool failure"}
    for kind, name in sorted(names, key=lambda one: (one[0], one[1] or "")):
        values: list[str | None] = []
        for found in own:
            value = next((one.value for one in found if (one.kind, one.name) == (kind, name)), None)
            # a session without a skill or a template has none; one without a version does not say
            is_none = value is None and bool(found) and kind in ("skill", "template")
            values.append(NOT_USED if is_none else value)
        listed.append((kind, name, values))
    return listed


def _describe(kind: str, name: str | None, before: Hashable, after: Hashable) -> str:
    if kind == "prompt":
        return "its prompt changed"
    what = {"skill": f"its skill {name}", "agent version": name}.get(kind, f"its {kind}")
    return f"{what} went from {_shorten(before)} to {_shorten(after)}"


def _shorten(value: Hashable) -> str:
    """Return a version in a sentence; of a hash the first digits."""
    text = str(value)
    return text[:15] if text.startswith("sha256:") else text


def _find_failing_tools(
    runs: Sequence[SeriesRun], facts: dict[int, list[RunFact]], center: int
) -> list[ChangedFact]:
    """Return the failures of tools that are in many more runs than before."""
    counts: tuple[Counter[tuple[str | None, str | None]], ...] = (Counter(), Counter())
    sessions = [0, 0]
    for place, run in enumerate(runs):
        if run.session_id is None:
            continue
        side = int(place >= center)
        sessions[side] += 1
        for one in facts.get(run.session_id, []):
            if one.kind == "tool failure":
                counts[side][one.name, one.value] += 1
    found = []
    for (tool, kind), number in counts[1].most_common():
        share, earlier = number / sessions[1], counts[0][tool, kind]
        usual = (earlier + 0.5) / (sessions[0] + 1)
        if number < FEWEST_FAILURES or share < max(LEAST_SHARE, TIMES_AS_OFTEN * usual):
            continue
        text = (
            f"{tool} fails{f' with {kind}' if kind else ''} in {number} of {sessions[1]} runs"
            f" ({earlier} of {sessions[0]} before)"
        )
        found.append(
            ChangedFact(
                kind="tool failure",
                name=tool,
                before=str(earlier),
                after=str(number),
                at=None,
                text=text,
            )
        )
    return found[:MOST_TOOLS]
