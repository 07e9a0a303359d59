"""What a program may tell its recorder: figures are checked, payloads are taken as they come."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessage

import build
from relight.intake.checks import make_plain, write_payload
from relight.intake.rebuild import rebuild
from relight.intake.recorder import SessionTracker, record
from relight.model import Cost, Usage
from relight.reports.sessions import find_session, read_session
from relight.store.misses import count_missed
from relight.store.write.tape import read_tape

Tell = Callable[[SessionTracker], Any]

NONSENSE: list[tuple[str, Tell]] = [
    ("input_tokens", lambda rec: rec.turn(input_tokens=-1)),
    ("output_tokens", lambda rec: rec.turn(output_tokens=10**30)),
    ("reasoning_tokens", lambda rec: rec.turn(reasoning_tokens=1.5)),  # type: ignore[arg-type]
    ("cache_read_tokens", lambda rec: rec.turn(cache_read_tokens=True)),
    ("cache_write_tokens", lambda rec: rec.turn(cache_write_tokens="9")),  # type: ignore[arg-type]
    ("output_tokens", lambda rec: rec.turn(usage=Usage(output=-9))),
    ("usage", lambda rec: rec.turn(usage=12)),
    ("cost_usd", lambda rec: rec.turn(cost_usd=math.nan)),
    ("cost_usd", lambda rec: rec.turn(cost_usd=-1)),
    ("cost_usd", lambda rec: rec.turn(cost_usd=1e300)),
    ("cost_usd", lambda rec: rec.turn(cost_usd="much")),
    ("cost", lambda rec: rec.turn(cost=Cost(10**30, "reported", None))),
    ("duration_ms", lambda rec: rec.turn(duration_ms="long")),  # type: ignore[arg-type]
    ("message", lambda rec: rec.turn(message=12)),
    ("message", lambda rec: rec.turn(message=[1, 2])),
    ("model", lambda rec: rec.turn(model=5)),  # type: ignore[arg-type]
    ("at", lambda rec: rec.turn(at="yesterday")),
    ("tool", lambda rec: rec.tool_call(5)),  # type: ignore[arg-type]
    ("exit_code", lambda rec: rec.tool_call("t", exit_code=10**30)),
    ("role", lambda rec: rec.message(5, "x")),  # type: ignore[arg-type]
    ("outcome", lambda rec: rec.finish("splendid")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("name", "tell"), NONSENSE)
def test_a_value_that_cannot_be_meant_is_a_miss_that_names_it_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, tell: Tell
) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.turn(input_tokens=1, output_tokens=1)
            tell(rec)
        stats = rec.stats()
        assert count_missed(store) == 1
        assert f"a value was not recorded: {name} " in caplog.text
        assert store.query("select count(*) from unreadable") == [(0,)]
    assert (stats.input_tokens, stats.unwritten) == (1, 0)


def test_a_turn_with_a_wrong_figure_is_kept_and_its_cost_is_unknown(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="gpt-5.1", provider="openai")
        rec.turn(input_tokens=-1, output_tokens=5, message="done")
        rec.turn(input_tokens=10, output_tokens=5, cost_usd=math.nan)
        stats = rec.stats()
    figures = [getattr(stats, name) for name in ("turns", "partial_turns", "unpriced_turns")]
    assert (figures, stats.output_tokens) == ([2, 1, 1], 10)


class Broken:
    """An object that fails whenever someone looks at it."""

    def __repr__(self) -> str:
        raise ValueError("not now")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def make_circle() -> dict[str, Any]:
    circle: dict[str, Any] = {"name": "round"}
    circle["self"] = circle
    return circle


def make_well() -> list[Any]:
    well: list[Any] = []
    for _ in range(100_000):
        well = [well]
    return well


PAYLOADS: list[Any] = [
    make_circle(),
    make_well(),
    {"x": math.nan, "y": math.inf},
    {(1, 2): 3},
    {1: {2, 3}},
    Broken(),
    {"inside": Broken()},
    b"\xff\0bytes",
    "half \ud800 a character",
    {"half": "\udfff"},
    10**400,
    Decimal("1.5"),
    object(),
    lambda: None,
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: type(one).__name__)
def test_payloads_of_any_kind_are_kept_and_break_nothing(tmp_path: Path, payload: Any) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.message("user", payload)
            rec.turn(output_tokens=1, message={"content": payload, "tool_calls": payload})
            rec.tool_call("t", payload, payload, call_id="c", is_error=1)  # type: ignore[arg-type]
            rec.turn(output_tokens=1, failure=payload)
        stats = rec.stats()
        assert (stats.turns, stats.tool_calls, stats.unwritten) == (1, 1, 0)
        assert count_missed(store) == 0
        assert store.query("select count(*) from unreadable") == [(0,)]
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=8,
)


@given(value=JSON)
def test_what_json_can_carry_is_carried_as_it_is(value: Any) -> None:
    assert make_plain(value) == value


def test_payloads_become_json_where_they_can() -> None:
    assert write_payload({"a": [1, 2.5, None, "ü"]}) == '{"a":[1,2.5,null,"ü"]}'
    assert write_payload({1: {"x"}}) == '{"1":["x"]}'
    assert write_payload(b"caf\xc3\xa9") == "café"
    assert write_payload(make_circle()) == "{'name': 'round', 'self': {...}}"


def test_answers_of_the_sdk_are_recorded_as_they_are(tmp_path: Path) -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    answer = ChatCompletionMessage.model_validate({"role": "assistant", "tool_calls": [asked]})
    usage = CompletionUsage(prompt_tokens=12, completion_tokens=3, total_tokens=15)
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        rec.turn(usage=usage, message=answer)
        rec.tool_call("ls", {}, "a", call_id="c1")
        found = read_session(store, find_session(store, "mine"))
    assert (found.turns[0].input_tokens, found.turns[0].output_tokens) == (12, 3)
    assert len(found.tool_calls) == 1


def test_a_dataclass_of_usage_and_a_list_of_items_are_recorded(tmp_path: Path) -> None:
    @dataclass
    class AgentUsage:
        requests: int
        input_tokens: int
        output_tokens: int
        input_tokens_details: Any

    usage = AgentUsage(1, 1200, 80, SimpleNamespace(cached_tokens=1000))
    text = SimpleNamespace(type="output_text", text="I look.")
    items = [
        SimpleNamespace(type="message", content=[text]),
        SimpleNamespace(type="function_call", call_id="c1", name="ls", arguments="{}"),
    ]
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        rec.turn(usage=usage, message=items)
        rec.tool_call("ls", {}, "a", call_id="c1")
        found = read_session(store, find_session(store, "mine"))
        assert count_missed(store) == 0
    assert (found.turns[0].input_tokens, found.turns[0].cache_read_tokens) == (200, 1000)
    assert len(found.tool_calls) == 1


def test_an_endpoints_absurd_figures_are_unknown_and_not_an_error(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        rec.turn(usage={"prompt_tokens": 10**30, "completion_tokens": -4})
        assert rec.stats().input_tokens is None
        assert rec.stats().partial_turns == 1


def test_a_clock_that_was_set_back_leaves_a_duration_unknown(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        for spent in (-0.3, math.nan, math.inf, 1e300):
            rec.turn(output_tokens=1, duration_ms=spent)
        assert store.query("select distinct duration_ms from turn") == [(None,)]


def test_ids_that_differ_in_half_characters_are_two_sessions(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        for name in ("a\ud800", "a\ud801", "a?"):
            record(store, name, model="m").turn(output_tokens=1)
        record(store, "a\ud800").turn(output_tokens=1)
        rows = store.query("select session_id, count(*) from turn group by 1 order by 2")
    assert [count for _, count in rows] == [1, 1, 2]


def test_an_exception_that_cannot_be_recorded_is_raised_as_it_is(tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    with build.open_home(tmp_path) as store:
        with pytest.raises(Mute), record(store, "mine"):
            raise Mute
        assert read_session(store, find_session(store, "mine")).outcome == "failure"
        assert b"Mute" in b"".join(line for part in read_tape(store) for line in part.lines())
