"""A recorder never raises into the program it records, whatever the program passes."""

import inspect
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.live import LiveTape
from relight.intake.rebuild import rebuild
from relight.intake.recorder import SessionTracker, record
from relight.model import Cost, Failure, Usage
from relight.sources.relight import CallEvent, MessageEvent, TurnEvent, decode_event
from relight.store.misses import count_missed
from relight.store.write.tape import read_tape

SEEDS = range(12)
CALLS = 40


class Broken:
    """An object that raises whatever is done with it."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError("not now")

    __repr__ = __str__ = __bool__ = __eq__ = __len__ = __iter__ = __index__ = _raise
    __getattr__ = __getitem__ = __format__ = __int__ = __float__ = __contains__ = _raise
    __hash__ = None  # type: ignore[assignment]


class Dumping:
    """An SDK's object whose fields cannot be read."""

    def model_dump(self, **_: object) -> Any:
        raise ValueError("cannot be dumped")


class Mute(Exception):
    """An error without a message."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Words(str):
    """A text as LangChain's, which is called as a method too."""

    def __call__(self) -> str:
        return self

    def __str__(self) -> str:
        return self


class Whole(int):
    """A whole number of some library."""


class Real(float):
    """A number of some library."""


class Table(dict[str, Any]):
    """A mapping of some library."""


class Row(list[Any]):
    """A list of some library."""


def make_circle() -> list[Any]:
    circle: list[Any] = []
    circle.append({"text": circle})
    return circle


HOSTILE: list[Callable[[], Any]] = [
    lambda: None,
    Broken,
    lambda: {"inside": Broken()},
    lambda: [Broken()],
    Dumping,
    Mute,
    make_circle,
    object,
    lambda: Broken,
    lambda: len,
    lambda: (one for one in (1, 2)),
    lambda: True,
    lambda: -1,
    lambda: 10**400,
    lambda: math.nan,
    lambda: -math.inf,
    lambda: 1.5,
    lambda: Decimal("NaN"),
    lambda: "",
    lambda: "half \ud800 \0 a character",
    lambda: "x" * 5000,
    lambda: b"\xff",
    lambda: {1: 2, (3,): {4}},
    lambda: {"prompt_tokens": -4, "completion_tokens": "many"},
    lambda: {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 3},
    lambda: [{"type": "function_call", "name": "ls", "arguments": {"half": "\ud800"}}],
    lambda: {"role": 5, "content": {6}, "tool_calls": [7, {"function": 8, "id": 9}]},
    lambda: datetime(2026, 11, 15),  # noqa: DTZ001 - without a zone
    lambda: datetime(2026, 11, 15, tzinfo=UTC),
    lambda: Usage(input=-1, output=10**30),
    lambda: Cost(-5, "reported", 7),  # type: ignore[arg-type]
    lambda: Failure(5, "x", 6, 7, 8, 9),  # type: ignore[arg-type]
    lambda: Words("spoken"),
    lambda: Whole(3),
    lambda: Real(1.5),
    lambda: Table({Words("text"): Row([Words("x"), Whole(1), Real(0.5)])}),
    lambda: Row([Table(type=Words("text"), text=Words("x"))]),
]
# the public methods that record, with the parameters that a program gives
METHODS = {
    name: [one for one in inspect.signature(method).parameters if one not in ("self", "options")]
    for name, method in inspect.getmembers(SessionTracker, inspect.isfunction)
    if name in ("turn", "tool_call", "message", "finish", "__exit__", "child")
}
OPENING = [one for one in inspect.signature(record).parameters if one not in ("store", "clock")]


