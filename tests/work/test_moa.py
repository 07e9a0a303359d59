"""Mixtures of agents: who is asked what, what is traced, and what is on record."""

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import build
import relight
from build_moa import ADVICE, open_traced, preset, script
from relight.errors import RelightError
from relight.models.endpoints import UpstreamError
from relight.store import Store
from relight.work.moa.mixture import ADVISER, GUIDANCE, make_view
from relight.work.moa.trace_report import (
    find_trace,
    list_traces,
    read_trace_file,
    report_trace,
    sum_call_costs,
)
from relight.work.moa.traces import trace_path, write_trace
from scripted import USAGE, Reply, Server, call

ASKED = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "What now?"}]


def test_advisers_are_asked_and_the_acting_model_has_their_advice_at_the_end(
    tmp_path: Path,
) -> None:
    with Server(script) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        tools = [{"type": "function", "function": {"name": "terminal"}}]
        told = client.chat.completions.create(messages=ASKED, tools=tools, tool_choice="auto")
        bodies = {one.body["model"]: one.body for one in server.chats}
    assert told.choices[0].message.tool_calls[0].function.name == "terminal"
    assert told.choices[0].finish_reason == "tool_calls"
    view = bodies["adviser-0"]
    assert view["messages"][0] == {"role": "system", "content": ADVISER}
    assert view["temperature"] == 0.6
    assert "tools" not in view
    acted = bodies["actor"]
    assert acted["messages"][0] == ASKED[0]
    assert acted["messages"][-1]["content"].startswith("What now?\n\n" + GUIDANCE)
    assert ADVICE in acted["messages"][-1]["content"]
    assert (acted["tools"], acted["tool_choice"]) == (tools, "auto")
    assert ASKED[1] == {"role": "user", "content": "What now?"}


def test_every_call_is_a_turn_with_its_role_and_the_costs_add_up(tmp_path: Path) -> None:
    prices = {"prompt": "0.000001", "completion": "0.00001"}
    models = [{"id": name, "pricing": prices} for name in ("adviser-0", "adviser-1", "actor")]
    with Server(script, models=models) as server, open_traced(tmp_path) as store:
        with relight.MoA(preset(server.base_url), store=store, session_id="s") as client:
            client.chat.completions.create(messages=ASKED)
            assert client.recorder is not None
            stats = client.recorder.stats()
        rows = store.query("select role, model, cost_nanos, cost_source from turn order by role")
        trace = find_trace(store, "s").turns[0]
    assert [row[0] for row in rows] == ["aggregator", "reference", "reference"]
    assert {row[2:] for row in rows} == {(300_000, "endpoint")}
    assert stats.cost_usd == pytest.approx(0.0009)
    costs = [one["cost_usd"] for one in (*trace["references"], trace["aggregator"])]
    assert sum(costs) == pytest.approx(0.0009)


def test_the_same_view_again_is_answered_from_the_cache(tmp_path: Path) -> None:
    with Server(script) as server, open_traced(tmp_path) as store:
        with relight.MoA(preset(server.base_url), store=store, session_id="s") as client:
            client.chat.completions.create(messages=ASKED)
            again = client.chat.completions.create(messages=[{"role": "system"}, ASKED[1]])
            client.chat.completions.create(messages=[*ASKED, {"role": "user", "content": "And?"}])
        asked = [one.body["model"] for one in server.chats]
        (turns,) = store.query("select count(*) from turn")[0]
        trace = find_trace(store, "s").turns
    assert sorted(asked) == sorted(["adviser-0", "adviser-1", "actor"] * 2 + ["actor"])
    assert turns == 7
    assert again.moa["references"][0]["cached"] is True
    assert [one["references"][0]["cached"] for one in trace] == [False, True, False]


def test_a_response_from_the_cache_counts_nowhere_again(tmp_path: Path) -> None:
    def differing(body: dict[str, Any]) -> Reply:
        words = {"adviser-0": "look at the log", "adviser-1": "never touch anything"}
        return Reply(words.get(body["model"], "done"))

    prices = {"prompt": "0.000001", "completion": "0.00001"}
    models = [{"id": name, "pricing": prices} for name in ("adviser-0", "adviser-1", "actor")]
    with Server(differing, models=models) as server, open_traced(tmp_path) as store:
        with relight.MoA(preset(server.base_url), store=store, session_id="s") as client:
            for question in ("a", "b", "a"):
                client.chat.completions.create(messages=[{"role": "user", "content": question}])
        trace = find_trace(store, "s")
        ((cost,),) = store.query("select sum(cost_nanos) / 1e9 from turn")
    report = report_trace(trace)
    figures = [(row.role, row.calls, row.disagreed, row.untimed_calls) for row in report.models]
    assert figures == [("reference", 2, 2, 0), ("reference", 2, 2, 0), ("aggregator", 3, 0, 0)]
    calls = [call for turn in trace.turns for call in (*turn["references"], turn["aggregator"])]
    # the lines of the file add up to the cost of the session
    assert sum(call["cost_usd"] for call in calls) == pytest.approx(cost)
    cached = [call for call in calls if call["cached"]]
    assert [(one["usage"], one["cost_usd"], one["duration_ms"]) for one in cached] == [
        ({}, 0.0, None)
    ] * 2


