"""Hermes itself does the work of Relight's jobs: how each run really went, and what it cost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from clients import find_hermes
from scripted import Reply, Server, call, has_results

CONFIG = """
model: {{provider: custom, base_url: "{url}", api_key: sk-scripted, default: scripted-model,
  context_length: 131072}}
agent: {{api_max_retries: 1}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""
# dollars a token, as text: what the runs must cost is reckoned from these
PROMPT, CACHED, ANSWER = 0.000001, 0.0000001, 0.000004
MODEL = {
    "id": "scripted-model",
    "context_length": 131072,
    "pricing": {
        "prompt": f"{PROMPT:.7f}",
        "completion": f"{ANSWER:.7f}",
        "input_cache_read": f"{CACHED:.7f}",
    },
}
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 34,
    "total_tokens": 1234,
    "prompt_tokens_details": {"cached_tokens": 200},
}
CALL_USD = 1000 * PROMPT + 200 * CACHED + 34 * ANSWER


def answer(request: dict[str, Any]) -> Reply:
    said = json.dumps(request["messages"])
    if "Work that breaks" in said:
        return Reply(status=500, body=b'{"error": {"message": "scripted outage"}}')
    if "Work that takes long" in said:
        return Reply("Too late.", usage=USAGE, delay_seconds=60)
    if not has_results(request):
        return Reply("Let me look.", [call("terminal", command="echo clean")], usage=USAGE)
    return Reply("The work is done: all is in its place.", usage=USAGE)


class Home:
    """A home with Hermes' and Relight's folders, and the commands to work in it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        hermes = folder / ".hermes"
        hermes.mkdir()
        (hermes / "config.yaml").write_text(CONFIG.format(url=server.base_url))
        build.open_home(folder).close()
        scripts = folder / "relight" / "scripts"
        scripts.mkdir()
        (scripts / "bad.sh").write_text("echo boom >&2\nexit 3\n")
        skill = folder / "relight" / "skills" / "tidy"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: tidy\nversion: 1.2.0\n---\nPut things away.\n")

    def relight(self, *words: str, code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "relight", *words, "--json"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "HERMES_HOME": str(self.folder / ".hermes"),
                "HERMES_DISABLE_LAZY_INSTALLS": "1",
                "RELIGHT_HOME": str(self.folder / "relight"),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:]
        return json.loads(done.stdout)

    def run(self, name: str, prompt: str, *words: str, code: int = 0) -> Any:
        command = f"{find_hermes()} -z {{prompt}} --yolo"
        given = ["--schedule", "every 2h", "--prompt", prompt, "--command", command]
        self.relight("job", "add", name, *given, "--max-attempts", "1", *words)
        return self.relight("job", "run", name, code=code)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Server(answer, models=[MODEL]) as server:
        yield Home(tmp_path, server)


def test_every_run_of_hermes_reports_its_outcome_and_cost(home: Home) -> None:
    home.run("good", "Work that goes well", "--skill", "tidy")
    home.run("broken", "Work that breaks", code=1)
    home.run("scripted", "Work after a script", "--script", "bad.sh", code=1)
    home.run("slow", "Work that takes long", "--timeout", "12s", code=1)
    runs = {run["job"]: run for run in home.relight("job", "history")["runs"]}

    assert {name: (run["status"], run["outcome"]) for name, run in runs.items()} == {
        "good": ("completed", "success"),
        "broken": ("failed", "failure"),
        "scripted": ("failed", "failure"),
        "slow": ("failed", "failure"),
    }
    assert runs["good"]["evidence"] == [
        "it ended with an answer",
        "the usage file says completed",
    ]
    assert "HTTP 500: scripted outage" in runs["broken"]["evidence"][0]
    reason = "the job's script failed: bad.sh ended with exit code 3: boom"
    assert runs["scripted"]["evidence"][0] == reason
    assert "which was its limit" in runs["slow"]["evidence"][0]

    # two calls each where there was an answer; a call that failed or never ended costs nothing
    assert runs["good"]["cost_usd"] == pytest.approx(2 * CALL_USD, abs=1e-9)
    assert runs["scripted"]["cost_usd"] == pytest.approx(2 * CALL_USD, abs=1e-9)
    for name in ("broken", "slow"):
        assert not runs[name]["cost_usd"]
    sessions = {run["session_id"] for run in runs.values()}
    assert len(sessions) == 4
    assert all(name.startswith("hermes:") for name in sessions)

    assert "The work is done" in Path(runs["good"]["answer_file"]).read_text()
    with build.open_home(home.folder) as store:
        rows = store.query(
            "select skill_name, entry, skill_version, job_id, success, cost_nanos, session_id"
            " from skill_invocations"
        )
        assert rows == [
            (
                "tidy",
                "cron",
                "1.2.0",
                "good",
                1,
                round(2 * CALL_USD * 1e9),
                runs["good"]["session_id"],
            )
        ]


def test_what_hermes_is_given_is_the_whole_prompt(home: Home) -> None:
    home.run("good", "Work that goes well", "--skill", "tidy", "--model", "scripted-model")
    (said,) = [
        one["content"] for one in home.server.chats[0].body["messages"] if one["role"] == "user"
    ]
    skill = (home.folder / "relight" / "skills" / "tidy").as_posix()
    assert said.startswith(f'<skill name="tidy" folder="{skill}">\n---\nname: tidy')
    assert "\nRUNTIME: model=scripted-model provider=unknown\n" in said
    assert said.endswith("\n\nWork that goes well")


def test_an_outage_of_a_moment_is_got_over_by_another_attempt(tmp_path: Path) -> None:
    down = [True]

    def flaky(request: dict[str, Any]) -> Reply:
        if down:
            down.clear()
            return Reply(status=500, body=b'{"error": {"message": "scripted outage"}}')
        return answer(request)

    with Server(flaky, models=[MODEL]) as server:
        home = Home(tmp_path, server)
        run = home.run("flaky", "Work that goes well", "--max-attempts", "2")
        assert (run["outcome"], run["attempts"]) == ("success", 2)
        assert run["cost_usd"] == pytest.approx(2 * CALL_USD, abs=1e-9)
        assert run["evidence"][-1].startswith("attempt 1 failed: the agent failed: API call failed")
