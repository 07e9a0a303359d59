"""Jobs and the scheduler as a person or a script uses them."""

import json
import os
import plistlib
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from build import wait_for
from relight.config import Config
from relight.work.jobs.boot import find_units
from relight.work.jobs.job import JobDefinition, JobFields
from relight.work.jobs.toml_tables import write_tables
from scripted import Reply, Server, call
from terminal import Run, run_relight

FIELDS = {
    "run_id", "job", "scheduled_for", "started_at", "finished_at", "status", "outcome", "evidence",
    "attempts", "session_id", "cost_usd", "duration_seconds", "answer_file", "delivery",
}  # fmt: skip


class Cli:
    """The real command in a separate process, with a separate home."""

    def __init__(self, home: Path) -> None:
        self.home = home / "relight"
        self.home.mkdir()
        (self.home / "config.toml").write_text('timezone = "Europe/Berlin"\n')
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "RELIGHT"))}
        self.environment = {**plain, "HOME": str(home), "RELIGHT_HOME": str(self.home)}

    def run(self, *words: str, given: str | None = None, code: int = 0) -> str:
        done = self.do(*words, given=given)
        assert done.returncode == code, done.stderr
        return done.stdout

    def do(self, *words: str, given: str | None = None) -> Run:
        return run_relight(self.environment, *words, given=given)

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def fail(self, *words: str) -> str:
        done = self.do(*words)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    def add(self, name: str, command: str = "echo all is well", **options: str) -> Any:
        given = {"schedule": "daily 07:00", "prompt": "Look around.", "command": command, **options}
        words = [word for key, value in given.items() for word in (f"--{key}", value)]
        return self.json("job", "add", name, *words)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_adding_a_job_says_in_words_when_it_is_due(cli: Cli) -> None:
    words = ["--schedule", "weekdays 08:30", "--prompt", "Sort it", "--model", "gpt-5.1"]
    told = cli.run("job", "add", "inbox", *words)
    first, second = told.splitlines()
    assert first == "added inbox: Monday to Friday at 08:30 (Europe/Berlin)"
    assert second.startswith("next: ")
    assert second.count("08:30 CE") == 3
    shown = cli.json("job", "show", "inbox")
    assert (shown["runner"], shown["model"], shown["state"]) == ("chat", "gpt-5.1", "scheduled")
    assert len(shown["next_times"]) == 3
    assert shown["next_times"][0] == shown["next_run_at"]


