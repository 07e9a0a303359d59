"""Jobs of a team: claimed over HTTP by the server's clock, each slot begun once by anybody."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import relight
from build_team import Laptop, Office, open_office
from relight.config import Config
from relight.errors import RelightError
from relight.intake.team_client import ServerError
from relight.intake.wire import Naming, Push, SentRun
from relight.store import Store
from relight.store.members import make_token
from relight.store.queries.runs import read_runs
from relight.store.remote_runs import EndedRun
from relight.store.team import read_own_id, read_target
from relight.store.team_facts import RunFigures
from relight.work.jobs import leases, slots
from relight.work.jobs.board import BegunSlot, ServerBoard, StoreBoard
from relight.work.jobs.claimed_run import complete_run
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job, add_jobs
from relight.work.jobs.remote import RemoteRuns, make_sent_result
from relight.work.jobs.slots import begin, claim_due, find_claimed

DAY_MS = 86_400_000
NOW = 1_763_200_000_000
DONE = JobResult(status="completed", outcome="success", evidence=["done"], finished_at=NOW)


class Clock:
    """The server's clock, which a test moves."""

    def __init__(self) -> None:
        self.now = NOW


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with open_office(tmp_path / "server") as found:
        yield found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(StoreBoard, "_now", lambda self: found.now)
    return found


def add_host(office: Office, folder: Path, name: str, *labels: str) -> tuple[Laptop, ServerBoard]:
    token = office.add(name, "push", "claim")
    host = Laptop(folder / name, name, office.line(token))
    host.join("tapes", labels=list(labels))
    return host, ServerBoard(host.line, machine=read_own_id(host.store))


def job(name: str, place: str | None = None) -> JobDefinition:
    return JobDefinition(name=name, schedule="every 1d", prompt="Go.", model="none", place=place)


def test_a_job_runs_where_it_asks_to(office: Office, tmp_path: Path, clock: Clock) -> None:
    jobs = [
        job("own"), job("any", place="any"), job("gpu", place="label:gpu"),
        job("one", place="machine:one"),
    ]  # fmt: skip
    add_jobs(office.store, jobs, now=NOW - DAY_MS)
    (_, one), (_, two) = (
        add_host(office, tmp_path, "one"),
        add_host(office, tmp_path, "two", "gpu"),
    )
    found = {}
    for name, board in (("two", two), ("one", one)):
        runs = [board.begin(run, "w") for run in board.claim("w", limit=9)]
        found[name] = {begun.job.name for begun in runs if begun}
    assert found == {"two": {"any", "gpu"}, "one": {"one"}}
    assert [begun.split("@")[0] for begun in claim_names(office.store)] == ["own"]


def test_of_two_machines_of_one_name_a_job_asks_for_one_by_its_key(
    office: Office, tmp_path: Path, clock: Clock
) -> None:
    early = job("early", place="machine:ci")
    add_jobs(office.store, [early], now=NOW - DAY_MS)
    boards = []
    for folder in ("first", "second"):
        token = office.add(folder, "push", "claim")
        host = Laptop(tmp_path / folder, "ci", office.line(token))
        host.join("tapes")
        boards.append(ServerBoard(host.line, machine=read_own_id(host.store)))
    first, second = (key for (key,) in office.store.query("select key from machine order by key"))
    assert first == "ci"
    add_jobs(office.store, [job("late", place=f"machine:{second}")], now=NOW - DAY_MS)
    found = []
    for board in boards:
        runs = [board.begin(run, "w") for run in board.claim("w", limit=9)]
        found.append([begun.job.name for begun in runs if begun])
    assert found == [["early"], ["late"]]
    # the name is the key of neither
    office.store.run("update machine set key = 'other' where key = 'ci'")
    with pytest.raises(RelightError, match="2 machines are named ci") as error:
        add_jobs(office.store, [job("unclear", place="machine:ci")], now=NOW - DAY_MS)
    assert f"machine:{second}" in str(error.value.hint)


def claim_names(store: Store) -> list[str]:
    ids = claim_due(store, "here/1", now=NOW, limit=9)
    return [key for (key, found) in store.query("select key, id from run") if found in ids]


