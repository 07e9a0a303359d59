import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import build
from relight.cli import COMMANDS
from relight.cli.config import SETTINGS
from relight.config import JobSettings
from relight.store import open_store
from relight.text import count
from terminal import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def filled(cli: Cli) -> Cli:
    build.write_claude(cli.home, build.claude_session())
    build.hermes_session(build.open_hermes(cli.home))
    with open_store(cli.home / "relight") as store:
        build.import_home(store, cli.home)
    return cli


def test_the_first_run_finds_the_agents_reads_them_and_reports(cli: Cli) -> None:
    build.write_claude(cli.home, build.claude_session())
    done = cli.run()
    assert done.returncode == 0, done.stderr
    assert "Found claude-code (1 file)" in done.stdout
    assert "Recorded: 1 session (1 of claude-code), " in done.stdout
    assert "relight import" not in cli.run().stdout


def test_without_agents_the_first_run_offers_the_demo(cli: Cli) -> None:
    shown = cli.run().stdout
    assert "relight demo" in shown
    assert "No sessions of Claude Code, Codex, Hermes Agent or 8 other agents" in shown


def test_an_overview_without_import_says_when_something_new_waits(filled: Cli) -> None:
    build.write_claude(filled.home, [build.claude_answer("m9", sessionId="other")], name="other")
    assert "1 file has something new" in filled.run("--no-import").stdout
    assert "something new" not in filled.run().stdout


def test_projects_of_one_name_in_two_folders_differ_in_the_overview(cli: Cli) -> None:
    for place in ("home", "work"):
        answer = build.claude_answer(place, sessionId=place, cwd=f"/{place}/shop")
        build.write_claude(cli.home, [answer], name=place)
    (line,) = [line for line in cli.run().stdout.splitlines() if line.startswith("top projects")]
    assert "home/shop $" in line
    assert "work/shop $" in line


def test_a_store_derived_by_earlier_rules_is_said_to_need_a_rebuild(filled: Cli) -> None:
    advice = "the rules have changed since this was derived: run `relight rebuild`"

    def say() -> list[int]:
        done = [filled.run(*one) for one in ((), ("import",), ("doctor",))]
        return [(one.stdout + one.stderr).replace("\n", " ").count(advice) for one in done]

    assert say() == [0, 0, 0]
    with open_store(filled.home / "relight") as store, store.transaction() as database:
        database.execute("delete from meta where key = 'rules'")  # as a store of an early schema
    assert say() == [1, 1, 1]
    filled.run("rebuild")
    assert say() == [0, 0, 0]


def test_import_shows_what_it_took(cli: Cli) -> None:
    build.write_claude(cli.home, build.claude_session())
    found = cli.json("import")
    assert found["seconds"] >= 0
    by_source = {one["source"]: one for one in found["sources"]}
    assert by_source["claude-code"]["sessions_new"] == 1
    assert set(by_source["claude-code"]) == {
        "source", "files", "bytes", "sessions_new", "sessions_grown", "unreadable",
        "set_aside",
    }  # fmt: skip
    assert cli.run("import").stdout == "nothing new\n"


def test_a_folder_without_sessions_of_its_source_is_reported(cli: Cli) -> None:
    path = build.write_claude(cli.home, build.claude_session())
    words = ["import", "--from", str(path.parent), "--source"]
    assert cli.run(*words, "codex").stdout == f"no session of codex was found in {path.parent}\n"
    assert "1 new" in cli.run(*words, "claude-code").stdout
    assert cli.run(*words, "claude-code").stdout == "nothing new\n"


def test_a_report_of_nothing_says_what_to_ask_instead(filled: Cli) -> None:
    asked = ["report", "--model", "nosuch", "--since", "2026-01-01", "--until", "2026-01-02"]
    told = filled.run(*asked).stdout
    assert told.startswith("no session on model 'nosuch' from ")
    assert told.endswith(" from 2026-01-01 to 2026-01-02; without any filter 2\n")
    done = filled.run("report", "--until", "2026-01-01")
    assert done.returncode == 1
    assert "error: the last day, 2026-01-01, is before the first, " in done.stderr
    told = "no session in project 'nosuch'; without the project 2\n"
    assert filled.run("report", "--since", "all", "--project", "nosuch").stdout == told
    told = "no session since 2099-01-01; on all days 2\n"
    assert filled.run("report", "--since", "2099-01-01").stdout == told


def test_a_report_says_first_how_many_outcomes_are_known(filled: Cli) -> None:
    told = filled.run("report", "--since", "all").stdout
    assert "\n0 of 2 outcomes known: 0 succeeded\n" in told
    assert told.index("outcomes known") < told.index("ok: sessions that succeeded")


