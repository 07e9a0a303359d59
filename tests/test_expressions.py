"""Regular expressions of ours keep to what every Python we support matches rightly."""

import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from relight.expressions import compile_later

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


def test_an_expression_is_compiled_by_its_first_use() -> None:
    faulty = compile_later("(")
    with pytest.raises(re.error):
        faulty.search("")
    assert compile_later("a+", re.IGNORECASE).findall("AbaA") == ["A", "aA"]
    assert compile_later(rb"(?P<one>a)").groupindex == {"one": 1}


def test_every_expression_that_is_compiled_later_is_valid() -> None:
    names = [
        ".".join(("relight", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if "compile_later(" in path.read_text()
    ]
    code = (
        "import re, importlib, relight.expressions\n"
        "relight.expressions.compile_later = re.compile\n"
        f"for name in {sorted(names)}: importlib.import_module(name)\n"
        "from relight.judging.verdicts.rules import read_kinds, read_rules\n"
        "read_kinds(), read_rules()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
