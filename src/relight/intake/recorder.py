"""The live recorder: a program records its agent's events as they happen.

An event is in the database before the call returns or, while another process blocks the database,
in a file beside it: a killed program loses no recorded event. The recorder never raises into the
program: a value that it cannot take is logged and counted as a miss, and the event is recorded
without it.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Self, TypeAlias, TypeVar

from msgspec.structs import asdict

from relight import __version__
from relight.errors import RelightError
from relight.intake import checks
from relight.intake.live import LiveTape, take_backlogs
from relight.judging.failures import classify_error
from relight.locks import renew_in_forks
from relight.model import Cost, Failure, OutcomeName, Usage, row_id
from relight.redact import redact_text
from relight.reports.sessions import sum_family
from relight.reports.totals import SessionStats
from relight.sources import relight as events
from relight.store import Store
from relight.store.misses import count_miss
from relight.store.queries.sessions import read_facts
from relight.times import take_time

How: TypeAlias = Literal["told", "left", "interrupted"]
R = TypeVar("R")

logger = logging.getLogger("relight")


def record(
    store: Store,
    session_id: str | None = None,
    *,
    model: str | None = None,
    provider: str | None = None,
    project: str | None = None,
    parent: "SessionTracker | str | None" = None,
    title: str | None = None,
    clock: Callable[[], float] = time.time,
) -> "SessionTracker":
    """Return a recorder for a session, new or continued; `parent` makes it a sub-agent's."""
    return SessionTracker(
        store,
        session_id,
        model=model,
        provider=provider,
        project=project,
        parent=parent.session_id if isinstance(parent, SessionTracker) else parent,
        title=title,
        clock=clock,
    )