def test_a_misspelt_command_is_answered_with_the_one_meant(cli: Cli) -> None:
    done = cli.run("reprot")
    assert done.returncode == 2
    assert "Error: No such command 'reprot'. Did you mean 'report' or 'export'?" in done.stderr
    assert "Error: No such command 'xyzzy'.\n" in cli.run("xyzzy").stderr


def test_from_needs_one_source_and_an_existing_place(cli: Cli) -> None:
    done = cli.run("import", "--from", "/nowhere")
    assert (done.returncode, "one --source" in done.stderr) == (2, True)
    done = cli.run("import", "--source", "chat", "--from", "/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no /nowhere\nhint: ")


def test_report_json_has_the_promised_figures(filled: Cli) -> None:
    found = filled.json("report", "--by", "day,model,day", "--since", "all")
    assert found["by"] == ["day", "model"]
    for row in (*found["rows"], {"day": "", "model": "", **found["total"]}):
        assert {
            "day", "model", "sessions", "turns", "input_tokens", "cache_read_tokens",
            "cache_write_tokens", "cache_write_1h_tokens", "output_tokens", "reasoning_tokens",
            "cost_usd", "unpriced_turns", "tool_calls", "tool_failures", "wall_seconds",
        } <= set(row)  # fmt: skip
    assert found["total"]["turns"] == 5


def test_report_as_csv_and_markdown(filled: Cli) -> None:
    csv = filled.run("report", "--by", "model", "--since", "all", "--csv").stdout.splitlines()
    assert csv[0].startswith("model,sessions,turns,")
    assert csv[1].startswith("claude-opus-4-6,1,3,")
    markdown = filled.run("report", "--by", "model", "--since", "all", "--markdown").stdout
    assert markdown.startswith("| model | sessions |")
    assert markdown.splitlines()[-1].startswith("| total | 2 |")
    assert "unpriced_turns" in markdown
    hostile = [build.claude_prompt("=cmd|' /C calc'!A0"), build.claude_answer("m", sessionId="x")]
    build.write_claude(filled.home, [line | {"sessionId": "x"} for line in hostile], name="x")
    filled.run("import")
    assert ",'=cmd" in filled.run("report", "--by", "session", "--since", "all", "--csv").stdout


def test_a_wide_table_has_tokens_time_and_the_means_of_a_session(filled: Cli) -> None:
    filled.environment["COLUMNS"] = "200"
    heading, *lines = filled.run("report", "--by", "model", "--since", "all").stdout.splitlines()
    assert "tokens  mean tokens" in heading
    assert "cost  mean cost" in heading
    assert heading.rstrip().endswith("time")
    total = filled.json("report", "--by", "model", "--since", "all")["total"]
    assert total["mean_tokens"] == total["total_tokens"] / total["sessions"]
    assert count(total["total_tokens"]) in next(one for one in lines if one.startswith("total"))
    markdown = filled.run("report", "--since", "all", "--markdown").stdout
    for name in ("total_tokens", "mean_tokens", "mean_cost_usd", "wall_seconds"):
        assert f" {name} |" in markdown.splitlines()[0]
    by_session = filled.run("report", "--by", "session", "--since", "all").stdout
    assert "mean" not in by_session, "each row is one session"


def test_failures_take_the_filters_and_formats_of_reports(filled: Cli) -> None:
    rows = filled.json("failures", "--since", "all", "--by", "position")
    assert rows["by"] == ["position"]
    assert {"count", "tool_calls", "sessions", "sessions_sample"} <= {*rows["failures"][0]}
    text = filled.run("failures", "--since", "all", "--by", "position").stdout
    assert text.split()[:6] == ["position", "count", "of", "calls", "failed", "sess."]
    csv = filled.run("failures", "--since", "all", "--csv").stdout.splitlines()
    assert csv[0].startswith("kind,tool,count,tool_calls,")
    assert len(csv) > 1
    markdown = filled.run("failures", "--since", "all", "--markdown").stdout.splitlines()
    assert markdown[0].startswith("| kind | tool | count |")
    assert markdown[1].startswith("| --- | --- | ---: |")
    none = ["--project", "nowhere", "--model", "opus", "--source", "hermes", "--until", "today"]
    assert filled.json("failures", "--since", "all", *none)["failures"] == []
    done = filled.run("failures", "--csv", "--json")
    assert (done.returncode, "choose one of" in done.stderr) == (2, True)
    wrong = filled.run("failures", "--by", "colour")
    assert (wrong.returncode, "cannot group failures by 'colour'" in wrong.stderr) == (1, True)


