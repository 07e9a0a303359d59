"""Claude Code and Codex themselves as runners: what they print is read, their session found."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import build
from build_runs import environment
from clients import CODEX_SETTINGS, find_claude, find_codex
from relight.model import Usage
from relight.store import Store
from relight.work.jobs.runners import AttemptResult, run_command
from relight.work.jobs.spending import add_figures
from scripted import Reply, call
from scripted_agents import AgentServer, has_tool_results

USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 34,
    "total_tokens": 1234,
    "prompt_tokens_details": {"cached_tokens": 200},
}
DENIED = {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}
OUTAGE = {"type": "error", "error": {"type": "api_error", "message": "scripted outage"}}


def answer(request: dict[str, Any]) -> Reply:
    said = json.dumps(request)
    if "Work that breaks" in said:
        return Reply(status=500, body=json.dumps(OUTAGE).encode())
    if "Work that is denied" in said:
        return Reply(status=401, body=json.dumps(DENIED).encode())
    if "Work that takes long" in said:
        return Reply("Too late.", delay_seconds=30)
    return Reply("All is in its place.", usage=USAGE)


def run(store: Store, home: Path, prompt: str, *words: str, **options: Any) -> AttemptResult:
    scratch = home / f"scratch-{uuid.uuid4()}"
    return run_command(store, prompt, command=words, scratch=scratch, folder=home, **options)


def test_claude_code_reports_its_session_its_cost_and_its_failures(tmp_path: Path) -> None:
    program = str(find_claude())
    with AgentServer(answer) as server, build.open_home(tmp_path) as store:
        own = environment(
            tmp_path,
            ANTHROPIC_BASE_URL=server.root_url,
            ANTHROPIC_API_KEY="sk-ant-scripted",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_MAX_RETRIES="0",
            DISABLE_AUTOUPDATER="1",
            DISABLE_TELEMETRY="1",
        )
        options = {"environment": own, "seconds": 60.0}
        good = run(store, tmp_path, "Work that goes well", program, "-p", **options)
        assert (good.answer, good.ended_by) == ("All is in its place.", None)
        assert "Work that goes well" in json.dumps(server.asked[0]["messages"])
        assert good.usage == Usage(1000, 200, 0, 34)
        # the session that was imported costs what the program says it did
        figures = add_figures(store, [good.session or ""])
        assert figures.cost_nanos == good.cost_nanos
        assert figures.usage == good.usage

        broken = run(store, tmp_path, "Work that breaks", program, "-p", **options)
        assert "500 scripted outage" in (broken.ended_by or "")
        assert broken.failure is not None
        assert (broken.failure.kind, broken.failure.category) == ("server_error", "retryable")
        denied = run(store, tmp_path, "Work that is denied", program, "-p", **options)
        assert denied.failure is not None
        assert denied.failure.category == "permanent"

        started = time.monotonic()
        slow = run(
            store,
            tmp_path,
            "Work that takes long",
            program,
            "-p",
            **{**options, "seconds": 5.0},
        )
        assert slow.timed_out
        assert time.monotonic() - started < 25
        sessions = {one.session for one in (good, broken, denied, slow)}
        assert len(sessions) == 4
        assert all((name or "").startswith("claude-code:") for name in sessions)


def test_codex_reports_its_session_and_its_failures(tmp_path: Path) -> None:
    program = str(find_codex())
    (tmp_path / ".codex").mkdir()
    with AgentServer(answer) as server, build.open_home(tmp_path) as store:
        (tmp_path / ".codex" / "config.toml").write_text(
            CODEX_SETTINGS.format(url=server.base_url, provider="scripted")
        )
        own = environment(tmp_path, SCRIPTED_KEY="sk-scripted")
        options = {"environment": own, "seconds": 60.0}
        words = [program, "exec", "--skip-git-repo-check"]
        good = run(store, tmp_path, "Work that goes well", *words, **options)
        assert (good.answer, good.ended_by) == ("All is in its place.", None)
        assert good.evidence == ["Codex says that the turn was completed"]
        figures = add_figures(store, [good.session or ""])
        assert figures.usage is not None
        assert (figures.usage.input, figures.usage.cache_read, figures.usage.output) == (
            1000,
            200,
            34,
        )
        broken = run(store, tmp_path, "Work that breaks", *words, **options)
        assert broken.failure is not None
        assert broken.failure.should_retry
        denied = run(store, tmp_path, "Work that is denied", *words, **options)
        assert "401" in (denied.ended_by or "")
        assert denied.failure is not None
        assert denied.failure.category == "permanent"
        slow = run(store, tmp_path, "Work that takes long", *words, **{**options, "seconds": 3.0})
        assert slow.timed_out
        sessions = {one.session for one in (good, broken, denied, slow)}
        assert len(sessions) == 4
        assert all((name or "").startswith("codex:") for name in sessions)


def test_what_codex_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    program = str(find_codex())
    (tmp_path / ".codex").mkdir()
    mark = tmp_path / "child"

    def start_child(request: dict[str, Any]) -> Reply:
        if has_tool_results(request):
            return Reply("Done.", delay_seconds=30)
        line = f"sh -c 'echo $$ > {mark}; exec sleep 300'"
        return Reply(None, [call("exec_command", cmd=line)])

    with AgentServer(start_child) as server, build.open_home(tmp_path) as store:
        (tmp_path / ".codex" / "config.toml").write_text(
            CODEX_SETTINGS.format(url=server.base_url, provider="scripted")
        )
        own = environment(tmp_path, SCRIPTED_KEY="sk-scripted")
        words = [program, "exec", "--skip-git-repo-check"]
        ran = run(store, tmp_path, "Start it.", *words, environment=own, seconds=4.0)
        assert ran.timed_out
        child = int(mark.read_text())
        for _ in range(100):
            if not Path(f"/proc/{child}").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{child}").exists()
