"""Hermes itself runs scheduled jobs with skills; Relight must tell how they really went."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
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
SKILLS = {
    "tidy": "---\nname: tidy\ndescription: Tidies up.\nversion: 1.2.0\n---\nPut things away.\n",
    "sweep": "---\nname: sweep\ndescription: Sweeps.\n---\nSweep the floor.\n",
}
JOBS: dict[str, list[str]] = {
    "clean": ["--skill", "tidy", "--skill", "sweep"],
    "broken": ["--skill", "tidy"],
    "scripted": ["--skill", "sweep", "--script", "bad.sh"],
}


# dollars a token; a provider that reports them gives Hermes' sessions a cost
MODEL = {
    "id": "scripted-model",
    "context_length": 131072,
    "pricing": {"prompt": "0.000001", "completion": "0.000004", "input_cache_read": "0.0000001"},
}
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 34,
    "total_tokens": 1234,
    "prompt_tokens_details": {"cached_tokens": 200},
}


def answer(request: dict[str, Any]) -> Reply:
    """One job gets its work done with a tool, one only errors, one reports the broken script."""
    said = json.dumps(request["messages"])
    if "Prompt of broken" in said:
        return Reply(status=500, body=b'{"error": {"message": "scripted outage"}}')
    if "Prompt of clean" in said and not has_results(request):
        return Reply("Let me look.", [call("terminal", command="echo clean")], usage=USAGE)
    return Reply("The work is done: all is in its place.", usage=USAGE)


class Hermes:
    """The real program with a separate home."""

    def __init__(self, home: Path, url: str) -> None:
        self.program = find_hermes()
        self.home = home
        folder = home / ".hermes"
        for name, text in SKILLS.items():
            (folder / "skills" / name).mkdir(parents=True)
            (folder / "skills" / name / "SKILL.md").write_text(text)
        (folder / "scripts").mkdir()
        (folder / "scripts" / "bad.sh").write_text("echo boom >&2\nexit 3\n")
        (folder / "config.yaml").write_text(CONFIG.format(url=url))

    def run(self, *words: str, **settings: str) -> str:
        environment = {"HOME": str(self.home), "HERMES_HOME": str(self.home / ".hermes")}
        environment |= settings
        done = subprocess.run(
            [self.program, *words],
            env={"PATH": os.environ["PATH"], "HERMES_DISABLE_LAZY_INSTALLS": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout + done.stderr

    def job_ids(self) -> dict[str, str]:
        jobs = json.loads((self.home / ".hermes" / "cron" / "jobs.json").read_text())["jobs"]
        return {job["name"]: job["id"] for job in jobs}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which Hermes' scheduler has run each of the jobs once."""
    build.open_home(tmp_path).close()
    with Server(answer, models=[MODEL]) as server:
        hermes = Hermes(tmp_path, server.base_url)
        for name, words in JOBS.items():
            hermes.run("cron", "create", "every 2h", f"Prompt of {name}", "--name", name, *words)
        ids = hermes.job_ids()
        assert set(ids) == set(JOBS)
        for name in JOBS:
            hermes.run("cron", "run", ids[name])
    return tmp_path


