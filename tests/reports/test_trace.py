"""The numbered steps of a session: each thing once, in order, with exact costs."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

import build
import build_forks
from relight.chat.blocks import CLOSING, OPENING
from relight.cli.demo import write_demo
from relight.errors import MissingError
from relight.intake.importing import import_all
from relight.intake.recorder import record
from relight.reports.call_subjects import find_subject
from relight.reports.sessions import find_session, read_head
from relight.reports.trace import (
    Step,
    Trace,
    read_part,
    read_session_trace,
    read_trace,
)
from relight.store import Store

NOW = datetime(2026, 11, 15, 18, tzinfo=UTC)


def read(store: Store, name: str) -> Trace:
    return read_trace(store, find_session(store, name))


def show(step: Step) -> tuple[str, str]:
    """The kind of a step, and its words or its command and result."""
    if step.kind == "call":
        return "call", f"{step.command} -> {step.result}"
    return step.kind, step.text or ""


def ask(name: str, command: str) -> dict[str, Any]:
    function = {"name": "terminal", "arguments": json.dumps({"command": command})}
    return {"id": name, "type": "function", "function": function}


def write_program(store: Store) -> None:
    now = iter(range(1_794_700_800, 1_794_800_000))
    with record(store, "one", model="claude-sonnet-4-5", clock=lambda: float(next(now))) as rec:
        rec.message("user", OPENING + "x.")
        rec.message("assistant", CLOSING)
        rec.message("user", "first")
        calls = [ask("a", "ls"), ask("b", "ls")]
        message = {"role": "assistant", "content": "looking", "tool_calls": calls}
        rec.turn(message=message, input_tokens=5, output_tokens=1)
        rec.tool_call("terminal", calls[0]["function"]["arguments"], "one", call_id="a")
        rec.tool_call("terminal", calls[1]["function"]["arguments"], "two", call_id="b")
        rec.turn(message={"role": "assistant", "content": "answer 1"}, output_tokens=1)
        rec.message("user", "second")
        silent = {"role": "assistant", "content": None, "tool_calls": [ask("c", "pwd")]}
        rec.turn(message=silent, input_tokens=7, output_tokens=1)


def test_words_calls_and_results_stand_in_the_order_they_happened(store: Store) -> None:
    write_program(store)
    trace = read(store, "relight:one")
    assert [show(step) for step in trace.steps] == [
        ("prompt", "first"),
        ("answer", "looking"),
        ("call", "ls -> one"),
        ("call", "ls -> two"),
        ("answer", "answer 1"),
        ("prompt", "second"),
        ("call", "pwd -> None"),
    ]
    assert [step.step for step in trace.steps] == [1, 2, 3, 4, 5, 6, 7]


def test_a_model_call_without_words_stands_at_its_first_tool_call(store: Store) -> None:
    write_program(store)
    steps = read(store, "relight:one").steps
    assert [step.turns for step in steps] == [None, 1, None, None, 1, None, 1]
    assert (steps[6].input_tokens, steps[6].output_tokens) == (7, 1)
    assert steps[6].cost_usd == pytest.approx((7 * 3 + 15) / 1e6)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("demo")
    with build.open_home(folder) as store:
        import_all(store, environment=write_demo(folder / "demo", now=NOW), workers=1)
        yield store


def test_the_costs_of_a_sessions_steps_add_up_exactly(demo: Store) -> None:
    figures = (
        "select coalesce(sum(cost_nanos), 0), coalesce(sum(included_nanos), 0),"
        " coalesce(sum(unpriced_turns), 0), coalesce(sum(turns), 0) from session_day"
        " where session_id = ?"
    )
    kinds, sources = set(), set()
    for session_id, source in demo.query("select id, source from session"):
        steps = read_trace(demo, session_id).steps
        assert [step.step for step in steps] == list(range(1, len(steps) + 1))
        own = [step for step in steps if not step.is_shared]
        sums = (
            sum(round((step.cost_usd or 0) * 1e9) for step in steps),
            sum(round((step.included_usd or 0) * 1e9) for step in own),
            steps[-1].running_unpriced_turns if steps else 0,
            sum(step.turns or 0 for step in own),
        )
        assert sums == demo.query(figures, (session_id,))[0]
        if steps and steps[-1].running_cost_usd is not None:
            assert round(steps[-1].running_cost_usd * 1e9) == sums[0]
        kinds |= {step.kind for step in steps}
        sources.add(source)
    assert kinds >= {"prompt", "answer", "call", "pause"}
    assert sources >= {"claude-code", "codex", "hermes"}


def test_every_call_is_in_one_step_with_its_verdict(demo: Store) -> None:
    for (session_id,) in demo.query("select id from session"):
        trace = read_trace(demo, session_id)
        rows = demo.query(
            "select id, tool, label from tool_call where session_id = ?", (session_id,)
        )
        for row, tool, label in rows:
            step = trace.steps[trace.calls[row] - 1]
            assert (step.tool, step.label) == (tool, label)


def test_parts_have_every_step_once(store: Store) -> None:
    write_program(store)
    session_id = find_session(store, "relight:one")
    whole = read_trace(store, session_id).steps
    steps: list[Step] = []
    first: int | None = 1
    while first is not None:
        part = read_part(store, session_id, step=first, limit=3)
        assert (part.first, part.total) == (first, 7)
        steps += part.steps
        first = part.next
    assert steps == whole
    for number in (0, 8, -1):
        with pytest.raises(MissingError):
            read_part(store, session_id, step=number)


def claude_lines() -> list[dict[str, Any]]:
    use = build.tool_use("t1", command="ls")
    return [
        build.claude_prompt("What is here?", 0),
        build.claude_answer("m1", {"type": "text", "text": "Let me see."}, at=1, stop=None),
        build.claude_answer("m1", use, at=2),
        build.claude_result("t1", "a.txt", at=3),
        build.claude_answer("m2", {"type": "text", "text": "One file."}, at=4),
        build.claude_prompt("<system-reminder>Be kind.</system-reminder>\nThanks", 500),
        build.claude_prompt("Summary of it all", 501, isCompactSummary=True),
        build.claude_answer("m3", {"type": "text", "text": "Bye."}, at=502),
    ]


def test_pauses_compactions_and_injected_words_are_steps_apart(tmp_path: Path) -> None:
    build.write_claude(tmp_path, claude_lines())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, build.CLAUDE_SESSION).steps
    assert [show(step) for step in steps] == [
        ("prompt", "What is here?"),
        ("answer", "Let me see."),
        ("call", "ls -> a.txt"),
        ("answer", "One file."),
        ("pause", ""),
        ("prompt", "Thanks"),
        ("compaction", "Summary of it all"),
        ("answer", "Bye."),
    ]
    assert steps[4].duration_ms == 496_000
    assert steps[5].injected == "<system-reminder>Be kind.</system-reminder>"


def test_a_session_that_grows_keeps_the_numbers_of_its_steps(tmp_path: Path) -> None:
    lines = claude_lines()
    with build.open_home(tmp_path) as store:
        before: list[Step] = []
        for end in range(1, len(lines) + 1):
            build.write_claude(tmp_path, lines[:end])
            build.import_home(store, tmp_path)
            steps = read(store, build.CLAUDE_SESSION).steps
            for old, new in zip(before[:-1], steps, strict=False):
                assert (old.step, old.kind, old.text) == (new.step, new.kind, new.text)
            assert len(steps) >= len(before)
            before = steps
    assert len(before) == 8


def test_a_rewritten_file_gives_no_step_twice(tmp_path: Path) -> None:
    lines = claude_lines()
    with build.open_home(tmp_path) as store:
        build.write_claude(tmp_path, lines[:5])
        build.import_home(store, tmp_path)
        head = {"type": "mode", "sessionId": build.CLAUDE_SESSION}
        build.write_claude(tmp_path, [head, *lines])
        build.import_home(store, tmp_path)
        steps = read(store, build.CLAUDE_SESSION).steps
    assert len(steps) == 8


def test_a_call_that_started_a_sub_agent_names_its_session(tmp_path: Path) -> None:
    task = {"description": "look", "prompt": "Look for the bug in the parser"}
    lines = [
        build.claude_prompt("Go"),
        build.claude_answer("m1", build.tool_use("t0", command="ls"), at=1),
        build.claude_answer("m2", {**build.tool_use("t1"), "name": "Task", "input": task}, at=2),
        build.claude_prompt(task["prompt"], at=3, isSidechain=True, uuid="s-1", parentUuid=None),
        build.claude_result("t1", "Found it.", at=5),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, build.CLAUDE_SESSION).steps
    child = f"claude-code:{build.CLAUDE_SESSION}/sidechain-s-1"
    assert [step.child_session_id for step in steps if step.tool] == [None, child]


def test_without_its_tape_a_session_still_has_its_steps_and_their_costs(tmp_path: Path) -> None:
    build.write_claude(tmp_path, claude_lines())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        with_tape = read(store, build.CLAUDE_SESSION).steps
        with store.transaction() as database:
            database.execute("delete from tape_part")
        trace = read(store, build.CLAUDE_SESSION)
    assert trace.silence is not None
    assert "gone" in trace.silence
    kinds = [step.kind for step in trace.steps]
    assert kinds == ["call", "answer", "compaction", "answer"]
    assert trace.steps[-1].running_cost_usd == with_tape[-1].running_cost_usd


def test_every_session_of_a_family_of_forks_adds_up_to_what_it_counts(tmp_path: Path) -> None:
    for path, lines in build_forks.family().items():
        build_forks.append(tmp_path, path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        shared = 0
        for session_id, own in store.query(
            "select session_id, sum(cost_nanos) from session_day group by session_id"
        ):
            steps = read_trace(store, session_id).steps
            assert sum(round((step.cost_usd or 0) * 1e9) for step in steps) == own
            shared += sum(step.is_shared for step in steps)
    assert shared > 0


def codex_item(at: float, **payload: Any) -> dict[str, Any]:
    return build.codex_line("response_item", at, **payload)


def codex_words(role: str, words: str, at: float) -> dict[str, Any]:
    return codex_item(at, type="message", role=role, content=[{"type": "text", "text": words}])


def codex_call(name: str, at: float) -> dict[str, Any]:
    asked = '{"cmd": "ls"}'
    return codex_item(at, type="function_call", name="exec", arguments=asked, call_id=name)


def test_usage_that_codex_records_after_its_items_stands_at_the_first_of_them(
    tmp_path: Path,
) -> None:
    one, two = build.codex_usage(1000, output=20), build.codex_usage(3000, output=50)
    lines = [
        build.codex_meta(),
        codex_words("user", "Look", 1),
        codex_call("c1", 2),
        build.codex_count(3, one, one),
        codex_item(4, type="function_call_output", call_id="c1", output="a.txt"),
        codex_words("assistant", "One file.", 5),
        build.codex_count(6, two, build.codex_usage(2000, output=30)),
        build.codex_line("compacted", 7, message="They looked."),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, build.CODEX_SESSION).steps
    assert [(*show(step), step.output_tokens) for step in steps] == [
        ("prompt", "Look", None),
        ("call", "ls -> a.txt", 20),
        ("answer", "One file.", 30),
        ("compaction", "They looked.", None),
    ]


def test_what_a_codex_fork_repeats_has_no_usage_of_the_fork(tmp_path: Path) -> None:
    parent = "019a0000-0000-7000-8000-000000000001"
    old, new = "019a0000-0000-7000-8000-000000000002", "01a2ffff-0000-7000-8000-000000000003"
    one, two = build.codex_usage(1000, output=20), build.codex_usage(2000, output=45)
    lines = [
        build.codex_meta("01a20000-0000-7000-8000-000000000009", forked_from_id=parent),
        build.codex_line("turn_context", 1, turn_id=old, model="gpt-5.2"),
        codex_words("user", "Old task", 1),
        codex_words("assistant", "Old answer", 1),
        build.codex_count(1, one, one),
        build.codex_line("turn_context", 2, turn_id=new, model="gpt-5.2"),
        codex_words("user", "New task", 2),
        codex_words("assistant", "New answer", 3),
        build.codex_count(4, two, build.codex_usage(1000, output=25)),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, "01a20000").steps
    assert [(*show(step), step.output_tokens) for step in steps] == [
        ("prompt", "Old task", None),
        ("answer", "Old answer", None),
        ("prompt", "New task", None),
        ("answer", "New answer", 25),
    ]


def test_sums_that_an_agent_keeps_for_a_session_are_its_last_step(tmp_path: Path) -> None:
    with build.open_hermes(tmp_path) as database:
        name = build.hermes_session(database)
        note = "[CONTEXT COMPACTION] They listed files."
        at = build.START / 1000 + 9
        for number, content in enumerate((note, "[System: Continue now.", "Done")):
            row = {"content": content, "timestamp": at + number}
            role = "assistant" if content == "Done" else "user"
            build.insert(database, "messages", session_id=name, role=role, **row)
    database.close()
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, name).steps
    assert [(*show(step), step.turns) for step in steps] == [
        ("prompt", "List the files", None),
        ("call", 'ls -> {"output": "a.txt", "exit_code": 0, "error": null}', None),
        ("answer", "There is a.txt", None),
        ("compaction", note, None),
        ("prompt", "", None),
        ("answer", "Done", None),
        ("answer", "", 2),
    ]
    assert steps[4].injected == "[System: Continue now."


@pytest.mark.parametrize(
    ("tool", "arguments", "command", "path"),
    [
        ("Bash", '{"command": "ls -l"}', "ls -l", None),
        ("shell", '{"command": ["bash", "-lc", "git status"]}', "git status", None),
        ("exec", '{"cmd": ["ls", "-l"]}', "ls -l", None),
        ("Edit", '{"file_path": "/a.py", "old_string": "x"}', None, "/a.py"),
        ("str_replace_editor", '{"command": "view", "path": "/a.py"}', None, "/a.py"),
        ("apply_patch", "*** Begin Patch\n*** Update File: b.py\n@@\n", None, "b.py"),
        ("apply_patch", '{"input": "*** Begin Patch\\n*** Add File: c.py\\n+x"}', None, "c.py"),
        ("TodoWrite", '{"todos": []}', None, None),
        ("Bash", "not json", "not json", None),
        ("Bash", '{"command": 7}', None, None),
        ("Bash", None, None, None),
    ],
)
def test_a_call_names_its_command_or_its_path(
    tool: str, arguments: str | None, command: str | None, path: str | None
) -> None:
    found = find_subject(tool, arguments)
    assert (found.command, found.path) == (command, path)


FORK = "99999999-bbbb-4bbb-8bbb-999999999999"


def test_a_fork_shows_the_steps_it_copied_and_each_once(tmp_path: Path) -> None:
    asked = build.claude_prompt("List the files")
    answer = build.claude_answer("msg_1", at=1)
    use = build.tool_use("toolu_1", command="ls")
    call = build.claude_answer("msg_1", use, at=1, stop="tool_use")
    result = build.claude_result("toolu_1", "a.txt", at=2)
    end = build.claude_answer("msg_2", at=3)
    # the parent's record ends before the call that its turn made
    build.write_claude(tmp_path, [asked, answer])
    copied = [line | {"sessionId": FORK} for line in (asked, answer, call, result, end)]
    build.write_claude(tmp_path, copied, name=FORK)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        steps = read(store, FORK).steps
    assert [step.kind for step in steps] == ["prompt", "answer", "call", "answer"]
    assert [step.result for step in steps if step.kind == "call"] == ["a.txt"]


def test_words_of_a_session_without_a_clock_have_no_time(tmp_path: Path, store: Store) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    file = tmp_path / "chat.jsonl"
    file.write_text(json.dumps({"id": "timeless", "messages": [*said, *said]}) + "\n")
    import_all(store, sources=["chat"], folder=file, environment={}, workers=1)
    assert [step.at for step in read_trace(store, "chat:timeless").steps] == [None] * 4
    assert read_head(store, find_session(store, "chat:timeless")).started_at is not None


def test_a_head_is_a_session_without_its_steps(store: Store) -> None:
    write_program(store)
    session_id = find_session(store, "relight:one")
    whole, head = read_session_trace(store, session_id), read_head(store, session_id)
    steps = {"turns", "tool_calls", "steps", "silence"}
    assert asdict(head) == {k: v for k, v in asdict(whole).items() if k not in steps}
    assert whole.steps == read_trace(store, session_id).steps
