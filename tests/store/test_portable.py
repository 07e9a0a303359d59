"""Every statement of the store is written so that other engines take it too."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight.store

FOLDER = Path(relight.store.__file__).parent
# the modules that write what engines do differently: SQL, maintenance, full-text search
ENGINE = {
    "sql.py",
    "keep/migrate.py",
    "__init__.py",
    "search_index.py",
    "postgres_search.py",
    "postgres_policies.py",
    "postgres_months.py",
}
IS_SQL = re.compile(r"\b(select|insert into|update \w+ set|delete from|on conflict)\b|\border by\b")
FORBIDDEN = {
    "`iif` instead of `case`": r"\biif\s*\(",
    "`insert or …` instead of `on conflict`": r"\binsert or\b",
    "`update or …` instead of a test": r"\bupdate or\b",
    "`replace into`": r"\breplace into\b",
    "order by `rowid` instead of `place`": r"\browid\b",
    "an insert without columns": r"\binsert into \w+\s+(values|select)\b",
    "a numbered parameter": r"\?\d",
    "a summed comparison": r"\bsum\([^()]*[=<>][^()]*\)",
    "`is` with a parameter": r"\bis (not )?[?:]\w*",
    "a hexadecimal literal": r"\bx'",
    "`in` with a table's name": r"\bin [a-z_]+\b(?<!in select)",
    "scalar `max` or `min`": r"\b(max|min)\([^()]*,",
}
# SQLite's search index has no other name for its key
ALLOWED = {"select rowid from listing_words"}


def find_statements() -> Iterator[tuple[str, str]]:
    """Yield every string of the store's modules that has SQL in it, with its place."""
    for path in sorted(FOLDER.rglob("*.py")):
        name = path.relative_to(FOLDER).as_posix()
        if name in ENGINE:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if id(node) not in documented and IS_SQL.search(text):
                yield f"{name}:{node.lineno}", text


def test_the_store_has_statements_to_look_at() -> None:
    assert len(list(find_statements())) > 100


@pytest.mark.parametrize("habit", FORBIDDEN)
def test_no_statement_uses(habit: str) -> None:
    pattern = re.compile(FORBIDDEN[habit])
    found = [
        f"{place}: {match[0]!r}"
        for place, text in find_statements()
        for match in pattern.finditer(text)
        if not any(one in text for one in ALLOWED)
    ]
    assert found == []
