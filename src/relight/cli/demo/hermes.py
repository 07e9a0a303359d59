"""Sessions as Hermes Agent 0.19 stores them: rows of `state.db`, sums instead of single calls."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.metering import Meter, TokenUse, estimate_usd
from relight.cli.demo.story import HOME, Stories, StoryStep, StoryTask, read_skills
from relight.sources.hermes.tables import STATE, insert_rows, make_database

SONNET, MINI, LOCAL = "claude-sonnet-4-5", "gpt-5.1-codex-mini", "qwen3.6-27b"
# who sells a model, where, and what Hermes knows of its price
SELLERS = {
    SONNET: ("anthropic", "https://api.anthropic.com", "estimated", "official_docs_snapshot"),
    MINI: ("openai", "https://api.openai.com/v1", "estimated", "official_docs_snapshot"),
    LOCAL: ("custom", "http://127.0.0.1:8080/v1", "unknown", "none"),
}
LOCAL_SLOWNESS = 3

Row = dict[str, Any]


class HermesChat:
    """The rows of one session."""

    def __init__(
        self, dice: Dice, clock: Clock, *, model: str, session: str = "", cwd: str | None = None
    ) -> None:
        self.dice = dice
        self.clock = clock
        self.model = model
        self.session = session or f"{clock.now:%Y%m%d_%H%M%S}_{dice.hex_id(6)}"
        self.usage = TokenUse()
        self.calls = 0
        self.heard = 0
        self.messages: list[Row] = []
        self.children: list[HermesChat] = []
        self.aside: list[Row] = []
        self.first_call_at = 0.0
        self.row: Row = {
            "id": self.session,
            "source": "cli",
            "model": model,
            "model_config": json.dumps({"max_iterations": 90, "max_tokens": None}),
            "started_at": clock.seconds,
            "cwd": cwd,
        }
        start = dice.randint(8_000, 12_000)
        self.meter = Meter(dice, clock, start_tokens=start, growth=1_800, cache_seconds=300)

    def play(self, task: StoryTask) -> None:
        """Add a prompt and everything up to the answer."""
        self.hear(task.prompt)
        self.take_all(task.steps, task.answer)

    def hear(self, prompt: str) -> None:
        self._add("user", content=prompt)

    def take_all(self, steps: Iterable[StoryStep], answer: str) -> None:
        for step in steps:
            self._take(step)
        self._call(len(answer))
        self._add("assistant", content=answer, finish_reason="stop")

    def make_title(self, title: str) -> None:
        """Add a call beside the conversation, which only the usage table has."""
        usage = TokenUse(fresh=self.dice.randint(380, 900), output=self.dice.randint(9, 24))
        self.row["title"] = title
        row = self._write_usage(MINI, usage, calls=1)
        self.aside.append({**row, "task": "title_generation"})

    def close(self, reason: str | None) -> None:
        """Close the chat. Hermes often does not: then it has no end and no reason."""
        if reason:
            self.row |= {"ended_at": self.clock.seconds, "end_reason": reason}

    def find_rows(self) -> tuple[Row, list[Row], list[Row]]:
        """Write the session's row, its usage and its messages."""
        asked = sum("tool_calls" in row for row in self.messages)
        session = {**self.row, "message_count": len(self.messages), "tool_call_count": asked}
        if not self.calls:  # it died before the first answer: no word of who was asked
            return session, [], self.messages
        _, _, status, source = SELLERS[self.model]
        amount = estimate_usd(self.usage, self.model)
        cost = {"estimated_cost_usd": amount, "cost_status": status, "cost_source": source}
        used = {**self._write_usage(self.model, self.usage, calls=self.calls), **cost}
        own = ("session_id", "first_seen", "last_seen")
        session |= {name: value for name, value in used.items() if name not in own}
        return session, [used, *self.aside], self.messages

    def _write_usage(self, model: str, usage: TokenUse, *, calls: int) -> Row:
        provider, address, _, _ = SELLERS[model]
        return {
            "session_id": self.session,
            "model": model,
            "billing_provider": provider,
            "billing_base_url": address,
            "api_call_count": calls,
            "input_tokens": usage.fresh,
            "output_tokens": usage.output,
            "cache_read_tokens": usage.read,
            "cache_write_tokens": usage.write,
            "reasoning_tokens": usage.thinking,
            "first_seen": self.first_call_at or self.clock.seconds,
            "last_seen": self.clock.seconds,
        }

    def _call(self, said: int) -> None:
        before = self.clock.seconds
        usage = self.meter.read_call(self.heard, said)
        if self.model == LOCAL:
            self.clock.wait((self.clock.seconds - before) * LOCAL_SLOWNESS)
        if self.model != SONNET:  # these count what they write to a cache as fresh
            fresh = usage.fresh + usage.write
            usage = TokenUse(fresh, usage.read, 0, 0, usage.output, usage.thinking)
        self.usage += usage
        self.calls += 1
        self.heard = 0
        self.first_call_at = self.first_call_at or self.clock.seconds

    def _take(self, step: StoryStep) -> None:
        name, arguments, result = make_exchange(step)
        self._call(len(json.dumps(arguments)) + len(step.say))
        call_id = f"call_{self.dice.hex_id(10)}"
        call = {
            "id": call_id,
            "call_id": call_id,
            "response_item_id": f"fc_{call_id[5:]}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        asked = json.dumps([call], ensure_ascii=False)
        self._add("assistant", content=step.say, tool_calls=asked, finish_reason="tool_calls")
        if step.tool == "delegate":
            result = self._delegate(step)
        else:
            self.clock.wait(step.seconds)
        text = json.dumps(result, ensure_ascii=False)
        if name.startswith("web_"):
            text = f"<untrusted_tool_result>\n{text}\n</untrusted_tool_result>"
        self._add("tool", content=text, tool_call_id=call_id, tool_name=name)

    def _delegate(self, step: StoryStep) -> Row:
        """Add a child session that does the work."""
        child = HermesChat(self.dice, self.clock, model=MINI, cwd=self.row["cwd"])
        config = {"max_iterations": 50, "_delegate_from": self.session}
        child.row |= {"source": "subagent", "parent_session_id": self.session}
        child.row["model_config"] = json.dumps(config)
        started = self.clock.seconds
        child.hear(step.text)
        child.take_all(step.inner, step.out)
        child.close("agent_close")
        self.children.append(child)
        result = {
            "task_index": 0,
            "status": "completed",
            "summary": step.out,
            "api_calls": child.calls,
            "duration_seconds": round(self.clock.seconds - started, 2),
            "model": MINI,
            "exit_reason": "completed",
            "tokens": {"input": child.usage.prompt, "output": child.usage.output},
        }
        return {"results": [result]}

    def _add(self, role: str, **more: str) -> None:
        self.heard += len(more.get("content", ""))
        row = {"session_id": self.session, "role": role, "timestamp": self.clock.seconds}
        self.messages.append({**row, **more})


def hold_chats(dice: Dice, stories: Stories, begun: Sequence[datetime]) -> Iterator[HermesChat]:
    """Return a chat for each moment; one of the last has a sub-agent."""
    titles: list[str] = []
    for number, at in enumerate(begun):
        (task,) = stories.deal(stories.choose_project())
        if number == len(begun) - 2:
            task = stories.make_task("explore-and-plan", "shop-api")
        elif number % 3 == 1:
            task = stories.make_task("bad-gateway", "infra")
            note = StoryStep("skill", "incident-notes", say="I'll note it down as we do.")
            task = replace(task, steps=(*task.steps, note))
        model = dice.choices((SONNET, MINI, LOCAL), (6, 2, 2))[0]
        chat = HermesChat(dice, Clock(at), model=model, cwd=task.folder)
        chat.play(task)
        title = f"{task.name.capitalize().replace('-', ' ')} in {task.project}"
        titles.append(title)
        again = titles.count(title)
        chat.make_title(title if again == 1 else f"{title} #{again}")
        chat.close(dice.choice(("cli_close", "agent_close", None)))
        yield chat


def write_database(path: Path, conversations: Iterable[HermesChat]) -> None:
    """Write `state.db` with all sessions and sub-agents, in the order they began."""
    every = [one for parent in conversations for one in (parent, *parent.children)]
    with make_database(path, STATE) as database:
        for one in sorted(every, key=lambda one: one.row["started_at"]):
            session, usage, messages = one.find_rows()
            insert_rows(database, "sessions", [session])
            insert_rows(database, "session_model_usage", usage)
            insert_rows(database, "messages", messages)


def make_exchange(step: StoryStep) -> tuple[str, Row, Row]:
    """Return the tool's name, its arguments, and its result."""
    match step.tool:
        case "run":
            result = {"output": step.out, "exit_code": step.exit, "error": None}
            return "terminal", {"command": step.target}, result
        case "read" if step.exit:
            missing = {"content": "", "total_lines": 0, "error": f"File not found: {step.target}"}
            return "read_file", {"path": step.target}, missing
        case "read":
            lines = step.out.split("\n")
            text = "\n".join(f"{number}|{line}" for number, line in enumerate(lines, 1))
            size = {"total_lines": len(lines), "file_size": len(step.out), "truncated": False}
            return "read_file", {"path": step.target}, {"content": text, **size}
        case "edit":
            change = {"path": step.target, "old_string": step.old, "new_string": step.new}
            diff = f"--- a/{step.target}\n+++ b/{step.target}\n-{step.old}\n+{step.new}"
            return "patch", change, {"success": True, "diff": diff}
        case "write":
            given = {"path": step.target, "content": step.text + "\n"}
            return "write_file", given, {"bytes_written": len(step.text.encode()) + 1}
        case "search":
            found = [line.split(":", 2) for line in step.out.split("\n") if line.count(":") >= 2]
            rows = [{"path": path, "line": int(at), "content": text} for path, at, text in found]
            asked = {"pattern": step.target, "path": step.path, "target": "content"}
            return "search_files", asked, {"total_count": len(rows), "matches": rows}
        case "fetch":
            page = {"url": step.target, "content": step.out, "error": None}
            return "web_extract", {"urls": [step.target]}, {"results": [page]}
        case "plan":
            todos = [{"id": item, "content": item, "status": "pending"} for item in step.items]
            return "todo", {"todos": todos}, {"todos": todos}
        case "skill":
            skill = read_skills(step.target)[-1]
            place = f"{HOME}/.hermes/skills/{skill.name}"
            shown = {"success": True, "name": skill.name, "description": skill.description}
            result = {**shown, "content": skill.document, "skill_dir": place}
            return "skill_view", {"name": skill.name}, result
        case _:
            return "delegate_task", {"goal": step.target, "context": step.text}, {}
