"""Push what is recorded here to the server that this machine has joined.

What is acknowledged is struck out of `push_due`; everything else is sent by the next push. So a
push may be killed, refused or cut off anywhere: sending twice changes nothing.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.intake.joining import (
    PushRunningError,
    find_shared,
    hold_push,
    join_as_copy,
    join_as_own,
    need_target,
)
from relight.intake.pushed_facts import make_outcome, make_part, make_run, make_use
from relight.intake.team_client import (
    BusyServerError,
    ChangedTargetError,
    CopiedTargetError,
    Line,
    RefusedMessageError,
    ServerError,
    find_token,
)
from relight.intake.wire import (
    Joined,
    Naming,
    Push,
    Pushed,
    SentPart,
    Share,
)
from relight.store import Store
from relight.store.members import make_mark
from relight.store.team import (
    DueOutcome,
    DuePart,
    TeamTarget,
    count_due,
    count_without_tape,
    drop_due,
    read_due_forgets,
    read_due_outcomes,
    read_due_parts,
    read_own_id,
    read_push_marks,
    read_target,
    set_pushed,
    write_mark,
    write_target,
)
from relight.store.team_facts import (
    read_due_runs,
    read_due_uses,
    read_use_values,
    strike_remote,
    strike_runs,
    strike_uses,
)
from relight.text import plural

BATCH_BYTES, BATCH_PARTS = 1 << 20, 64
BATCH_OUTCOMES = 500
# a push by itself, after an import
AUTO_SECONDS = 5.0
RETRY_MS, LONGEST_WAIT_MS = 60_000, 600_000
WATCH_SECONDS = 5.0

Progress = Callable[[int, int], None]


class PushReport(Struct, kw_only=True):
    """The result of a push: parts of the tape, the bytes sent for them, and what is still pending.

    `refused` are parts of sessions that were forgotten on the server, `left_out` those of projects
    that are not shared, `waiting` those whose project is not known yet. `forgotten` are sessions
    that the server deleted. `notes` say what was not as expected.
    """

    sent: int = 0
    known: int = 0
    bytes: int = 0
    pending: int = 0
    refused: int = 0
    left_out: int = 0
    waiting: int = 0
    forgotten: int = 0
    notes: list[str] = []


def push_after_import(store: Store) -> None:
    """Push what is new, for a few seconds at most; trouble is noted, and never raised."""
    try:
        target = read_target(store)
        if target is None or not count_due(store):
            return
        # a moment that is far ahead was noted by a clock that was wrong
        if 0 < (target.try_at or 0) - _now() <= LONGEST_WAIT_MS:
            return
        push(store, seconds=AUTO_SECONDS)
    except Exception as error:  # noqa: BLE001 - an import must not fail for it
        import logging

        logging.getLogger("relight").info("nothing was pushed: %s", error)


def push(
    store: Store,
    *,
    seconds: float | None = None,
    progress: Progress | None = None,
    line: Line | None = None,
) -> PushReport:
    """Send what is pending, for so many seconds; raise if the server does not take it.

    `line` is the connection to it; by default a new one.
    """
    target = need_target(store)
    with hold_push(store, waits=False):
        pusher = Pusher(store, target, seconds=seconds, progress=progress, line=line)
        try:
            pusher.run()
        except Exception as error:  # noted for the next push, and raised
            message = error.message if isinstance(error, RelightError) else repr(error)
            wait = getattr(error, "wait_seconds", None)
            pusher.note_trouble(message, RETRY_MS if wait is None else wait * 1000)
            raise
        finally:
            pusher.close()
    return pusher.report


class Pusher:
    """One push: batches in the order of recording, each acknowledged before the next."""

    def __init__(
        self,
        store: Store,
        target: TeamTarget,
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
        line: Line | None = None,
    ) -> None:
        self.store = store
        self.target = target
        self.report = PushReport(notes=[])
        self._until = None if seconds is None else time.monotonic() + seconds
        self._progress = progress or (lambda done, total: None)
        self._line = line
        self._total = 0
        self._has_sent = False
        # of the last acknowledged push, and of one that was sent and perhaps not stored
        self._marks = read_push_marks(store).get(target.store_id) or [""]

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def run(self) -> None:
        if self._line is None:
            self._line = Line(self.target.url, find_token(self.target.token_file))
        self._total = count_due(self.store)
        if self.target.pushed_at is None and (count := count_without_tape(self.store)):
            self._note(describe_untaped(count))
        if not self._marks[0]:  # of a restored backup
            self._marks = [self._join().mark]
        try:
            self._send_all()
        except ChangedTargetError as error:
            self._join_again(error)
            self._send_all()
        except CopiedTargetError:
            self._join_as_copy()
            self._send_all()
        self.report.pending = count_due(self.store)
        self.target = replace(self.target, pushed_at=_now(), trouble=None, try_at=None)
        write_target(self.store, self.target)
        write_mark(self.store, self.target.store_id, *self._marks)

    def note_trouble(self, message: str, wait_ms: int) -> None:
        """Note why a push failed, and when the next one by itself may try."""
        if read_target(self.store) is not None:
            try_at = _now() + min(wait_ms, LONGEST_WAIT_MS)
            write_target(self.store, replace(self.target, trouble=message, try_at=try_at))

    def _join(self, join: Callable[..., Joined] = join_as_own) -> Joined:
        assert self._line is not None
        share: Share = "tapes" if self.target.share == "tapes" else "figures"
        return join(
            self._line,
            self.store,
            name=self.target.name,
            share=share,
            labels=self.target.labels,
        )

    def _join_again(self, error: ChangedTargetError) -> None:
        """Join the store that the server has now: what another one acknowledged is not in it."""
        found = self._join()
        self.target = replace(self.target, store_id=found.store_id, machine=found.machine)
        write_target(self.store, self.target, is_new=True)
        self._marks = [found.mark]
        self._total = count_due(self.store)
        self.report.notes.append(f"{error.message}: everything is sent again")

    def _join_as_copy(self) -> None:
        """Push as a new machine: this home is a copy, and its twin has pushed meanwhile.

        What the twin had acknowledged when it was copied is there, so only the rest is sent. The
        server knows the parts that both still had to send.
        """
        twin = self.target.machine
        found = self._join(join_as_copy)
        self.target = replace(self.target, machine=found.machine)
        write_target(self.store, self.target)
        self._marks = [found.mark]
        self.report.notes.append(
            f"another home with the same id pushes as {twin}, so one is a copy of the other:"
            f" this one pushes as {found.machine} from now on"
        )

    def _send_all(self) -> None:
        self._send_forgets()
        self._send_parts()
        self._send_outcomes()
        self._send_facts()
        if not self._has_sent and not self._is_late():
            # only the server knows whether it still has what it acknowledged
            self._send(Push())

    def _is_late(self) -> bool:
        if self._until is None:
            return False
        left = self._until - time.monotonic()
        if self._line is not None:
            self._line.seconds = max(left, 0.5)
        return left <= 0

    def _send_forgets(self) -> None:
        ids = read_due_forgets(self.store)
        if ids and not self._is_late():
            self._send(Push(forgotten=ids), forgets=ids)
            self.report.forgotten += len(ids)

    def _send_parts(self) -> None:
        after = self.report.waiting = 0
        while not self._is_late() and (some := read_due_parts(self.store, after, BATCH_PARTS)):
            batch: list[tuple[DuePart, SentPart]] = []
            left_out, size = [], 0
            for due in some:
                after = due.id
                is_shared = find_shared(self.target, due.project)
                if is_shared is False:
                    left_out.append(due.id)
                self.report.waiting += is_shared is None
                made = make_part(self.store, due, self._naming, self._note) if is_shared else None
                if made is None:
                    continue
                batch.append((due, made))
                size += len(made.records) + len(made.state)
                if size >= BATCH_BYTES:
                    break
            if left_out:
                drop_due(self.store, "part", left_out)
                self.report.left_out += len(left_out)
            if batch:
                self._send_batch(batch)

    def _send_batch(self, batch: Sequence[tuple[DuePart, SentPart]]) -> None:
        """Send parts together; one by one if the server does not take them so."""
        try:
            self._send(
                Push(parts=[made for _, made in batch]),
                parts=[(due.id, due.raw_bytes) for due, _ in batch],
            )
            self.report.bytes += sum(len(one.records) + len(one.state) for _, one in batch)
        except RefusedMessageError as error:
            if len(batch) > 1:
                for one in batch:
                    self._send_batch([one])
            else:
                self._note(f"a part of {batch[0][0].source} is not sent: {error.message}")

    def _send_outcomes(self) -> None:
        due = read_due_outcomes(self.store)
        shared = [one for one in due if find_shared(self.target, one.project)]
        hidden = [one.id for one in due if find_shared(self.target, one.project) is False]
        if hidden:
            drop_due(self.store, "session", hidden)
        for start in range(0, len(shared), BATCH_OUTCOMES):
            if self._is_late():
                return
            some = shared[start : start + BATCH_OUTCOMES]
            self._send(
                Push(outcomes=[make_outcome(one, self._naming) for one in some]), outcomes=some
            )

    def _send_facts(self) -> None:
        """Send ended runs and recorded uses of skills."""
        strike_remote(self.store)
        while not self._is_late():
            runs = read_due_runs(self.store, BATCH_OUTCOMES)
            used = read_due_uses(self.store, BATCH_OUTCOMES)
            # a run without a session is of no project
            hidden = [one for one in runs if not find_shared(self.target, one.project)]
            hidden_uses = [one for one in used if find_shared(self.target, one.project) is False]
            drop_due(self.store, "run", [one.id for one in hidden])
            drop_due(self.store, "use", [one.id for one in hidden_uses])
            runs = [one for one in runs if find_shared(self.target, one.project)]
            used = [one for one in used if find_shared(self.target, one.project)]
            if not runs and not used:
                return
            values = {one.id: read_use_values(self.store, one.id) for one in used}
            self._send(
                Push(
                    runs=[make_run(self.store, one, self._naming) for one in runs],
                    uses=[make_use(one, values[one.id], self._naming) for one in used],
                )
            )
            strike_runs(self.store, runs)
            strike_uses(self.store, values)

    @property
    def _naming(self) -> Naming:
        return Naming(self.target.machine, self.target.share == "figures")

    def _send(
        self,
        message: Push,
        *,
        parts: list[tuple[int, int]] | None = None,
        outcomes: list[DueOutcome] | None = None,
        forgets: list[int] | None = None,
    ) -> None:
        """Send a message, and strike out what the server has committed."""
        assert self._line is not None
        message = replace(message, before=self._marks[0], mark=self._note_mark())
        answer = self._line.send(
            "POST",
            "/api/v1/tapes",
            message,
            Machine=read_own_id(self.store),
            Store=self.target.store_id,
        )
        found = msgspec.json.decode(answer, type=Pushed)
        self._has_sent = True
        set_pushed(self.store, parts=parts or [], outcomes=outcomes or [], forgets=forgets or [])
        self._marks = [message.mark]
        self.report.sent += found.stored
        self.report.known += found.known
        self.report.refused += len(found.refused)
        self.target = replace(self.target, behind=found.behind)
        self._progress(max(self._total - count_due(self.store), 0), self._total)

    def _note_mark(self) -> str:
        """Return the mark of the next push, written first: its answer may be lost."""
        if len(self._marks) < 2:
            self._marks = [self._marks[0], make_mark()]
            write_mark(self.store, self.target.store_id, *self._marks)
        return self._marks[1]

    def _note(self, text: str) -> None:
        if text not in self.report.notes:
            self.report.notes.append(text)


def watch(store: Store, on_push: Callable[[PushReport | ServerError], None]) -> None:
    """Push again and again, until interrupted; trouble is reported, and tried again later."""
    while True:
        wait = WATCH_SECONDS
        try:
            if count_due(store):
                on_push(push(store))
        except BusyServerError as error:
            on_push(error)
            wait = max(wait, error.wait_seconds)
        except ServerError as error:
            on_push(error)
        except PushRunningError:
            pass
        time.sleep(wait)


def describe_untaped(count: int) -> str:
    """Return the sentence about sessions that no push can send."""
    kept = plural(count, "session stays", "sessions stay")
    return f"{kept} on this machine alone: without their tapes, which were pruned"


def _now() -> int:
    return int(time.time() * 1000)
