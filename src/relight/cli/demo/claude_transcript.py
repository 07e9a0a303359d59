"""A conversation as Claude Code 2.1 writes it: one line for each block of a response."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.metering import Meter, MeteredCall, TokenUse, estimate_usd
from relight.cli.demo.story import HOME, DemoSkill, StoryStep, StoryTask, read_skills

OPUS, SONNET, HAIKU = "claude-opus-4-6", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"
# before the new version, sub-agents' lines kept the output tokens of the start of the stream
OLD_VERSION, NEW_VERSION = "2.1.280", "2.1.325"
Record = dict[str, Any]


def make_tool_use(step: StoryStep, cwd: str) -> tuple[str, dict[str, Any]]:
    """Return the tool's name and its arguments."""
    path = _place(step.target, cwd)
    match step.tool:
        case "run":
            words = " ".join(step.target.split()[:3])
            return "Bash", {"command": step.target, "description": f"Run {words}"}
        case "read":
            return "Read", {"file_path": path}
        case "edit":
            return "Edit", {"file_path": path, "old_string": step.old, "new_string": step.new}
        case "write":
            return "Write", {"file_path": path, "content": step.text + "\n"}
        case "search":
            where = _place(step.path, cwd)
            return "Grep", {"pattern": step.target, "path": where, "output_mode": "content"}
        case "fetch":
            return "WebFetch", {"url": step.target, "prompt": step.text}
        case "plan":
            return "TodoWrite", {"todos": _plan(step)}
        case "skill":
            return "Skill", {"skill": step.target}
        case _:
            agent = {"subagent_type": "Explore"}
            return "Agent", {"description": step.target, "prompt": step.text, **agent}


def answer(step: StoryStep, cwd: str) -> tuple[str | list[dict[str, Any]], Any, bool]:
    """Return the result for the model, the details for the client, and True for an error."""
    path = _place(step.target, cwd)
    kept: dict[str, Any]
    match step.tool:
        case "run" if step.exit:
            text = f"Exit code {step.exit}\n{step.out}".strip()
            return text, f"Error: {text}", True
        case "run":
            return step.out, {"stdout": step.out, "stderr": "", "interrupted": False}, False
        case "read" if step.exit:
            text = f"File does not exist: {path}"
            return text, f"Error: {text}", True
        case "read":
            lines = step.out.split("\n")
            text = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))
            size = {"numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
            file = {"filePath": path, "content": step.out, **size}
            return text, {"type": "text", "file": file}, False
        case "edit":
            kept = {"filePath": path, "oldString": step.old, "newString": step.new}
            return f"{path} has been updated.", {**kept, "replaceAll": False}, False
        case "write":
            kept = {"type": "create", "filePath": path, "structuredPatch": []}
            return f"File created: {path}", kept, False
        case "search":
            count = step.out.count("\n") + 1 if step.out else 0
            kept = {"mode": "content", "numFiles": 0, "content": step.out, "numLines": count}
            return step.out or "No matches found", kept, False
        case "fetch":
            return step.out, {"url": step.target, "code": 200, "result": step.out}, False
        case "plan":
            return "The list has been updated.", {"newTodos": _plan(step)}, False
        case "skill":
            kept = {"success": True, "commandName": step.target}
            return f"Launching skill: {step.target}", kept, False
        case _:
            return [{"type": "text", "text": step.out}], None, False


def _plan(step: StoryStep) -> list[dict[str, str]]:
    states = ["in_progress"] + ["pending"] * len(step.items)
    return [
        {"content": item, "status": state, "activeForm": item}
        for item, state in zip(step.items, states, strict=False)
    ]


def _place(path: str, cwd: str) -> str:
    return path if path.startswith("/") else f"{cwd}/{path}"


def write_usage(usage: TokenUse) -> dict[str, Any]:
    """Return the tokens of a response, as on each of its lines."""
    return {
        "input_tokens": usage.fresh,
        "cache_creation_input_tokens": usage.write,
        "cache_read_input_tokens": usage.read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.thinking},
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.write - usage.write_1h,
            "ephemeral_1h_input_tokens": usage.write_1h,
        },
        "service_tier": "standard",
    }


def write_total(model: str, usage: TokenUse) -> dict[str, Any]:
    """Return the tokens of a session with one model, as in its `cost-state`."""
    return {
        "inputTokens": usage.fresh,
        "outputTokens": usage.output,
        "thinkingTokens": usage.thinking,
        "cacheReadInputTokens": usage.read,
        "cacheCreationInputTokens": usage.write,
        "cacheCreationEphemeral5mInputTokens": usage.write - usage.write_1h,
        "cacheCreationEphemeral1hInputTokens": usage.write_1h,
        "webSearchRequests": 0,
        "costUSD": estimate_usd(usage, model),
    }