def test_the_present_folder_is_not_one_whose_name_begins_alike(cli: Cli, tmp_path: Path) -> None:
    for name in ("shop", "shop-old"):
        (tmp_path / name).mkdir()
        lines = [build.claude_prompt("Go", sessionId=name), build.claude_answer(name)]
        lines = [one | {"sessionId": name, "cwd": str(tmp_path / name)} for one in lines]
        build.write_claude(cli.home, lines, name=name)
    cli.run("import")
    found = cli.json("sessions", "--since", "all", "--project", str(tmp_path / "shop"))
    assert [one["session_id"] for one in found["sessions"]] == ["claude-code:shop"]


@pytest.mark.parametrize("by", ["day", "model", "session", "project,model", "tool", "week"])
def test_a_table_fits_eighty_columns(filled: Cli, by: str) -> None:
    text = filled.run("report", "--by", by, "--since", "all").stdout
    assert "total" in text
    assert max(len(line) for line in text.splitlines() if "─" in line or "claude" in line) <= 80


def test_failed_model_calls_are_reported_by_kind_and_not_by_tool(filled: Cli) -> None:
    filled.environment["COLUMNS"] = "120"
    by_tool, by_failure = (
        filled.run("report", "--by", by, "--since", "all").stdout for by in ("tool", "failure")
    )
    assert "model calls failed" in by_failure
    assert "tool calls" in by_tool
    assert "model calls failed" not in by_tool


def test_a_table_leaves_figures_out_before_it_cuts_a_day_or_a_name(filled: Cli) -> None:
    words = ("report", "--by", "day,model,source,project", "--since", "all")
    text = filled.run(*words).stdout
    assert "claude-code" in text
    assert "2026-11-15" in text
    assert "no room for" in text
    assert max(map(len, text.partition("no room")[0].splitlines())) <= 80
    filled.environment["COLUMNS"] = "160"
    wide = filled.run(*words).stdout
    assert "cached" in wide
    assert "no room for" not in wide


def test_a_report_of_nothing_says_what_to_do(cli: Cli) -> None:
    assert "relight import" in cli.run("report").stdout


def test_a_wrong_key_is_an_error_that_lists_the_keys(cli: Cli) -> None:
    done = cli.run("report", "--by", "colour")
    assert (done.returncode, done.stdout) == (1, "")
    assert "day, week, month" in done.stderr


def test_show_takes_a_beginning_and_lists_what_it_could_be(filled: Cli) -> None:
    found = filled.json("show", "claude-code:1111")
    assert found["session"] == f"claude-code:{build.CLAUDE_SESSION}"
    assert len(found["turns"]) == 3
    assert [call["label"] for call in found["tool_calls"]] == ["ok", "error"]
    assert found["figures"]["turns"] == 3
    assert "Fix the rounding" in filled.run("show", "11111111").stdout
    other = "1111aaaa-0000-4000-8000-000000000000"
    build.write_claude(filled.home, [build.claude_answer("m", sessionId=other)], name=other)
    filled.run("import")
    done = filled.run("show", "1111")
    assert done.returncode == 1
    assert "could be claude-code:11111111, claude-code:1111aaaa" in done.stderr
    assert filled.run("show", "nothing-like-it").returncode == 1


def test_hostile_text_cannot_move_the_cursor(cli: Cli) -> None:
    lines = [build.claude_prompt("\x1b[2J\u202eevil [bold]x[/bold]"), build.claude_answer("m1")]
    build.write_claude(cli.home, lines)
    cli.run("import")
    for words in (("show", build.CLAUDE_SESSION), ("report", "--by", "session", "--since", "all")):
        text = cli.run(*words).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[bold]x" in text or "evil" in text


def test_doctor_asks_for_no_price_of_a_model_that_nobody_recorded(cli: Cli) -> None:
    chat = cli.home / "talk.jsonl"
    said = ("user", "Hi"), ("assistant", "Hello")
    chat.write_text(f"{json.dumps([{'role': role, 'content': text} for role, text in said])}\n")
    assert cli.run("import", "--source", "chat", "--from", str(chat)).returncode == 0
    (advice,) = cli.json("doctor")["advice"]
    assert advice == "1 turn has no recorded model, so no price"


