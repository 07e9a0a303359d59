"""One call of a model: what goes over the wire, what comes back, and all that can go wrong."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from subprocess import PIPE
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
from relight.chat.answers import Gathering, Splitter, name_calls
from relight.chat.usage import read_usage
from relight.errors import RelightError
from relight.model import Cost, Failure, Usage
from relight.models import background
from relight.models.client import complete, open_stream
from relight.models.endpoints import (
    ChatRequest,
    Endpoint,
    MalformedAnswer,
    ModelResponse,
    ReportedError,
    UpstreamError,
    build_request,
    decode_completion,
)
from relight.models.retrying import RetryBudget
from relight.work.moa.shapes import shape_chunk, shape_completion
from scripted import Logged, Reply, Server, call

HELLO = [{"role": "user", "content": "Hello"}]
ASKED = ChatRequest(messages=HELLO)


def answer(server: Server, *, stream: bool = False, **settings: Any) -> ModelResponse:
    endpoint = Endpoint(**{"model": "m", "base_url": server.base_url, "attempts": 1, **settings})
    return background.run_coroutine(complete(build_request(endpoint, ASKED, stream=stream)))


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


@pytest.mark.parametrize("usage", [{"cost": 1e300}, {"cost": "1e900000"}, {"cost": -1}, {}])
def test_absurd_figures_of_an_endpoint_are_unknown(usage: dict[str, Any]) -> None:
    told = {"prompt_tokens": 10**30, "completion_tokens": 7, **usage}
    prices = {"prompt": "1e900000", "completion": "0.5"}
    with Server([Reply("a", usage=told)], models=[{"id": "m", "pricing": prices}]) as server:
        found = answer(server)
    assert (found.usage, found.cost) == (Usage(output=7), None)


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
        (Reply(body=b'{"error": "overloaded"}'), "overloaded"),
        (Reply(body=b'{"error": {"type": "rate_limit_error", "message": "no"}}'), "rate_limit"),
        (Reply(body=b'{"error": {"message": "for no reason"}}'), "unknown"),
        (
            Reply(body=b"data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"}),
            "malformed_response",
        ),
        (Reply(body=b" " * (33 << 20)), "answer_too_large"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_each_trouble_is_a_failure_of_its_kind(reply: Reply, kind: str, stream: bool) -> None:
    with Server([reply]) as server:
        assert fail(server, stream=stream).failure.kind == kind


def test_a_redirect_is_reported_and_not_followed() -> None:
    moved = Reply(status=301, headers={"Location": "https://api.example.com/v1"})
    with Server([moved]) as server:
        assert "redirects to https://api.example.com/v1" in fail(server).failure.reason


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf"])
def test_half_a_character_costs_only_itself(begin: bytes) -> None:
    body = (
        begin + rb'data: {"choices": [{"delta": {"content": "a\ud83db"}, "finish_reason": "stop"}]}'
    )
    headers = {"Content-Type": "text/event-stream"}
    with Server([Reply(body=body + b"\n\n", headers=headers)]) as server:
        assert answer(server, stream=True).text == "a\N{REPLACEMENT CHARACTER}b"


def test_a_refusal_is_what_the_model_said() -> None:
    body = b'{"choices": [{"message": {"content": null, "refusal": "I will not"}}]}'
    with Server([Reply(body=body)]) as server:
        assert answer(server).text == "I will not"


def test_what_comes_in_many_small_pieces_is_put_together_in_a_moment() -> None:
    splitter, gathered, started = Splitter(), Gathering(), time.monotonic()
    text = "".join(f"{number:020}" for number in range(100_000))
    for start in range(0, len(text), 20):
        assert not [*splitter.feed(text[start : start + 20].encode())]
        part = {"index": 0, "id": "a", "function": {"arguments": text[start : start + 20]}}
        gathered.add({"choices": [{"delta": {"tool_calls": [part]}}]})
    (told,) = gathered.message()["tool_calls"]
    assert told["function"]["arguments"] == text
    assert time.monotonic() - started < 10


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
        background.run_coroutine(complete(build_request(endpoint, ASKED)))
    assert caught.value.failure.kind == "connection"
    assert caught.value.hint


@pytest.mark.parametrize("stream", [False, True])
def test_a_host_that_does_not_resolve_fails_at_once_and_is_named(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint(model="m", base_url="http://user:pass@gone.invalid/v1")
    tries: list[object] = []

    def ask(chat: ChatRequest) -> UpstreamError:
        request = build_request(endpoint, chat, stream=stream)
        tries.clear()
        with pytest.raises(UpstreamError) as caught:
            background.run_coroutine(
                complete(request, on_attempt=lambda *seen: tries.append(seen), sleep=lambda _: None)
            )
        return caught.value

    error = ask(ASKED)
    assert (error.failure.kind, len(tries)) == ("unknown_host", 1)
    assert error.message == ("the address cannot be found: http://gone.invalid/v1 does not resolve")
    assert "OPENAI_BASE_URL" in (error.hint or "")
    assert "--" not in (error.hint or ""), "the models of a mixture have no options"
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    assert "/v1 (the value of OPENAI_BASE_URL) does not resolve" in ask(ASKED).message
    # nobody waits for a job, and its machine may just have woken up
    error = ask(ChatRequest(messages=HELLO, retries=RetryBudget(3)))
    assert (error.failure.kind, len(tries)) == ("connection", 3)
    assert "http://gone.invalid/v1" in error.message
    assert error.failure.is_refusal


def test_a_server_that_is_not_there_is_named_by_its_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens on it
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        request = build_request(Endpoint(model="m", base_url=address), ASKED, stream=False)
        with pytest.raises(UpstreamError) as caught:
            background.run_coroutine(complete(request, sleep=lambda _: None))
    error = caught.value
    assert error.message == f"the other side could not be reached: {address} refuses connections"
    assert (error.failure.kind, error.failure.is_refusal) == ("connection", True)


def test_a_stream_that_breaks_off_is_a_failure_with_what_had_arrived() -> None:
    with Server([Reply("one two three four five", breaks_after=3)]) as server:
        error = fail(server, stream=True)
    assert error.failure.kind in ("server_error", "malformed_response")
    assert error.partial is not None
    assert error.partial.text == "one two three "


def test_a_stream_that_never_ends_is_ended_when_its_time_is_over() -> None:
    with Server([Reply("so far", never_ends=True)]) as server:
        started = time.monotonic()
        error = fail(server, stream=True, timeout_seconds=3)
    assert error.failure.kind == "timeout"
    assert error.partial is not None
    assert error.partial.text == "so far"
    assert time.monotonic() - started < 30


def test_being_cancelled_closes_the_connection() -> None:
    with Server([Reply("so far", never_ends=True)]) as server:
        endpoint = Endpoint(model="m", base_url=server.base_url)
        future = background.BackgroundTask(complete(build_request(endpoint, ASKED, stream=True)))
        build.wait_for(lambda: server.chats)
        time.sleep(0.1)
        future.cancel()
        build.wait_for(lambda: server.left == 1)


def test_passing_trouble_is_tried_again_and_the_answer_comes() -> None:
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "31"})
    with Server([busy, Reply(status=500, body=b"oh"), Reply("at last")]) as server:
        told: list[tuple[Failure, float | None]] = []
        slept: list[float] = []
        request = build_request(Endpoint(model="m", base_url=server.base_url), ASKED)

        def see(attempt: int, failure: Failure | None, wait: float | None) -> None:
            if failure:
                told.append((failure, wait))

        answered = background.run_coroutine(complete(request, on_attempt=see, sleep=slept.append))
    assert answered.text == "at last"
    assert [failure.kind for failure, _ in told] == ["rate_limit", "server_error"]
    assert slept == [wait for _, wait in told]
    assert slept[0] >= 31


def test_a_wait_of_minutes_is_not_waited_for() -> None:
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "900"})
    with Server([busy]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), ASKED)
        with pytest.raises(RelightError, match="try again at"):
            background.run_coroutine(complete(request))


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=503, body=b"busy"), "overloaded"),
        (Reply(status=429, body=b"{}", headers={"Retry-After": "60"}), "rate_limit"),
        (Reply("late", delay_seconds=60), "timeout"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_holds_for_all_tries_together(reply: Reply, kind: str, stream: bool) -> None:
    with Server(lambda _: reply) as server:
        asked = ChatRequest(messages=HELLO, deadline=time.monotonic() + 2)
        endpoint = Endpoint(model="m", base_url=server.base_url)
        started = time.monotonic()
        with pytest.raises(UpstreamError) as caught:
            background.run_coroutine(complete(build_request(endpoint, asked, stream=stream)))
        assert time.monotonic() - started < 30
    assert caught.value.failure.kind == kind
    assert caught.value.is_out_of_time


def test_an_answer_that_is_there_does_not_wait_for_its_price() -> None:
    class Slow(Server):
        def take(self, logged: Logged) -> Reply:
            reply = super().take(logged)
            reply.delay_seconds = 4.0 if logged.path == "/v1/models" else 0.0
            return reply

    with Slow([Reply("a")], models=[]) as server:
        asked = ChatRequest(messages=HELLO, deadline=time.monotonic() + 2)
        request = build_request(Endpoint(model="m", base_url=server.base_url), asked)
        assert background.run_coroutine(complete(request)).text == "a"
        assert request.seconds_left() == 0


def test_prices_are_asked_for_beside_the_call() -> None:
    price = {"prompt": "0.001", "completion": "0.001"}
    both = threading.Barrier(2, timeout=60)

    class Waiting(Server):
        def take(self, logged: Logged) -> Reply:
            both.wait()  # one after the other would break it
            return super().take(logged)

    with Waiting([Reply("a")], models=[{"id": "m", "pricing": price}]) as server:
        assert answer(server).cost is not None
    assert not both.broken


def test_leaving_early_waits_until_what_was_left_has_ended() -> None:
    ended = []

    async def linger() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            ended.append("plain")

    async def leave() -> None:
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.05):
                await background.run_async(linger())
        assert ended == ["plain"]

    asyncio.run(leave())


def test_a_key_is_sent_only_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-1")
    with Server([Reply("a"), Reply("b")]) as server:
        answer(server)
        answer(server, key_variable="MY_KEY")
        headers = [one.headers.get("Authorization") for one in server.chats]
    assert headers == [None, "Bearer secret-1"]
    with Server([]) as server, pytest.raises(RelightError, match="NO_KEY is not set"):
        answer(server, key_variable="NO_KEY")


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "schlüssel"])
def test_what_cannot_be_a_key_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with Server([]) as server, pytest.raises(RelightError, match="MY_KEY holds") as caught:
        answer(server, key_variable="MY_KEY")
    assert key not in f"{caught.value!r} {caught.value.hint}"


def test_a_server_that_does_not_stream_is_understood() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": "whole", "tool_calls": [call("f")]}}]}
    ).encode()
    with Server([Reply(body=body)]) as server:
        told = answer(server, stream=True)
    assert told.text == "whole"
    assert told.message["tool_calls"][0]["function"]["name"] == "f"


def test_chunks_reach_their_reader_while_they_come() -> None:
    with Server([Reply("one two three")]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), ASKED, stream=True)

        async def read() -> list[str]:
            stream = await open_stream(request)
            return [
                chunk["choices"][0]["delta"].get("content") or ""
                async for chunk in stream.chunks()
                if chunk["choices"]
            ]

        assert "".join(background.run_coroutine(read())) == "one two three"


def test_another_loop_gets_its_answers_from_the_background() -> None:
    with Server([Reply("from afar")]) as server:
        request = build_request(Endpoint(model="m", base_url=server.base_url), ASKED)
        assert asyncio.run(background.run_async(complete(request))).text == "from afar"


@pytest.mark.parametrize("number", [{}, {"index": 0}])
def test_calls_without_numbers_or_all_of_one_are_told_apart(number: dict[str, int]) -> None:
    gathered = Gathering()
    for part in (
        {"id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"function": {"arguments": ": 1}"}},
        {"id": "b", "function": {"name": "f", "arguments": {"y": 2}}},
    ):
        gathered.add({"choices": [{"delta": {"tool_calls": [part | number]}}]})
    told = [(one["id"], one["function"]["arguments"]) for one in gathered.message()["tool_calls"]]
    assert told == [("a", '{"x": 1}'), ("b", '{"y":2}')]


def test_a_call_whose_parts_have_other_ids_is_one() -> None:
    gathered = Gathering()
    for key, name, arguments in (("a", "f", '{"x"'), ("b", None, ": 1"), ("c", "", "}")):
        part = {"index": 0, "id": key, "function": {"name": name, "arguments": arguments}}
        gathered.add({"choices": [{"delta": {"tool_calls": [part]}}]})
    (told,) = gathered.message()["tool_calls"]
    assert told["id"] == "a"
    assert told["function"] == {"name": "f", "arguments": '{"x": 1}'}


def test_calls_of_a_whole_answer_are_told_apart_whatever_their_numbers() -> None:
    twins = [{**call("f", "a", x=1), "index": 0}, {**call("f", "a", x=2), "index": 0}]
    choice = {"index": 1, "message": {"content": None, "tool_calls": twins}}
    told = decode_completion(json.dumps({"choices": [choice]}).encode()).message()
    arguments = [one["function"]["arguments"] for one in told["tool_calls"]]
    assert arguments == ['{"x": 1}', '{"x": 2}']


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NAMES = [
    "index",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "role",
    "finish_reason",
    "prompt_tokens",
    "cost",
    "text",
    "code",
]


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    return LEAF | st.lists(inner, max_size=3) | objects


ANY = nest(nest(nest(LEAF)))
STRANGE = st.fixed_dictionaries(
    {"choices": st.lists(ANY, max_size=2) | ANY},
    optional=dict.fromkeys(["id", "model", "created", "usage", "error", "object"], ANY),
)


@given(told=STRANGE)
def test_answers_of_any_shape_are_understood_or_refused(told: dict[str, Any]) -> None:
    """No answer breaks a reader: it is an answer, or malformed, or an endpoint's error."""
    gathered = Gathering()
    gathered.add(told)
    assert gathered.message()["role"] == "assistant"
    shape_chunk(told).to_dict()
    shape_completion(told).to_dict()
    try:
        whole = decode_completion(msgspec.json.encode(told))
    except (MalformedAnswer, ReportedError):
        return
    name_calls(whole.message())
    assert whole.created is None or isinstance(whole.created, int)
    usage = read_usage(whole.usage or {}).usage
    assert all(count is None or count >= 0 for count in msgspec.structs.astuple(usage))


