"""Relight's plugin inside Hermes, hook by hook; a real Hermes with it is in `real/`."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import build
import build_warm
from relight.chat.blocks import TAG
from relight.intake.rebuild import rebuild
from relight.model import row_id
from relight.reports.totals import report
from relight.store import Store
from relight.warm.agents.hermes_plugin import Plugin, guard, register
from relight.warm.capture import capture_template

SESSION = "20261115_000000_abc123"
TASK = "Fix the rounding in the invoices module"
BEGIN = build.START / 1000


def answered(number: int, *, output: int, **facts: Any) -> dict[str, Any]:
    usage = {"input_tokens": 500, "output_tokens": output, "cache_read_tokens": 200}
    return {
        "session_id": SESSION,
        "api_request_id": f"turn:api:{number}",
        "model": "gpt-5.1",
        "provider": "openai",
        "usage": {**usage, "cache_write_tokens": 0, "reasoning_tokens": 0},
        "api_duration": 1.5,
        "started_at": BEGIN + number,
        "ended_at": BEGIN + number + 1.5,
        **facts,
    }


def figures(store: Store) -> list[tuple[Any, ...]]:
    return store.query(
        "select sum(turns), sum(input_tokens), sum(cache_read_tokens), sum(output_tokens),"
        " sum(tool_calls), sum(cost_nanos) from session_day"
    )


def test_only_the_first_turn_of_a_main_session_gets_a_seed(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    plugin = Plugin(str(tmp_path / "relight"))
    facts = {"session_id": SESSION, "user_message": TASK, "is_first_turn": True}
    given = plugin.pre_llm_call(facts)
    assert given is not None
    assert given["context"].startswith(f'<{TAG} name="rounding"')
    assert plugin.pre_llm_call(facts | {"is_first_turn": False}) is None
    assert plugin.pre_llm_call(facts | {"session_id": "x", "platform": "subagent"}) is None
    assert plugin.pre_llm_call(facts | {"user_message": [{"type": "image"}]}) is None


def test_hermes_gets_the_example_of_hermes_before_one_of_another_agent(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="another")
        messages = build_warm.session(f"{TASK} once more", ("make", "cargo"))
        capture_template(store, "hermes:1", name="own", messages=messages, outcome="success")
    facts = {"session_id": SESSION, "user_message": TASK, "is_first_turn": True}
    given = Plugin(str(tmp_path / "relight")).pre_llm_call(facts)
    assert given is not None
    assert given["context"].startswith(f'<{TAG} name="own"')


@pytest.mark.parametrize("database_first", [True, False])
def test_single_calls_and_hermes_sums_are_never_added_twice(
    tmp_path: Path, database_first: bool
) -> None:
    """Hermes says two calls, 1,000 in, 400 cached, 68 out; so do the two events, in any order."""
    build.hermes_session(build.open_hermes(tmp_path))
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        if database_first:
            build.import_home(store, tmp_path)
        plugin.post_api_request(answered(1, output=40))
        called = {"session_id": SESSION, "tool_call_id": "call_1", "tool_name": "terminal"}
        plugin.post_tool_call(called | {"duration_ms": 26})
        plugin.post_api_request(answered(2, output=28))
        plugin.on_session_end({"session_id": SESSION})
        build.import_home(store, tmp_path)
        before = figures(store)
        turns = store.query("select calls, duration_ms, usage_status from turn")
        rebuild(store, workers=1)
        after = figures(store)
    assert before[0][:5] == (2, 1000, 400, 68, 1)
    assert before == after
    assert turns == [(1, 1500, "final"), (1, 1500, "final")]


def test_what_a_session_is_charged_beside_its_turns_stays(tmp_path: Path) -> None:
    """A title costs tokens too, and no hook reports it: its sum is not the conversation's."""
    database = build.open_hermes(tmp_path)
    build.hermes_session(database)
    task = {"task": "title", "model": "gpt-5.1", "api_call_count": 1, "input_tokens": 90}
    build.insert(database, "session_model_usage", session_id=SESSION, output_tokens=9, **task)
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        plugin.post_api_request(answered(1, output=40))
        plugin.post_api_request(answered(2, output=28))
        plugin.flush({})
        build.import_home(store, tmp_path)
        assert figures(store)[0][:4] == (3, 1090, 400, 77)


