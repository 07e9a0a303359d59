"""Every public name has an example on the page of the Python interface, and each example runs."""

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import relight
import serving
from scripted import Reply, Server

ROOT = Path(__file__).parent.parent
TABLE = tomllib.loads((ROOT / "docs" / "python.toml").read_text(encoding="utf-8"))
EXAMPLES = [one for part in TABLE["parts"] for one in part["examples"]]
ADDRESS = "http://127.0.0.1:11434/v1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.make_home(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(lambda body: Reply("It is.")) as running:
        yield running


def read_results(code: str) -> dict[int, str]:
    """The comment at the end of each line that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {one.start[0]: one.string[1:].strip() for one in tokens if one.type == tokenize.COMMENT}


def run(code: str, names: dict[str, Any]) -> int:
    """Run an example; return how many of its lines had the value that their comment says."""
    results, checked = read_results(code), 0
    for statement in ast.parse(code).body:
        source = ast.get_source_segment(code, statement) or ""
        expected = results.get(statement.end_lineno or 0)
        if isinstance(statement, ast.Expr) and expected and not source.startswith("print("):
            assert repr(eval(source, names)) == expected
            checked += 1
        else:
            exec(source, names)
    return checked


def test_every_public_name_has_an_example_and_no_other_name_has_one() -> None:
    shown = [name for one in EXAMPLES for name in one["names"]]
    assert sorted(shown) == sorted(relight.NAMES)
    for one in EXAMPLES:
        assert all(f"relight.{name}" in one["code"] for name in one["names"]), one["names"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one["names"][0])
def test_an_example_runs_and_shows_something(
    example: dict[str, Any],
    home: Path,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELIGHT_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME", "RELIGHT_MAX_TOOL_CHARS"):
        monkeypatch.delenv(name, raising=False)
    code = example["code"].replace(ADDRESS, server.base_url)
    with relight.open_store() as store, redirect_stdout(io.StringIO()) as shown:
        checked = run(code, {"relight": relight, "store": store})
    assert checked or shown.getvalue().strip()


def test_a_value_that_is_not_the_comments_fails_the_test() -> None:
    assert run("x = 1\nx + 1  # 2", {}) == 1
    with pytest.raises(AssertionError):
        run("1 + 1  # 3", {})