def test_all_fields_of_a_job_are_kept_and_shown(cli: Cli) -> None:
    scripts = cli.home / "scripts"
    scripts.mkdir()
    (scripts / "look.sh").write_text("echo hello\n")
    for skill in ("mail", "notes"):
        (cli.home / "skills" / skill).mkdir(parents=True)
        (cli.home / "skills" / skill / "SKILL.md").write_text("Do it well.")
    words = """
        --schedule '*/15 9-17 * * mon-fri' --timezone Asia/Kolkata --skill mail --skill notes
        --prompt Look --model big --provider someone --base-url http://127.0.0.1:9/v1
        --key-variable MY_KEY --context-tokens 99000 --template auto --script look.sh
        --workdir . --tools read_file,terminal --allow-terminal --pass-variable GH_TOKEN
        --timeout 10m --max-attempts 2 --deliver webhook:https://example.org/hook
        --budget-usd 0.5 --budget-usd-per-day 3
    """
    told = cli.json("job", "add", "full", *shlex.split(words))
    given = {
        "schedule": "*/15 9-17 * * mon-fri", "timezone": "Asia/Kolkata",
        "skills": ["mail", "notes"], "prompt": "Look", "model": "big", "provider": "someone",
        "context_tokens": 99000,
        "base_url": "http://127.0.0.1:9/v1", "key_variable": "MY_KEY", "template": "auto",
        "script": "look.sh", "workdir": str(Path.cwd()), "tools": ["read_file", "terminal"],
        "allow_terminal": True, "pass_variables": ["GH_TOKEN"], "timeout_seconds": 600.0,
        "max_attempts": 2, "budget_usd": 0.5,
        "deliver": "webhook:https://example.org/hook", "budget_usd_per_day": 3.0,
    }  # fmt: skip
    assert {key: told[key] for key in given} == given


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("--schedule soon --prompt P --model m", "'soon' cannot be parsed", "daily 07:00"),
        (
            "--schedule hourly --model m",
            "the job's --prompt cannot be ''",
            "say what the agent has to do",
        ),
        ("--schedule hourly --prompt P", "names no model", "--model"),
        ("--schedule hourly --prompt P --model moa:x", "moa", None),
        ("--schedule 2001-01-01 --prompt P --model m", "is in the past", "a time in the future"),
        (
            "--schedule hourly --prompt P --model m --timezone Mars",
            "--timezone cannot",
            "Europe/Berlin",
        ),
        ("--schedule hourly --prompt P --model m --tools fly", "no tool 'fly'", "terminal"),
        ("--schedule hourly --prompt P --model m --script x.sh", "no script 'x.sh'", "scripts"),
        (
            "--schedule hourly --prompt P --model m --script ../x",
            "--script cannot",
            "scripts folder",
        ),
        ("--schedule hourly --prompt P --model m --template x", "x", "template list"),
        ("--schedule hourly --prompt P --model m --skill x", "no skill 'x'", "skills"),
        ("--schedule hourly --prompt P --model m --workdir /no/such", "no folder", "--workdir"),
        ("--schedule hourly --prompt P --model m --timeout soon", "not a duration", "10m"),
        ("--schedule hourly --prompt P --model m --deliver mail:me", "--deliver", "webhook:URL"),
        ("--schedule hourly --prompt P --model m --deliver 'command:a \"b'", "--deliver", "quotes"),
        ("--schedule hourly --prompt P --model m --budget-usd -1", "--budget-usd", "above 0"),
        ("--schedule hourly --prompt P --model m --budget-usd inf", "--budget-usd", "above 0"),
        ("--schedule hourly --prompt P --model m --base-url gopher:x", "--base-url", "http://"),
        ("--schedule hourly --prompt P --model m --timeout 8d", "--timeout cannot", "a week"),
        ("--schedule hourly --prompt P --model m --key-variable k-1", "--key-variable", "KEY"),
        (
            "--schedule hourly --prompt P --runner command",
            "--command",
            "a program and its arguments",
        ),
        ("--schedule hourly --prompt P --command 'a \"b'", "cannot be read", "quotes"),
        ("--schedule hourly --prompt-file /no/such --model m", "/no/such", "--prompt-file"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_a_hint(
    cli: Cli, words: str, said: str, hint: str | None
) -> None:
    told = cli.fail("job", "add", "one", *shlex.split(words))
    assert said in told
    assert hint is None or hint in told.partition("hint: ")[2]
    assert cli.json("job", "list") == {"jobs": []}


def test_a_key_given_in_place_of_its_variable_is_not_shown_again(cli: Cli) -> None:
    words = ["--schedule", "hourly", "--prompt", "P", "--model", "m", "--key-variable"]
    told = cli.fail("job", "add", "one", *words, "sk-proj-1234")
    assert "sk-proj" not in told
    assert "name the variable" in told


def test_secrets_of_a_job_are_in_no_report_and_its_run_gets_them(cli: Cli) -> None:
    secret, word = "ghp_" + "a1B2c3D4" * 4 + "e5F6", "Xk29sLq0zPw"
    got = cli.home / "got.txt"
    script = f"""sh -c 'cp "$0" {got}; echo "$2" >> {got}; echo done'"""
    command = f"{script} {{prompt_file}} --password {word}"
    told = cli.add("look", command, prompt=f"Use {secret} to push")
    assert secret not in json.dumps(told)
    shown = [cli.run("job", "show", "look", *more) for more in ([], ["--json"])]
    shown += [cli.run("job", "list", *more) for more in ([], ["--json"])]
    assert secret not in "".join(shown)
    assert word not in "".join(shown)
    assert "redacted" in shown[0]
    assert cli.run("job", "run", "look") == "done\n"
    assert f"Use {secret} to push" in got.read_text()
    assert got.read_text().endswith(f"{word}\n")
    assert secret not in cli.run("job", "history", "--json")
    assert secret in cli.run("job", "export")
    assert "looks like a secret" in cli.fail(
        "job", "add", secret, "--schedule", "hourly", "--command", "true", "--prompt", "P"
    )


def test_a_job_whose_time_has_passed_is_overdue(cli: Cli) -> None:
    folder = Path(cli.environment["HOME"]) / ".hermes" / "cron"
    folder.mkdir(parents=True)
    job = {"id": "4d9a", "name": "triage", "schedule_display": "daily", "prompt": "P"}
    job["next_run_at"] = "2026-01-05T08:00:00+00:00"
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job]}))
    cli.run("import")
    (found,) = cli.json("job", "list")["jobs"]
    assert (found["next_run_at"], found["is_overdue"]) == ("2026-01-05T08:00:00.000Z", True)
    lines = cli.run("job", "list").splitlines()
    assert "overdue" in next(line for line in lines if line.startswith("triage"))
    assert any("has not begun that of" in line and "01-05 09:00" in line for line in lines)


