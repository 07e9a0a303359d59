"""The effect of lessons: sessions that began with those of their project, and sessions held out.

Three figures are judged in their order: failures by the very causes that the lessons are about,
early failures, success. A later one counts only if those before it are shown, so all together keep
the error of the plan (a fixed sequence). Each has an e-value and may be looked at after every
session: the first by bets on the coin that dealt the lessons, since its chances are known, the
others as the plan of templates has it. The coin of templates is dealt apart, so both its sides are
in each arm.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.reports.lessons import read_new
from relight.stats import evalues
from relight.stats.evalues import FEWEST, FEWEST_DEALT
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.experiments import DealtFilter, read_lesson_sessions, read_session_lessons
from relight.store.provisions import DealtLesson
from relight.store.queries.filters import Filter
from relight.store.stumbles import read_causes
from relight.text import share
from relight.warm.plans import WarmPlan
from relight.work.experiments import warm_verdict
from relight.work.experiments.metrics import FIRST_CALLS, ArmSession, measure_sessions
from relight.work.experiments.warm_verdict import CAUSE, EARLY, READERS, SUCCESS

READ_SECONDS = 5.0
ORDER = (CAUSE, EARLY, SUCCESS)
NOT_ENOUGH = "not enough data"
_TITLES = {
    CAUSE: "Sessions that failed by a cause of their lessons",
    EARLY: f"Failed calls of the first {FIRST_CALLS}",
    SUCCESS: "Sessions that succeeded",
}


class LessonMeasure(Struct, frozen=True, kw_only=True):
    """One figure with and without lessons: a mean of sessions, and the difference.

    `verdict` is "less" or "more" if the difference is shown, and those of the figures before it.
    """

    given: float | None
    held_out: float | None
    given_sessions: int
    held_out_sessions: int
    difference: Estimate | None
    e_value: float | None
    verdict: str


class LessonCounts(Struct, frozen=True):
    """One lesson: the sessions it was dealt to, and how many of them failed by its cause."""

    lesson: str
    text: str
    given_sessions: int
    given_failed: int
    held_out_sessions: int
    held_out_failed: int


class LessonEffect(Struct, frozen=True, kw_only=True):
    """The effect of lessons under a plan, in sentences, by figure and by lesson."""

    sentences: list[str]
    sessions: dict[str, int]
    # sessions whose failures were not read yet
    unread: int
    measures: dict[str, LessonMeasure]
    lessons: list[LessonCounts]


class _Dealt(Struct, frozen=True):
    """A session of an arm with the lessons it was dealt, and the causes it failed by."""

    session: ArmSession
    lessons: Sequence[DealtLesson]
    causes: set[tuple[str, str, str]] | None


def read_lesson_effect(store: Store, plan: WarmPlan, among: DealtFilter) -> LessonEffect | None:
    """Return the effect of lessons on the sessions of a plan; None if none was dealt any."""
    found = read_lesson_sessions(store, among)
    if not found:
        return None
    read_new(store, Filter(), seconds=READ_SECONDS)
    lessons = read_session_lessons(store, among)
    causes = read_causes(store, [one.id for one in found])
    dealt = []
    for row, session in zip(found, measure_sessions(store, found), strict=True):
        own, known = lessons[row.id], causes.get(row.id)
        hit = None if known is None else any(_name_cause(one) in known for one in own)
        dealt.append(_Dealt(replace(session, is_hit=hit), own, known))
    effect = compare_lessons(
        [one.session for one in dealt], plan, hold_out=float(store.config.lessons.hold_out)
    )
    return replace(effect, lessons=_count_by_lesson(dealt))


def compare_lessons(
    sessions: Sequence[ArmSession], plan: WarmPlan, *, hold_out: float
) -> LessonEffect:
    """Return the comparison of sessions with lessons (`warm`) and those held out (`cold`)."""
    measures: dict[str, LessonMeasure] = {}
    is_open = True  # all figures before are shown
    for name in ORDER:
        measures[name] = _compare(sessions, name, plan, is_open=is_open)
        is_open = is_open and measures[name].verdict != NOT_ENOUGH
    unread = sum(one.is_hit is None for one in sessions)
    texts = [_describe(name, one) for name, one in measures.items()]
    missing = next((name for name in ORDER if measures[name].verdict == NOT_ENOUGH), None)
    if missing is not None and plan.ended_at is None:
        texts.append(_describe_needed(missing, sessions, plan, hold_out))
    return LessonEffect(
        sentences=texts,
        sessions={
            "given": sum(one.arm == "warm" for one in sessions),
            "held_out": sum(one.arm == "cold" for one in sessions),
        },
        unread=unread,
        measures=measures,
        lessons=[],
    )


def _compare(
    sessions: Sequence[ArmSession], name: str, plan: WarmPlan, *, is_open: bool
) -> LessonMeasure:
    deals = warm_verdict.group_deals(sessions, name)
    found = warm_verdict.weigh_figure(deals, name, plan) if deals else None
    e_value = None if found is None else found.e_value
    arms = {
        arm: evalues.sum_values(
            [v for one in sessions if one.arm == arm if (v := READERS[name](one)) is not None]
        )
        for arm in ("warm", "cold")
    }
    given, held = arms["warm"], arms["cold"]
    if name == CAUSE:
        has_enough = min(given.sessions, held.sessions) >= FEWEST_DEALT
        e_value = evalues.weigh_bets(_count_dealt(sessions)) if has_enough else None
    verdict = NOT_ENOUGH
    if is_open and e_value is not None and e_value >= 1 / plan.error:
        verdict = "more" if given.mean > held.mean else "less"
    return LessonMeasure(
        given=given.mean if given.sessions else None,
        held_out=held.mean if held.sessions else None,
        given_sessions=int(given.sessions),
        held_out_sessions=int(held.sessions),
        difference=None if found is None else _limit(found, verdict),
        e_value=e_value,
        verdict=verdict,
    )


def _limit(found: evalues.Evidence, verdict: str) -> Estimate:
    """Return a difference whose interval ends at 0 where the bets have shown its direction."""
    low = max(found.low, 0.0) if verdict == "more" else found.low
    high = min(found.high, 0.0) if verdict == "less" else found.high
    return Estimate(found.difference, low, high)


def _count_dealt(sessions: Sequence[ArmSession]) -> list[evalues.DealtCounts]:
    """Return hits and sessions by the chance of lessons; without a chance there is no bet."""
    counts: dict[float, list[int]] = {}
    for one in sessions:
        if one.is_hit is not None and one.hold_out is not None and 0 < one.hold_out < 1:
            own = counts.setdefault(one.hold_out, [0, 0, 0, 0])
            place = 2 if one.arm == "warm" else 0
            own[place] += one.is_hit
            own[place + 1] += 1
    return [evalues.DealtCounts(1 - hold_out, *own) for hold_out, own in counts.items()]


def _describe(name: str, one: LessonMeasure) -> str:
    """Return a figure in a sentence that ends with its verdict."""
    if not one.given_sessions and not one.held_out_sessions:
        return f"{_TITLES[name]}: {NOT_ENOUGH}, none is known."
    if name == EARLY:
        arms = (
            f"{share(one.given)} in {one.given_sessions:,} sessions with lessons",
            f"{share(one.held_out)} in {one.held_out_sessions:,} without",
        )
    else:
        arms = (
            f"{_count(one.given, one.given_sessions)} with lessons",
            f"{_count(one.held_out, one.held_out_sessions)} without",
        )
    text = f"{_TITLES[name]}: {arms[0]} against {arms[1]}"
    found = one.difference
    fewest = FEWEST_DEALT if name == CAUSE else FEWEST
    if min(one.given_sessions, one.held_out_sessions) < fewest:
        return f"{text}: {NOT_ENOUGH}, a comparison begins with {fewest} sessions in each arm."
    if found is not None and found.low is not None and found.high is not None:
        less = "less" if name == EARLY else "fewer"
        text += f" ({warm_verdict.describe_interval(found.low, found.high, less)})"
    if one.verdict == NOT_ENOUGH:
        return f"{text}: {NOT_ENOUGH}."
    return f"{text}: shown."


def _count(rate: float | None, sessions: int) -> str:
    return f"{(rate or 0) * sessions:.0f} of {sessions:,}"


def _describe_needed(
    name: str, sessions: Sequence[ArmSession], plan: WarmPlan, hold_out: float
) -> str:
    """Return how many more sessions show the planned effect on a figure."""
    effect = warm_verdict.describe_points(warm_verdict.find_effect(plan, name))
    word = "more" if name == SUCCESS else "less" if name == EARLY else "fewer"
    if name == CAUSE:
        needed = evalues.count_more_dealt(
            _count_dealt(sessions), fall=plan.cause_effect, hold_out=hold_out, error=plan.error
        )
    else:
        pace = warm_verdict.Pace(hold_out, 0.0, len(sessions))
        outlook = warm_verdict.look_ahead(
            warm_verdict.group_deals(sessions, name), name, plan, pace
        )
        needed = evalues.count_more_sessions([outlook], hold_out=hold_out, error=plan.error)
    if needed is None:
        return "How many more sessions it takes is not known yet."
    return (
        f"If the planned {effect} points {word} are true, about {needed:,} more sessions show it."
    )


def _count_by_lesson(dealt: Sequence[_Dealt]) -> list[LessonCounts]:
    """Return each lesson's counts, of the sessions whose failures are known, most dealt first."""
    counts: dict[str, list[int]] = {}
    texts: dict[str, str] = {}
    for one in dealt:
        for lesson in one.lessons if one.causes is not None else ():
            texts[lesson.id] = lesson.text
            own = counts.setdefault(lesson.id, [0, 0, 0, 0])
            place = 0 if one.session.arm == "warm" else 2
            own[place] += 1
            own[place + 1] += _name_cause(lesson) in (one.causes or ())
    found = [LessonCounts(name, texts[name], *own) for name, own in counts.items()]
    return sorted(found, key=lambda one: (-one.given_sessions - one.held_out_sessions, one.lesson))


def _name_cause(lesson: DealtLesson) -> tuple[str, str, str]:
    return lesson.kind, lesson.program, lesson.name
