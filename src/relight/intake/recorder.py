"""The live recorder: a program records its agent's events as they happen.

An event is in the database before the call returns or, while another process blocks the database,
in a file beside it: a killed program loses no recorded event. The recorder never breaks the
program; it raises only for impossible figures.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Self, TypeAlias

from msgspec.structs import asdict

from relight import __version__
from relight.checks import check_choice
from relight.errors import StoreError
from relight.intake.checks import (
    format_error,
    format_payload,
    mend,
    take_code,
    take_cost,
    take_duration,
    take_failure,
    take_id,
    take_message,
    take_text,
    take_usage,
    was_interrupted,
    was_refused,
    write_payload,
)
from relight.intake.live import LiveTape, take_backlogs
from relight.locks import renew_in_forks
from relight.model import OUTCOMES, Cost, Failure, OutcomeName, Usage, row_id
from relight.reports.sessions import sum_family
from relight.reports.totals import ReportFigures
from relight.sources import relight as events
from relight.store import Store
from relight.times import take_time

How: TypeAlias = Literal["told", "left", "interrupted"]


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
        session_id or make_session_name(clock()),
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
        session_id: str,
        *,
        model: str | None = None,
        provider: str | None = None,
        project: str | None = None,
        parent: str | None = None,
        title: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.session_id = take_id(session_id)
        self.model, self.provider = take_text("model", model), take_text("provider", provider)
        self._clock = clock
        self.renew()
        renew_in_forks(self)
        take_backlogs(store)
        self._tape = LiveTape.begin(store, self.session_id)
        self._last_at = self._count = 0
        self._last_turn: str | None = None
        self._requested: dict[str, list[str]] = {}
        self._is_finished = False
        parent = None if parent is None else take_id(parent.removeprefix("relight:"))
        opened = events.OpenedEvent(
            session=self.session_id,
            at=self._now(),
            model=self.model,
            parent=parent if parent != self.session_id else None,
            project=_current_folder() if project is None else take_text("project", project),
            title=take_text("title", title),
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
        message = take_message("message", {"role": take_text("role", role), "content": content})
        assert message is not None
        with self._lock:
            event = events.MessageEvent(session=self.session_id, at=self._now(), message=message)
            number = self._tape.line_up(event)
        self._tape.write(number)

    def turn(
        self,
        *,
        model: str | None = None,
        provider: str | None = None,
        usage: Usage | Mapping[str, Any] | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        cost_usd: float | str | None = None,
        cost: Cost | None = None,
        message: Mapping[str, Any] | None = None,
        role: str | None = None,
        duration_ms: float | None = None,
        first_token_ms: float | None = None,
        failure: Failure | BaseException | str | None = None,
        at: object = None,
    ) -> str:
        """Record one model call; return its id, for the tool calls that it requests.

        `input_tokens` are those neither read from nor written to a cache; `usage` takes the figures
        of an OpenAI response instead. `message` is the model's answer. A failed call has a
        `failure`, and does not count as a turn.
        """
        tokens = {
            "input": input_tokens,
            "cache_read": cache_read_tokens,
            "cache_write": cache_write_tokens,
            "output": output_tokens,
            "reasoning": reasoning_tokens,
        }
        used = take_usage(usage, tokens)
        wrong = take_failure(failure)
        if wrong and used == Usage() and was_refused(wrong):
            used = Usage(0, 0, 0, 0)
        answer = take_message("message", message)
        with self._lock:
            self._count += 1
            turn_id = f"{self.session_id}#{self._tape.name}.{self._count}"
            event = events.TurnEvent(
                key=turn_id,
                session=self.session_id,
                at=self._now(at),
                model=take_text("model", model) or self.model,
                provider=take_text("provider", provider) or self.provider,
                role=take_text("role", role),
                calls=0 if wrong else 1,
                usage=used,
                usage_status="partial" if used.output is None and not wrong else "final",
                cost=take_cost(cost_usd, cost),
                duration_ms=take_duration("duration_ms", duration_ms),
                first_token_ms=take_duration("first_token_ms", first_token_ms),
                failure=wrong.kind if wrong else None,
                failure_text=wrong.reason[:500] if wrong else None,
                message=answer,
            )
            number = self._tape.line_up(event)
            if not wrong and role != "reference":
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
        call_id = None if call_id is None else str(call_id)
        with self._lock:
            turn = turn or self._last_turn
            event = events.CallEvent(
                key=f"{turn}:{place}" if place is not None else self._name_call(call_id),
                session=self.session_id,
                at=self._now(at),
                turn=turn,
                tool=take_text("tool", tool) or "",
                call_id=call_id,
                arguments=write_payload(arguments),
                result=write_payload(result),
                is_error=None if is_error is None else bool(is_error),
                exit_code=take_code(exit_code),
                timed_out=None if timed_out is None else bool(timed_out),
                duration_ms=take_duration("duration_ms", duration_ms),
            )
            number = self._tape.line_up(event)
        self._tape.write(number)

    def together(self) -> AbstractContextManager[None]:
        """A block whose events, recorded by this thread, are written together at its end.

        Use it for a few events at once: until the end of the block they are not safe.
        """
        return self._tape.together()

    def stats(self) -> dict[str, Any]:
        """Return the figures of this session and its sub-agents so far; None if unknown."""
        found = row_id("session", events.NAME, self.session_id)
        try:
            sums = sum_family(self.store, found, unwritten=self._tape.sum_waiting())
            figures = asdict(sums)
        except StoreError:  # the next event reports it
            figures = dict.fromkeys(ReportFigures.__struct_fields__)
        return {"session_id": self.name, **figures, "unwritten": self._tape.count_waiting()}

    def finish(self, outcome: OutcomeName | None = None, *, why: str | None = None) -> None:
        """End the session, with its outcome if the program knows it."""
        if outcome is not None:
            check_choice("outcome", outcome, OUTCOMES)
        said = None if why is None else mend(format_payload(why))
        self._end(how="left" if outcome is None else "told", outcome=outcome, why=said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.finish()
            return
        is_interrupted = was_interrupted(error)
        self._end(
            how="interrupted" if is_interrupted else "left",
            outcome=None if is_interrupted else "failure",
            why=format_error(error),
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
        given = round(self._clock() * 1000) if at is None else take_time("at", at)
        with self._lock:
            self._last_at = max(self._last_at, given)
            return self._last_at

    def _name_call(self, call_id: str | None) -> str:
        if call_id is not None and (requested := self._requested.get(call_id)):
            key = requested.pop(0)
            if not requested:
                del self._requested[call_id]
            return key
        self._count += 1
        return f"{self.session_id}#{self._tape.name}.{self._count}"


def _current_folder() -> str | None:
    try:
        return mend(os.getcwd())  # noqa: PTH109 - a plain str
    except OSError:  # the folder was removed
        return None
