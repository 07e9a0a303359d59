"""A budget for agents that cannot be given one: their spending is watched while they run.

Agents write the usage of each model call as they go. A look reads what was appended since the last
one, with the readers and prices of an import, into memory only: an import could wait for another
one, and would read everything else that is new.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from time import time

from msgspec import Struct

from relight.chat.blocks import strip_block
from relight.model import Cost, Mark, Origin, Parsed, Session, Total, Turn
from relight.sources import Source, find_reader, find_source, list_sources
from relight.sources.events import merge_sessions, merge_turns
from relight.store import Store
from relight.store.derive.pricing import Pricing
from relight.store.runs import RecordedSession
from relight.text import dollars, join_words
from relight.work.jobs.left_sessions import SLACK_MS, choose_left, contains_prompt
from relight.work.jobs.notes import ProgramNote

logger = logging.getLogger("relight")


class _File(Struct):
    """A file as it was at the last look, and how far it has been read."""

    origin: Origin
    marks: dict[str, Mark] = {}
    states: dict[str, bytes] = {}


class _Watched(Struct):
    """A session so far: its facts, its first prompt, and the cost of its turns and totals."""

    session: Session
    prompt: str | None = None
    turns: dict[str, Turn] = {}
    costs: dict[str, Cost] = {}
    totals: dict[str, Cost] = {}

    @property
    def nanos(self) -> int:
        """Known cost at list price, also of what a plan pays for; a total includes the turns."""
        # a plan's allowance is used up too
        return max(
            sum(one.nanos or 0 for one in costs.values()) for costs in (self.costs, self.totals)
        )


class BudgetWatch:
    """Watches the session of one running program; `is_over` is asked again and again.

    Sub-agents count, and so do sessions that continue it after a compaction.
    """

    def __init__(
        self,
        store: Store,
        program: ProgramNote,
        *,
        prompt: str,
        budget_usd: float,
        environment: Mapping[str, str],
    ) -> None:
        self.program, self.budget_usd = program, budget_usd
        self._pricing = Pricing(store)
        self._prompt, self._environment = strip_block(prompt), environment
        named = [find_source(program.source)] if program.source else list_sources().values()
        self._sources = list(named)
        # a file of an earlier session is not this program's, and may be long
        self._earlier = {origin.path for _, origin in self._find_files()}
        self._files: dict[str, _File] = {}
        self._sessions: dict[str, _Watched] = {}
        self._unpriced: dict[str, set[str]] = {}
        self._looks, self._key = 0, program.key
        self._root: str | None = None
        self.spent_nanos = 0

    def is_over(self, find_key: Callable[[], str | None]) -> bool:
        """Look at what was spent; True if the budget is used up.

        `find_key` returns the session's id if the program has reported it. A look that fails must
        not end the program: the next one may succeed.
        """
        self._looks += 1
        try:
            for source, origin in self._find_files():
                self._read(source, origin)
            # the output may be long: it is read until it has the id
            self._key = self._key or find_key()
            self._root = self._find_root(self._key)
        except Exception:  # a file may hold anything, and the program must go on
            logger.warning("a look at a running program failed", exc_info=True)
            return False
        if self._root is None:
            return False
        self.spent_nanos = sum(self._sessions[name].nanos for name in self._list_family())
        return self.spent_nanos >= self.budget_usd * 1e9

    def describe_end(self, cost_nanos: int) -> str:
        """The reason of a run that the budget ended, with its cost by the imported session."""
        spent = max(cost_nanos, self.spent_nanos) / 1e9
        limit = f"its budget of {dollars(self.budget_usd)}"
        if spent > self.budget_usd:
            return f"it was ended at {dollars(spent)}, over {limit}"
        return f"it was ended at {limit}"

    def find_gap(self) -> str | None:
        """The reason that the budget could not be watched, or not wholly; None if it was."""
        what = f"its budget of {dollars(self.budget_usd)} could not be watched"
        if self._root is None:
            # a short run may end before it is looked at twice
            return f"{what}: its session was not found while it ran" if self._looks > 1 else None
        names = {one for name in self._list_family() for one in self._unpriced.get(name, ())}
        if not names:
            return None
        verb = "is" if len(names) == 1 else "are"
        return f"{what}: the price of {join_words(sorted(names))} {verb} not known"

    def _find_files(self) -> Iterator[tuple[Source, Origin]]:
        for source in self._sources:
            for origin in source.find(self._environment, None):
                if not origin.trouble:
                    yield source, origin

    def _read(self, source: Source, origin: Origin) -> None:
        """Read what is new in a file, if anything is."""
        reader = find_reader(source)
        if origin.path in self._earlier and not reader.has_fetch:
            return
        file = self._files.setdefault(origin.path, _File(Origin(origin.path)))
        if file.origin == origin:
            return
        since = self.program.started_at - SLACK_MS
        for piece in reader.fetch_new(origin, file.marks, since=since):
            part, lines = piece.after.part, piece.raw.split(b"\n")
            # a file that was rewritten begins without a state
            state = file.states.get(part, b"") if piece.before.offset else b""
            parsed = source.read(lines, origin, state)
            file.marks[part], file.states[part] = piece.after, parsed.state
            self._take(source.name, parsed)
        file.origin = origin

    def _take(self, source: str, parsed: Parsed) -> None:
        for session in parsed.sessions:
            known = self._sessions.setdefault(f"{source}:{session.key}", _Watched(session))
            known.session = merge_sessions([known.session, session])
        for said in parsed.passages:
            watched = self._sessions.get(f"{source}:{said.session}")
            if watched and watched.prompt is None and said.kind == "prompt":
                watched.prompt = said.text
        for turn in parsed.turns:
            watched = self._find(source, turn.session)
            before = watched.turns.get(turn.key)
            whole = merge_turns(before, turn) if before else turn
            watched.turns[turn.key] = whole
            watched.costs[turn.key] = self._price(source, whole)
        for total in parsed.totals:
            watched = self._find(source, total.session)
            watched.totals[total.key] = self._price(source, _as_turn(total))

    def _find(self, source: str, key: str) -> _Watched:
        return self._sessions.setdefault(f"{source}:{key}", _Watched(Session(key=key)))

    def _price(self, source: str, turn: Turn) -> Cost:
        cost = self._pricing.price(0, turn, source=source)
        is_counted = turn.usage.input is not None and turn.usage.output is not None
        if cost.nanos is None and is_counted:
            names = self._unpriced.setdefault(f"{source}:{turn.session}", set())
            names.add(turn.model or "an unnamed model")
        return cost

    def _find_root(self, key: str | None) -> str | None:
        """The program's session, by the same rule as after its end."""
        begin, end = self.program.started_at - SLACK_MS, round(time() * 1000) + SLACK_MS
        named = self._sessions.get(f"{self.program.source}:{key}") if key else None

        def find_candidates() -> Iterator[RecordedSession]:
            for name, watched in self._sessions.items():
                session, at = watched.session, watched.session.started_at
                is_root = session.parent is None or session.parent_kind == "fork"
                if is_root and at is not None and begin <= at <= end:
                    yield RecordedSession(0, name, at)

        return choose_left(
            RecordedSession(0, f"{self.program.source}:{key}", named.session.started_at)
            if named
            else None,
            find_candidates,
            begin=begin,
            has_prompt=lambda one: contains_prompt(self._sessions[one.name].prompt, self._prompt),
        ).name

    def _list_family(self) -> list[str]:
        """The program's session, and all that it started or that continue it."""
        assert self._root is not None
        source, family = self._root.partition(":")[0], [self._root]
        for name in family:
            key = self._sessions[name].session.key
            family += [
                f"{source}:{one.session.key}"
                for one in self._sessions.values()
                if one.session.parent == key
                and one.session.parent_kind != "fork"
                and f"{source}:{one.session.key}" not in family
            ]
        return family


def _as_turn(total: Total) -> Turn:
    return Turn(
        key=total.key,
        session=total.session,
        at=total.at,
        model=total.model,
        provider=total.provider,
        calls=total.calls or 1,
        usage=total.usage,
        cost=total.cost,
    )