def test_every_public_method_that_takes_a_value_is_tried() -> None:
    public = {
        name
        for name, method in inspect.getmembers(SessionTracker, inspect.isfunction)
        if len(inspect.signature(method).parameters) > 1 and (name[0] != "_" or name == "__exit__")
    }
    assert public == set(METHODS)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_program_passes_raises_and_each_refused_value_is_a_logged_miss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    chance = random.Random(seed)
    with build.open_home(tmp_path) as store:
        recorders = [record(store, f"own-{seed}", model="m", clock=count(1_794_700_000).__next__)]
        for _ in range(CALLS):
            rec = chance.choice(recorders)
            name = chance.choice(list(METHODS))
            wanted = [*METHODS[name], *(OPENING if name == "child" else [])]
            given = {
                one: chance.choice(HOSTILE)()
                for one in wanted
                if name in ("message", "__exit__") or one == "tool" or chance.random() < 0.5
            }
            given.pop("parent", None)  # `child` gives it
            found = getattr(rec, name)(**given)
            if name == "turn":
                assert isinstance(found, str)
            if name == "child":
                recorders.append(found)
            with rec.together():
                assert rec.stats().unwritten == 0
        recorders[0].turn(input_tokens=7, output_tokens=1, message="done")
        refused = caplog.text.count("a value was not recorded")
        assert refused > 0
        assert count_missed(store) == refused
        assert store.query("select count(*) from unreadable") == [(0,)]
        counted = [store.query(f"select count(*) from {one}") for one in ("turn", "tool_call")]
        rebuild(store, workers=1)
        after = [store.query(f"select count(*) from {one}") for one in ("turn", "tool_call")]
        assert after == counted


def test_values_of_subclasses_are_recorded_as_what_they_are(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, Words("own"), model=Words("m"), title=Words("Titled"))
        rec.message("user", Words("asked"))
        rec.message("user", Row([Table(type="text", text=Words("more"), n=Whole(1))]))
        rec.turn(message=Words("said"), input_tokens=Whole(7), cost_usd=Real(0.5))
        rec.tool_call(
            Words("bash"), Table(n=Whole(2), part=Real(0.5)), Words("done"), exit_code=Whole(0)
        )
        rec.turn(message=Table(role="assistant", content=Words("end")), failure=Words("broke"))
        lines = [decode_event(line) for part in read_tape(store) for line in part.lines()]
        assert count_missed(store) == 0
    said = [one.message for one in lines if isinstance(one, MessageEvent)]
    assert said[0]["content"] == "asked"
    assert said[1]["content"] == [{"type": "text", "text": "more", "n": 1}]
    first, last = (one for one in lines if isinstance(one, TurnEvent))
    assert (first.message or {})["content"] == "said"
    assert (first.usage.input, first.cost and first.cost.nanos) == (7, 500_000_000)
    assert (last.message or {})["content"] == "end"
    (call,) = (one for one in lines if isinstance(one, CallEvent))
    assert (call.tool, call.arguments, call.result) == ("bash", '{"n":2,"part":0.5}', "done")
    assert call.exit_code == 0


def test_an_event_with_a_value_that_nothing_foresaw_is_recorded_and_is_a_miss(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store:
        tape = LiveTape.begin(store, "own")
        strange: Any = Broken()
        call = CallEvent(key="c", session="own", at=1_794_700_000_000, tool="bash", result=strange)
        tape.write(tape.line_up(call))
        message = {"role": "user", "content": strange}
        tape.write(tape.line_up(MessageEvent(session="own", at=1_794_700_000_000, message=message)))
        assert store.query("select tool from tool_call") == [("bash",)]
        assert store.query("select title from session") == [("<Broken>",)]
        assert store.query("select count(*) from unreadable") == [(0,)]
        assert count_missed(store) == 2


def test_a_session_may_be_opened_with_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with build.open_home(tmp_path) as store:
        for number, make in enumerate(HOSTILE):
            for name in OPENING:
                given = {"session_id": f"s{number}-{name}", name: make()}
                rec = record(store, **given)
                rec.turn(output_tokens=1)
        assert count_missed(store) == caplog.text.count("a value was not recorded") > 0
        assert store.query("select count(*) from unreadable") == [(0,)]


def test_a_clock_that_fails_is_replaced(tmp_path: Path) -> None:
    def stop() -> float:
        raise OSError("no clock")

    with build.open_home(tmp_path) as store:
        rec = record(store, clock=stop)
        rec.turn(output_tokens=1)
        assert rec.stats().turns == 1


def test_figures_are_unknown_after_the_store_was_closed(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine")
    rec.turn(output_tokens=1)
    assert rec.stats().turns is None
    rec.finish("success")
