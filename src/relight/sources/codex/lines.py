"""The lines of a Codex rollout: the parts of each, and the skills it loads."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.chat.messages import decode_mended
from relight.expressions import compile_later
from relight.model import Count, LimitReport, SkillEntry, ToolCall, WindowKind
from relight.sources.reading import find_texts, write_value
from relight.sources.skill_documents import read_skill_version
from relight.times import read_time

CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
# what the client itself puts in front of a person's words
HARNESS = ("<", "# AGENTS.md")
# the windows of a plan by their hours, and the name of its limits among those of single models
WINDOWS: dict[int | None, WindowKind] = {5: "5h", 168: "week"}
PLAN_LIMIT = "codex"
MINUTE_MS = 60_000
MOST_WAIT = 10**7
RESULTS = ("function_call_output", "custom_tool_call_output")


class TokenUsage(Struct):
    input_tokens: Count = 0
    cached_input_tokens: Count | None = 0
    cache_write_input_tokens: Count | None = 0
    output_tokens: Count = 0
    reasoning_output_tokens: Count | None = None
    total_tokens: Count | None = None


class TokenInfo(Struct):
    total_token_usage: TokenUsage | None = None
    last_token_usage: TokenUsage | None = None


class RateLimits(Struct):
    plan_type: str | None = None
    limit_id: str | None = None
    # read with care: a strange window must not cost the line its usage
    primary: Any = None
    secondary: Any = None


class ItemDuration(Struct):
    secs: Annotated[int, Meta(ge=0, le=10**9)] = 0
    nanos: Count = 0


class CompletedItem(Struct):
    type: str = ""
    id: str = ""
    exit_code: int | None = None
    duration: ItemDuration | None = None


class ContentPart(Struct):
    text: str | None = None


class Payload(Struct):
    type: str = ""
    id: str | None = None
    turn_id: str | None = None
    cwd: str | None = None
    git: Any = None
    cli_version: str | None = None
    model_provider: str | None = None
    source: Any = None
    forked_from_id: str | None = None
    model: str | None = None
    info: TokenInfo | None = None
    rate_limits: RateLimits | None = None
    response_id: str | None = None
    usage: TokenUsage | None = None
    name: str | None = None
    arguments: str | None = None
    input: Any = None
    action: Any = None
    call_id: str | None = None
    output: Any = None
    status: str | None = None
    role: str | None = None
    content: list[ContentPart] | None = None
    message: str | None = None
    item: CompletedItem | None = None
    duration_ms: int | None = None
    reason: str | None = None


class RolloutLine(Struct):
    type: str = ""
    timestamp: str | None = None
    payload: Payload | None = None


_decode = msgspec.json.Decoder(RolloutLine).decode


def decode_line(line: bytes) -> RolloutLine:
    return decode_mended(_decode, line)


def is_included(limits: RateLimits) -> bool:
    """True if a plan pays for a call: a login with an API key has none, and some plans bill usage.

    Plans are free, go, plus, pro, team, business, edu, enterprise and others: the list grows.
    """
    return bool(limits.plan_type) and not (limits.plan_type or "").endswith("usage_based")


def find_limits(limits: RateLimits, session: str, at: int | None) -> Iterator[LimitReport]:
    """The windows of a plan that a record reports on; those of single models are left out."""
    if at is None or limits.limit_id not in (None, PLAN_LIMIT):
        return
    windows: tuple[tuple[Any, WindowKind], ...]
    windows = (limits.primary, "5h"), (limits.secondary, "week")
    for window, usual in windows:
        if not isinstance(window, dict):
            continue
        minutes, used = window.get("window_minutes"), window.get("used_percent")
        kind = usual if minutes is None else WINDOWS.get(_round_hours(minutes))
        ends_at = read_time(window.get("resets_at"))
        wait = window.get("resets_in_seconds")
        if ends_at is None and isinstance(wait, int | float) and 0 <= wait < MOST_WAIT:
            ends_at = at + round(wait * 1000)
        if kind is None or ends_at is None or not isinstance(used, int | float):
            continue
        if 0 <= used <= 1000:
            # a wait in seconds gives a slightly different end each time
            ends_at = (ends_at + MINUTE_MS // 2) // MINUTE_MS * MINUTE_MS
            yield LimitReport(
                session=session, kind=kind, ends_at=ends_at, at=at, used_percent=float(used)
            )


def _round_hours(minutes: Any) -> int | None:
    """Whole hours: some versions write 299 minutes."""
    return round(minutes / 60) if isinstance(minutes, int | float) and minutes < 1e6 else None


def find_spawner(payload: Payload) -> str | None:
    """The thread that spawned a session, if its `source` names a sub-agent."""
    try:
        spawner = payload.source["subagent"]["thread_spawn"]["parent_thread_id"]
    except (KeyError, TypeError):
        return None
    return spawner if isinstance(spawner, str) else None


def find_arguments(payload: Payload) -> str | None:
    """A call's arguments: the text that a model wrote, else JSON."""
    if payload.arguments is not None:
        return payload.arguments
    return as_text(payload.input if payload.input is not None else payload.action)


def as_text(value: Any) -> str | None:
    if isinstance(value, list) and (texts := find_texts(value)):
        return "\n".join(texts)
    return write_value(value)


WRITTEN = compile_later(
    r"\A\s*<skill>\s*<name>\s*([^<]+?)\s*</name>(?:\s*<path>[^<]*</path>)?\n?(.*?)(?:</skill>\s*)?\Z",
    re.DOTALL,
)
FILE = compile_later(r"[/\\]skills[/\\]+(?:[\w.-]+[/\\]+)*?([\w.-]+)[/\\]+SKILL\.md")
READING = compile_later(r"\b(?:cat|sed|head|less|more|bat|nl|tail|awk|type|Get-Content)\b")
# each front matter, in plain output and in output that is JSON; a rule may stand before one
FRONT = compile_later(r"(?=---[ \t]*(?:\n|\\n)(.{0,4000}?)(?:\n|\\n)---)", re.DOTALL)
FIELD = r"""(?:^|\n|\\n){}:[ \t]*\\?["']?([\w.+-]+)"""
NAME, VERSION = (compile_later(FIELD.format(name)) for name in ("name", "version"))


def find_written(session: str, texts: list[str], at: int | None) -> Iterator[SkillEntry]:
    """The skills whose documents a user's message holds."""
    for text in texts:
        if text.startswith("<skill>") and (found := WRITTEN.match(text)):
            name = found[1]
            yield SkillEntry(
                key=f"{session}:{name}:{at}",
                session=session,
                name=name,
                entry="slash",
                at=at,
                version=read_skill_version(found[2]),
            )


def find_read(call: ToolCall | None, output: str | None) -> Iterator[SkillEntry]:
    """The skills whose documents a shell command printed; a search for files prints none."""
    arguments = (call.arguments if call else None) or ""
    if call is None or "SKILL.md" not in arguments or not READING.search(arguments):
        return
    fronts = FRONT.findall(output or "")
    shown = {name[1]: front for front in fronts if (name := NAME.search(front))}
    named = dict.fromkeys(FILE.findall(arguments))
    # a document may be named otherwise than the folder that it lies in
    found = {name: shown[name] for name in named if name in shown} or dict(
        zip(named, shown.values(), strict=False)
    )
    for name, front in found.items():
        version = VERSION.search(front)
        yield SkillEntry(
            key=f"{call.key}:{name}",
            session=call.session,
            name=name,
            entry="tool",
            at=call.at,
            version=version[1] if version else None,
            turn=call.turn,
        )
