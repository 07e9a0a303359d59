"""Events of a program are recorded at once, whole, and once."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import build
import relight
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.reports.listing import list_sessions
from relight.reports.sessions import SessionReport, find_session, read_session
from relight.reports.totals import report
from relight.reports.transcript import read_transcript
from relight.sources import find_source
from relight.store import Store
from relight.store.misses import count_missed
from relight.store.write.tape import read_tape

SCRIPT = """
import sys
import relight
with relight.open_store(sys.argv[1]) as store:
    rec = relight.record(store, "killed")
    for number in range(100_000):
        rec.turn(input_tokens=number, output_tokens=1)
        print(f"turn {number}", flush=True)
        rec.tool_call("terminal", {"command": f"echo {number}"}, "done", exit_code=0)
        print(f"call {number}", flush=True)
"""


FORKING = """
import os
import sys
import relight
with relight.open_store(sys.argv[1]) as store:
    rec = relight.record(store, "forked")
    forks = []
    while len(forks) < 3 and 0 not in forks:
        forks.append(os.fork())
    for _ in range(10):
        rec.turn(input_tokens=1, output_tokens=1)
    if 0 in forks:
        os._exit(0)
    for _ in forks:
        os.wait()
"""


def shown(store: Store, name: str) -> SessionReport:
    return read_session(store, find_session(store, name))


def test_the_end_of_a_session_gives_its_figures(tmp_path: Path) -> None:
    now = iter(range(1_800_000_000, 1_800_001_000))
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="gpt-5.1", provider="openai", clock=lambda: next(now))
        rec.turn(input_tokens=10, cache_read_tokens=5, output_tokens=1)
        stats = rec.finish("success")
    assert (stats.session_id, stats.model, stats.provider) == ("relight:mine", "gpt-5.1", "openai")
    assert (stats.turns, stats.total_tokens, stats.unwritten) == (1, 16, 0)
    assert stats.started_at is not None
    assert stats.ended_at is not None
    assert stats.started_at < stats.ended_at


def test_a_session_is_recorded_as_it_happens(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with relight.record(store, "mine", model="gpt-5.1", provider="openai") as rec:
            rec.message("user", "Tidy the invoice code")
            asked = {"id": "c1", "function": {"name": "terminal", "arguments": '{"command":"ls"}'}}
            answer = {"role": "assistant", "content": None, "tool_calls": [asked]}
            rec.turn(input_tokens=1000, output_tokens=50, duration_ms=900, message=answer)
            assert shown(store, "mine").tool_calls[0].label == "unknown"
            result = {"output": "", "exit_code": 2}
            rec.tool_call("terminal", {"command": "ls"}, result, call_id="c1", exit_code=2)
            assert rec.stats().tool_failures == 1
            rec.turn(input_tokens=10, output_tokens=5, message={"content": "Done."})
            rec.finish("success")
        found = shown(store, "relight:mine")
    assert found.title == "Tidy the invoice code"
    assert (found.outcome, found.evidence[0]) == ("success", "the source says success")
    assert [call.label for call in found.tool_calls] == ["error"]
    assert found.figures.turns == 2
    assert found.figures.cost_usd == pytest.approx((1010 * 1.25 + 55 * 10) / 1e6)


def test_a_failed_call_is_no_turn_and_shows_its_kind(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="gpt-5.1") as rec:
            rec.message("user", "Hello")
            rec.turn(failure=TimeoutError("it took too long"))
        found = shown(store, "mine")
    assert found.figures.turns == 0
    assert found.turns[0].failure == "timeout"
    assert found.outcome == "failure"


@pytest.mark.parametrize(
    ("failure", "tokens", "cost"),
    [
        ("HTTP 401: wrong key", 0, 0.0),
        ("HTTP 500: internal server error", 0, 0.0),
        (ConnectionRefusedError(111, "Connection refused"), 0, 0.0),
        (ConnectionResetError(104, "Connection reset by peer"), None, None),
        ("HTTP 504: gateway time-out", None, None),
        (TimeoutError("it took too long"), None, None),
        ("the stream broke off", None, None),
    ],
)
def test_what_a_failed_call_used_is_nothing_only_where_it_was_refused(
    tmp_path: Path, failure: Any, tokens: int | None, cost: float | None
) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="gpt-5.1") as rec:
            rec.turn(failure=failure)
        (turn,) = shown(store, "mine").turns
    assert (turn.output_tokens, turn.cost_usd) == (tokens, cost)


@pytest.mark.parametrize("has_answer", [True, False])
def test_what_a_failed_call_used_counts_everywhere(tmp_path: Path, has_answer: bool) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="gpt-5.1", project="/p")
        if has_answer:
            rec.turn(input_tokens=0, output_tokens=0, message={"content": "Hello."})
        broken = "stream broke off"
        rec.turn(input_tokens=100_000, output_tokens=2_000, cost_usd=0.5, failure=broken)
        rec.turn(failure="stream broke off")
        rec.turn(failure="HTTP 429: slow down")
        stats = rec.stats()
        names = ("turns", "cost_usd", "input_tokens", "output_tokens", "unpriced_turns")
        expected = (int(has_answer), 0.5, 100_000, 2_000, 1)
        assert tuple(getattr(stats, name) for name in names) == expected
        assert stats.failed_turns == 3
        for key in ("day", "model", "provider", "project", "source", "session", "job", "skill"):
            for figures in (report(store, (key,)).total, report(store, (key,)).rows[0]):
                assert tuple(getattr(figures, name) for name in names) == expected
        (listed,) = list_sessions(store).sessions
        assert (listed.turns, listed.tokens, listed.cost_usd, listed.unpriced_turns) == (
            int(has_answer), 102_000, 0.5, 1,
        )  # fmt: skip
        assert shown(store, "mine").figures.cost_usd == 0.5
        rec.finish()
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before


def test_a_failed_call_alone_never_costs_exactly_nothing(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="gpt-5.1") as rec:
            rec.turn(failure=TimeoutError("it took too long"))
            assert (rec.stats().cost_usd, rec.stats().unpriced_turns) == (None, 1)
        (row,) = report(store, ("model",)).rows
        (listed,) = list_sessions(store).sessions
    assert (row.model, row.cost_usd, row.unpriced_turns) == ("gpt-5.1", None, 1)
    assert (listed.cost_usd, listed.unpriced_turns) == (None, 1)


def test_a_call_that_had_begun_to_answer_is_charged_whatever_ended_it(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store, record(store, "mine", model="gpt-5.1") as rec:
        rec.turn(failure="HTTP 529: overloaded", message={"content": "The first"})
        rec.turn(failure="HTTP 529: overloaded", first_token_ms=80)
        assert rec.stats().unpriced_turns == 2


def test_tests_that_were_run_before_a_persons_last_word_prove_nothing(tmp_path: Path) -> None:
    ticks = iter(range(1_794_700_000, 1_794_800_000))
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m", clock=lambda: next(ticks)) as rec:
            rec.message("user", "Run the tests")
            rec.turn(input_tokens=1, output_tokens=1)
            rec.tool_call("terminal", {"command": "pytest -q"}, "3 passed in 0.1s", exit_code=0)
            rec.turn(input_tokens=1, output_tokens=1, message={"content": "They pass."})
            assert shown(store, "mine").outcome == "success"
            rec.message("user", "Now put it on the server")
            rec.turn(input_tokens=1, output_tokens=1, message={"content": "Which one?"})
        assert shown(store, "mine").outcome == "unknown"


def test_an_answer_without_words_is_recorded_as_empty(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.message("user", "Hello")
            rec.turn(input_tokens=1, output_tokens=0, message={"content": " "})
        assert shown(store, "mine").evidence == ["it ended with an empty answer"]


def test_an_exception_in_the_block_is_a_failure_and_an_interruption_is_none(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with pytest.raises(ZeroDivisionError), record(store, "broken"):
            _ = 1 // 0
        with pytest.raises(KeyboardInterrupt), record(store, "stopped"):
            raise KeyboardInterrupt
        assert shown(store, "broken").outcome == "failure"
        assert "points to failure: it was interrupted" in shown(store, "stopped").evidence


def test_a_childs_figures_are_in_its_parents_once(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "parent", model="gpt-5.1") as rec:
            rec.turn(input_tokens=100, output_tokens=10)
            with rec.child("child") as below:
                below.turn(input_tokens=1000, output_tokens=100)
                below.turn(input_tokens=1000, output_tokens=100)
            rec.turn(input_tokens=100, output_tokens=10)
            assert rec.stats().output_tokens == 220
            assert below.stats().output_tokens == 200
        assert shown(store, "child").parent == "relight:parent"


def test_a_session_in_the_middle_has_its_own_figures_and_those_below_it(tmp_path: Path) -> None:
    now = [1_794_700_800.0]
    with build.open_home(tmp_path) as store:
        top = record(store, "top", model="m", clock=lambda: now[0])
        middle, beside = top.child("middle"), top.child("beside")
        bottom = middle.child("bottom")
        for rec, count in ((top, 1), (middle, 10), (beside, 100), (bottom, 1000)):
            now[0] += 1
            rec.turn(input_tokens=count, output_tokens=1)
            rec.turn(failure="HTTP 500: oh")
        told = {rec.session_id: rec.stats() for rec in (top, middle, beside, bottom)}
    tokens = {name: stats.input_tokens for name, stats in told.items()}
    assert tokens == {"top": 1111, "middle": 1010, "beside": 100, "bottom": 1000}
    failed = {name: stats.failed_turns for name, stats in told.items()}
    assert failed == {"top": 4, "middle": 2, "beside": 1, "bottom": 1}
    assert told["middle"].wall_seconds == 2


def test_sessions_that_are_below_each_other_are_counted_once_and_end(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        first = record(store, "a", model="m", parent="b")
        second = record(store, "b", model="m", parent="a")
        third = record(store, "c", model="m", parent="c")
        for rec in (first, second, third):
            rec.turn(input_tokens=1, output_tokens=1)
        assert first.stats().turns == second.stats().turns == 2
        assert third.stats().turns == 1


def test_threads_and_coroutines_may_share_a_recorder(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "shared", model="gpt-5.1") as rec:

            def tell() -> None:
                for _ in range(10):
                    rec.turn(input_tokens=1, output_tokens=1)
                    rec.tool_call("terminal", {"command": "ls"}, "a", exit_code=0)

            async def tell_async() -> None:
                await asyncio.gather(*(asyncio.to_thread(tell) for _ in range(2)))

            threads = [threading.Thread(target=tell) for _ in range(2)]
            for thread in threads:
                thread.start()
            asyncio.run(tell_async())
            for thread in threads:
                thread.join()
        figures = shown(store, "shared").figures
    assert (figures.turns, figures.tool_calls) == (40, 40)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "x" * 300, "a\0b", "lone \ud800 half", "", "ümläut / weiß", "a:b"]
)
def test_session_ids_of_any_shape_are_safe(tmp_path: Path, name: str) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, name, model="m") as rec:
            rec.turn(input_tokens=1, output_tokens=1, message={"content": "\ud800 \0 ok"})
        assert rec.stats().turns == 1
        assert rec.stats().unwritten == 0
    assert {path.name for path in tmp_path.iterdir()} == {"relight"}


def test_a_continued_session_is_read_in_the_order_of_its_programs(tmp_path: Path) -> None:
    words = [f"word {n}" for n in range(6)]
    with build.open_home(tmp_path) as store:
        for one in words:
            with record(store, "mine", model="gpt-5") as rec:
                rec.message("user", one)
        talk = read_transcript(store, find_session(store, "mine"))
        assert [message["content"] for message in talk.messages] == words


def test_what_was_recorded_can_be_read_again_as_a_conversation(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.message("user", "Go")
            asked = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
            rec.turn(message={"role": "assistant", "content": "", "tool_calls": [asked]})
            rec.turn(role="reference", message={"role": "assistant", "content": "advice"})
            rec.tool_call("f", {}, "result", call_id="c1", is_error=True)
            rec.turn(message={"role": "assistant", "content": "Done"})
        talk = read_transcript(store, find_session(store, "mine"))
    assert [one["role"] for one in talk.messages] == ["user", "assistant", "tool", "assistant"]
    assert talk.calls[0]["is_error"] is True


def test_lines_that_are_none_are_passed_over_when_read_as_a_conversation() -> None:
    lines = [b"{", b'{"type":"end","session":"x","at":1}']
    assert find_source("relight").read_messages(lines, "mine").messages == []


def test_secrets_are_removed_from_what_is_recorded(tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.message("user", f"my key is {secret}")
        taped = b"".join(line for part in read_tape(store) for line in part.lines())
    assert secret.encode() not in taped
    assert b"[redacted:" in taped


def test_a_record_that_cannot_be_written_waits_and_goes_with_the_next(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        rec.turn(input_tokens=1, output_tokens=1)
        store.run("alter table turn rename to away")
        rec.turn(input_tokens=1, output_tokens=1)
        assert len(rec._tape.waiting) == 1
        store.run("alter table away rename to turn")
        rec.turn(input_tokens=1, output_tokens=1)
        rec.finish()
        assert rec.stats().turns == 3


def test_events_recorded_together_are_written_in_one_go(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with rec.together():
            for _ in range(3):
                rec.turn(input_tokens=1, output_tokens=1)
            assert store.query("select count(*) from turn") == [(0,)]
        assert store.query("select count(*) from turn") == [(3,)]
        with rec.together():
            pass
        assert store.query("select count(*) from tape_part") == [(2,)]
        with rec.together(), rec.together():
            rec.turn(input_tokens=1, output_tokens=1)
            assert rec.stats().unwritten == 1
        assert (rec.stats().turns, rec.stats().unwritten) == (4, 0)


def test_an_end_is_written_and_scored_at_once_whatever_is_recorded_with_it(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        rec.message("user", "Hello")
        rec.turn(input_tokens=1, output_tokens=1)
        rec.message("user", "Go on")  # not scored: all of the session would be looked at
        assert store.query("select count(*) from score_due") == [(1,)]
        with rec.together():
            rec.turn(input_tokens=1, output_tokens=1, message={"content": "Done."})
            rec.finish()
            assert store.query("select score is not null from session") == [(1,)]
        assert count_missed(store) == 0
        assert store.query("select * from score_due") == []


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "\x00", "x" * 5_000_000])
def test_strange_results_are_only_text(tmp_path: Path, text: str) -> None:
    with build.open_home(tmp_path) as store:
        with record(store, "mine", model="m") as rec:
            rec.turn(input_tokens=1, output_tokens=1, message={"content": text})
            rec.tool_call("terminal", text, text, call_id=text[:100])
            rec.turn(input_tokens=1, output_tokens=1)
        assert (rec.stats().turns, rec.stats().tool_calls) == (2, 1)
        assert not store.query("select value from meta where key = 'missed'")


def test_an_event_that_cannot_be_written_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        refuse = "select raise(abort, 'past all checks, and yet the table does not take it')"
        store.run(
            f"create trigger t before insert on turn when new.model = 'x' begin {refuse}; end"
        )
        rec = record(store, "mine", model="m")
        with rec.together():
            for model in ("m", "x", "m"):
                rec.turn(model=model, input_tokens=1, output_tokens=1)
        assert (rec.stats().turns, rec.stats().unwritten) == (2, 0)
        assert count_missed(store) == 1


def test_a_write_that_was_interrupted_after_its_commit_is_not_made_twice(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        mark = rec._tape._mark
        rec.turn(input_tokens=1, output_tokens=1)
        # as Ctrl-C leaves it: the store has the turn, the recorder does not know
        rec._tape._mark = mark
        rec._tape.waiting.append(read_tape_line(store, "turn"))
        rec._tape._written -= 1
        rec.turn(input_tokens=2, output_tokens=1)
        rec.turn(input_tokens=3, output_tokens=1)
        assert (rec.stats().turns, rec.stats().input_tokens) == (3, 6)


def read_tape_line(store: Store, kind: str) -> bytes:
    lines = [line for part in read_tape(store) for line in part.lines()]
    return next(line for line in lines if f'"{kind}"'.encode() in line) + b"\n"


TOKENS = st.none() | st.integers(0, 5000)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.sampled_from(["gpt-5.1", "nobody-knows"]), TOKENS, TOKENS),
        st.tuples(st.just("call"), st.sampled_from([0, 1, None]), st.booleans()),
        st.tuples(st.just("message"), st.sampled_from(["user", "system"])),
        st.tuples(
            st.just("failure"),
            st.sampled_from(["HTTP 500: oh", "the stream broke off"]),
            TOKENS,
            TOKENS,
            st.none() | st.sampled_from([0, 0.5]),
        ),
        st.tuples(st.just("asked"), st.integers(1, 3)),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(events=EVENTS, steps=st.lists(st.integers(0, 40_000_000), min_size=25, max_size=25))
def test_recording_bit_by_bit_gives_what_the_tape_gives(
    events: list[Any], steps: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The short way into the roll-up and the long one come to the same rows."""
    folder = tmp_path_factory.mktemp("store")
    now = [1_794_700_800.0]
    with build.open_home(folder) as store:
        rec = record(store, "mine", model="gpt-5.1", project="/p", clock=lambda: now[0])
        for event, step in zip(events, steps, strict=False):
            now[0] += step / 1000
            _tell(rec, event)
        rec.finish()
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before


