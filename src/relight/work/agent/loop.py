"""The agent's loop: send the conversation, execute the calls, add the results, until it answers."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from relight.chat.answers import drop_thoughts
from relight.chat.messages import Call, find_max_tool_chars, read_calls, trim_text
from relight.errors import MissingError, StoreError
from relight.intake.recorder import SessionTracker
from relight.judging.failures import make_failure
from relight.judging.verdicts import judge_call
from relight.model import Failure, OutcomeName
from relight.models.endpoints import ChatRequest, UpstreamError
from relight.reports.sessions import find_session, read_head
from relight.work.agent.context import ToolContext, ToolResult, make_context, make_error_result
from relight.work.agent.limits import Budget, SpiralGuard, make_call_key
from relight.work.agent.models import Model, RecordedResponse
from relight.work.agent.tools import choose_tools, execute_call
from relight.work.run_spec import RunSpec

PARALLEL_CALLS = 8
SYSTEM = (
    "You are an agent that works in the folder {folder}. Use the tools to do the task; look before"
    " you change, and check what you did. When the task is done, or cannot be done, answer in plain"
    " words what you did and what you found, without calling another tool."
)
# why an answer is incomplete, by its finish reason
CUT_OFF = {
    "length": "the answer was cut off: the model reached its token limit",
    "content_filter": "the answer was withheld by the provider's content filter",
}

OnEvent = Callable[[str, Mapping[str, Any]], None]


class RunEnd(Struct, frozen=True):
    """The end of a run: its answer, or the reason of an early end and a hint."""

    answer: str | None = None
    by: str | None = None
    hint: str | None = None
    failure: Failure | None = None


class AgentResult(Struct, frozen=True, kw_only=True):
    """The result of a run: the answer, why it ended, and its figures."""

    session_id: str
    outcome: str
    evidence: list[str]
    answer: str | None
    # why it ended before the model answered, if it did
    ended_by: str | None
    turns: int
    figures: dict[str, Any]
    hint: str | None = None
    # what ended it, if that has a kind
    failure: Failure | None = None


def run_agent(
    prompt: str,
    spec: RunSpec,
    *,
    model: Model,
    rec: SessionTracker,
    seed: str | None = None,
    on_event: OnEvent | None = None,
) -> AgentResult:
    """Let the model work on the prompt with the tools; everything is recorded as it happens.

    `seed` is put before the prompt. An unreachable model, a used-up budget or a spiral ends the run
    as a failure. An answer alone proves nothing: the outcome is judged by the evidence.
    """
    budget = spec.budget or Budget()
    # one deadline for the whole run: models, retries, waits and tools
    deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
    context = make_context(
        spec.folder,
        secret_variables=model.key_variables,
        pass_variables=spec.pass_variables,
        timeout_seconds=spec.tool_seconds,
        deadline=deadline,
        allows_private=spec.allow_private_fetch,
    )
    run = _Run(spec, model, rec, context, on_event or (lambda *_: None))
    run.say("system", SYSTEM.format(folder=context.folder))
    run.say("user", f"{seed}\n\n{prompt}" if seed else prompt)
    with rec:
        ended = run.work(budget)
        outcome: OutcomeName | None = "failure" if ended.by else None
        rec.finish(outcome, why=ended.by)
    return _make_result(rec, run, ended)


class _Run:
    """One run: its conversation so far, and what it uses."""

    def __init__(
        self,
        spec: RunSpec,
        model: Model,
        rec: SessionTracker,
        context: ToolContext,
        on_event: OnEvent,
    ) -> None:
        self.model, self.rec, self.context, self.on_event = model, rec, context, on_event
        self.tools, self.retries = choose_tools(spec.tools), spec.retries
        self.max_tool_chars = spec.max_tool_chars or find_max_tool_chars(rec.store.config)
        # as they are sent: only the record has long results in full
        self.messages: list[Mapping[str, Any]] = []
        self.described = [tool.describe() for tool in self.tools.values()]
        self.guard = SpiralGuard()
        self.turns = 0

    def say(self, role: str, content: str) -> None:
        self.messages.append({"role": role, "content": content})
        self.rec.message(role, content)

    def work(self, budget: Budget) -> RunEnd:
        """Continue until the model answers or the run must end."""
        pool = ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="relight-tool")
        try:
            while True:
                is_late = self.context.is_late()
                if spent := budget.find_spent(self.rec, turns=self.turns, is_late=is_late):
                    kind = "time_limit" if is_late else "budget"
                    return RunEnd(by=spent, failure=make_failure(kind))
                if stop := self._find_stop():
                    return RunEnd(by=stop, failure=make_failure("budget"))
                try:
                    recorded = self._respond()
                except UpstreamError as error:
                    why = "the model call failed"
                    if error.is_out_of_time:
                        why = f"{budget.format_late()}, during a model call"
                    return RunEnd(by=f"{why}: {error}", hint=error.hint, failure=error.failure)
                calls = list(read_calls(self.messages[-1]))
                if not calls:
                    response = recorded.response
                    return RunEnd(response.text, CUT_OFF.get(response.finish_reason or ""))
                self._do_calls(calls, recorded.turn, pool)
                if self.guard.ended_by:
                    return RunEnd(by=self.guard.ended_by)
        finally:
            self.context.halt.end_all()  # Ctrl-C does not wait for a tool
            pool.shutdown()

    def _find_stop(self) -> str | None:
        """Return which of the user's budgets is used up and stops agents, if one is."""
        try:
            if not self.rec.store.has_rows("budget"):
                return None
            from relight.reports.budgets import find_stop

            return find_stop(self.rec.store, source="relight", project=str(self.context.folder))
        except StoreError:  # whether there is a budget is not known
            return None

    def _respond(self) -> RecordedResponse:
        deadline = self.context.deadline
        chat = ChatRequest(
            messages=self.messages, tools=self.described, deadline=deadline, retries=self.retries
        )
        recorded = self.model.respond(chat, self.rec, on_attempt=self._report_wait)
        self.turns += 1
        message = drop_thoughts(recorded.response.message)
        self.messages.append(message)
        self.on_event("answer", message)
        return recorded

    def _report_wait(
        self, attempt: int, failure: Failure | None, wait_seconds: float | None
    ) -> None:
        if failure is not None and wait_seconds is not None:
            self.on_event("wait", {"reason": failure.reason, "seconds": wait_seconds})

    def _do_calls(self, calls: list[Call], turn: str, pool: ThreadPoolExecutor) -> None:
        """Execute the calls side by side; their results are added in the order of the calls.

        Equal calls run one after another: the outcome of the first decides on the next.
        """
        quick = {name for name, tool in self.tools.items() if tool.is_quick}
        slow: dict[bytes, list[int]] = {}
        for place, call in enumerate(calls):
            if call.tool not in quick:
                slow.setdefault(make_call_key(call.tool, _text_of(call)), []).append(place)

        def do(places: Iterable[int]) -> dict[int, ToolResult]:
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
            event = {"name": call.tool, "content": result.text, "is_error": result.is_error}
            self.on_event("result", event)

    def _do_call(self, place: int, call: Call, turn: str) -> ToolResult:
        arguments = _text_of(call)
        started = time.perf_counter()
        if refusal := self.guard.refuse(call.tool, arguments):
            result = make_error_result("refused: the same call keeps failing", refusal)
        else:
            result = execute_call(self.tools, call.tool, call.arguments, context=self.context)
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


def _make_result(rec: SessionTracker, run: _Run, ended: RunEnd) -> AgentResult:
    try:
        known = read_head(rec.store, find_session(rec.store, rec.name))
        outcome, evidence, figures = known.outcome, known.evidence, asdict(known.figures)
    except (MissingError, StoreError):  # the session is in the backlog; the answer stands
        outcome = "failure" if ended.by else "unknown"
        evidence, figures = [], asdict(rec.stats())
    return AgentResult(
        session_id=rec.name,
        outcome=outcome,
        evidence=[*([ended.by] if ended.by else []), *evidence],
        answer=ended.answer,
        ended_by=ended.by,
        turns=run.turns,
        figures=figures,
        hint=ended.hint,
        failure=ended.failure,
    )
