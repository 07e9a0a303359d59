"""The server's side of a push: write what arrives, answer, and derive its rows after that.

One transaction writes the parts of the tape and notes them in `derive_due`. A deriver beside the
server derives them, and strikes them out in the transaction that writes their rows. So each of
them can be killed at any moment: what was acknowledged is stored, and nothing counts twice.
"""

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from relight.errors import RefusedValueError, RelightError
from relight.intake.importing import PIECE_SECONDS
from relight.intake.pushed_facts import take_runs, take_uses
from relight.intake.rebuild import Derivation, derive
from relight.intake.retention import derive_from
from relight.intake.sealing import describe_error
from relight.intake.wire import (
    Joined,
    JoinRequest,
    Naming,
    Push,
    Pushed,
    SentPart,
    has_global_ids,
    read_figures,
    remove_words,
    write_figures,
)
from relight.intake.workers import Lost, Workers
from relight.model import Moment
from relight.redact import redact
from relight.store import Store, search_index
from relight.store.derive import outcomes
from relight.store.derive.machines import ToldOutcomeRow, note_machine, write_told
from relight.store.keep.machines import forget_pushed, remove_machine
from relight.store.members import (
    Machine,
    Member,
    find_forgotten,
    find_twins,
    join_machine,
    move_mark,
    note_push,
    note_use,
    set_labels,
)
from relight.store.sql import Connection
from relight.store.team import read_own_id
from relight.store.write.pushed import (
    BadPartError,
    PushedPartRow,
    decompress_most,
    find_due,
    find_origin,
    has_copy,
    has_shorter,
    note_failure,
    read_backlog,
    read_due,
    remove_parts,
    set_derived,
    write_parts,
)
from relight.store.write.record import (
    Recorder,
    has_original,
    is_forgotten,
    refresh_skills,
    write_texts,
)
from relight.store.write.sealed import Sealed
from relight.store.write.tape import TapePart, compress

# more parts that wait to be derived are refused until some are done
MOST_DUE = 20_000
PARTS_AT_ONCE = 32
# rows that no database takes: their part is given up, and the others are written
REFUSED = (ValueError, OverflowError, TypeError, RefusedValueError)
TARGET = "relight.intake.take:answer_pushed"
Size = Annotated[int, Meta(ge=-(10**13), le=10**13)]


class QueueFullError(RelightError):
    """Too many parts wait to be derived."""


class DerivedPart(Struct, frozen=True):
    """The rows of a part, or why it has none."""

    sealed: Sealed | None = None
    reason: str | None = None


def join(store: Store, member: Member, request: JoinRequest) -> Joined:
    """Add a machine of a person. What it sent is removed if it shares something else from now."""
    own_id = read_own_id(store)
    with store.transaction() as database:
        machine, before = join_machine(
            database,
            request.store_id,
            request.name,
            person_id=member.person_id,
            share=request.share,
            marks=request.marks.get(own_id, []),
            copied_from=request.copied_from,
        )
        set_labels(database, machine, request.labels)
        note_use(database, member)
    if before is not None and before != request.share:
        remove_machine(store, machine.id, derive_from(store))
    return Joined(
        store_id=own_id,
        machine=machine.key,
        person=member.person,
        mark=machine.push_mark or "",
    )


def leave(store: Store, machine: Machine) -> int:
    """Remove what a machine sent; return the number of sessions that are gone."""
    return remove_machine(store, machine.id, derive_from(store))