def test_a_job_of_other_machines_needs_no_scheduler_here(cli: Cli) -> None:
    cli.add("far", on="any")
    assert cli.json("job", "list")["jobs"][0]["place"] == "any"
    assert cli.do("job", "list").stderr == ""
    cli.add("near")
    assert "no scheduler is running" in cli.do("job", "list").stderr


def test_job_show_has_one_shape_for_own_jobs_and_those_of_another_scheduler(cli: Cli) -> None:
    folder = Path(cli.environment["HOME"]) / ".hermes" / "cron"
    folder.mkdir(parents=True)
    job = {"id": "4d9a", "name": "triage", "prompt": "Sort it."}
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job]}))
    cli.run("import")
    added = cli.add("look")
    own, other = (cli.json("job", "show", name) for name in ("look", "triage"))
    assert list(own) == list(other) == list(added)
    assert set(JobFields.__struct_fields__) < set(own)
    assert (own["command"][0], own["runs"], other["command"]) == ("echo", [], None)
    assert (other["job"], other["prompt"], other["next_times"]) == ("hermes:4d9a", "Sort it.", [])
    assert cli.json("job", "show", "4d9a") == cli.json("job", "show", "hermes:4d9a") == other
    shown = cli.run("job", "show", "triage")
    assert "Sort it." in shown
    assert "None" not in shown
    assert "there is no job" in cli.fail("job", "show", "nothing")
    # what Relight does not change is changed where it was made
    assert "scheduler: hermes cron edit 4d9a" in cli.fail("job", "edit", "triage", "--model", "m")


def test_a_run_by_hand_prints_its_answer_and_is_in_the_history(cli: Cli) -> None:
    cli.add("look")
    done = cli.do("job", "run", "look")
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    assert "outcome success" in done.stderr
    (run,) = cli.json("job", "history")["runs"]
    assert set(run) >= FIELDS
    assert (run["job"], run["status"], run["outcome"]) == ("look", "completed", "success")
    assert run["attempts"] == 1
    assert run["duration_seconds"] < 60
    assert "all is well" in Path(run["answer_file"]).read_text()
    assert run["delivery"]["status"] == "delivered"


def test_a_run_by_hand_that_is_asked_to_end_says_so(cli: Cli) -> None:
    cli.add("slow", command="sleep 300")
    command = [sys.executable, "-m", "relight", "job", "run", "slow"]
    running = subprocess.Popen(command, env=cli.environment, stderr=subprocess.PIPE)
    wait_for(lambda: [run["status"] for run in cli.json("job", "history")["runs"]] == ["running"])
    running.terminate()
    running.communicate(timeout=120)
    assert running.returncode == 143
    (run,) = cli.json("job", "history")["runs"]
    assert (run["status"], run["outcome"]) == ("unknown", "unknown")
    assert run["evidence"][0].startswith("it was interrupted")


def test_a_run_that_fails_ends_with_one(cli: Cli) -> None:
    cli.add("broken", command="sh -c 'echo oh; exit 3'")
    told = cli.json("job", "run", "broken", code=1)
    assert (told["outcome"], told["status"]) == ("failure", "failed")
    assert "exit code 3" in " ".join(told["evidence"])
    listed = cli.json("job", "list")["jobs"]
    assert [(job["runs"], job["failures"], job["last_outcome"]) for job in listed] == [
        (1, 1, "failure")
    ]
    assert "broken needs attention: the last run failed" in cli.run("job", "list")


