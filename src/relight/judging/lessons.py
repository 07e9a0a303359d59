"""Lessons: causes that several sessions of a project stumbled over, and the cure that they share.

One session is not enough evidence: what looks like a cause is mostly the bug that the task is about
or the agent's own edit. A lesson claims no more than was seen: the cause failed in k of n sessions,
and this worked in m of them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from relight.judging.command_forms import describe_cause
from relight.judging.recoveries import Stumble
from relight.judging.stumbles import SessionStumbles
from relight.names import blake2b
from relight.stats.rates import decay
from relight.text import count

LEAST_SESSIONS, LEAST_SHARE = 2, 0.25
# from here on a lesson is sure and frequent enough for agents
SURE_SESSIONS, SURE_PROBABILITY = 3, 0.1
CONTRADICTED = 0.5  # of the sessions that ran a program
STREAK = 0.05  # the chance of a streak without failures if nothing had changed
HALF_LIFE_DAYS = 30.0  # as of the results of templates
_DAY_MS = 86_400_000
MOST_EVIDENCE = 20
NAMED_PROGRAMS = 3
# kinds of causes that are about a program, whatever its message names
OF_PROGRAM = frozenset(("unknown_option", "too_long", "failed", "tool"))

Key = tuple[str, str, str]


class TaughtSession(Struct, frozen=True):
    """A session of a project with its stumbles, and the causes of the lessons it began with."""

    session_id: int
    at: int | None
    found: SessionStumbles
    given: frozenset[Key] = frozenset()


class Taught(Struct, frozen=True, kw_only=True):
    """A lesson: a cause, the cure that sessions share, and the evidence for both.

    `hit` of `of_sessions` sessions of the project failed by the cause, `cured` of them with the
    cure. Sessions that began with the lesson are in no count. `probability` is that of the next
    session, where newer sessions weigh more; `saving` the calls it would save a session. `evidence`
    are sessions, newest first, with their failed steps.
    """

    id: str
    key: Key
    programs: tuple[str, ...]
    cure: str
    seen: int
    hit: int
    of_sessions: int
    cured: int
    probability: float
    saving: float
    last_at: int | None
    burnt_nanos: int | None
    evidence: tuple[tuple[int, int], ...]

    @property
    def kind(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[2]

    @property
    def is_sure(self) -> bool:
        """True if it is sure and frequent enough for agents."""
        return self.hit >= SURE_SESSIONS and self.probability >= SURE_PROBABILITY

    @property
    def cause(self) -> str:
        """The cause in words, with the programs that fail by it."""
        shown = [f"`{one}`" for one in self.programs[:NAMED_PROGRAMS]]
        words = describe_cause(self.kind, self.name)
        return f"{', '.join(shown)}: {words}" if shown else words

    @property
    def text(self) -> str:
        """One sentence each for the failure and the cure; nothing that was not seen."""
        return (
            f"{self.cause} ({count(self.hit)} of {count(self.of_sessions)} sessions)."
            f" What worked: {self.cure} ({count(self.cured)} sessions)."
        )


class _Hit(Struct):
    """The stumbles of one session by one cause."""

    session: TaughtSession
    stumbles: list[Stumble]

    @property
    def cures(self) -> set[str]:
        return {one.cure for one in self.stumbles if one.cure}

    @property
    def evidence(self) -> tuple[int, int]:
        first = self.stumbles[0]
        return first.session_id or self.session.session_id, first.step

    @property
    def is_recovered(self) -> bool:
        return any(one.is_recovered for one in self.stumbles)


def derive_lessons(sessions: Iterable[TaughtSession]) -> list[Taught]:
    """Return the lessons of one project's sessions, those that save most first."""
    ordered = sorted(sessions, key=_order)
    weights = _weigh(ordered)
    found = [
        lesson
        for key, hits in find_stumbled(ordered).items()
        if (lesson := _derive(key, hits, ordered, weights))
    ]
    found.sort(key=lambda one: (-one.probability * one.saving, -one.hit, one.id))
    # of those that name the same programs and the same cause, the best
    kept: dict[tuple[str, tuple[str, ...], str], Taught] = {}
    for one in found:
        kept.setdefault((one.kind, tuple(sorted(one.programs)), one.cure), one)
    return list(kept.values())


def _order(session: TaughtSession) -> tuple[int, int]:
    return session.at or 0, session.session_id


def find_stumbled(sessions: Iterable[TaughtSession]) -> dict[Key, list[_Hit]]:
    """Return the sessions that stumbled over each cause."""
    hits: dict[Key, list[_Hit]] = defaultdict(list)
    for session in sessions:
        by_key: dict[Key, list[Stumble]] = defaultdict(list)
        for one in session.found.stumbles:
            by_key[make_key(one)].append(one)
        for key, some in by_key.items():
            hits[key].append(_Hit(session, some))
    return hits


