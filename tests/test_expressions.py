"""Regular expressions of ours keep to what every Python we support matches rightly."""

import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from relight import expressions
from relight.expressions import compile_kept, compile_later, find_kept, keep_compiled

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


PATTERNS: list[tuple[str, int]] = [
    (r"(?P<one>a+)|(?P<two>[^\W\d_])(?i:b)", 0),
    (r"^ü .* $", re.M | re.X | re.I),
    (r"(?<!\\)(?:x(?=y)|(z)\1)*+", re.DOTALL | re.ASCII),
]


def keep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Compile the patterns as one process does, and return the file that later ones read."""
    forget(folder, monkeypatch)
    for pattern, flags in PATTERNS:
        compile_kept(pattern, flags)
        compile_kept(pattern.replace("ü", "u").encode(), flags)
    keep_compiled()
    forget(folder, monkeypatch)
    return find_kept()


def forget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a process that keeps its bytecode in a folder and has compiled nothing."""
    monkeypatch.setattr(sys, "pycache_prefix", str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    expressions._read_kept.cache_clear()
    expressions._new.clear()
    find_kept().parent.mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(("pattern", "flags"), PATTERNS)
def test_an_expression_of_kept_code_is_the_one_that_python_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, flags: int
) -> None:
    keep(tmp_path, monkeypatch)
    text = "aaB\nÜ é 3 z\nU x  xyzz\\x zz Ü  "
    both: list[tuple[Any, Any]] = [
        (pattern, text),
        (pattern.replace("ü", "u").encode(), text.encode()),
    ]
    for given, within in both:
        kept, plain = compile_kept(given, flags), re.compile(given, flags)
        assert kept == plain
        assert (kept.pattern, kept.flags, kept.groups) == (plain.pattern, plain.flags, plain.groups)
        assert kept.groupindex == plain.groupindex
        found = [[one.groups() for one in each.finditer(within)] for each in (kept, plain)]
        assert found[0] == found[1] != []
    assert not expressions._new, "no code was compiled"


@pytest.mark.parametrize("content", [b"", b"\0", b"half", b"[\0\0\0\0", None])
def test_kept_code_that_cannot_be_read_is_compiled_and_kept_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    file = keep(tmp_path, monkeypatch)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert compile_kept("(?P<one>b)c").findall("abc") == ["b"]
    keep_compiled()
    forget(tmp_path, monkeypatch)
    assert compile_kept("(?P<one>b)c").findall("abc") == ["b"]
    assert not expressions._new


def test_a_process_adds_its_code_to_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, monkeypatch)
    compile_kept("of another process")
    keep_compiled()
    forget(tmp_path, monkeypatch)
    compile_kept(*PATTERNS[0])
    compile_kept("of another process")
    assert not expressions._new


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_nobody_else_may_write_the_file_of_kept_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        kept = keep(tmp_path, monkeypatch)
    finally:
        os.umask(before)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert list(kept.parent.iterdir()) == [kept]


def test_code_is_kept_only_where_python_may_keep_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compile_kept("nowhere")
    keep_compiled()
    assert not find_kept().exists()
    forget(tmp_path / "gone", monkeypatch)
    find_kept().parent.rmdir()
    compile_kept("nowhere")
    keep_compiled()
    assert not find_kept().exists()


def test_another_compiler_of_python_compiles_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(tmp_path, monkeypatch)
    monkeypatch.setattr(expressions, "_compiler", object())
    assert compile_kept("b+").findall("abb") == ["bb"]
