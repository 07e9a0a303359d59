"""Telemetry: each call once, in its session, joined with the agents' own records."""

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import build
from build_telemetry import (
    CLAUDE_SCOPE,
    CODEX_SCOPE,
    NOW,
    encode,
    make_call,
    make_event,
    make_span,
    pairs,
    read_captures,
    send,
)
from relight.cli import relight
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.intake.receiver import Receiver, RefusedRequestError, unpack
from relight.reports.trace import read_trace
from relight.reports.transcript import read_transcript
from relight.sources.otlp.otlp_requests import Signal, read_protobuf
from relight.store import Store

CAPTURES = read_captures()
# the scripted server's tokens as far as a capture has them: sessions, turns, failed calls, prompt
# without cached tokens, cached tokens (None: the exporter sends no such count), output
TRUTH = {
    "claude-code-2.1.325": (1, 5, 0, 4760, 520, 120),
    "codex-0.166.0": (1, 5, 0, 5345, 565, 165),
    "openai-v2-2.4b0": (1, 5, 1, 5210, None, 115),
    "openai-v2-2.4b0-latest-experimental": (2, 5, 1, 5630, None, 145),
    "openinference-agents-2.6.0": (1, 5, 0, 6890, None, 235),
    "openinference-anthropic-3.1.0": (1, 3, 0, 2778, 306, 66),
    "openinference-openai-0.1.66": (2, 5, 1, 5475, 575, 175),
    "traceloop-anthropic-0.62.4": (1, 3, 0, 2895, 315, 75),
    "traceloop-openai-0.62.4": (2, 5, 1, 5865, 605, 205),
}
FIGURES = """
    select (select count(*) from session), sum(calls), sum(failure is not null),
        sum(case when calls > 0 then input_tokens end),
        sum(case when calls > 0 then cache_read_tokens end), sum(output_tokens) from turn
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path) as store:
        yield store


def import_received(store: Store, home: Path = Path("/nonexistent")) -> None:
    import_all(store, environment={"HOME": str(home)}, workers=1)


def read_figures(store: Store) -> tuple[Any, ...]:
    (row,) = store.query(FIGURES)
    return tuple(row)


def read_turns(store: Store, columns: str) -> list[tuple[Any, ...]]:
    return store.query(f"select {columns} from turn order by at, id")


def read_words(store: Store) -> list[list[dict[str, Any]]]:
    """The messages of all sessions."""
    sessions = store.query("select id from session order by id")
    return [read_transcript(store, session_id).messages for (session_id,) in sessions]


@pytest.mark.parametrize("name", TRUTH)
def test_a_capture_has_the_tokens_of_the_server_however_often_and_in_which_order_it_comes(
    store: Store, name: str
) -> None:
    receiver = Receiver(store)
    for signal, form, body in CAPTURES[name]:
        send(receiver, signal, body, form)
    import_received(store)
    assert read_figures(store) == TRUTH[name]
    rows, said = build.dump(store), read_words(store)
    again = Receiver(store)  # one that remembers nothing
    for signal, form, body in reversed(CAPTURES[name]):
        send(again, signal, body, form)
    import_received(store)
    assert read_figures(store) == TRUTH[name]
    assert read_words(store) == said
    rebuild(store)
    assert read_figures(store) == TRUTH[name]
    assert build.dump(store)["turn"] == rows["turn"]


def test_the_cost_is_a_bound_where_an_exporter_sends_no_count_of_cached_tokens(
    store: Store,
) -> None:
    for name in ("openai-v2-2.4b0", "openinference-openai-0.1.66"):
        for signal, form, body in CAPTURES[name]:
            send(Receiver(store), signal, body, form)
    import_received(store)
    found = store.query(
        "select usage_status, cache_read_tokens is null, count(*) from turn where calls > 0"
        " group by 1, 2 order by 1"
    )
    assert [tuple(one) for one in found] == [("final", 0, 5), ("partial", 1, 5)]


def test_tool_calls_are_read_from_messages_with_their_results_and_durations(store: Store) -> None:
    for signal, form, body in CAPTURES["openinference-agents-2.6.0"]:
        send(Receiver(store), signal, body, form)
    import_received(store)
    found = store.query("select tool, label, duration_ms, turn_id is not null from tool_call")
    assert sorted(map(tuple, found)) == [
        ("bash", "error", 6, 1),
        *[("bash", "ok", 1, 1)] * 3,
        ("bash", "ok", 2, 1),
    ]


def test_messages_in_log_records_are_read_once_however_they_are_batched(store: Store) -> None:
    def make_words(name: str, at: float, said: str) -> dict[str, Any]:
        content = {"key": "content", "value": {"stringValue": said}}
        event = make_event(name, at, session__id="s1")
        return event | {"spanId": "talk", "body": {"kvlistValue": {"values": [content]}}}

    asked = make_words("gen_ai.user.message", 1, "What is 6 times 7?")
    answer = make_words("gen_ai.choice", 2, "It is 42.")
    span = make_call("talk", 1, session__id="s1")
    send(Receiver(store), "traces", encode("traces", span))
    for batch in ([asked], [answer], [asked, answer], [answer], [asked]):
        send(Receiver(store), "logs", encode("logs", *batch))
        import_received(store)
    ((first, second),) = read_words(store)
    assert (first["content"], second["content"]) == ("What is 6 times 7?", "It is 42.")


def test_a_call_of_two_instrumentations_counts_once_in_whatever_requests_they_come(
    store: Store,
) -> None:
    receiver = Receiver(store)
    response = "chatcmpl-0123456789abcdef"
    inner = make_call("inner", 1, parent="outer", trace="t", response=response)
    outer = make_call("outer", 0.9, trace="t", seconds=1.2)
    sibling = make_call("sibling", 1, response=response)
    output = f'{{"generations": [[{{"meta": {{"id": "{response}", "n": 1}}}}]]}}'
    framework = make_call("framework", 0.9, parent="graph", output__value=output)
    for span in (inner, outer, sibling, framework):
        send(receiver, "traces", encode("traces", span))
    import_received(store)
    assert read_figures(store) == (1, 1, 0, 60, 40, 10)
    assert read_turns(store, "duration_ms") == [(1200,)]


def test_a_server_that_uses_ids_again_has_all_its_calls_counted(store: Store) -> None:
    calls = [make_call(f"s{at}", at, response="chatcmpl-7") for at in (0, 600, 1200)]
    soon = make_call("soon", 1, response="chatcmpl-7", gen_ai__usage__input_tokens=200)
    sibling = make_call("sibling", 2, response="chatcmpl-7")
    send(Receiver(store), "traces", encode("traces", *calls, soon, sibling))
    import_received(store)
    assert read_figures(store)[1] == 4


def test_sessions_are_named_by_attributes_then_traces_then_pauses(store: Store) -> None:
    spans = [
        make_call("a", 0, session__id="mine"),
        make_call("b", 10, trace="t1", parent="root"),
        make_call("c", 20, trace="t1", parent="root"),
        make_call("d", 30),
        make_call("e", 600),
        make_call("f", 7200),
    ]
    for span in spans:  # a receiver that was started again knows the sessions of before
        send(Receiver(store), "traces", encode("traces", span, service__instance__id="p1"))
        import_received(store)
    found = store.query(
        "select key, (select count(*) from turn where session_id = session.id)"
        " from session order by started_at"
    )
    counts = [count for _, count in found]
    assert [key for key, _ in found][:2] == ["mine", "t1"]
    assert counts == [1, 2, 2, 1]


def claude_events(*, session: str = build.CLAUDE_SESSION) -> list[bytes]:
    """Reports of the calls of `build.claude_session`, of one that no file has, and of a refusal."""
    usage = {
        "input_tokens": 10,
        "cache_read_tokens": 4000,
        "cache_creation_tokens": 300,
        "output_tokens": 50,
    }
    about = {"session__id": session, "model": "claude-opus-4-6"}
    calls = [
        make_event(
            "api_request",
            at,
            **about,
            **usage,
            cost_usd=0.25,
            duration_ms="800",
            ttft_ms=90,
            request_id=f"req_msg_{number}",
        )
        for number, at in ((1, 1.1), (2, 3.1), (3, 5.1))
    ]
    helper = make_event(
        "api_request",
        0.5,
        **(about | {"model": "claude-haiku-4-5"}),
        input_tokens=7,
        cache_read_tokens=0,
        cache_creation_tokens=0,
        output_tokens=3,
        cost_usd=0.01,
        duration_ms=30,
        request_id="req_helper",
    )
    refused = make_event(
        "api_error", 2.5, **about, error="Overloaded", status_code="529", duration_ms=5, attempt=1
    )
    tool = make_event(
        "tool_result",
        2,
        session__id=session,
        tool_name="Bash",
        tool_use_id="toolu_1",
        success="true",
        duration_ms="420",
    )
    batches = [calls[:2], [*calls[2:], helper], [refused, tool]]
    return [encode("logs", *batch, scope=CLAUDE_SCOPE) for batch in batches]


JOINED = [
    ("claude-haiku-4-5", 1, 10_000_000, "reported", 30, None, None),
    ("claude-opus-4-6", 1, 250_000_000, "reported", 800, 90, None),
    ("claude-opus-4-6", 0, 0, "estimated", 5, None, "overloaded"),
    ("claude-opus-4-6", 1, 250_000_000, "reported", 800, 90, None),
    ("claude-opus-4-6", 1, 250_000_000, "reported", 800, 90, None),
]


@pytest.mark.parametrize("order", ["file first", "telemetry first", "in turns"])
def test_telemetry_of_claude_code_fills_what_its_file_lacks_and_adds_nothing_twice(
    store: Store, tmp_path: Path, order: str
) -> None:
    receiver, batches = Receiver(store), claude_events()
    session = build.claude_session()
    if order != "telemetry first":
        build.write_claude(tmp_path, session if order == "file first" else session[:3])
        import_received(store, tmp_path)
    for batch in batches:
        send(receiver, "logs", batch)
        if order == "in turns":
            import_received(store, tmp_path)
    import_received(store, tmp_path)
    build.write_claude(tmp_path, session)
    import_received(store, tmp_path)
    columns = "model, calls, cost_nanos, cost_status, duration_ms, first_token_ms, failure"
    assert read_turns(store, columns) == JOINED
    ((started, ended, ending, title),) = store.query(
        "select started_at, ended_at, ending, title from session"
    )
    assert (started, ended, ending) == (build.START, build.START + 5000, "answer")
    assert title == "Fix the rounding in the invoice"
    found = store.query("select duration_ms, label from tool_call order by at")
    assert [tuple(one) for one in found] == [(420, "ok"), (None, "error")]
    rebuild(store)
    assert read_turns(store, columns) == JOINED


@pytest.mark.parametrize("order", [("logs", "traces"), ("traces", "logs")])
def test_a_log_record_and_a_span_of_a_call_without_an_id_are_one_call(
    store: Store, order: tuple[Signal, Signal]
) -> None:
    about: dict[str, Any] = {
        "session__id": "s",
        "model": "claude-opus-4-6",
        "input_tokens": 9,
        "output_tokens": 3,
    }
    ends = (1.0, 1.2, 40.0)  # two calls at once with the same tokens, and one later
    logs = [
        make_event("api_request", end, **about, cost_usd="0.01", duration_ms=800) for end in ends
    ]
    name = "claude_code.llm_request"
    spans = [
        make_span(name, end - 0.81, seconds=0.812, **about, duration_ms=812, trace=f"t{end}")
        for end in (*ends, 90.0)  # the last one has no log record
    ]
    bodies = {
        "logs": encode("logs", *logs, scope=CLAUDE_SCOPE),
        "traces": encode("traces", *spans, scope="com.anthropic.claude_code.tracing"),
    }
    receiver = Receiver(store)
    for signal in order:
        send(receiver, signal, bodies[signal])
        import_received(store)
    assert read_turns(store, "cost_nanos") == [(10_000_000,)] * 3 + [(120_000,)]


def test_telemetry_makes_the_session_of_an_agent_whose_files_were_not_read(store: Store) -> None:
    for batch in claude_events():
        send(Receiver(store), "logs", batch)
    import_received(store)
    assert read_figures(store)[:3] == (1, 4, 1)
    ((source, started, ended),) = store.query("select source, started_at, ended_at from session")
    assert source == "claude-code"
    assert (started, ended) == (build.START + 300, build.START + 5100)


@pytest.mark.parametrize(
    ("capture", "calls"),
    [
        (
            "claude-code-2.1.325",
            [("Bash", "ok", 50), ("Bash", "error", 29), ("Read", "error", 12)],
        ),
        (
            "codex-0.166.0",
            [
                ("exec_command", "ok", 96),
                ("exec_command", "error", 58),
                ("exec_command", "error", 49),
                ("nosuchtool", "error", 0),
            ],
        ),
    ],
)
def test_tools_of_an_agent_whose_files_were_not_read_are_calls_with_verdicts(
    store: Store, capture: str, calls: list[tuple[str, str, int]]
) -> None:
    for signal, form, body in CAPTURES[capture] * 2:
        send(Receiver(store), signal, body, form)
    import_received(store)
    found = store.query("select tool, label, duration_ms from tool_call order by at")
    assert [tuple(one) for one in found] == calls
    ((session_id,),) = store.query("select id from session")
    steps = read_trace(store, session_id).steps
    assert [step.label for step in steps if step.kind == "call"] == [one[1] for one in calls]


@pytest.mark.parametrize("is_first", [True, False])
def test_telemetry_of_codex_finds_its_calls_by_tokens_and_time(
    store: Store, tmp_path: Path, is_first: bool
) -> None:
    used = build.codex_usage(1000)
    events = [
        make_event(
            "codex.user_prompt", 0, conversation__id=build.CODEX_SESSION, prompt="[REDACTED]"
        ),
        make_event(
            "codex.api_request",
            1,
            conversation__id=build.CODEX_SESSION,
            duration_ms="200",
            http__response__status_code="200",
        ),
        make_event(
            "codex.sse_event",
            3,
            conversation__id=build.CODEX_SESSION,
            model="gpt-5.1-codex",
            event__kind="response.completed",
            input_token_count="1000",
            cached_token_count="400",
            output_token_count="20",
            ttft_ms="150",
        ),
        make_event(
            "codex.api_request",
            4,
            conversation__id=build.CODEX_SESSION,
            duration_ms="9",
            http__response__status_code="401",
            error__message="Unauthorized",
        ),
    ]
    if is_first:
        send(Receiver(store), "logs", encode("logs", *events, scope=CODEX_SCOPE))
        import_received(store, tmp_path)
    build.write_codex(tmp_path, [build.codex_meta(), build.codex_count(3.01, used, used)])
    import_received(store, tmp_path)
    if not is_first:
        send(Receiver(store), "logs", encode("logs", *events, scope=CODEX_SCOPE))
        import_received(store, tmp_path)
    assert read_turns(store, "calls, input_tokens, duration_ms, first_token_ms") == [
        (1, 600, 2200, 150),
        (0, 0, 9, None),
    ]
    assert store.query("select title from session") == [(None,)]


def test_foreign_spans_are_dropped_and_bad_ones_are_counted_apart(store: Store) -> None:
    receiver = Receiver(store)
    good, bad = make_call("a", 0), make_call("b", 0)
    bad["startTimeUnixNano"] = "soon"
    foreign = make_span("http", 0, http__route="/cart")
    response = send(receiver, "traces", encode("traces", good, bad, foreign))
    assert response["partialSuccess"]["rejectedSpans"] == "1"
    assert (receiver.counts.records, receiver.counts.kept) == (3, 1)
    import_received(store)
    assert read_figures(store)[1] == 1


def test_a_null_in_json_is_a_field_that_is_not_there(store: Store) -> None:
    absent = {"parentSpanId": None, "events": None, "status": {"code": None, "message": None}}
    body = encode("traces", make_call("a", 0) | absent)
    scope = b'{"scope":{"name":"test"}'
    assert body.count(scope) == 1
    body = body.replace(scope, b'{"scope":null,"spans":null},{"scope":{"name":null}')
    assert send(Receiver(store), "traces", body) == {}
    assert send(Receiver(store), "logs", b'{"resourceLogs":null}') == {}
    import_received(store)
    assert read_figures(store)[1] == 1


def test_a_body_of_several_compressed_parts_is_read_to_its_end() -> None:
    assert unpack(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip") == b"one two"
    with pytest.raises(RefusedRequestError, match="parts"):
        unpack(gzip.compress(b"") * 100_000, "gzip")
    with pytest.raises(RefusedRequestError, match="not gzip"):
        unpack(gzip.compress(b"one") + b"two", "gzip")


def test_a_name_of_a_session_is_one_short_line(store: Store) -> None:
    names = ["team/alpha", "two\r\nlines\0\x1b[31m", "x" * 100_000, "x" * 100_000 + "y"]
    for number, name in enumerate(names):
        call = make_call(f"s{number}", number, session__id=name)
        for _ in range(2):
            send(Receiver(store), "traces", encode("traces", call))
    import_received(store)
    found = [key for (key,) in store.query("select key from session order by started_at")]
    assert found[:2] == [
        "team/alpha",
        "two lines\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m",
    ]
    assert len(set(found)) == 4
    assert all(len(key) < 600 for key in found)


def test_a_damaged_first_line_of_the_spool_is_noted_and_the_next_is_read(store: Store) -> None:
    send(Receiver(store), "traces", encode("traces", make_call("a", 0)))
    (spooled,) = store.config.telemetry.rglob("*.jsonl")
    spooled.write_bytes(b"{damaged\n" + spooled.read_bytes())
    import_received(store)
    assert read_figures(store)[1] == 1
    assert store.query("select count(*) from unreadable") == [(1,)]


def test_a_span_with_too_many_attributes_or_a_wrong_clock_is_taken_and_reported(
    store: Store,
) -> None:
    receiver = Receiver(store)
    more: dict[str, Any] = {f"x{number}": number for number in range(5_000)}
    more |= {f"llm.input_messages.{number}.message.role": "user" for number in range(5_000)}
    many = make_call("a", 0)
    many["attributes"] = [*pairs(more), *many["attributes"]]  # what matters comes last
    late = make_call("b", 400 * 86_400)
    text = send(receiver, "traces", encode("traces", many, late))["partialSuccess"]["errorMessage"]
    assert "too many attributes: 1 record shortened" in text
    assert "impossible times: 1 record dated" in text
    assert (receiver.counts.shortened, receiver.counts.skewed) == (1, 1)
    import_received(store)
    assert read_figures(store)[1] == 2
    assert store.query("select value from meta where key = 'missed'") == [("2",)]


def test_a_refusal_with_a_wrong_clock_counts_once_though_it_comes_again_later(store: Store) -> None:
    about = {"session__id": "s", "error": "Overloaded", "status_code": "529", "duration_ms": 5}
    refused = [make_event("api_error", 400 * 86_400 + at, **about) for at in (0, 2, 4)]
    body = encode("logs", *refused, scope=CLAUDE_SCOPE)
    for later in (0, 60_000):  # a receiver that was started again
        Receiver(store).take(body, "logs", "application/json", encoding="", now=NOW + later)
        import_received(store)
    assert store.query("select count(*) from turn where failure is not null") == [(3,)]


def test_changed_bytes_of_a_request_are_read_or_refused_and_raise_nothing_else() -> None:
    chance = random.Random(7)
    bodies = [body for one in CAPTURES.values() for _, form, body in one if "json" not in form]
    for _ in range(400):
        body = bytearray(chance.choice(bodies)[:3000])
        for _ in range(chance.randint(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            read_protobuf(bytes(body), chance.choice(["traces", "logs"]))
        except ValueError:
            continue


def test_secrets_in_telemetry_are_redacted_before_they_are_stored(
    store: Store, tmp_path: Path
) -> None:
    secret = "sk-ant-api03-" + "Zx9" * 31 + "AA"
    asked = f'[{{"role":"user","parts":[{{"type":"text","content":"use {secret}"}}]}}]'
    span = make_call("a", 0, gen_ai__input__messages=asked)
    send(Receiver(store), "traces", encode("traces", span))
    spooled = b"".join(path.read_bytes() for path in store.config.telemetry.rglob("*.jsonl"))
    assert b"redacted" in spooled
    assert secret.encode() not in spooled


def test_what_a_session_shows_is_marked_as_a_bound(store: Store, tmp_path: Path) -> None:
    span = make_call("a", 0, session__id="mine", gen_ai__usage__cache_read__input_tokens="?")
    send(Receiver(store), "traces", encode("traces", span))
    import_received(store)
    done = CliRunner().invoke(relight, ["--home", str(store.config.home), "show", "otlp:mine"])
    assert "1 turn is partial: cached tokens are unknown, so the cost is an upper bound" in (
        done.output
    )


def test_a_call_whose_exporter_sends_no_answer_is_not_cut_off(store: Store) -> None:
    asked = '[{"role":"user","parts":[{"type":"text","content":"Hello"}]}]'
    span = make_call("a", 0, session__id="mine", gen_ai__input__messages=asked)
    send(Receiver(store), "traces", encode("traces", span))
    import_received(store)
    assert read_figures(store) == (1, 1, 0, 60, 40, 10)
    assert store.query("select title, outcome from session") == [("Hello", "unknown")]
