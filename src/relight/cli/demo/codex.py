"""Sessions as Codex 0.166 writes them: a rollout of typed records with running totals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.metering import Meter, MeteredCall, TokenUse
from relight.cli.demo.story import HOME, Stories, StoryStep, StoryTask, find_arm, read_skills


@dataclass(frozen=True)
class Request:
    """A tool call: a shell command, or another tool with its input."""

    name: str
    input: str
    out: str = ""
    command: str = ""
    exit: int = 0


def make_function_call(step: StoryStep) -> Request:
    """Return the call for a step; Codex reads and searches with the shell, and edits by patches."""
    match step.tool:
        case "run":
            return _shell(step.target, step.out, exit_code=step.exit)
        case "read":
            command = f"sed -n '1,200p' {step.target}"
            if step.exit:
                missing = f"sed: can't read {step.target}: No such file or directory"
                return _shell(command, missing, exit_code=2)
            return _shell(command, step.out)
        case "search":
            command = f"rg -n '{step.target}' {step.path}"
            return _shell(command, step.out, exit_code=0 if step.out else 1)
        case "skill":
            path = f"{HOME}/.codex/skills/{step.target}/SKILL.md"
            return _shell(f"cat {path}", read_skills(step.target)[-1].document)
        case "fetch":
            return _shell(f"curl -sSL {step.target} | head -40", step.out)
        case "plan":
            plan = [{"step": item, "status": "pending"} for item in step.items]
            return Request("update_plan", json.dumps({"plan": plan}), out="Plan updated")
        case _:
            return _patch(step)


def _shell(command: str, out: str, *, exit_code: int = 0) -> Request:
    return Request("exec_command", json.dumps({"cmd": command}), out, command, exit_code)


def _patch(step: StoryStep) -> Request:
    if step.tool == "write":
        body = f"*** Add File: {step.target}\n" + "".join(
            f"+{line}\n" for line in step.text.split("\n")
        )
    else:
        removed = "".join(f"-{line}\n" for line in step.old.split("\n"))
        added = "".join(f"+{line}\n" for line in step.new.split("\n"))
        body = f"*** Update File: {step.target}\n@@\n{removed}{added}"
    mark = "A" if step.tool == "write" else "M"
    done = f"Success. Updated the following files:\n{mark} {step.target}\n"
    return Request("apply_patch", f"*** Begin Patch\n{body}*** End Patch", out=done)


LARGE, SMALL = "gpt-5.2-codex", "gpt-5.1-codex-mini"
VERSION = "0.166.0"
CONTEXT_WINDOW = 258_400

Record = dict[str, Any]


class Rollout:
    """One session's file."""

    def __init__(
        self,
        dice: Dice,
        clock: Clock,
        *,
        session: str,
        cwd: str,
        model: str,
        version: str = VERSION,
        meta: Record | None = None,
    ) -> None:
        self.dice = dice
        self.clock = clock
        self.cwd = cwd
        self.model = model
        self.session = session
        self.turn = ""
        self.version = version
        self.lines: list[bytes] = []
        self.ordinal = 0
        self.calls: list[MeteredCall] = []
        self.last = TokenUse()
        self.total = TokenUse()
        self.turn_total = TokenUse()
        self.heard = 0
        self.meter = Meter(
            dice,
            clock,
            start_tokens=dice.randint(12_000, 18_000),
            growth=6_000,
            cache_seconds=900,
        )
        own = {
            "session_id": self.session,
            "id": self.session,
            "timestamp": clock.text,
            "cwd": cwd,
            "originator": "codex_cli",
            "cli_version": version,
            "source": "cli",
            "thread_source": "user",
            "model_provider": "openai",
            "base_instructions": {"text": "You work in a terminal, together with a developer."},
            "git": {"branch": "main"},
        }
        self._add("session_meta", {**own, **(meta or {})})

    def play(self, task: StoryTask) -> None:
        """Write a prompt and everything up to the answer, or until it is interrupted."""
        self.turn = self.dice.uuid7(self.clock.now)
        self.turn_total = TokenUse()
        started_ms = self.clock.milliseconds
        self._event(
            "task_started", started_at=started_ms // 1000, model_context_window=CONTEXT_WINDOW
        )
        place = f"<environment_context>\n  <cwd>{self.cwd}</cwd>\n</environment_context>"
        self._say("user", place)
        policy = {"approval_policy": "on-request", "sandbox_policy": {"type": "workspace-write"}}
        context = {"turn_id": self.turn, "cwd": self.cwd, "model": self.model, **policy}
        self._add("turn_context", context)
        self._say("user", task.prompt)
        words = [{"type": "text", "text": task.prompt, "text_elements": []}]
        self._complete({"type": "UserMessage", "id": self.dice.uuid(), "content": words})
        self.heard += len(task.prompt)
        for step in task.steps:
            self.take(step)
        if not task.answer:
            self._event("turn_aborted", reason="interrupted")
            return
        self._think(len(task.answer), task.answer)
        self._count()
        self._event(
            "task_complete",
            last_agent_message=task.answer,
            started_at=started_ms // 1000,
            completed_at=self.clock.milliseconds // 1000,
            duration_ms=self.clock.milliseconds - started_ms,
            time_to_first_token_ms=self.dice.randint(900, 3_200),
        )

    def take(self, step: StoryStep) -> None:
        """Write a tool call and its result."""
        asked = make_function_call(step)
        call_id = self.dice.text_id("call_", 24)
        is_function = asked.name != "apply_patch"
        kind, given = ("function", "arguments") if is_function else ("custom_tool", "input")
        call = {"type": f"{kind}_call", "name": asked.name, given: asked.input, "call_id": call_id}
        self._think(len(asked.input), step.say, call)
        started = self.clock.milliseconds
        self.clock.wait(step.seconds)
        out = asked.out
        if asked.command:
            self._complete(self._describe_command(asked, step, call_id), started_ms=started)
            out = self._format_output(asked, step)
        result = {"type": f"{kind}_call_output", "call_id": call_id, "output": out}
        self._add("response_item", result)
        self.heard += len(out)
        self._count()

    def _think(self, said: int, text: str, call: Record | None = None) -> None:
        """Write one response: reasoning, text, a call, and its usage."""
        usage = self.meter.read_call(self.heard, said)
        self.heard = 0
        # this provider charges nothing for cache writes: all new tokens are fresh
        usage = TokenUse(usage.fresh + usage.write, usage.read, 0, 0, usage.output, usage.thinking)
        if usage.thinking > 300:
            item = {"type": "reasoning", "id": self.dice.text_id("rs_", 24), "summary": []}
            self._add("response_item", {**item, "content": None, "encrypted_content": "bm9uZQ=="})
        if text:
            name = self.dice.text_id("msg_", 24)
            shown = [{"type": "Text", "text": text}]
            self._complete({"type": "AgentMessage", "id": name, "content": shown})
            self._say("assistant", text)
        if call:
            self._add("response_item", {**call, "status": "completed"})
        self.total += usage
        self.turn_total += usage
        self.last = usage
        self.calls.append(MeteredCall(self.clock.text, self.model, usage))
        self._record_usage(usage)

    def _format_output(self, asked: Request, step: StoryStep) -> str:
        """Return a command's output as the model gets it."""
        return (
            f"Chunk ID: {self.dice.hex_id(6)}\nWall time: {step.seconds:.4f} seconds\n"
            f"Process exited with code {asked.exit}\n"
            f"Original token count: {len(asked.out) // 4}\nOutput:\n{asked.out}\n"
        )

    def _record_usage(self, usage: TokenUse) -> None:
        record = {
            "thread_id": self.session,
            "turn_id": self.turn,
            "session_id": self.session,
            "response_id": self.dice.text_id("resp_", 40),
            "usage": _write_usage(usage),
            "turn_token_usage": _write_usage(self.turn_total),
            "thread_token_usage": _write_usage(self.total),
        }
        self._add("token_usage_record", record)

    def _count(self) -> None:
        info = {
            "total_token_usage": _write_usage(self.total),
            "last_token_usage": _write_usage(self.last),
            "model_context_window": CONTEXT_WINDOW,
        }
        self._event("token_count", info=info, rate_limits={"limit_id": "codex", "primary": None})

    def _describe_command(self, asked: Request, step: StoryStep, call_id: str) -> Record:
        whole, part = divmod(round(step.seconds * 1e9), 10**9)
        return {
            "type": "CommandExecution",
            "id": call_id,
            "process_id": str(self.dice.randint(2_000, 99_000)),
            "command": ["/bin/bash", "-lc", asked.command],
            "cwd": f"file://{self.cwd}",
            "source": "unified_exec_startup",
            "status": "failed" if asked.exit else "completed",
            "aggregated_output": asked.out + "\n",
            "exit_code": asked.exit,
            "duration": {"secs": whole, "nanos": part},
        }

    def _say(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        message = {"type": "message", "id": self.dice.text_id("msg_", 24), "role": role}
        self._add("response_item", {**message, "content": content})

    def _complete(self, item: Record, *, started_ms: int | None = None) -> None:
        ended = self.clock.milliseconds
        times = {"started_at_ms": started_ms or ended, "completed_at_ms": ended}
        self._event("item_completed", thread_id=self.session, item=item, **times)

    def _event(self, kind: str, **payload: object) -> None:
        self._add("event_msg", {"type": kind, "turn_id": self.turn, **payload})

    def _add(self, kind: str, payload: Record) -> None:
        head = {"timestamp": self.clock.text, "ordinal": self.ordinal, "type": kind}
        self._write({**head, "payload": payload})
        self.ordinal += 1

    def _write(self, record: Record) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        self.lines.append(line.encode() + b"\n")


def _write_usage(usage: TokenUse) -> Record:
    return {
        "input_tokens": usage.prompt,
        "cached_input_tokens": usage.read,
        "cache_write_input_tokens": usage.write,
        "output_tokens": usage.output,
        "reasoning_output_tokens": usage.thinking,
        "total_tokens": usage.prompt + usage.output,
    }


def write_rollouts(home: Path, dice: Dice, stories: Stories, begun: Sequence[datetime]) -> None:
    """Write a rollout for each moment; the last but two ends in a spiral."""
    for number, at in enumerate(begun):
        project = stories.choose_project()
        count = dice.choices((1, 2, 3, 4), (1, 3, 3, 2))[0]
        name = dice.uuid7(at)
        tasks = stories.deal(project, count, arm=find_arm(name))
        if number == len(begun) - 3:
            tasks = [stories.make_task("spiral", "docs")]
        clock = Clock(at)
        model = dice.choices((LARGE, SMALL), (7, 3))[0]
        rollout = Rollout(dice, clock, session=name, cwd=tasks[0].folder, model=model)
        for task in tasks:
            rollout.play(task)
            clock.wait(dice.choice((50, 120, 400)) * dice.uniform(0.6, 1.4))
        folder = home / "sessions" / at.strftime("%Y/%m/%d")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{at:%Y-%m-%dT%H-%M-%S}-{rollout.session}.jsonl"
        path.write_bytes(b"".join(rollout.lines))