def take(store: Store, member: Member, machine: Machine, push: Push) -> Pushed:
    """Write what a machine sent; return after the commit."""
    backlog = read_backlog(store)
    if backlog.parts > MOST_DUE and push.parts:
        raise QueueFullError(
            f"{backlog.parts:,} parts wait to be derived", "the next push tries again"
        )
    naming = Naming(machine.key)
    rows = [_make_row(store, machine, naming, part) for part in push.parts]
    # the deriver writes the index at the same time, for longer than a push may wait
    is_tape = not (push.outcomes or push.runs or push.uses) and not has_shorter(store, rows)
    with store.transaction(only="tape" if is_tape else None) as database:
        move_mark(database, machine, before=push.before, mark=push.mark)
        gone = find_forgotten(database, [row.session_id for row in rows], member.person_id)
        twins = find_twins(database, machine)
        wanted = []
        for part, row in zip(push.parts, rows, strict=True):
            others = [find_origin(part.source, key, part.path).id for key in twins]
            if row.session_id not in gone and not has_copy(database, row, others):
                wanted.append((find_origin(part.source, machine.key, part.path), row))
        stored = write_parts(database, wanted, None if is_tape else derive_from(store))
        _write_outcomes(database, machine, naming, push)
        take_runs(store, database, machine, push.runs)
        take_uses(database, machine, push.uses)
        note_push(database, machine.id)
        note_use(database, member)
    for session_id in push.forgotten:
        forget_pushed(store, session_id, member.person_id, derive_from(store))
    refused = [place for place, row in enumerate(rows) if row.session_id in gone]
    return Pushed(
        stored=stored,
        known=len(rows) - stored - len(refused),
        refused=refused,
        behind=backlog.parts + stored,
    )


def _make_row(store: Store, machine: Machine, naming: Naming, part: SentPart) -> PushedPartRow:
    """Return the row of a part, with its words redacted by this server's rules, or without any."""
    if part.is_figures != (machine.share == "figures"):
        # of the whole message: BadPartError would have the others sent one by one
        raise RelightError(
            f"this machine has joined to share {machine.share}", "join again to share more or less"
        )
    key = store.redaction_key
    if part.is_figures:
        sealed = _check_figures(naming, part)
        records, state = write_figures(sealed), b""
        raw_bytes = part.raw_bytes
    else:
        lines = decompress_most(part.records)
        clean = redact(lines, key=key)
        # nearly always the machine has redacted it already, and it need not be compressed again
        records = part.records if clean == lines else compress(clean)
        state = redact(part.state, key=key)
        raw_bytes = part.raw_bytes
    return PushedPartRow(
        session_id=naming.find_session(part.source, part.session),
        origin_id=find_origin(part.source, machine.key, part.path).id,
        part=part.part,
        generation=part.generation,
        position=part.position,
        modified_ns=part.modified_ns,
        recorded_at=part.recorded_at or int(time.time() * 1000),
        state=state,
        raw_bytes=raw_bytes,
        records=records,
        machine_id=machine.id,
        is_figures=int(part.is_figures),
    )


def _check_figures(naming: Naming, part: SentPart) -> Sealed:
    """Return the rows of a part once more without words; raise if they are not this machine's."""
    try:
        sealed = msgspec.structs.replace(read_figures(part.records), source=part.source)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadPartError(f"a part has no figures: {error}") from error
    if not has_global_ids(part.source):
        names = {one.key for _, one in sealed.sessions} | {one.session for *_, one in sealed.turns}
        foreign = [one for one in names if not one.endswith(f"@{naming.machine}")]
        if foreign:
            raise BadPartError(f"a session of {part.source} is not of machine {naming.machine}")
    try:
        _check_numbers(sealed)
    except msgspec.ValidationError as error:
        raise BadPartError(f"a figure cannot be true: {error}") from error
    return remove_words(sealed)


def _check_numbers(sealed: Sealed) -> None:
    """Raise if a time or a size of rows whose types allow any number would break pages or sums."""
    others = (sealed.skills, sealed.timings, sealed.limits, sealed.compactions)
    moments: list[int | None] = [one.at for rows in others for one in rows]
    moments += [one.ends_at for one in sealed.limits]
    sizes: list[int | None] = [one.duration_ms for one in sealed.timings]
    for call in sealed.calls:
        moments += [call.at, call.finished_at]
        sizes += [call.duration_ms, call.arguments_bytes, call.result_bytes]
    msgspec.convert(moments, list[Moment | None])
    msgspec.convert(sizes, list[Size | None])