def _tell(rec: relight.SessionTracker, event: tuple[Any, ...]) -> None:
    match event:
        case ("turn", model, fresh, output):
            rec.turn(model=model, input_tokens=fresh, output_tokens=output)
        case ("call", code, is_error):
            rec.tool_call("terminal", {"command": "ls"}, "x", exit_code=code, is_error=is_error)
        case ("message", role):
            rec.message(role, "Hello")
        case ("failure", text, fresh, output, cost):
            rec.turn(failure=text, input_tokens=fresh, output_tokens=output, cost_usd=cost)
        case ("asked", count):
            calls: list[dict[str, Any]] = [
                {"id": f"c{n}", "function": {"name": "terminal", "arguments": "{}"}}
                for n in range(count)
            ]
            rec.turn(input_tokens=1, output_tokens=1, message={"tool_calls": calls})
            for call in calls[1:]:
                rec.tool_call("terminal", "{}", "x", call_id=call["id"], exit_code=1)


def test_a_fork_records_by_itself_and_nothing_is_lost(tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    home = str(tmp_path / "relight")
    subprocess.run([sys.executable, "-c", FORKING, home], check=True, capture_output=True)
    with build.open_home(tmp_path) as store:
        record(store, "next")
        assert shown(store, "forked").figures.turns == 40


def test_a_killed_program_loses_nothing_it_recorded_and_nothing_is_there_twice(
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    for number in range(50):
        home = tmp_path / str(number)
        build.open_home(home).close()
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(home / "relight")], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(chance.randint(1, 12))]
        threading.Event().wait(chance.random() * 0.004)
        os.kill(child.pid, signal.SIGKILL)
        told += child.stdout.readlines()
        child.stdout.close()
        child.wait()
        with build.open_home(home) as store:
            tokens = [row[0] for row in store.query("select input_tokens from turn order by at, 1")]
            calls = store.query("select count(*) from tool_call")[0][0]
            (turns,) = store.query("select sum(turns) from session_day")[0]
            assert store.query("pragma integrity_check") == [("ok",)]
        whole = [line.split() for line in told if line.endswith(b"\n")]
        seen = [int(count) for what, count in whole if what == b"turn"]
        done = [int(count) for what, count in whole if what == b"call"]
        assert sorted(tokens) == list(range(len(tokens)))
        assert len(tokens) >= len(seen) == max(seen, default=-1) + 1
        assert len(tokens) - 1 <= calls <= len(tokens)
        assert calls >= len(done)
        assert turns == len(tokens)
