from pathlib import Path
from typing import Any

import build
from build import CODEX_SESSION, codex_count, codex_line, codex_meta, codex_usage
from relight.reports.totals import ReportFigures, report

PARENT = "01a1dd31-0000-7420-9fbf-d960215b41b5"
OLD_TURN = "01a1dd31-0001-7000-8000-000000000000"
NEW_TURN = "01a1dd31-17e0-7000-8000-000000000000"


def context(turn: str = NEW_TURN, model: str = "gpt-5.2-codex", at: float = 1) -> dict[str, Any]:
    return codex_line("turn_context", at, turn_id=turn, model=model, cwd="/home/dev/shop")


def record(name: str, at: float, used: dict[str, int]) -> dict[str, Any]:
    return codex_line("token_usage_record", at, response_id=name, usage=used)


def total(tmp_path: Path, *sessions: tuple[str, list[dict[str, Any]]]) -> ReportFigures:
    for name, lines in sessions:
        build.write_codex(tmp_path, lines, name=name)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        return report(store, ("model",)).total


def test_cached_tokens_are_taken_out_of_the_input(tmp_path: Path) -> None:
    lines = [codex_meta(), context(), record("resp_1", 2, codex_usage(1000, cached=600))]
    found = total(tmp_path, (CODEX_SESSION, lines))
    assert (found.input_tokens, found.cache_read_tokens) == (400, 600)
    assert (found.output_tokens, found.reasoning_tokens) == (20, 5)


def test_a_count_repeated_unchanged_counts_once(tmp_path: Path) -> None:
    one, two = codex_usage(1000), codex_usage(2500, cached=800, output=50)
    lines = [codex_meta(), context(), codex_count(1, None), codex_count(2, one, one)]
    lines += [codex_count(3, one, one), codex_count(4, two, codex_usage(1500, output=30))]
    found = total(tmp_path, (CODEX_SESSION, lines))
    assert (found.turns, found.output_tokens) == (2, 50)


def test_a_total_that_restarts_after_a_resume_loses_nothing(tmp_path: Path) -> None:
    first, second = codex_usage(5000, output=90), codex_usage(1000, output=10)
    lines = [codex_meta(), context(), codex_count(1, first, first), codex_count(2, second, second)]
    found = total(tmp_path, (CODEX_SESSION, lines))
    assert (found.turns, found.output_tokens) == (2, 100)


def ask(name: str, at: float) -> list[dict[str, Any]]:
    call = codex_line("response_item", at, type="function_call", call_id=name, name="shell")
    told = {"type": "function_call_output", "call_id": name, "output": ""}
    return [call, codex_line("response_item", at + 0.5, **told)]


def steps(tmp_path: Path, lines: list[dict[str, Any]]) -> list[str]:
    """Turns by the tokens they wrote, each with the calls that are its own, in order of time."""
    build.write_codex(tmp_path, [codex_meta(), context(), *lines])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query(
            "select output_tokens, turn.at - ?1, tool_call.at - ?1"
            " from turn join tool_call on tool_call.turn_id = turn.id order by turn.at",
            (build.START,),
        )
    return [f"{out} from {at / 1000:g} asks at {asked / 1000:g}" for out, at, asked in rows]


def test_a_response_begins_with_its_first_item_and_has_the_calls_before_its_count(
    tmp_path: Path,
) -> None:
    one, two = codex_usage(1000, output=20), codex_usage(2500, output=50)
    thought = codex_line("response_item", 2, type="reasoning")
    lines = [thought, *ask("a", 3), codex_count(4, one), *ask("b", 5), codex_count(6, two)]
    assert steps(tmp_path, lines) == ["20 from 2 asks at 3", "50 from 5 asks at 5"]


def test_where_counts_come_first_calls_are_of_the_response_counted_before(tmp_path: Path) -> None:
    one, two = codex_usage(1000, output=20), codex_usage(2500, output=50)
    lines = [codex_count(2, one), *ask("a", 3), codex_count(4, one), codex_count(5, two)]
    assert steps(tmp_path, [*lines, *ask("b", 6)]) == ["20 from 2 asks at 3", "50 from 5 asks at 6"]


def test_usage_records_are_preferred_to_counts(tmp_path: Path) -> None:
    used = codex_usage(1000)
    lines = [codex_meta(), context(), record("resp_1", 2, used), codex_count(3, used, used)]
    assert total(tmp_path, (CODEX_SESSION, lines)).turns == 1


