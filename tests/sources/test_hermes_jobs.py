"""The model of a job of Hermes, changed as a person asked, and a canary in such a job."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import build
from relight.errors import MissingError, RelightError
from relight.reports.canaries import read_canary_list
from relight.sources.hermes.job_models import HermesJobs
from relight.sources.job_editors import find_job_editor
from relight.store import Store
from relight.store.alarms import needs_a_look
from relight.work.jobs.canaries import do_as_asked, review_canaries
from relight.work.jobs.canary_plan import CanaryOrder, plan_canary, start_canary
from terminal import run_relight

JOB = "0123456789ab"
HOUR = 3_600_000
# it does what `hermes cron edit` does to the file, and notes its words
PROGRAM = """#!{python}
import json, os, sys
home = os.environ["HERMES_HOME"]
words = sys.argv[1:]
if "--help" in words:
    sys.exit(print("usage: hermes cron edit [--model MODEL] job_id"))
open(home + "/words.jsonl", "a").write(json.dumps(words) + "\\n")
if os.path.exists(home + "/broken"):
    sys.exit("no such job")
path = home + "/cron/jobs.json"
document = json.load(open(path))
for job in document["jobs"]:
    if job["id"] == words[2]:
        job["model"] = words[words.index("--model") + 1] or None
        if "--provider" in words:
            job["provider"] = words[words.index("--provider") + 1] or None
json.dump(document, open(path, "w"))
"""


@pytest.fixture
def hermes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hermes with one job, and no program of that name."""
    home = tmp_path / ".hermes"
    (home / "cron").mkdir(parents=True)
    job = {"id": JOB, "name": "digest", "prompt": "Sum up", "model": "big", "provider": None}
    other = {"id": "other", "name": "übrig", "model": None, "model_snapshot": "big"}
    document = {"jobs": [job, other], "updated_at": "2026-11-15T00:00:00+00:00"}
    (home / "cron" / "jobs.json").write_text(json.dumps(document, indent=2, ensure_ascii=False))
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return home


