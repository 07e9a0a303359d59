"""Builders: skills as each client writes them into its sessions."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

import build
from relight.reports.totals import report
from relight.store import Store

TIDY = "---\nname: tidy\ndescription: Tidies up.\nversion: 1.2.0\n---\n# Tidy\nPut things away."
SWEEP = "---\nname: sweep\ndescription: Sweeps.\n---\n# Sweep\nSweep the floor."
JOB = "aaaaaaaaaaaa"
RUN = f"cron_{JOB}_20261115_000000"


def hermes_block(name: str, document: str) -> str:
    return (
        f'[IMPORTANT: The user has invoked the "{name}" skill, indicating they want you to follow'
        f" its instructions. The full skill content is loaded below.]\n\n{document}"
    )


def hermes_prompt(*blocks: str, instruction: str = "Do it now") -> str:
    told = "The user has provided the following instruction alongside the skill invocation: "
    return "\n\n".join([*blocks, told + instruction])


def hermes_call(tool: str, call: str = "call_1", **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    calls = json.dumps([{"id": call, "type": "function", "function": function}])
    return {"role": "assistant", "content": "", "tool_calls": calls}


def hermes_result(tool: str, content: dict[str, Any], call: str = "call_1") -> dict[str, Any]:
    text = json.dumps(content)
    return {"role": "tool", "tool_call_id": call, "tool_name": tool, "content": text}


def hermes_viewed(name: str, document: str, call: str = "call_1") -> list[dict[str, Any]]:
    """A `skill_view` call that found its skill."""
    told = {"success": True, "name": name, "content": document}
    return [hermes_call("skill_view", call, name=name), hermes_result("skill_view", told, call)]


def write_hermes(
    database: sqlite3.Connection, name: str, *messages: dict[str, Any], **figures: Any
) -> None:
    """A session with separate sums, and a message a second."""
    begin = build.START / 1000
    usage = {"input_tokens": 1001, "output_tokens": 68, "cache_read_tokens": 400} | figures
    calls = usage.pop("api_call_count", 3)
    source = "cron" if name.startswith("cron_") else "cli"
    base = {"id": name, "source": source, "model": "gpt-5.1", "started_at": begin}
    build.insert(database, "sessions", **base, api_call_count=calls, **usage)
    if calls:
        build.insert(
            database,
            "session_model_usage",
            session_id=name,
            model="gpt-5.1",
            billing_provider="openai",
            api_call_count=calls,
            first_seen=begin + 1,
            **usage,
        )
    for number, row in enumerate(messages):
        build.insert(database, "messages", session_id=name, timestamp=begin + number, **row)


def write_ledger(home: Path, status: str, error: str | None = None) -> None:
    """The job whose run `RUN` is, and what the ledger says of it."""
    folder = home / ".hermes" / "cron"
    folder.mkdir(exist_ok=True)
    job = {"id": JOB, "name": "nightly", "skills": ["tidy"], "provider": "openai"}
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job]}))
    ledger = sqlite3.connect(folder / "executions.db", isolation_level=None)
    ledger.execute(
        "create table if not exists executions (id text primary key, job_id text, status text,"
        " claimed_at text, started_at text, finished_at text, error text)"
    )
    ledger.execute(
        "insert or replace into executions values ('r1', ?, ?, ?, ?, ?, ?)",
        (JOB, status, build.stamp(-1), build.stamp(-1), build.stamp(60), error),
    )
    ledger.close()


def claude_skill(
    call: str, name: str, *, at: float, body: str = "Put things away.", is_error: bool = False
) -> list[dict[str, Any]]:
    """A `Skill` call with its result and the skill's text, as three lines."""
    text = f"Base directory for this skill: /home/dev/.claude/skills/{name}\n\n{body}\n"
    asked = build.tool_use(call, "Skill", skill=name)
    lines = [
        build.claude_answer(f"msg_{call}", asked, at=at, stop="tool_use"),
        build.claude_result(call, f"Launching skill: {name}", at=at + 0.2, is_error=is_error),
    ]
    if not is_error:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        lines.append(
            build.claude_line("user", at + 0.1, message=message, isMeta=True, sourceToolUseID=call)
        )
    return lines


def claude_command(
    name: str, *, at: float, arguments: str = "", answer: str | None = None, body: str | None = None
) -> list[dict[str, Any]]:
    """A slash command, and what follows it: the client's own answer, or the text it stands for."""
    text = (
        f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
        f"<command-args>{arguments}</command-args>"
    )
    lines = [build.claude_prompt(text, at=at, uuid=f"c-{at}")]
    if answer is not None:
        lines.append(
            build.claude_prompt(f"<local-command-stdout>{answer}</local-command-stdout>", at + 0.1)
        )
    if body is not None:
        message = {"role": "user", "content": [{"type": "text", "text": body}]}
        lines.append(
            build.claude_line("user", at + 0.1, message=message, isMeta=True, parentUuid=f"c-{at}")
        )
    return lines


def codex_message(text: str, at: float) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return build.codex_line("response_item", at, type="message", role="user", content=content)


def codex_skill(name: str, document: str, at: float) -> dict[str, Any]:
    path = f"/home/dev/.codex/skills/{name}/SKILL.md"
    text = f"<skill>\n<name>{name}</name>\n<path>{path}</path>\n{document}\n</skill>"
    return codex_message(text, at)


def codex_turn(name: str, at: float, output: int = 20) -> dict[str, Any]:
    usage = build.codex_usage(1000, output=output)
    return build.codex_line("token_usage_record", at, response_id=name, usage=usage)


def codex_shell(command: str, output: str, at: float) -> list[dict[str, Any]]:
    arguments = json.dumps({"command": ["bash", "-lc", command]})
    call = {"name": "shell", "call_id": f"call-{at}"}
    return [
        build.codex_line("response_item", at, type="function_call", arguments=arguments, **call),
        build.codex_line(
            "response_item", at + 0.5, type="function_call_output", call_id=f"call-{at}",
            output=output,
        ),
    ]  # fmt: skip


def read(store: Store, columns: str) -> list[tuple[Any, ...]]:
    """These columns of every use of a skill, in an order that does not change."""
    order = "skill_name, coalesce(entry, ''), session_id"
    return store.query(f"select {columns} from skill_invocations order by {order}")


# a session with two skills counts in both rows; the others are shares and means
NOT_SUMMED = {
    *("sessions", "failed_turns", "successes", "failures", "unknown"),
    *("cost_per_success_usd", "mean_tokens", "mean_cost_usd"),
}


def check_report(store: Store) -> None:
    """Skills' rows add up to what the days spent, in every figure."""
    by_skill, by_day = report(store, ("skill",)), report(store, ("day",))
    assert by_skill.total == by_day.total
    for name, value in asdict(by_day.total).items():
        if value is not None and name not in NOT_SUMMED:
            assert abs(sum(getattr(row, name) or 0 for row in by_skill.rows) - value) < 1e-9
