"""Machines that push their record to a server: nothing is lost, nothing counts twice."""

import shutil
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import build
import relight
from build_team import URL, DirectLine, Laptop, Office, open_office
from relight.errors import RelightError
from relight.intake import wire
from relight.intake.push import push_after_import
from relight.intake.push_preview import try_out
from relight.intake.rebuild import rebuild
from relight.intake.retention import derive_from, forget, prune
from relight.intake.take import Deriver, answer_pushed
from relight.intake.team_client import BusyServerError, ServerError, check_url
from relight.intake.workers import Lost
from relight.model import Mark, Session, row_id
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.reports.trace import read_trace
from relight.reports.transcript import read_transcript
from relight.store import Store, open_reader
from relight.store.keep.machines import remove_person
from relight.store.keep.restore import restore
from relight.store.members import find_person, revoke_tokens
from relight.store.queries.filters import Filter
from relight.store.queries.runs import read_runs
from relight.store.team import count_due, read_target, write_target
from relight.store.team_facts import RunFigures
from relight.store.visibility import Viewer
from relight.store.write.pushed import read_backlog
from relight.store.write.sealed import CompactionRow, Sealed, TimingRow
from relight.store.write.tape import compress

OTHER = "22222222-bbbb-4bbb-8bbb-222222222222"
HERMES = "20261115_000000_abc123"
SHARES: tuple[wire.Share, ...] = ("tapes", "figures")
PLAIN_PART: Any = {
    "source": "claude-code",
    "session": OTHER,
    "path": "p",
    "records": compress(b"{}\n"),
}
MakeMachine = Callable[[str, str, DirectLine], Laptop]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Machines with imported sessions, made once: an import costs more than all that is tested."""
    folder = tmp_path_factory.mktemp("homes")
    apart = other_session("/home/dev/secret")
    for name, more in (("one", None), ("two", other_session()), ("apart", apart)):
        build.write_claude(folder / name, build.claude_session())
        if more:
            build.write_claude(folder / name, more, name=OTHER)
    write_planted(folder / "planted")
    noise = "".join(sha256(bytes([number])).hexdigest() for number in range(200))
    build.write_claude(folder / "long", build.claude_session())
    long = [*other_session(), build.claude_prompt(noise, 9, sessionId=OTHER)]
    build.write_claude(folder / "long", long, name=OTHER)
    build.hermes_session(build.open_hermes(folder / "container"), HERMES)
    for name in ("one", "two", "apart", "planted", "long", "container"):
        with build.open_home(folder / name, is_file=True) as store:
            build.import_home(store, folder / name)
    return folder


@pytest.fixture
def office(homes: Path, tmp_path: Path) -> Iterator[Office]:
    with open_office(tmp_path / "server") as found:
        yield found


@pytest.fixture
def machines(homes: Path, tmp_path: Path) -> Iterator[MakeMachine]:
    """Make a machine from a prepared home."""
    made: list[Laptop] = []

    def make(home: str, name: str, line: DirectLine) -> Laptop:
        folder = tmp_path / f"machine{len(made)}"
        shutil.copytree(homes / home / "relight", folder / "relight")
        made.append(Laptop(folder, name, line))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


@pytest.fixture
def laptop(office: Office, machines: MakeMachine) -> Laptop:
    return machines("one", "laptop", office.line(office.add("anna")))


@pytest.fixture
def full(office: Office, machines: MakeMachine) -> Laptop:
    """A laptop with two sessions, of one part each."""
    return machines("two", "laptop", office.line(office.add("anna")))


def other_session(cwd: str = "/home/dev/shop") -> list[dict[str, Any]]:
    """A session that shares nothing with `build.claude_session`."""
    session: Any = {"sessionId": OTHER, "cwd": cwd}
    return [
        build.claude_prompt("Tidy the shelf", **session),
        build.claude_answer("msg_other", at=2, **session),
    ]


def sums(store: Store) -> list[tuple[Any, ...]]:
    """Everything that reports add up, whichever machine it is from."""
    return [
        *store.query(
            "select session_id, day, model, turns, input_tokens, output_tokens, cost_nanos,"
            " tool_calls, tool_failures, wall_ms from session_day order by 1, 2, 3"
        ),
        *store.query("select tool, kind, tool_calls, tool_failures from call_day order by 1, 2"),
        *store.query("select id, outcome, category, score from session order by id"),
    ]


def test_what_two_machines_push_is_reported_by_machine_and_person(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("apart", "second", office.line(office.add("ben")))
    laptop.join()
    second.join(only=["secret"])
    for one in (laptop, second):
        assert one.push().pending == 0
    assert read_backlog(office.store).parts == 2
    assert office.by("machine") == {}
    token = {"Authorization": f"Bearer {office.add('eve', 'read')}"}
    page = office.client.get("/sessions?since=all", headers=token)
    assert "2 pushed parts not in these figures yet" in page.text
    office.derive()
    assert read_backlog(office.store).parts == 0
    page = office.client.get("/sessions?since=all&machine=second", headers=token)
    assert "not in these figures" not in page.text
    assert "Tidy the shelf" in page.text
    assert "Fix the rounding" not in page.text
    assert office.by("machine", "person") == {
        ("laptop", "anna"): (1, 3),
        ("second", "ben"): (1, 1),
    }
    chosen = Filter(person="ben", machine='"second"')
    assert report(office.store, (), chosen).total.turns == 1
    assert report(office.store, ("tool",), Filter(machine="lap")).total.tool_calls == 2
    assert report(office.store, (), Filter(machine="nobody")).total.sessions == 0


@pytest.mark.parametrize("share", SHARES)
def test_the_server_adds_up_to_what_the_machine_itself_reports(
    office: Office, laptop: Laptop, share: wire.Share
) -> None:
    laptop.join(share)
    laptop.push()
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    again = laptop.push()
    assert (again.sent, again.known, again.pending) == (0, 0, 0)
    before = build.dump(office.store)
    rebuild(office.store, workers=1)
    assert build.dump(office.store) == before


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_push_that_is_cut_off_anywhere_is_caught_up_by_the_next(
    office: Office, full: Laptop, when: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = full
    monkeypatch.setattr("relight.intake.push.BATCH_PARTS", 1)
    laptop.join()
    joined = laptop.line.number

    def cut(moment: str, count: int) -> None:
        if (moment, count - joined) == (when, number):
            raise ConnectionResetError("cut off")

    laptop.line.cut = cut
    with pytest.raises(ServerError, match="cut off"):
        laptop.push()
    acknowledged = count_due(laptop.store)
    assert acknowledged > 0
    target = read_target(laptop.store)
    assert target is not None
    assert "cut off" in (target.trouble or "")
    assert laptop.push().pending == 0
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    assert office.store.query("select count(*) from tape_part") == [(2,)]


def test_a_session_from_two_machines_counts_once_and_stays_with_the_one_that_is_left(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("one", "second", office.line(office.add("ben")))
    for one in (laptop, second):
        one.join()
        one.push()
        office.derive()
    assert office.by("machine") == {("laptop",): (1, 3)}
    assert sums(office.store) == sums(laptop.store)
    found = find_session(office.store, build.CLAUDE_SESSION)
    assert len(read_transcript(office.store, found).messages) == 6
    assert laptop.leave(forget=True) == 0
    office.derive()
    assert office.by("machine") == {("second",): (1, 3)}
    assert sums(office.store) == sums(second.store)
    assert second.leave(forget=True) == 1
    assert office.by("machine") == {}
    assert office.store.query("select count(*) from tape_part") == [(0,)]
    assert office.store.query("select count(*) from origin") == [(0,)]


def test_a_sub_agent_counts_once_if_one_machine_shares_figures_and_one_its_tape(
    office: Office, tmp_path: Path
) -> None:
    for share in SHARES:
        parent = build.write_claude(tmp_path / share, build.claude_session())
        build.write_agent(parent, [build.claude_prompt("Look"), build.claude_answer("m", at=2)])
        laptop = Laptop(tmp_path / share, share, office.line(office.add(share)))
        build.import_home(laptop.store, tmp_path / share)
        laptop.join(share)
        laptop.push()
    office.derive()
    found = office.store.query("select key from session order by key")
    assert found == [(build.CLAUDE_SESSION,), (f"{build.CLAUDE_SESSION}/a1",)]


def test_a_machine_can_leave_while_the_session_of_its_sub_agent_waits_to_be_derived_again(
    office: Office, laptop: Laptop, machines: MakeMachine, tmp_path: Path
) -> None:
    """Totals, which the container's session has, are settled in all sessions nearby."""
    container = machines("container", "ci", office.line(office.add("eve")))
    parent = build.write_claude(tmp_path, build.claude_session())
    build.write_agent(parent, [build.claude_prompt("Look"), build.claude_answer("m", at=2)])
    second = Laptop(tmp_path, "second", office.line(office.add("ben")))
    build.import_home(second.store, tmp_path)
    for one in (laptop, second, container):
        one.join()
        one.push()
    office.derive()
    for one in (laptop, second):
        one.leave(forget=True)
    office.derive()
    assert set(office.by("machine")) == {("ci",)}