def test_a_dead_machine_s_run_is_unknown_after_the_lease_and_never_repeated(
    office: Office, tmp_path: Path, clock: Clock
) -> None:
    add_jobs(office.store, [job("begun", place="any"), job("held", place="any")], now=NOW - DAY_MS)
    (_, one), (_, two) = (add_host(office, tmp_path, name) for name in ("one", "two"))
    first, second = one.claim("w", limit=2)
    begun = one.begin(first, "w")
    assert begun is not None
    assert one.begin(first, "w") == begun  # the answer was lost, and it is asked again
    assert two.begin(second, "w") is None  # the fence is the holder
    assert two.claim("w", limit=9) == []
    clock.now += leases.LEASE_MS + 1
    # what was only claimed is given to another; what had begun is not
    assert two.claim("w", limit=9) == [second]
    (lost,) = [run for run in read_runs(office.store) if run.status == "unknown"]
    assert (lost.job, lost.machine) == (begun.job.name, "one")
    assert two.claim("w2", limit=9) == []
    # the machine was alive after all: its result counts, and nobody else's
    assert not two.finish(first, DONE, holder="w")
    assert one.finish(first, DONE, holder="w")
    assert [run.outcome for run in read_runs(office.store) if run.job == lost.job] == ["success"]


def test_only_a_token_that_may_claim_gets_a_run(
    office: Office, tmp_path: Path, clock: Clock
) -> None:
    host, board = add_host(office, tmp_path, "one")
    host.line.token = ""
    pusher = office.line(make_token(office.store, "one", ["push"]))
    with pytest.raises(ServerError, match="does not allow to claim"):
        ServerBoard(pusher, machine=read_own_id(host.store)).claim("w", limit=1)
    reader = office.line(make_token(office.store, "one", ["claim"]))
    with pytest.raises(ServerError, match="does not allow to push"):
        reader.send("DELETE", "/api/v1/machine", Machine=read_own_id(host.store))
    assert board.claim("w", limit=1) == []