def make_session_name(now: float) -> str:
    """Return a new, unique session id that sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


class SessionTracker:
    """Records one session. Threads and coroutines may share it."""

    def __init__(
        self,
        store: Store,
        session_id: str | None = None,
        *,
        model: str | None = None,
        provider: str | None = None,
        project: str | None = None,
        parent: str | None = None,
        title: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._clock = clock
        self._last_at = self._count = 0
        self.renew()
        named = self._take(self._take_session, session_id)
        self.session_id = named or make_session_name(self._now() / 1000)
        self.model = self._take(checks.take_text, "model", model)
        self.provider = self._take(checks.take_text, "provider", provider)
        renew_in_forks(self)
        take_backlogs(store)
        self._tape = LiveTape.begin(store, self.session_id)
        self._last_turn: str | None = None
        self._requested: dict[str, list[str]] = {}
        self._is_finished = False
        above = self._take(self._take_session, parent)
        above = above.removeprefix("relight:") if above else None
        folder = self._take(checks.take_text, "project", project)
        opened = events.OpenedEvent(
            session=self.session_id,
            at=self._now(),
            model=self.model,
            parent=above if above != self.session_id else None,
            project=_current_folder() if project is None else folder,
            title=self._take(checks.take_text, "title", title),
            version=__version__,
        )
        self._tape.write(self._tape.line_up(opened))

    def renew(self) -> None:
        """Make a new lock in a fork, since a thread of the parent may hold the old one."""
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """The session's name for `relight show`."""
        return f"{events.NAME}:{self.session_id}"

    def child(self, session_id: str | None = None, **options: Any) -> "SessionTracker":
        """Return a recorder for a sub-agent's session, whose figures are part of this one's."""
        options = {"model": self.model, "provider": self.provider} | options
        return record(self.store, session_id, parent=self, clock=self._clock, **options)

    def message(self, role: str, content: Any) -> None:
        """Record a message of a person, a system or a program; a model's belongs to its turn."""
        speaker = self._take(checks.take_text, "role", role)
        message = {"role": speaker, "content": checks.make_plain(content)}
        with self._lock:
            event = events.MessageEvent(session=self.session_id, at=self._now(), message=message)
            number = self._tape.line_up(event)
        self._tape.write(number)

    def turn(
        self,
        *,
        model: str | None = None,
        provider: str | None = None,
        usage: object = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        cost_usd: float | str | None = None,
        cost: Cost | None = None,
        message: object = None,
        role: str | None = None,
        duration_ms: float | None = None,
        first_token_ms: float | None = None,
        failure: Failure | BaseException | str | None = None,
        at: object = None,
    ) -> str:
        """Record one model call; return its id, for the tool calls that it requests.

        `input_tokens` are those neither read from nor written to a cache; `usage` takes the usage
        of any SDK instead. `message` is the model's answer: text, a message or a response. A failed
        call has a `failure`: it is no turn, but its tokens and its cost count. Without figures of
        its own it costs nothing if it was refused before any answer, and else its cost is unknown.
        """
        tokens = {
            "input": input_tokens,
            "cache_read": cache_read_tokens,
            "cache_write": cache_write_tokens,
            "output": output_tokens,
            "reasoning": reasoning_tokens,
        }
        found = checks.take_usage(usage, tokens)
        for problem in found.problems:
            self._miss(problem)
        used = found.usage
        wrong = self._take(checks.take_failure, failure)
        if failure is not None and wrong is None:
            wrong = classify_error("an error that cannot be read")
        answer = self._take(checks.take_message, message)
        if wrong and used == Usage() and not checks.has_begun(answer, first_token_ms):
            used = wrong.usage
        speaker = self._take(checks.take_text, "role", role)
        with self._lock:
            turn_id = self._make_key()
            event = events.TurnEvent(
                key=turn_id,
                session=self.session_id,
                at=self._now(at),
                model=self._take(checks.take_text, "model", model) or self.model,
                provider=self._take(checks.take_text, "provider", provider) or self.provider,
                role=speaker,
                calls=0 if wrong else 1,
                usage=used,
                usage_status="final" if wrong and wrong.is_refusal else found.status,
                cost=self._take(checks.take_cost, cost_usd, cost),
                duration_ms=self._take(checks.take_duration, "duration_ms", duration_ms),
                first_token_ms=self._take(checks.take_duration, "first_token_ms", first_token_ms),
                failure=wrong.kind if wrong else None,
                failure_text=wrong.reason[:500] if wrong else None,
                message=answer,
            )
            number = self._tape.line_up(event)
            if not wrong and speaker != "reference":
                self._last_turn = turn_id
                for place, call in events.read_asked(answer):
                    self._requested.setdefault(str(call.get("id")), []).append(f"{turn_id}:{place}")
        self._tape.write(number)
        return turn_id

    def tool_call(
        self,
        tool: str,
        arguments: Any = None,
        result: Any = None,
        *,
        call_id: str | None = None,
        turn: str | None = None,
        place: int | None = None,
        is_error: bool | None = None,
        exit_code: int | None = None,
        timed_out: bool | None = None,
        duration_ms: float | None = None,
        at: object = None,
    ) -> None:
        """Record one tool call with its result.

        `call_id` is the model's id of the call, which joins it to its turn; without one it belongs
        to the last recorded turn. `place` is its place among the calls of `turn`.
        """
        own_id = None if call_id is None else self._take(lambda: checks.mend(str(call_id)))
        among = self._take(checks.take_place, place)
        with self._lock:
            caller = self._take(checks.take_text, "turn", turn) or self._last_turn
            event = events.CallEvent(
                key=f"{caller}:{among}" if among is not None else self._name_call(own_id),
                session=self.session_id,
                at=self._now(at),
                turn=caller,
                tool=self._take(checks.take_text, "tool", tool) or "",
                call_id=own_id,
                arguments=checks.write_payload(arguments),
                result=checks.write_payload(result),
                is_error=self._take(checks.take_flag, is_error),
                exit_code=self._take(checks.take_code, exit_code),
                timed_out=self._take(checks.take_flag, timed_out),
                duration_ms=self._take(checks.take_duration, "duration_ms", duration_ms),
            )
            number = self._tape.line_up(event)
        self._tape.write(number)

    def together(self) -> AbstractContextManager[None]:
        """A block whose events, recorded by this thread, are written together at its end.

        Use it for a few events at once: until the end of the block they are not safe.
        """
        return self._tape.together()

    def stats(self) -> SessionStats:
        """Return the figures of this session and its sub-agents so far; None if unknown."""
        found = row_id("session", events.NAME, self.session_id)
        known: dict[str, Any] = {}
        try:
            sums = sum_family(self.store, found, unwritten=self._tape.sum_waiting())
            known = asdict(sums)
            if facts := read_facts(self.store, found):
                known |= {"started_at": facts.started_at, "ended_at": facts.ended_at}
        except Exception:  # figures that cannot be read are unknown
            logger.debug("the figures of %s cannot be read", self.name, exc_info=True)
        return SessionStats(
            session_id=self.name,
            model=self.model,
            provider=self.provider,
            unwritten=self._tape.count_waiting(),
            **known,
        )

    def finish(self, outcome: OutcomeName | None = None, *, why: str | None = None) -> SessionStats:
        """End the session, with its outcome if the program knows it; return its figures."""
        known: OutcomeName | None = self._take(checks.take_outcome, outcome)
        said = None if why is None else checks.mend(checks.format_payload(why))
        self._end(how="left" if known is None else "told", outcome=known, why=said)
        return self.stats()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._end(how="left", outcome=None, why=None)
            return
        is_interrupted = checks.was_interrupted(error)
        self._end(
            how="interrupted" if is_interrupted else "left",
            outcome=None if is_interrupted else "failure",
            why=checks.format_error(error),
        )

    def _end(self, *, how: How, outcome: OutcomeName | None, why: str | None) -> None:
        at = self._now()
        event = events.EndEvent(session=self.session_id, at=at, how=how, outcome=outcome, why=why)
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            number = self._tape.line_up(event)
        self._tape.write(number, is_last=True)
        self._tape.close()

    def _now(self, at: object = None) -> int:
        """Return the time of an event, never before the previous event's."""
        given = None if at is None else self._take(take_time, "at", at)
        if given is None:
            given = self._take(lambda: take_time("clock", self._clock()))
        if given is None:
            given = round(time.time() * 1000)
        with self._lock:
            self._last_at = max(self._last_at, given)
            return self._last_at

    def _take(self, read: Callable[..., R | None], *values: object) -> R | None:
        """Return a value as `read` takes it; None, with a miss, if it raises."""
        try:
            return read(*values)
        except RelightError as error:
            self._miss(error.message)
        except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
            self._miss(checks.format_error(error))
        return None

    def _take_session(self, value: object) -> str | None:
        """The id of a session, which also names its tape, without secrets."""
        named = checks.take_id(value)
        return redact_text(named, key=self.store.redaction_key) if named else None

    def _miss(self, reason: str) -> None:
        logger.warning("a value was not recorded: %s", reason)
        count_miss(self.store, self.store.config.home, reason)

    def _name_call(self, call_id: str | None) -> str:
        if call_id is not None and (requested := self._requested.get(call_id)):
            key = requested.pop(0)
            if not requested:
                del self._requested[call_id]
            return key
        return self._make_key()

    def _make_key(self) -> str:
        self._count += 1
        return f"{self.session_id}#{self._tape.name}.{self._count}"


def _current_folder() -> str | None:
    try:
        return checks.mend(os.getcwd())  # noqa: PTH109 - a plain str
    except OSError:  # the folder was removed
        return None
