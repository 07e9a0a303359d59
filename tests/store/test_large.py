"""A large store on PostgreSQL: what is written and read of one session looks at its rows alone."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.team.year import write_year

import build
import postgres
from relight.intake.importing import import_all
from relight.reports.sessions import find_session
from relight.store import Store, open_store
from relight.store.candidates import read_gate_counts
from relight.store.postgres import PostgresConnection
from relight.store.queries.steps import read_tool_calls, read_turns

TURNS = 60_000
# a month of these tables that is read as a whole
READ_WHOLE = re.compile(r"Seq Scan on (?:turn|tool_call)_\d+_\d+")


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Store]:
    home = tmp_path / "server"
    home.mkdir(mode=0o700)
    postgres.make_store(home)
    with open_store(home) as store:
        write_year(store, TURNS, now=round(time.time() * 1000))
        # the first import looks up all names of models
        import_all(store, environment={"HOME": str(tmp_path)}, workers=1)
        yield store


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of the statements that read turns or calls, as they run."""
    found: list[str] = []
    run = PostgresConnection.execute

    def explain(self: PostgresConnection, statement: str, values: object = (), /) -> object:
        if re.search(r"\b(?:from|join) (?:turn|tool_call)\b", statement):
            lines = run(self, f"explain {statement}", values).fetchall()
            plan = "\n".join(line for (line,) in lines)
            if READ_WHOLE.search(plan):
                found.append(f"{statement}\n{plan}")
        return run(self, statement, values)

    monkeypatch.setattr(PostgresConnection, "execute", explain)
    return found


def test_a_new_session_is_derived_without_reading_all_turns(
    tmp_path: Path, large: Store, plans: list[str]
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    found = import_all(large, environment={"HOME": str(tmp_path)}, workers=1)
    assert found.touched
    assert not plans, plans[0]


def test_one_session_is_read_without_reading_all_turns(large: Store, plans: list[str]) -> None:
    ((name,),) = large.query("select source || ':' || key from session limit 1")
    session_id = find_session(large, name)
    assert len(read_turns(large, session_id)) == 20
    assert read_tool_calls(large, session_id)
    assert read_gate_counts(large, session_id).calls
    assert not plans, plans[0]
