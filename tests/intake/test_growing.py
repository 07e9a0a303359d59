"""A file that is read while it grows gives the same tape and index as one that is read whole."""

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bench.trees import generate_tree

import build
from build import codex_count, codex_line, codex_meta, codex_usage
from relight.intake.rebuild import rebuild
from relight.intake.sealing import HOLD_BYTES
from relight.sources.files import CHUNK_BYTES
from relight.store.write.tape import read_tape

USED = {"inputTokens": 60, "outputTokens": 900, "costUSD": 0.5}
# as Claude Code writes them before the first line of the conversation
HEAD: list[dict[str, Any]] = [
    {"type": "queue-operation", "operation": "enqueue", "sessionId": build.CLAUDE_SESSION},
    {"type": "mode", "mode": "default", "sessionId": build.CLAUDE_SESSION},
    {
        "type": "file-history-snapshot",
        "messageId": "u-1",
        "snapshot": {"messageId": "u-1", "timestamp": build.stamp(0)},
    },
    {"type": "tools-used", "tools": ["Bash"]},
    {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {"claude-opus-4-6": USED},
    },
]


def codex_call(name: str, at: float) -> list[dict[str, Any]]:
    """A call and its result."""
    asked = {"type": "function_call", "call_id": name, "name": "shell", "arguments": "{}"}
    told = {"type": "function_call_output", "call_id": name, "output": "Exit code: 0\nOutput:\n"}
    return [
        codex_line("response_item", at, **asked),
        codex_line("response_item", at + 0.5, **told),
    ]


def codex_session(*, has_records: bool, has_lead: bool = False) -> list[dict[str, Any]]:
    """A rollout whose responses are counted by records or totals, before or after their items."""
    lines = [codex_line("event_msg", 0, type="started"), codex_meta()]
    lines.append(codex_line("turn_context", 1, model="gpt-5.2-codex"))
    prompt = {"type": "message", "role": "user", "content": [{"text": "Mend the totals"}]}
    lines.append(codex_line("response_item", 1, **prompt))
    for number in range(1, 4):
        at = 10.0 * number
        counted_at = at if has_lead else at + 5
        used, total = codex_usage(1000, output=number), codex_usage(1000 * number, output=number)
        record = {"response_id": f"resp_{number}", "usage": used}
        figures = [codex_line("token_usage_record", counted_at, **record)] if has_records else []
        figures.append(codex_count(counted_at, total, used))
        calls = [*codex_call(f"a{number}", at + 1), *codex_call(f"b{number}", at + 2)]
        lines += [*figures, *calls] if has_lead else [*calls, *figures]
    return lines


def claude_agent() -> list[dict[str, Any]]:
    return [{**line, "agentId": "a1", "isSidechain": True} for line in build.claude_session()]


SAMPLES: dict[str, tuple[Callable[[Path, Iterable[Any]], Path], list[dict[str, Any]]]] = {
    "claude": (build.write_claude, [*HEAD, *build.claude_session(), *HEAD[-1:]]),
    "claude sub-agent": (build.write_claude, [*HEAD[:2], *claude_agent()]),
    "codex": (build.write_codex, codex_session(has_records=True)),
    "codex counts": (build.write_codex, codex_session(has_records=False)),
    "codex counts first": (build.write_codex, codex_session(has_records=False, has_lead=True)),
}


def read_steps(home: Path, path: Path, steps: Sequence[bytes]) -> dict[str, Any]:
    """The store after an import of each state of a file."""
    shutil.rmtree(home / "relight", ignore_errors=True)
    with build.open_home(home) as store:
        for content in steps:
            path.write_bytes(content)
            build.import_home(store, home)
        return build.dump(store)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_read_at_any_line_and_in_the_midst_of_the_next_gives_the_same_record(
    tmp_path: Path, name: str
) -> None:
    write, records = SAMPLES[name]
    path = write(tmp_path, records)
    lines = path.read_bytes().splitlines(keepends=True)
    states = [b"".join(lines[:number]) for number in range(len(lines) + 1)]
    whole = read_steps(tmp_path, path, states[-1:])
    assert whole["tape"][0][1] == states[-1]
    assert read_steps(tmp_path, path, states) == whole
    for state, line in zip(states, lines, strict=False):
        cut = state + line[: len(line) // 2]
        assert read_steps(tmp_path, path, [state, cut, states[-1]]) == whole


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_file_read_at_random_moments_gives_the_same_record(
    tmp_path: Path, seed: int
) -> None:
    generate_tree(tmp_path, claude_mb=0.1, codex_mb=0.1, seed=seed)
    dice = random.Random(seed)
    paths = sorted(tmp_path.rglob("*.jsonl"))
    contents = {path: path.read_bytes() for path in paths}
    for path, content in contents.items():
        whole = read_steps(tmp_path, path, [content])
        for _ in range(2):
            cuts = sorted(dice.randrange(len(content)) for _ in range(3))
            steps = [*(content[:cut] for cut in cuts), content]
            assert read_steps(tmp_path, path, steps) == whole


def test_a_rebuild_of_a_session_read_line_by_line_changes_nothing(tmp_path: Path) -> None:
    path = build.write_codex(tmp_path, codex_session(has_records=True))
    lines = path.read_bytes().splitlines(keepends=True)
    with build.open_home(tmp_path) as store:
        for number in range(len(lines) + 1):
            path.write_bytes(b"".join(lines[:number]))
            build.import_home(store, tmp_path)
        before = build.dump(store)
        assert store.query("select count(*) from tool_call where turn_id is null") == [(0,)]
        rebuild(store)
        assert build.dump(store) == before


def test_a_beginning_that_names_no_session_is_read_again_only_when_it_has_grown(
    tmp_path: Path,
) -> None:
    path = build.write_claude(tmp_path, HEAD)
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].files == 1
        assert build.import_home(store, tmp_path)[0].files == 0
        assert not list(read_tape(store))
        with path.open("ab") as file:
            file.write(b'{"type": "user"')
        assert build.import_home(store, tmp_path)[0].files == 1
        assert build.import_home(store, tmp_path)[0].files == 0
        path.write_bytes(build.as_lines([*HEAD, *build.claude_session()]))
        build.import_home(store, tmp_path)
        (part,) = read_tape(store)
        assert b"\n".join([*part.lines(), b""]) == path.read_bytes()


@pytest.mark.parametrize(("size", "is_kept"), [(CHUNK_BYTES, True), (HOLD_BYTES, False)])
def test_a_long_beginning_is_kept_up_to_a_limit_and_never_stops_the_session(
    tmp_path: Path, size: int, is_kept: bool
) -> None:
    head = {"type": "mode", "mode": "x" * (1 << 20)}
    lines = [head] * (size >> 20)
    path = build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        path.write_bytes(build.as_lines([*lines, *build.claude_session()]))
        build.import_home(store, tmp_path)
        assert store.query("select count(*) from turn") == [(3,)]
        tape = b"".join(line for part in read_tape(store) for line in part.lines())
        assert (b'"mode"' in tape) == is_kept
