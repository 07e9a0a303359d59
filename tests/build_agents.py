"""The same small session as each of the newer agents leaves it, in the exact form of its files.

A prompt, five model calls with known tokens, a shell command that works, one that exits with 3, a
file that is missing, two calls in one answer, and an answer. Calls are numbered from 0 in each
answer, as many local servers do, so their ids repeat.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
from build import START, stamp

PROJECT = "/home/dev/shop"
PROMPT, FIRST, LAST = "Tidy the price list", "I look.", "The list is tidy."
MODEL = "small-model"
SESSION = "0e040c87-5cf9-44fb-b74d-fca4b580fc85"


@dataclass(frozen=True)
class Used:
    """The tokens of a call, in disjoint buckets; `thought` is a part of `output`."""

    fresh: int
    cached: int
    output: int
    thought: int

    @property
    def prompt(self) -> int:
        return self.fresh + self.cached


@dataclass(frozen=True)
class Done:
    """A call with its result: the tool is named by each agent."""

    kind: str  # shell or read
    subject: str
    output: str
    exit_code: int | None = 0
    is_error: bool = False


TRUTH = [Used(900 + 14 * n, 100 + n, 40 + n, n) for n in range(5)]
CALLS: list[list[Done]] = [
    [Done("shell", "ls prices", "prices.csv\n")],
    [Done("shell", "sh check.sh", "no header\n", exit_code=3)],
    [Done("read", f"{PROJECT}/gone.txt", "File not found: gone.txt", None, is_error=True)],
    [Done("shell", "echo a", "a\n"), Done("shell", "echo b", "b\n")],
    [],
]
TEXTS = [FIRST, "", "", "", LAST]
# the verdicts of the calls above, in order
LABELS = ["ok", "error", "error", "ok", "ok"]


def steps() -> Iterator[tuple[int, float, Used, str, list[Done]]]:
    """Each model call: its number, its time, its tokens, its words and its calls."""
    for number, used in enumerate(TRUTH):
        yield number, 10.0 * (number + 1), used, TEXTS[number], CALLS[number]


def milliseconds(seconds: float) -> int:
    return START + round(seconds * 1000)


def arguments(call: Done) -> dict[str, str]:
    return {"command": call.subject} if call.kind == "shell" else {"path": call.subject}


# Copilot CLI 1.0.102


def copilot_event(kind: str, at: float, *, agent: str | None = None, **data: Any) -> dict[str, Any]:
    event = {"type": kind, "data": data, "id": f"e-{kind}-{at}", "timestamp": stamp(at)}
    return event | ({"agentId": agent} if agent else {}) | {"parentId": None}


def copilot_usage(
    at: float, used: Used, number: int, *, session: str = SESSION, agent: str | None = None
) -> dict[str, Any]:
    usage = {
        "model": MODEL,
        "inputTokens": used.prompt,
        "outputTokens": used.output,
        "cacheReadTokens": used.cached,
        "cacheWriteTokens": 0,
        "reasoningTokens": used.thought,
        "cost": 0.33,
        "duration": 54,
        "timeToFirstTokenMs": 21.4,
        "isByok": True,
        "modelProvider": "other",
        "apiCallId": "chatcmpl-1",
        "accounting": {"sourceSessionId": session, "sequence": number, "usageId": "chatcmpl-1"},
    }
    return copilot_event("session.usage_record", at, agent=agent, usage=usage)


def copilot_session(session: str = SESSION) -> list[dict[str, Any]]:
    context = {"cwd": PROJECT, "branch": "main"}
    begun = {"sessionId": session, "copilotVersion": "1.0.102", "selectedModel": MODEL}
    lines = [
        copilot_event("session.start", 0, **begun, context=context),
        copilot_event("user.message", 1, content=PROMPT, transformedContent=f"<now/>\n{PROMPT}"),
        copilot_event("system.message", 1, role="system", content="You are an agent."),
    ]
    for number, at, used, text, calls in steps():
        lines.append(copilot_usage(at, used, number + 1, session=session))
        asked = [
            {
                "toolCallId": f"call_{place}",
                "name": "bash" if call.kind == "shell" else "view",
                "arguments": arguments(call),
            }
            for place, call in enumerate(calls)
        ]
        answer: dict[str, Any] = {"messageId": f"m{number}", "content": text}
        answer |= {"toolRequests": asked, "apiCallId": "chatcmpl-1"}
        lines.append(copilot_event("assistant.message", at, **answer))
        for number_of, call in enumerate(calls):
            name = f"call_{number_of}"
            lines.append(copilot_event("tool.execution_start", at + 1, toolCallId=name))
            told: dict[str, Any] = {"toolCallId": name, "success": not call.is_error}
            if call.is_error:
                told["error"] = {"message": call.output, "code": "failure"}
            else:
                told["result"] = {"content": call.output}
                told["shellExecution"] = {"exitCode": call.exit_code}
            lines.append(copilot_event("tool.execution_complete", at + 1.25, **told))
    sums = {
        "inputTokens": sum(one.prompt for one in TRUTH),
        "outputTokens": sum(one.output for one in TRUTH),
        "cacheReadTokens": sum(one.cached for one in TRUTH),
        "cacheWriteTokens": 0,
        "reasoningTokens": sum(one.thought for one in TRUTH),
    }
    metrics = {MODEL: {"requests": {"count": 5, "cost": 1.65}, "usage": sums}}
    lines.append(
        copilot_event("session.shutdown", 60, accountingSnapshot={"modelMetrics": metrics})
    )
    return lines


def write_copilot(home: Path, records: Sequence[Any], *, name: str = SESSION) -> Path:
    path = home / ".copilot" / "session-state" / name / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build.as_lines(records))
    return path


# OpenCode 1.18.33 and Kilo 7.7.7

OPENCODE_TABLES = """
    create table session (id text primary key, project_id text not null, parent_id text,
        slug text not null, directory text not null, title text not null, version text not null,
        cost real not null default 0, tokens_input integer not null default 0,
        time_created integer not null, time_updated integer not null);
    create table message (id text primary key, session_id text not null,
        time_created integer not null, time_updated integer not null, data text not null);
    create table part (id text primary key, message_id text not null, session_id text not null,
        time_created integer not null, time_updated integer not null, data text not null);
    create table session_message (id text primary key, session_id text not null,
        type text not null, data text not null);
