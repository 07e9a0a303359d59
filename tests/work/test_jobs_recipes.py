"""Agents' programs as runners: the words they get, and what is read from what they print."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.model import Usage
from relight.sources import SOURCES
from relight.sources.printouts import READERS, Printout
from relight.work.jobs.recipes import CommandPlan, can_choose_model, plan_command, read_recipes

VALUES = {
    "prompt": "Do {workdir} it",
    "prompt_file": "/tmp/p.md",
    "workdir": "/work",
    "usage_file": "/tmp/u.json",
    "session_id": "s-1",
    "model": "small",
}


def plan(line: str, **options: Any) -> CommandPlan:
    return plan_command(shlex.split(line), VALUES, **options)


@pytest.mark.parametrize(
    ("line", "words", "told"),
    [
        ("hermes", "hermes --usage-file /tmp/u.json -z P", None),
        ("hermes -z", "hermes --usage-file /tmp/u.json -z P", None),
        ("hermes -z {prompt} --yolo", "hermes --usage-file /tmp/u.json -z P --yolo", None),
        ("hermes -z {prompt} --usage-file=x", "hermes -z P --usage-file=x", None),
        ("/opt/hermes -z", "/opt/hermes --usage-file /tmp/u.json -z P", None),
        (
            "env A=1 nice -n 5 hermes -z",
            "env A=1 nice -n 5 hermes --usage-file /tmp/u.json -z P",
            None,
        ),
        ("claude", "claude --output-format json --session-id s-1 -p", "P"),
        ("claude -p {prompt}", "claude --output-format json --session-id s-1 -p P", None),
        (
            "claude --print --output-format stream-json --verbose",
            "claude --session-id s-1 --print --output-format stream-json --verbose",
            "P",
        ),
        ("claude -p --resume x", "claude --output-format json -p --resume x", "P"),
        ("codex", "codex exec --json", "P"),
        ("codex exec -C {workdir} -", "codex exec --json -C /work -", "P"),
        ("npx codex exec --json {prompt}", "npx codex exec --json P", None),
        ("mine --file {prompt_file}", "mine --file /tmp/p.md", None),
        ("mine --once", "mine --once", "P"),
        ("echo hermes", "echo hermes", "P"),
    ],
)
def test_what_a_program_needs_is_added_and_what_a_person_wrote_stands(
    line: str, words: str, told: str | None
) -> None:
    planned = plan(line)
    prompt = VALUES["prompt"]
    assert planned.words == [prompt if word == "P" else word for word in shlex.split(words)]
    assert planned.standard_input == (prompt if told == "P" else told)


def test_a_model_and_a_budget_reach_the_programs_that_take_them() -> None:
    words = plan("claude -p", model="small", budget_usd=0.25).words
    assert words[1:5] == ["--model", "small", "--max-budget-usd", "0.250000"]
    assert plan("hermes -z", model="small", budget_usd=0.25).words[1:3] == ["-m", "small"]
    assert plan("codex exec", model="small").words[1:4] == ["exec", "-m", "small"]
    assert "small" not in plan("claude -p --model large", model="small").words
    assert plan("mine {model}", model="small").words == ["mine", "small"]
    assert can_choose_model(["hermes"])
    assert can_choose_model(["mine", "{model}"])
    assert not can_choose_model(["mine"])
    assert not can_choose_model(["hermes -z {prompt}"], use_shell=True)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_no_prompt_can_become_a_command_of_the_shell(prompt: str) -> None:
    planned = plan_command(
        ["printf %s {prompt} | wc -c"], {**VALUES, "prompt": prompt}, use_shell=True
    )
    assert planned.words[:2] == ["/bin/sh", "-c"]
    line = planned.words[2].removeprefix("printf %s ").removesuffix(" | wc -c")
    assert shlex.split(line) == [prompt]


def test_a_prompt_too_long_for_an_argument_is_an_error_that_says_what_to_do() -> None:
    long = {**VALUES, "prompt": "x" * (128 << 10)}
    with pytest.raises(RelightError, match="longer than the 128 KB") as caught:
        plan_command(["hermes", "-z", "{prompt}"], long)
    assert "{prompt_file}" in (caught.value.hint or "")
    assert plan_command(["claude", "-p"], long).standard_input == long["prompt"]


def test_the_table_names_sources_and_readers_that_exist() -> None:
    for recipe in read_recipes().recipe:
        assert recipe.source in SOURCES
        assert recipe.reads in READERS


def read(name: str, output: str, tmp_path: Path, usage: object = None) -> Printout:
    file = tmp_path / "usage.json"
    if usage is not None:
        file.write_text(usage if isinstance(usage, str) else json.dumps(usage))
    return READERS[name](output, file)


def test_hermes_usage_file_shows_a_failure_that_its_exit_code_hides(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"session_id": None, "model": None, "input_tokens": None}
    usage = {**nothing, "failed": True, "completed": False, "api_calls": 1}
    told = read("hermes", "API call failed after 1 retries: HTTP 500: outage\n", tmp_path, usage)
    assert told.error == "API call failed after 1 retries: HTTP 500: outage"
    assert (told.session, told.usage, told.status) == (None, None, 500)


def test_hermes_usage_file_shows_session_tokens_and_cost(tmp_path: Path) -> None:
    usage = {
        "estimated_cost_usd": 0.002312,
        "cost_status": "estimated",
        "input_tokens": 2000,
        "output_tokens": 68,
        "cache_read_tokens": 400,
        "cache_write_tokens": 0,
        "model": "m",
        "provider": "custom",
        "session_id": "20261115_085505_d1f104",
        "completed": True,
        "failed": False,
    }
    told = read("hermes", "Done.\n", tmp_path, usage)
    assert (told.answer, told.error) == ("Done.", None)
    assert (told.session, told.cost_usd) == ("20261115_085505_d1f104", 0.002312)
    assert told.usage == Usage(2000, 400, 0, 68)
    unknown = {**usage, "estimated_cost_usd": 0.0, "cost_status": "unknown"}
    assert read("hermes", "Done.", tmp_path, unknown).cost_usd is None
    cut_short = {**usage, "completed": False}
    limited = read("hermes", "Half.", tmp_path, cut_short)
    assert (limited.error, limited.is_limited) == ("Hermes says that it was not completed", True)


@pytest.mark.parametrize("usage", [None, "", "[]", '{"failed": '])
def test_without_a_readable_usage_file_hermes_reports_only_its_answer(
    tmp_path: Path, usage: str | None
) -> None:
    told = read("hermes", "Done.", tmp_path, usage)
    assert told == Printout(answer="Done.", evidence=["it left no usage file"])


CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Done.",
    "session_id": "s-1",
    "total_cost_usd": 0.00472,
    "usage": {"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 34},
    "modelUsage": {"claude-opus-5-5": {}},
}


def test_claude_codes_result_is_read_from_one_object_a_list_or_lines(tmp_path: Path) -> None:
    first = {"type": "system", "subtype": "init", "session_id": "s-1"}
    printed = [
        json.dumps(CLAUDE),
        json.dumps([first, CLAUDE]),
        f"{json.dumps(first)}\nnoise\n{json.dumps(CLAUDE)}\n",
    ]
    for output in printed:
        told = read("claude", output, tmp_path)
        assert (told.answer, told.session, told.error) == ("Done.", "s-1", None)
        assert (told.cost_usd, told.model) == (0.00472, "claude-opus-5-5")
        assert told.usage == Usage(1000, 200, None, 34)


def test_claude_codes_errors_are_errors_though_it_calls_them_success(tmp_path: Path) -> None:
    failed = {**CLAUDE, "is_error": True, "api_error_status": 500, "result": "API Error: 500 no"}
    told = read("claude", json.dumps(failed), tmp_path)
    assert (told.error, told.status) == ("API Error: 500 no", 500)
    limited = {**CLAUDE, "subtype": "error_max_turns", "result": None}
    stopped = read("claude", json.dumps(limited), tmp_path)
    assert (stopped.error, stopped.is_limited) == ("error_max_turns", True)


def test_plain_words_of_claude_code_are_its_answer(tmp_path: Path) -> None:
    assert read("claude", "Done.\n", tmp_path) == Printout(answer="Done.")


def codex(*events: dict[str, Any]) -> str:
    started = {"type": "thread.started", "thread_id": "t-1"}
    return "\n".join(json.dumps(event) for event in (started, {"type": "turn.started"}, *events))


def test_codex_last_message_is_its_answer(tmp_path: Path) -> None:
    output = codex(
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Let me look."}},
        {"type": "item.completed", "item": {"type": "command_execution", "exit_code": 0}},
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1200}},
    )
    told = read("codex", output, tmp_path)
    assert (told.answer, told.session, told.error) == ("Done.", "t-1", None)
    assert told.evidence == ["Codex says that the turn was completed"]


def test_a_failed_turn_of_codex_is_a_failure(tmp_path: Path) -> None:
    output = codex({"type": "turn.failed", "error": {"message": "status 401 Unauthorized"}})
    told = read("codex", output, tmp_path)
    assert (told.answer, told.session, told.error) == ("", "t-1", "status 401 Unauthorized")
    assert read("codex", codex(), tmp_path).session == "t-1"  # killed on its way


@pytest.mark.parametrize("name", sorted(READERS))
@given(output=st.text() | st.binary().map(repr), usage=st.text())
def test_whatever_is_printed_can_be_read(
    name: str, tmp_path_factory: pytest.TempPathFactory, output: str, usage: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "usage.json"
    file.write_text(usage, errors="replace")
    assert READERS[name](output, file).answer is not None
