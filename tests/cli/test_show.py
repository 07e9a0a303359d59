"""`relight show`: a session to read, in the terminal and as a document to share."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import build
from terminal import Cli

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
HOSTILE = "\x1b[2J\u202eevil <script>alert(1)</script> ![x](https://tracker.invalid/x.png)"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def write_session(home: Path) -> None:
    edit = {"file_path": "/src/app.py", "old_string": "a = 1\n", "new_string": "a = 2\n"}
    lines = [
        build.claude_prompt("Fix the rounding", 0),
        build.claude_answer("m1", text("Let me look."), at=1, stop=None),
        build.claude_answer("m1", build.tool_use("t1", command="cat app.py"), at=2),
        build.claude_result("t1", "x" * 5000, at=3),
        build.claude_answer("m2", build.tool_use("t2", command="pytest -q && echo done"), at=4),
        build.claude_result("t2", "Exit code 3\nno such option", at=5, is_error=True),
        build.claude_answer("m3", {**build.tool_use("t3"), "name": "Edit", "input": edit}, at=6),
        build.claude_result("t3", "ok", at=7),
        build.claude_answer("m4", text("**Done**.\n\n```py\nx = 1\n```"), at=8),
        build.claude_prompt("Thanks " + "word " * 1000, 4000),
        build.claude_answer("m5", text(HOSTILE), at=4001),
    ]
    build.write_claude(home, lines)


def show(cli: Cli, *words: str) -> str:
    done = cli.run("show", "last", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_session_reads_as_prompts_answers_and_one_line_for_each_call(cli: Cli) -> None:
    write_session(cli.home)
    shown = show(cli)
    assert "\n  1 00:00:00 prompt\n" in shown
    assert "    Fix the rounding\n" in shown
    assert "    Let me look.\n" in shown
    (line,) = [one for one in shown.splitlines() if "pytest -q" in one]
    assert re.fullmatch(
        r" +4 \S+ Bash pytest -q && echo done · error 3 · 1\.0s · \$\S+ so far", line
    )
    assert "pause of 1h 06m" in shown
    assert "xxxxx" not in shown
    assert re.search(r"… [\d,]+ characters more: --full", shown)
    head = shown.split("\n\n")[0]
    assert "claude --resume" in head
    assert "outcome unknown" in head


def test_every_line_of_a_call_fits_eighty_columns(cli: Cli) -> None:
    use = build.tool_use("t1", command="echo " + "long " * 100)
    lines = [build.claude_prompt("Go"), build.claude_answer("m1", use, at=1)]
    build.write_claude(cli.home, [*lines, build.claude_result("t1", "ok", at=2)])
    (line,) = [one for one in show(cli).splitlines() if " Bash " in one]
    assert len(line) <= 80
    assert " · ok · " in line


def test_a_search_shows_its_pattern_and_paths_begin_at_the_project(cli: Cli) -> None:
    search = build.tool_use("t1", "Grep", pattern="def total", path="/home/dev/shop/src/")
    read = build.tool_use("t2", "Read", file_path="/home/dev/shop/src/app.py")
    lines = [build.claude_prompt("Go"), build.claude_answer("m1", search, read, at=1)]
    build.write_claude(cli.home, lines)
    shown = show(cli)
    assert " Grep def total in src/ · " in shown
    assert " Read src/app.py · " in shown
    show(cli, "--html", str(cli.home / "it.html"))
    document = (cli.home / "it.html").read_text("utf-8")
    assert "def total in /home/dev/shop/src/<" in document
    assert show(cli, "--html", "-") == document


def test_full_shows_texts_arguments_and_results_whole(cli: Cli) -> None:
    write_session(cli.home)
    shown = show(cli, "--full")
    assert "x" * 5000 in shown
    assert shown.count("word ") >= 999
    assert "--full" not in shown


def test_errors_are_shown_with_their_prompt_and_what_followed(cli: Cli) -> None:
    write_session(cli.home)
    shown = show(cli, "--errors")
    assert "Fix the rounding" in shown
    assert "no such option" in shown
    assert re.search(r"then +5 \S+ Edit /src/app.py", shown)
    assert "Let me look" not in shown
    assert "Thanks" not in shown


def test_one_step_is_shown_whole(cli: Cli) -> None:
    write_session(cli.home)
    shown = show(cli, "--step", "3")
    assert "x" * 5000 in shown
    assert '{"command": "cat app.py"}' in shown or '{"command":"cat app.py"}' in shown
    done = cli.run("show", "last", "--step", "99")
    assert (done.returncode, "no step 99" in done.stderr) == (1, True)


def test_times_are_in_the_stores_zone_and_in_utc_in_json(cli: Cli) -> None:
    write_session(cli.home)
    show(cli)
    assert cli.run("config", "timezone", "Asia/Tokyo").returncode == 0
    shown = show(cli)
    assert "09:00 JST, " in shown
    assert "\n  1 09:00:00 prompt\n" in shown
    assert "T09:00:02.000+09:00" in show(cli, "--step", "3")
    assert cli.json("show", "last")["steps"][0]["at"].endswith("T00:00:00.000Z")


def test_a_long_command_of_one_step_is_printed_once(cli: Cli) -> None:
    command = "python -c '" + "print(1); " * 50 + "print(2)'"
    lines = [
        build.claude_prompt("Count", 0),
        build.claude_answer("m1", build.tool_use("t1", command=command), at=1),
        build.claude_result("t1", "1", at=2),
    ]
    build.write_claude(cli.home, lines)
    shown = show(cli, "--step", "2")
    assert shown.count("print(2)") == 1
    assert "… · ok" in shown.splitlines()[0]


@pytest.mark.parametrize("words", [[], ["--full"], ["--errors"], ["--step", "8"], ["--markdown"]])
def test_hostile_words_cannot_move_the_cursor(cli: Cli, words: list[str]) -> None:
    write_session(cli.home)
    shown = show(cli, *words)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_name_of_several_lines_makes_no_line_of_its_own(cli: Cli) -> None:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    names = {"model": "evil\nOutcome: success", "project": "/src/a\nOutcome: success"}
    path = cli.home / "runs.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": messages, **names}))
    assert cli.run("import", "--source", "chat", "--from", str(path)).returncode == 0
    lines = show(cli).splitlines()
    assert [line for line in lines if line.startswith("Outcome: success")] == []
    assert any("evil Outcome" in line for line in lines)


def test_lines_that_end_as_on_windows_are_lines(cli: Cli) -> None:
    lines = [
        build.claude_prompt("Fix this:\r\n\r\n```py\r\nx = 1\r\n```", 0),
        build.claude_answer("m1", text("One.\r\nTwo."), at=1),
    ]
    build.write_claude(cli.home, lines)
    shown = show(cli)
    assert "    Fix this:\n\n    ```py\n    x = 1\n" in shown
    assert "    One.\n    Two.\n" in shown
    found = cli.run("search", "two")
    assert "One. Two." in found.stdout


def test_json_has_the_session_and_every_step(cli: Cli) -> None:
    write_session(cli.home)
    found = cli.json("show", "last")
    assert found["session_id"] == found["session"] == f"claude-code:{build.CLAUDE_SESSION}"
    assert found["resume"].endswith(f"claude --resume {build.CLAUDE_SESSION}")
    steps = found["steps"]
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    names = (
        "step kind at text model tool command path arguments result label failure_kind reason"
        " evidence exit_code duration_ms cost_usd running_cost_usd input_tokens output_tokens"
        " child_session_id"
    )
    assert set(names.split()) <= set(steps[0])
    (failed,) = [step for step in steps if step["label"] == "error"]
    assert (failed["command"], failed["exit_code"]) == ("pytest -q && echo done", 3)
    assert next(step["path"] for step in steps if step["tool"] == "Edit") == "/src/app.py"
    own = sum(round((step["cost_usd"] or 0) * 1e9) for step in steps)
    assert own == round(found["figures"]["cost_usd"] * 1e9)


def test_markdown_is_a_document_in_which_nothing_acts(cli: Cli) -> None:
    write_session(cli.home)
    shown = show(cli, "--markdown")
    assert shown.startswith("# Fix the rounding\n")
    assert "\n> Fix the rounding\n" in shown
    assert "**Done**." in shown
    assert "\\<script>" in shown
    assert "\\![x]" in shown


def test_code_in_markdown_is_as_it_was_written(cli: Cli) -> None:
    page = "```html\n<b>bold</b> ![x](y)\n```\n\n<i>\n\n- so:\n\n      <u>indented</u>"
    lines = [build.claude_prompt(page, 0), build.claude_answer("m1", text(page), at=1)]
    build.write_claude(cli.home, lines)
    shown = show(cli, "--markdown")
    assert shown.count("\n<b>bold</b> ![x](y)\n") == 1
    assert shown.count("\n> <b>bold</b> ![x](y)\n") == 1
    assert shown.count(" <u>indented</u>\n") == 2
    assert shown.count("\\<i>\n") == 2


@pytest.mark.parametrize(
    "hostile",
    [
        "```\n<b>\n```\n<script>x</script>",
        "<div>\n```\n<b>\n```\n![x](y)",
        "\\`<img src=x>\\`",
        "``` `a\n<script>x</script>\n```",
        "```\na\n``` b\n```\n<script>x</script>\n",
        "- a\n\n  <script>x</script>",
        "~~~\nnever closed",
        "<!-- never closed",
        "[x]: <\n<script>",
    ],
)
def test_no_text_makes_a_tag_in_markdown_or_swallows_what_follows(cli: Cli, hostile: str) -> None:
    from markdown_it import MarkdownIt

    lines = [
        build.claude_prompt("Go", 0),
        build.claude_answer("m1", text(hostile), at=1),
        build.claude_prompt(hostile, 2),
        build.claude_answer("m2", text("The end."), at=3),
    ]
    build.write_claude(cli.home, lines)
    tokens = MarkdownIt("commonmark").parse(show(cli, "--markdown"))
    inside = [*tokens, *(one for token in tokens for one in token.children or ())]
    assert not {one.type for one in inside} & {"html_block", "html_inline", "image"}
    titles = [
        tokens[at + 1].content
        for at, one in enumerate(tokens)
        if one.type == "heading_open" and one.tag == "h2"
    ]
    assert titles == ["1. Prompt", "2. Answer", "3. Prompt", "4. Answer"]


def test_html_is_one_file_without_script_request_or_secret(cli: Cli, tmp_path: Path) -> None:
    write_session(cli.home)
    cli.run("import")
    file = tmp_path / "shared.html"
    assert show(cli, "--html", str(file)) == ""
    page = file.read_text()
    assert "Fix the rounding" in page
    assert "<strong>Done</strong>" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"""(?:src|srcset|data)=["']?|<link|@import|url\(""", page)
    assert "default-src &#39;none&#39;" in page
    assert 'id="step-4"' in page
    assert 'pre class="diff"' in page