def _write_outcomes(database: Connection, machine: Machine, naming: Naming, push: Push) -> None:
    now = int(time.time() * 1000)
    rows = [
        ToldOutcomeRow(
            session_id=naming.find_session(one.source, one.session),
            machine_id=machine.id,
            outcome=one.outcome,
            points_to=one.points_to,
            task_type=one.task_type,
            category=one.category,
            score=one.score,
            is_label=int(one.is_label),
            told_at=now,
        )
        for one in push.outcomes
    ]
    write_told(database, rows)
    refresh_skills(database, outcomes.refresh(database, [row.session_id for row in rows]))


class Deriver:
    """Derives the rows of what was pushed, a few parts at a time."""

    def __init__(self, store: Store, pool: Workers | None = None) -> None:
        self.store = store
        self._recorder = Recorder(store)
        self._pool = pool

    def run(self) -> int:
        """Derive some of the parts that wait; return how many."""
        try:
            return self._run(read_due(self.store, PARTS_AT_ONCE))
        finally:
            self.store.release_claims()

    def _run(self, parts: Sequence[TapePart]) -> int:
        if not parts:
            return 0
        found = {part.id: self._derive(part) for part in parts}
        for part in parts:
            if reason := found[part.id].reason:
                note_failure(self.store, part.id, reason)
        ready = [part for part in parts if found[part.id].sealed is not None]
        self._write_each(ready, found)
        return len(parts)

    def _write_each(self, parts: Sequence[TapePart], found: dict[int, DerivedPart]) -> None:
        """Write the rows of parts; if the database refuses one of several, each by itself."""
        try:
            self._write(parts, found)
        except REFUSED as error:
            if len(parts) == 1:
                note_failure(self.store, parts[0].id, describe_error(error))
                return
            for part in parts:
                self._write_each([part], found)

    def _derive(self, part: TapePart) -> DerivedPart:
        task = Derivation(part, self.store.timezone, self.store.redaction_key)
        message = msgspec.msgpack.encode(task)
        if self._pool is None:
            return msgspec.msgpack.decode(answer_pushed(message), type=DerivedPart)
        (response,) = self._pool.responses([message])
        if isinstance(response, Lost) and not response.is_over_time:
            # the part need not be at fault: a system without memory kills any process
            (response,) = self._pool.responses([message])
        if isinstance(response, Lost):
            return DerivedPart(reason=response.describe(PIECE_SECONDS))
        return msgspec.msgpack.decode(response, type=DerivedPart)

    def _write(self, parts: Sequence[TapePart], found: dict[int, DerivedPart]) -> None:
        """Write the rows of these parts and strike them out, in one transaction."""
        with self.store.transaction(only="index") as database:
            due = find_due(database, [part.id for part in parts])
            below = search_index.read_below(self.store)
            wanted: list[Sealed] = []
            for part in parts:
                sealed = found[part.id].sealed
                if sealed is None or part.id not in due:
                    continue  # removed or derived meanwhile
                if is_forgotten(database, sealed):
                    remove_parts(database, [part.id], derive_from(self.store))
                    continue
                if has_original(database, sealed):
                    continue  # an export of a session that another machine pushed
                if part.machine_id is not None:
                    note_machine(database, sealed, part.machine_id, part.recorded_at)
                wanted.append(sealed)
            self._recorder.write(database, wanted)
            # an index that is being filled gets the others later
            now = {
                one.tape_part_id: one
                for one in wanted
                if one.tape_part_id is not None and (below is None or one.tape_part_id >= below)
            }
            indexed = search_index.find_indexed(database, now)
            write_texts(database, [one for one in now.items() if one[0] not in indexed])
            set_derived(database, [part.id for part in parts])


def answer_pushed(message: bytes) -> bytes:
    """Derive a part in a worker process; an error costs this part alone."""
    try:
        found = DerivedPart(derive(msgspec.msgpack.decode(message, type=Derivation)))
    except Exception as error:  # noqa: BLE001 - a tape of another machine may raise anything
        found = DerivedPart(reason=describe_error(error))
    return msgspec.msgpack.encode(found)
