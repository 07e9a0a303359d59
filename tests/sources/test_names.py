"""Agents are named in their sources, their warm starts, the data and the demo, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import relight

ROOT = Path(relight.__file__).parent
NAMED_IN = ("sources", "warm/agents", "data", "cli/demo")
# `pi` and `gemini` are other words too: a part of many, and a family of models
AGENT = re.compile(
    r"claude|codex|hermes|copilot|opencode|\bkilo\b|qwen|\bcline|droid", re.IGNORECASE
)
# help shows people real commands; an example needs a program that exists
EXAMPLES = re.compile(r"such as: \w+ -|^relight [a-z]+ .*\b(?:claude-code|codex|hermes)\b")
EXCEPTIONS = {
    # the name of a seed's format, which `relight warm --format` takes
    ("warm/injection.py", "hermes"),
}


def find_texts(path: Path) -> Iterator[tuple[int, str]]:
    """The identifiers and string constants of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield line, node.value
            continue
        for field in ("id", "name", "attr", "arg", "module", "asname"):
            if isinstance(text := getattr(node, field, None), str):
                yield line, text


def test_no_agent_is_named_in_code_that_serves_all_of_them() -> None:
    found = [
        f"{name}:{line}: {text[:80]}"
        for path in sorted(ROOT.rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(NAMED_IN)
        for line, text in find_texts(path)
        if AGENT.search(text) and not EXAMPLES.search(text) and (name, text) not in EXCEPTIONS
    ]
    assert found == []