def read_jobs(home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((home / "cron" / "jobs.json").read_text())["jobs"]
    return found


def write_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home.parent / "bin"
    folder.mkdir()
    (folder / "hermes").write_text(PROGRAM.format(python=sys.executable))
    (folder / "hermes").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_the_program_the_file_is_changed_in_one_step_and_back(hermes: Path) -> None:
    path = hermes / "cron" / "jobs.json"
    path.chmod(0o640)
    before = path.read_text()
    editor = HermesJobs(hermes, {"PATH": ""})
    assert editor.read_model(JOB) == ("big", None, "big")
    assert editor.read_model("other") == (None, None, "big")
    shown = editor.show_change(JOB, "small", "openai")
    assert '-      "model": "big"' in shown
    assert '+      "model": "small"' in shown
    assert path.read_text() == before
    editor.write_model(JOB, "small", "openai")
    assert editor.read_model(JOB) == ("small", "openai", "small")
    assert read_jobs(hermes)[1]["name"] == "übrig"
    assert path.stat().st_mode & 0o777 == 0o640
    editor.write_model(JOB, "big", None)
    assert json.loads(path.read_text()) == json.loads(before)
    with pytest.raises(MissingError, match="has no job gone"):
        editor.write_model("gone", "small", None)


@pytest.mark.parametrize(
    ("style", "start", "end", "line_end"),
    [
        ({"indent": 2, "ensure_ascii": False}, "", "", "\n"),
        ({"indent": 2}, "", "\n", "\n"),
        ({"indent": 4, "ensure_ascii": False}, "\ufeff", "\n", "\r\n"),
        ({}, "", "", "\n"),
    ],
)
def test_a_change_taken_back_leaves_every_byte_as_it_was(
    hermes: Path, style: dict[str, Any], start: str, end: str, line_end: str
) -> None:
    path = hermes / "cron" / "jobs.json"
    text = json.dumps(json.loads(path.read_text()), **style) + end
    before = (start + text.replace("\n", line_end)).encode()
    path.write_bytes(before)
    editor = HermesJobs(hermes, {"PATH": ""})
    shown = editor.show_change(JOB, "small", None)
    assert shown.count("\n+") == 2  # the name of the file, and one line
    editor.write_model(JOB, "small", None)
    changed = path.read_bytes()
    assert changed == before.replace(b'"model": "big"', b'"model": "small"')
    editor.write_model(JOB, "big", None)
    assert path.read_bytes() == before


def test_with_the_program_its_own_command_makes_the_change(
    hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(hermes, monkeypatch)
    editor = find_job_editor("hermes", os.environ)
    assert editor is not None
    assert editor.show_change(JOB, "small", None) == f"hermes cron edit {JOB} --model small"
    editor.write_model(JOB, "small", None)
    assert editor.read_model(JOB)[0] == "small"
    # a job that named no model names none again
    editor.write_model(JOB, None, None)
    assert editor.read_model(JOB)[0] is None
    words = [json.loads(line) for line in (hermes / "words.jsonl").read_text().splitlines()]
    assert words[0] == ["cron", "edit", JOB, "--model", "small"]
    (hermes / "broken").touch()
    with pytest.raises(RelightError, match="no such job"):
        editor.write_model(JOB, "small", None)


def test_a_program_whose_command_takes_no_model_leaves_the_file_to_us(
    hermes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(hermes, monkeypatch)
    program = hermes.parent / "bin" / "hermes"
    program.write_text(program.read_text().replace("[--model MODEL] ", ""))
    editor = find_job_editor("hermes", os.environ)
    assert editor is not None
    assert '+      "model": "small"' in editor.show_change(JOB, "small", None)
    editor.write_model(JOB, "small", None)
    assert editor.read_model(JOB)[0] == "small"
    assert not (hermes / "words.jsonl").exists()


def test_agents_without_a_scheduler_have_no_editor(hermes: Path) -> None:
    assert find_job_editor("codex", os.environ) is None


class Ledger:
    """Hermes at work: each run has the model that its job names at that moment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.sessions = build.open_hermes(home.parent)
        self.ledger = sqlite3.connect(home / "cron" / "executions.db", isolation_level=None)
        self.ledger.execute(
            "create table executions (id text primary key, job_id text, status text,"
            " claimed_at text, started_at text, finished_at text, error text)"
        )
        self.ran: list[str] = []
        self.now = build.START

    def run(self, *, fails: str = "") -> None:
        self.now += HOUR
        model = read_jobs(self.home)[0]["model"]
        self.ran.append(model)
        begun = datetime.fromtimestamp(self.now / 1000, UTC)
        name = f"cron_{JOB}_{begun:%Y%m%d_%H%M%S}"
        usage = {"input_tokens": 1000, "output_tokens": 10, "api_call_count": 1}
        base = {"id": name, "source": "cron", "model": model, "started_at": self.now / 1000 + 3}
        build.insert(self.sessions, "sessions", **base, **usage)
        end = datetime.fromtimestamp(self.now / 1000 + 60, UTC)
        has_failed = model == fails
        self.ledger.execute(
            "insert into executions values (?, ?, ?, ?, ?, ?, ?)",
            (
                f"r{len(self.ran)}",
                JOB,
                "failed" if has_failed else "completed",
                begun.isoformat(),
                begun.isoformat(),
                end.isoformat(),
                "HTTP 500" if has_failed else None,
            ),
        )


@pytest.fixture
def ledger(hermes: Path) -> Iterator[Ledger]:
    opened = Ledger(hermes)
    yield opened
    opened.ledger.close()


def start_dealing(store: Store, ledger: Ledger, *, share: float) -> None:
    """Put a model on trial with a seed that deals the same runs every time."""
    order = CanaryOrder(model="small", share=share, anyway=True)
    plan = plan_canary(store, "digest", order, now=ledger.now + 120_000)
    row = replace(plan.row, seed="fixed")
    start_canary(store, replace(plan, row=row))


def test_a_canary_in_a_job_of_hermes_deals_its_next_run_and_stops_for_harm(
    store: Store, tmp_path: Path, hermes: Path, ledger: Ledger
) -> None:
    for _ in range(40):
        ledger.run()
    build.import_home(store, tmp_path)
    start_dealing(store, ledger, share=0.5)
    for _ in range(30):
        ledger.run(fails="small")
        build.import_home(store, tmp_path)
        review_canaries(store, now=ledger.now + 120_000)
    one = read_canary_list(store, f"hermes:{JOB}").canaries[0]
    assert one.state == "stopped", one.sentence
    assert 3 <= one.failures <= 8
    assert one.successes == 0
    assert one.against_failures == 0
    # afterwards the job is as it was before
    assert (read_jobs(hermes)[0]["model"], read_jobs(hermes)[0]["provider"]) == ("big", None)
    assert set(ledger.ran[-5:]) == {"big"}


def test_an_import_looks_at_a_trial_in_a_job_with_few_runs(
    store: Store, tmp_path: Path, hermes: Path, ledger: Ledger
) -> None:
    """Alarms begin after 30 runs, and so did the look at trials."""
    ledger.run()
    build.import_home(store, tmp_path)
    assert not needs_a_look(store)
    start_dealing(store, ledger, share=0.99)
    ledger.run()
    home = {
        "HOME": str(tmp_path),
        "HERMES_HOME": str(hermes),
        "RELIGHT_HOME": str(store.config.home),
    }
    done = run_relight({**os.environ, **home}, "import")
    assert done.returncode == 0, done.stderr
    (one,) = read_canary_list(store, f"hermes:{JOB}").canaries
    assert one.successes + one.failures + one.unknown == 1
    do_as_asked(store, one.job, "stop", made_by="ada", now=ledger.now + 130_000)
    assert not needs_a_look(store)


def test_a_person_promotes_and_rolls_back_a_job_of_hermes(
    store: Store, tmp_path: Path, hermes: Path, ledger: Ledger
) -> None:
    for _ in range(40):
        ledger.run()
    build.import_home(store, tmp_path)
    start_dealing(store, ledger, share=0.2)
    name = f"hermes:{JOB}"
    do_as_asked(store, name, "promote", made_by="ada", now=ledger.now + 130_000)
    assert read_jobs(hermes)[0]["model"] == "small"
    do_as_asked(store, name, "back", made_by="ada", now=ledger.now + 140_000)
    assert read_jobs(hermes)[0]["model"] == "big"
    switches = read_canary_list(store, name).switches
    assert [(one.from_model, one.to_model, one.made_by) for one in switches] == [
        ("big", "small", "ada"),
        ("small", "big", "ada"),
    ]
