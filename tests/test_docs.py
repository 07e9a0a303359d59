import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import serving
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


def test_the_lines_of_the_readme_can_be_pasted_as_they_are(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Eight lines")[2].partition("```sh\n")[2].partition("```")[0]
    lines = block.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith('alias relight="$PWD/dev run" ')
    environment = {**os.environ, "RELIGHT_HOME": str(serving.make_home(tmp_path))}
    for line in lines[1:]:
        program, *words = shlex.split(line, comments=True)
        done = run_relight(environment, *words)
        assert (program, done.returncode) == ("relight", 0), (line, done.stderr)
        assert done.stdout.strip(), line


def read_blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guide" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


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