"""
OPENCODE_SESSION = "ses_e1f8054d9ffeNBSCM0kjJQoJ0M"
COST = 0.0025


def open_opencode(home: Path, agent: str = "opencode") -> sqlite3.Connection:
    """The agent's own database, open for writing as the agent has it."""
    path = home / ".local" / "share" / agent / f"{agent}.db"
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = build.connect_as_hermes(path)
    if is_new:
        connection.execute("pragma journal_mode = wal")
        connection.executescript(OPENCODE_TABLES)
    return connection


def put(database: sqlite3.Connection, table: str, **row: Any) -> None:
    """Write a row, or write it again as it is now."""
    values = {name: json.dumps(one) if name == "data" else one for name, one in row.items()}
    marks = ", ".join("?" * len(values))
    statement = f"insert or replace into {table} ({', '.join(values)}) values ({marks})"
    database.execute(statement, list(values.values()))


def put_session(database: sqlite3.Connection, name: str = OPENCODE_SESSION, **row: Any) -> None:
    fields = {
        "project_id": "global",
        "slug": "glowing-tiger",
        "directory": PROJECT,
        "title": "New session",
        "version": "1.18.33",
        "time_created": START,
        "time_updated": START,
    }
    put(database, "session", id=name, **(fields | row))


def put_message(
    database: sqlite3.Connection,
    name: str,
    at: float,
    *,
    session: str = OPENCODE_SESSION,
    **data: Any,
) -> None:
    times = {"time_created": milliseconds(at), "time_updated": milliseconds(at)}
    data["time"] = {"created": milliseconds(at)} | data.get("time", {})
    put(database, "message", id=name, session_id=session, **times, data=data)


def put_part(
    database: sqlite3.Connection,
    name: str,
    message: str,
    at: float,
    *,
    session: str = OPENCODE_SESSION,
    **data: Any,
) -> None:
    times = {"time_created": milliseconds(at), "time_updated": milliseconds(at)}
    put(database, "part", id=name, message_id=message, session_id=session, **times, data=data)