def test_the_history_is_narrowed_to_failed_runs_and_days(cli: Cli) -> None:
    cli.add("well")
    cli.add("broken", command="exit 3")
    cli.run("job", "run", "well")
    cli.run("job", "run", "broken", code=1)

    def names(*words: str) -> list[str]:
        return [run["job"] for run in cli.json("job", "history", *words)["runs"]]

    assert sorted(names()) == sorted(names("--since", "today")) == ["broken", "well"]
    assert names("--failed") == names("--failed", "--since", "7d") == ["broken"]
    assert names("well", "--failed") == []
    assert names("--since", "2999-01-01") == []
    assert cli.run("job", "history", "well", "--failed", "--since", "7d") == (
        "no run of well failed since 7d\n"
    )
    assert "'someday' is not a day" in cli.fail("job", "history", "--since", "someday")


def test_a_terminal_for_a_model_far_away_is_refused_until_it_is_allowed(cli: Cli) -> None:
    words = ["--schedule", "hourly", "--prompt", "P", "--model", "m", "--tools", "terminal"]
    far = [*words, "--base-url", "https://203.0.114.9/v1"]
    refused = cli.fail("job", "add", "far", *far)
    assert "far cannot have terminal: m is outside this machine and its network" in refused
    assert "--allow-terminal" in refused
    assert cli.json("job", "list")["jobs"] == []
    cli.run("job", "add", "far", *far, "--allow-terminal")
    assert "cannot have terminal" in cli.fail("job", "edit", "far", "--no-allow-terminal")
    assert cli.json("job", "show", "far")["allow_terminal"] is True


def test_a_prompt_may_come_from_a_file_or_standard_input(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("From a file.\n")
    words = ["--schedule", "hourly", "--model", "m", "--prompt-file"]
    told = cli.json("job", "add", "file", *words, str(tmp_path / "prompt.md"))
    assert told["prompt"] == "From a file.\n"
    done = cli.run("job", "add", "pipe", *words, "-", "--json", given="From a pipe.")
    assert json.loads(done)["prompt"] == "From a pipe."
    assert cli.do("job", "add", "both", *words, "-", "--prompt", "x").returncode == 2


def test_one_tick_runs_what_is_due_and_leaves(cli: Cli) -> None:
    cli.add("quick", schedule="every 1s")
    cli.add("later")
    time.sleep(1.1)
    done = cli.do("scheduler", "--once")
    assert done.returncode == 0, done.stderr
    assert " quick success " in done.stdout
    (run,) = cli.json("job", "history")["runs"]
    assert (run["job"], run["outcome"]) == ("quick", "success")
    assert run["scheduled_for"] <= run["started_at"]
    time.sleep(1.1)
    (line,) = cli.do("scheduler", "--once", "--json").stdout.splitlines()
    assert set(json.loads(line)) >= FIELDS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is feigned by Linux")
def test_a_scheduler_goes_on_when_nobody_can_be_notified(cli: Cli) -> None:
    cli.add("quick", schedule="every 1s")
    command = [sys.executable, "-m", "relight", "scheduler"]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(command, env=cli.environment, stdout=full) as scheduler,
    ):
        wait_for(lambda: len(cli.json("job", "history")["runs"]) > 2)
        assert scheduler.poll() is None
        scheduler.terminate()


def test_a_killed_scheduler_leaves_the_truth_of_what_its_run_did_and_cost(cli: Cli) -> None:
    replies = [Reply(None, [call("read_file", path="gone")]), Reply("Late.", delay_seconds=120)]
    words = ["--schedule", "every 1s", "--prompt", "Look", "--model", "gpt-5.1", "--base-url"]
    with Server(replies) as server:
        cli.run("job", "add", "watch", *words, server.base_url, "--context-tokens", "99000")
        command = [sys.executable, "-m", "relight", "scheduler"]
        scheduler = subprocess.Popen(command, env=cli.environment)
        wait_for(lambda: len(server.chats) == 2)
        scheduler.kill()
        scheduler.wait()
        cli.run("job", "pause", "watch")

        def is_over() -> bool:
            return bool(cli.json("job", "history")["runs"][-1]["status"] == "unknown")

        wait_for(is_over)
        assert len(server.chats) == 2
    (run,) = cli.json("job", "history")["runs"]
    assert "what it had done by then is not known" in run["evidence"][0]
    assert run["session_id"].startswith(f"relight:{run['run_id']}-")
    assert run["cost_usd"] > 0
    (row,) = cli.json("report", "--by", "job")["rows"]
    assert (row["job"], row["cost_usd"], row["tool_calls"]) == ("watch", run["cost_usd"], 1)


