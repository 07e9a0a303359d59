#!/usr/bin/env python3
"""Generate large, realistic Claude Code and Codex session-log trees with exact ground truth.

The record shapes follow transcripts written by the real clients (Claude Code 2.1.x, with the
older 2.0.x streaming quirk; Codex CLI 0.53 / 0.117 / 0.166).  Everything is deterministic for a
given seed and size.  Only the standard library is used.

    gen_sessions.py generate --out TREE --mb 100            # about 70 MB Claude + 30 MB Codex
    gen_sessions.py generate --out TREE --claude-mb 700 --codex-mb 300 --seed 7 --days 60
    gen_sessions.py append   --out TREE --turns 1           # grow one file of each kind

Layout (point HOME, CLAUDE_CONFIG_DIR / CODEX_HOME at it):

    TREE/.claude/projects/<slug>/<session>.jsonl
    TREE/.claude/projects/<slug>/<session>/subagents/agent-*.jsonl
    TREE/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl
    TREE/truth.json      tokens per tool, UTC day and model, plus counts

What makes the trees hard (all on purpose, all counted in truth.json):

  * one API response is written as 1-4 lines with the same message.id + requestId;
    in "partial" sessions the early lines carry a placeholder output_tokens (stop_reason null)
  * forked sessions copy earlier lines verbatim (same uuid/message.id/requestId, new sessionId)
  * subagents live in their own files, isSidechain true, same sessionId as the parent
  * cache writes are split into 5-minute and 1-hour buckets
  * <synthetic> API-error messages with zero usage; interrupted, truncated last lines
  * tool results that quote transcript lines (look like usage to a naive byte scan)
  * Codex token_count events repeated unchanged (0.53/0.117), totals that restart from zero after
    a resume (0.53), subagents that replay their parent's records (0.117), forks whose totals start
    at the parent's total without its records (0.166), token_usage_record (0.166)
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

CLAUDE_MODELS = [
    ("claude-opus-4-6", 40),
    ("claude-sonnet-4-5-20250929", 40),
    ("claude-haiku-4-5-20251001", 20),
]
CODEX_MODELS = [("gpt-5.2-codex", 70), ("gpt-5.1-codex-mini", 30)]
CLAUDE_TOOLS = [
    ("Bash", 38),
    ("Read", 26),
    ("Edit", 14),
    ("Grep", 9),
    ("Write", 5),
    ("Glob", 4),
    ("TodoWrite", 3),
    ("WebFetch", 1),
]
PROJECTS = [
    "api-gateway",
    "billing",
    "docs-site",
    "etl-jobs",
    "infra",
    "mobile-app",
    "ml-notebooks",
    "web-frontend",
]
SKILLS = ["release-notes", "db-migrate", "pr-review", "incident-triage"]
WORDS = (
    "import return const async await function class self error value result request response session token cache "
    "index config build test assert path file line module parse json stream buffer queue worker thread lock commit "
    "branch merge rebase deploy service client server handler retry timeout schema migrate table column select where "
    "group order limit update insert delete user account invoice balance ledger metric trace span event payload"
).split()
DECOY = '{"type":"assistant","message":{"id":"msg_quoted","model":"claude-opus-4-6","usage":{"input_tokens":999999,"output_tokens":999999}},"requestId":"req_quoted"}'


def weighted(rng: random.Random, table):
    return rng.choices([t[0] for t in table], weights=[t[1] for t in table])[0]


class Text:
    """A pool of code-like text; slices of it stand in for tool output, prompts and prose."""

    def __init__(self, rng: random.Random, size: int = 4_000_000):
        lines, n = [], 0
        while n < size:
            kind = rng.random()
            words = " ".join(rng.choices(WORDS, k=rng.randint(3, 11)))
            if kind < 0.35:
                line = f'    {rng.choice(WORDS)}_{rng.randint(1, 999)} = {rng.choice(WORDS)}("{words}", {rng.random():.4f})'
            elif kind < 0.55:
                line = (
                    f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}.py:{rng.randint(1, 900)}: {words}"
                )
            elif kind < 0.62:
                line = f'\t{{"{rng.choice(WORDS)}": {rng.randint(0, 10**9)}, "{rng.choice(WORDS)}": "{words}"}}'
            elif kind < 0.66:
                line = f"✓ {words} — {rng.randint(1, 99)} ms · naïve café"
            else:
                line = words + rng.choice([".", ";", ":", " {", ")", ""])
            lines.append(line)
            n += len(line) + 1
        self.pool = "\n".join(lines)

    def take(self, rng: random.Random, n: int) -> str:
        start = rng.randrange(0, len(self.pool) - n - 1)
        return self.pool[start : start + n]


class Ids:
    def __init__(self, rng: random.Random):
        self.rng = rng

    def uuid(self) -> str:
        h = f"{self.rng.getrandbits(128):032x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"

    def uuid7(self, when: datetime) -> str:
        """Codex ids are UUIDv7: the first 48 bits are the creation time in milliseconds."""
        h = f"{int(when.timestamp() * 1000):012x}7{self.rng.getrandbits(76):019x}"
        return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"

    def tag(self, prefix: str, n: int = 24) -> str:
        return prefix + f"{self.rng.getrandbits(4 * n):0{n}x}"


def stamp(t: datetime) -> str:
    return t.strftime("%Y-%m-%dT%H:%M:%S.") + f"{t.microsecond // 1000:03d}Z"


def dumps(obj) -> str:
    return json.dumps(obj, ensure_ascii=False, separators=(",", ":"))


def tool_bytes(rng: random.Random) -> int:
    """1-50 KB, log-normal, median about 2.5 KB."""
    return int(min(50_000, max(200, rng.lognormvariate(7.8, 1.15))))


class Truth:
    FIELDS = {
        "claude": ("requests", "input", "output", "cache_read", "cache_write_5m", "cache_write_1h"),
        "codex": ("requests", "input_total", "cached_input", "cache_write", "output", "reasoning"),
    }

    def __init__(self):
        self.days = {
            k: defaultdict(lambda: defaultdict(lambda: defaultdict(int))) for k in self.FIELDS
        }
        self.counts = {k: defaultdict(int) for k in self.FIELDS}
        self.skills: dict[str, int] = defaultdict(int)

    def usage(self, tool: str, when: datetime, model: str, **values: int) -> None:
        cell = self.days[tool][when.strftime("%Y-%m-%d")][model]
        cell["requests"] += 1
        for k, v in values.items():
            cell[k] += v

    def dump(self) -> dict:
        out = {}
        for tool, fields in self.FIELDS.items():
            days = {
                d: {m: {f: c.get(f, 0) for f in fields} for m, c in sorted(ms.items())}
                for d, ms in sorted(self.days[tool].items())
            }
            totals: dict[str, int] = dict.fromkeys(fields, 0)
            for ms in days.values():
                for c in ms.values():
                    for f in fields:
                        totals[f] += c[f]
            out[tool] = {
                "totals": totals,
                "counts": dict(sorted(self.counts[tool].items())),
                "days": days,
            }
        out["claude"]["skills"] = dict(sorted(self.skills.items()))
        return out

    @classmethod
    def load(cls, data: dict) -> "Truth":
        t = cls()
        for tool in cls.FIELDS:
            for day, ms in data[tool]["days"].items():
                for m, c in ms.items():
                    t.days[tool][day][m].update(c)
            t.counts[tool].update(data[tool]["counts"])
        t.skills.update(data["claude"].get("skills", {}))
        return t


class Claude:
    VERSION = "2.1.325"

    def __init__(self, root: Path, rng: random.Random, text: Text, truth: Truth):
        self.root, self.rng, self.text, self.truth = root / ".claude" / "projects", rng, text, truth
        self.ids = Ids(rng)
        # one big system prompt / tool list per tree, repeated in every session as the client does
        self.snapshot_small, self.snapshot_big = text.take(rng, 6_000), text.take(rng, 48_000)
        self.shape, self.skill_listing = text.take(rng, 33_000), text.take(rng, 12_500)
        self.forkable: list[tuple[Path, list[str], str, datetime]] = []
        self.parent: str | None = None

    def base(self, sid: str, cwd: str, when: datetime, side: bool, agent: str | None) -> dict:
        """Common fields; every record is the child of the one written before it in its file."""
        d = {"parentUuid": self.parent, "isSidechain": side}
        self.parent = self.ids.uuid()
        if agent:
            d["agentId"] = agent
        d["_tail"] = {
            "uuid": self.parent,
            "timestamp": stamp(when),
            "userType": "external",
            "entrypoint": "cli",
            "cwd": cwd,
            "sessionId": sid,
            "version": self.VERSION,
            "gitBranch": "main",
        }
        return d

    @staticmethod
    def close(d: dict) -> str:
        d.update(d.pop("_tail"))
        return dumps(d)

    def attachment(self, kind: str, body: dict, sid, cwd, when, side, agent) -> str:
        d = self.base(sid, cwd, when, side, agent)
        d["attachment"] = {"type": kind, **body}
        d["type"] = "attachment"
        return self.close(d)

    def preamble(self, sid, cwd, when, side, agent) -> list[str]:
        at = lambda kind, body: self.attachment(kind, body, sid, cwd, when, side, agent)  # noqa: E731
        out = [
            at("environment", {"snapshot": {"workingDirectory": cwd, "platform": "linux"}}),
            at("skill_listing", {"content": self.skill_listing}),
            at("prompt_snapshot", {"systemPrompt": [self.snapshot_small]}),
            dumps(
                {
                    "type": "api-request-shape",
                    "sessionId": sid,
                    "shapeHash": self.ids.tag("", 64),
                    "timestamp": stamp(when),
                    "version": self.VERSION,
                    "shape": {"system": [{"type": "text", "text": self.shape}]},
                }
            ),
        ]
        return out

    def response(
        self, sid, cwd, when, side, agent, model, skill, ctx, partial
    ) -> tuple[list[str], list[tuple[str, str]], datetime]:
        """One API response: returns its lines, its tool calls, and the time after it."""
        rng = self.rng
        mid, rid, ref = self.ids.tag("msg_01", 22), self.ids.tag("req_011C", 20), self.ids.uuid()
        blocks: list[dict] = []
        calls: list[tuple[str, str]] = []
        if rng.random() < 0.3:
            blocks.append(
                {
                    "type": "thinking",
                    "thinking": "",
                    "signature": self.ids.tag("", rng.randint(200, 900)),
                }
            )
        if rng.random() < 0.45:
            blocks.append({"type": "text", "text": self.text.take(rng, rng.randint(80, 1500))})
        for _ in range(rng.choices([0, 1, 2, 3], weights=[8, 72, 14, 6])[0]):
            name, tid = weighted(rng, CLAUDE_TOOLS), self.ids.tag("toolu_01", 22)
            if name in ("Edit", "Write"):
                args = {
                    "file_path": f"{cwd}/src/{rng.choice(WORDS)}.py",
                    "new_string": self.text.take(rng, rng.randint(100, 4000)),
                }
            elif name == "Bash":
                args = {"command": self.text.take(rng, rng.randint(20, 300)), "description": "run"}
            else:
                args = {
                    "file_path": f"{cwd}/src/{rng.choice(WORDS)}.py",
                    "pattern": rng.choice(WORDS),
                }
            blocks.append({"type": "tool_use", "id": tid, "name": name, "input": args})
            calls.append((tid, name))
        if (
            not calls
            and all(b["type"] == "thinking" for b in blocks)
            and (not blocks or rng.random() < 0.9)
        ):
            blocks.append({"type": "text", "text": self.text.take(rng, rng.randint(80, 1500))})
        out_tokens = (
            rng.randint(30, 400)
            + sum(len(b.get("text", "")) + len(str(b.get("input", ""))) for b in blocks) // 4
        )
        one_hour = rng.random() < 0.25
        write = rng.randint(200, 6000)
        w5, w1 = (0, write) if one_hour else (write, 0)
        usage = {
            "input_tokens": rng.randint(1, 40),
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": ctx,
            "output_tokens": out_tokens,
            "output_tokens_details": {"thinking_tokens": 0},
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_1h_input_tokens": w1, "ephemeral_5m_input_tokens": w5},
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        }
        stop = "tool_use" if calls else "end_turn"
        lines = [
            dumps(
                {
                    "type": "api-request",
                    "sessionId": sid,
                    "id": ref,
                    "timestamp": stamp(when),
                    "version": self.VERSION,
                    "querySource": "sdk",
                    "shapeHash": self.ids.tag("", 64),
                    "params": {
                        "model": model,
                        "max_tokens": 128000,
                        "thinking": {"type": "adaptive"},
                    },
                    "keep": rng.randint(1, 80),
                    "tail": [self.ids.tag("", 64) for _ in range(rng.randint(1, 6))],
                    "requestDigest": self.ids.tag("", 64),
                }
            )
        ]
        first = when
        for i, b in enumerate(blocks):
            last = i == len(blocks) - 1
            u = usage if last or not partial else {**usage, "output_tokens": rng.randint(1, 8)}
            d = self.base(sid, cwd, when, side, agent)
            d["message"] = {
                "id": mid,
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [b],
                "stop_reason": None if partial and not last else stop,
                "stop_sequence": None,
                "usage": u,
            }
            d.update(
                {"apiBlockIndex": i, "requestId": rid, "requestRef": ref, "requestedModel": model}
            )
            if skill:
                d["attributionSkill"] = skill
            d.update({"type": "assistant", "effort": "medium"})
            lines.append(self.close(d))
            when += timedelta(milliseconds=rng.randint(50, 3000))
        # a response belongs to the day of its first line
        self.truth.usage(
            "claude",
            first,
            model,
            input=usage["input_tokens"],
            output=out_tokens,
            cache_read=ctx,
            cache_write_5m=w5,
            cache_write_1h=w1,
        )
        c = self.truth.counts["claude"]
        c["assistant_lines"] += len(blocks)
        c["duplicate_lines"] += len(blocks) - 1
        c["tool_calls"] += len(calls)
        if side:
            c["sidechain_requests"] += 1
        if skill:
            self.truth.skills[skill] += 1
        return lines, calls, when

    def results(self, sid, cwd, when, side, agent, calls) -> tuple[list[str], datetime]:
        rng, lines = self.rng, []
        for tid, name in calls:
            when += timedelta(milliseconds=int(rng.lognormvariate(6.2, 1.4)))
            body = self.text.take(rng, tool_bytes(rng))
            if rng.random() < 0.01:
                body += "\n" + DECOY
                self.truth.counts["claude"]["decoy_results"] += 1
            d = self.base(sid, cwd, when, side, agent)
            if rng.random() < 0.06:
                self.truth.counts["claude"]["tool_errors"] += 1
                body = f"Exit code {rng.randint(1, 127)}\n" + body[:2000]
                d.update(
                    {
                        "type": "user",
                        "message": {
                            "role": "user",
                            "content": [
                                {
                                    "type": "tool_result",
                                    "content": body,
                                    "is_error": True,
                                    "tool_use_id": tid,
                                }
                            ],
                        },
                    }
                )
                d["toolUseResult"] = "Error: " + body
            else:
                d.update(
                    {
                        "type": "user",
                        "message": {
                            "role": "user",
                            "content": [
                                {
                                    "tool_use_id": tid,
                                    "type": "tool_result",
                                    "content": body,
                                    "is_error": False,
                                }
                            ],
                        },
                    }
                )
                d["toolUseResult"] = (
                    {"stdout": body, "stderr": "", "interrupted": False, "isImage": False}
                    if name == "Bash"
                    else {"ok": True}
                )
            lines.append(self.close(d))
        return lines, when

    def user(self, sid, cwd, when, side, agent, content: str) -> str:
        d = self.base(sid, cwd, when, side, agent)
        d.update(
            {
                "type": "user",
                "message": {"role": "user", "content": content},
                "permissionMode": "default",
            }
        )
        return self.close(d)

    def turns(self, sid, cwd, when, side, agent, n_requests, model) -> tuple[list[str], datetime]:
        rng = self.rng
        lines, ctx, skill = [], rng.randint(12_000, 30_000), None
        partial = rng.random() < 0.3
        done = 0
        while done < n_requests:
            lines.append(
                self.user(sid, cwd, when, side, agent, self.text.take(rng, rng.randint(30, 900)))
            )
            self.truth.counts["claude"]["user_prompts"] += 1
            skill = rng.choice(SKILLS) if rng.random() < 0.12 else None
            for _ in range(min(n_requests - done, 1 + int(rng.expovariate(1 / 9)))):
                got, calls, when = self.response(
                    sid, cwd, when, side, agent, model, skill, ctx, partial
                )
                lines += got
                done += 1
                ctx = min(180_000, ctx + rng.randint(300, 4000))
                if rng.random() < 0.005:
                    d = self.base(sid, cwd, when, side, agent)
                    d.update(
                        {
                            "type": "assistant",
                            "isApiErrorMessage": True,
                            "message": {
                                "id": self.ids.uuid(),
                                "model": "<synthetic>",
                                "role": "assistant",
                                "stop_reason": "stop_sequence",
                                "type": "message",
                                "usage": {
                                    "input_tokens": 0,
                                    "output_tokens": 0,
                                    "cache_creation_input_tokens": 0,
                                    "cache_read_input_tokens": 0,
                                },
                                "content": [{"type": "text", "text": "API Error: 529 Overloaded"}],
                            },
                        }
                    )
                    lines.append(self.close(d))
                    self.truth.counts["claude"]["api_error_lines"] += 1
                if not calls:
                    break
                got, when = self.results(sid, cwd, when, side, agent, calls)
                lines += got
            when += timedelta(seconds=int(rng.lognormvariate(4.2, 1.2)))
        return lines, when

    def write(self, path: Path, lines: list[str], broken: bool = False) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "\n".join(lines) + "\n"
        if broken:
            data += lines[-1][: len(lines[-1]) // 2]
            self.truth.counts["claude"]["truncated_files"] += 1
        raw = data.encode()
        path.write_bytes(raw)
        c = self.truth.counts["claude"]
        c["files"] += 1
        c["lines"] += len(lines) + broken
        c["bytes"] += len(raw)
        return len(raw)

    def session(self, start: datetime) -> int:
        rng, c = self.rng, self.truth.counts["claude"]
        project = rng.choice(PROJECTS)
        cwd = f"/home/dev/src/{project}"
        folder = self.root / ("-home-dev-src-" + project)
        if self.forkable and rng.random() < 0.06:
            # fork: earlier conversation lines verbatim under a new session id, then new turns
            path, old, old_sid, end = rng.choice(self.forkable)
            sid = self.ids.uuid()
            kept = [
                ln.replace(f'"sessionId":"{old_sid}"', f'"sessionId":"{sid}"')
                for ln in old
                if '"type":"api-request' not in ln[:24]
            ]
            c["forks"] += 1
            c["forked_lines"] += len(kept)
            self.parent = json.loads(kept[-1])["uuid"]
            new, _ = self.turns(
                sid,
                cwd,
                max(start, end),
                False,
                None,
                rng.randint(2, 8),
                weighted(rng, CLAUDE_MODELS),
            )
            c["sessions"] += 1
            return self.write(path.parent / f"{sid}.jsonl", kept + new)
        sid, model = self.ids.uuid(), weighted(rng, CLAUDE_MODELS)
        self.parent = None
        lines = self.preamble(sid, cwd, start, False, None)
        n = min(400, 2 + int(rng.lognormvariate(2.9, 0.95)))
        body, end = self.turns(sid, cwd, start, False, None, n, model)
        lines += body
        lines.append(
            self.attachment(
                "prompt_snapshot", {"systemPrompt": [self.snapshot_big]}, sid, cwd, end, False, None
            )
        )
        size = 0
        for _ in range(rng.choices([0, 1, 2, 4], weights=[70, 18, 8, 4])[0]):
            agent = self.ids.tag("a", 16)
            self.parent = None
            sub = self.preamble(sid, cwd, start, True, agent)
            got, _ = self.turns(
                sid,
                cwd,
                start + timedelta(seconds=rng.randint(5, 600)),
                True,
                agent,
                rng.randint(2, 14),
                rng.choice([model, CLAUDE_MODELS[2][0]]),
            )
            size += self.write(folder / sid / "subagents" / f"agent-{agent}.jsonl", sub + got)
            c["subagent_files"] += 1
        size += self.write(folder / f"{sid}.jsonl", lines, broken=rng.random() < 0.01)
        c["sessions"] += 1
        if len(body) < 120 and len(self.forkable) < 50:
            self.forkable.append((folder / f"{sid}.jsonl", lines, sid, end))
        return size


class Codex:
    def __init__(self, root: Path, rng: random.Random, text: Text, truth: Truth):
        self.root, self.rng, self.text, self.truth = root / ".codex" / "sessions", rng, text, truth
        self.ids = Ids(rng)
        self.instructions = text.take(rng, 20_000)
        self.finished: list[tuple[str, dict]] = []
        self.replayable: list[tuple[str, list[str], dict, int, datetime]] = []

    ZERO = {
        "input_tokens": 0,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 0,
        "reasoning_output_tokens": 0,
        "total_tokens": 0,
    }

    def turn(
        self, emit, when, model, total, style, sid, n_requests, ctx
    ) -> tuple[datetime, dict, int]:
        rng, c = self.rng, self.truth.counts["codex"]
        tid = self.ids.uuid7(when)
        if style != "0.53":
            emit(
                when,
                "event_msg",
                {"type": "task_started", "turn_id": tid, "model_context_window": 258400},
            )
        emit(
            when,
            "turn_context",
            {
                "turn_id": tid,
                "cwd": "/home/dev/src/" + rng.choice(PROJECTS),
                "approval_policy": "never",
                "model": model,
                "summary": "none",
            },
        )
        prompt = self.text.take(rng, rng.randint(30, 900))
        emit(
            when,
            "response_item",
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": prompt}],
            },
        )
        emit(when, "event_msg", {"type": "user_message", "message": prompt, "images": []})
        last_info = None
        for k in range(n_requests):
            start = when
            when += timedelta(milliseconds=900 + int(rng.lognormvariate(7.8, 0.8)))  # model latency
            if last_info is not None and style in ("0.53", "0.117"):
                emit(
                    when,
                    "event_msg",
                    {"type": "token_count", "info": last_info, "rate_limits": None},
                )  # unchanged repeat
                c["repeated_token_counts"] += 1
            if rng.random() < 0.5:
                emit(
                    when,
                    "response_item",
                    {
                        "type": "reasoning",
                        "summary": [{"type": "summary_text", "text": self.text.take(rng, 120)}],
                        "encrypted_content": self.ids.tag("", rng.randint(600, 3000)),
                    },
                )
            call = None
            if k < n_requests - 1:
                call = self.ids.tag("call_", 24)
                emit(
                    when,
                    "response_item",
                    {
                        "type": "function_call",
                        "name": "exec_command",
                        "arguments": dumps({"cmd": self.text.take(rng, rng.randint(20, 400))}),
                        "call_id": call,
                    },
                )
                c["tool_calls"] += 1
            else:
                msg = self.text.take(rng, rng.randint(100, 2500))
                emit(when, "event_msg", {"type": "agent_message", "message": msg})
                emit(
                    when,
                    "response_item",
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": msg}],
                    },
                )
            new = rng.randint(300, 5000)
            ctx = min(240_000, ctx + new)
            cached = (ctx - new) // 128 * 128
            reasoning = rng.randint(0, 900)
            use = {
                "input_tokens": ctx,
                "cached_input_tokens": cached,
                "cache_write_input_tokens": 0,
                "output_tokens": reasoning + rng.randint(30, 900),
                "reasoning_output_tokens": reasoning,
            }
            use["total_tokens"] = use["input_tokens"] + use["output_tokens"]
            total = {f: total[f] + use[f] for f in total}
            self.truth.usage(
                "codex",
                when,
                model,
                input_total=ctx,
                cached_input=cached,
                cache_write=0,
                output=use["output_tokens"],
                reasoning=reasoning,
            )
            if style == "0.166":
                emit(
                    when,
                    "token_usage_record",
                    {
                        "thread_id": sid,
                        "turn_id": tid,
                        "session_id": sid,
                        "response_id": self.ids.tag("resp_", 40),
                        "usage": use,
                        "thread_token_usage": total,
                    },
                )
            last_info = {
                "total_token_usage": total,
                "last_token_usage": use,
                "model_context_window": 258400,
            }
            emit(
                when,
                "event_msg",
                {
                    "type": "token_count",
                    "info": last_info,
                    "rate_limits": {"primary": None, "secondary": None},
                },
            )
            if call:
                when += timedelta(milliseconds=int(rng.lognormvariate(6.2, 1.4)))
                body, code = self.text.take(rng, tool_bytes(rng)), 0
                if rng.random() < 0.07:
                    code, body = rng.randint(1, 127), body[:3000]
                    c["tool_errors"] += 1
                if rng.random() < 0.01:
                    body += "\n" + DECOY
                if style == "0.53":
                    out = dumps(
                        {
                            "output": body,
                            "metadata": {
                                "exit_code": code,
                                "duration_seconds": round((when - start).total_seconds(), 1),
                            },
                        }
                    )
                else:
                    out = f"Chunk ID: {self.ids.tag('', 6)}\nWall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{body}"
                    if style == "0.166":
                        emit(
                            when,
                            "event_msg",
                            {
                                "type": "item_completed",
                                "thread_id": sid,
                                "turn_id": tid,
                                "item": {
                                    "type": "CommandExecution",
                                    "id": call,
                                    "command": ["/bin/bash", "-lc", "…"],
                                    "status": "failed" if code else "completed",
                                    "aggregated_output": body,
                                    "exit_code": code,
                                    "duration": {"secs": 0, "nanos": 5368},
                                },
                            },
                        )
                emit(
                    when,
                    "response_item",
                    {"type": "function_call_output", "call_id": call, "output": out},
                )
        if style != "0.53":
            emit(when, "event_msg", {"type": "task_complete", "turn_id": tid})
        return when + timedelta(seconds=int(rng.lognormvariate(4.2, 1.2))), total, ctx

    def session(self, start: datetime) -> int:
        rng, c = self.rng, self.truth.counts["codex"]
        style = rng.choices(["0.53", "0.117", "0.166"], weights=[15, 25, 60])[0]
        model = weighted(rng, CODEX_MODELS)
        replay = (
            rng.choice(self.replayable)
            if style == "0.117" and self.replayable and rng.random() < 0.15
            else None
        )
        if replay:
            start = max(start, replay[4] + timedelta(seconds=5))
        sid = self.ids.uuid7(start)
        lines: list[str] = []

        def emit(when, kind, payload):
            rec = {"timestamp": stamp(when), "type": kind, "payload": payload}
            if style == "0.166":
                rec = {
                    "timestamp": rec["timestamp"],
                    "ordinal": len(lines),
                    "type": kind,
                    "payload": payload,
                }
            lines.append(dumps(rec))

        total, meta = (
            dict(self.ZERO),
            {
                "id": sid,
                "timestamp": stamp(start),
                "cwd": "/home/dev/src/" + rng.choice(PROJECTS),
                "originator": "codex_exec",
                "cli_version": style + ".0",
                "source": "exec",
                "model_provider": "openai",
                "base_instructions": {"text": self.instructions},
                "git": {"branch": "main"},
            },
        )
        when, ctx = start, rng.randint(6_000, 14_000)
        if replay:
            # a subagent or fork of 0.92-0.15x repeats its parent's records, stamped with its own start time
            parent, old, total, ctx, _ = replay
            meta |= {
                "forked_from_id": parent,
                "source": {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}},
            }
            when = start + timedelta(milliseconds=40)
            c["replayed_forks"] += 1
        elif style == "0.166" and self.finished and rng.random() < 0.08:
            old, total = rng.choice(self.finished)
            meta |= {"forked_from_id": old, "history_mode": "paginated"}
            total = dict(total)
            c["forks"] += 1
        emit(start, "session_meta", meta)
        if replay:
            lines += [
                f'{{"timestamp":"{stamp(start + timedelta(milliseconds=20))}"' + ln[39:]
                for ln in old
            ]
            c["replayed_lines"] += len(old)
        for i in range(1 + int(rng.expovariate(1 / 2.5))):
            if i and style == "0.53" and rng.random() < 0.5:
                total = dict(self.ZERO)  # resume restarts the running total
                c["total_resets"] += 1
            when, total, ctx = self.turn(
                emit,
                when,
                model,
                total,
                style,
                sid,
                min(60, 1 + int(rng.lognormvariate(2.0, 0.8))),
                ctx,
            )
        if style == "0.166":
            self.finished.append((sid, total))
        elif style == "0.117" and not replay and len(lines) < 150:
            self.replayable.append((sid, lines, total, ctx, when))
        name = f"rollout-{start.strftime('%Y-%m-%dT%H-%M-%S')}-{sid}.jsonl"
        path = self.root / start.strftime("%Y/%m/%d") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = ("\n".join(lines) + "\n").encode()
        path.write_bytes(raw)
        c["sessions"] += 1
        c["files"] += 1
        c["lines"] += len(lines)
        c["bytes"] += len(raw)
        return len(raw)


def generate(args) -> None:
    out = Path(args.out)
    rng = random.Random(args.seed)
    text, truth = Text(rng), Truth()
    claude_mb = args.claude_mb if args.claude_mb is not None else args.mb * 0.7
    codex_mb = args.codex_mb if args.codex_mb is not None else args.mb * 0.3
    first = datetime.strptime(args.end, "%Y-%m-%d").replace(tzinfo=timezone.utc) - timedelta(
        days=args.days
    )
    for maker, mb in (
        (Claude(out, rng, text, truth), claude_mb),
        (Codex(out, rng, text, truth), codex_mb),
    ):
        size = 0
        while size < mb * 1e6:
            # office hours mostly, some sessions cross midnight UTC
            start = first + timedelta(
                days=rng.randrange(args.days),
                hours=min(23.9, max(0, rng.gauss(15, 4))),
                seconds=rng.randrange(60),
            )
            size += maker.session(start)
    data = {"seed": args.seed, "days": args.days, "end": args.end, "generation": 1, **truth.dump()}
    (out / "truth.json").write_text(json.dumps(data, indent=1) + "\n")
    for tool in Truth.FIELDS:
        print(tool, data[tool]["totals"], data[tool]["counts"])


def append(args) -> None:
    """Grow the newest Claude Code session and the newest Codex rollout by some turns."""
    out = Path(args.out)
    data = json.loads((out / "truth.json").read_text())
    generation = data["generation"] + 1
    rng = random.Random(data["seed"] * 1000 + generation)
    text, truth = Text(rng, 200_000), Truth.load(data)
    when = (
        datetime.strptime(data["end"], "%Y-%m-%d").replace(tzinfo=timezone.utc)
        - timedelta(hours=1)
        + timedelta(minutes=generation)
    )
    session = max((p for p in (out / ".claude/projects").glob("*/*.jsonl")), key=lambda p: p.name)
    claude = Claude(out, rng, text, truth)
    claude.parent = next(
        d["uuid"]
        for ln in reversed(session.read_text(encoding="utf-8").splitlines())
        if ln.endswith("}") and "uuid" in (d := json.loads(ln))
    )
    lines, _ = claude.turns(
        session.stem,
        "/home/dev/src/" + session.parent.name.removeprefix("-home-dev-src-"),
        when,
        False,
        None,
        args.turns,
        CLAUDE_MODELS[0][0],
    )
    raw = session.read_bytes()
    if not raw.endswith(b"\n"):
        raw = raw[: raw.rfind(b"\n") + 1]
        session.write_bytes(raw)
    with session.open("a", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    grown = [session]
    rollouts = sorted((out / ".codex/sessions").rglob("rollout-*.jsonl"), reverse=True)
    for rollout in rollouts:
        old = rollout.read_text(encoding="utf-8").splitlines()
        meta = json.loads(old[0])["payload"]
        if meta["cli_version"] != "0.166.0":
            continue
        record = next(
            json.loads(ln)["payload"]
            for ln in reversed(old)
            if '"type":"token_usage_record"' in ln[:80]
        )
        total, ctx, new = record["thread_token_usage"], record["usage"]["input_tokens"], []

        def emit(when, kind, payload):
            new.append(
                dumps(
                    {
                        "timestamp": stamp(when),
                        "ordinal": len(old) + len(new),
                        "type": kind,
                        "payload": payload,
                    }
                )
            )

        Codex(out, rng, text, truth).turn(
            emit, when, CODEX_MODELS[0][0], total, "0.166", meta["id"], args.turns, ctx
        )
        with rollout.open("a", encoding="utf-8") as f:
            f.write("\n".join(new) + "\n")
        grown.append(rollout)
        break
    data = {
        "seed": data["seed"],
        "days": data["days"],
        "end": data["end"],
        "generation": generation,
        **truth.dump(),
    }
    (out / "truth.json").write_text(json.dumps(data, indent=1) + "\n")
    print("appended to", *(p.relative_to(out) for p in grown))


def main() -> None:
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub = ap.add_subparsers(dest="cmd", required=True)
    g = sub.add_parser("generate", help="write a new tree")
    g.add_argument("--out", required=True, help="directory to create the tree in")
    g.add_argument(
        "--mb",
        type=float,
        default=100,
        help="total size, split 70/30 between Claude Code and Codex",
    )
    g.add_argument("--claude-mb", type=float, help="size of the Claude Code part")
    g.add_argument("--codex-mb", type=float, help="size of the Codex part")
    g.add_argument("--seed", type=int, default=1)
    g.add_argument("--days", type=int, default=45, help="days the sessions spread over")
    g.add_argument("--end", default="2026-11-01", help="day after the last one (UTC, YYYY-MM-DD)")
    g.set_defaults(func=generate)
    a = sub.add_parser("append", help="grow one session of an existing tree (for incremental runs)")
    a.add_argument("--out", required=True)
    a.add_argument("--turns", type=int, default=1, help="API responses to add")
    a.set_defaults(func=append)
    args = ap.parse_args()
    args.func(args)


if __name__ == "__main__":
    main()