def test_doctor_shows_all_there_is(filled: Cli) -> None:
    build.write_claude(filled.home, ["{broken"], name="broken")
    filled.run("import")
    found = filled.json("doctor")
    assert set(found) >= {
        "ok", "home", "sources", "unreadable", "unpriced", "database", "missed_records", "advice",
    }  # fmt: skip
    assert found["ok"] is True
    assert found["unreadable"]["count"] == 1
    assert found["unreadable"]["recent"][0]["offset"] == 0
    assert found["database"]["integrity"] == "ok"
    claude = found["sources"][0]
    assert (claude["source"], claude["found"], claude["files"]) == ("claude-code", True, 2)
    assert "unreadable" in filled.run("doctor").stdout


def test_show_says_that_shared_turns_count_in_another_session(filled: Cli) -> None:
    assert "shared" not in filled.run("show", "11111111").stdout
    fork = "00000000-bbbb-4bbb-8bbb-222222222222"
    copied = [line | {"sessionId": fork} for line in build.claude_session()]
    build.write_claude(filled.home, copied, name=fork)
    filled.run("import")
    told = "shared turns below: 3; another session has them too, and counts them"
    assert told in filled.run("show", "11111111").stdout


def test_failures_are_shown_as_text_and_as_json(filled: Cli) -> None:
    found = filled.json("failures", "--since", "all")
    assert set(found) == {
        "since", "until", "by", "failed", "causes", "cures", "runs", "failures", "spirals",
    }  # fmt: skip
    assert found["failures"][0]["kind"] == "file_not_found"
    assert "file_not_found" in filled.run("failures", "--since", "all").stdout
    assert "no failure since 2099-01-01" in filled.run("failures", "--since", "2099-01-01").stdout


def test_a_failed_session_is_named_first_and_leads_to_show(filled: Cli) -> None:
    session = filled.json("report", "--by", "session", "--since", "all")["rows"][0]["session"]
    filled.run("label", session, "failure", "--why", "the totals are wrong")
    shown = filled.run("failures", "--since", "all").stdout
    assert shown.startswith("1 session failed and cost $")
    assert "labelled" in shown
    (line,) = [one for one in shown.splitlines() if "for `relight show" in one]
    name = shown.partition(line)[2].splitlines()[3].split()[-1]
    assert filled.json("show", name)["session"] == session
    (work,) = filled.json("failures", "--since", "all")["runs"]
    assert (work["session_id"], work["kind"]) == (session, "labelled")
    other = filled.json("failures", "--since", "all", "--source", "codex")
    assert other["runs"] == []


def test_a_label_is_shown_as_the_outcome(filled: Cli) -> None:
    done = filled.run("label", "11111111", "failure", "--why", "wrong")
    assert done.stdout == f"claude-code:{build.CLAUDE_SESSION} is labelled failure\n"
    found = filled.json("show", "11111111")
    assert (found["outcome"], found["evidence"][0]) == ("failure", "a person said failure: wrong")
    assert filled.run("label", "11111111", "perhaps").returncode == 2


def test_jobs_without_any_say_what_to_do(filled: Cli) -> None:
    assert filled.json("job", "list") == {"jobs": []}
    assert filled.json("job", "history") == {"runs": []}
    assert "relight import" in filled.run("job", "list").stdout
    assert filled.run("job", "history", "nothing").returncode == 1


def test_rebuild_backup_prune_and_forget_do_what_they_say(filled: Cli) -> None:
    before = filled.json("report", "--since", "all")
    assert filled.run("rebuild").stdout == "rebuilt from 2 tape parts\n"
    assert filled.json("report", "--since", "all") == before
    copy = filled.home / "copy.db"
    assert filled.run("backup", str(copy)).returncode == 0
    assert copy.stat().st_size > 10_000
    assert filled.run("backup", str(copy)).returncode == 1
    assert filled.json("prune", "--tapes", "0", "--dry-run")["tapes"] == 2
    refused = filled.run("prune", "--tapes", "0", given="n\n")
    assert (refused.returncode, "add --yes" in refused.stderr) == (1, True)
    assert filled.json("prune", "--tapes", "0", "--yes")["dry_run"] is False
    assert filled.json("report", "--since", "all") == before
    assert filled.run("forget", "11111111", "--yes").stdout == "forgot 1 session\n"
    assert filled.json("report", "--since", "all")["total"]["sessions"] == 1
    assert filled.run("restore", str(copy), given="n\n").returncode == 1
    assert filled.run("restore", str(copy), "--yes").returncode == 0
    assert filled.json("report", "--since", "all") == before


