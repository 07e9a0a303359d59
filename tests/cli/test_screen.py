"""Tables in terminals of different widths, with and without colours."""

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from click import Context, Group
from click.testing import CliRunner
from rich.cells import cell_len, set_cell_size

import serving
from relight.cli import COMMANDS, relight, screen
from relight.cli.screen import Column, cut_words, print_table
from relight.store import open_store
from relight.warm.library import read_templates, restore_template, retire_template
from terminal import Screen

# what a person looks at day by day, on a store with sessions, jobs, skills and templates
TABLES = (
    "sessions",
    "report",
    "report --by model",
    "report --by model,project",
    "report --by session",
    "report --by job",
    "report --by tool",
    "failures",
    "cache",
    "limits",
    "job",
    "job history",
    "job history ticket-triage",
    "job compare --all",
    "skills",
    "skills ema",
    "skills compare ticket-triage",
    "template",
    "template stats",
    "experiment",
    "experiment report",
    "experiment report warm-or-cold",
    "moa traces",
    "doctor",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.make_home(tmp_path_factory.mktemp("demo"))


@pytest.fixture(autouse=True)
def no_other_agents(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME"):
        monkeypatch.setenv(name, str(home / "nothing"))
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RELIGHT_HOME", str(home))


def run(words: str, *, columns: int = 80) -> str:
    done = CliRunner().invoke(relight, words.split(), env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout


def show(words: str, folder: Path, **environment: str) -> str:
    """Return what a command prints in a terminal."""
    line = [sys.executable, "-m", "relight", *words.split()]
    with Screen(line, {**os.environ, **environment}, folder) as terminal:
        assert terminal.child.wait(60) == 0
    return terminal.shown


def test_names_that_are_cut_stay_different() -> None:
    names = ["claude-sonnet-4-5", "claude-sonnet-4-6", "claude-haiku-4-5", "gpt"]
    cut = cut_words([*names, *names], 12)
    assert len(set(cut)) == 4
    assert cut[:4] == cut[4:]
    assert max(map(len, cut)) == 12
    assert len(set(cut_words(["漢字漢字漢字一", "漢字漢字漢字二"], 8))) == 2


def test_a_column_may_go_on_below_before_it_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "the scheduler's ledger records that the script ended with exit code 3"
    outcome = Column("outcome", is_number=False, is_name=True)
    print_table([outcome, Column("evidence", is_number=False, lines=3)], [["failure", text]])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert " ".join(line.removeprefix("failure").strip() for line in lines) == text
    assert max(map(len, lines)) <= 40
    print_table([outcome, Column("evidence", is_number=False, lines=2)], [["failure", text * 3]])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 2
    assert lines[1].rstrip().endswith("…")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", TABLES)
def test_every_table_fits_the_window_and_shows_all_that_matters(
    words: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[list[str], list[str]]] = []
    make = screen.make_table

    def watch(*given: Any, **more: Any) -> tuple[list[str], list[str]]:
        made.append(make(*given, **more))
        return made[-1]

    monkeypatch.setattr(screen, "make_table", watch)
    text = run(words, columns=width)
    assert made, text
    for lines, left_out in made:
        assert max(map(screen.count_cells, lines)) <= width, text
        assert not {"output", "project", "cost", "outcome"} & {*left_out}, text


@pytest.mark.parametrize("key", ["model", "job", "skill", "project", "tool"])
def test_a_narrow_report_drops_columns_before_it_cuts_names(key: str) -> None:
    lines = run(f"report --by {key} --since all").splitlines()[2:]
    names = [line.partition("  ")[0] for line in takewhile(str.strip, lines)]
    assert names
    assert not [name for name in names if "…" in name]


def test_a_markdown_report_of_tools_has_no_costs() -> None:
    lines = run("report --by tool --markdown").splitlines()
    assert not [line for line in lines if "no price" in line]


def test_widths_are_those_of_rich_and_plain_text_does_not_load_it() -> None:
    texts = (
        "plain",
        "–…·→█",
        "漢字",
        "e\u0301",
        "👩‍👩‍👧 family",
        "☎️",
        "a\u200bb",
        "ｆｕｌｌ",
        "Ωμέγα",
        "",
    )
    for text in texts:
        assert screen.count_cells(text) == cell_len(text), text
        for width in (0, 1, 3, 9):
            assert screen.fit_text(text, width) == set_cell_size(text, width), (text, width)
    sure = [chr(code) for code in range(0x10000) if not screen.UNSURE.match(chr(code))]
    assert {cell_len(one) for one in sure} == {1}
    code = (
        "import sys; from relight.cli.screen import Column, print_table, print_text\n"
        "print_table([Column('a', is_number=False), Column('b')], [['x – y', '1']])\n"
        "print_text('done …', style='dim'); sys.exit('rich' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


def test_long_words_are_broken_and_wide_characters_counted() -> None:
    assert screen.wrap_text("漢字漢字 ab", 4) == ["漢字", "漢字", "ab"]
    assert screen.wrap_text("  indented words", 8) == ["  indent", "ed words"]
    assert screen.wrap_text("", 8) == [""]


@pytest.mark.parametrize("words", ["sessions", "job", "job history", "failures"])
def test_good_and_bad_have_colours_in_a_terminal_only(words: str, tmp_path: Path) -> None:
    assert "\x1b" not in run(words)
    shown = show(words, tmp_path)
    assert "\x1b[31m" in shown or "\x1b[1;31m" in shown
    assert words == "failures" or "\x1b[32m" in shown
    plain = show(words, tmp_path, NO_COLOR="1")
    assert "\x1b[31m" not in plain
    assert "\x1b[32m" not in plain


def test_every_group_alone_shows_its_list_or_its_commands() -> None:
    context = Context(relight)
    groups = {
        name: made
        for name in COMMANDS
        if isinstance(made := relight.get_command(context, name), Group)
    }
    assert len(groups) >= 9
    for name, group in groups.items():
        text = run(name)
        assert text.strip()
        has_list = {"list", "show", "stats", "presets"} & {*group.list_commands(context)}
        assert ("Usage:" in text) is not bool(has_list), name


def test_help_gives_the_whole_sentence_of_each_command_and_names_numbers_n() -> None:
    text = " ".join(run("template --help").split())
    assert "make templates of sessions that clear a high bar." in text
    assert "..." not in text.partition("Commands:")[2]
    assert "--limit N" in run("search --help")


def test_the_reason_of_a_retired_template_is_whole_at_80_columns(home: Path) -> None:
    why = "worse than starting cold with a probability of 0.97: 3 of 30 succeeded with version 2"
    with open_store(home) as store:
        name = read_templates(store)[0].name
        retire_template(store, name, why=why)
    text = run("template stats")
    with open_store(home) as store:
        restore_template(store, name)
    assert f"{name} is retired: {why}\n" in text


def test_folders_that_were_not_found_are_whole_at_80_columns() -> None:
    text = run("doctor")
    assert "…" not in text.partition("unreadable:")[0]
    assert "(not found)" in " ".join(text.split())


def test_evidence_of_runs_is_readable_at_80_columns() -> None:
    text = " ".join(run("job history").split())
    assert "the scheduler's ledger" in text or "ledger" not in text
    assert "scheduler's led…" not in text
