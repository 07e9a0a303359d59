"""`relight run` and `relight moa`, as a person or a script runs them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import build
from scripted import Reply, Server, call
from terminal import Run, run_relight


def relight(home: Path, *words: str, **environment: str) -> Run:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "RELIGHT"))}
    own = {**plain, "HOME": str(home), **environment}
    return run_relight(own, *words, "--home", str(home / "relight"))


def test_a_run_prints_its_answer_and_all_of_it_is_on_record(tmp_path: Path) -> None:
    replies = [Reply(None, [call("terminal", command="echo hello > made.txt")]), Reply("Made it.")]
    work = tmp_path / "work"
    work.mkdir()
    build.open_home(tmp_path).close()
    with Server(replies) as server:
        words = ["--model", "gpt-5.1", "--base-url", server.base_url, "--workdir", str(work)]
        done = relight(tmp_path, "run", "Make a file", *words, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (work / "made.txt").read_text() == "hello\n"
    assert (told["answer"], told["turns"], told["tool_calls"]) == ("Made it.", 2, 1)
    assert told["usage"]["output_tokens"] == 40
    assert told["cost_usd"] is not None
    shown = json.loads(relight(tmp_path, "show", told["session_id"], "--json").stdout)
    assert shown["title"] == "Make a file"
    assert shown["project"] == str(work)


def test_a_run_for_people_shows_what_goes_on_beside_the_answer(tmp_path: Path) -> None:
    replies = [Reply(None, [call("read_file", path="gone")]), Reply("It \x1b[31mis gone.")]
    with Server(replies) as server:
        words = ["--model", "m", "--base-url", server.base_url, "--tools", "read_file"]
        done = relight(tmp_path, "run", "Read it", *words, "--workdir", str(tmp_path))
        assert [one["function"]["name"] for one in server.chats[0].body["tools"]] == ["read_file"]
    assert done.stdout == "It \N{REPLACEMENT CHARACTER}[31mis gone.\n"
    assert "→ read_file" in done.stderr
    assert "File not found" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_a_command_leaves_no_child_behind_however_it_hides(tmp_path: Path) -> None:
    hide = "(env -i setsid sleep 971 & echo $! > left); setsid sleep 971 & echo $! >> left"
    look = "for one in $(cat left); do if kill -0 $one; then echo alive; else echo dead; fi; done"
    asked = [call("terminal", command=hide)], [call("terminal", command=look)]
    with Server([Reply(None, asked[0]), Reply(None, asked[1]), Reply("Done.")]) as server:
        words = ["--model", "m", "--base-url", server.base_url, "--workdir", str(tmp_path)]
        done = relight(tmp_path, "run", "Hide", *words)
        seen = server.chats[-1].body["messages"][-1]["content"]
    assert done.returncode == 0, done.stderr
    assert (seen.count("dead"), seen.count("alive")) == (2, 0)


def test_a_failed_run_ends_with_one(tmp_path: Path) -> None:
    with Server([Reply(status=401, body=b'{"error": {"message": "bad key"}}')]) as server:
        words = ["--model", "m", "--base-url", server.base_url, "--key-variable", "K"]
        done = relight(tmp_path, "run", "x", *words, "--json", K="secret-key-1")
        assert server.chats[0].headers["Authorization"] == "Bearer secret-key-1"
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["outcome"] == "failure"
    assert "bad key" in told["ended_by"]
    assert "secret-key-1" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "x"], "which model?"),
        (["run", "x", "--model", "m", "--base-url", "ftp://x"], "not an address"),
        (["run", "x", "--model", "moa:gone"], "no preset 'gone'"),
        (["run", "x", "--model", "m", "--tools", "fly"], "no tool 'fly'"),
        (["run", "x", "--model", "m", "--template", "gone"], "gone"),
        (["run", "x", "--model", "m", "--workdir", "gone"], "no folder"),
        (["run", " ", "--model", "m"], "there is no task"),
        (["run", "x", "--model", "m", "--key-variable", "NO_KEY"], "NO_KEY is not set"),
        (["run", "x", "--model", "m", "--timeout", "nan"], "error: --timeout must be"),
        (["run", "x", "--model", "m", "--budget-usd", "-1"], "error: --budget-usd must be"),
        (["moa", "show", "gone"], "no trace of 'gone'"),
        (["moa", "run", "gone", "x"], "no preset 'gone'"),
    ],
)
def test_what_is_asked_for_and_not_there_is_reported(
    tmp_path: Path, words: list[str], said: str
) -> None:
    done = relight(tmp_path, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    with build.open_home(tmp_path) as store:
        assert store.query("select count(*) from session") == [(0,)]


def test_openais_own_variables_serve_and_only_without_an_address(tmp_path: Path) -> None:
    with Server(lambda body: Reply("ok")) as server:
        environment = {"OPENAI_API_KEY": "sk-mine", "OPENAI_BASE_URL": server.base_url}
        relight(tmp_path, "run", "x", "--model", "m", **environment)
        address = ["--base-url", server.base_url]
        relight(tmp_path, "run", "x", "--model", "m", *address, **environment)
        sent = [one.headers.get("Authorization") for one in server.chats]
    assert sent == ["Bearer sk-mine", None]


def test_pages_of_this_machine_are_fetched_only_if_allowed(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        is_done = body["messages"][-1]["role"] == "tool"
        page = call("web_fetch", url=f"http://127.0.0.1:{port}/page")
        return Reply("ok") if is_done else Reply(None, [page])

    with Server(script, pages={"/page": Reply(body=b"local words")}) as server:
        port = server.page("").rpartition(":")[2]
        words = ["run", "x", "--model", "m", "--base-url", server.base_url]
        for option in ([], ["--allow-private-fetch"]):
            relight(tmp_path, *words, *option)
        told = [one.body["messages"][-1]["content"] for one in server.chats]
    assert "not a public address" in told[1]
    assert "local words" in told[3]


def test_a_run_that_is_ended_from_outside_ends_its_commands_and_says_so(tmp_path: Path) -> None:
    asked = call("terminal", command="echo $$ > pid; sleep 60")
    with Server([Reply(None, [asked])]) as server:
        words = ["run", "x", "--model", "m", "--base-url", server.base_url]
        words += ["--workdir", str(tmp_path), "--home", str(tmp_path / "relight")]
        child = subprocess.Popen([sys.executable, "-m", "relight", *words])
        while not (tmp_path / "pid").exists():
            assert child.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        child.send_signal(signal.SIGTERM)
        assert child.wait(40) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    with build.open_home(tmp_path) as store:
        (row,) = store.query("select ending from session")
    assert row == ("interrupted",)


def write_preset(home: Path, url: str) -> None:
    folder = home / "relight"
    folder.mkdir(parents=True, exist_ok=True)
    adviser = f'{{model = "adviser-%d", base_url = "{url}"}}'
    (folder / "config.toml").write_text(
        f'timezone = "UTC"\n[moa]\nsave_traces = true\n[moa.presets.review]\n'
        f"references = [{adviser % 1}, {adviser % 2}]\n"
        f'aggregator = {{model = "actor", base_url = "{url}"}}\nreference_timeout_seconds = 5\n'
    )


def script(body: dict[str, Any]) -> Reply:
    if body["model"] == "adviser-1":
        return Reply("Restart the database server immediately.")
    if body["model"] == "adviser-2":
        return Reply("Never touch production; read yesterday's logs.")
    has_results = any(one["role"] == "tool" for one in body["messages"])
    wants = body.get("tools") and not has_results
    return Reply("Done.", [call("terminal", command="true")] if wants else ())


def test_a_preset_answers_runs_and_shows_who_said_what(tmp_path: Path) -> None:
    with Server(script) as server:
        write_preset(tmp_path, server.base_url)
        listed = json.loads(relight(tmp_path, "moa", "presets", "--json").stdout)
        assert listed["presets"][0]["references"] == ["local/adviser-1", "local/adviser-2"]
        asked = relight(tmp_path, "moa", "run", "review", "What now?", "--json")
        told = json.loads(asked.stdout)
        words = ["--model", "moa:review", "--workdir", str(tmp_path), "--json"]
        ran = json.loads(relight(tmp_path, "run", "Do it", *words).stdout)
    assert told["answer"] == "Done."
    assert (ran["answer"], ran["turns"], ran["tool_calls"]) == ("Done.", 6, 1)
    traces = json.loads(relight(tmp_path, "moa", "traces", "--json").stdout)["traces"]
    assert sorted(one["turns"] for one in traces) == [1, 2]
    assert {told["session_id"], ran["session_id"]} == {one["session_id"] for one in traces}
    shown = relight(tmp_path, "moa", "show", told["session_id"])
    assert relight(tmp_path, "moa", "show", "last~1").stdout == shown.stdout
    assert "differs from the others" in shown.stdout
    assert "adviser-2" in shown.stdout
    full = json.loads(relight(tmp_path, "moa", "show", told["session_id"], "--json").stdout)
    assert [one["role"] for one in full["models"]] == ["reference", "reference", "aggregator"]
    assert full["cost_usd"] is None
    one = relight(tmp_path, "moa", "show", told["session_id"], "--turn", "1")
    assert "What now?" in one.stdout
    second = relight(tmp_path, "moa", "show", ran["session_id"], "--turn", "2")
    assert second.stdout.startswith("turn 2 · ")
    session = json.loads(relight(tmp_path, "show", told["session_id"], "--json").stdout)
    assert sorted(turn["role"] for turn in session["turns"]) == [
        "aggregator",
        "reference",
        "reference",
    ]


def test_a_mixture_shows_who_is_at_work_and_who_failed(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if body["model"] == "adviser-2":
            return Reply(status=401, body=b'{"error": {"message": "no such key"}}')
        return script(body)

    with Server(answer) as server:
        write_preset(tmp_path, server.base_url)
        asked = relight(tmp_path, "moa", "run", "review", "What now?")
        quiet = relight(tmp_path, "moa", "run", "review", "What now?", "--json")
    assert (asked.returncode, asked.stdout) == (0, "Done.\n")
    lines = asked.stderr.splitlines()
    assert lines[:2] == ["  local/adviser-1: advises …", "  local/adviser-2: advises …"]
    assert re.search(r"^  local/adviser-1: done in ", asked.stderr, re.MULTILINE)
    assert re.search(r"^  local/adviser-2: failed: .*no such key", asked.stderr, re.MULTILINE)
    assert lines[-3] == "  local/actor: acts on the advice …"
    assert lines[-2].startswith("  local/actor: done in ")
    assert quiet.stderr == ""


def test_a_host_that_does_not_resolve_is_named_with_its_variable(tmp_path: Path) -> None:
    place = {"OPENAI_BASE_URL": "http://gone.invalid/v1"}
    ran = relight(tmp_path, "run", "Do it", "--model", "m", **place)
    assert ran.returncode == 1
    assert "http://gone.invalid/v1 (the value of OPENAI_BASE_URL) does not resolve" in ran.stderr
    assert "again in" not in ran.stderr
    write_preset(tmp_path, "http://gone.invalid/v1")
    asked = relight(tmp_path, "moa", "run", "review", "What now?")
    assert asked.returncode == 1
    failed = "gone/adviser-1: failed: the address cannot be found: http://gone.invalid/v1"
    assert failed in asked.stderr
    assert "again in" not in asked.stderr


def test_a_trace_of_hermes_is_shown_with_its_time_and_unknown_durations(tmp_path: Path) -> None:
    reference = {"label": "a", "output": "x", "cost_usd": "0.1"}
    line = {"ts": 1794712615.1930428, "session_id": "h", "preset": "p", "references": [reference]}
    (tmp_path / "h.jsonl").write_text(json.dumps(line) + "\n")
    shown = relight(tmp_path, "moa", "show", str(tmp_path / "h.jsonl")).stdout
    assert "turn 1 · 2026-11-15T03:16:55.193Z · preset p" in shown
    assert re.search(r"a +reference +1 +0 +0 +unknown +\$0\.10", shown)
    told = json.loads(relight(tmp_path, "moa", "show", str(tmp_path / "h.jsonl"), "--json").stdout)
    assert told["models"][0]["duration_ms"] is None


def test_the_traces_that_hermes_wrote_are_listed_and_shown(tmp_path: Path) -> None:
    failed = {"label": "b", "model": "b", "output": "[failed: 429 Too Many Requests]"}
    line = {
        "ts": 1794712615.1930428,
        "session_id": "20261115_031650_423d10",
        "preset": "duo",
        "references": [{"label": "a", "model": "a", "output": "Look.", "cost_usd": "0.1"}, failed],
        "aggregator": {"label": "c", "model": "c", "output": "I look.", "input_messages": []},
    }
    folder = tmp_path / ".hermes" / "moa-traces"
    folder.mkdir(parents=True)
    (folder / "20261115_031650_423d10.jsonl").write_text(json.dumps(line) + "\n")
    (listed,) = json.loads(relight(tmp_path, "moa", "traces", "--json").stdout)["traces"]
    assert listed["session_id"] == "hermes:20261115_031650_423d10"
    assert (listed["preset"], listed["turns"], listed["cost_usd"]) == ("duo", 1, 0.1)
    assert (listed["last_at"], listed["file"]) == ("2026-11-15T03:16:55.193Z", None)
    for name in ("hermes:20261115_031650_423d10", "20261115_031650", "hermes:2026"):
        told = json.loads(relight(tmp_path, "moa", "show", name, "--json").stdout)
        assert told["session_id"] == listed["session_id"]
    (turn,) = told["turns"]
    calls = [*turn["references"], turn["aggregator"]]
    assert [one["duration_ms"] for one in calls] == [None, None, None]
    # a refused call is free, as in the session; Hermes traces no cost of the acting model
    assert [one["cost_usd"] for one in calls] == [0.1, 0.0, None]
    assert calls[1]["failure"] == {"kind": "rate_limit", "reason": "429 Too Many Requests"}
    assert [one["failures"] for one in told["models"]] == [0, 1, 0]
    shown = relight(tmp_path, "moa", "show", "hermes:2026").stdout
    assert "failed: 429 Too Many Requests" in shown
    assert "hermes:20261115_031650_423d10" in relight(tmp_path, "moa", "traces").stdout


def test_a_cost_of_which_some_is_unknown_is_shown_as_a_least(tmp_path: Path) -> None:
    price = {"prompt": "0.001", "completion": "0.001"}
    with Server(script, models=[{"id": "actor", "pricing": price}]) as server:
        write_preset(tmp_path, server.base_url)
        asked = relight(tmp_path, "moa", "run", "review", "What now?")
        ran = relight(tmp_path, "run", "Do it", "--model", "moa:review")
    session = asked.stderr.split(" · ")[0].split()[-1]
    told = [asked.stderr, ran.stderr]
    told += [relight(tmp_path, *words).stdout for words in (["moa", "traces"], ["show", session])]
    assert [one for one in told if "≥$" not in one] == []


def test_a_bad_setting_in_a_preset_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "relight"
    folder.mkdir()
    (folder / "config.toml").write_text("[moa.presets.x]\nsurprise = 1\n")
    assert 'unknown setting: moa.presets."x".surprise' in relight(tmp_path, "moa", "presets").stderr
    (folder / "config.toml").write_text("[moa]\nsurprise = 1\n")
    assert "unknown setting: moa.surprise" in relight(tmp_path, "moa", "presets").stderr
