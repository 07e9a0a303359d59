"""The two runners, without a job: our own loop, and programs whose session is found again."""

import json
import time
import uuid
from pathlib import Path

import pytest

import build
from build_runs import environment, write_agent, write_program
from relight.store import Store
from relight.work.agent.limits import Budget
from relight.work.jobs.runners import AttemptResult, run_chat, run_command
from relight.work.run_spec import RunSpec
from scripted import Reply, Server, call, has_results

OUTAGE = b'{"error": {"message": "outage"}}'


def command(store: Store, home: Path, prompt: str, *words: str, **options: object) -> AttemptResult:
    scratch = home / f"scratch-{uuid.uuid4()}"
    given = {"seconds": 30.0, "folder": home, "environment": environment(home), **options}
    given["scratch"] = scratch
    return run_command(store, prompt, command=words, **given)  # type: ignore[arg-type]


def test_our_own_loop_works_on_a_prompt_and_its_session_is_known(tmp_path: Path) -> None:
    def answer(request: dict[str, object]) -> Reply:
        if not has_results(request):
            return Reply(None, [call("terminal", command="echo clean")])
        return Reply("The house is clean.")

    with build.open_home(tmp_path) as store, Server(answer) as server:
        ran = run_chat(
            store, "Look.", RunSpec(model="m", base_url=server.base_url, folder=tmp_path)
        )
        assert (ran.answer, ran.ended_by, ran.failure) == ("The house is clean.", None, None)
        ((name, calls),) = store.query(
            "select source || ':' || key, (select count(*) from tool_call) from session"
        )
        assert (name, calls) == (ran.session, 1)


def test_a_failure_of_the_model_is_reported_with_its_kind(tmp_path: Path) -> None:
    with (
        build.open_home(tmp_path) as store,
        Server(lambda _: Reply(status=401, body=OUTAGE)) as server,
    ):
        ran = run_chat(
            store, "Look.", RunSpec(model="m", base_url=server.base_url, folder=tmp_path)
        )
        assert "the model call failed" in (ran.ended_by or "")
        assert ran.failure is not None
        assert (ran.failure.kind, ran.failure.category) == ("auth", "permanent")
        assert ran.session is not None


def test_a_model_that_stays_away_until_the_time_is_over_is_not_asked_again(tmp_path: Path) -> None:
    with (
        build.open_home(tmp_path) as store,
        Server(lambda _: Reply(status=500, body=OUTAGE)) as server,
    ):
        ran = run_chat(
            store,
            "Look.",
            RunSpec(
                model="m",
                base_url=server.base_url,
                folder=tmp_path,
                budget=Budget(seconds=1.0),
            ),
        )
        assert ran.ended_by is not None
        assert ran.session is not None