def opencode_tokens(used: Used) -> dict[str, Any]:
    return {
        "input": used.fresh,
        "output": used.output - used.thought,
        "reasoning": used.thought,
        "cache": {"read": used.cached, "write": 0},
    }


def write_opencode(
    database: sqlite3.Connection,
    session: str = OPENCODE_SESSION,
    *,
    copy: str = "",
    after: Callable[[], object] = lambda: None,
    **row: Any,
) -> None:
    """The session row by row, calling `after` each; `copy` is put into the ids of a fork."""
    put_session(database, session, **row)
    asked = f"msg_{copy}0"
    put_message(database, asked, 1, session=session, role="user")
    after()
    put_part(database, f"prt_{copy}0", asked, 1, session=session, type="text", text=PROMPT)
    after()
    for number, at, used, text, calls in steps():
        name = f"msg_{copy}{number + 1}"
        told = {"role": "assistant", "modelID": MODEL, "providerID": "local", "parentID": asked}
        zero = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        put_message(database, name, at, session=session, **told, tokens=zero, cost=0)
        after()
        if text:
            parts = {"type": "text", "text": text}
            put_part(database, f"prt_{copy}{number + 1}a", name, at, session=session, **parts)
            after()
        for place, call in enumerate(calls):
            part = f"prt_{copy}{number + 1}b{place}"
            tool = {
                "type": "tool",
                "tool": "bash" if call.kind == "shell" else "read",
                "callID": f"call_{place}",
            }
            running: dict[str, Any] = {"status": "running", "input": arguments(call)}
            running["time"] = {"start": milliseconds(at + 1)}
            put_part(database, part, name, at + 1, session=session, **tool, state=running)
            after()
            ended: dict[str, Any] = {"start": milliseconds(at + 1), "end": milliseconds(at + 1.25)}
            state: dict[str, Any] = {"input": arguments(call), "time": ended}
            if call.is_error:
                state |= {"status": "error", "error": call.output}
            else:
                metadata = {"exit": call.exit_code, "output": call.output}
                state |= {"status": "completed", "output": call.output, "metadata": metadata}
            put_part(database, part, name, at + 1.25, session=session, **tool, state=state)
            after()
        tokens = opencode_tokens(used)
        step = {"type": "step-finish", "tokens": tokens, "cost": COST}
        put_part(database, f"prt_{copy}{number + 1}c", name, at + 2, session=session, **step)
        after()
        done = {"time": {"completed": milliseconds(at + 2)}, "tokens": tokens, "cost": COST}
        put_message(database, name, at, session=session, **told, **done)
        after()


# Gemini CLI 0.61.0


def gemini_result(call: Done, name: str, tool: str) -> list[dict[str, Any]]:
    if call.is_error:
        response = {"error": call.output}
    else:
        code = f"Exit Code: {call.exit_code}\n" if call.exit_code else ""
        response = {
            "output": f"<untrusted_context>\nOutput: {call.output}{code}</untrusted_context>"
        }
    return [{"functionResponse": {"id": name, "name": tool, "response": response}}]


def gemini_session(session: str = SESSION, **head: Any) -> list[dict[str, Any]]:
    context = (
        "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n"
        f"  - {PROJECT}\n</session_context>"
    )
    first = {"id": "d0", "timestamp": stamp(0), "type": "user", "content": [{"text": context}]}
    begun = {"sessionId": session, "projectHash": "fbf96c", "startTime": stamp(0), "kind": "main"}
    lines: list[dict[str, Any]] = [
        begun | head,
        {"$set": {"messages": [first], "lastUpdated": stamp(0)}},
        {"id": "u1", "timestamp": stamp(1), "type": "user", "content": [{"text": PROMPT}]},
    ]
    for number, at, used, text, calls in steps():
        tokens = {
            "input": used.prompt - 10,
            "output": used.output - used.thought,
            "cached": used.cached,
            "thoughts": used.thought,
            "tool": 10,
            "total": used.prompt + used.output,
        }
        answer = {
            "id": f"g{number}",
            "timestamp": stamp(at),
            "type": "gemini",
            "content": text,
            "thoughts": [],
            "tokens": tokens,
            "model": MODEL,
        }
        lines += [answer, {"$set": {"lastUpdated": stamp(at)}}]
        if not calls:
            continue
        done = []
        for place, call in enumerate(calls):
            tool = "run_shell_command" if call.kind == "shell" else "read_file"
            name = f"{tool}__call_{place}"
            done.append(
                {
                    "id": name,
                    "name": tool,
                    "args": arguments(call),
                    "result": gemini_result(call, name, tool),
                    "status": "error" if call.is_error else "success",
                    "timestamp": stamp(at + 1.25),
                }
            )
        lines.append(answer | {"toolCalls": done})
        results = [part for one in done for part in one["result"]]
        told = {"id": f"r{number}", "timestamp": stamp(at + 1.3), "type": "user"}
        lines.append(told | {"content": results})
    return lines


