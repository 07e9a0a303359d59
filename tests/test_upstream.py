"""One call of a model: what goes over the wire, what comes back, and all that can go wrong."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight import background
from relight.answers import Answer, UpstreamError
from relight.endpoints import Endpoint, build_request
from relight.errors import RelightError
from relight.model import Cost, Failure, Usage
from relight.streams import Gathering, Splitter
from relight.upstream import ask, open_stream
from scripted import Reply, Server, call

HELLO = [{"role": "user", "content": "Hello"}]


def answer(server: Server, *, stream: bool = False, **settings: Any) -> Answer:
    endpoint = Endpoint(**{"model": "m", "base_url": server.base_url, "attempts": 1, **settings})
    return background.run(ask(build_request(endpoint, HELLO, stream=stream)))


def fail(server: Server, *, stream: bool = False, **settings: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        answer(server, stream=stream, **settings)
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_its_text_calls_usage_and_times(stream: bool) -> None:
    details = {"cached_tokens": 60}
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}
    reply = Reply("Grüße ☃", [call("f", a=1), call("g", "call_2")], usage=usage, delay_seconds=0.02)
    with Server([reply]) as server:
        told = answer(server, stream=stream, temperature=0.5, max_tokens=9)
        body = server.chats[0].body
    assert told.text == "Grüße ☃"
    assert told.message["tool_calls"] == reply.tool_calls
    assert told.usage == Usage(input=40, cache_read=60, cache_write=0, output=7)
    assert told.duration_ms >= 20
    assert (told.first_token_ms is not None) == stream
    assert (body["temperature"], body["max_tokens"], body["messages"]) == (0.5, 9, HELLO)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_chunks_may_be_cut_anywhere_even_inside_a_character(size: int) -> None:
    with Server([Reply("naïve ☃ 雪だるま 🎉", piece_bytes=size)]) as server:
        assert answer(server, stream=True).text == "naïve ☃ 雪だるま 🎉"


@given(texts=st.lists(st.text(), max_size=5), cuts=st.lists(st.integers(1, 9), min_size=1))
def test_a_stream_reads_the_same_however_it_is_cut(texts: list[str], cuts: list[int]) -> None:
    events = [json.dumps(text, ensure_ascii=False).encode("utf-8", "replace") for text in texts]
    data = b"".join(b"data: " + event + b"\r\n\r\n" for event in events)
    found: list[bytes] = []
    splitter, at, turn = Splitter(), 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert [*found, *splitter.finish()] == events


def test_the_endpoints_own_price_is_used_and_its_own_figure_before_it() -> None:
    prices = {"prompt": "0.000001", "completion": "0.000002"}
    replies = [
        Reply("a"),
        Reply("b", usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 2}),
    ]
    with Server(replies, models=[{"id": "m", "pricing": prices}]) as server:
        assert answer(server).cost == Cost(140_000, "estimated", "endpoint")
        assert answer(server).cost == Cost(2_000_000_000, "reported", "source")
        assert sum(one.path == "/v1/models" for one in server.requests) == 1


def test_an_endpoint_without_a_price_list_gives_no_cost() -> None:
    with Server([Reply("a")]) as server:
        assert answer(server).cost is None


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=401, body=b'{"error": {"message": "Incorrect API key"}}'), "auth"),
        (Reply(status=429, body=b'{"error": {"message": "slow down"}}'), "rate_limit"),
        (Reply(status=429, body=b'{"error": {"code": "insufficient_quota"}}'), "billing"),
        (Reply(status=500, body=b"oh"), "server_error"),
        (Reply(status=503, body=b"busy"), "overloaded"),
        (Reply(status=404, body=b'{"error": {"message": "no such route"}}'), "not_found"),
        (
            Reply(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
            "malformed_response",
        ),
        (Reply(body=b'{"choices": []}'), "malformed_response"),
        (Reply(body=b"[1, 2]"), "malformed_response"),
        (Reply(body=b"[" * 100_000), "malformed_response"),
        (Reply(body=b'{"error": {"code": 429, "message": "later"}}'), "rate_limit"),
        (Reply(body=b'{"error": "overloaded"}'), "malformed_response"),
        (Reply(body=b" " * (33 << 20)), "answer_too_large"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_each_trouble_is_a_failure_of_its_kind(reply: Reply, kind: str, stream: bool) -> None:
    with Server([reply]) as server:
        assert fail(server, stream=stream).failure.kind == kind


def test_an_answer_of_fifty_megabytes_is_refused_while_it_streams() -> None:
    chunk = json.dumps({"choices": [{"delta": {"content": "y" * (1 << 20)}}]}).encode()
    endless = b"".join(b"data: " + chunk + b"\n\n" for _ in range(50))
    headers = {"Content-Type": "text/event-stream"}
    with Server([Reply(body=endless, headers=headers)]) as server:
        error = fail(server, stream=True)
    assert error.failure.kind == "answer_too_large"
    assert error.partial is not None
    assert len(error.partial.text) >= 30 << 20


def test_no_server_is_a_failure_to_connect() -> None:
    with Server([]) as server:
        base_url = server.base_url
    endpoint = Endpoint(model="m", base_url=base_url, attempts=1)
    with pytest.raises(UpstreamError) as caught:
        background.run(ask(build_request(endpoint, HELLO)))
    assert caught.value.failure.kind == "connection"
    assert caught.value.hint


def test_a_stream_that_breaks_off_is_a_failure_with_what_had_arrived() -> None:
    with Server([Reply("one two three four five", breaks_after=3)]) as server:
        error = fail(server, stream=True)
    assert error.failure.kind in ("server_error", "malformed_response")
    assert error.partial is not None
    assert error.partial.text == "one two three "


def test_a_stream_that_never_ends_is_ended_when_its_time_is_over() -> None:
    with Server([Reply("so far", never_ends=True)]) as server:
        started = time.monotonic()
        error = fail(server, stream=True, timeout_seconds=0.4)
    assert error.failure.kind == "timeout"
    assert error.partial is not None
    assert error.partial.text == "so far"
    assert time.monotonic() - started < 3


def test_being_cancelled_closes_the_connection() -> None:
    with Server([Reply("so far", never_ends=True)]) as server:
        endpoint = Endpoint(model="m", base_url=server.base_url)
        future = background.submit(ask(build_request(endpoint, HELLO, stream=True)))
        while not server.chats:
            time.sleep(0.01)
        time.sleep(0.1)
        future.cancel()
        for _ in range(300):
            if server.left:
                break
            time.sleep(0.01)
        assert server.left == 1


def test_passing_trouble_is_tried_again_and_the_answer_comes() -> None:
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "31"})
    with Server([busy, Reply(status=500, body=b"oh"), Reply("at last")]) as server:
        told: list[tuple[Failure, float | None]] = []
        slept: list[float] = []
        request = build_request(Endpoint(model="m", base_url=server.base_url), HELLO)

        def see(attempt: int, failure: Failure | None, wait: float | None) -> None:
            if failure:
                told.append((failure, wait))

        answered = background.run(ask(request, on_attempt=see, sleep=slept.append))
    assert answered.text == "at last"
    assert [failure.kind for failure, _ in told] == ["rate_limit", "server_error"]
    assert slept == [wait for _, wait in told]
    assert slept[0] >= 31


def test_a_wait_of_minutes_is_not_waited_for() -> None:
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "900"})
    with Server([busy]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), HELLO)
        with pytest.raises(RelightError, match="try again at"):
            background.run(ask(request))


def test_a_key_is_sent_only_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-1")
    with Server([Reply("a"), Reply("b")]) as server:
        answer(server)
        answer(server, key_variable="MY_KEY")
        headers = [one.headers.get("Authorization") for one in server.chats]
    assert headers == [None, "Bearer secret-1"]
    with Server([]) as server, pytest.raises(RelightError, match="NO_KEY is not set"):
        answer(server, key_variable="NO_KEY")


def test_a_server_that_does_not_stream_is_understood() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": "whole", "tool_calls": [call("f")]}}]}
    ).encode()
    with Server([Reply(body=body)]) as server:
        told = answer(server, stream=True)
    assert told.text == "whole"
    assert told.message["tool_calls"][0]["function"]["name"] == "f"


def test_chunks_reach_whoever_reads_them_while_they_come() -> None:
    with Server([Reply("one two three")]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), HELLO, stream=True)

        async def read() -> list[str]:
            stream = await open_stream(request)
            return [
                chunk["choices"][0]["delta"].get("content") or ""
                async for chunk in stream.chunks()
                if chunk["choices"]
            ]

        assert "".join(background.run(read())) == "one two three"


def test_another_loop_gets_its_answers_from_the_background() -> None:
    with Server([Reply("from afar")]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), HELLO)
        assert asyncio.run(background.run_async(ask(request))).text == "from afar"


def test_calls_without_numbers_are_put_together() -> None:
    gathered = Gathering()
    for part in (
        {"id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"function": {"arguments": ": 1}"}},
        {"id": "b", "function": {"name": "g", "arguments": {"y": 2}}},
    ):
        gathered.add({"choices": [{"delta": {"tool_calls": [part]}}]})
    told = [one["function"] for one in gathered.message()["tool_calls"]]
    assert told == [{"name": "f", "arguments": '{"x": 1}'}, {"name": "g", "arguments": '{"y":2}'}]
