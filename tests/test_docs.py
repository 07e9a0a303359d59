import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import serving
from relight.cli import relight
from terminal import run_relight

ROOT = Path(__file__).parent.parent


def test_the_generated_pages_say_what_the_program_does() -> None:
    generate = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(generate, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "AGENTS.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_map_of_the_code_names_every_table_and_every_module_of_the_base() -> None:
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "relight"
    tables, _, base = text.partition("  data/ ")[2].partition("  *.py ")
    assert {path.stem for path in (source / "data").glob("*.toml")} == set(
        re.findall(r"`(\w+)`", tables)
    )
    named = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", base.partition("```")[0])))
    modules = {path.stem for path in source.glob("*.py")} - {"__init__", "__main__"}
    assert modules <= named
    assert named <= modules | {"the", "base"}


def read_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_links_to_a_heading_find_it() -> None:
    for page in [ROOT / "README.md", ROOT / "AGENTS.md", *(ROOT / "docs").rglob("*.md")]:
        links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
        for target, anchor in links:
            found = read_anchors((page.parent / target) if target else page)
            assert anchor in found, f"{page.name} links to {target}#{anchor}"


def list_pages() -> list[Path]:
    """Every page that a person wrote."""
    pages = (ROOT / "docs").rglob("*.md")
    written = [page for page in pages if page.parent.name != "reference"]
    return [ROOT / "README.md", ROOT / "AGENTS.md", *written]


def list_commands(text: str) -> Iterator[str]:
    """The commands that a page names: lines of its blocks, and words in its sentences."""
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in (*lines, *inline):
        for part in re.split(r"&&|\$\(| \| |;", line.partition(" # ")[0]):
            found = re.match(r"\s*(?:relight|\./dev run)\s+(.+)", part, re.DOTALL)
            if found:
                yield found[1]


def find_unknown(line: str) -> list[str]:
    """The words of a command that name neither a command nor an option of it."""
    context = click.Context(relight, info_name="relight")
    path: list[click.Command] = [relight]
    unknown = []
    for word in line.replace(",", " ").split():
        last = path[-1]
        known = {name for one in path for param in one.params for name in param.opts}
        known |= {"-h", "--help"}
        if word == "--":
            break  # what follows are the words of another program
        if word.startswith("--"):
            name = word.partition("=")[0].rstrip(".:)…")
            unknown += [] if name in known else [name]
        elif isinstance(last, click.Group) and re.fullmatch(r"[a-z|]+", word):
            found = [last.get_command(context, name) for name in word.split("|")]
            unknown += [word] if None in found else []
            path += [one for one in found[:1] if one]
    return unknown


def test_every_command_and_option_that_the_pages_name_exists() -> None:
    count = 0
    for page in list_pages():
        for line in list_commands(page.read_text(encoding="utf-8")):
            assert not find_unknown(line), f"{page.name}: relight {line}: {find_unknown(line)}"
            count += 1
    assert count > 300


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of the demo for all tests that only look."""
    return serving.make_home(tmp_path_factory.mktemp("demo"))


def test_the_lines_of_the_readme_can_be_pasted_as_they_are(demo: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Eight lines")[2].partition("```sh\n")[2].partition("```")[0]
    lines = block.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith('alias relight="$PWD/dev run" ')
    environment = {**os.environ, "RELIGHT_HOME": str(demo)}
    for line in lines[1:]:
        program, *words = shlex.split(line, comments=True)
        done = run_relight(environment, *words)
        assert (program, done.returncode) == ("relight", 0), (line, done.stderr)
        assert done.stdout.strip(), line


def read_blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guide" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


LOOKING = ["cache.md", "read.md", "report.md", "search.md", "sessions.md", "skills.md", "top.md"]
# they start an agent, or belong into a shell's start file
ELSEWHERE = ("relight resume ", "eval ", "_RELIGHT_COMPLETE")


@pytest.mark.parametrize("page", LOOKING)
def test_every_line_of_a_guide_that_only_looks_gives_something_on_the_demo(
    page: str, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELIGHT_HOME", str(demo))
    lines = [line for block in read_blocks(page, "sh") for line in block.splitlines()]
    for line in lines:
        if line.startswith(ELSEWHERE):
            continue
        program, *words = shlex.split(line.partition(" > ")[0], comments=True)
        done = CliRunner().invoke(relight, words)
        assert (program, done.exit_code) == ("relight", 0), (line, done.output)
        assert done.output.strip(), line
        if words[0] == "search":
            assert re.search(r"\d hits?$", done.output, re.MULTILINE), (line, done.output)


def test_every_line_of_the_recipes_gives_something_on_the_demo(tmp_path: Path) -> None:
    home = serving.make_home(tmp_path)
    settings = (home / "config.toml").read_text(encoding="utf-8")
    for block in read_blocks("recipes.md", "toml"):
        table, _, rows = block.partition("\n")
        rows = rows.replace("~/", f"{tmp_path}/")
        head, known, rest = settings.partition(f"{table}\n")
        # a recipe's table takes the place of the demo's
        settings = f"{head}{table}\n{rows}" + (rest[rest.find("\n[") :] if known else "")
    (home / "config.toml").write_text(settings, encoding="utf-8")
    environment = {**os.environ, "RELIGHT_HOME": str(home), "HOME": str(tmp_path)}
    lines = [line for block in read_blocks("recipes.md", "sh") for line in block.splitlines()]
    assert len(lines) >= 12
    for line in lines:
        program, *words = shlex.split(line.replace(" session.html", f" {tmp_path}/s.html"), True)
        done = run_relight(environment, *words, given="y\n")
        assert (program, done.returncode) == ("relight", 0), (line, done.stderr)
        assert done.stdout.strip() or "--html" in words, line
        if words[0] == "search":
            assert re.search(r"\d hits?$", done.stdout, re.MULTILINE), (line, done.stdout)
    assert (tmp_path / "s.html").stat().st_size > 1000
    assert (tmp_path / "failed-runs.jsonl").stat().st_size > 10