def test_failures_and_preloaded_skills_are_on_record(tmp_path: Path) -> None:
    plugin = Plugin(str(tmp_path / "relight"))
    prompt = (
        'Be kind.\n\n[IMPORTANT: The user launched this CLI session with the "tidy" skill'
        " preloaded. Treat it as guidance.]\n\n---\nname: tidy\nversion: 1.2.0\n---\nTidy up."
    )
    request = {"session_id": SESSION, "request_messages": [{"role": "system", "content": prompt}]}
    with build.open_home(tmp_path) as store:
        plugin.pre_api_request(request)
        plugin.pre_api_request(request)
        error = {"type": "RateLimitError", "message": "429 too many requests"}
        failed = {"error": error, "status_code": 429, "api_request_id": "turn:api:1"}
        plugin.api_request_error({"session_id": SESSION, "model": "m", "ended_at": BEGIN, **failed})
        skills = store.query("select skill_name, entry, skill_version from skill_entry")
        turns = store.query("select calls, failure, failure_text from turn")
    assert skills == [("tidy", "preload", "1.2.0")]
    assert turns == [(0, "rate_limit", "429 too many requests")]


def test_every_hook_takes_anything_and_never_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path))
    (tmp_path / "relight.db").write_bytes(b"not a database" * 99)
    hooks: dict[str, Any] = {}

    class Context:
        def register_hook(self, name: str, hook: Any) -> None:
            hooks[name] = hook

    register(Context())
    assert set(hooks) >= {"pre_llm_call", "post_api_request", "api_request_error"}
    for hook in hooks.values():
        assert hook() is None
        assert hook(session_id=4, usage=7, error=object(), request_messages=3, new="x") is None
    first = {"session_id": "s", "user_message": TASK, "is_first_turn": True}
    assert hooks["pre_llm_call"](**first) is None
    assert (tmp_path / "missed.log").read_text().count("\n") >= 1
    assert guard(Plugin(), "no_such_hook")() is None


def test_calls_of_one_answer_each_keep_their_own_time(tmp_path: Path) -> None:
    """They end at the same moment in Hermes' record; only their ids tell them apart."""
    database = build.open_hermes(tmp_path)
    build.insert(database, "sessions", id=SESSION, source="cli", started_at=BEGIN)
    function = {"name": "terminal", "arguments": '{"command": "make"}'}
    asked = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(3)]
    message = {"role": "assistant", "tool_calls": json.dumps(asked), "timestamp": BEGIN}
    build.insert(database, "messages", session_id=SESSION, **message)
    for number in range(3):
        result = {"role": "tool", "tool_call_id": f"call_{number}", "content": '{"output": "ok"}'}
        build.insert(database, "messages", session_id=SESSION, timestamp=BEGIN + 120, **result)
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        for number in (2, 0, 1):
            called = {"session_id": SESSION, "tool_name": "terminal"}
            facts = {"tool_call_id": f"call_{number}", "duration_ms": 1000 * number + 5}
            plugin.post_tool_call(called | facts | {"ended_at": BEGIN + 60 * number})
        plugin.on_session_end({"session_id": SESSION})
        build.import_home(store, tmp_path)
        told = dict(store.query("select name, duration_ms from tool_call"))
        rebuild(store, workers=1)
        again = dict(store.query("select name, duration_ms from tool_call"))
    names = [row_id("name", "hermes", f"{SESSION}:call_{number}") for number in range(3)]
    assert told == again == {name: 1000 * number + 5 for number, name in enumerate(names)}


CUSTOM = {"model": "at-home", "billing_provider": "custom"}


def custom_session(folder: Path, **changes: Any) -> sqlite3.Connection:
    """A session of two calls with a model that only Hermes has a price for."""
    database = build.open_hermes(folder)
    build.hermes_session(database)
    cost = {"estimated_cost_usd": 0.004872, "cost_status": "estimated"} | changes
    for table in ("sessions", "session_model_usage"):
        columns = {row[1] for row in database.execute(f"pragma table_info({table})")}
        known = {k: v for k, v in (CUSTOM | cost).items() if k in columns}
        database.execute(
            f"update {table} set {', '.join(f'{name} = ?' for name in known)}", (*known.values(),)
        )
    return database