def test_the_settings_that_help_names_are_all_there_are(cli: Cli) -> None:
    lines = SETTINGS.partition("\b\n")[2]
    (cli.home / "relight" / "config.toml").write_text(lines)
    told = cli.json("config")
    named = msgspec.toml.decode(lines)
    assert {*named} == {*told} - {"home", "file", "timezone_setting"}
    assert {*named["templates"]} == {*told["templates"]}
    assert {*named["moa"]} == {*told["moa"]}
    apart = {"base_url", "key_variable", "provider"}
    assert {*named["jobs"]} == {*told["jobs"]} - apart == {*JobSettings.__struct_fields__} - apart
    assert max(map(len, cli.run("config", "--help").stdout.splitlines())) <= 80


def test_config_shows_the_settings_and_unknown_ones_are_errors(cli: Cli) -> None:
    assert cli.json("config")["timezone"] == "UTC"
    (cli.home / "relight" / "config.toml").write_text("colour = 1\n")
    done = cli.run("config")
    assert (done.returncode, "colour" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "text",
    ['timezone = "Mars/Base"', "timezone =", '[prices."m"]\ninput = 3', "prices = 3",
     '[prices."m"]\ninput_usd_per_mtok = -1'],
)  # fmt: skip
def test_a_bad_setting_is_reported_with_its_file(cli: Cli, text: str) -> None:
    (cli.home / "relight" / "config.toml").write_text(text + "\n")
    done = cli.run("report")
    assert done.returncode == 1
    assert "config.toml" in done.stderr
    assert "hint: " in done.stderr


def test_demo_keeps_its_own_home_and_reports(cli: Cli) -> None:
    folder = cli.home / "demo"
    done = cli.run("demo", "--keep", str(folder))
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout
    assert (folder / "relight" / "relight.db").exists()
    assert not (cli.home / "relight" / "relight.db").exists()
    assert cli.run("demo", "--keep", str(folder)).returncode == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(cli: Cli, name: str) -> None:
    text = cli.run(name, "--help").stdout
    assert "Example: relight" in text
    assert "--home" in text
    assert "--debug" in text


def test_output_that_cannot_be_written_is_reported(filled: Cli) -> None:
    command = f"{sys.executable} -m relight report --since all --json > /dev/full"
    done = subprocess.run(
        command, shell=True, env=filled.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    filled.environment["PYTHONIOENCODING"] = "ascii"
    assert filled.run("report", "--since", "all").returncode == 0


def test_an_unknown_source_and_a_chat_without_a_file_are_errors(filled: Cli) -> None:
    assert "claude-code" in filled.run("report", "--source", "nosuch").stderr
    assert filled.run("import", "--source", "chat").returncode == 2


def test_debug_shows_the_traceback(cli: Cli) -> None:
    assert "Traceback" in cli.run("report", "--by", "colour", "--debug").stderr
    assert "Traceback" not in cli.run("report", "--by", "colour").stderr


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["table", "json"])
def test_a_reader_that_has_left_does_not_change_the_exit_code(
    filled: Cli, words: list[str]
) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "relight", "report", "--since", "all", *words]
    done = subprocess.run(
        command, env=filled.environment, stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_leaves_early_is_no_error(filled: Cli) -> None:
    command = f"{sys.executable} -m relight report --by session --since all --json | head -c 1"
    done = subprocess.run(
        command, shell=True, env=filled.environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_a_home_that_cannot_be_made_is_reported(cli: Cli) -> None:
    (cli.home / "file").write_text("")
    done = cli.run("report", "--home", str(cli.home / "file" / "sub"))
    assert done.returncode == 1
    assert "hint: " in done.stderr
    done = cli.run("report", "--home", str(cli.home / "file"))
    assert done.stderr.startswith(f"error: {cli.home / 'file'} is not a folder\nhint: ")


def test_watch_reads_on_until_interrupted(cli: Cli) -> None:
    import signal
    import time

    path = build.write_claude(cli.home, build.claude_session()[:3])
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "relight", "import", "--watch"],
        env=cli.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert "1 new" in child.stdout.readline()
    path.write_bytes(build.as_lines(build.claude_session()))
    child.stdout.readline()
    assert "1 grown" in child.stdout.readline()
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    child.stdout.close()
    assert child.stderr is not None
    child.stderr.close()


def test_show_says_that_the_input_is_unknown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(
        '{"id": "a", "messages": [{"role": "user", "content": "Go."}, '
        '{"role": "assistant", "content": "Done."}]}'
    )
    cli.run("import", "--source", "chat", "--from", str(file))
    shown = cli.run("show", "chat:a").stdout
    assert "turn" in shown
    assert "· 0 in," not in shown
    assert " in, " in shown