def test_parts_that_are_derived_again_wait_since_then(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    for one in (laptop, machines("one", "second", office.line(office.add("ben")))):
        one.join()
        one.push()
    office.derive()
    with office.store.transaction() as database:
        database.execute("update tape_part set recorded_at = 1")
    laptop.leave(forget=True)
    backlog = read_backlog(office.store)
    assert backlog.parts
    assert backlog.since
    assert backlog.since > 1, "a monitor of `behind_seconds` is not alarmed"


@pytest.mark.parametrize("share", SHARES)
def test_ids_that_are_unique_on_one_machine_only_stay_apart(
    office: Office, machines: MakeMachine, share: wire.Share
) -> None:
    """Two containers of one name, whose files have the same paths."""
    for person in ("p1", "p2"):
        machine = machines("container", "ci", office.line(office.add(person)))
        machine.join(share)
        machine.push()
    office.derive()
    keys = [key for (key,) in office.store.query("select key from session order by key")]
    assert keys[0] == f"{HERMES}@ci"
    assert keys[1].startswith(f"{HERMES}@ci-")
    assert office.by("machine") == {("ci",): (2, 4)}
    assert office.by("source", "person") == {("hermes", "p1"): (1, 2), ("hermes", "p2"): (1, 2)}
    found = find_session(office.store, f"hermes:{HERMES}@ci")
    if share == "figures":
        with pytest.raises(RelightError, match="are gone"):
            read_transcript(office.store, found)
        return
    assert len(read_transcript(office.store, found).messages) == 4
    steps = read_trace(office.store, found).steps
    assert [(one.kind, one.label) for one in steps if one.kind == "call"] == [("call", "ok")]


WORDS = {
    "prompt": "xylograph", "answer": "zwieback", "command": "quokka", "result": "mxyzptlk",
    "path": "brontide", "branch": "gubbins", "folder": "widdershins", "file": "flummox",
}  # fmt: skip


def write_planted(folder: Path) -> None:
    where: Any = {"cwd": f"/home/{WORDS['folder']}/shop", "gitBranch": WORDS["branch"]}
    call = build.tool_use("toolu_1", command=f"cat {WORDS['command']} && pytest")
    edit = build.tool_use("toolu_2", "Edit", file_path=f"/src/{WORDS['path']}.py", new_string="x")
    skill = build.tool_use("toolu_3", "Skill", skill=f"{WORDS['command']} the shop")
    answer = {"type": "text", "text": f"Done: {WORDS['answer']}."}
    lines = [
        build.claude_prompt(f"Fix the {WORDS['prompt']} now please", **where),
        build.claude_answer("msg_1", call, at=1, stop="tool_use", **where),
        build.claude_result(
            "toolu_1", f"bash: {WORDS['result']}: command not found", at=2, is_error=True, **where
        ),
        build.claude_answer("msg_2", edit, at=3, stop="tool_use", **where),
        build.claude_result("toolu_2", WORDS["result"], at=4, is_error=False, **where),
        build.claude_answer("msg_4", skill, at=4, stop="tool_use", **where)
        | {"requestId": f"to {WORDS['path']}"},
        build.claude_result("toolu_3", "Launching skill", at=4, is_error=False, **where),
        build.claude_answer("msg_3", answer, at=5, **where),
    ]
    path = build.write_claude(folder, lines)
    path.rename(path.with_name(f"{WORDS['file']}-{path.name}"))


def find_words(office: Office, line: DirectLine) -> set[str]:
    """The planted words on the wire and in the server's files, compressed texts opened."""
    from relight.store.write.tape import decompress

    files = [path for path in (office.folder / "relight").iterdir() if path.is_file()]
    seen = [*line.sent, *(path.read_bytes() for path in files)]
    for sent in line.sent:
        if sent and b"parts" in sent:
            push = msgspec.msgpack.decode(sent, type=wire.Push)
            seen += [decompress(part.records) for part in push.parts]
    rows = office.store.query("select records from tape_part")
    seen += [decompress(records) for (records,) in rows]
    return {word for word in WORDS.values() if any(word.encode() in text for text in seen)}


def test_no_name_of_a_machine_makes_its_ids_those_of_another_one(
    office: Office, tmp_path: Path
) -> None:
    """Of the sessions `a@b` of machine `c` and `a` of machine `b@c`, say."""
    for machine, session in (("c", "a@b"), ("b@c", "a")):
        laptop = Laptop(tmp_path / machine, machine, office.line(office.add(machine)))
        with relight.record(laptop.store, session_id=session) as tracker:
            tracker.turn(model="gpt-5.1", input_tokens=5, output_tokens=1)
        laptop.join()
        laptop.push()
    office.derive()
    assert office.by("machine") == {("c",): (1, 1), ("b@c",): (1, 1)}


def test_figures_have_no_words_on_the_wire_or_on_the_server(
    office: Office, machines: MakeMachine
) -> None:
    found = {}
    for share in SHARES:
        machine = machines("planted", share, office.line(office.add(share)))
        own = find_session(machine.store, build.CLAUDE_SESSION)
        label_session(machine.store, own, "failure", why=WORDS["answer"])
        machine.join(share)
        machine.push()
        office.derive()
        found[share] = find_words(office, machine.line)
        if share == "figures":
            assert sums(office.store) == sums(machine.store)
            assert office.by("project") == {("shop",): (1, 4)}
            assert office.by("skill")["hidden",] == (1, 4)
        machine.leave(forget=True)
        office.store.run("vacuum")
    assert found == {"tapes": {*WORDS.values()}, "figures": set()}


def test_a_name_that_is_a_path_or_a_command_is_sent_without_it(
    office: Office, laptop: Laptop
) -> None:
    """Servers name models by files, models call tools that are none, jobs are sentences."""
    model = f"/home/{WORDS['folder']}/qwen3.gguf"
    with relight.record(laptop.store, session_id="local", model=model) as tracker:
        tracker.turn(model=model, input_tokens=5, output_tokens=1)
        for tool in (f"cat {WORDS['command']}", f"/src/{WORDS['path']}", "mcp__shop__find.item"):
            tracker.tool_call(tool, {}, "no such tool", is_error=True)
    for skill in ("tidying", f"tidy the {WORDS['result']}"):
        relight.record_skill_invocation(
            laptop.store, skill_name=skill, invoked_at=5, model=model,
            session_id="relight:local", job_id=f"look at the {WORDS['prompt']}",
        )  # fmt: skip
    laptop.join("figures")
    laptop.push()
    office.derive()
    assert office.by("source", "model")["relight", "qwen3.gguf"] == (1, 1)
    tools = office.store.query(
        "select tool, count(*) from tool_call join session on session.id = session_id"
        " where source = 'relight' group by tool order by tool"
    )
    assert tools == [("hidden", 2), ("mcp__shop__find.item", 1)]
    assert find_words(office, laptop.line) == set()


def test_sharing_less_removes_the_words_that_were_shared_before(
    office: Office, laptop: Laptop
) -> None:
    laptop.join("tapes")
    laptop.push()
    office.derive()
    laptop.join("figures")
    assert office.store.query("select count(*) from tape_part") == [(0,)]
    laptop.push()
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    assert office.store.query("select title from session") == [(None,)]


def test_only_the_projects_that_are_shared_leave_the_machine(
    office: Office, machines: MakeMachine
) -> None:
    laptop = machines("apart", "laptop", office.line(office.add("anna")))
    for options in ({"never": ["/home/dev/secret"]}, {"only": ["shop"]}):
        laptop.join("tapes", **options)
        seen = try_out(laptop.store)
        assert [(row.project, row.sessions) for row in seen.parts] == [("/home/dev/shop", 1)]
        assert seen.left_out == 1
        done = laptop.push()
        assert (done.left_out, done.pending) == (1, 0)
    office.derive()
    assert office.by("project") == {("/home/dev/shop",): (1, 3)}
    assert not any(b"secret" in sent or OTHER.encode() in sent for sent in laptop.line.sent)


def test_a_session_without_a_project_waits_where_projects_are_chosen_and_is_counted(
    office: Office, machines: MakeMachine
) -> None:
    laptop = machines("container", "laptop", office.line(office.add("anna")))
    with laptop.store.transaction() as database:
        database.execute("update session set project = null")
    laptop.join(only=["shop"])
    seen, done = try_out(laptop.store), laptop.push()
    assert (seen.waiting, seen.left_out, seen.parts) == (1, 0, [])
    assert (done.waiting, done.left_out, done.sent) == (1, 0, 0)
    assert done.pending == count_due(laptop.store) > 0
    laptop.join()
    assert (laptop.push().sent, count_due(laptop.store)) == (1, 0)


def test_a_dry_run_sends_nothing_and_names_what_would_leave(laptop: Laptop) -> None:
    laptop.join("figures")
    sent = laptop.line.number
    seen = try_out(laptop.store)
    assert (seen.share, seen.outcomes, seen.forgotten) == ("figures", 1, 0)
    assert [(row.project, row.parts) for row in seen.parts] == [("shop", 1)]
    assert laptop.line.number == sent
    assert count_due(laptop.store) == 2


@pytest.mark.parametrize("version", [0, 2])
def test_a_client_of_another_wire_version_is_refused_in_plain_words(
    office: Office, laptop: Laptop, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.join()
    monkeypatch.setattr("relight.intake.team_client.VERSION", version)
    with pytest.raises(ServerError, match=f"wire version {version}, and the server takes 1"):
        laptop.push()
    monkeypatch.undo()
    assert laptop.push().sent == 1


def test_a_message_with_a_field_of_the_future_is_understood() -> None:
    part = {"source": "codex", "session": "s", "path": "p", "records": b"", "colour": "red"}
    message = msgspec.msgpack.encode({"parts": [part], "greeting": "hello"})
    assert msgspec.msgpack.decode(message, type=wire.Push).parts[0].session == "s"


def test_another_store_at_the_same_address_gets_everything(
    office: Office, full: Laptop, tmp_path: Path
) -> None:
    full.join()
    full.push()
    with open_office(tmp_path / "new") as new:
        full.line = new.line(new.add("anna"))
        done = full.push()  # although nothing is pending
        assert (done.sent, done.pending) == (2, 0)
        assert "another store" in done.notes[0]
        new.derive()
        assert sums(new.store) == sums(full.store)


def test_a_forgotten_session_is_forgotten_on_the_server_and_refused_later(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("one", "second", laptop.line)  # of the same person
    for one in (laptop, second):
        one.join()
        one.push()
    office.derive()
    forget(laptop.store, find_session(laptop.store, build.CLAUDE_SESSION))
    told = laptop.push()
    assert (told.forgotten, told.pending) == (1, 0)
    assert office.by("machine") == {}
    assert office.store.query("select count(*) from tape_part") == [(0,)]
    second.join("figures")
    done = second.push()
    assert (done.sent, done.refused, done.pending) == (0, 1, 0)
    office.derive()
    assert office.by("machine") == {}


def test_nobody_can_forget_the_session_of_another_person(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("one", "second", office.line(office.add("ben")))
    for one in (laptop, second):
        one.join()
        one.push()
        office.derive()
    forget(second.store, find_session(second.store, build.CLAUDE_SESSION))
    second.push()
    office.derive()
    assert office.by("machine") == {("laptop",): (1, 3)}
    assert sums(office.store) == sums(laptop.store)


def test_nobody_can_forget_a_session_that_waits_to_be_derived_or_is_the_servers_own(
    office: Office, tmp_path: Path, laptop: Laptop, machines: MakeMachine
) -> None:
    build.write_claude(tmp_path, other_session(), name=OTHER)
    build.import_home(office.store, tmp_path)
    before = sums(office.store)
    second = machines("one", "second", office.line(office.add("ben")))
    laptop.join()
    laptop.push()
    second.join()
    for key in (build.CLAUDE_SESSION, OTHER):
        message = wire.Push(forgotten=[row_id("session", "claude-code", key)])
        second.line.send("POST", "/api/v1/tapes", message, **headers(second))
    assert sums(office.store) == before
    office.derive()
    assert office.by("machine")["laptop",] == (1, 3)
    assert second.push().refused == 1


def test_a_time_that_a_machine_sends_gives_nobody_the_session_of_another_person(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    laptop.join()
    laptop.push()
    office.derive()
    second = machines("one", "second", office.line(office.add("ben")))
    second.store.run("update tape_part set recorded_at = 1")
    second.join()
    second.push()
    office.derive()
    assert office.by("machine", "person") == {("laptop", "anna"): (1, 3)}
    laptop.leave(forget=True)
    office.derive()
    assert office.by("machine", "person") == {("second", "ben"): (1, 3)}


@pytest.mark.parametrize("waits", [False, True])
def test_nobody_judges_the_session_of_another_person(
    office: Office, laptop: Laptop, machines: MakeMachine, *, waits: bool
) -> None:
    laptop.join()
    laptop.push()
    if not waits:
        office.derive()
    second = machines("apart", "second", office.line(office.add("ben", sees=["shop"])))
    second.join()
    outcome = wire.SentOutcome(
        source="claude-code", session=build.CLAUDE_SESSION, outcome="failure", is_label=True
    )
    session = f"claude-code:{build.CLAUDE_SESSION}"
    run = wire.SentRun(
        source="hermes", key="r", job="j", session=session, earlier=[session],
        figures=RunFigures(status="failed", outcome="failure"),
    )  # fmt: skip
    use = wire.SentUse(session=session, skill="tidying", values={"success": 0})
    message = wire.Push(outcomes=[outcome], runs=[run], uses=[use])
    second.line.send("POST", "/api/v1/tapes", message, **headers(second))
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    assert office.by("job", "skill") == {(None, None): (1, 3)}


def send_facts(machine: Laptop, **values: Any) -> None:
    """Send a failed run and a use of a skill for the session of `build.claude_session`."""
    session = f"claude-code:{build.CLAUDE_SESSION}"
    run = wire.SentRun(
        source="hermes", key="r", job="j", session=session, earlier=[session],
        figures=RunFigures(status="failed", outcome="failure"),
    )  # fmt: skip
    use = wire.SentUse(session=session, skill="tidying", values=values)
    message = wire.Push(runs=[run], uses=[use])
    machine.line.send("POST", "/api/v1/tapes", message, **headers(machine))


def test_what_another_person_sent_of_a_session_before_its_owner_pushed_it_does_not_count(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("apart", "second", office.line(office.add("ben", sees=["shop"])))
    second.join()
    send_facts(second, success=0)
    laptop.join()
    laptop.push()
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    assert office.by("job", "skill") == {(None, None): (1, 3)}
    for table in ("skill_told", "skill_invocations", "run_attempt"):
        assert not office.store.has_rows(table), table
    assert office.store.query("select session_id from run") == [(None,)]


def test_the_use_of_a_skill_has_nothing_of_what_another_person_sent_before(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("apart", "second", office.line(office.add("ben", sees=["shop"])))
    second.join()
    send_facts(second, success=0, cost_nanos=7)
    laptop.join()
    laptop.push()
    send_facts(laptop, quality_score=0.5)
    office.derive()
    uses = office.store.query("select success, cost_nanos, quality_score from skill_told")
    assert uses == [(None, None, 0.5)]


def test_turns_that_another_person_adds_to_a_session_are_its_owners_until_that_person_leaves(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    laptop.join()
    laptop.push()
    office.derive()
    before = sums(office.store)
    second = Laptop(
        laptop.folder.parent / "forged", "second", office.line(office.add("ben", sees=()))
    )
    forged = [*build.claude_session(), build.claude_answer("msg_forged", at=9)]
    build.write_claude(second.folder, forged)
    build.import_home(second.store, second.folder)
    second.join()
    second.push()
    office.derive()
    assert office.by("machine", "person") == {("laptop", "anna"): (1, 4)}
    viewer = Viewer(find_person(office.store, "ben"))
    with open_reader(office.store.config) as reader, reader.snapshot(viewer):
        assert not reader.has_rows("session")
        assert not reader.has_rows("turn")
    second.leave(forget=True)
    office.derive()
    assert sums(office.store) == before


def test_a_person_forgets_a_session_that_only_its_sub_agent_names(
    office: Office, tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path / "laptop", "laptop", office.line(office.add("anna")))
    agent: Any = {"agentId": "a1", "isSidechain": True}
    lines = [build.claude_prompt("Look", **agent), build.claude_answer("msg_agent", at=2, **agent)]
    build.write_claude(laptop.folder, lines, name=f"{build.CLAUDE_SESSION}/subagents/agent-a1")
    build.import_home(laptop.store, laptop.folder)
    laptop.join()
    laptop.push()
    office.derive()
    parent = row_id("session", "claude-code", build.CLAUDE_SESSION)
    message = wire.Push(forgotten=[parent])
    laptop.line.send("POST", "/api/v1/tapes", message, **headers(laptop))
    assert (parent,) in office.store.query("select session_id from forgotten")
    assert not office.store.query("select 1 from session where id = ?", (parent,))


def test_a_label_travels_and_goes_again(office: Office, laptop: Laptop) -> None:
    laptop.join()
    laptop.push()
    office.derive()
    own = find_session(laptop.store, build.CLAUDE_SESSION)
    for outcome in ("failure", "clear"):
        label_session(laptop.store, own, outcome)
        laptop.push()
        assert sums(office.store) == sums(laptop.store)


def test_a_token_that_is_revoked_in_mid_push_loses_nothing(
    office: Office, full: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = full
    monkeypatch.setattr("relight.intake.push.BATCH_PARTS", 1)
    laptop.join()
    joined = laptop.line.number

    def revoke(when: str, number: int) -> None:
        if (when, number) == ("after", joined + 1):
            revoke_tokens(office.store, "anna")

    laptop.line.cut = revoke
    with pytest.raises(ServerError, match="refused the token"):
        laptop.push()
    assert office.store.query("select count(*) from tape_part") == [(1,)]
    from relight.store.members import make_token

    laptop.line = office.line(make_token(office.store, "anna"))
    assert laptop.push().pending == 0
    office.derive()
    assert sums(office.store) == sums(laptop.store)


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("relight.intake.take.MOST_DUE", -1, "wait to be derived"),
        ("relight.web.team.LEAST_FREE", 1 << 60, "disk of the server is full"),
    ],
)
def test_a_server_that_is_full_asks_to_wait(
    office: Office, laptop: Laptop, setting: str, value: int, why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    laptop.join()
    monkeypatch.setattr(setting, value)
    with pytest.raises(ServerError, match=why) as found:
        laptop.push()
    assert "tried again in" in (found.value.hint or "")
    push_after_import(laptop.store)  # not before its time, and never raises
    target = read_target(laptop.store)
    assert target is not None
    assert target.try_at is not None
    monkeypatch.undo()
    assert laptop.push().pending == 0


def test_a_server_that_asks_to_wait_for_an_hour_is_left_alone_for_ten_minutes(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.join()
    monkeypatch.setattr("relight.web.team.LEAST_FREE", 1 << 60)
    monkeypatch.setattr("relight.web.team.FULL_SECONDS", 3600)
    with pytest.raises(ServerError, match="disk of the server is full"):
        laptop.push()
    push_after_import(laptop.store)
    target = read_target(laptop.store)
    assert target is not None
    assert "disk of the server" in (target.trouble or ""), "no other push was tried"


def test_a_machine_that_joined_to_share_something_else_sends_its_parts_once(
    office: Office, full: Laptop
) -> None:
    full.join("tapes")
    office.store.run("update machine set share = 'figures'")
    joined = full.line.number
    with pytest.raises(ServerError, match="joined to share figures") as found:
        full.push()
    assert found.value.hint == "join again to share more or less"
    assert full.line.number == joined + 1


@pytest.mark.parametrize(
    ("minutes", "trouble"), [(5, "the server is busy"), (60, "there is no token")]
)
def test_a_clock_that_was_wrong_by_an_hour_does_not_hold_up_pushes(
    laptop: Laptop, minutes: int, trouble: str
) -> None:
    laptop.join()
    target = read_target(laptop.store)
    assert target is not None
    try_at = int(time.time() * 1000) + minutes * 60_000
    write_target(
        laptop.store, replace(target, try_at=try_at, trouble="the server is busy"), is_new=True
    )
    push_after_import(laptop.store)
    target = read_target(laptop.store)
    assert target is not None
    assert target.trouble == trouble, "a push that was tried says what is wrong now"


@pytest.mark.parametrize(
    ("limit", "most"),
    [("web.team.MOST_BYTES", 4000), ("store.write.pushed.MOST_RAW", 8000)],
    ids=["message", "records"],
)
def test_a_part_that_the_server_refuses_does_not_hold_up_the_others(
    office: Office, machines: MakeMachine, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    laptop = machines("long", "laptop", office.line(office.add("anna")))
    laptop.join()
    monkeypatch.setattr(f"relight.{limit}", most)
    done = laptop.push()
    assert (done.sent, done.pending) == (1, 1)
    assert f"more than {most:,} bytes" in done.notes[0]
    monkeypatch.undo()
    assert laptop.push().sent == 1


def test_a_session_that_goes_on_while_it_is_pushed_is_whole(office: Office, laptop: Laptop) -> None:
    """Its many parts are joined when it ends, and the joined one takes their place."""
    laptop.join()
    with relight.record(laptop.store, model="gpt-5.1", session_id="live") as rec:
        rec.message("user", "Count the words")
        rec.turn(input_tokens=10, output_tokens=5)
        laptop.push()
        office.derive()
        rec.turn(input_tokens=20, output_tokens=7)
    laptop.push()
    office.derive()
    found = office.store.query(
        "select key, sum(turns), sum(output_tokens) from session_day join session on"
        " session.id = session_id where session.source = 'relight' group by key"
    )
    assert found == [("live@laptop", 2, 12)]
    words = "select sum(messages) from session_words join session on session.id = session_id"
    own = f"{words} where source = 'relight'"
    assert office.store.query(own) == laptop.store.query(own)


@pytest.mark.parametrize("damage", ["cut", "bomb", "words", "foreign"])
def test_a_hostile_message_costs_itself_alone(
    office: Office, laptop: Laptop, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.join("figures" if damage in ("words", "foreign") else "tapes")
    monkeypatch.setattr("relight.store.write.pushed.MOST_RAW", 1 << 20)
    sealed = Sealed(source="hermes", before=Mark(path=""), after=Mark(path=""))
    foreign = msgspec.structs.replace(sealed, sessions=[(1, Session(key="s@second"))])
    records = {
        "cut": compress(b"{}\n")[:-3],
        "bomb": compress(bytes(2 << 20)),
        "words": compress(b"these are words"),
        "foreign": wire.write_figures(foreign),
    }[damage]
    part = wire.SentPart(
        source="hermes", session="s", path="p", records=records,
        is_figures=damage in ("words", "foreign"),
    )  # fmt: skip
    with pytest.raises(ServerError):
        laptop.line.send("POST", "/api/v1/tapes", wire.Push(parts=[part]), **headers(laptop))
    assert office.store.query("select count(*) from tape_part") == [(0,)]
    assert laptop.push().pending == 0


def make_impossible() -> dict[str, wire.Push]:
    """Messages of figures that would end pages in an error, or sums in an overflow."""
    far = 1 << 62
    sealed = Sealed(source="claude-code", before=Mark(path=""), after=Mark(path=""))
    late = msgspec.structs.replace(sealed, compactions=[CompactionRow(1, far)])
    long = msgspec.structs.replace(sealed, timings=[TimingRow(1, 1, "Bash", 5, far, None)])
    parts = {
        name: wire.SentPart(**PLAIN_PART | {"records": wire.write_figures(one)}, is_figures=True)
        for name, one in (("late", late), ("long", long))
    }
    run: Any = {"source": "hermes", "key": "r"}
    outcome: Any = {"source": "claude-code", "session": OTHER}
    return {
        "time of a run": wire.Push(
            runs=[wire.SentRun(**run, figures=RunFigures(status="completed", started_at=far))]
        ),
        "cost of a run": wire.Push(
            runs=[wire.SentRun(**run, figures=RunFigures(status="completed", cost_nanos=far))]
        ),
        "score": wire.Push(outcomes=[wire.SentOutcome(**outcome, score=float("nan"))]),
        "use": wire.Push(uses=[wire.SentUse(session="x", skill="s", values={"completed_at": far})]),
        "word of a use": wire.Push(
            uses=[wire.SentUse(session="x", skill="s", values={"invoked_at": "never"})]
        ),
        **{name: wire.Push(parts=[part]) for name, part in parts.items()},
    }


@pytest.mark.parametrize("name", make_impossible())
def test_a_figure_that_cannot_be_true_is_refused(office: Office, laptop: Laptop, name: str) -> None:
    laptop.join("figures")
    with pytest.raises(ServerError, match=r"cannot be (read|true)"):
        laptop.line.send("POST", "/api/v1/tapes", make_impossible()[name], **headers(laptop))
    assert laptop.push().pending == 0
    office.derive()
    assert sums(office.store) == sums(laptop.store)


@pytest.mark.parametrize(
    "message",
    [
        wire.Push(parts=[wire.SentPart(**PLAIN_PART, position=1 << 63)]),
        wire.Push(parts=[wire.SentPart(**PLAIN_PART, raw_bytes=(1 << 64) - 1)]),
        wire.Push(forgotten=[(1 << 64) - 1]),
    ],
    ids=["position", "bytes", "forgotten"],
)
def test_a_value_that_no_row_can_have_is_refused_and_not_tried_again(
    office: Office, laptop: Laptop, message: wire.Push
) -> None:
    laptop.join()
    with pytest.raises(ServerError, match="a value that no row can have") as caught:
        laptop.line.send("POST", "/api/v1/tapes", message, **headers(laptop))
    assert not isinstance(caught.value, BusyServerError)
    assert office.store.query("select count(*) from tape_part") == [(0,)]
    assert laptop.push().pending == 0


def headers(laptop: Laptop) -> dict[str, str]:
    from relight.store.team import read_own_id

    target = read_target(laptop.store)
    assert target is not None
    return {"Machine": read_own_id(laptop.store), "Store": target.store_id}


def test_records_that_cannot_be_derived_are_set_aside_and_counted(
    office: Office, laptop: Laptop
) -> None:
    laptop.join()
    part = wire.SentPart(
        source="nosuch", session="s", path="p", records=compress(b"{}\n"), raw_bytes=3
    )
    laptop.line.send("POST", "/api/v1/tapes", wire.Push(parts=[part]), **headers(laptop))
    laptop.push()
    office.derive()
    backlog = read_backlog(office.store)
    assert (backlog.parts, backlog.failed) == (0, 1)
    assert sums(office.store) == sums(laptop.store)


@pytest.mark.parametrize(
    "url", ["http://relight.example.org", "ftp://x", "https://u:p@x.org", "nonsense", URL + "?a=b"]
)
def test_an_address_that_would_show_the_token_is_refused(url: str) -> None:
    with pytest.raises(RelightError):
        check_url(url)


def record_own(laptop: Laptop, session: str, tokens: int) -> None:
    """A session of a program, whose id is unique on one machine only."""
    with relight.record(laptop.store, model="gpt-5.1", session_id=session) as rec:
        rec.message("user", f"Count to {tokens}")
        rec.turn(input_tokens=tokens, output_tokens=1)


def copy_machine(laptop: Laptop, folder: Path, line: DirectLine) -> Laptop:
    shutil.copytree(laptop.folder / "relight", folder / "relight")
    return Laptop(folder, laptop.name, line)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("has_joined_again", [False, True])
def test_a_copied_home_gets_its_own_id_and_nothing_counts_twice_or_is_lost(
    office: Office, laptop: Laptop, tmp_path: Path, share: wire.Share, has_joined_again: bool
) -> None:
    laptop.join(share)
    record_own(laptop, "before", 1)
    laptop.push()
    record_own(laptop, "waiting", 10)  # both homes still have to push it
    laptop.store.close()
    twin = copy_machine(laptop, tmp_path / "copy", office.line(laptop.line.token))
    laptop.open()
    for one, tokens in ((laptop, 100), (twin, 1000)):
        record_own(one, "after", tokens)  # of the same id, and not the same session
    assert laptop.push().notes == []
    if has_joined_again:
        twin.join(share)
        done = twin.push()
    else:
        done = twin.push()
        assert "one is a copy of the other" in done.notes[0]
    assert done.pending == 0
    office.derive()
    found = office.store.query(
        "select input_tokens, machine.key from turn join session on session.id = session_id"
        " join machine on machine.id = session.machine_id where session.source = 'relight'"
        " order by 1"
    )
    keys = ["laptop", "laptop", "laptop", found[-1][1]]
    assert found == list(zip((1, 10, 100, 1000), keys, strict=True))
    assert keys[-1].startswith("laptop-")
    for one in (laptop, twin):  # from now on they are two
        record_own(one, "later", 5)
        assert one.push().notes == []


def test_a_copied_home_cannot_delete_what_its_original_sent(
    office: Office, laptop: Laptop, tmp_path: Path
) -> None:
    laptop.join()
    laptop.store.close()
    twin = copy_machine(laptop, tmp_path / "copy", office.line(laptop.line.token))
    laptop.open()
    laptop.push()
    with pytest.raises(ServerError, match="another home with the same id has pushed as laptop"):
        twin.leave(forget=True)
    assert office.store.query("select count(*) from tape_part") == [(1,)]


def test_an_answer_that_is_lost_does_not_make_a_machine_a_copy(
    office: Office, full: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.intake.push.BATCH_PARTS", 1)
    full.join()
    for number in range(1, 5):
        lost = full.line.number + 1 + number % 2

        def cut(when: str, count: int, lost: int = lost) -> None:
            if (when, count) == ("after", lost):
                raise ConnectionResetError("cut off")

        full.line.cut = cut
        with pytest.raises(ServerError, match="cut off"):
            full.push()
        record_own(full, f"s{number}", number)
    full.line.cut = lambda when, number: None
    assert full.push().notes == []
    office.derive()
    assert office.by("machine") == {("laptop",): (6, 8)}


def test_what_one_of_two_people_forgot_is_refused_from_this_person_only(
    office: Office, laptop: Laptop, machines: MakeMachine
) -> None:
    second = machines("one", "second", office.line(office.add("ben")))
    for one in (laptop, second):
        one.join()
        one.push()
        office.derive()
    forget(second.store, find_session(second.store, build.CLAUDE_SESSION))
    second.push()
    third = machines("one", "third", second.line)  # ben's other machine
    third.join()
    done = third.push()
    assert (done.sent, done.refused) == (0, 1)
    again = machines("one", "again", laptop.line)  # anna's
    again.join()
    assert again.push().sent == 1
    office.derive()
    assert office.by("machine") == {("laptop",): (1, 3)}


@pytest.mark.parametrize("share", SHARES)
def test_a_run_of_another_scheduler_keeps_the_outcome_and_name_of_its_machine(
    office: Office, machines: MakeMachine, share: wire.Share
) -> None:
    """Its session has no answer on a server that gets figures: nothing there may judge it again."""
    machine = machines("container", "ci", office.line(office.add("anna")))
    prompt = f"Look at the {WORDS['prompt']} every day"
    jobs = [(1, "a1", "nightly", prompt), (2, "b2", prompt[:30], prompt)]
    with machine.store.transaction() as database:
        database.executemany(
            "insert into job (id, source, key, name, prompt) values (?, 'hermes', ?, ?, ?)", jobs
        )
        session = find_session(machine.store, f"hermes:{HERMES}")
        database.executemany(
            "insert into run (id, source, key, job_id, session_id, status, outcome,"
            " outcome_evidence, started_at, finished_at)"
            " values (?, 'hermes', ?, ?, ?, 'completed', 'success', '[]', 5, 9)",
            [(1, "r1", 1, session), (2, "r2", 2, None)],
        )
    machine.join(share)
    seen = try_out(machine.store)
    assert (seen.runs, seen.skill_uses) == (2, 0)
    machine.push()
    office.derive()
    rebuild(office.store, workers=1)
    assert office.store.query("select key, outcome from run order by key") == [
        ("r1@ci", "success"), ("r2@ci", "success"),
    ]  # fmt: skip
    named = office.store.query("select name from job order by key")
    assert named == [("nightly@ci",), (f"{prompt[:30] if share == 'tapes' else 'b2'}@ci",)]
    assert find_words(office, machine.line) == ({WORDS["prompt"]} if share == "tapes" else set())


def add_run(laptop: Laptop, *, cost_nanos: int = 7) -> None:
    """A run of a job with the session that it left, and a recorded use of a skill."""
    with laptop.store.transaction() as database:
        database.execute(
            "insert into job (id, source, key, name, prompt, state) values"
            " (1, 'relight', 'tidy', 'tidy', ?, 'scheduled') on conflict do nothing",
            (WORDS["prompt"],),
        )
        database.execute(
            "insert into run (id, source, key, job_id, session_id, status, error, outcome,"
            " outcome_evidence, started_at, finished_at, cost_nanos) values"
            " (1, 'relight', 'tidy@20261115T000000Z', 1, ?, 'failed', ?, 'failure', ?, 5, 9, ?)"
            " on conflict (id) do update set cost_nanos = excluded.cost_nanos",
            (
                find_session(laptop.store, build.CLAUDE_SESSION),
                WORDS["result"],
                f'["{WORDS["answer"]}"]',
                cost_nanos,
            ),
        )
    relight.record_skill_invocation(
        laptop.store, skill_name="tidying", invoked_at=5,
        session_id=f"claude-code:{build.CLAUDE_SESSION}", success=False,
        end_reason=WORDS["command"], cost_usd=0.5,
    )  # fmt: skip


@pytest.mark.parametrize("share", SHARES)
def test_runs_and_recorded_uses_of_skills_travel_and_go_with_their_machine(
    office: Office, laptop: Laptop, share: wire.Share
) -> None:
    laptop.join(share)
    add_run(laptop)
    assert laptop.push().pending == 0
    office.derive()
    add_run(laptop, cost_nanos=8)
    laptop.push()
    (run,) = read_runs(office.store)
    assert (run.run_id, run.job, run.machine, run.outcome) == (
        "tidy@20261115T000000Z@laptop", "tidy@laptop", "laptop", "failure",
    )  # fmt: skip
    assert (run.session_id, run.cost_usd) == (f"claude-code:{build.CLAUDE_SESSION}", 8e-9)
    assert run.evidence == (
        [WORDS["answer"]] if share == "tapes" else ["as its own machine reports it"]
    )
    uses = "select session_id, skill_name, success, cost_nanos, is_told from skill_invocations"
    assert office.store.query(uses) == laptop.store.query(uses)
    assert office.store.query("select prompt, definition, state from job") == [(None,) * 3]
    assert find_words(office, laptop.line) == (
        {WORDS[one] for one in ("result", "answer", "command")} if share == "tapes" else set()
    )
    laptop.leave(forget=True)
    for table in ("run", "job", "skill_told", "skill_invocations"):
        assert not office.store.has_rows(table), table


def test_runs_and_uses_keep_their_session_while_only_its_sub_agent_is_derived(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.intake.take.PARTS_AT_ONCE", 1)
    laptop = Laptop(tmp_path / "laptop", "laptop", office.line(office.add("anna")))
    agent: Any = {"agentId": "a1", "isSidechain": True}
    lines = [build.claude_prompt("Look", **agent), build.claude_answer("msg_agent", at=2, **agent)]
    for made, place in (
        (lines, f"{build.CLAUDE_SESSION}/subagents/agent-a1"),
        (build.claude_session(), build.CLAUDE_SESSION),
    ):
        build.write_claude(laptop.folder, made, name=place)
        build.import_home(laptop.store, laptop.folder)
    laptop.join()
    laptop.push()
    assert Deriver(office.store).run() == 1
    add_run(laptop)
    laptop.push()
    office.derive()
    (run,) = read_runs(office.store)
    assert run.session_id == f"claude-code:{build.CLAUDE_SESSION}"
    assert office.store.has_rows("skill_told")


def test_a_restored_machine_is_the_same_and_a_restored_server_gets_everything_again(
    office: Office, laptop: Laptop, tmp_path: Path
) -> None:
    laptop.join()
    laptop.store.backup(tmp_path / "laptop.db")
    record_own(laptop, "later", 5)
    laptop.push()
    office.derive()
    before = sums(office.store)
    laptop.store.close()
    restore(laptop.store.config, tmp_path / "laptop.db")
    laptop.open()
    assert laptop.push().notes == []  # what it sends again is known
    office.derive()
    assert sums(office.store) == before
    # the server's backup knows the machine, and not what it has pushed since
    if office.store.engine == "sqlite":
        office.store.run("pragma wal_checkpoint(truncate)")
    office.store.backup(tmp_path / "server.db")
    record_own(laptop, "last", 7)
    laptop.push()
    with open_office(tmp_path / "again") as again:
        restore(again.store.config, tmp_path / "server.db")  # while it serves
        again.store.reread()
        laptop.line = again.line(laptop.line.token)
        record_own(laptop, "after", 9)
        done = laptop.push()
        assert "another store" in done.notes[0]
        again.derive()
        found = "select sum(input_tokens) from turn join session on session.id = session_id"
        assert again.store.query(f"{found} where source = 'relight'") == [(5 + 7 + 9,)]


def test_a_tape_is_dropped_only_when_the_server_has_it_and_what_has_none_is_counted(
    office: Office, laptop: Laptop
) -> None:
    def drop() -> tuple[int, int]:
        done = prune(laptop.store, now=int(time.time() * 1000), tape_days=0, index_days=None,
                     dry_run=False)  # fmt: skip
        return done.tapes, done.waiting

    laptop.join()
    assert drop() == (0, 1)
    assert laptop.push().notes == []
    assert drop() == (1, 0)
    office.derive()
    assert sums(office.store) == sums(laptop.store)
    # another server cannot get it
    laptop.leave(forget=True)
    laptop.join()
    assert try_out(laptop.store).without_tape == 1
    (note,) = laptop.push().notes
    assert "1 session stays on this machine" in note
    assert laptop.push().notes == []


@pytest.mark.parametrize("content", [None, b"nonsense" * 1000, b""])
def test_a_file_that_is_no_backup_changes_nothing(
    laptop: Laptop, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "file.db"
    if content is not None:
        file.write_bytes(content)
    before = build.dump(laptop.store)
    with pytest.raises(RelightError):
        restore(laptop.store.config, file)
    assert build.dump(laptop.store) == before


def list_texts(store: Store) -> list[str]:
    """Every value of every table as a text, with the records of tapes opened."""
    from relight.store.write.tape import decompress

    found = []
    # the words of a full-text index are in the tables beside it
    tables = {
        "sqlite": "select name from sqlite_master where type = 'table'"
        " and sql like 'create table%'",
        "postgres": "select tablename from pg_tables where schemaname = 'public'",
    }
    for (table,) in store.query(tables[store.engine]):
        for row in store.query(f'select * from "{table}"'):
            found += [f"{table}: {value!r}" for value in row]
    found += [str(decompress(one)) for (one,) in store.query("select records from tape_part")]
    return found


@pytest.mark.parametrize("fate", ["waiting", "derived", "pruned"])
def test_a_removed_person_is_in_no_table(office: Office, machines: MakeMachine, fate: str) -> None:
    kept = machines("two", "kept", office.line(office.add("ben")))
    gone = machines("planted", "bygone", office.line(office.add("anneliese")))
    for one in (kept, gone):
        one.join()
        add_run(one)
        record_own(one, "own", 3)
        one.push()
    ids = [row[0] for row in office.store.query("select id from machine where name = 'bygone'")]
    ids += [row[0] for row in office.store.query("select id from person where name = 'anneliese'")]
    traces = ["anneliese", "bygone", WORDS["folder"], WORDS["path"], WORDS["branch"], str(ids[0])]
    if fate != "waiting":
        office.derive()
    for trace in traces[:3]:
        assert any(trace in text for text in list_texts(office.store)), trace
    if fate == "pruned":
        now = round(time.time() * 1000) + 9 * 86_400_000
        prune(office.store, now=now, tape_days=1, index_days=None, dry_run=False)
    remove_person(office.store, "anneliese", derive_from(office.store))
    office.derive()
    texts = list_texts(office.store)
    assert [text for text in texts if any(trace in text for trace in traces)] == []
    people = "select id from person union select person_id from token union"
    rows = office.store.query(f"{people} select person_id from machine")
    assert (ids[1],) not in rows
    found = office.by("machine", "person")
    assert set(found) == {("kept", "ben")}


class KilledWorkers:
    """Workers of which so many are killed, one after another, and none after that."""

    def __init__(self, kills: int) -> None:
        self.kills = kills

    def responses(self, messages: list[bytes]) -> list[bytes | Lost]:
        if self.kills:
            self.kills -= 1
            return [Lost(one, 9) for one in messages]
        return [answer_pushed(one) for one in messages]


@pytest.mark.parametrize(("kills", "failed"), [(1, 0), (2, 1)])
def test_a_part_is_given_up_only_if_a_second_worker_dies_of_it(
    office: Office, laptop: Laptop, kills: int, failed: int
) -> None:
    laptop.join()
    laptop.push()
    deriver = Deriver(office.store, KilledWorkers(kills))  # type: ignore[arg-type]
    while deriver.run():
        pass
    assert read_backlog(office.store).failed == failed
    assert (sums(office.store) == sums(laptop.store)) is not bool(failed)