def make_key(stumble: Stumble) -> Key:
    """Return what makes two stumbles the same cause."""
    program = stumble.program if stumble.kind in OF_PROGRAM else ""
    return stumble.kind, program, stumble.name


def _derive(
    key: Key,
    hits: Sequence[_Hit],
    sessions: Sequence[TaughtSession],
    weights: Mapping[int, float],
) -> Taught | None:
    """The lesson of a cause; None if the evidence is not enough, contradicts it or is old.

    A lesson that works hides its own failure. So sessions that began with it count neither for nor
    against it; one that failed nevertheless shows that the cause is still there.
    """
    last = hits[-1].session
    hits = [one for one in hits if key not in one.session.given]
    sessions = [one for one in sessions if key not in one.given]
    if len(hits) < LEAST_SESSIONS:
        return None
    shared = _find_cure(hits)
    if shared is None:
        return None
    cure, cured = shared
    programs = _find_programs(hits, sessions)
    if programs is None or _has_stopped(hits, sessions, programs, last=last):
        return None
    stumbles = [one for hit in hits for one in hit.stumbles]
    costs = [one.cost_nanos for one in stumbles if one.cost_nanos is not None]
    hit_weight = math.fsum(weights[hit.session.session_id] for hit in hits)
    return Taught(
        # the same as long as its cause and cure are
        id=blake2b("\0".join((*key, cure)).encode(), digest_size=5).hexdigest(),
        key=key,
        programs=programs,
        cure=cure,
        seen=len(stumbles),
        hit=len(hits),
        of_sessions=len(sessions),
        cured=cured,
        probability=(hit_weight + 0.5)
        / (math.fsum(weights[one.session_id] for one in sessions) + 1),
        saving=sum(one.calls for one in stumbles) / len(hits),
        last_at=last.at,
        burnt_nanos=sum(costs) if costs else None,
        evidence=tuple(hit.evidence for hit in reversed(hits))[:MOST_EVIDENCE],
    )


def _find_cure(hits: Sequence[_Hit]) -> tuple[str, int] | None:
    """The cure that most sessions share, and how many; None if too few share one.

    What fails by the same cause elsewhere is no cure.
    """
    failing = {f"`{one.form}`" for hit in hits for one in hit.stumbles}
    programs = {one.program for hit in hits for one in hit.stumbles if one.kind == "missing"}
    running = tuple(f"`{program}{end}" for program in programs for end in " `")
    counts = Counter(
        cure
        for hit in hits
        for cure in hit.cures
        if cure not in failing and (cure.endswith("first") or not cure.startswith(running))
    )
    recovered = sum(hit.is_recovered for hit in hits)
    for cure, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if number >= LEAST_SESSIONS and number >= LEAST_SHARE * recovered:
            return cure, number
    return None


def _find_programs(
    hits: Sequence[_Hit], sessions: Sequence[TaughtSession]
) -> tuple[str, ...] | None:
    """The programs that fail by a cause, the most frequent first; None if it is contradicted.

    A program that mostly works is taken off. A script of a session's own is not named.
    """
    failed: Counter[str] = Counter()
    has_own = False
    for hit in hits:
        has_own |= any(one.is_own_program for one in hit.stumbles)
        failed.update({one.program for one in hit.stumbles if not one.is_own_program})
    ran: Counter[str] = Counter()
    for session in sessions:
        ran.update(set(session.found.programs) & failed.keys())
    is_exempt = hits[0].stumbles[0].kind in ("too_long", "tool")
    left = [
        program
        for program, number in sorted(failed.items(), key=lambda one: (-one[1], one[0]))
        if is_exempt or number >= CONTRADICTED * ran[program]
    ]
    return tuple(left) if left or has_own else None


def _has_stopped(
    hits: Sequence[_Hit],
    sessions: Sequence[TaughtSession],
    programs: Sequence[str],
    *,
    last: TaughtSession,
) -> bool:
    """True if the failure stopped: too many sessions in a row ran the program without it.

    `last` is the last session that failed by it, also if it had begun with the lesson.
    """
    named = set(programs)
    hit = {one.session.session_id for one in hits}
    could = [
        one
        for one in sessions
        if one.session_id in hit or not named or named & set(one.found.programs)
    ]
    before = max(place for place, one in enumerate(could) if one.session_id in hit) + 1
    after = sum(_order(one) > _order(last) for one in could[before:])
    probability = (len(hit) + 0.5) / (before + 1)
    return (1 - min(probability, 1.0)) ** after < STREAK


def _weigh(sessions: Sequence[TaughtSession]) -> dict[int, float]:
    """The weight of each session by its age, as the newest one sees it."""
    newest = max((one.at or 0 for one in sessions), default=0)
    return {
        one.session_id: decay((newest - (one.at or newest)) / _DAY_MS, HALF_LIFE_DAYS)
        for one in sessions
    }
