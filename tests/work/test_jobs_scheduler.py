import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import build
import build_jobs as jobs
from build_runs import write_agent, write_program
from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.reports.runs import read_jobs
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.store.jobs import find_next_due
from relight.store.queries.runs import RunReport, read_runs
from relight.times import write_time
from relight.work.jobs.claimed_run import complete_run, run_now
from relight.work.jobs.job import JobResult
from relight.work.jobs.leases import Holder, find_alive, is_alive
from relight.work.jobs.lost_runs import collect_interrupted, find_dead, settle_dead
from relight.work.jobs.notes import (
    ProgramNote,
    RunNote,
    find_run_folder,
    write_program_note,
    write_run_note,
)
from relight.work.jobs.registry import add_job, pause_job, remove_job, resume_job
from relight.work.jobs.scheduler import Scheduler
from relight.work.jobs.schedules import find_grace_ms, find_next, read_schedule
from relight.work.jobs.slots import begin, bring_forward, claim_due, finish, start_now
from relight.work.processes import find_descendants, kill_all

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * 1000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build.write_settings(tmp_path, 'timezone = "UTC"\n')
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with open_store(home) as opened:
        yield opened


def end_with(done: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    done.send_signal(number)
    return done.wait(timeout=120)


# --- one slot, one run


def test_three_schedulers_run_each_job_once_while_one_is_killed_again_and_again(
    store: Store, home: Path
) -> None:
    names = jobs.add_due(store, 150)
    steady = [jobs.start_scheduler(home, "note_slowly", max_parallel=2) for _ in range(2)]
    victim = jobs.start_scheduler(home, "note_slowly", max_parallel=2)
    for _ in range(4):
        time.sleep(0.5)
        victim.kill()
        victim.wait()
        victim = jobs.start_scheduler(home, "note_slowly", max_parallel=2)

    def is_done() -> bool:
        runs = read_runs(store)
        return len(runs) == 150 and not {"claimed", "running"} & {run.status for run in runs}

    build.wait_for(is_done)
    for scheduler in (*steady, victim):
        assert end_with(scheduler) == 0
    runs = read_runs(store)
    assert sorted(str(run.job) for run in runs) == sorted(names)
    ran = jobs.read_ran(home)
    assert len(set(ran)) == len(ran)
    assert {run.job for run in runs if run.status == "completed"} <= set(ran)
    # what was cut short says so
    lost = [run for run in runs if run.status != "completed"]
    assert all(run.outcome == "unknown" and run.evidence for run in lost)


def test_a_slot_is_claimed_by_one_of_many(home: Path) -> None:
    with open_store(home) as store:
        jobs.add_due(store, 20)
        now = int(time.time() * 1000)
    claimed: list[int] = []

    def claim(name: str) -> None:
        with open_store(home) as own:
            while found := claim_due(own, name, now=now, limit=1):
                claimed.extend(found)

    threads = [threading.Thread(target=claim, args=(f"host/{one}",)) for one in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == len(set(claimed)) == 20


def test_the_run_is_in_the_history_before_its_work_begins(store: Store, home: Path) -> None:
    jobs.add_due(store, 1)
    assert jobs.start_scheduler(home, "look", once=True).wait(timeout=120) == 0
    seen = json.loads((home / "seen.json").read_text())["runs"]
    assert [run["status"] for run in seen] == ["running"]
    assert read_runs(store)[0].outcome == "success"


@settings(max_examples=60)
@given(
    schedule=st.sampled_from(["every 7m", "every 3h", "*/20 * * * *", "daily 07:00", "hourly"]),
    steps=st.lists(st.integers(1, 30 * HOUR), min_size=1, max_size=25),
)
def test_however_the_clock_jumps_each_slot_is_run_once_or_recorded_as_missed(
    tmp_path_factory: pytest.TempPathFactory, schedule: str, steps: list[int]
) -> None:
    due_at = read_schedule(schedule, timezone="UTC", made_at=NOON)
    with open_store(tmp_path_factory.mktemp("home")) as store:
        add_job(store, jobs.make_job("one", schedule=schedule), now=NOON)
        now, slots = NOON, []
        for step in steps:
            due = list(takewhile((now + step).__ge__, due_at.slots(now)))
            now += step
            for run_id in claim_due(store, "host/1", now=now, limit=1):
                begin(store, run_id, "host/1", now=now)
                finish(store, run_id, jobs.DONE, holder="host/1")
            assert find_next_due(store) == find_next(due_at, now)
            if due:
                slots.append(due[-1])
                newest = max(read_runs(store), key=lambda run: str(run.scheduled_for))
                assert newest.scheduled_for == write_time(due[-1])
                is_run = now - due[-1] <= find_grace_ms(due_at, due[-1])
                assert newest.status == ("completed" if is_run else "skipped")
                told = f"{len(due) - 1} earlier slot" if len(due) > 1 else ""
                assert told in (newest.note or "")
        kept = sorted(str(run.scheduled_for) for run in read_runs(store))
        assert kept == [write_time(slot) for slot in slots]


# --- missed slots


def claim(store: Store, now: int) -> RunReport:
    claim_due(store, "host/1", now=now, limit=1)
    return read_runs(store)[0]


def test_missed_slots_become_one_run_within_the_grace(store: Store) -> None:
    add_job(store, jobs.make_job("half-hourly", schedule="*/30 * * * *"), now=NOON)
    run = claim(store, NOON + 2 * HOUR + 10 * MINUTE)
    assert run.status == "claimed"
    assert run.scheduled_for == "2026-11-15T14:00:00.000Z"
    assert run.note == "stands for 3 earlier slots missed since Sun 2026-11-15 12:30 UTC"
    assert len(read_runs(store)) == 1


def test_beyond_the_grace_they_are_skipped_with_a_note(store: Store) -> None:
    add_job(store, jobs.make_job("daily"), now=NOON)
    run = claim(store, NOON + DAY)
    assert (run.status, run.outcome, run.attempts) == ("skipped", "unknown", 0)
    assert run.evidence == ["skipped: found 5 hours late, more than the grace of 2 hours"]
    # the next one is run as if nothing had been
    assert claim(store, NOON + DAY + 19 * HOUR).status == "claimed"


def test_a_time_that_comes_once_is_run_once(store: Store) -> None:
    add_job(store, jobs.make_job("once", schedule="2026-11-15T12:30Z"), now=NOON)
    assert claim(store, NOON + HOUR).status == "claimed"
    assert read_jobs(store)[0].state == "done"
    assert not claim_due(store, "host/2", now=NOON + DAY, limit=1)


def test_ten_thousand_missed_slots_are_counted_to_a_thousand(store: Store) -> None:
    add_job(store, jobs.make_job("busy", schedule="* * * * *"), now=NOON)
    started = time.monotonic()
    run = claim(store, NOON + 400 * DAY)
    assert (run.note or "").startswith("stands for 1000+ earlier slots missed")
    assert time.monotonic() - started < 5


def test_a_job_whose_schedule_cannot_be_read_is_paused_and_stops_no_other(store: Store) -> None:
    add_job(store, jobs.make_job("torn", schedule="every 1h"), now=NOON)
    add_job(store, jobs.make_job("whole", schedule="every 1h"), now=NOON)
    with store.transaction() as database:
        database.execute("update job set definition = '{\"name\": 7}' where key = 'torn'")
    claim_due(store, "host/1", now=NOON + HOUR, limit=5)
    runs = {run.job: run for run in read_runs(store)}
    assert runs["whole"].status == "claimed"
    assert "cannot be read" in runs["torn"].evidence[0]
    assert {job.job: job.state for job in read_jobs(store)}["torn"] == "paused"


# --- who dies, and what of it


def test_a_killed_schedulers_run_is_unknown_with_evidence_and_not_repeated(
    store: Store, home: Path
) -> None:
    jobs.add_due(store, 1)
    scheduler = jobs.start_scheduler(home, "linger")
    build.wait_for(lambda: jobs.read_ran(home))
    scheduler.kill()
    scheduler.wait()
    assert jobs.start_scheduler(home, "note", once=True).wait(timeout=120) == 0
    (run,) = read_runs(store)
    assert (run.status, run.outcome) == ("unknown", "unknown")
    assert "not known" in run.evidence[0]
    # its worker gets the signal, cleans up and ends too
    build.wait_for(lambda: jobs.read_ran(home) == ["begin", "put away"])


def test_a_job_does_not_begin_again_while_a_killed_schedulers_run_is_being_put_away(
    store: Store, home: Path
) -> None:
    add_job(store, jobs.make_job("one", schedule="every 1s"), now=int(time.time() * 1000) - 1000)
    victim = jobs.start_scheduler(home, "put_away_slowly")
    build.wait_for(lambda: jobs.read_ran(home))
    with subprocess_of(jobs.start_scheduler(home, "put_away_slowly")):
        victim.kill()
        victim.wait()
        build.wait_for(lambda: jobs.read_ran(home).count("begin") == 2)
        (home / "go.txt").touch()
    assert jobs.read_ran(home)[:3] == ["begin", "put away", "begin"]
    assert "its scheduler ended, and it was stopped" in read_runs(store)[-1].evidence[0]


def test_what_a_lost_run_had_started_is_ended(store: Store, home: Path) -> None:
    """Also where its own process was killed and could end nothing."""
    command = ["/bin/sh", "-c", f"setsid sleep 61 & echo $! > {home}/stray; sleep 61"]
    add_job(store, jobs.make_job("one", runner="command", command=command, model=None), now=NOON)
    words = [sys.executable, "-m", "relight", "--home", str(home), "job", "run", "one"]
    with subprocess.Popen(words) as running:
        build.wait_for(lambda: (home / "stray").exists() and (home / "stray").read_text())
        running.kill()
    stray = int((home / "stray").read_text())
    os.kill(stray, 0)
    assert settle_dead(store, find_dead(store, now=NOON)) == 1
    build.wait_for(lambda: not Path(f"/proc/{stray}/exe").exists())


def test_what_the_agent_of_a_killed_scheduler_left_is_joined_to_its_run(
    store: Store, home: Path
) -> None:
    """Also if its worker was killed with it and nothing could be cleaned up."""
    command = [str(write_agent(home)), "-p"]
    jobs.add_due(
        store, 1, runner="command", command=command, prompt="<speaking> <slow>", model=None
    )
    scheduler = jobs.start_scheduler(home, "work")
    build.wait_for((home / ".claude" / "projects" / "-x" / "pid").exists)
    kill_all({scheduler.pid, *find_descendants(scheduler.pid)})
    scheduler.wait()
    assert list((home / "runs").iterdir())
    # the next process may keep the agent's files elsewhere
    assert jobs.start_scheduler(home, "note", once=True).wait(timeout=60) == 0
    (run,) = read_runs(store)
    assert run.status == "unknown"
    assert (run.session_id or "").startswith("claude-code:")
    assert (run.input_tokens, run.output_tokens) == (1000, 34)
    assert run.cost_usd == pytest.approx(0.00595)
    assert [path.name for path in (home / "runs").iterdir()] == ["lock"]


def test_the_session_of_the_next_run_is_not_that_of_one_that_was_killed(
    store: Store, home: Path
) -> None:
    """If an agent reports no id, both have the same prompt, and only one is its own."""
    wrapper = write_program(home, "mine", f"#!/bin/sh\nexec {write_agent(home)}\n")
    job = jobs.make_job("one", runner="command", command=[str(wrapper)], prompt="Look.", model=None)
    add_job(store, job, now=NOON)
    old = int(time.time() * 1000) - HOUR
    run = start_now(store, job, "elsewhere/1-ab", now=old)
    write_run_note(home, RunNote(run=run))
    places = {"HOME": str(home)}
    program = ProgramNote(
        source=None, key=None, started_at=old, until=old + 2 * HOUR, places=places
    )
    for number, noted in enumerate((replace(program, is_over=True), program)):
        folder = find_run_folder(home, run.key) / str(number)
        write_program_note(folder, noted)
        (folder / "prompt.md").write_text("Look.")
    settle_dead(store, find_dead(store, now=old + HOUR))
    later = start_now(store, job, "elsewhere/1-cd", now=int(time.time() * 1000))
    words = {"PATH": os.environ["PATH"], "HOME": str(home)}
    subprocess.run([str(wrapper)], input=b"Look.", env=words, check=True)
    collect_interrupted(store)
    runs = {one.run_id: one for one in read_runs(store)}
    assert (runs[run.key].status, runs[run.key].session_id) == ("unknown", None)
    assert runs[run.key].attempts == 2
    assert runs[later.key].status == "running"


def test_a_worker_that_dies_takes_only_its_own_run_along(store: Store, home: Path) -> None:
    now = int(time.time() * 1000) - DAY
    add_job(store, jobs.make_job("bad", schedule="every 1d", prompt="die"), now=now - 1000)
    add_job(store, jobs.make_job("good", schedule="every 1d"), now=now)
    assert jobs.start_scheduler(home, "die", max_parallel=1, once=True).wait(timeout=120) == 0
    runs = {run.job: run for run in read_runs(store)}
    assert runs["good"].outcome == "success"
    assert runs["bad"].status == "unknown"
    assert runs["bad"].evidence == [
        "the process that ran it was ended by SIGKILL; it is not repeated"
    ]
    assert sorted(jobs.read_ran(home)) == ["bad", "good"]


def test_a_run_that_no_worker_can_begin_has_failed(store: Store, home: Path) -> None:
    jobs.add_due(store, 1)
    assert jobs.start_scheduler(home, "no_such_function", once=True).wait(timeout=120) == 0
    (run,) = read_runs(store)
    assert (run.status, run.outcome) == ("failed", "failure")
    assert run.evidence == ["no process could begin it: each ended with code 1"]


def test_a_claimed_run_that_trouble_kept_from_being_handed_out_is_begun_later(
    store: Store, home: Path
) -> None:
    now = int(time.time() * 1000)
    # the first is skipped, so that what is due is claimed in two steps, and the second one fails
    for name, days in (("skipped", 2.5), ("claimed", 1.0), ("failing", 1.0)):
        add_job(store, jobs.make_job(name, schedule="every 1d"), now=now - round(days * DAY))
    is_failing = "key like 'failing@%'"
    if store.engine == "sqlite":
        fail = "begin select raise(abort, 'the disk is full'); end"
        make = f"create trigger trouble before insert on run when new.{is_failing} {fail}"
        end = "drop trigger trouble"
    else:
        make = f"alter table run add constraint trouble check (not ({is_failing}))"
        end = "alter table run drop constraint trouble"
    store.run(make)
    with subprocess_of(jobs.start_scheduler(home, "note", max_parallel=2)):
        build.wait_for(lambda: len(read_runs(store)) == 2)
        assert not jobs.read_ran(home)
        store.run(end)
        build.wait_for(lambda: sorted(jobs.read_ran(home)) == ["claimed", "failing"])


def test_a_run_whose_worker_cannot_be_started_has_failed(store: Store, home: Path) -> None:
    jobs.add_due(store, 1)
    code = f"import sys; sys.executable = '/no/such/python'\n{jobs.CODE}"
    words = [sys.executable, "-c", code, str(home), "build_jobs:note", "1", "once"]
    subprocess.run(words, check=True)
    (run,) = read_runs(store)
    assert (run.status, run.outcome, run.attempts) == ("failed", "failure", 0)
    assert run.evidence[0].startswith("no process could begin it: each could not be started")


def test_what_a_dead_scheduler_had_claimed_but_not_begun_is_due_again(store: Store) -> None:
    jobs.add_due(store, 2)
    now = int(time.time() * 1000)
    home = store.config.home
    with Holder(home) as dead:
        first, second = claim_due(store, dead.name, now=now, limit=2)
        assert begin(store, first, dead.name, now=now)
        assert not find_dead(store, now=now)
    assert find_dead(store, now=now) == [dead.name]
    assert settle_dead(store, [dead.name]) == 1
    with Holder(home) as heir:
        assert claim_due(store, heir.name, now=now, limit=9) == [second]
        # what is left of the dead one cannot begin it any more
        assert begin(store, second, dead.name, now=now) is None
        assert begin(store, second, heir.name, now=now) is not None
        assert find_alive(home) == [heir.name]


def lose_claim(store: Store, schedule: str, change: Callable[[Store, str], None]) -> None:
    """A job whose slot at one o'clock was claimed by a scheduler that died, and then changed."""
    add_job(store, jobs.make_job("one", schedule=schedule), now=NOON)
    assert claim_due(store, "elsewhere/1-ab", now=NOON + HOUR, limit=1)
    change(store, "one")
    settle_dead(store, ["elsewhere/1-ab"])


def test_a_slot_that_comes_back_too_late_is_skipped_like_any_other(store: Store) -> None:
    lose_claim(store, "every 1h", lambda *_: None)
    run = claim(store, NOON + DAY + 45 * MINUTE)
    assert run.status == "skipped"
    assert "stands for 23 earlier slots missed since Sun 2026-11-15 13:00 UTC" in (run.note or "")
    assert len(read_runs(store)) == 1


def test_a_time_that_comes_once_comes_back_too(store: Store) -> None:
    lose_claim(store, "2026-11-15T13:00Z", lambda *_: None)
    assert claim(store, NOON + HOUR + MINUTE).status == "claimed"


@pytest.mark.parametrize("change", [pause_job, remove_job])
def test_a_slot_that_comes_back_to_a_job_nobody_wants_is_not_run(
    store: Store, change: Callable[[Store, str], None]
) -> None:
    lose_claim(store, "every 1h", change)
    assert not claim_due(store, "host/1", now=NOON + HOUR + MINUTE, limit=1)
    assert read_runs(store) == []


def test_what_dead_holders_leave_is_swept_away_by_the_next(home: Path) -> None:
    folder = home / "schedulers"
    with Holder(home) as first:
        (file,) = folder.iterdir()
        (folder / file.name.replace(".lock", "0.lock")).touch()
        (folder / "elsewhere+1-ab.lock").touch()
        with Holder(home) as second:
            assert find_alive(home) == sorted([first.name, second.name])
            assert len(list(folder.iterdir())) == 3
    assert [path.name for path in folder.iterdir()] == ["elsewhere+1-ab.lock"]


def test_a_holder_on_another_machine_lives_by_its_lease(home: Path) -> None:
    assert is_alive(home, "elsewhere/1-ab", lease_until=NOON + 1, now=NOON)
    assert not is_alive(home, "elsewhere/1-ab", lease_until=NOON, now=NOON)


def test_a_run_that_was_thought_lost_may_still_say_how_it_went(store: Store) -> None:
    jobs.add_due(store, 1)
    now = int(time.time() * 1000)
    (run_id,) = claim_due(store, "elsewhere/1-ab", now=now, limit=1)
    begin(store, run_id, "elsewhere/1-ab", now=now)
    assert settle_dead(store, find_dead(store, now=now + HOUR)) == 1
    assert finish(store, run_id, jobs.DONE, holder="elsewhere/1-ab")
    assert read_runs(store)[0].outcome == "success"
    assert not finish(store, run_id, jobs.DONE, holder="elsewhere/1-ab")


def test_what_a_killed_run_of_ours_had_spent_is_charged_to_its_job(store: Store) -> None:
    add_job(store, jobs.make_job("dear", schedule="every 1h"), now=NOON)
    (run_id,) = claim_due(store, "elsewhere/1-ab", now=NOON + HOUR, limit=1)
    begun = begin(store, run_id, "elsewhere/1-ab", now=NOON + HOUR)
    assert begun is not None
    for attempt in (1, 2):
        with record(store, f"{begun[1].key}-{attempt}", model="m") as rec:
            rec.turn(input_tokens=10, output_tokens=5, cost_usd=0.25)
    settle_dead(store, find_dead(store, now=NOON + DAY))
    (run,) = read_runs(store)
    assert (run.outcome, run.session_id) == ("unknown", f"relight:{run.run_id}-2")
    assert (run.attempts, run.cost_usd, run.input_tokens) == (2, 0.5, 20)
    rows = report(store, ["job"]).rows
    assert [(row.job, row.cost_usd) for row in rows] == [("dear", 0.5)]


def test_a_rebuild_leaves_jobs_and_their_runs_as_they_were(store: Store) -> None:
    add_job(store, jobs.make_job("one"), now=NOON)
    with record(store, "mine", model="m") as rec:
        rec.message("user", "x")
        rec.turn(input_tokens=10, output_tokens=5)
    failed = JobResult(
        status="failed", outcome="failure", evidence=["it went wrong"], session="relight:mine"
    )
    run_now(store, "one", holder="host/1", execute=lambda *_, **__: failed)
    before = read_jobs(store), read_runs(store)
    assert before[1][0].session_id == "relight:mine"
    rebuild(store, workers=1)
    assert (read_jobs(store), read_runs(store)) == before
    # its session is judged by what the run came to
    ((outcome,),) = store.query("select outcome from session where key = 'mine'")
    assert outcome == "failure"


# --- stopping, and how many at a time


def test_asked_to_stop_it_ends_with_the_last_run(store: Store, home: Path) -> None:
    jobs.add_due(store, 2)
    scheduler = jobs.start_scheduler(home, "linger", max_parallel=1)
    build.wait_for(lambda: jobs.read_ran(home))
    scheduler.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert scheduler.poll() is None
    (home / "go.txt").touch()
    assert scheduler.wait(timeout=120) == 0
    assert [run.outcome for run in read_runs(store)] == ["success"]
    assert not find_alive(home)


def test_asked_twice_it_ends_the_runs_which_say_so(store: Store, home: Path) -> None:
    jobs.add_due(store, 1)
    scheduler = jobs.start_scheduler(home, "linger")
    build.wait_for(lambda: jobs.read_ran(home))
    scheduler.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert end_with(scheduler, signal.SIGINT) == 0
    (run,) = read_runs(store)
    assert (run.status, run.outcome) == ("unknown", "unknown")
    assert run.evidence[0].startswith("its scheduler ended, and it was stopped")
    assert jobs.read_ran(home) == ["begin", "put away"]


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_runs_at_a_time_than_allowed(store: Store, home: Path, most: int) -> None:
    jobs.add_due(store, 6)
    scheduler = jobs.start_scheduler(home, "linger", max_parallel=most, once=True)
    build.wait_for(lambda: len(jobs.read_ran(home)) >= most)
    (home / "go.txt").touch()
    assert scheduler.wait(timeout=120) == 0
    running = highest = 0
    for line in jobs.read_ran(home):
        running += 1 if line == "begin" else -1
        highest = max(highest, running)
    assert highest == most
    assert len(read_runs(store)) == 6


def test_a_job_never_runs_beside_itself(store: Store, home: Path) -> None:
    now = int(time.time() * 1000)
    add_job(store, jobs.make_job("often", schedule="every 1s"), now=now - 1000)
    scheduler = jobs.start_scheduler(home, "linger")
    build.wait_for(lambda: jobs.read_ran(home))
    time.sleep(2.5)
    assert jobs.read_ran(home) == ["begin"]
    with pytest.raises(RelightError, match="running already"):
        start_now(store, jobs.make_job("often"), "host/1", now=now)
    (home / "go.txt").touch()
    assert end_with(scheduler) == 0


def test_a_due_job_begins_after_its_slot(store: Store, home: Path) -> None:
    """How long after it, `./dev bench jobs` measures."""
    with subprocess_of(jobs.start_scheduler(home, "note")):
        now = int(time.time() * 1000)
        add_job(store, jobs.make_job("soon", schedule="every 4s"), now=now)
        build.wait_for(lambda: [run for run in read_runs(store) if run.finished_at])
    run = read_runs(store)[-1]
    assert run.scheduled_for
    assert run.started_at
    slot, begun = map(datetime.fromisoformat, (run.scheduled_for, run.started_at))
    assert now / 1000 < slot.timestamp() <= begun.timestamp()


def subprocess_of(process: subprocess.Popen[bytes]) -> "Ended":
    return Ended(process)


class Ended:
    """Ends a scheduler at the end of a block."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        assert end_with(self._process) == 0


# --- a run by hand, and what is kept of it


def test_a_run_by_hand_is_kept_like_any_other(store: Store) -> None:
    add_job(store, jobs.make_job("one"), now=NOON)
    run, result = run_now(store, "one", holder="host/1", execute=jobs.note)
    assert result.outcome == "success"
    (kept,) = read_runs(store, "one")
    assert (kept.run_id, kept.scheduled_for, kept.note) == (
        run.key,
        None,
        "asked for by a person",
    )


def test_a_run_that_raises_has_failed_and_says_by_what(store: Store) -> None:
    def break_down(*_: object, **__: object) -> JobResult:
        raise ZeroDivisionError("by nought")

    add_job(store, jobs.make_job("one"), now=NOON)
    run_now(store, "one", holder="host/1", execute=break_down)
    (kept,) = read_runs(store)
    assert kept.evidence == ["Relight itself failed: ZeroDivisionError: by nought"]


def test_an_interrupted_run_is_unknown(store: Store) -> None:
    def interrupt(*_: object, **__: object) -> JobResult:
        raise KeyboardInterrupt

    job = jobs.make_job("one")
    add_job(store, job, now=NOON)
    run = start_now(store, job, "host/1", now=NOON)
    with pytest.raises(KeyboardInterrupt):
        complete_run(store, job, run, holder="host/1", execute=interrupt)
    assert read_runs(store)[0].outcome == "unknown"


def test_paused_is_not_due_and_resumed_goes_on_from_now(store: Store) -> None:
    add_job(store, jobs.make_job("one", schedule="every 1h"), now=NOON)
    pause_job(store, "one")
    assert not claim_due(store, "host/1", now=NOON + DAY, limit=1)
    due = resume_job(store, "one", now=NOON + DAY + MINUTE)
    assert due == NOON + DAY + HOUR
    assert not claim_due(store, "host/1", now=NOON + DAY + MINUTE, limit=1)


def test_a_removed_job_leaves_its_history(store: Store) -> None:
    add_job(store, jobs.make_job("one"), now=NOON)
    run_now(store, "one", holder="host/1", execute=jobs.note)
    remove_job(store, "one")
    assert read_jobs(store) == []
    assert [run.job for run in read_runs(store, "one")] == ["one"]
    with pytest.raises(RelightError, match="there is no job"):
        pause_job(store, "one")


@pytest.mark.parametrize("schedule", ["daily 07:00", "every 90m", "* * * * *", "2026-11-20T08:00Z"])
def test_a_clock_that_is_set_back_leaves_no_job_waiting_for_years(
    store: Store, schedule: str
) -> None:
    job = jobs.make_job("one", schedule=schedule)
    add_job(store, job, now=NOON)
    before = find_next_due(store)
    bring_forward(store, now=NOON)
    assert find_next_due(store) == before
    with store.transaction() as database:
        database.execute("update job set next_run_at = ?", (NOON + 3000 * DAY,))
    scheduler = Scheduler(store, max_parallel=1, clock=lambda: NOON / 1000)
    scheduler.run(once=True)
    assert find_next_due(store) == before
    assert read_runs(store) == []


def test_a_clock_may_be_passed_in(store: Store) -> None:
    told: list[str] = []
    add_job(store, jobs.make_job("later"), now=NOON)
    scheduler = Scheduler(
        store,
        max_parallel=1,
        execute="build_jobs:note",
        clock=lambda: (NOON + 19 * HOUR) / 1000,
        report=lambda kind, _: told.append(kind),
    )
    scheduler.run(once=True)
    assert told == ["done"]
    assert read_runs(store)[0].scheduled_for == "2026-11-16T07:00:00.000Z"
