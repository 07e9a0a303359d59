"""The live recorder: a program tells what its agent does, and each word is kept at once.

What has been told is in the database before the call returns, so that a killed program loses
nothing it told. A record that cannot be written now waits and goes with the next one; the
recorded program is never broken by its recorder.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from relight import __version__
from relight.errors import RelightError
from relight.failures import classify_error
from relight.ids import row_id
from relight.live import LiveTape
from relight.misses import count_miss
from relight.model import Cost, Failure, OutcomeName, Usage
from relight.prices import reported_cost
from relight.reports import SUMS, figures
from relight.sources import relight as events
from relight.store import Store
from relight.times import take_time
from relight.usage import read_openai_usage

OUTCOMES = ("success", "failure", "unknown")
INTERRUPTIONS = ("KeyboardInterrupt", "CancelledError", "GeneratorExit", "SystemExit")


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
    """A recorder for one session, new or gone on with; `parent` puts it below another."""
    return SessionTracker(
        store,
        session_id or name_session(clock()),
        model=model,
        provider=provider,
        project=project,
        parent=parent.session_id if isinstance(parent, SessionTracker) else parent,
        title=title,
        clock=clock,
    )


def name_session(now: float) -> str:
    """A new session's id: it sorts by time, and no two are alike."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


class SessionTracker:
    """Records one session as it goes. Threads and coroutines may share it."""

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
        self.session_id = clean(str(session_id))
        self.model, self.provider = model, provider
        self._clock = clock
        self._lock = threading.RLock()
        self._tape = LiveTape(store, self.session_id)
        self._last_at = self._count = 0
        self._last_turn: str | None = None
        self._asked: dict[str, list[str]] = {}
        self._is_finished = False
        parent = None if parent is None else clean(parent.removeprefix("relight:"))
        opened = events.Opened(
            session=self.session_id,
            at=self._now(),
            model=model,
            parent=parent if parent != self.session_id else None,
            project=os.getcwd() if project is None else project,  # noqa: PTH109 - a plain str
            title=title,
            version=__version__,
        )
        self._tape.write(self._tape.line_up(opened))

    @property
    def name(self) -> str:
        """The session as `relight show` takes it."""
        return f"{events.NAME}:{self.session_id}"

    def child(self, session_id: str | None = None, **options: Any) -> "SessionTracker":
        """A recorder for a sub-agent's session, whose figures are part of this one's."""
        options = {"model": self.model, "provider": self.provider} | options
        return record(self.store, session_id, parent=self, clock=self._clock, **options)

    def message(self, role: str, content: Any) -> None:
        """What a person, a system or a program said; a model's own words belong to its turn."""
        message = {"role": role, "content": content}
        with self._lock:
            event = events.Said(session=self.session_id, at=self._now(), message=message)
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
        """Tell one model call; gives its id, for the tool calls that it asked for.

        `input_tokens` are those neither read from nor written to a cache; `usage` takes an OpenAI
        answer's figures instead. `message` is what the model answered. A call that failed is told
        with its `failure`, and counts as no turn.
        """
        told = _read_usage(usage) or Usage(
            input=input_tokens,
            cache_read=cache_read_tokens,
            cache_write=cache_write_tokens,
            output=output_tokens,
            reasoning=reasoning_tokens,
        )
        wrong = None if failure is None else _read_failure(failure)
        with self._lock:
            self._count += 1
            turn_id = f"{self.session_id}#{self._tape.name}.{self._count}"
            event = events.Answered(
                id=turn_id,
                session=self.session_id,
                at=self._now(at),
                model=model or self.model,
                provider=provider or self.provider,
                role=role,
                calls=0 if wrong else 1,
                usage=told if not wrong or told != Usage() else Usage(0, 0, 0, 0),
                is_partial=told.output is None and not wrong,
                cost=reported_cost(cost_usd) if cost_usd is not None else cost,
                duration_ms=_whole(duration_ms),
                first_token_ms=_whole(first_token_ms),
                failure=wrong.kind if wrong else None,
                failure_text=wrong.reason[:500] if wrong else None,
                message=None if message is None else dict(message),
            )
            number = self._tape.line_up(event)
            if not wrong and role != "reference":
                self._last_turn = turn_id
                self._remember_calls(turn_id, message)
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
        """Tell one tool call with its result.

        `call_id` is the model's own id of it, which joins it to the turn that asked; without one
        it belongs to the last turn told. `place` is its place among the calls of `turn`.
        """
        with self._lock:
            turn = turn or self._last_turn
            event = events.Called(
                id=f"{turn}:{place}" if place is not None else self._name_call(call_id),
                session=self.session_id,
                at=self._now(at),
                turn=turn,
                tool=tool,
                call_id=call_id,
                arguments=_as_text(arguments),
                result=_as_text(result),
                is_error=is_error,
                exit_code=exit_code,
                timed_out=timed_out,
                duration_ms=_whole(duration_ms),
            )
            number = self._tape.line_up(event)
        self._tape.write(number)

    def together(self) -> AbstractContextManager[None]:
        """Events told in this block, by this thread, are written in one go when it is left.

        For a few that come at once: until then they are not yet safe.
        """
        return self._tape.together()

    def stats(self) -> dict[str, Any]:
        """The figures of this session and its sub-agents, up to now."""
        sums = ", ".join(f"sum({name})" for name in SUMS if name != "failed_turns")
        found = row_id("session", events.NAME, self.session_id)
        row = self.store.query(
            f"select 1, {sums} from session_day where root_id = ?1 or session_id = ?1", (found,)
        )[0]
        failed = self.store.query(
            "select count(*) from turn where session_id = ? and failure is not null", (found,)
        )
        with self._lock:
            waiting = len(self._tape.waiting)
        return {
            "session_id": self.name,
            **figures(row),
            "failed_turns": failed[0][0],
            "unwritten": waiting,
        }

    def finish(self, outcome: OutcomeName | None = None, *, why: str | None = None) -> None:
        """Say that the session is over and, where the program knows it, what came of it."""
        if outcome is not None and outcome not in OUTCOMES:
            raise RelightError(
                f"{outcome!r} is not an outcome", f"say one of {', '.join(OUTCOMES)}"
            )
        self._end(
            events.Ended(
                session=self.session_id,
                at=self._now(),
                how="left" if outcome is None else "told",
                outcome=outcome,
                why=why,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or error is None:
            self.finish()
            return
        is_interrupted = any(base.__name__ in INTERRUPTIONS for base in kind.__mro__)
        self._end(
            events.Ended(
                session=self.session_id,
                at=self._now(),
                how="interrupted" if is_interrupted else "left",
                outcome=None if is_interrupted else "failure",
                why=f"{kind.__name__}: {error}",
            )
        )

    def _end(self, event: events.Ended) -> None:
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            number = self._tape.line_up(event)
        self._tape.write(number)
        if self._tape.waiting:
            reason = f"{len(self._tape.waiting)} events of {self.name}"
            count_miss(self.store, self.store.config.home, reason)
        else:
            self._tape.join()

    def _now(self, at: object = None) -> int:
        """Never before what was told last: the order told is the order it happened in."""
        told = round(self._clock() * 1000) if at is None else take_time("at", at)
        with self._lock:
            self._last_at = max(self._last_at, told)
            return self._last_at

    def _remember_calls(self, turn_id: str, message: Mapping[str, Any] | None) -> None:
        """Which calls a turn asked for, so that their results find them, twins among them too."""
        for place, call in enumerate((message or {}).get("tool_calls") or ()):
            name = call.get("id") if isinstance(call, Mapping) else None
            self._asked.setdefault(str(name), []).append(f"{turn_id}:{place}")

    def _name_call(self, call_id: str | None) -> str:
        if call_id is not None and (asked := self._asked.get(call_id)):
            key = asked.pop(0)
            if not asked:
                del self._asked[call_id]
            return key
        self._count += 1
        return f"{self.session_id}#{self._tape.name}.{self._count}"


def clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _read_usage(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    if usage is None or isinstance(usage, Usage):
        return usage
    return read_openai_usage(usage)


def _read_failure(failure: Failure | BaseException | str) -> Failure:
    if isinstance(failure, Failure):
        return failure
    known = getattr(failure, "failure", None)
    return known if isinstance(known, Failure) else classify_error(failure)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