def test_a_job_is_paused_resumed_and_removed(cli: Cli) -> None:
    cli.add("one", schedule="every 1s")
    assert cli.json("job", "pause", "one") == {"job": "one", "state": "paused"}
    time.sleep(1.1)
    cli.run("scheduler", "--once")
    assert cli.json("job", "history")["runs"] == []
    assert "one is resumed: " in cli.run("job", "resume", "one")
    cli.json("job", "run", "one")
    assert "not confirmed" in cli.fail("job", "remove", "one")
    cli.run("job", "remove", "one", "--yes")
    assert cli.json("job", "list") == {"jobs": []}
    assert len(cli.json("job", "history", "one")["runs"]) == 1


@pytest.mark.parametrize("verb", ["show", "run", "pause", "resume", "remove", "history", "export"])
def test_a_job_that_is_not_there_is_reported_with_a_hint(cli: Cli, verb: str) -> None:
    told = cli.fail("job", verb, "nobody")
    assert "there is no job 'nobody'" in told
    assert "relight job list" in told


def test_a_name_is_taken_once_and_changed_by_edit(cli: Cli) -> None:
    cli.add("one")
    words = ["--schedule", "hourly", "--prompt", "x", "--model", "m"]
    assert "the job one already exists" in cli.fail("job", "add", "one", *words)
    told = cli.json("job", "edit", "one", "--schedule", "every 2h", "--budget-usd", "1.5")
    assert (told["schedule"], told["budget_usd"], told["prompt"]) == (
        "every 2h",
        1.5,
        "Look around.",
    )
    told = cli.json("job", "edit", "one", "--command", "", "--model", "gpt-5.1")
    assert (told["runner"], told["command"], told["model"]) == ("chat", [], "gpt-5.1")
    assert cli.do("job", "edit", "one").returncode == 2


def test_a_default_model_is_remembered_and_can_be_accepted_again(cli: Cli) -> None:
    config = cli.home / "config.toml"
    config.write_text(config.read_text() + '[jobs]\nmodel = "first"\n')
    told = cli.json("job", "add", "one", "--schedule", "hourly", "--prompt", "x")
    assert (told["model"], told["default_model"]) == (None, "first")
    config.write_text(config.read_text().replace("first", "second"))
    assert cli.json("job", "edit", "one", "--timeout", "5m")["default_model"] == "first"
    assert cli.json("job", "edit", "one", "--model", "default")["default_model"] == "second"


def test_what_is_exported_can_be_imported_elsewhere(cli: Cli, tmp_path: Path) -> None:
    cli.add("first", prompt='Say "hi"\nand\tgo.\n')
    cli.add("second", schedule="every 30m", **{"budget-usd": "2.5"})
    text = cli.run("job", "export")
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    (tmp_path / "other").mkdir()
    other = Cli(tmp_path / "other")
    assert "not confirmed" in other.fail("job", "import", str(file))
    other.run("job", "import", str(file), "--yes")
    assert other.run("job", "export") == text
    assert "already" in other.fail("job", "import", str(file), "--yes")
    other.run("job", "import", str(file), "--yes", "--replace")
    assert other.json("job", "export", "first")["jobs"][0]["prompt"] == 'Say "hi"\nand\tgo.\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "cannot read jobs"),
        ("x = 1", "there are no jobs"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\nmodle = 'm'", "modle"),
        ("[jobs.a]\nprompt = 'x'", "schedule"),
        ("[jobs.'a/b']\nschedule = 'hourly'\nprompt = 'x'", "a/b"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'", "[jobs.a]: the job a names no model"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\npaused = 'no'", "must be true or false"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\nscript = 'x.sh'", "no script 'x.sh'"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\nskills = ['s']", "no skill 's'"),
        ("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\ntools = ['fly']", "no tool 'fly'"),
    ],
)
def test_a_file_of_jobs_with_a_mistake_changes_nothing(
    cli: Cli, tmp_path: Path, text: str, said: str
) -> None:
    good = "[jobs.good]\nschedule = 'hourly'\nprompt = 'x'\nmodel = 'm'\n"
    (tmp_path / "jobs.toml").write_text(good + text if text.startswith("[") else text)
    assert said in cli.fail("job", "import", str(tmp_path / "jobs.toml"), "--yes")
    assert cli.json("job", "list") == {"jobs": []}