def test_a_trace_without_times_has_an_unknown_time(tmp_path: Path) -> None:
    reference = {"label": "a", "model": "a", "output": "x", "usage": {"output_tokens": 1}}
    timed = {**reference, "duration_ms": 1500}
    line = {"ts": 1794712615.1930428, "session_id": "h", "preset": "p", "references": [reference]}
    turns = [line, {**line, "references": [timed, {**timed, "label": "b"}]}]
    path = tmp_path / "h.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    first = report_trace(read_trace_file(path), 1).models
    assert [(row.duration_ms, row.untimed_calls) for row in first] == [(None, 1)]
    both = report_trace(read_trace_file(path)).models
    assert [(row.duration_ms, row.untimed_calls) for row in both] == [(1500, 1), (1500, 0)]


def test_a_failed_adviser_does_not_fail_the_turn_and_all_failed_is_said(tmp_path: Path) -> None:
    def failing(body: dict[str, Any]) -> Reply:
        if body["model"] == "adviser-0" or "everyone" in json.dumps(body["messages"]):
            is_actor = body["model"] == "actor"
            return script(body) if is_actor else Reply(status=401, body=b'{"error": "no"}')
        return script(body)

    with Server(failing) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        one = client.chat.completions.create(messages=ASKED)
        everyone = [{"role": "user", "content": "everyone"}]
        none = client.chat.completions.create(messages=everyone)
        told = server.chats[-1].body["messages"][-1]["content"]
        kinds = store.query("select failure from turn where role = 'reference' order by at, id")
    assert [ref["failure"] for ref in one.moa["references"]] == ["auth", None]
    assert none.choices[0].message.content == "I will look."
    assert "No adviser answered" in told
    assert sorted(str(kind) for (kind,) in kinds) == ["None", "auth", "auth", "auth"]


def test_a_slow_adviser_does_not_hold_the_turn_beyond_its_limit() -> None:
    def slow(body: dict[str, Any]) -> Reply:
        reply = script(body)
        reply.delay_seconds = 60.0 if body["model"] == "adviser-1" else 0.0
        return reply

    with Server(slow) as server:
        chosen = preset(server.base_url, reference_timeout_seconds=3)
        started = time.monotonic()
        told = relight.MoA(chosen).chat.completions.create(messages=ASKED)
        assert time.monotonic() - started < 30
    assert [one["failure"] for one in told.moa["references"]] == [None, "timeout"]


def test_a_failing_acting_model_is_reported_traced_and_recorded(tmp_path: Path) -> None:
    def failing(body: dict[str, Any]) -> Reply:
        return script(body) if body["model"] != "actor" else Reply(status=401, body=b"{}")

    with Server(failing) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        with pytest.raises(UpstreamError):
            client.chat.completions.create(messages=ASKED)
        with pytest.raises(UpstreamError):
            list(client.chat.completions.create(messages=ASKED, stream=True))
        trace = find_trace(store, "s").turns
        kinds = store.query("select failure from turn where role = 'aggregator'")
        summary = list_traces(store)[0]
        spent = store.query("select sum(cost_nanos) from turn where cost_nanos is not null")
    assert [one["aggregator"]["failure"]["kind"] for one in trace] == ["auth", "auth"]
    assert kinds == [("auth",), ("auth",)]
    # refused before any answer: free, in the trace as in the record
    assert {one["aggregator"]["cost_usd"] for one in trace} == {0.0}
    assert summary.cost_usd == pytest.approx(spent[0][0] / 1e9)


def test_the_cost_of_a_traced_call_is_unknown_unless_it_was_refused() -> None:
    late = {"failure": {"kind": "timeout", "reason": "it did not answer within 60 seconds"}}
    refused = {"failure": {"kind": "auth", "reason": "HTTP 401: Unauthorized"}}
    assert sum_call_costs([late, refused, {"cost_usd": "0.5"}, {"cached": True}]) == (0.5, 1)


