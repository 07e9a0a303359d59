import json
import sqlite3
from pathlib import Path

import pytest

import build
from relight.reports.totals import ReportFigures, report
from relight.reports.transcript import read_transcript
from relight.store import Store


@pytest.fixture
def hermes(tmp_path: Path) -> sqlite3.Connection:
    return build.open_hermes(tmp_path)


def totals(store: Store, home: Path) -> ReportFigures:
    build.import_home(store, home)
    return report(store, ("model",)).total


def test_the_sums_of_a_session_become_one_turn_with_its_calls(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    with build.open_home(tmp_path) as store:
        found = totals(store, tmp_path)
    assert (found.turns, found.input_tokens, found.cache_read_tokens) == (2, 1000, 400)
    assert (found.output_tokens, found.tool_calls, found.sessions) == (68, 1, 1)


def test_what_stands_only_in_the_write_ahead_log_is_read(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    hermes.execute("pragma wal_autocheckpoint = 0")
    build.hermes_session(hermes)
    with build.open_home(tmp_path) as store:
        assert totals(store, tmp_path).sessions == 1


@pytest.mark.parametrize("column", ["active", "compacted"])
def test_a_version_without_one_of_the_flags_is_read_on(
    tmp_path: Path, hermes: sqlite3.Connection, column: str
) -> None:
    hermes.execute(f"alter table messages drop column {column}")
    name = build.hermes_session(hermes)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        row = {"role": "user", "content": "And now?", "timestamp": build.START / 1000 + 9}
        build.insert(hermes, "messages", session_id=name, **row)
        found = build.import_home(store, tmp_path)[2]
    assert (found.sessions_grown, found.unreadable) == (1, 0)


def test_calls_beside_the_conversation_are_counted_with_their_task(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    name = build.hermes_session(hermes)
    build.insert(
        hermes,
        "session_model_usage",
        session_id=name,
        model="gpt-5.1",
        task="title_generation",
        api_call_count=1,
        input_tokens=200,
        output_tokens=9,
    )
    with build.open_home(tmp_path) as store:
        assert totals(store, tmp_path).output_tokens == 77
        assert store.query("select role from turn where role is not null") == [
            ("title_generation",)
        ]


def test_tool_calls_are_those_of_the_conversation_and_not_of_a_call_beside_it(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    for number in range(8):  # by which id is the smaller, half of them would be wrong
        name = build.hermes_session(hermes, f"20261115_00000{number}_abc123")
        usage = {"session_id": name, "model": "gpt-5.1-mini", "task": "title_generation"}
        at = build.START / 1000 + 1
        build.insert(
            hermes, "session_model_usage", **usage, api_call_count=1, output_tokens=9, first_seen=at
        )
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = {row.model: row.tool_calls for row in report(store, ["model"]).rows}
    assert found == {"gpt-5.1": 8, "gpt-5.1-mini": 0}


def test_a_growing_session_counts_its_newest_sums_once(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    with build.open_home(tmp_path) as store:
        totals(store, tmp_path)
        hermes.execute("update session_model_usage set output_tokens = 100, api_call_count = 3")
        hermes.execute("update sessions set output_tokens = 100, api_call_count = 3")
        found = totals(store, tmp_path)
        assert (found.turns, found.output_tokens) == (3, 100)


def test_profiles_have_databases_of_their_own(tmp_path: Path, hermes: sqlite3.Connection) -> None:
    build.hermes_session(hermes)
    build.hermes_session(build.open_hermes(tmp_path, profile="work"), "20261115_000000_def456")
    with build.open_home(tmp_path) as store:
        assert totals(store, tmp_path).sessions == 2


def test_compacted_and_rewound_messages_keep_their_calls(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    with build.open_home(tmp_path) as store:
        before = totals(store, tmp_path)
        hermes.execute("update messages set active = 0, compacted = 1 where id < 4")
        hermes.execute("update sessions set message_count = 1")
        assert totals(store, tmp_path) == before


def test_an_unknown_price_stored_as_zero_is_not_free(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.execute(
        "update session_model_usage set model = 'my-own', cost_status = 'unknown',"
        " estimated_cost_usd = 0.0"
    )
    with build.open_home(tmp_path) as store:
        found = totals(store, tmp_path)
    assert (found.cost_usd, found.unpriced_turns) == (None, 2)


def test_hermes_own_estimate_comes_before_the_price_lists(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.execute(
        "update session_model_usage set cost_status = 'estimated', estimated_cost_usd = 0.00476"
    )
    with build.open_home(tmp_path) as store:
        assert totals(store, tmp_path).cost_usd == 0.00476


def test_a_subscription_is_shown_at_list_price_and_never_as_spent(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.execute("update session_model_usage set cost_status = 'included'")
    with build.open_home(tmp_path) as store:
        found = totals(store, tmp_path)
    assert found.cost_usd == 0
    assert found.included_usd


def test_a_session_that_died_before_any_answer_is_still_a_session(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.insert(
        hermes,
        "sessions",
        id="cron_aaaaaaaaaaaa_20261115_000000",
        source="cron",
        model="m",
        started_at=build.START / 1000,
        end_reason="cron_complete",
    )
    with build.open_home(tmp_path) as store:
        found = totals(store, tmp_path)
    assert (found.sessions, found.turns) == (1, 0)


def test_a_delegated_session_counts_in_its_parents_sums_once(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    parent = build.hermes_session(hermes)
    child = build.hermes_session(hermes, "20261115_000001_child1")
    hermes.execute(
        "update sessions set parent_session_id = ?, source = 'subagent' where id = ?",
        (parent, child),
    )
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (row,) = report(store, ("session",)).rows
    assert (row.session, row.turns, row.output_tokens) == (f"hermes:{parent}", 4, 136)


def test_an_older_schema_without_usage_rows_is_read_from_the_sessions_sums(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.execute("drop table session_model_usage")
    hermes.execute("alter table sessions drop column cost_status")
    hermes.execute("alter table messages drop column compacted")
    with build.open_home(tmp_path) as store:
        found = totals(store, tmp_path)
    assert (found.turns, found.output_tokens) == (2, 68)


def test_a_database_being_written_to_is_read_as_of_one_moment(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.execute("begin immediate")
    build.hermes_session(hermes, "20261115_000002_open01")
    with build.open_home(tmp_path) as store:
        assert totals(store, tmp_path).sessions == 1
        hermes.execute("commit")
        assert totals(store, tmp_path).sessions == 2


def test_a_corrupt_database_is_reported_and_nothing_else_suffers(tmp_path: Path) -> None:
    folder = tmp_path / ".hermes"
    folder.mkdir()
    (folder / "state.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        found = {one.source: one for one in build.import_home(store, tmp_path)}
        assert found["hermes"].unreadable == 1
        assert found["claude-code"].sessions_new == 1
        assert build.import_home(store, tmp_path)[2].unreadable == 1  # tried again


def test_nothing_new_is_found_without_opening_the_database(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    build.hermes_session(hermes)
    hermes.close()
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert not any(one.files for one in build.import_home(store, tmp_path))


def branch(
    database: sqlite3.Connection, parent: str, name: str, *, at: float, is_marked: bool
) -> None:
    """A branch as Hermes makes it: a copy of the parent's messages, and one more call.

    An older version, and the API of this one, mark no branch: they only end its parent so.
    """
    begin = build.START / 1000 + at
    config = {"_branched_from": parent} if is_marked else {}
    ended = "update sessions set ended_at = ?, end_reason = 'branched' where id = ?"
    database.execute(ended, (begin, parent))
    build.insert(
        database,
        "sessions",
        id=name,
        source="cli",
        model="gpt-5.1",
        started_at=begin,
        parent_session_id=parent,
        model_config=json.dumps(config),
    )
    columns = "role, content, tool_call_id, tool_calls, tool_name"
    database.execute(
        f"insert into messages (session_id, timestamp, {columns})"
        f" select ?, ?, {columns} from messages where session_id = ? order by id",
        (name, begin, parent),
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "terminal"}}
    told = {"session_id": name, "timestamp": begin + 5, "role": "assistant"}
    build.insert(database, "messages", **told, content="", tool_calls=json.dumps([call]))


@pytest.mark.parametrize("is_marked", [True, False])
def test_the_calls_that_a_branch_copied_are_its_parents(
    tmp_path: Path, hermes: sqlite3.Connection, is_marked: bool
) -> None:
    parent = build.hermes_session(hermes)
    branch(hermes, parent, "branch", at=100, is_marked=is_marked)
    branch(hermes, "branch", "deeper", at=200, is_marked=is_marked)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query(
            "select key, parent_kind, (select count(*) from tool_call"
            " where session_id = session.id) from session order by started_at"
        )
        assert rows == [(parent, None, 1), ("branch", "fork", 1), ("deeper", "fork", 1)]
        # they were said in the branch all the same
        (branch_id,) = store.query("select id from session where key = 'branch'")[0]
        told = read_transcript(store, branch_id).messages
        assert sum(len(one.get("tool_calls") or ()) for one in told) == 2


NUDGE = "You've reached the maximum number of tool-calling iterations allowed. Please provide a"


def judge_after(
    tmp_path: Path, hermes: sqlite3.Connection, *rows: dict[str, str]
) -> tuple[str | None, str | None, str | None]:
    """The outcome, the ending and the title of a session whose calls failed, with these rows."""
    name = build.hermes_session(hermes)
    hermes.execute("delete from messages")
    result = '{"output": "", "exit_code": 2, "error": "no such file"}'
    said: list[dict[str, str]] = [{"role": "user", "content": "Build it"}]
    for number in range(6):
        function = {"name": "terminal", "arguments": json.dumps({"command": f"make {number}"})}
        asked = [{"id": f"c{number}", "type": "function", "function": function}]
        said.append({"role": "assistant", "content": "", "tool_calls": json.dumps(asked)})
        said.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    for number, row in enumerate([*said, *rows]):
        build.insert(
            hermes, "messages", session_id=name, timestamp=build.START / 1000 + number, **row
        )
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        ((outcome, ending, title),) = store.query("select outcome, ending, title from session")
    return outcome, ending, title


SUMMARY = {"role": "assistant", "content": "I looked at the files.", "finish_reason": "stop"}


@pytest.mark.parametrize("text", [NUDGE, "[System: Your previous response was truncated by the"])
def test_words_of_hermes_itself_are_no_further_request(
    tmp_path: Path, hermes: sqlite3.Connection, text: str
) -> None:
    found = judge_after(tmp_path, hermes, {"role": "user", "content": text}, SUMMARY)
    assert found == ("failure", "answer", "Build it")


def test_a_further_request_of_a_person_is_not_judged_by_the_calls_before_it(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    asked = {"role": "user", "content": "What did you look at?"}
    assert judge_after(tmp_path, hermes, asked, SUMMARY) == ("unknown", "answer", "Build it")


def test_a_note_of_hermes_at_the_end_waits_for_no_answer(
    tmp_path: Path, hermes: sqlite3.Connection
) -> None:
    note = "[System: The active model for this chat has changed to gpt-5.1.]"
    found = judge_after(tmp_path, hermes, SUMMARY, {"role": "user", "content": note})
    assert found == ("failure", "answer", "Build it")
