"""What `relight.auto` adds to a call, beyond the one write that records it.

The server is a function in the same process, and time is that of the processor, so that neither a
network nor a busy machine is measured. One write is what the recorder takes for the same events.
It and the recorded call each follow a call without recording: after another write, either would
find the processor's caches full of what it needs. All figures are medians, except that of the
process: it is a mean over as many calls again, and counts what any thread does for them.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.measure import judge, print_rows

LIMIT_MS = 0.5
USAGE = {"prompt_tokens": 1200, "completion_tokens": 100, "total_tokens": 1300}
WORDS = "The invoice has seven lines, and the third one is rounded twice. "


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench auto")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args(words)
    cases = {
        "short conversation": (0, 0),
        "conversation of 40 messages, 100 kB": (40, 0),
        "the same, streamed in 100 chunks": (40, 100),
        "conversation of 400 messages, 1 MB": (400, 0),
    }
    rows = [("added to a call", "beyond one write", "limit", "")]
    whole_rows = [("CPU of the process and all its threads", "added to a call", "", "")]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RELIGHT_HOME"] = f"{folder}/home"
        for name, (messages, chunks) in cases.items():
            added = measure(messages, chunks, calls=options.calls)
            beyond = added.whole_ms - added.write_ms
            parts = f"{added.whole_ms:.2f} ms in all, one write {added.write_ms:.2f} ms"
            figure = f"{beyond:.2f} ms ({parts})"
            rows.append((name, figure, f"{LIMIT_MS} ms", judge(beyond, LIMIT_MS)))
            whole_rows.append((name, f"{added.process_ms:.2f} ms", "", ""))
    print_rows(rows)
    print_rows(whole_rows)
    return int(any(row[3] == "MISSED" for row in rows))


class Added(NamedTuple):
    """Milliseconds that recording adds to a call, of its one write, and of all threads."""

    whole_ms: float
    write_ms: float
    process_ms: float


def measure(messages: int, chunks: int, *, calls: int) -> Added:
    """What recording adds to a call of a conversation."""
    import httpx2

    import relight.auto  # noqa: F401

    transport = httpx2.MockTransport(lambda _: make_response(chunks))
    client = httpx2.Client(transport=transport)
    recorded: Callable[..., Any] = httpx2.Client.send
    plain: Callable[..., Any] = recorded.__wrapped__  # type: ignore[attr-defined]
    spent: dict[Callable[..., Any], list[float]] = {plain: [], recorded: []}
    writes = []
    before = make_conversation(messages)
    write_once = make_writer()

    def make_request(number: int) -> Any:
        # each goes on from the first answer, so that the size of the requests is the same
        said = [*before, {"role": "user", "content": f"{number} {WORDS}"}]
        body = {"model": "gpt-5.1", "messages": said, "stream": bool(chunks)}
        return client.build_request("POST", "http://server/v1/chat/completions", json=body)

    gc.disable()
    for number in range(calls):
        for place, send in enumerate((plain, plain, recorded)):
            request = make_request(number)
            started = time.thread_time()
            for _ in send(client, request, stream=True).iter_bytes():
                pass
            ended = time.thread_time()
            spent[send].append(ended - started)
            if place == 0:
                write_once(number)
                writes.append(time.thread_time() - ended)
        if number == 0:
            first = {"role": "user", "content": f"0 {WORDS}"}
            before = [*before, first, {"role": "assistant", "content": ANSWER}]
    gc.enable()
    call, bare, write = map(statistics.median, (spent[recorded], spent[plain], writes))
    requests = [make_request(number) for number in range(calls, calls + 20)]
    process = [_count_process(client, send, requests) for send in (plain, recorded)]
    return Added((call - bare) * 1000, write * 1000, (process[1] - process[0]) * 1000)


def _count_process(client: Any, send: Callable[..., Any], requests: list[Any]) -> float:
    """The processor's time for a call, of all threads, also for what they finish after it."""
    started = time.process_time()
    for request in requests:
        for _ in send(client, request, stream=True).iter_bytes():
            pass
    time.sleep(0.5)
    return (time.process_time() - started) / len(requests)


ANSWER = WORDS * 8


def make_conversation(messages: int) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [
        {"role": roles[number % 2], "content": f"{number} {WORDS * 36}"}
        for number in range(messages)
    ]


def make_response(chunks: int) -> Any:
    import httpx2

    if not chunks:
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {"id": "a", "model": "gpt-5.1", "choices": [choice], "usage": USAGE}
        return httpx2.Response(200, json=whole)
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=make_events(chunks)
    )


def make_events(chunks: int) -> Iterator[bytes]:
    size = len(ANSWER) // chunks + 1
    base = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.1"}
    for start in range(0, len(ANSWER), size):
        choice = {"index": 0, "delta": {"content": ANSWER[start : start + size]}}
        yield b"data: " + json.dumps({**base, "choices": [choice]}).encode() + b"\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield b"data: " + json.dumps({**base, "choices": [last], "usage": USAGE}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def make_writer() -> Callable[[int], None]:
    """A function that records the events of one call with the recorder itself."""
    import relight

    tracker = relight.record(relight.open_store())

    def write(number: int) -> None:
        with tracker.together():
            tracker.message("user", f"{number} {WORDS}")
            message = {"role": "assistant", "content": ANSWER}
            tracker.turn(
                model="gpt-5.1",
                provider="server",
                usage=USAGE,
                message=message,
                duration_ms=12.5,
                first_token_ms=2.5,
            )

    return write