def do_work(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    return DONE


@pytest.mark.parametrize("ending", ["result", "killed before it began", "killed in it"])
def test_a_run_of_the_server_is_a_run_of_the_machine_that_reports_its_end(
    office: Office, tmp_path: Path, clock: Clock, ending: str
) -> None:
    add_job(office.store, job("tidy", place="any"), now=NOW - DAY_MS)
    host, board = add_host(office, tmp_path, "one")
    add_job(host.store, job("tidy"), now=NOW)  # its own of the same name is another
    target = read_target(host.store)
    assert target is not None
    remote = RemoteRuns(host.store, target, board, poll_ms=0)
    remote.tick("me/1", free=1, now=NOW)
    remote.tick("me/1", free=1, now=NOW + 1)
    (run,) = find_claimed(host.store, "me/1")
    if ending == "killed before it began":
        from relight.store.runs import return_claims

        return_claims(host.store, "me/1")
        assert claim_due(host.store, "me/2", now=NOW + DAY_MS // 2, limit=9) == []
    else:
        begun = begin(host.store, run, "me/1", now=NOW)
        assert begun is not None
        if ending == "result":
            complete_run(
                host.store, *begun, holder="me/1", execute=do_work, clock=lambda: NOW / 1e3
            )
        else:
            from relight.work.jobs.lost_runs import settle_dead

            settle_dead(host.store, ["me/1"])
    remote.tick("me/2", free=1, now=NOW + 2)
    (there,) = read_runs(office.store)
    assert (there.job, there.status) == ("tidy", "completed" if ending == "result" else "unknown")
    assert host.push().sent == 0
    office.derive()
    assert len(read_runs(office.store)) == 1  # it is not pushed beside it
    remote.tick("me/2", free=1, now=NOW + 3)
    assert board.claim("me/3", limit=9) == []


def test_a_result_of_another_machine_names_no_file_of_the_server_and_no_session_of_others(
    office: Office, tmp_path: Path, clock: Clock
) -> None:
    """The server shows the file of an answer, and deletes it when it is old."""
    add_job(office.store, job("tidy", place="any"), now=NOW - DAY_MS)
    others, _ = add_host(office, tmp_path, "one")
    with relight.record(others.store, session_id="private") as tracker:
        tracker.turn(model="gpt-5.1", input_tokens=5, output_tokens=1)
    others.push()
    office.derive()
    _, board = add_host(office, tmp_path, "two")
    (run,) = board.claim("w", limit=1)
    assert board.begin(run, "w")
    session = "relight:private@one"
    with pytest.raises(ServerError, match="cannot be read"):  # no page could show the year
        board.finish(run, replace(DONE, finished_at=1 << 62), holder="w")
    result = replace(DONE, answer_file="config.toml", session=session, earlier=[session])
    assert board.finish(run, result, holder="w")
    (there,) = read_runs(office.store)
    assert (there.status, there.answer_file, there.session_id) == ("completed", None, None)
    assert office.store.query("select count(*) from run_attempt") == [(0,)]


def test_no_machine_takes_a_slot_by_its_name(office: Office, tmp_path: Path, clock: Clock) -> None:
    """A run of the server is known by its job and the time of its slot."""
    add_job(office.store, job("tidy"), now=NOW - DAY_MS)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(NOW / 1000))
    host, _ = add_host(office, tmp_path, stamp)
    target = read_target(host.store)
    assert target is not None
    figures = RunFigures(status="completed", outcome="success")
    run = SentRun(source="relight", key="tidy", job="tidy", figures=figures)
    marks = {"Machine": read_own_id(host.store), "Store": target.store_id}
    host.line.send("POST", "/api/v1/tapes", Push(runs=[run]), **marks)
    assert claim_names(office.store) == [f"tidy@{stamp}"]


def test_a_result_without_words_has_no_path_and_no_sentence() -> None:
    fields = dict.fromkeys(EndedRun.__struct_fields__) | {
        "status": "failed",
        "outcome_evidence": '["it was the plumber"]',
        "session": "relight:call the plumber",
        "model": "/home/plumber/qwen.gguf",
    }
    ended = EndedRun(**fields)  # type: ignore[arg-type]
    assert b"plumber" in msgspec.json.encode(make_sent_result(ended, Naming("m")))
    assert b"plumber" not in msgspec.json.encode(make_sent_result(ended, Naming("m", hides=True)))


class Worker:
    """A worker whose steps a simulation takes one by one, and that may die between any two."""

    def __init__(self, name: str, host: int, board: ServerBoard) -> None:
        self.name, self.host, self.board = name, host, board
        self.claimed: list[int] = []
        self.begun: BegunSlot | None = None

    def step(self, done: Counter[str]) -> None:
        if self.begun is not None:
            done[self.begun.run.key] += 1
            self.board.finish(self.begun.run.id, DONE, holder=self.name)
            self.begun = None
        elif self.claimed:
            self.begun = self.board.begin(self.claimed.pop(), self.name)
        else:
            self.claimed = self.board.claim(self.name, limit=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_slot_has_one_result_among_kills_and_wrong_clocks(
    office: Office, tmp_path: Path, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers on two hosts of which one's clock is an hour ahead, a lease that ends often."""
    slots_wanted, kills, dice = 30, 12, random.Random(seed)
    monkeypatch.setattr(slots, "LEASE_MS", 5_000)
    jobs = [job(f"job-{number}", place="any") for number in range(slots_wanted)]
    add_jobs(office.store, jobs, now=NOW - DAY_MS)
    boards = [add_host(office, tmp_path, name)[1] for name in ("right", "ahead")]
    done: Counter[str] = Counter()
    names = iter(range(10_000))

    def start() -> Worker:
        host = dice.randrange(2)
        return Worker(f"w{next(names)}", host, boards[host])

    workers = [start() for _ in range(4)]
    for _ in range(2_000):
        ended = [run for run in read_runs(office.store) if run.status in ("completed", "unknown")]
        if len(ended) == slots_wanted:
            break
        place = dice.randrange(len(workers))
        if kills and dice.random() < 0.1:
            kills -= 1
            workers[place] = start()
            continue
        workers[place].step(done)
        clock.now += dice.choice((1, 100, 2_000))
        if workers[place].begun is not None and dice.random() < 0.7:
            workers[place].board.keep(workers[place].name)
    runs = read_runs(office.store)
    assert len(runs) == slots_wanted
    assert {run.status for run in runs} <= {"completed", "unknown"}
    assert set(done.values()) == {1}
    assert {run.run_id for run in runs if run.status == "completed"} == set(done)
