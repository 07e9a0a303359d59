"""Lessons: how true and how useful they are, on labelled sessions and in invented repositories.

The rules and patterns were tuned on two thirds of the labelled tasks (`tune`, by a hash of their
names) and on the invented repositories of seeds 1 to 60. The other third (`check`) is shown apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from bench.labelled import Labelled
from bench.measure import judge
from bench.repositories import Planted, Played, play_repository
from bench.warm_speed import Row
from relight.chat.messages import read_entries
from relight.cli.demo.dice import Dice
from relight.judging.features import judge_calls
from relight.judging.lessons import Taught, TaughtSession, derive_lessons, make_key
from relight.judging.recoveries import TriedCall
from relight.judging.stumbles import find_stumbles
from relight.warm.lessons import MOST

FOLDS = 5
HITS = 3
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
SEEDS = range(1001, 1201)
FOUND, TRUE, OWN = 0.90, 0.95, 0.05
# labelled sessions of repositories; elsewhere lessons are only shown
FOLDED = ("swe_mini_dev",)
RECALL, PRECISION, LIKELY = 0.20, 0.30, 0.60


class Shown(NamedTuple):
    """What lessons of four folds met in the fifth."""

    failures: int = 0
    foreseen: int = 0
    given: int = 0
    met: int = 0
    sessions: int = 0

    @property
    def recall(self) -> float:
        return self.foreseen / self.failures if self.failures else 0.0

    @property
    def precision(self) -> float:
        return self.met / self.given if self.given else 0.0


def read_taught(sessions: Sequence[Labelled]) -> dict[str, list[TaughtSession]]:
    """The stumbles of labelled sessions by project."""
    found: dict[str, list[TaughtSession]] = defaultdict(list)
    for number, one in enumerate(sessions):
        found[one.project or ""].append(TaughtSession(number, None, find_stumbles(read_calls(one))))
    return found


def read_calls(one: Labelled) -> list[TriedCall]:
    made = [call for entry in read_entries(one.messages) for call in entry.calls]
    verdicts = judge_calls(made, facts=one.calls)
    return [
        TriedCall(
            step=step,
            tool=call.tool,
            arguments=call.arguments,
            result=str(call.result or ""),
            label=verdict.label,
            kind=verdict.kind,
            evidence=verdict.evidence,
        )
        for step, (call, verdict) in enumerate(zip(made, verdicts, strict=True), 1)
    ]


def fold(session: TaughtSession) -> int:
    return int.from_bytes(sha256(str(session.session_id).encode()).digest(), "big") % FOLDS


def choose_sure(lessons: Sequence[Taught], *, least: float) -> list[Taught]:
    """The lessons that an agent would get."""
    return [one for one in lessons if one.is_sure and one.probability >= least][:MOST]


def fold_lessons(
    taught: Mapping[str, Sequence[TaughtSession]], failures: Mapping[int, int], *, least: float
) -> Shown:
    """Derive lessons from four folds of each project, and look for their failures in the fifth."""
    failed = foreseen = given = met = sessions = 0
    for some in taught.values():
        for part in range(FOLDS):
            rest = [one for one in some if fold(one) != part]
            lessons = {
                (one.kind, one.name): one for one in choose_sure(derive_lessons(rest), least=least)
            }
            for session in (one for one in some if fold(one) == part):
                keys = [(one.kind, one.name) for one in session.found.stumbles]
                failed += failures[session.session_id]
                foreseen += sum(key in lessons for key in keys)
                given += len(lessons)
                met += sum(key in keys for key in lessons)
                sessions += bool(lessons)
    return Shown(failed, foreseen, given, met, sessions)


class Invented(NamedTuple):
    """How lessons of invented repositories compare with what was planted in them."""

    planted: int
    found: int
    shown: int
    true: int
    own_failures: int
    own_taught: int


def measure_invented(seeds: Sequence[int]) -> Invented:
    """Find lessons after each planted cause was hit three times, and at the end of a repository."""
    planted = found = shown = true = own = taught = 0
    for seed in seeds:
        played, causes = play_repository(Dice(seed))
        for cause in causes:
            hit = [n for n, one in enumerate(played) if cause.name in one.truth.values()]
            if len(hit) >= HITS:
                planted += 1
                early = derive_lessons(one.session for one in played[: hit[HITS - 1] + 1])
                found += any(is_true(one, played, [cause]) for one in early)
        lessons = derive_lessons(one.session for one in played)
        shown += len(lessons)
        true += sum(is_true(one, played, causes) for one in lessons)
        own += sum(cause is None for one in played for cause in one.truth.values())
        taught += sum(
            played[session].truth[step] is None for one in lessons for session, step in one.evidence
        )
    return Invented(planted, found, shown, true, own, taught)


def is_true(lesson: Taught, played: Sequence[Played], causes: Sequence[Planted]) -> bool:
    """True if all evidence of a lesson is of one planted cause, and its cure is that cause's."""
    names = {played[session].truth[step] for session, step in lesson.evidence}
    return any(names == {one.name} and is_cure(lesson.cure, one) for one in causes)