def test_a_paused_job_is_exported_and_imported_as_one(cli: Cli, tmp_path: Path) -> None:
    cli.add("asleep")
    cli.add("awake")
    cli.run("job", "pause", "asleep")
    text = cli.run("job", "export")
    assert {name: one.get("paused") for name, one in tomllib.loads(text)["jobs"].items()} == {
        "asleep": True,
        "awake": None,
    }
    (tmp_path / "jobs.toml").write_text(text)
    (tmp_path / "other").mkdir()
    other = Cli(tmp_path / "other")
    other.run("job", "import", str(tmp_path / "jobs.toml"), "--yes")
    listed = other.json("job", "list")["jobs"]
    assert [(job["job"], job["state"]) for job in listed] == [
        ("asleep", "paused"),
        ("awake", "scheduled"),
    ]


def test_an_imported_job_remembers_the_default_model_it_was_imported_with(
    cli: Cli, tmp_path: Path
) -> None:
    config = cli.home / "config.toml"
    config.write_text(config.read_text() + '[jobs]\nmodel = "first"\n')
    (tmp_path / "jobs.toml").write_text("[jobs.a]\nschedule = 'hourly'\nprompt = 'x'\n")
    (told,) = cli.json("job", "import", str(tmp_path / "jobs.toml"), "--yes")["jobs"]
    assert (told["model"], told["default_model"]) == (None, "first")


def test_a_job_whose_one_time_has_passed_is_left_out_of_an_import(cli: Cli, tmp_path: Path) -> None:
    rest = "prompt = 'x'\nmodel = 'm'\n"
    text = f"[jobs.past]\nschedule = '2001-01-01'\n{rest}[jobs.good]\nschedule = 'hourly'\n{rest}"
    (tmp_path / "jobs.toml").write_text(text)
    done = cli.do("job", "import", str(tmp_path / "jobs.toml"), "--yes")
    assert (done.returncode, done.stderr) == (0, "left out past: its time has passed\n")
    assert [job["job"] for job in cli.json("job", "list")["jobs"]] == ["good"]


def test_any_text_survives_export() -> None:
    hostile = "a\"\"\"b\\ \x00\x1f\x7f\u2028 {prompt}\n''' é\r\n\\"
    job = JobDefinition(
        name="one", schedule="hourly", prompt=hostile, command=[hostile, ""], tools=[]
    )
    tables = tomllib.loads(write_tables([job]))["jobs"]
    assert tables["one"]["prompt"] == hostile
    assert tables["one"]["command"] == [hostile, ""]


def test_the_history_is_cut_where_asked(cli: Cli) -> None:
    cli.add("one")
    for _ in range(3):
        cli.run("job", "run", "one")
    assert len(cli.json("job", "history", "one", "--limit", "2")["runs"]) == 2
    done = cli.do("job", "history", "--limit", "1")
    assert done.stdout.count("success") == 1
    assert "there are more" in done.stderr


def test_a_person_s_word_on_a_run_wins(cli: Cli) -> None:
    recorded = (
        "import relight\n"
        "with relight.open_store() as store, relight.record(store, 'mine', model='m') as rec:\n"
        "    rec.message('user', 'x')\n"
    )
    subprocess.run([sys.executable, "-c", recorded], env=cli.environment, check=True)
    cli.add("one")
    cli.run("job", "run", "one")
    with_store = (
        "import relight\nfrom relight.model import row_id\n"
        "with relight.open_store() as store, store.transaction() as db:\n"
        "    db.execute('update run set session_id = ?', (row_id('session', 'relight', 'mine'),))\n"
    )
    subprocess.run([sys.executable, "-c", with_store], env=cli.environment, check=True)
    cli.run("label", "mine", "failure", "--why", "it was wrong")
    (run,) = cli.json("job", "history")["runs"]
    assert run["outcome"] == "failure"
    assert run["evidence"][0] == "a person said failure: it was wrong"
    assert cli.json("report", "--by", "job", "--since", "all")["rows"][0]["job"] == "one"