class ClaudeTranscript:
    """One file of a session: its main file, or that of one of its sub-agents."""

    def __init__(
        self, dice: Dice, clock: Clock, *, session: str, cwd: str, model: str, version: str
    ) -> None:
        self.dice = dice
        self.clock = clock
        self.session = session
        self.cwd = cwd
        self.model = model
        self.version = version
        self.agent: str | None = None
        self.skill: str | None = None
        self.parent: str | None = None
        self.prompt_id = ""
        self.records: list[Record] = []
        self.agents: list[tuple[ClaudeTranscript, Record]] = []
        self.totals: dict[str, TokenUse] = {}
        self.calls: list[MeteredCall] = []
        # True: only the last line of a response has its output tokens
        self.is_partial = False
        self.tools: list[str] = []
        self.heard = 0
        self.lines_added = 0
        self.keeps_hour = model == OPUS and dice.is_lucky(0.6)
        self.meter = Meter(
            dice,
            clock,
            start_tokens=dice.randint(32_000, 52_000),
            growth=15_000,
            cache_seconds=3_600 if self.keeps_hour else 300,
        )

    def play(self, task: StoryTask) -> None:
        """Write a prompt and everything up to the answer."""
        self.skill = None
        if task.command and self.records:
            self._type_command(task.command, task.prompt)
        else:
            self.type_prompt(task.prompt)
        for step in task.steps:
            self.take(step)
        if task.answer:
            self.respond([{"type": "text", "text": task.answer}], stop="end_turn")

    def type_prompt(self, text: str) -> None:
        self.prompt_id = self.dice.uuid()
        self.add_user(text, promptSource="typed", permissionMode="acceptEdits")

    def add_user(self, content: str | list[Record], **more: object) -> None:
        self.heard += len(str(content))
        line = {"type": "user", "message": {"role": "user", "content": content}, **more}
        self.add_line({"promptId": self.prompt_id, **line})

    def add_line(self, line: Record) -> None:
        """Add a line of the conversation, with the fields of every line."""
        uuid = self.dice.uuid()
        agent = {"agentId": self.agent} if self.agent else {}
        place = {"parentUuid": self.parent, "isSidechain": bool(self.agent), **agent}
        here = {"uuid": uuid, "timestamp": self.clock.text, **self._describe_place()}
        self.records.append({**place, **line, **here})
        self.parent = uuid

    def take(self, step: StoryStep) -> None:
        """Write a tool call and its result."""
        call_id = self.dice.text_id("toolu_01")
        name, arguments = make_tool_use(step, self.cwd)
        blocks = [{"type": "text", "text": step.say}] if step.say else []
        call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        self.respond([*blocks, call], stop="tool_use")
        if name not in self.tools:
            self.tools.append(name)
        asker = self.parent
        result, details, is_error = answer(step, self.cwd)
        if step.tool == "delegate":
            details = self._delegate(step, call_id)
        else:
            self.clock.wait(step.seconds)
        self.lines_added += step.new.count("\n") + step.text.count("\n")
        block: Record = {"tool_use_id": call_id, "type": "tool_result", "content": result}
        if step.tool not in ("skill", "delegate"):  # some successful results have no flag
            block["is_error"] = is_error
        self.add_user([block], toolUseResult=details, sourceToolAssistantUUID=asker)
        if step.tool == "skill":
            self._load_skill(read_skills(step.target)[-1], sourceToolUseID=call_id)

    def _load_skill(self, skill: DemoSkill, **more: object) -> None:
        self.skill = skill.name
        text = f"Base directory for this skill: {HOME}/.claude/skills/{skill.name}\n\n{skill.body}"
        self.add_user([{"type": "text", "text": text}], isMeta=True, **more)

    def _type_command(self, command: str, words: str) -> None:
        self.prompt_id = self.dice.uuid()
        self.add_user(
            f"<command-message>{command}</command-message>\n"
            f"<command-name>/{command}</command-name>\n<command-args>{words}</command-args>"
        )

    def respond(self, blocks: Sequence[Record], *, stop: str) -> None:
        """Write the lines of one response: the same ids and usage, one block each."""
        said = len(json.dumps(blocks))
        usage = self.meter.read_call(self.heard, said)
        if self.keeps_hour:
            usage = replace(usage, write_1h=usage.write)
        self.heard = 0
        self.totals[self.model] = self.totals.get(self.model, TokenUse()) + usage
        self.calls.append(MeteredCall(self.clock.text, self.model, usage))
        is_cut = self.agent is not None and self.version == OLD_VERSION
        shown = replace(usage, output=self.dice.randint(1, 8), thinking=0) if is_cut else usage
        message: Record = {
            "id": self.dice.text_id("msg_01"),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "stop_reason": None if is_cut else stop,
            "stop_sequence": None,
            "usage": write_usage(shown),
        }
        more: Record = {"requestId": self.dice.text_id("req_011C", 20)}
        if self.skill:
            more["attributionSkill"] = self.skill
        if self.agent:
            more["attributionAgent"] = "Explore"
        if usage.thinking > 400 and not is_cut:
            thought = {"type": "thinking", "thinking": "", "signature": self.dice.text_id("", 40)}
            blocks = [thought, *blocks]
        for index, block in enumerate(blocks):
            if self.is_partial and index < len(blocks) - 1:
                early = write_usage(replace(usage, output=self.dice.randint(1, 8), thinking=0))
                begun = {**message, "stop_reason": None, "usage": early}
            else:
                begun = message
            line = {"message": {**begun, "content": [block]}, "apiBlockIndex": index}
            self.add_line({**line, **more, "type": "assistant"})
            self.clock.wait(self.dice.uniform(0.05, 0.4))

    def _delegate(self, step: StoryStep, call_id: str) -> Record:
        """Let a sub-agent do a step, in another file; return the details of the result."""
        child = type(self)(
            self.dice,
            self.clock,
            session=self.session,
            cwd=self.cwd,
            model=HAIKU,
            version=self.version,
        )
        child.agent = f"a{self.dice.hex_id(16)}"
        child.meter.growth = 2_400
        child.totals, child.calls, child.is_partial = self.totals, self.calls, self.is_partial
        before, started = self.totals.get(HAIKU, TokenUse()), self.clock.milliseconds
        child.prompt_id = self.prompt_id
        child.add_user(step.text)
        for inner in step.inner:
            child.take(inner)
        child.respond([{"type": "text", "text": step.out}], stop="end_turn")
        meta = {
            "agentType": "Explore",
            "description": step.target,
            "toolUseId": call_id,
            "spawnDepth": 1,
            "finished": True,
        }
        self.agents.append((child, meta))
        after = self.totals[HAIKU]
        return {
            "status": "completed",
            "agentId": child.agent,
            "content": [{"type": "text", "text": step.out}],
            "totalDurationMs": self.clock.milliseconds - started,
            "totalTokens": after.prompt + after.output - before.prompt - before.output,
            "totalToolUseCount": len(step.inner),
            "usage": child.records[-1]["message"]["usage"],
        }

    def fail(self, status: int, kind: str) -> None:
        """Write an API error, a line that no model wrote, and the prompt to continue."""
        self.clock.wait(self.dice.uniform(40, 90))
        body = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
        text = f"API Error: {status} {json.dumps(body)}"
        message = {
            "id": self.dice.uuid(),
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "usage": write_usage(TokenUse()),
            "content": [{"type": "text", "text": text}],
        }
        line = {"message": message, "isApiErrorMessage": True, "apiErrorStatus": status}
        self.add_line({"type": "assistant", **line, "error": "server_error", "apiErrorType": kind})
        self.clock.wait(95)
        self.type_prompt("continue")

    def compact(self) -> None:
        """Write `/compact`: a call that only the session's total includes."""
        hidden = TokenUse(fresh=210, read=self.meter.cached, output=1_640)
        self.totals[self.model] += hidden
        before = self.meter.context
        self.clock.wait(27)
        self.meter.context = self.meter.shared + 9_000
        self.meter.cached = self.meter.shared
        details = {"trigger": "manual", "preTokens": before, "postTokens": self.meter.context}
        boundary = {"type": "system", "subtype": "compact_boundary", "compactMetadata": details}
        self.add_line({**boundary, "content": "Conversation compacted", "level": "info"})
        summary = "What was done so far: see the commits of today. What is left: the next task."
        self.add_user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
        self.add_user("<command-name>/compact</command-name>\n<command-args></command-args>")
        self.add_user("<local-command-stdout>Compacted</local-command-stdout>")

    def fork(self) -> "ClaudeTranscript":
        """Return another session that begins with copies of all lines of this one."""
        twin = copy(self)
        twin.session = self.dice.uuid()
        spoken = [record for record in self.records if "uuid" in record]
        place = {"sessionId": twin.session}
        begun = {"type": "queue-operation", "operation": "enqueue", "timestamp": self.clock.text}
        twin.records = [begun | place, *({**record, **place} for record in spoken)]
        twin.agents = []
        twin.totals = dict(self.totals)
        twin.calls = []
        twin.meter = copy(self.meter)
        return twin

    def _describe_place(self) -> Record:
        return {
            "userType": "external",
            "entrypoint": "cli",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": "main",
        }