def test_what_is_shared_is_redacted_by_todays_rules(cli: Cli, tmp_path: Path) -> None:
    from relight.store import open_store
    from relight.store.write.tape import compress, decompress

    write_session(cli.home)
    cli.run("import")
    with open_store(cli.home / "relight") as store, store.transaction() as database:
        ((records,),) = database.execute("select records from tape_part").fetchall()
        old = decompress(records).replace(b"Let me look.", f"token {SECRET}".encode())
        database.execute("update tape_part set records = ?", (compress(old),))
    file = tmp_path / "shared.html"
    show(cli, "--html", str(file), "--no-import")
    assert "token" in file.read_text()
    assert SECRET not in file.read_text()
    assert SECRET not in show(cli, "--markdown", "--no-import")


def test_choices_that_contradict_are_refused(cli: Cli) -> None:
    write_session(cli.home)
    assert cli.run("show", "last", "--errors", "--markdown").returncode == 2
    assert cli.run("show", "last", "--step", "0").returncode == 2
    done = cli.run("show", "last", "--html", str(cli.home / "none" / "x.html"))
    assert (done.returncode, "cannot write" in done.stderr) == (1, True)


def test_a_long_session_is_cut_with_a_note(cli: Cli) -> None:
    lines: list[dict[str, Any]] = [build.claude_prompt("Go")]
    for number in range(400):
        use = build.tool_use(f"t{number}", command=f"echo {number}")
        lines.append(build.claude_answer(f"m{number}", use, at=number * 2 + 1))
        lines.append(build.claude_result(f"t{number}", str(number), at=number * 2 + 2))
    build.write_claude(cli.home, lines)
    shown = show(cli)
    assert "… 102 steps, from 101 on: --full shows all" in shown
    assert "echo 98" in shown
    assert "echo 150" not in shown
    assert "echo 399" in shown
    assert "echo 150" in show(cli, "--full")
    assert len(json.loads(cli.run("show", "last", "--json").stdout)["steps"]) == 402