def test_the_parents_records_that_a_sub_agent_replays_are_not_its_own(tmp_path: Path) -> None:
    one, two = codex_usage(1000), codex_usage(2000, output=45)
    parent = [codex_meta(PARENT), context(OLD_TURN), codex_count(2, one, one)]
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    child = [
        codex_meta(forked_from_id=PARENT, source=spawned),
        codex_meta(PARENT),
        context(OLD_TURN),
        codex_count(2, one, one),
        context(NEW_TURN),
        codex_count(3, one, one),
        codex_count(4, two, codex_usage(1000, output=25)),
    ]
    found = total(tmp_path, (PARENT, parent), (CODEX_SESSION, child))
    assert (found.turns, found.output_tokens, found.sessions) == (2, 45, 1)


def test_a_fork_whose_total_starts_at_its_parents_adds_only_its_own(tmp_path: Path) -> None:
    inherited = codex_usage(90_000, output=900)
    lines = [
        codex_meta(forked_from_id=PARENT, history_mode="paginated"),
        context(),
        record("resp_9", 2, codex_usage(1000)),
        codex_count(3, inherited, codex_usage(1000)),
    ]
    assert total(tmp_path, (CODEX_SESSION, lines)).output_tokens == 20


def test_a_call_belongs_to_the_response_that_asked_for_it(tmp_path: Path) -> None:
    lines = [
        codex_meta(),
        context(),
        codex_line(
            "response_item",
            2,
            type="function_call",
            name="exec_command",
            call_id="c1",
            arguments='{"cmd": "false"}',
        ),
        record("resp_1", 2.1, codex_usage(1000)),
        codex_line(
            "event_msg",
            3,
            type="item_completed",
            item={
                "type": "CommandExecution",
                "id": "c1",
                "exit_code": 1,
                "status": "failed",
                "duration": {"secs": 2, "nanos": 5_000_000},
            },
        ),
        codex_line(
            "response_item",
            3,
            type="function_call_output",
            call_id="c1",
            output="Process exited with code 1\nOutput:\n",
        ),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query(
            "select tool, exit_code, tool_call.duration_ms, turn_id = turn.id from tool_call"
            " join turn on turn.session_id = tool_call.session_id and turn.calls > 0"
        )
        assert rows == [("exec_command", 1, 2005, 1)]


def test_the_model_is_that_of_the_last_context_before(tmp_path: Path) -> None:
    lines = [
        codex_meta(),
        context(model="gpt-5.2-codex"),
        record("resp_1", 2, codex_usage(1000)),
        context(model="gpt-5.1-codex-mini"),
        record("resp_2", 3, codex_usage(1000)),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        models = [row.model for row in report(store, ("model",)).rows]
    assert models == ["gpt-5.2-codex", "gpt-5.1-codex-mini"]


def prompt(text: str, at: float) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return codex_line("response_item", at, type="message", role="user", content=content)


def answer(text: str, at: float) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text}]
    said = codex_line("response_item", at, type="message", role="assistant", content=content)
    return [said, record(f"resp_{at}", at, codex_usage(1000))]


def task(at: float) -> dict[str, Any]:
    return codex_line("event_msg", at, type="task_started", turn_id=NEW_TURN)


def test_a_request_that_codex_has_no_response_of_makes_the_cost_a_lower_bound(
    tmp_path: Path,
) -> None:
    # a refused request leaves no record; the person asks again
    lines = [codex_meta(), task(1), context(), prompt("Bake", 2)]
    lines += [task(3), context(), prompt("Bake, please", 4), *answer("Baked", 5)]
    found = total(tmp_path, (CODEX_SESSION, lines))
    assert (found.turns, found.unpriced_turns) == (1, 1)
    assert found.cost_usd is not None
    with build.open_home(tmp_path) as store:
        rows = store.query(
            "select at - ?, model, failure from turn where calls = 0", (build.START,)
        )
    assert rows == [(2000, "gpt-5.2-codex", "no_answer")]


def test_old_codex_has_no_tasks_and_two_prompts_in_a_row_instead(tmp_path: Path) -> None:
    used = codex_usage(1000)
    lines = [codex_meta(), prompt("Bake", 2), context(), prompt("Bake, please", 4), context()]
    found = total(tmp_path, (CODEX_SESSION, [*lines, codex_count(5, used, used)]))
    assert (found.turns, found.unpriced_turns) == (1, 1)


def test_words_during_a_task_and_an_interruption_are_no_failed_request(tmp_path: Path) -> None:
    stopped = codex_line("event_msg", 7, type="turn_aborted")
    lines = [codex_meta(), task(1), context(), prompt("Bake", 2), prompt("and cool it", 3)]
    lines += [*answer("Baked", 4), *ask("c1", 5), record("resp_2", 5, codex_usage(1000)), stopped]
    lines += [task(8), prompt("Go on", 9), *answer("Done", 10)]
    found = total(tmp_path, (CODEX_SESSION, lines))
    assert (found.turns, found.unpriced_turns) == (3, 0)
