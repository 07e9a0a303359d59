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