def write_gemini(home: Path, records: Sequence[Any], *, name: str = SESSION) -> Path:
    folder = home / ".gemini" / "tmp" / "shop" / "chats"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"session-2026-11-15T00-00-{name[:8]}.jsonl"
    path.write_bytes(build.as_lines(records))
    return path


# Qwen Code 0.15.10


def qwen_record(kind: str, at: float, session: str = SESSION, **fields: Any) -> dict[str, Any]:
    base = {
        "uuid": f"{kind}-{at}",
        "parentUuid": None,
        "sessionId": session,
        "timestamp": stamp(at),
        "type": kind,
        "cwd": PROJECT,
        "version": "0.15.10",
        "gitBranch": "main",
    }
    return base | fields


def qwen_telemetry(at: float, name: str, session: str = SESSION, **event: Any) -> dict[str, Any]:
    payload = {"uiEvent": {"event.name": f"qwen-code.{name}", **event}}
    subtype = {"subtype": "ui_telemetry", "systemPayload": payload}
    return qwen_record("system", at, session, **subtype) | {"uuid": f"t-{name}-{at}"}


def qwen_session(session: str = SESSION) -> list[dict[str, Any]]:
    asked = {"role": "user", "parts": [{"text": PROMPT}]}
    lines = [qwen_record("user", 1, session, message=asked)]
    for _, at, used, text, calls in steps():
        usage = {
            "promptTokenCount": used.prompt,
            "candidatesTokenCount": used.output,
            "thoughtsTokenCount": used.thought,
            "totalTokenCount": used.prompt + used.output,
            "cachedContentTokenCount": used.cached,
        }
        counted = {"input_token_count": used.prompt, "output_token_count": used.output}
        lines.append(qwen_telemetry(at, "api_response", session, duration_ms=54, **counted))
        parts: list[dict[str, Any]] = [{"text": text}] if text else []
        tools = ["run_shell_command" if one.kind == "shell" else "read_file" for one in calls]
        for place, (call, tool) in enumerate(zip(calls, tools, strict=True)):
            function = {"id": f"call_{place}", "name": tool, "args": arguments(call)}
            parts.append({"functionCall": function})
        answer = {"message": {"role": "model", "parts": parts}, "usageMetadata": usage}
        lines.append(qwen_record("assistant", at, session, model=MODEL, **answer))
        for place, (call, tool) in enumerate(zip(calls, tools, strict=True)):
            when = at + 1.25 + place / 10
            spent = {"function_name": tool, "duration_ms": 250}
            lines.append(qwen_telemetry(when, "tool_call", session, **spent))
            words = f"Output: {call.output}Error: (none)\nExit Code: {call.exit_code}\nSignal: 0"
            response = {"error": call.output} if call.is_error else {"output": words}
            name = f"call_{place}"
            result = {"functionResponse": {"id": name, "name": tool, "response": response}}
            told = {"callId": name, "status": "error" if call.is_error else "success"}
            lines.append(
                qwen_record(
                    "tool_result",
                    when,
                    session,
                    message={"role": "user", "parts": [result]},
                    toolCallResult=told,
                )
            )
    return lines


def write_qwen(home: Path, records: Sequence[Any], *, name: str = SESSION) -> Path:
    path = home / ".qwen" / "projects" / "-home-dev-shop" / "chats" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build.as_lines(records))
    return path


# Pi 0.73.1


def pi_entry(name: str, parent: str | None, at: float, **message: Any) -> dict[str, Any]:
    entry = {"type": "message", "id": name, "parentId": parent, "timestamp": stamp(at)}
    return entry | {"message": {**message, "timestamp": milliseconds(at - 0.25)}}