def test_a_broken_stream_is_a_failure_with_what_had_arrived(tmp_path: Path) -> None:
    def breaking(body: dict[str, Any]) -> Reply:
        reply = script(body)
        reply.breaks_after = 2 if body["model"] == "actor" else None
        return reply

    with Server(breaking) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        with pytest.raises(UpstreamError):
            list(client.chat.completions.create(messages=ASKED, stream=True))
        acted = find_trace(store, "s").turns[0]["aggregator"]
    assert acted["output"] == "I will "
    assert acted["failure"]["kind"] in ("server_error", "malformed_response")


def test_leaving_a_stream_early_closes_it_and_keeps_what_came(tmp_path: Path) -> None:
    def endless(body: dict[str, Any]) -> Reply:
        reply = script(body)
        reply.never_ends = body["model"] == "actor"
        return reply

    with Server(endless) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        with client.chat.completions.create(messages=ASKED, stream=True) as chunks:
            next(chunks), next(chunks)
        build.wait_for(lambda: server.left)
        acted = find_trace(store, "s").turns[0]["aggregator"]
        assert server.left == 1
    assert acted["failure"]["kind"] == "interrupted"
    assert acted["output"].startswith("I will")


def test_asynchronous_programs_get_the_same(tmp_path: Path) -> None:
    async def talk(store: Store, url: str) -> tuple[Any, str]:
        async with relight.AsyncMoA(preset(url), store=store, session_id="s") as client:
            whole = await client.chat.completions.create(messages=ASKED)
            chunks = await client.chat.completions.create(messages=ASKED, stream=True)
            parts = [one.choices[0].delta.content or "" async for one in chunks if one.choices]
            return whole, "".join(parts)

    with Server(script) as server, open_traced(tmp_path) as store:
        whole, streamed = asyncio.run(talk(store, server.base_url))
    assert whole.choices[0].message.content == streamed == "I will look."


def test_the_openai_sdk_understands_our_shapes(tmp_path: Path) -> None:
    with Server(script) as server:
        client = relight.MoA(preset(server.base_url))
        tools = [{"type": "function", "function": {"name": "terminal"}}]
        whole = client.chat.completions.create(messages=ASKED, tools=tools)
        usage = {"include_usage": True}
        options: dict[str, Any] = {"tools": tools, "stream": True, "stream_options": usage}
        chunks = list(client.chat.completions.create(messages=ASKED, **options))
    real = ChatCompletion.model_validate(whole.to_dict(), strict=True)
    assert real.choices[0].message.tool_calls is not None
    assert real.choices[0].message.tool_calls[0].to_dict() == call("terminal", command="tail log")
    assert real.usage is not None
    assert (real.usage.prompt_tokens, whole.usage.prompt_tokens) == (100, 100)
    parsed = [ChatCompletionChunk.model_validate(one.to_dict(), strict=True) for one in chunks]
    text = "".join(one.choices[0].delta.content or "" for one in parsed if one.choices)
    assert text == "I will look."
    assert parsed[-1].usage is not None
    assert parsed[-1].usage.total_tokens == USAGE["total_tokens"]
    assert json.loads(whole.model_dump_json())["choices"][0]["finish_reason"] == "tool_calls"


TEXT = st.text(max_size=30) | st.just("") | st.sampled_from(["☃ 雪", "a\u2028b", "\ud800", "\0"])
CALLS = st.lists(
    st.builds(
        lambda n, text: call(f"tool_{n}", f"call_{n}", text=text),
        st.integers(0, 3),
        st.text(max_size=10),
    ),
    max_size=3,
)
PARTS = TEXT | st.none() | st.lists(st.builds(lambda t: {"type": "text", "text": t}, TEXT))
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, PARTS),
        st.builds(lambda text: {"role": "system", "content": text}, TEXT),
        st.builds(
            lambda text, calls: {"role": "assistant", "content": text, "tool_calls": calls},
            TEXT | st.none(),
            CALLS,
        ),
        st.builds(
            lambda n, text: {"role": "tool", "tool_call_id": f"call_{n}", "content": text},
            st.integers(0, 3),
            st.text(max_size=6000),
        ),
    ),
    max_size=6,
)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2) | st.none(),
        "max_tokens": st.integers(1, 9),
        "user": TEXT,
        "tools": st.just([{"type": "function", "function": {"name": "f\ud800"}}]),
        "extra_body": st.dictionaries(st.sampled_from(["top_k", "temperature"]), st.integers(0, 2)),
        "stream_options": st.just({"include_usage": False, "include_obfuscation": False}),
    },
)


