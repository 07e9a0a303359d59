"""One session, left by each of the newer agents in its own form, is the same record of all."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import build
import build_agents as agents
from build_agents import LABELS, PROJECT, PROMPT, TRUTH
from relight.chat.validity import validate_messages
from relight.intake.importing import Imported, import_all
from relight.intake.rebuild import rebuild
from relight.reports.doctor import examine
from relight.reports.listing import list_sessions
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.reports.transcript import read_transcript
from relight.sources.files import CHUNK_BYTES
from relight.store import Store

Write = Callable[[Path], object]


def write_database(agent: str) -> Write:
    return lambda home: agents.write_opencode(agents.open_opencode(home, agent))


# agents whose files grow line by line
GROWING: dict[str, tuple[Callable[[Path, Sequence[Any]], Path], Callable[[], list[Any]]]] = {
    "copilot": (agents.write_copilot, agents.copilot_session),
    "gemini": (agents.write_gemini, agents.gemini_session),
    "qwen": (agents.write_qwen, agents.qwen_session),
    "pi": (agents.write_pi, agents.pi_session),
    "droid": (agents.write_droid, agents.droid_session),
}


def write_lines(agent: str) -> Write:
    write, records = GROWING[agent]
    return lambda home: write(home, records())


AGENTS: dict[str, Write] = {
    **{agent: write_lines(agent) for agent in GROWING},
    "opencode": write_database("opencode"),
    "kilo": write_database("kilo"),
    "cline": lambda home: agents.write_cline(home, agents.cline_messages()),
}
# those that record the tokens that a model thought with
THINKING = {"copilot", "opencode", "kilo", "gemini", "qwen"}
SUMS_ONLY = {"droid"}
IDS = {"opencode": agents.OPENCODE_SESSION, "cline": agents.CLINE_SESSION}
IDS["kilo"] = IDS["opencode"]
RESUME = {
    "copilot": "copilot --resume",
    "opencode": "opencode --session",
    "kilo": "kilo --session",
    "gemini": "gemini --resume",
    "qwen": "qwen --resume",
    "pi": "pi --session",
    "cline": "cline --id",
    "droid": "droid --resume",
}
VERSIONS = {
    "copilot": "1.0.102",
    "opencode": "1.18.33",
    "kilo": "1.18.33",
    "qwen": "0.15.10",
    "cline": "3.0.65",
}


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def imported(store: Store, home: Path, agent: str) -> Imported:
    return next(one for one in build.import_home(store, home) if one.source == agent)


@pytest.fixture
def store(tmp_path: Path, agent: str) -> Iterator[Store]:
    AGENTS[agent](tmp_path)
    with build.open_home(tmp_path) as store:
        found = imported(store, tmp_path, agent)
        assert (found.sessions_new, found.unreadable) == (1, 0)
        yield store


def read_tokens(store: Store) -> list[tuple[int, ...]]:
    return store.query(
        "select input_tokens, cache_read_tokens, coalesce(cache_write_tokens, 0), output_tokens,"
        " reasoning_tokens from turn where calls > 0 order by at, id"
    )


def expect_tokens(agent: str) -> list[tuple[int | None, ...]]:
    if agent in SUMS_ONLY:
        names = ("fresh", "cached", "output")
        fresh, cached, output = (sum(getattr(one, name) for one in TRUTH) for name in names)
        return [(fresh, cached, 0, output, None)]
    thinks = agent in THINKING
    return [
        (one.fresh, one.cached, 0, one.output, one.thought if thinks else None) for one in TRUTH
    ]


def test_tokens_are_in_disjoint_buckets_call_by_call(store: Store, agent: str) -> None:
    assert read_tokens(store) == expect_tokens(agent)


def test_each_call_is_one_turn_and_its_calls_are_its_own(store: Store, agent: str) -> None:
    (turns, calls), *_ = store.query(
        "select sum(turns), sum(tool_calls) from session_day where day <> ''"
    )
    assert (turns, calls) == (5, 5)
    if agent not in SUMS_ONLY:
        rows = store.query(
            "select output_tokens, count(*) from tool_call join turn on turn.id = turn_id"
            " group by turn.id order by turn.at"
        )
        assert rows == [(40, 1), (41, 1), (42, 1), (43, 2)]


def test_a_failed_command_and_a_missing_file_are_failures(store: Store) -> None:
    rows = store.query("select label, exit_code from tool_call order by at, finished_at, id")
    assert [label for label, _ in rows] == LABELS
    assert [code for _, code in rows if code] == [3]


def test_a_cost_is_taken_where_the_agent_states_dollars(store: Store, agent: str) -> None:
    found = store.query("select cost_nanos, cost_status from turn order by at")
    if agent in ("opencode", "kilo", "pi", "cline"):
        assert found == [(round(agents.COST * 1e9), "reported")] * 5
    else:
        assert {cost for cost, _ in found} == {None}


def test_the_session_has_its_facts_and_the_line_that_continues_it(store: Store, agent: str) -> None:
    (row,) = list_sessions(store).sessions
    assert (row.title, row.project, row.model) == (PROMPT, PROJECT, agents.MODEL)
    assert row.resume == f"cd {PROJECT} && {RESUME[agent]} {IDS.get(agent, agents.SESSION)}"
    assert row.branch == ("main" if agent in ("copilot", "qwen") else None)
    ((version, started_at, answer, ending),) = store.query(
        "select version, started_at, answer, ending from session"
    )
    assert (version, answer, ending) == (VERSIONS.get(agent), agents.LAST, "answer")
    assert build.START <= started_at <= build.START + 1000


def test_the_transcript_is_a_valid_conversation(store: Store) -> None:
    found = read_transcript(store, find_session(store, "last"))
    roles = "".join(message["role"][0] for message in found.messages)
    assert roles == "uatatatatta"
    assert found.messages[0]["content"] == PROMPT
    assert (found.messages[1]["content"], found.messages[-1]["content"]) == (
        agents.FIRST,
        agents.LAST,
    )
    results = [one["content"] for one in found.messages if one["role"] == "tool"]
    assert ["prices.csv" in results[0], "no header" in results[1]] == [True, True]
    assert validate_messages(found.messages) == []


def test_a_second_import_and_a_rebuild_change_nothing(
    tmp_path: Path, store: Store, agent: str
) -> None:
    before = build.dump(store)
    found = imported(store, tmp_path, agent)
    assert (found.files, found.sessions_new, found.sessions_grown) == (0, 0, 0)
    rebuild(store, workers=1)
    assert build.dump(store) == before


def without_tape(found: dict[str, Any]) -> dict[str, Any]:
    """The index and the words; an agent that rewrites its records leaves a longer tape."""
    return {name: rows for name, rows in found.items() if name != "tape"}


def read_states(home: Path, states: Sequence[Callable[[], object]]) -> dict[str, Any]:
    shutil.rmtree(home / "relight", ignore_errors=True)
    with build.open_home(home) as store:
        for write in states:
            write()
            build.import_home(store, home)
        return build.dump(store)


@pytest.mark.parametrize("name", GROWING)
def test_a_file_read_at_any_line_and_in_the_midst_of_it_gives_the_same_record(
    tmp_path: Path, name: str
) -> None:
    write, records = GROWING[name]
    path = write(tmp_path, records())
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    states = [b"".join(lines[:number]) for number in range(len(lines) + 1)]
    halves = [state + line[: len(line) // 2] for state, line in zip(states, lines, strict=False)]

    def writing(content: bytes) -> Callable[[], object]:
        return lambda: path.write_bytes(content)

    at_once = read_states(tmp_path, [writing(whole)])
    # the sums of Droid are read again with each record
    compared = without_tape if name in SUMS_ONLY else dict
    alternating = [one for pair in zip(states, halves, strict=False) for one in pair]
    for steps in (alternating, halves):
        grown = read_states(tmp_path, [*map(writing, steps), writing(whole)])
        assert compared(grown) == compared(at_once)


@pytest.mark.parametrize("name", GROWING)
def test_a_session_of_several_megabytes_is_read_in_pieces(tmp_path: Path, name: str) -> None:
    write, records = GROWING[name]
    path = write(tmp_path, records())
    at_once = read_states(tmp_path, [lambda: None])
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first + b"\n" + b'{"type":"unknown"}\n' * (CHUNK_BYTES // 10) + rest)
    grown = read_states(tmp_path, [lambda: None])
    for table in ("session", "turn", "tool_call"):
        assert grown[table] == at_once[table]


def test_a_database_read_after_every_write_gives_the_same_record(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        database = agents.open_opencode(tmp_path)
        agents.write_opencode(database, after=lambda: build.import_home(store, tmp_path))
        grown = without_tape(build.dump(store))
    assert grown == without_tape(read_states(tmp_path, [lambda: None]))


def test_a_document_read_after_every_write_gives_the_same_record(tmp_path: Path) -> None:
    messages = agents.cline_messages()

    def writing(number: int, *, is_counted: bool = True) -> Callable[[], object]:
        some = [dict(one) for one in messages[:number]]
        if not is_counted and some:
            some[-1].pop("metrics", None)  # they are written after the words
        status = "completed" if number == len(messages) and is_counted else "running"
        return lambda: agents.write_cline(tmp_path, some, status=status)

    at_once = without_tape(read_states(tmp_path, [writing(len(messages))]))
    steps = [
        writing(number, is_counted=is_counted)
        for number in range(len(messages) + 1)
        for is_counted in (False, True)
    ]
    assert without_tape(read_states(tmp_path, steps)) == at_once


def test_a_record_that_cannot_be_read_is_counted_and_costs_no_other(
    tmp_path: Path, agent: str
) -> None:
    if agent in GROWING:
        write, records = GROWING[agent]
        lines = records()
        bad = {**lines[-1], "data": 7, "message": 7, "type": lines[-1].get("type"), "tokens": 7}
        write(tmp_path, [*lines[:3], bad, *lines[3:]])
    elif agent == "cline":
        agents.write_cline(tmp_path, [*agents.cline_messages(), {"role": "user", "ts": "noon"}])
    else:
        database = agents.open_opencode(tmp_path, agent)
        agents.write_opencode(database)
        row = {"time_created": build.START + 1, "time_updated": build.START + 1}
        statement = "insert into message values ('msg_x', ?, ?, ?, '{\"role\":')"
        database.execute(statement, (agents.OPENCODE_SESSION, *row.values()))
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, agent).unreadable == 1
        assert read_tokens(store) == expect_tokens(agent)


def test_a_session_that_is_deleted_stays_recorded(tmp_path: Path, store: Store, agent: str) -> None:
    before = build.dump(store)
    if agent in ("opencode", "kilo"):
        database = agents.open_opencode(tmp_path, agent)
        for table in ("part", "message", "session"):
            database.execute(f"delete from {table}")
    else:
        for path in [*tmp_path.rglob("*.jsonl"), *tmp_path.rglob("*.json")]:
            path.unlink()
    assert imported(store, tmp_path, agent).unreadable == 0
    assert build.dump(store) == before


def test_a_file_that_vanishes_between_finding_and_reading_is_counted(
    tmp_path: Path, agent: str
) -> None:
    from relight.sources import find_source

    AGENTS[agent](tmp_path)
    found = list(find_source(agent).find({"HOME": str(tmp_path)}, None))
    for origin in found:
        Path(origin.path).unlink()
        Path(f"{origin.path}-wal").unlink(missing_ok=True)
    with build.open_home(tmp_path) as store:
        done = import_all(store, sources=[agent], found={agent: found}, workers=1).sources[0]
        assert done.unreadable == len(found)


def test_a_half_written_document_is_counted_and_read_when_it_is_whole(tmp_path: Path) -> None:
    path = agents.write_cline(tmp_path, agents.cline_messages())
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, "cline").unreadable == 1
        path.write_bytes(whole)
        assert imported(store, tmp_path, "cline").unreadable == 0
        assert read_tokens(store) == expect_tokens("cline")
        assert store.query("select count(*) from unreadable") == [(0,)]


def test_a_half_written_manifest_is_counted_until_it_is_whole(tmp_path: Path) -> None:
    path = agents.write_cline(tmp_path, agents.cline_messages())
    manifest = path.with_name(path.name.replace(".messages", ""))
    whole = manifest.read_bytes()
    with build.open_home(tmp_path) as store:
        imported(store, tmp_path, "cline")
        for size in (40, 60):
            manifest.write_bytes(whole[:size])
            assert imported(store, tmp_path, "cline").unreadable == 1
            assert store.query("select count(*) from unreadable") == [(1,)]
        manifest.write_bytes(whole)
        assert imported(store, tmp_path, "cline").unreadable == 0
        assert store.query("select count(*) from unreadable") == [(0,)]


def test_half_written_sums_are_counted_and_read_when_they_are_whole(tmp_path: Path) -> None:
    path = agents.write_droid(tmp_path, agents.droid_session())
    settings = path.with_suffix(".settings.json")
    whole = settings.read_bytes()
    settings.write_bytes(whole[:50])
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, "droid").unreadable == 1
        assert read_unknown(store) == (5, 5, None, None)
        settings.write_bytes(whole)
        assert imported(store, tmp_path, "droid").unreadable == 0
        assert read_tokens(store) == expect_tokens("droid")


def read_unknown(store: Store) -> tuple[object, ...]:
    """What a report says of all sessions: turns, those without a price, tokens, dollars."""
    total = report(store, ["source"]).total
    return total.turns, total.unpriced_turns, total.total_tokens, total.cost_usd


def without_tokens(value: Any, *, by: object) -> Any:
    """Records as an agent writes them whose server counts no tokens: without, or with zeros."""
    if isinstance(value, list):
        return [without_tokens(one, by=by) for one in value]
    if not isinstance(value, dict):
        return value
    names = {"usageMetadata", "tokens", "usage", "metrics"}
    kept = {name: without_tokens(one, by=by) for name, one in value.items() if name not in names}
    for name in names & value.keys() if by == 0 else ():
        kept[name] = {one: 0 for one, count in value[name].items() if isinstance(count, int)}
    return kept


@pytest.mark.parametrize("by", [None, 0])
@pytest.mark.parametrize("agent", ["gemini", "qwen", "pi", "cline"])
def test_tokens_that_nobody_counted_are_unknown(tmp_path: Path, agent: str, by: object) -> None:
    if agent == "cline":
        agents.write_cline(tmp_path, without_tokens(agents.cline_messages(), by=by))
    else:
        write, records = GROWING[agent]
        write(tmp_path, without_tokens(records(), by=by))
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, agent).unreadable == 0
        assert read_unknown(store) == (5, 5, None, None)


def test_a_session_of_droid_without_sums_has_unknown_tokens_until_they_are_there(
    tmp_path: Path,
) -> None:
    path = agents.write_droid(tmp_path, agents.droid_session())
    settings = path.with_suffix(".settings.json")
    whole = settings.read_bytes()
    settings.unlink()
    with build.open_home(tmp_path) as store:
        imported(store, tmp_path, "droid")
        assert read_unknown(store) == (5, 5, None, None)
        settings.write_bytes(whole)
        imported(store, tmp_path, "droid")
        assert read_tokens(store) == expect_tokens("droid")
        # records that grow without their sums leave the sums as they are
        with path.open("a") as file:
            message = agents.droid_message("m9", 95, "assistant", {"type": "text", "text": "x"})
            file.write(f"{json.dumps(message)}\n")
        imported(store, tmp_path, "droid")
        assert read_tokens(store) == expect_tokens("droid")


@pytest.mark.parametrize("agent", ["opencode"])
def test_a_locked_database_is_counted_and_read_later(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".local" / "share" / agent / f"{agent}.db"
    path.parent.mkdir(parents=True)
    database = build.connect_as_hermes(path)
    database.executescript(agents.OPENCODE_TABLES)
    agents.write_opencode(database)
    database.execute("pragma locking_mode = exclusive")
    database.execute("begin exclusive")
    (path.parent / f"{agent}.db-wal").touch()  # a reader takes the locks of a database in use
    monkeypatch.setattr("relight.sources.files.LOCK_WAIT_SECONDS", 0.05)
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, agent).unreadable == 1
        database.execute("commit")
        database.close()
        assert imported(store, tmp_path, agent).unreadable == 0
        assert read_tokens(store) == expect_tokens(agent)


def test_a_database_without_a_log_is_not_read_in_the_midst_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.sources.files.LOCK_WAIT_SECONDS", 0.05)
    database = agents.open_opencode(tmp_path)
    agents.write_opencode(database)
    database.execute("pragma journal_mode = delete")
    with build.open_home(tmp_path) as store:
        database.executescript("pragma cache_size = 1; begin; delete from part")
        # more than is cached, so that the file itself is changed
        for number in range(50):
            database.execute(
                "insert into session_message values (?, 's', 'user', ?)", (number, "x" * 4000)
            )
        assert imported(store, tmp_path, "opencode").unreadable == 1
        database.execute("rollback")
        database.close()
        assert imported(store, tmp_path, "opencode").unreadable == 0
        assert read_tokens(store) == expect_tokens("opencode")


def test_a_database_of_a_newer_schema_is_reported(tmp_path: Path) -> None:
    database = agents.open_opencode(tmp_path)
    agents.write_opencode(database)
    agents.put_session(database, "ses_new")
    database.execute("insert into session_message values ('m', 'ses_new', 'user', '{}')")
    with build.open_home(tmp_path) as store:
        assert imported(store, tmp_path, "opencode").unreadable == 1
        assert read_tokens(store) == expect_tokens("opencode")
        ((reason,),) = store.query("select reason from unreadable")
        assert "ses_new" in reason
    database.execute("drop table part")
    with build.open_home(tmp_path / "second") as store:
        assert imported(store, tmp_path, "opencode").unreadable == 1
        ((reason,),) = store.query("select reason from unreadable")
        assert "no such table: part" in reason


def test_two_sessions_with_the_same_ids_of_calls_and_responses_lose_nothing(
    tmp_path: Path, agent: str
) -> None:
    other = "1f" + agents.SESSION[2:]
    if agent in GROWING:
        write, records = GROWING[agent]
        text = json.dumps(records())
        write(tmp_path, records())
        write(tmp_path, json.loads(text.replace(agents.SESSION, other)), name=other)  # type: ignore[call-arg]
        if agent in ("qwen", "pi"):
            pytest.skip("its ids are unique, and equal ones are copies")
    elif agent == "cline":
        pytest.skip("its ids are unique, and equal ones are copies")
    else:
        database = agents.open_opencode(tmp_path, agent)
        agents.write_opencode(database)
        agents.write_opencode(database, "ses_child", copy="c", parent_id=agents.OPENCODE_SESSION)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        total = report(store, ("source",)).total
        assert total.output_tokens == 2 * sum(one.output for one in TRUTH)
        assert total.tool_calls == 2 * len(LABELS)


def read_session_row(store: Store, key: str) -> tuple[Any, ...]:
    (row,) = store.query(
        "select child.parent_kind, parent.key, child.root_id = parent.id from session as child"
        " left join session as parent on parent.id = child.parent_id where child.key = ?",
        (key,),
    )
    return row


def test_a_fork_counts_what_it_copied_once(tmp_path: Path, agent: str) -> None:
    fork = "2f" + agents.SESSION[2:]
    parent = IDS.get(agent, agents.SESSION)
    if agent == "copilot":
        agents.write_copilot(tmp_path, agents.copilot_session())
        lines = agents.copilot_session(fork)
        copied = [one for one in agents.copilot_session() if one["type"] != "session.start"]
        own = agents.copilot_usage(90, TRUTH[0], 6, session=fork)
        agents.write_copilot(tmp_path, [lines[0], *copied[:-1], own], name=fork)
    elif agent == "qwen":
        agents.write_qwen(tmp_path, agents.qwen_session())
        origin = {"sessionId": agents.SESSION, "messageUuid": "x"}
        copied = [one | {"forkedFrom": origin} for one in agents.qwen_session(fork)]
        own = next(one for one in agents.qwen_session(fork) if one["type"] == "assistant")
        own = own | {"uuid": "own", "timestamp": build.stamp(90)}
        agents.write_qwen(tmp_path, [*copied, own], name=fork)
    elif agent == "pi":
        path = agents.write_pi(tmp_path, agents.pi_session())
        lines = agents.pi_session(fork, parentSession=str(path), timestamp=build.stamp(80))
        own = next(one for one in lines if one["id"] == "b0")
        message = own["message"] | {"timestamp": agents.milliseconds(90)}
        own = own | {
            "id": "own",
            "parentId": "b4",
            "timestamp": build.stamp(91),
            "message": message,
        }
        agents.write_pi(tmp_path, [*lines, own], name=fork)
    elif agent in ("opencode", "kilo"):
        database = agents.open_opencode(tmp_path, agent)
        agents.write_opencode(database)
        born = agents.milliseconds(80)
        agents.write_opencode(database, fork, copy="f", time_created=born)
        tokens = agents.opencode_tokens(TRUTH[0])
        told = {"role": "assistant", "modelID": agents.MODEL, "tokens": tokens}
        done = {"time": {"completed": agents.milliseconds(91)}}
        agents.put_message(database, "msg_own", 90, session=fork, **told, **done)
    elif agent == "droid":
        agents.write_droid(tmp_path, agents.droid_session())
        lines = agents.droid_session(fork, parent=agents.SESSION, forkedAtMessageId="m4")
        text = {"type": "text", "text": "Elsewhere."}
        asked = agents.droid_message("own1", 89, "user", text) | {"parentId": "m4"}
        own = agents.droid_message("own2", 90, "assistant", text, modelId=agents.MODEL)
        agents.write_droid(tmp_path, [*lines, asked, own], name=fork, used=TRUTH[:1])
    else:
        pytest.skip("it has no forks that copy records, or none was seen")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        total = report(store, ("source",)).total
        assert total.output_tokens == sum(one.output for one in [*TRUTH, TRUTH[0]])
        assert total.tool_calls == len(LABELS) + (agent in ("qwen", "pi"))
        assert total.turns == len(TRUTH) + 1
        assert read_session_row(store, fork)[:2] == ("fork", parent)


def test_a_sub_agent_is_a_part_of_its_parent(tmp_path: Path, agent: str) -> None:
    if agent == "copilot":
        lines = agents.copilot_session()
        asked = agents.copilot_event("user.message", 21, agent="a7", content="Look for prices")
        own = [asked, agents.copilot_usage(22, TRUTH[1], 9, agent="a7")]
        agents.write_copilot(tmp_path, [*lines[:10], *own, *lines[10:-1]])
        child = f"{agents.SESSION}/a7"
    elif agent == "gemini":
        path = agents.write_gemini(tmp_path, agents.gemini_session())
        records = agents.gemini_session("child-1", kind="subagent", directories=[PROJECT])[:5]
        folder = path.parent / agents.SESSION
        folder.mkdir()
        (folder / "child-1.jsonl").write_bytes(build.as_lines(records))
        child = "child-1"
    elif agent == "qwen":
        path = agents.write_qwen(tmp_path, agents.qwen_session())
        own = [one | {"agentId": "explore-7", "isSidechain": True, "uuid": f"s{n}"}
               for n, one in enumerate(agents.qwen_session()[:3])]  # fmt: skip
        folder = path.parents[1] / "subagents" / agents.SESSION
        folder.mkdir(parents=True)
        (folder / "agent-explore-7.jsonl").write_bytes(build.as_lines(own))
        child = f"{agents.SESSION}/explore-7"
    elif agent in ("opencode", "kilo"):
        database = agents.open_opencode(tmp_path, agent)
        agents.write_opencode(database)
        agents.write_opencode(database, "ses_child", copy="c", parent_id=IDS[agent])
        child = "ses_child"
    elif agent == "cline":
        agents.write_cline(tmp_path, agents.cline_messages())
        other = json.loads(json.dumps(agents.cline_messages()[:2]).replace('"msg_', '"sub_'))
        agents.write_cline(tmp_path, other, agent="agent_1")
        child = f"{agents.CLINE_SESSION}__agent_1"
    elif agent == "droid":
        agents.write_droid(tmp_path, agents.droid_session())
        records = agents.droid_session("child-1", callingSessionId=agents.SESSION)
        agents.write_droid(tmp_path, records, name="child-1", used=TRUTH[:1])
        child = "child-1"
    else:
        pytest.skip("it has no sub-agents")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        parent = IDS.get(agent, agents.SESSION)
        assert read_session_row(store, child) == ("subagent", parent, 1)
        total = report(store, ("source",)).total
        assert (total.sessions, total.output_tokens) == (1, SUB_AGENT_OUTPUT[agent])
        assert read_transcript(store, find_session(store, f"{agent}:{child}")).messages


WHOLE = sum(one.output for one in TRUTH)
SUB_AGENT_OUTPUT = {
    "copilot": WHOLE + TRUTH[1].output,
    "gemini": WHOLE + TRUTH[0].output,
    "qwen": WHOLE + TRUTH[0].output,
    "opencode": 2 * WHOLE,
    "kilo": 2 * WHOLE,
    "cline": WHOLE + TRUTH[0].output,
    "droid": WHOLE + TRUTH[0].output,
}


def test_the_names_of_agents_homes_are_honoured(tmp_path: Path, agent: str) -> None:
    from relight.sources import find_source

    AGENTS[agent](tmp_path / "user")
    source = find_source(agent)
    if source.variable is None:
        pytest.skip("it has no such variable")
    home = tmp_path / "user" / source.homes[0]
    environment = {"HOME": str(tmp_path / "nobody"), source.variable: str(home)}
    assert [one for one in source.find(environment, None) if not one.trouble]


@pytest.mark.parametrize(
    ("agent", "place"),
    [
        ("qwen", ".qwen"),
        ("pi", ".pi/agent/sessions"),
        ("cline", ".cline/data/sessions"),
        ("opencode", ".local/share/opencode/opencode.db"),
        ("kilo", ".local/share/kilo/kilo.db"),
    ],
)
def test_the_folder_of_sessions_may_be_named_before_the_home(
    tmp_path: Path, agent: str, place: str
) -> None:
    from relight.sources import find_source

    AGENTS[agent](tmp_path / "user")
    source = find_source(agent)
    environment = {"HOME": str(tmp_path), str(source.variable): str(tmp_path / "nobody")}
    assert list(source.find(environment, None)) == []
    environment[str(source.sessions_variable)] = str(tmp_path / "user" / place)
    assert len([one for one in source.find(environment, None) if not one.trouble]) == 1


def test_a_database_may_be_named_beside_the_usual_one(tmp_path: Path) -> None:
    from relight.sources import find_source

    agents.write_opencode(agents.open_opencode(tmp_path))
    folder = tmp_path / ".local" / "share" / "opencode"
    (folder / "opencode.db").rename(folder / "mine.db")
    environment = {"HOME": str(tmp_path), "OPENCODE_DB": "mine.db"}
    assert [one.path for one in find_source("opencode").find(environment, None)] == [
        str(folder / "mine.db")
    ]


@pytest.mark.parametrize("local", [None, "local"])
def test_an_agent_may_have_another_home_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: str | None
) -> None:
    import relight.sources

    source = relight.sources.find_source("hermes")
    environment = {"HOME": str(tmp_path)} | (
        {"LOCALAPPDATA": str(tmp_path / local)} if local else {}
    )
    assert source.find_homes(environment) == [tmp_path / ".hermes"]
    monkeypatch.setattr(relight.sources, "IS_WINDOWS", True)
    own = tmp_path / (local or "AppData/Local") / "hermes"
    assert source.find_homes(environment) == [own, tmp_path / ".hermes"]
    named = environment | {"HERMES_HOME": str(tmp_path / "named")}
    assert source.find_homes(named) == [tmp_path / "named"]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (".gemini/tmp/shop/chats/session-1.json", "an early Gemini CLI"),
        (".local/share/opencode/storage/message/ses_1/msg_1.json", "before its database"),
        (
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1/"
            "api_conversation_history.json",
            "VS Code",
        ),
    ],
)
def test_files_of_a_form_that_is_not_read_are_counted_by_the_doctor(
    tmp_path: Path, path: str, what: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("{}")
    with build.open_home(tmp_path) as store:
        found = examine(store, environment={"HOME": str(tmp_path)}, depth="quick")
    (line,) = [one for one in found.advice if "not read" in one]
    assert line.startswith("1 file not read: ")
    assert what in line


@pytest.mark.parametrize("has_file", [False, True])
def test_a_call_of_qwens_sub_agent_counts_once_whether_or_not_it_has_a_file(
    tmp_path: Path, has_file: bool
) -> None:
    used = TRUTH[2]
    counted: dict[str, Any] = {
        "input_token_count": used.prompt,
        "output_token_count": used.output,
        "cached_content_token_count": used.cached,
        "thoughts_token_count": used.thought,
        "total_token_count": used.prompt + used.output,
    }
    name = f"{agents.SESSION}#explore-7#0"
    logged = agents.qwen_telemetry(
        15, "api_response", prompt_id=name, model=agents.MODEL, **counted
    )
    lines = agents.qwen_session()
    path = agents.write_qwen(tmp_path, [*lines[:3], logged, *lines[3:]])
    if has_file:
        answer = [one for one in lines if one["type"] == "assistant"][2]
        own = answer | {"agentId": "explore-7", "isSidechain": True, "uuid": "s1"}
        folder = path.parents[1] / "subagents" / agents.SESSION
        folder.mkdir(parents=True)
        (folder / "agent-explore-7.jsonl").write_bytes(build.as_lines([own]))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        total = report(store, ("source",)).total
        assert (total.sessions, total.turns) == (1, 6)
        assert total.output_tokens == WHOLE + used.output
        child = f"{agents.SESSION}/explore-7"
        assert read_session_row(store, child) == ("subagent", agents.SESSION, 1)


def test_a_call_of_qwen_in_a_terminal_is_none_of_a_sub_agent(tmp_path: Path) -> None:
    used = TRUTH[2]
    counted: dict[str, Any] = {"input_token_count": used.prompt, "output_token_count": used.output}
    name = f"{agents.SESSION}########2"  # as it names its own requests there
    logged = agents.qwen_telemetry(
        15, "api_response", prompt_id=name, model=agents.MODEL, **counted
    )
    lines = agents.qwen_session()
    agents.write_qwen(tmp_path, [*lines[:3], logged, *lines[3:]])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert report(store, ("source",)).total.output_tokens == WHOLE
        assert store.query("select count(*) from session") == [(1,)]
