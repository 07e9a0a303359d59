"""The loop: ask the model, do what it calls for, tell it the results, until it answers."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.agent.guard import Budget, SpiralGuard
from relight.agent.models import Model
from relight.agent.results import Place, Result, make_place, tell_error
from relight.agent.tools import Tool, carry_out, choose_tools
from relight.answers import UpstreamError
from relight.conversations import Call, read_calls
from relight.errors import RelightError
from relight.model import OutcomeName
from relight.recording import SessionTracker
from relight.sessions import find_session, read_session
from relight.streams import drop_thoughts
from relight.trimming import MAX_TOOL_CHARS, trim_results
from relight.verdicts import judge_call

PARALLEL_CALLS = 8
SYSTEM = (
    "You are an agent that works in the folder {folder}. Use the tools to do the task; look before"
    " you change, and check what you did. When the task is done, or cannot be done, answer in plain"
    " words what you did and what you found, without calling another tool."
)

OnEvent = Callable[[str, Mapping[str, Any]], None]


class RunResult(Struct, frozen=True, kw_only=True):
    """What came of a run: the answer, why it ended, and its figures."""

    session_id: str
    outcome: str
    evidence: list[str]
    answer: str | None
    # why it ended before the model answered, if it did
    ended_by: str | None
    turns: int
    figures: dict[str, Any]


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
    on_event: OnEvent | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Let the model work on the prompt with the tools, all of it recorded as it happens.

    `seed` is put before the prompt. A model that cannot be reached, a used-up budget or a spiral
    ends the run as a failure; a mere answer is judged by the evidence like anyone else's.
    """
    budget = budget or Budget()
    place = make_place(
        folder,
        secret_variables=model.key_variables,
        timeout_seconds=tool_seconds,
        run_seconds=budget.seconds,
    )
    if not place.folder.is_dir():
        raise RelightError(f"there is no folder {place.folder}", "name another with --workdir")
    run = _Run(model, rec, choose_tools(tools), place, on_event or _ignore)
    opening = system or SYSTEM.format(folder=place.folder)
    run.say("system", opening)
    run.say("user", f"{seed}\n\n{prompt}" if seed else prompt)
    with rec:
        answer, ended_by = run.work(budget, max_tool_chars, clock)
        outcome: OutcomeName | None = "failure" if ended_by else None
        rec.finish(outcome, why=ended_by)
    return _tell(rec, run, answer, ended_by)


class _Run:
    """One run: the conversation so far, and who takes part in it."""

    def __init__(
        self,
        model: Model,
        rec: SessionTracker,
        tools: dict[str, Tool],
        place: Place,
        on_event: OnEvent,
    ) -> None:
        self.model, self.rec, self.tools, self.place = model, rec, tools, place
        self.on_event = on_event
        self.messages: list[Mapping[str, Any]] = []
        self.described = [tool.describe() for tool in tools.values()]
        self.guard = SpiralGuard()
        self.turns = 0

    def say(self, role: str, content: str) -> None:
        self.messages.append({"role": role, "content": content})
        self.rec.message(role, content)

    def work(
        self, budget: Budget, max_tool_chars: int, clock: Callable[[], float]
    ) -> tuple[str | None, str | None]:
        """The model's answer, or why there is none."""
        started = clock()
        with ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="relight-tool") as pool:
            while True:
                spent = clock() - started
                stats = self.rec.stats()
                if ended_by := budget.find_spent(stats, turns=self.turns, seconds=spent):
                    return None, ended_by
                left = None if budget.seconds is None else budget.seconds - spent
                try:
                    told = self.model.answer(
                        trim_results(self.messages, limit=max_tool_chars),
                        tools=self.described,
                        rec=self.rec,
                        seconds=left,
                    )
                except UpstreamError as error:
                    return None, f"the model call failed: {error.message}"
                self.turns += 1
                message = drop_thoughts(told.answer.message)
                self.messages.append(message)
                self.on_event("answer", message)
                calls = list(read_calls(message))
                if not calls:
                    return told.answer.text, None
                self._do_calls(calls, told.turn, pool)
                if self.guard.ended_by:
                    return None, self.guard.ended_by

    def _do_calls(self, calls: list[Call], turn: str, pool: ThreadPoolExecutor) -> None:
        """Do the calls side by side; their results are told in the order asked."""
        quick = {name for name, tool in self.tools.items() if tool.is_quick}
        slow = {
            place: pool.submit(self._do_call, place, call, turn)
            for place, call in enumerate(calls)
            if call.tool not in quick
        }
        done: dict[int, Result] = {}
        with self.rec.together():
            for place, call in enumerate(calls):
                if place not in slow:
                    done[place] = self._do_call(place, call, turn)
        done |= {place: future.result() for place, future in slow.items()}
        for place, call in enumerate(calls):
            result = done[place]
            told = {"role": "tool", "tool_call_id": call.key, "content": result.text}
            self.messages.append(told)
            self.on_event("result", {**told, "name": call.tool, "is_error": result.is_error})

    def _do_call(self, place: int, call: Call, turn: str) -> Result:
        arguments = call.arguments if isinstance(call.arguments, str) else ""
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


def _tell(rec: SessionTracker, run: _Run, answer: str | None, ended_by: str | None) -> RunResult:
    known = read_session(rec.store, find_session(rec.store, rec.name))
    return RunResult(
        session_id=rec.name,
        outcome=known["outcome"],
        evidence=[*([ended_by] if ended_by else []), *known["evidence"]],
        answer=answer,
        ended_by=ended_by,
        turns=run.turns,
        figures=known["figures"],
    )


def _ignore(kind: str, told: Mapping[str, Any]) -> None:
    """No one looks on."""