def is_cure(cure: str, cause: Planted) -> bool:
    """True if a cure is the planted one; what stands for a path differs by task."""
    wanted = re.escape(cause.cure).replace(r"\{test\}", r"\S+").replace(r"\{area\}", r"\S+")
    return bool(re.fullmatch(wanted, cure))


def measure_lessons(file: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    """How many failures lessons of other sessions foresee, and how many lessons meet theirs."""
    if not any(one.project for one in sessions):
        return
    taught = read_taught(sessions)
    failures = {
        number: sum(call.label == "error" for call in read_calls(one))
        for number, one in enumerate(sessions)
    }
    aside = {number for number, one in enumerate(sessions) if is_aside(one)}
    parts = {"all": set(failures), "tune": failures.keys() - aside, "check": aside}
    for part, numbers in parts.items():
        some = {
            project: [one for one in every if one.session_id in numbers]
            for project, every in taught.items()
        }
        print(f"\n{file}, lessons, {part}: {len(numbers)} sessions")
        print(f"  ceiling: {measure_ceiling(some, failures):.3f} of the failures were seen before")
        for least in SHARES:
            print(f"  p >= {least:.2f}: {describe(fold_lessons(some, failures, least=least))}")
    for project, every in sorted(taught.items()):
        for lesson in derive_lessons(every):
            print(f"  {project}: {'sure' if lesson.is_sure else 'shown'}: {lesson.text}")
    if file not in FOLDED:
        return
    shown, likely = (fold_lessons(taught, failures, least=least) for least in (0.1, 0.3))
    yield (f"{file}: failures with a lesson before", *compare(shown.recall, RECALL))
    yield (f"{file}: lessons that met their failure", *compare(shown.precision, PRECISION))
    yield (f"{file}: the same from p = 0.3 on", *compare(likely.precision, LIKELY))


def measure_ceiling(
    taught: Mapping[str, Sequence[TaughtSession]], failures: Mapping[int, int]
) -> float:
    """The share of failures whose cause a session of another fold had, once or more."""
    seen = failed = 0
    for some in taught.values():
        for part in range(FOLDS):
            rest = (one for one in some if fold(one) != part)
            known = {make_key(stumble) for one in rest for stumble in one.found.stumbles}
            for session in (one for one in some if fold(one) == part):
                failed += failures[session.session_id]
                seen += sum(make_key(one) in known for one in session.found.stumbles)
    return seen / failed if failed else 0.0


def measure_repositories() -> Iterator[Row]:
    """The figures of invented repositories, with seeds that nothing was tuned on."""
    found = measure_invented(SEEDS)
    yield ("planted causes found after 3 hits", *compare(found.found / found.planted, FOUND))
    yield ("lessons of invented repositories true", *compare(found.true / found.shown, TRUE))
    share = found.own_taught / found.own_failures
    yield ("own failures that became a lesson", f"{share:.1%}", f"{OWN:.0%}", judge(share, OWN))


def compare(figure: float, limit: float) -> tuple[str, str, str]:
    return f"{figure:.3f}", f"{limit:.2f}", judge(limit, figure)


def describe(shown: Shown) -> str:
    return (
        f"recall {shown.recall:.3f} ({shown.foreseen} of {shown.failures} failures),"
        f" precision {shown.precision:.3f} ({shown.met} of {shown.given} lessons),"
        f" {shown.sessions} sessions given one"
    )


def is_aside(one: Labelled) -> bool:
    """True for the third of tasks that the rules were not tuned on."""
    return int.from_bytes(sha256(one.task.encode()).digest(), "big") % 3 == 0
