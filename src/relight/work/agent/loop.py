"""The loop: ask the model, do what it calls for, tell it the results, until it answers."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.chat.messages import Call, read_calls
from relight.chat.shorten import MAX_TOOL_CHARS, trim_text
from relight.chat.streams import drop_thoughts
from relight.errors import MissingError, StoreError
from relight.intake.recorder import SessionTracker
from relight.judging.verdicts import judge_call
from relight.model import Failure, OutcomeName
from relight.models.endpoints import Asked
from relight.models.responses import UpstreamError
from relight.reports.sessions import find_session, read_session
from relight.work.agent.guard import Budget, SpiralGuard, name_call
from relight.work.agent.models import Model, Told
from relight.work.agent.results import Place, Result, make_place, tell_error
from relight.work.agent.tools import Tool, carry_out, choose_tools

PARALLEL_CALLS = 8
SYSTEM = (
    "You are an agent that works in the folder {folder}. Use the tools to do the task; look before"
    " you change, and check what you did. When the task is done, or cannot be done, answer in plain"
    " words what you did and what you found, without calling another tool."
)
# why an answer is not whole, by what its model says of its end
CUT_OFF = {
    "length": "the answer was cut off: the model had reached its limit of tokens",
    "content_filter": "the answer was withheld: the provider's filter took offence",
}

OnEvent = Callable[[str, Mapping[str, Any]], None]


class Ended(Struct, frozen=True):
    """How a run ended: with an answer, or before it, and then why and what to do about it."""

    answer: str | None = None
    by: str | None = None
    hint: str | None = None


class RunResult(Struct, frozen=True, kw_only=True):
    """What came of a run: the answer, why it ended, and its figures."""

    session_id: str
    outcome: str
    evidence: list[str]
    answer: str | None
    # why it ended before the model had answered, if it did
    ended_by: str | None
    turns: int
    figures: dict[str, Any]
    hint: str | None = None


def run_agent(
    prompt: str,
    *,
    model: Model,
    rec: SessionTracker,
    tools: Sequence[str] | None = None,
    folder: str | Path = ".",
    system: str | None = None,
    seed: str | None = None,
    budget: Budget | None = None,
    max_tool_chars: int = MAX_TOOL_CHARS,
    tool_seconds: float = 120.0,
    allow_private_fetch: bool = False,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Let the model work on the prompt with the tools, all of it recorded as it happens.

    `seed` is put before the prompt. A model that cannot be reached, a used-up budget or a spiral
    ends the run as a failure; a mere answer is judged by the evidence like anyone else's.
    """
    budget = budget or Budget()
    # one moment for all of the run: its models, their retries and waits, and its tools
    deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
    place = make_place(
        folder,
        secret_variables=model.key_variables,
        timeout_seconds=tool_seconds,
        deadline=deadline,
        allows_private=allow_private_fetch,
    )
    run = _Run(model, rec, choose_tools(tools), place, max_tool_chars, on_event or _ignore)
    opening = system or SYSTEM.format(folder=place.folder)
    run.say("system", opening)
    run.say("user", f"{seed}\n\n{prompt}" if seed else prompt)
    with rec:
        ended = run.work(budget)
        outcome: OutcomeName | None = "failure" if ended.by else None
        rec.finish(outcome, why=ended.by)
    return _tell(rec, run, ended)


