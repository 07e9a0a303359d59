"""The sums of a live session, to which each event is added."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import build
import relight
from relight.intake.recorder import SessionTracker
from relight.store import Store
from relight.store.derive import outcomes, rollup

MOST_STATEMENTS = 24
TABLES = ("session", "session_day", "session_hour", "call_day", "position_day", "listing")
FAILED = json.dumps({"output": "No such file or directory", "exit_code": 1})
WORKED = json.dumps({"output": "1 passed", "exit_code": 0})


def read_rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(store.query(f"select * from {name}"), key=repr) for name in TABLES}


def sum_again(store: Store) -> None:
    sessions = [found for (found,) in store.query("select id from session")]
    with store.transaction() as database:
        rollup.refresh(database, sessions)
        outcomes.refresh(database, sessions)


class Work:
    """An agent's work by chance: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1_795_031_532.0
        self.waiting: list[tuple[SessionTracker, dict[str, Any]]] = []

    def clock(self) -> float:
        self.now += self.chance.choice([0.001, 5, 400, 4000])
        return self.now

    def step(self, rec: SessionTracker) -> None:
        choose = self.chance.choice
        match choose(["turn", "ask", "return", "return", "call", "fail", "say", "together"]):
            case "turn":
                rec.turn(
                    input_tokens=choose([None, 0, 100]),
                    output_tokens=5,
                    cache_write_tokens=choose([None, 500]),
                    model=choose([None, None, "gpt-5-mini"]),
                )
            case "ask":
                function = {"name": choose(["terminal", "read_file"]), "arguments": "{}"}
                calls = [
                    {"id": f"{self.now}-{number}", "type": "function", "function": function}
                    for number in range(choose([1, 3]))
                ]
                message = {"role": "assistant", "content": "ok", "tool_calls": calls}
                rec.turn(output_tokens=3, message=message)
                self.waiting += [(rec, call) for call in calls]
            case "return" if self.waiting:
                asker, call = self.waiting.pop(self.chance.randrange(len(self.waiting)))
                tool = call["function"]["name"]
                asker.tool_call(tool, "{}", choose([FAILED, WORKED]), call_id=call["id"])
            case "call":
                rec.tool_call("terminal", {"command": "ls"}, choose([FAILED, WORKED]))
            case "fail":
                rec.turn(failure="429 rate limit exceeded", input_tokens=3)
            case "say":
                rec.message("user", choose(["thanks a lot", "no, that is wrong", "go on"]))
            case _:
                with rec.together():
                    rec.turn(output_tokens=1)
                    rec.tool_call("terminal", {"command": "ls"}, FAILED)
                    rec.turn(failure="timeout", input_tokens=1)
                    rec.tool_call("read_file", {"path": "a"}, "x")


@pytest.mark.parametrize("seed", range(4))
def test_sums_to_which_events_are_added_equal_those_of_whole_sessions(
    tmp_path: Path, seed: int
) -> None:
    work = Work(seed)
    with build.open_home(tmp_path) as store:
        rec = relight.record(store, "one", model="gpt-5.1", project="/p", clock=work.clock)
        child = rec.child("two")
        rec.message("user", "Please mend the failing build")
        for _ in range(60):
            work.step(work.chance.choice([rec, child]))
        added = read_rows(store)
        sum_again(store)
        assert added == read_rows(store)
        assert all(added[name] for name in TABLES)


@pytest.mark.sqlite("it counts the statements that SQLite reports")
def test_an_event_of_a_long_session_takes_no_more_statements_than_of_a_short_one(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store:
        rec = relight.record(store, "one", model="gpt-5.1")
        rec.message("user", "Do it")
        counts = []
        for _ in range(40):
            rec.turn(input_tokens=10, output_tokens=5)
            counts.append(count_statements(store, rec))
        assert set(counts[1:]) == {counts[1]}
        assert counts[1] <= MOST_STATEMENTS


def count_statements(store: Store, rec: SessionTracker) -> int:
    """The statements of one recorded call, without those of triggers."""
    seen: list[str] = []
    connection: Any = store._connection
    connection.set_trace_callback(seen.append)
    rec.tool_call("terminal", {"command": "ls"}, WORKED)
    connection.set_trace_callback(None)
    # SQLite reports a statement once more for each of its triggers
    return len({one for one in seen if not one.startswith("--")})