def pi_session(session: str = SESSION, **head: Any) -> list[dict[str, Any]]:
    begun = {"type": "session", "version": 3, "id": session, "timestamp": stamp(0), "cwd": PROJECT}
    lines: list[dict[str, Any]] = [
        begun | head,
        {"type": "model_change", "id": "a0", "parentId": None, "timestamp": stamp(0.5),
         "provider": "local", "modelId": MODEL},
        pi_entry("a1", "a0", 1, role="user", content=[{"type": "text", "text": PROMPT}]),
    ]  # fmt: skip
    last = "a1"
    for number, at, used, text, calls in steps():
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {
                "type": "toolCall",
                "id": f"call_{place}",
                "name": "bash" if call.kind == "shell" else "read",
                "arguments": arguments(call),
            }
            for place, call in enumerate(calls)
        ]
        usage = {
            "input": used.fresh,
            "output": used.output,
            "cacheRead": used.cached,
            "cacheWrite": 0,
            "totalTokens": used.prompt + used.output,
            "cost": {"total": COST},
        }
        told = {"provider": "local", "model": MODEL, "usage": usage, "responseId": "chatcmpl-1"}
        stop = "toolUse" if calls else "stop"
        name = f"b{number}"
        lines.append(
            pi_entry(name, last, at, role="assistant", content=blocks, **told, stopReason=stop)
        )
        last = name
        for place, call in enumerate(calls):
            code = f"\n\nCommand exited with code {call.exit_code}" if call.exit_code else ""
            result = {"role": "toolResult", "toolCallId": f"call_{place}", "toolName": "bash"}
            shown = [{"type": "text", "text": f"{call.output}{code}"}]
            is_error = call.is_error or bool(call.exit_code)
            name = f"c{number}{place}"
            when = at + 1.25
            lines.append(pi_entry(name, last, when, **result, content=shown, isError=is_error))
            last = name
    return lines


def write_pi(home: Path, records: Sequence[Any], *, name: str = SESSION) -> Path:
    folder = home / ".pi" / "agent" / "sessions" / "--home-dev-shop--"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-11-15T00-00-00-000Z_{name}.jsonl"
    path.write_bytes(build.as_lines(records))
    return path


# Cline 3.0.65

CLINE_SESSION = "1794767852951_3zavj"


def cline_messages() -> list[dict[str, Any]]:
    typed = f'<user_input mode="act">{PROMPT}</user_input>'
    messages: list[dict[str, Any]] = [
        {"id": "u1", "role": "user", "content": [{"type": "text", "text": typed}],
         "ts": milliseconds(1)},
    ]  # fmt: skip
    for number, at, used, text, calls in steps():
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for place, call in enumerate(calls):
            given = {"commands": [call.subject]}
            tool = "run_commands" if call.kind == "shell" else "read_files"
            asked = given if call.kind == "shell" else {"files": [{"path": call.subject}]}
            blocks.append({"type": "tool_use", "id": f"call_{place}", "name": tool, "input": asked})
        metrics = {
            "inputTokens": used.prompt,
            "outputTokens": used.output,
            "cacheReadTokens": used.cached,
            "cacheWriteTokens": 0,
            "cost": COST,
        }
        answer = {"id": f"msg_{number}", "role": "assistant", "content": blocks}
        told = {"modelInfo": {"id": MODEL, "provider": "local"}, "metrics": metrics}
        messages.append(answer | {"ts": milliseconds(at)} | told)
        for place, call in enumerate(calls):
            part: dict[str, Any] = {"query": call.subject, "result": call.output, "success": True}
            if call.exit_code:
                words = f"Command exited with code {call.exit_code}"
                part |= {"result": f"[{words}]\n\n{call.output}", "error": words, "success": False}
            if call.is_error:
                part |= {"result": "", "error": call.output, "success": False}
            result = {"type": "tool_result", "tool_use_id": f"call_{place}", "content": [part]}
            messages.append(
                {"id": f"r{number}{place}", "role": "user", "content": [result],
                 "ts": milliseconds(at + 1.25 + place / 10)}
            )  # fmt: skip
    return messages


