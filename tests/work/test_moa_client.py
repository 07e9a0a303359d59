"""The client of a mixture as programs written for OpenAI's use it, and what is on record then."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

import build
import relight
from build_moa import ADVICE, open_traced, preset, script
from relight.errors import RelightError
from relight.models import background
from relight.reports.sessions import find_session, read_session
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.work.moa.mixture import MoaTurn
from relight.work.moa.trace_report import find_trace
from scripted import Reply, Server, call

TOOLS = [{"type": "function", "function": {"name": "terminal"}}]
HELLO = [{"role": "user", "content": "Hello"}]


def was_answered(body: dict[str, Any]) -> bool:
    return any(one["role"] == "tool" for one in body["messages"])


def said(store: Store, name: str = "s") -> list[tuple[str, Any]]:
    talk = read_transcript(store, find_session(store, name))
    return [(one["role"], one.get("content")) for one in talk.messages]


def test_a_missing_key_is_reported_before_anyone_is_asked(tmp_path: Path) -> None:
    with Server(script) as server, build.open_home(tmp_path) as store:
        keyless = {"model": "actor", "base_url": server.base_url, "key_variable": "NO_SUCH_KEY"}
        for changes in ({"aggregator": keyless}, {"references": [keyless]}):
            client = relight.MoA(preset(server.base_url, **changes), store=store)
            for stream in (False, True):
                with pytest.raises(RelightError, match="NO_SUCH_KEY is not set"):
                    list(client.chat.completions.create(messages=HELLO, stream=stream))
        assert server.chats == []


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_while_advice_is_awaited_keeps_what_was_asked(tmp_path: Path, stream: bool) -> None:
    def slow(body: dict[str, Any]) -> Reply:
        return Reply(ADVICE, delay_seconds=0.0 if body["model"] == "adviser-0" else 30)

    async def leave(store: Store, url: str) -> None:
        async with relight.AsyncMoA(preset(url), store=store, session_id="s") as client:
            begun: list[MoaTurn] = []
            begin = client.mixture.begin

            def note_begin() -> MoaTurn:
                begun.append(begin())
                return begun[-1]

            client.mixture.begin = note_begin  # type: ignore[method-assign]

            def has_advice() -> bool:
                calls = [one for turn in begun for one in turn.references[:1]]
                return any(one.response is not None and one.error is None for one in calls)

            async def ask() -> None:
                told = await client.chat.completions.create(messages=HELLO, stream=stream)
                if stream:
                    async for _ in told:
                        pass

            asking = asyncio.create_task(ask())
            while not has_advice():
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    with Server(slow) as server, open_traced(tmp_path) as store:
        started = time.monotonic()
        asyncio.run(leave(store, server.base_url))
        assert time.monotonic() - started < 30  # the slow adviser was not waited for
        rows = store.query("select role, model, failure from turn order by model")
        (trace,) = find_trace(store, "s").turns
    assert rows == [("reference", "adviser-0", None), ("reference", "adviser-1", "interrupted")]
    assert trace["aggregator"] is None
    assert [bool(one["failure"]) for one in trace["references"]] == [False, True]


def test_a_cancelled_call_in_a_plain_program_is_recorded_before_it_returns(tmp_path: Path) -> None:
    slow = Server(lambda body: Reply("x", delay_seconds=30))
    with slow, build.open_home(tmp_path) as store:
        client = relight.MoA(preset(slow.base_url), store=store, session_id="s")
        work = background.BackgroundTask(client._complete(client._make_request(HELLO, None, {})))
        build.wait_for(lambda: len(slow.chats) == 2)
        work.end()
        assert work.result.cancelled()
        rows = store.query("select failure from turn")
    assert rows == [("interrupted",), ("interrupted",)]


def test_an_asynchronous_request_begins_when_it_is_awaited(tmp_path: Path) -> None:
    async def ask(store: Store, url: str) -> None:
        async with relight.AsyncMoA(preset(url), store=store, session_id="s") as client:
            wrong = client.chat.completions.create(messages=HELLO, extra_query={"a": "b"})
            with pytest.raises(RelightError, match="extra_query cannot be given"):
                await wrong
            client.chat.completions.create(messages=HELLO).close()  # never awaited
            await client.chat.completions.create(messages=[{"role": "user", "content": "Bye"}])

    with Server(script) as server, open_traced(tmp_path) as store:
        asyncio.run(ask(store, server.base_url))
        assert [text for role, text in said(store) if role == "user"] == ["Bye"]


@pytest.mark.parametrize(
    ("settings", "variable", "limit"),
    [
        ("", None, 8000),
        ("max_tool_chars = 500\n", None, 500),
        ("max_tool_chars = 500\n", "300", 300),
    ],
)
def test_a_long_tool_result_is_shortened_for_every_model_and_recorded_in_full(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    variable: str | None,
    limit: int,
) -> None:
    monkeypatch.delenv("RELIGHT_MAX_TOOL_CHARS", raising=False)
    if variable:
        monkeypatch.setenv("RELIGHT_MAX_TOOL_CHARS", variable)
    long = "0123456789" * 2000
    asked = {"role": "assistant", "content": None, "tool_calls": [call("terminal", command="ls")]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": long}
    messages: list[Any] = [*HELLO, asked, result]
    with build.open_home(tmp_path) as store:
        home = store.config.home
    with (home / "config.toml").open("a") as file:
        file.write(settings)
    with Server(script) as server, relight.open_store(home) as store:
        with relight.MoA(preset(server.base_url), store=store, session_id="s") as client:
            client.chat.completions.create(messages=messages)
        assert ("tool", long) in said(store)
    assert messages[2]["content"] == long
    assert len(server.chats) == 3
    for sent in server.chats:
        (shown,) = [m["content"] for m in sent.body["messages"] if "0123" in str(m["content"])]
        assert "[truncated, 20000 chars total]" in shown
        assert limit < len(shown) < limit + 150


def test_every_conversation_of_a_client_is_on_record(tmp_path: Path) -> None:
    with Server(script) as server, build.open_home(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        create = client.chat.completions.create
        first: list[Any] = [{"role": "user", "content": "one"}]
        second: list[Any] = [{"role": "user", "content": "two"}]
        for talk in (first, second):
            talk.append(create(messages=talk).choices[0].message)
            talk.append({"role": "user", "content": f"more of {talk[0]['content']}"})
        for talk in (first, second, second):  # in turns, and once again as after a failure
            create(messages=talk)
        users = [content for role, content in said(store) if role == "user"]
    assert users == ["one", "two", "more of one", "more of two"]


def test_a_shortened_conversation_is_not_recorded_again(tmp_path: Path) -> None:
    def acting(body: dict[str, Any]) -> Reply:
        is_asked = "tools" in body and not was_answered(body)
        return Reply("k", [call("terminal", command="ls")] if is_asked else ())

    with Server(acting) as server, build.open_home(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")
        create = client.chat.completions.create
        talk: list[Any] = [{"role": "system", "content": "It is noon."}, *HELLO]
        talk.append(create(messages=talk, tools=TOOLS).choices[0].message)
        talk.append({"role": "tool", "tool_call_id": "call_1", "content": "a.txt"})
        talk.append(create(messages=talk, tools=TOOLS).choices[0].message)
        summary = {"role": "user", "content": "Summary of what was."}
        new = {"role": "user", "content": "Go on"}
        late = {"role": "system", "content": "It is one."}
        create(messages=[late, summary, *talk[2:], new])
        told = [one for one in said(store) if one[0] != "assistant"]
        calls = read_session(store, find_session(store, "s")).tool_calls
    assert told == [
        ("system", "It is noon."),
        ("user", "Hello"),
        ("tool", "a.txt"),
        ("system", "It is one."),
        ("user", "Summary of what was."),
        ("user", "Go on"),
    ]
    assert len(calls) == 1


def test_an_answers_message_may_be_put_back_as_it_is() -> None:
    def acting(body: dict[str, Any]) -> Reply:
        if body["model"].startswith("adviser"):
            return Reply(ADVICE)
        asked = [call("terminal", command="ls")]
        return Reply("Done.") if was_answered(body) else Reply(None, asked)

    with Server(acting) as server:
        create = relight.MoA(preset(server.base_url)).chat.completions.create
        answer = create(messages=HELLO, tools=TOOLS).choices[0].message
        result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "a.txt"}
        real = ChatCompletionMessage.model_validate(answer.model_dump(exclude_none=True))
        by_hand = {"role": "assistant", "content": None, "tool_calls": answer.tool_calls}
        for message in (answer, real, by_hand, answer.model_dump(exclude_none=True)):
            told = create(messages=[*HELLO, message, result], tools=TOOLS)
            assert told.choices[0].message.content == "Done."
        sent = [one.body["messages"][1] for one in server.chats[3:] if one.body["model"] == "actor"]
    plain = {"role": "assistant", "tool_calls": [call("terminal", command="ls")]}
    assert [{k: v for k, v in one.items() if v is not None} for one in sent] == [plain] * 4


def test_usage_is_reported_in_a_chunk_only_where_it_was_asked_for() -> None:
    with Server(script) as server:
        create = relight.MoA(preset(server.base_url)).chat.completions.create
        without = list(create(messages=HELLO, stream=True))
        options = {"include_usage": True, "include_obfuscation": False}
        given = list(create(messages=HELLO, stream=True, stream_options=options))
        sent = [one.body["stream_options"] for one in server.chats if "stream" in one.body]
    assert all(one.choices for one in without)
    assert [bool(one.choices) for one in given][-2:] == [True, False]
    assert given[-1].usage.total_tokens == 120
    assert sent == [{"include_usage": True}, options]


def test_further_fields_are_sent_and_what_would_contradict_the_rest_is_refused() -> None:
    with Server(script) as server:
        create = relight.MoA(preset(server.base_url)).chat.completions.create
        create(messages=HELLO, user="me", temperature=0.1, extra_body={"top_k": 3}, timeout=9)
        acted = server.chats[-1].body
        seen = len(server.chats)
        refused: list[dict[str, Any]] = [
            {"extra_body": {"messages": []}},
            {"extra_body": {"model": "other"}},
            {"extra_headers": {"X": "y"}},
            {"timeout": float("nan")},
            {"stop": object()},
        ]
        for options in refused:
            with pytest.raises(RelightError):
                create(messages=HELLO, **options)
        for messages in ([object()], ["hello"], [{"role": "user", "content": {1: object()}}]):
            with pytest.raises(RelightError, match="message 0"):
                create(messages=messages)
        assert len(server.chats) == seen
    assert (acted["user"], acted["temperature"], acted["top_k"]) == ("me", 0.1, 3)
    assert "timeout" not in acted


def test_a_calls_time_is_for_all_of_it() -> None:
    with Server(lambda body: Reply(status=503, body=b"busy")) as server:
        patient = {"model": "actor", "base_url": server.base_url}
        client = relight.MoA(preset(server.base_url, aggregator=patient))
        started = time.monotonic()
        with pytest.raises(RelightError, match="busy"):
            client.chat.completions.create(messages=HELLO, timeout=2)
        assert time.monotonic() - started < 20


def test_strange_values_in_an_answer_do_not_cost_the_answer() -> None:
    message = {"role": "assistant", "content": "fine", "tool_calls": [{"function": "odd"}, 7]}
    strange = {"id": 5, "created": 1.5, "model": None, "usage": {"prompt_tokens": "many"}}
    choice = {"index": 0, "message": message, "delta": message, "finish_reason": 3}
    body = json.dumps({**strange, "choices": [choice]}).encode()
    stream = b"data: " + body + b"\n\ndata: [DONE]\n\n"
    kinds = {True: (stream, "text/event-stream"), False: (body, "application/json")}

    def script(request: dict[str, Any]) -> Reply:
        data, kind = kinds[bool(request.get("stream"))]
        return Reply(body=data, headers={"Content-Type": kind})

    with Server(script) as server:
        create = relight.MoA(preset(server.base_url)).chat.completions.create
        whole = create(messages=HELLO)
        chunks = list(create(messages=HELLO, stream=True))
    assert whole.choices[0].message.content == "fine"
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "fine"


def test_threads_may_share_a_client(tmp_path: Path) -> None:
    with Server(script) as server, open_traced(tmp_path) as store:
        client = relight.MoA(preset(server.base_url), store=store, session_id="s")

        def ask(number: int) -> None:
            messages = [{"role": "user", "content": f"question {number}"}]
            client.chat.completions.create(messages=messages)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.recorder is not None
        assert client.recorder.stats().turns == 24
        assert len(find_trace(store, "s").turns) == 8
        assert len([one for one in said(store) if one[0] == "user"]) == 8