class _Run:
    """One run: the conversation so far, and who takes part in it."""

    def __init__(
        self,
        model: Model,
        rec: SessionTracker,
        tools: dict[str, Tool],
        place: Place,
        max_tool_chars: int,
        on_event: OnEvent,
    ) -> None:
        self.model, self.rec, self.tools, self.place = model, rec, tools, place
        self.max_tool_chars, self.on_event = max_tool_chars, on_event
        # as they are sent: long results are whole only on record
        self.messages: list[Mapping[str, Any]] = []
        self.described = [tool.describe() for tool in tools.values()]
        self.guard = SpiralGuard()
        self.turns = 0

    def say(self, role: str, content: str) -> None:
        self.messages.append({"role": role, "content": content})
        self.rec.message(role, content)

    def work(self, budget: Budget) -> Ended:
        """Go on until the model answers, or cannot."""
        pool = ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="relight-tool")
        try:
            while True:
                is_late = self.place.is_late()
                if spent := budget.find_spent(self.rec, turns=self.turns, is_late=is_late):
                    return Ended(by=spent)
                try:
                    told = self._ask()
                except UpstreamError as error:
                    why = "the model call failed"
                    if error.is_out_of_time:
                        why = f"{budget.tell_late()}, while asking the model"
                    return Ended(by=f"{why}: {error}", hint=error.hint)
                calls = list(read_calls(self.messages[-1]))
                if not calls:
                    return Ended(told.answer.text, CUT_OFF.get(told.answer.finish_reason or ""))
                self._do_calls(calls, told.turn, pool)
                if self.guard.ended_by:
                    return Ended(by=self.guard.ended_by)
        finally:
            self.place.halt.end_all()  # whoever leaves by Ctrl-C does not wait for a tool
            pool.shutdown()

    def _ask(self) -> Told:
        deadline = self.place.deadline
        asked = Asked(messages=self.messages, tools=self.described, deadline=deadline)
        told = self.model.answer(asked, self.rec, on_attempt=self._tell_wait)
        self.turns += 1
        message = drop_thoughts(told.answer.message)
        self.messages.append(message)
        self.on_event("answer", message)
        return told

    def _tell_wait(self, attempt: int, failure: Failure | None, wait_seconds: float | None) -> None:
        if failure is not None and wait_seconds is not None:
            self.on_event("wait", {"reason": failure.reason, "seconds": wait_seconds})

    def _do_calls(self, calls: list[Call], turn: str, pool: ThreadPoolExecutor) -> None:
        """Do the calls side by side; their results are told in the order asked.

        The same call, made twice, is done twice in a row: how the first went decides on the next.
        """
        quick = {name for name, tool in self.tools.items() if tool.is_quick}
        slow: dict[bytes, list[int]] = {}
        for place, call in enumerate(calls):
            if call.tool not in quick:
                slow.setdefault(name_call(call.tool, _text_of(call)), []).append(place)

        def do(places: Iterable[int]) -> dict[int, Result]:
            return {place: self._do_call(place, calls[place], turn) for place in places}

        begun = [pool.submit(do, places) for places in slow.values()]
        with self.rec.together():
            done = do(place for place, call in enumerate(calls) if call.tool in quick)
        for future in begun:
            done |= future.result()
        for place, call in enumerate(calls):
            result = done[place]
            text = trim_text(result.text, self.max_tool_chars)
            self.messages.append({"role": "tool", "tool_call_id": call.key, "content": text})
            told = {"name": call.tool, "content": result.text, "is_error": result.is_error}
            self.on_event("result", told)

    def _do_call(self, place: int, call: Call, turn: str) -> Result:
        arguments = _text_of(call)
        started = time.perf_counter()
        if refusal := self.guard.refuse(call.tool, arguments):
            result = tell_error("refused: the same call keeps failing", refusal)
        else:
            result = carry_out(self.tools, call.tool, call.arguments, place=self.place)
            verdict = judge_call(
                call.tool,
                arguments,
                result.text,
                is_error=result.is_error or None,
                exit_code=result.exit_code,
                timed_out=result.timed_out,
            )
            self.guard.see(call.tool, arguments, has_failed=verdict.label == "error")
        self.rec.tool_call(
            call.tool,
            arguments,
            result.text,
            call_id=call.key,
            turn=turn,
            place=place,
            is_error=result.is_error or None,
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_ms=(time.perf_counter() - started) * 1000,
        )
        return result


def _text_of(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else ""


def _tell(rec: SessionTracker, run: _Run, ended: Ended) -> RunResult:
    try:
        known = read_session(rec.store, find_session(rec.store, rec.name), with_steps=False)
    except (MissingError, StoreError):  # it is in the backlog, and an answer is an answer
        outcome = "failure" if ended.by else "unknown"
        known = {"outcome": outcome, "evidence": [], "figures": rec.stats()}
    return RunResult(
        session_id=rec.name,
        outcome=known["outcome"],
        evidence=[*([ended.by] if ended.by else []), *known["evidence"]],
        answer=ended.answer,
        ended_by=ended.by,
        turns=run.turns,
        figures=known["figures"],
        hint=ended.hint,
    )


def _ignore(kind: str, told: Mapping[str, Any]) -> None:
    """No one looks on."""