def write_cline(
    home: Path,
    messages: Sequence[Any],
    *,
    session: str = CLINE_SESSION,
    agent: str | None = None,
    status: str = "completed",
) -> Path:
    """The documents of a session, or the one of its sub-agent."""
    folder = home / ".cline" / "data" / "sessions" / session
    folder.mkdir(parents=True, exist_ok=True)
    key = f"{session}__{agent}" if agent else session
    document = {"version": 1, "agent": agent or "lead", "sessionId": key, "messages": messages}
    path = folder / f"{agent or session}.messages.json"
    path.write_text(json.dumps(document, indent=2))
    if not agent:
        manifest = {
            "session_id": session,
            "started_at": stamp(0),
            "ended_at": None if status == "running" else stamp(60),
            "status": status,
            "cwd": PROJECT,
            "model": MODEL,
            "metadata": {"sessionHistoryOrigin": {"mode": "user", "version": "3.0.65"}},
        }
        (folder / f"{session}.json").write_text(json.dumps(manifest, indent=2))
    return path


# Droid 0.215.0


def droid_message(name: str, at: float, role: str, *blocks: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(blocks), **fields}
    return {"type": "message", "id": name, "timestamp": stamp(at), "message": message}


def droid_session(session: str = SESSION, **head: Any) -> list[dict[str, Any]]:
    begun = {"type": "session_start", "id": session, "title": PROMPT, "version": 2, "cwd": PROJECT}
    context = {"type": "text", "text": "<system-reminder>\nTools.\n</system-reminder>"}
    lines = [
        begun | head,
        droid_message("x0", 0.5, "user", context, visibility="llm_only"),
        droid_message("u1", 1, "user", {"type": "text", "text": PROMPT}),
    ]
    for number, at, _, text, calls in steps():
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {
                "type": "tool_use",
                "id": f"call_{place}",
                "name": "Execute" if call.kind == "shell" else "Read",
                "input": arguments(call),
            }
            for place, call in enumerate(calls)
        ]
        lines.append(droid_message(f"m{number}", at, "assistant", *blocks, modelId=MODEL))
        results = []
        for place, call in enumerate(calls):
            words = f"Error: {call.output}" if call.is_error else call.output
            if call.kind == "shell":
                words += f"\n\n[Process exited with code {call.exit_code}]"
            is_error = call.is_error or bool(call.exit_code)
            result = {"type": "tool_result", "tool_use_id": f"call_{place}", "content": words}
            results.append(result | {"is_error": is_error})
        if results:
            lines.append(droid_message(f"r{number}", at + 1.25, "user", *results))
    lines.append({"type": "agent_turn_outcome", "turnId": "u1", "reason": "completed"})
    return lines


def write_droid(
    home: Path, records: Sequence[Any], *, name: str = SESSION, used: Sequence[Used] = TRUTH
) -> Path:
    folder = home / ".factory" / "sessions" / "-home-dev-shop"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    # without spaces, as JavaScript writes it
    texts = (json.dumps(one, separators=(",", ":")) for one in records)
    path.write_text("".join(f"{text}\n" for text in texts))
    write_droid_sums(path, used)
    return path


def write_droid_sums(path: Path, used: Sequence[Used]) -> None:
    sums = {
        "inputTokens": sum(one.fresh for one in used),
        "outputTokens": sum(one.output for one in used),
        "cacheCreationTokens": 0,
        "cacheReadTokens": sum(one.cached for one in used),
        "thinkingTokens": 0,
        "factoryCredits": 12,
    }
    settings = {"model": MODEL, "tokenUsage": sums, "inclusiveTokenUsage": sums}
    path.with_suffix(".settings.json").write_text(json.dumps(settings, indent=2))


def write_all(home: Path) -> None:
    """Sessions of every kind of source, with a sub-agent, a failed call and a fork."""
    parent = build.write_claude(home, build.claude_session())
    build.write_agent(parent, build.claude_session()[:2])
    write_copilot(home, copilot_session())
    write_opencode(open_opencode(home))
    write_gemini(home, gemini_session())
    write_qwen(home, qwen_session())
    write_pi(home, pi_session())
    write_cline(home, cline_messages())
    write_droid(home, droid_session())