def told_costs(store: Store) -> tuple[Any, ...]:
    figures = report(store, ()).total
    return figures.turns, figures.cost_usd, figures.included_usd, figures.unpriced_turns


@pytest.mark.parametrize("database_first", [True, False])
def test_a_call_that_failed_leaves_the_cost_that_hermes_knows(
    tmp_path: Path, database_first: bool
) -> None:
    custom_session(tmp_path)
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        if database_first:
            build.import_home(store, tmp_path)
            assert told_costs(store) == (2, 0.004872, 0.0, 0)
        error = {"type": "InternalServerError", "message": "HTTP 500: scripted outage"}
        failed = {"error": error, "status_code": 500, "api_request_id": "turn:api:0"}
        plugin.api_request_error(
            {"session_id": SESSION, "model": "at-home", "ended_at": BEGIN, **failed}
        )
        plugin.post_api_request(answered(1, output=40, **CUSTOM))
        plugin.post_api_request(answered(2, output=28, **CUSTOM))
        plugin.on_session_end({"session_id": SESSION})
        build.import_home(store, tmp_path)
        assert told_costs(store) == (2, 0.004872, 0.0, 0)
        rebuild(store, workers=1)
        assert told_costs(store) == (2, 0.004872, 0.0, 0)


def test_calls_without_an_id_are_all_on_record(tmp_path: Path) -> None:
    """Hermes 0.14 gives a request no id, and a resumed session is another process."""
    custom_session(tmp_path)
    with build.open_home(tmp_path) as store:
        for number, output in ((1, 40), (2, 28)):
            plugin = Plugin(str(tmp_path / "relight"))
            plugin.post_api_request(answered(number, output=output, api_request_id=None, **CUSTOM))
            plugin.on_session_end({"session_id": SESSION})
        build.import_home(store, tmp_path)
        assert store.query("select count(*) from turn where calls = 1") == [(2,)]
        assert told_costs(store) == (2, 0.004872, 0.0, 0)


def test_a_tape_of_calls_that_were_all_named_none_gives_each_back(tmp_path: Path) -> None:
    custom_session(tmp_path)
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        plugin.post_api_request(answered(1, output=40, api_request_id="None", **CUSTOM))
        plugin.post_api_request(answered(2, output=28, api_request_id="None", **CUSTOM))
        plugin.flush({})
        build.import_home(store, tmp_path)
        assert told_costs(store) == (2, 0.004872, 0.0, 0)


def test_a_cost_is_shared_again_when_a_session_goes_on(tmp_path: Path) -> None:
    """A part of the calls is missing: the rest of Hermes' sums has its part of the cost."""
    database = custom_session(tmp_path)
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        plugin.post_api_request(answered(1, output=40, **CUSTOM))
        plugin.flush({})
        build.import_home(store, tmp_path)
        assert told_costs(store) == (2, 0.004872, 0.0, 0)
        plugin.post_api_request(answered(2, output=28, **CUSTOM))
        plugin.flush({})
        for table in ("sessions", "session_model_usage"):
            database.execute(f"update {table} set estimated_cost_usd = 0.006")
        build.import_home(store, tmp_path)
        assert told_costs(store) == (2, 0.006, 0.0, 0)


def test_what_a_plan_includes_is_not_spent_if_the_plugin_records_its_calls(tmp_path: Path) -> None:
    custom_session(tmp_path, model="gpt-5.1", billing_provider="openai", cost_status="included")
    plugin = Plugin(str(tmp_path / "relight"))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        before = told_costs(store)
        plugin.post_api_request(answered(1, output=40))
        plugin.post_api_request(answered(2, output=28))
        plugin.flush({})
        build.import_home(store, tmp_path)
        assert before[2] > 0
        assert told_costs(store) == (2, 0.0, pytest.approx(before[2]), 0)
