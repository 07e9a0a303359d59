"""Regular expressions of ours keep to what every Python we support matches rightly."""

import re
from importlib import resources
from pathlib import Path

PACKAGE = Path(str(resources.files("relight")))


def test_no_expression_repeats_a_group_possessively() -> None:
    # Python before 3.11.5 loses its place in `(?:…)*+`; `(?>(?:…)*)` means the same everywhere.
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".toml"}
        for line in path.read_text().splitlines()
        if re.search(r"\)(?:[*+?]|\{[0-9,]+\})\+", line)
    ]
    assert found == []
