"""`relight search` on the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import build
from relight.cli import relight


def run(home: Path, *words: str) -> tuple[int, str]:
    build.write_claude(home, build.claude_session())
    with build.open_home(home) as store:
        build.import_home(store, home)
        place = str(store.config.home)
    done = CliRunner().invoke(relight, ["search", "--no-import", "--home", place, *words])
    return done.exit_code, done.output


def test_hits_are_shown_with_their_session_and_step(tmp_path: Path) -> None:
    code, output = run(tmp_path, "invoice rounding")
    assert not output.startswith("\n")
    assert code == 0
    assert "Fix the rounding in the invoice" in output
    assert "    1  prompt  Fix the rounding in the invoice" in output
    assert "1 of 1 hits" in output
    assert "relight show claude-code:" in output


def test_words_that_begin_with_a_dash_belong_to_the_query(tmp_path: Path) -> None:
    assert "no text has --quiet" in run(tmp_path, "--quiet")[1]
    assert "1 of 1 hits" in run(tmp_path, "rounding", "-okapi")[1]
    assert "excludes" in run(tmp_path, "rounding", "-invoice")[1]


@pytest.mark.parametrize("word", ["-path:src/shop", "-hash", "-shell*"])
def test_an_excluded_word_with_an_h_does_not_ask_for_the_help(tmp_path: Path, word: str) -> None:
    assert "1 of 1 hits" in run(tmp_path, "rounding", word)[1]
    assert "Usage: " in run(tmp_path, "--help")[1]


def test_a_query_of_ten_kilobytes_is_not_repeated_in_the_answer(tmp_path: Path) -> None:
    assert len(run(tmp_path, "a" * 10_240)[1]) < 200
    assert run(tmp_path, *(f"zebra{n}" for n in range(60)))[1].endswith("or 55 more\n")


def test_json_has_the_shape_of_the_contract(tmp_path: Path) -> None:
    code, output = run(tmp_path, "pytest", "--json", "--tool", "Bash", "--limit", "1")
    assert code == 0
    found = json.loads(output)
    (hit,) = found["hits"]
    assert found["total"] == 1
    assert set(hit) == {
        *("session_id", "step", "kind", "at", "tool", "title", "project", "snippet"),
    }
    assert (hit["kind"], hit["tool"], hit["snippet"]) == ("call", "Bash", "⟦pytest⟧ -q")


@pytest.mark.parametrize("words", [("-okapi",), ("",), ("--",)])
def test_a_query_that_cannot_match_is_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run(tmp_path, *words)[0] != 0