def test_a_prompt_that_cannot_be_asked_is_reported_and_not_raised(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        ran = run_chat(store, "Look.", RunSpec(model="moa:nobody", folder=tmp_path))
        assert "there is no preset 'nobody'" in (ran.ended_by or "")
        assert (ran.session, ran.failure) == (None, None)


def test_a_program_with_a_recipe_reports_its_session_and_outcome(tmp_path: Path) -> None:
    agent = str(write_agent(tmp_path))
    with build.open_home(tmp_path) as store:
        ran = command(store, tmp_path, "Look after the house.", agent, "-p")
        assert (ran.answer, ran.ended_by) == ("All is in its place.", None)
        assert (ran.session or "").startswith("claude-code:")
        assert (ran.model, ran.cost_nanos) == ("claude-opus-4-6", 5_900_000)
        failed = command(store, tmp_path, "<broken> Look.", agent, "-p")
        assert failed.ended_by == "the agent failed: API Error: 500 outage"
        assert failed.failure is not None
        assert failed.failure.category == "retryable"
        denied = command(store, tmp_path, "<denied> Look.", agent, "-p")
        assert denied.failure is not None
        assert denied.failure.category == "permanent"
        assert len({one.session for one in (ran, failed, denied)}) == 3


def test_a_program_that_takes_too_long_is_ended_and_its_session_found(tmp_path: Path) -> None:
    agent = str(write_agent(tmp_path))
    with build.open_home(tmp_path) as store:
        started = time.monotonic()
        ran = command(store, tmp_path, "<slow> Look.", agent, "-p", seconds=4)
        assert time.monotonic() - started < 30
        assert (ran.timed_out, ran.failure) == (True, None)
        assert ran.ended_by == "it was ended after 4 seconds, which was its limit"
        assert ran.session is not None


def test_the_session_of_a_wrapped_agent_is_the_one_that_was_given_the_prompt(
    tmp_path: Path,
) -> None:
    agent = write_agent(tmp_path)
    wrapper = write_program(
        tmp_path, "mine", f'#!/bin/sh\nsleep 0.3; exec {agent} --session-id "$1"\n'
    )
    with build.open_home(tmp_path) as store:
        # a person works in the same folder at the same time
        lines = [build.claude_prompt("Something else", sessionId="another")]
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        build.write_claude(tmp_path, [line | {"timestamp": now} for line in lines], name="another")
        ran = command(store, tmp_path, "Look after   the house.", str(wrapper), "mine-1")
        assert ran.session == "claude-code:mine-1"
        assert json.loads(ran.answer or "")["result"] == "All is in its place."
        none = command(store, tmp_path, "<without a session>", str(wrapper), "mine-2")
        assert (none.session, none.ended_by) == (None, None)


def test_of_two_sessions_that_could_be_it_neither_is_taken(tmp_path: Path) -> None:
    agent = write_agent(tmp_path)
    first, second = f"{agent} --session-id a < p > /dev/stderr", f"exec {agent} < p"
    text = f"#!/bin/sh\ncat > p; sleep 0.3\n{first}\n{second}\n"
    twice = write_program(tmp_path, "twice", text)
    with build.open_home(tmp_path) as store:
        ran = command(store, tmp_path, "Look.", str(twice))
        assert ran.session is None
        assert "2 sessions were given the same prompt at the same time" in ran.evidence


def test_a_session_that_was_only_gone_on_with_is_not_the_runs_own(tmp_path: Path) -> None:
    agent = str(write_agent(tmp_path))
    with build.open_home(tmp_path) as store:
        lines = [line | {"sessionId": "older"} for line in build.claude_session()]
        older = tmp_path / ".claude" / "projects" / "-x" / "older.jsonl"
        older.parent.mkdir(parents=True)
        older.write_bytes(build.as_lines(lines).replace(b"2026-11-15T00", b"2026-01-15T00"))
        ran = command(store, tmp_path, "Look.", agent, "-p", "--session-id", "older")
        assert (ran.answer, ran.session) == ("All is in its place.", None)
        assert "it continued claude-code:older, which began before" in ran.evidence
        # what it cost before is not counted again: what the program says of itself is
        assert ran.cost_nanos == 5_900_000


def test_any_other_program_answers_with_what_it_prints(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        said = command(store, tmp_path, "Look.", "/bin/cat")
        assert (said.answer, said.ended_by, said.session) == ("Look.", None, None)
        failed = command(store, tmp_path, "Look.", "/bin/sh", "-c", "echo no disk >&2; exit 4")
        assert (failed.ended_by, failed.failure) == ("exit code 4: no disk", None)
        busy = command(
            store, tmp_path, "Look.", "/bin/sh", "-c", "echo HTTP 503: overloaded >&2; exit 1"
        )
        assert busy.failure is not None
        assert busy.failure.category == "retryable"


def test_places_in_a_command_are_filled_in_and_no_shell_looks_at_them(tmp_path: Path) -> None:
    script = "import sys, pathlib; print(sys.argv[1:3], pathlib.Path(sys.argv[3]).read_text())"
    with build.open_home(tmp_path) as store:
        prompt = "$(touch owned); `touch owned` 'quoted'"
        words = ["python3", "-c", script, "{prompt}", "{workdir}", "{prompt_file}"]
        ran = command(store, tmp_path, prompt, *words)
        assert ran.answer == f"{[prompt, str(tmp_path)]} {prompt}"
        line = "printf '%s|' {prompt} \"$(cat {prompt_file})\" && pwd"
        shell = command(store, tmp_path, prompt, line, use_shell=True)
        assert shell.answer == f"{prompt}|{prompt}|{tmp_path}"
        assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("words", [["/no/such/program"], ["{prompt}"]])
def test_a_program_that_is_not_there_is_reported_and_not_raised(
    tmp_path: Path, words: list[str]
) -> None:
    with build.open_home(tmp_path) as store:
        ran = command(store, tmp_path, "Look.", *words)
        assert "cannot be run" in (ran.ended_by or "")


def test_a_folder_that_is_not_there_is_reported_and_not_raised(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        ran = command(store, tmp_path, "Look.", "/bin/cat", folder=tmp_path / "gone")
        assert "there is no folder" in (ran.ended_by or "")