# --- at every boot


def test_systemd_units_are_shown_asked_for_written_and_started(cli: Cli, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    fake = tools / "systemctl"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told.txt\n')
    fake.chmod(0o755)
    cli.environment["PATH"] = f"{tools}{os.pathsep}{cli.environment['PATH']}"
    cli.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    refused = cli.fail("scheduler", "--install", "systemd")
    assert "ExecStart=" in refused
    assert not (tmp_path / "config").exists()
    told = cli.run("scheduler", "--install", "systemd", "--yes")
    unit = tmp_path / "config/systemd/user/relight-scheduler.service"
    assert f"wrote {unit}" in told
    assert f'"--home" "{cli.home}" "scheduler"' in unit.read_text()
    watch = unit.with_name("relight-import.service").read_text()
    assert watch.splitlines()[4].endswith('"import" "--watch"')
    assert (tmp_path / "told.txt").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now relight-scheduler.service relight-import.service",
    ]
    cli.run("scheduler", "--remove", "--install", "systemd", "--yes")
    assert not unit.exists()
    assert "--user disable --now" in (tmp_path / "told.txt").read_text()


def test_a_launchd_agent_is_a_plist_that_starts_the_scheduler(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/opt/bin:/usr/bin"}
    units = find_units("launchd", home=tmp_path / "a b", environment=environment)
    told = plistlib.loads(units[0].text.encode())
    assert units[0].path == tmp_path / "Library/LaunchAgents/relight.scheduler.plist"
    assert told["ProgramArguments"][1:] == [
        "-m",
        "relight",
        "--home",
        f"{tmp_path}/a b",
        "scheduler",
    ]
    assert told["EnvironmentVariables"] == {"PATH": "/opt/bin:/usr/bin"}
    assert (told["RunAtLoad"], told["KeepAlive"]) == (True, {"SuccessfulExit": False})


def test_nothing_in_a_path_means_something_to_systemd(tmp_path: Path) -> None:
    home = tmp_path / 'a "b" 100% $HOME'
    unit = find_units("systemd", home=home, environment={"HOME": str(tmp_path)})[0]
    line = next(line for line in unit.text.splitlines() if line.startswith("ExecStart="))
    assert f'"{tmp_path}/a \\"b\\" 100%% $$HOME"' in line


@pytest.mark.parametrize(
    "text",
    ["[jobs]\nmodel = 7", "[jobs]\nmax_parallel = 0", "[jobs]\ncolour = 'red'", "jobs = 3"],
)
def test_a_bad_setting_for_jobs_is_reported(cli: Cli, text: str) -> None:
    (cli.home / "config.toml").write_text(text)
    assert "jobs" in cli.fail("config")


def test_settings_for_jobs_have_defaults(tmp_path: Path) -> None:
    config = Config(home=tmp_path)
    assert (config.jobs.max_parallel, config.jobs.model, config.jobs.warn_at) == (4, None, 0.8)


def test_the_models_that_ran_a_job_are_compared(cli: Cli) -> None:
    cli.add("look", "echo all is well, says {model}", model="big")
    cli.run("job", "run", "look")
    assert "only big has runs of look with a known outcome" in cli.run("job", "compare", "look")
    cli.run("job", "edit", "look", "--model", "small")
    cli.run("job", "run", "look")
    found = cli.json("job", "compare", "look", "--margin", "10")
    assert {arm["model"]: arm["successes"] for arm in found["models"]} == {"big": 1, "small": 1}
    assert (found["job"], found["pairs"][0]["verdict"]) == ("look", "cannot tell yet")
    (listed,) = cli.json("job", "compare", "--all")["jobs"]
    assert listed["job"] == "look"
    words = cli.run("job", "compare", "--all").splitlines()[-1].split()
    assert words[0] == "look"
    assert words[-3:] == ["cannot", "tell", "yet"]
    assert "there is no job 'nothing'" in cli.fail("job", "compare", "nothing")
    assert cli.do("job", "compare").returncode == 2
    assert cli.do("job", "compare", "look", "--all").returncode == 2


def test_relight_alone_names_the_jobs_that_fail_and_how_to_see_why(cli: Cli) -> None:
    cli.add("well")
    cli.run("job", "run", "well")
    assert "fail" not in cli.run()
    cli.add("backup", command="exit 3")
    cli.run("job", "run", "backup", code=1)
    (line,) = [line for line in cli.run().splitlines() if line.startswith("backup: ")]
    assert line.startswith("backup: the last run failed: ")
    assert line.endswith("relight job history backup")
    assert "exit cannot be run" in cli.run("job", "history", "backup")
    cli.run("job", "run", "backup", code=1)
    assert "backup: the last 2 runs failed: " in cli.run()
    cli.run("job", "pause", "backup")
    assert "job history backup" not in cli.run(), "a paused job fails no more"


def test_relight_alone_names_five_failing_jobs_and_counts_the_rest(cli: Cli) -> None:
    for number in range(7):
        cli.add(f"job-{number}", command="exit 3")
        cli.run("job", "run", f"job-{number}", code=1)
    told = cli.run().splitlines()
    assert sum("relight job history job-" in line for line in told) == 5
    (rest,) = [line for line in told if line.startswith("2 more jobs fail: ")]
    assert rest.endswith("relight job list")


def test_a_cheaper_model_is_tried_shown_and_ended_from_the_command_line(cli: Cli) -> None:
    place = ("--base-url", "http://127.0.0.1:9/v1", "--context-tokens", "99999")
    cli.run("job", "add", "mails", "--schedule", "every 1m", "--prompt", "Sort", "--model", "big",
            *place)  # fmt: skip
    asked = cli.do("job", "canary", "mails", "--model", "small", "--yes")
    assert asked.returncode == 0, asked.stderr
    assert "runs of it show that within 5 points" in asked.stderr
    assert "at this pace" in asked.stderr
    assert "small is on trial in mails with 20% of the runs" in asked.stdout
    (one,) = cli.json("job", "canary", "mails")["canaries"]
    assert (one["model"], one["against"], one["state"], one["share"]) == (
        "small", "big", "running", 0.2,
    )  # fmt: skip
    again = cli.do("job", "canary", "mails", "--model", "other", "--yes")
    assert (again.returncode, "on trial in mails already" in again.stderr) == (1, True)
    found = cli.json("job", "canary", "mails", "--promote")
    assert found["canaries"][0]["state"] == "promoted"
    assert cli.json("job", "show", "mails")["model"] == "small"
    assert cli.json("job", "canary", "mails", "--back")["canaries"][0]["state"] == "rolled_back"
    switches = cli.json("job", "canary", "mails")["switches"]
    assert [one["to_model"] for one in switches] == ["small", "big"]
    assert "switched" in cli.run("job", "canary", "mails")
    assert cli.do("job", "canary", "mails", "--stop").returncode == 1


def test_a_model_is_tried_for_a_skill_in_each_of_its_jobs(cli: Cli) -> None:
    place = ("--base-url", "http://127.0.0.1:9/v1", "--context-tokens", "99999")
    for name, schedule in (("mails", "every 1m"), ("notes", "every 1m"), ("rare", "daily 07:00")):
        cli.run("job", "add", name, "--schedule", schedule, "--prompt", "Sort", "--model", "big",
                *place)  # fmt: skip
        cli.run("skills", "record", "sort", "--job", name, "--model", "big", "--success")
    cli.run("skills", "record", "sort", "--model", "big", "--success")
    asked = cli.do("skills", "canary", "sort", "--model", "small", "--yes")
    assert asked.returncode == 0, asked.stderr
    assert "not in rare: This job cannot tell models 5 points apart" in asked.stderr
    assert "in mails:" in asked.stderr
    assert "1 of 4 uses in the last 30 days were outside of jobs" in asked.stderr
    found = cli.json("skills", "canary", "sort")
    assert {(one["job"], one["state"]) for one in found["canaries"]} == {
        ("mails", "running"), ("notes", "running"),
    }  # fmt: skip
    (together,) = found["together"]
    assert (together["model"], together["jobs"]) == ("small", ["mails", "notes"])
    assert together["verdict"] == "cannot tell yet"
    assert "Each job is switched by its own verdict." in cli.run("skills", "canary", "sort")
    assert "cannot be tried for sort" in cli.fail("skills", "canary", "sort", "--model", "x")
    assert "no use of nothing" in cli.fail("skills", "canary", "nothing")