def test_a_trace_says_what_went_over_the_wire(tmp_path: Path) -> None:
    with Server(lambda body: Reply(said[0])) as server, open_traced(tmp_path) as store:
        said = [""]
        client = relight.MoA(preset(server.base_url), store=store, session_id="law")
        path = trace_path(store.config.trace_folder, "law")

        @settings(max_examples=200)
        @given(
            messages=MESSAGES, answer=st.text(max_size=40), stream=st.booleans(), options=OPTIONS
        )
        def law(
            messages: list[dict[str, Any]], answer: str, stream: bool, options: dict[str, Any]
        ) -> None:
            said[0] = answer
            client.mixture._advice.clear()
            server.requests.clear()
            path.unlink(missing_ok=True)
            told = client.chat.completions.create(messages=messages, stream=stream, **options)
            text = _join(told) if stream else told.choices[0].message.content or ""
            (turn,) = read_trace_file(path).turns
            traced = [*turn["references"], turn["aggregator"]]
            bodies = {
                one["model"]: {
                    "model": one["model"],
                    "messages": one["input_messages"],
                    **one["settings"],
                }
                for one in traced
            }
            assert bodies == {one.body["model"]: one.body for one in server.chats}
            for one in traced:
                assert one["temperature"] == bodies[one["model"]].get("temperature")
            assert {one["output"] or "" for one in traced} == {answer} == {text}
            assert turn["aggregator"]["streamed"] is stream

        law()


def _join(chunks: Any) -> str:
    return "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)


@given(messages=MESSAGES)
def test_an_advisers_view_is_plain_takes_turns_and_ends_with_a_user(
    messages: list[Mapping[str, Any]],
) -> None:
    view = make_view(messages)
    roles = [one["role"] for one in view]
    assert roles[0] == "system"
    assert roles[-1] == "user"
    assert all(a != b for a, b in pairwise(roles))
    assert all(isinstance(one["content"], str) and set(one) == {"role", "content"} for one in view)


def test_without_traces_nothing_is_written(tmp_path: Path) -> None:
    with Server(script) as server, open_traced(tmp_path, is_traced=False) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        client.chat.completions.create(messages=ASKED)
        assert not store.config.trace_folder.exists()


def test_a_trace_that_cannot_be_written_does_not_break_the_turn(tmp_path: Path) -> None:
    with Server(script) as server, open_traced(tmp_path) as store:
        store.config.trace_folder.write_text("a file where a folder should be")
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        told = client.chat.completions.create(messages=ASKED)
        assert told.choices[0].message.content == "I will look."
        assert store.query("select value from meta where key = 'missed'") == [("1",)]


def test_turns_written_at_once_never_mix_and_a_torn_line_is_counted(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            write_trace(tmp_path, "s", {"references": [], "who": number, "bulk": "x" * 20_000})

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    path = trace_path(tmp_path, "s")
    assert len(read_trace_file(path).turns) == 80
    with path.open("ab") as file:
        file.write(b'{"references": [], "torn": "by a cra')
    assert (len(read_trace_file(path).turns), read_trace_file(path).skipped) == (80, 1)
    write_trace(tmp_path, "s", {"references": []})
    assert (len(read_trace_file(path).turns), read_trace_file(path).skipped) == (81, 1)


def test_no_two_ids_share_a_trace_file_and_none_leaves_the_folder(tmp_path: Path) -> None:
    first = trace_path(tmp_path, "../../etc/passwd")
    names = ["../../etc/passwd", "..", ".", "", "a/b", "a-b", "a_b", "A-B", "x" * 300, "x" * 301]
    names += ["con", "a\0b", "\ud800", first.stem, "ä", "a"]
    paths = {trace_path(tmp_path, name) for name in names}
    assert len({str(path).lower() for path in paths}) == len(names)
    assert {path.parent for path in paths} == {tmp_path}
    for name in names:
        write_trace(tmp_path, name, {"references": []})
    assert sum(len(read_trace_file(path).turns) for path in paths) == len(names)


def test_presets_that_are_not_there_or_do_not_fit_are_reported(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with pytest.raises(RelightError, match="no preset 'gone'"):
            relight.MoA("gone", store=store)
        with pytest.raises(RelightError, match="does not fit"):
            relight.MoA({"references": []}, store=store)
        with pytest.raises(RelightError, match="does not fit"):
            relight.MoA(preset("http://x", surprise=1), store=store)