FORK = """
import os, sys, threading
from relight.models import background
from relight.models.endpoints import ChatRequest, Endpoint, build_request
from relight.models.client import complete

def say():
    asked = ChatRequest(messages=[{"role": "user", "content": "Hi"}])
    endpoint = Endpoint(model="m", base_url=sys.argv[1], attempts=1)
    return background.run_coroutine(complete(build_request(endpoint, asked))).text

threading.Thread(target=say, daemon=True).start()
sys.stdin.readline()  # its prices are being asked for
if os.fork() == 0:
    print(say(), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_fork_made_while_prices_are_asked_for_asks_for_itself() -> None:
    slow = {"/v1/models": Reply(body=b"{}", delay_seconds=3)}
    with Server(lambda _: Reply("Hello."), pages=slow) as server:
        words = [sys.executable, "-W", "ignore", "-c", FORK, server.base_url]
        with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as program:
            while not server.requests:
                assert program.poll() is None
                time.sleep(0.01)
            printed, errors = program.communicate("\n", timeout=60)
    assert (program.returncode, printed) == (0, "Hello.\n"), errors


FIRST_REQUEST = """
import sys
from relight.models import background

async def ask():
    client = background.find_client()
    before = set(sys.modules)
    await client.get(sys.argv[1])
    return sorted(set(sys.modules) - before)

print(background.run_coroutine(ask()))
"""


def test_a_request_imports_nothing_that_a_fork_could_find_half_loaded() -> None:
    with Server(lambda _: Reply("Hello.")) as server:
        words = [sys.executable, "-c", FIRST_REQUEST, f"{server.base_url}/models"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_lookup_without_an_answer_does_not_hold_up_the_end_of_the_program() -> None:
    """As when a name server is silent; waiting for the lookup, the program would never end."""
    program = (
        "import threading\n"
        "from relight.models import background\n"
        "began = threading.Event()\n"
        "def look_up():\n"
        "    began.set()\n"
        "    threading.Event().wait()\n"
        "loop = background.find_background().loop\n"
        "loop.call_soon_threadsafe(loop.run_in_executor, None, look_up)\n"
        "began.wait()\n"
        "print('done')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout == "done\n"