def relight(home: Path, *words: str, program: Path | None = None) -> Any:
    """What a command says; with `program` it finds Hermes on the path."""
    places = [*([str(program.parent)] if program else []), os.environ["PATH"]]
    folders = {"HOME": str(home), "HERMES_HOME": str(home / ".hermes")}
    done = subprocess.run(
        [sys.executable, "-m", "relight", *words, "--json", "--home", str(home / "relight")],
        env={**os.environ, **folders, "PATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_failed_runs_of_a_skill_are_failures_though_hermes_calls_them_complete(home: Path) -> None:
    relight(home, "import", "--source", "hermes")
    runs = {run["name"]: run for run in relight(home, "job", "history")["runs"]}
    assert {name: run["outcome"] for name, run in runs.items()} == {
        "clean": "success",
        "broken": "failure",
        "scripted": "failure",
    }
    assert "HTTP 500" in runs["broken"]["evidence"][0]
    assert runs["scripted"]["status"] == "completed"
    assert "script failed" in runs["scripted"]["evidence"][0]
    with closing(sqlite3.connect(home / ".hermes" / "state.db")) as hermes:
        assert hermes.execute("select distinct end_reason from sessions").fetchall() == [
            ("cron_complete",)
        ]

    rows = relight(home, "skills", "stats")["rows"]
    for skill in SKILLS:
        own = [row for row in rows if row["skill_name"] == skill]
        counts = ("invocation_count", "success_count", "failure_count", "unknown_count")
        assert [sum(row[name] for row in own) for name in counts] == [2, 1, 1, 0]
        assert {row["model"] for row in own} == {"scripted-model"}

    # both skills of the good run share what it cost, to the last digit
    with build.open_home(home) as store:
        sweep, tidy = store.query(
            "select skill_name, entry, skill_version, job_id, cost_nanos, turns"
            " from skill_invocations where success = 1 order by skill_name"
        )
    assert (tidy[:3], sweep[:2]) == (("tidy", "cron", "1.2.0"), ("sweep", "cron"))
    assert sweep[2].startswith("sha256:")
    assert tidy[3] == runs["clean"]["job"]
    assert (tidy[4] + sweep[4]) / 1e9 == runs["clean"]["cost_usd"] > 0
    assert tidy[5] + sweep[5] == 2


def test_a_run_that_hermes_ends_after_a_silence_is_a_failure_of_its_skill(tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    is_over = threading.Event()

    def hang(_: object) -> Reply:
        is_over.wait(30)  # Hermes waits for its request before it ends
        return Reply("Too late.", usage=USAGE)

    with Server(hang, models=[MODEL]) as server:
        hermes = Hermes(tmp_path, server.base_url)
        words = ["--name", "hung", "--skill", "tidy"]
        hermes.run("cron", "create", "every 2h", "Prompt of hung", *words)
        said = hermes.run("cron", "run", hermes.job_ids()["hung"], HERMES_CRON_TIMEOUT="3")
        is_over.set()
    counted = json.loads((tmp_path / ".hermes" / "skills" / ".usage.json").read_text())
    assert counted["tidy"]["use_count"] == 1, said
    relight(tmp_path, "import", "--source", "hermes")
    (run,) = relight(tmp_path, "job", "history", "--failed")["runs"]
    assert (run["name"], run["outcome"]) == ("hung", "failure"), said
    assert "TimeoutError" in run["evidence"][0]
    with build.open_home(tmp_path) as store:
        used = store.query("select skill_name, entry, success from skill_invocations")
    assert used == [("tidy", "cron", 0)]


def test_a_canary_changes_the_model_of_a_job_of_hermes_and_sets_it_back(tmp_path: Path) -> None:
    """Hermes 0.19.0 takes no model on `cron edit`: its file is changed, under its lock."""
    build.open_home(tmp_path).close()
    with Server(answer, models=[MODEL, {**MODEL, "id": "cheap-model"}]) as server:
        hermes = Hermes(tmp_path, server.base_url)
        hermes.run("cron", "create", "every 2h", "Prompt of digest", "--name", "digest")
        key = hermes.job_ids()["digest"]
        path = tmp_path / ".hermes" / "cron" / "jobs.json"

        def settings() -> list[Any]:
            (job,) = json.loads(path.read_text())["jobs"]
            return [job["model"], job["provider"], job["schedule"], job["prompt"], job["skills"]]

        def run() -> str:
            """The model that the next run asked for."""
            done = len(server.requests)
            hermes.run("cron", "run", key)
            asked = {one.body["model"] for one in server.requests[done:] if one.raw}
            relight(tmp_path, "import")
            return str(asked.pop() if len(asked) == 1 else asked)

        def canary(*words: str) -> Any:
            return relight(tmp_path, "job", "canary", "digest", *words, program=hermes.program)

        before = settings()
        assert run() == "scripted-model"
        terms = ("--share", "99%", "--anyway", "--yes")
        (one,) = canary("--model", "cheap-model", *terms)["canaries"]
        assert (one["state"], one["against"]) == ("running", "scripted-model")
        assert settings() == ["cheap-model", *before[1:]]
        assert run() == "cheap-model"
        (one,) = canary()["canaries"]
        assert one["successes"] + one["failures"] + one["unknown"] == 1
        assert canary("--promote")["canaries"][0]["state"] == "promoted"
        assert run() == "cheap-model"
        assert canary("--back")["canaries"][0]["state"] == "rolled_back"
        assert settings() == before
        assert run() == "scripted-model"
