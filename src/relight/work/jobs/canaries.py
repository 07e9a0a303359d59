"""Models on trial in jobs: slots are dealt at random, and each ended run is looked at.

A slot's deal is written with its claim, before the run begins, and in the same transaction. A
change of a job's model, its reason and the canary's new state are one transaction too: of several
processes that see the same verdict one makes the change.
"""

import os
import time
from collections.abc import Mapping
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from relight.errors import MissingError, RelightError
from relight.reports.canaries import CanaryEvidence, read_canary_evidence
from relight.reports.comparison.sentences import count_of
from relight.sources.job_editors import JobEditor, find_job_editor
from relight.stats.canary import choose_canary_step, find_share
from relight.stats.odds import NO_PAIRS
from relight.store import Store
from relight.store import canaries as table
from relight.store.alarms import find_last_alarm
from relight.store.canaries import CanaryRow, SwitchRow
from relight.store.jobs import DueJob, find_own_job, set_definition
from relight.store.runs import ClaimRow
from relight.store.sql import Connection
from relight.text import dollars
from relight.work.jobs.registry import decode_job, job_id

AUTO = "auto"


def deal_slot(store: Store, database: Connection, job: DueJob, run: ClaimRow, *, now: int) -> None:
    """Write which model a claimed run of a job gets, if one is on trial or watched there."""
    canary = table.find_open_canary(store, job.key)
    if canary is None or not _is_as_before(canary, job.definition):
        return
    # after a switch every run is of the new model, and still counts
    is_candidate = canary.state == "promoted" or draw(canary, run.key)
    table.add_deal(database, table.DealRow(canary.id, now, int(is_candidate), run.id))


def draw(canary: CanaryRow, key: str) -> bool:
    """True if the model on trial gets this slot: by a hash, so that a repeated claim agrees."""
    drawn = blake2b(f"{canary.seed} {key}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") < canary.share * 2**64


def review_canaries(store: Store, *, now: int | None = None) -> list[CanaryRow]:
    """Look at the canaries whose jobs have new runs; return those whose state or verdict changed.

    A model that does worse is stopped, one that is good enough is promoted if the canary may do so
    by itself, and a promoted one that gets worse goes back.
    """
    at = round(time.time() * 1000) if now is None else now
    changed = []
    for row in table.read_canaries(store, is_open=True):
        ended = table.count_ended(store, row.job)
        if ended == row.seen and is_on_trial(store, row):
            continue
        after = _review(store, row, now=at)
        if after is not None:
            changed.append(after)
        elif ended != row.seen:
            with store.transaction() as database:
                table.update_canary(database, row, seen=ended)
    return changed


def _review(store: Store, row: CanaryRow, *, now: int) -> CanaryRow | None:
    """Make the next step of a canary; None if it only goes on."""
    if not is_on_trial(store, row):
        reason = "the job is gone, or its model was changed by hand"
        return _change(store, row, {"state": "replaced", "reason": reason, "ended_at": now})
    if ":" in row.job and (deal := table.find_open_deal(store, row.id)):
        # the last deal of another scheduler's job is joined to its run
        model = row.model if deal.is_candidate else row.against or ""
        table.join_deal(store, row, deal, model=model)
    seen = read_canary_evidence(store, row)
    step = choose_canary_step(
        seen.a,
        seen.b,
        margin=row.margin,
        pairs=seen.pairs,
        is_promoted=row.state == "promoted",
    )
    if row.state == "promoted":
        return _watch(store, row, seen, is_worse=step == "stop", now=now)
    if step == "stop":
        return stop_canary(store, row, f"it does worse: {_count(row, seen)}", now=now)
    if row.budget_nanos is not None and seen.spent_nanos >= row.budget_nanos:
        spent, limit = dollars(seen.spent_nanos / 1e9), dollars(row.budget_nanos / 1e9)
        reason = f"its budget of {limit} is used up ({spent}): {_count(row, seen)}"
        return stop_canary(store, row, reason, now=now)
    is_good = row.verdict == "good enough" or (step == "promote" and not seen.has_unknown)
    if is_good and seen.is_cheaper is False:
        reason = f"it is good enough, but costs no less: {_count(row, seen)}"
        return stop_canary(store, row, reason, now=now)
    if is_good and row.is_auto:
        return promote(store, row, made_by=AUTO, now=now)
    if is_good and row.verdict is None:
        return _change(store, row, {"verdict": "good enough", "verdict_at": now})
    share = find_share(seen.a, seen.b, first=row.first_share, margin=row.margin, pairs=seen.pairs)
    if share != row.share:
        with store.transaction() as database:
            table.update_canary(database, row, share=share)
    if ":" in row.job:
        deal_next(store, replace(row, share=share), now=now)
    return None


def _watch(
    store: Store, row: CanaryRow, seen: CanaryEvidence, *, is_worse: bool, now: int
) -> CanaryRow | None:
    """Roll a promoted model back if it got worse than its margin, or ask."""
    reason = f"it does worse: {_count(row, seen)}" if is_worse else _find_fall(store, row, seen)
    if reason is None and row.verdict != "worse":
        return None
    if row.is_auto:
        return roll_back(store, row, reason or "it does worse", made_by=AUTO, now=now)
    if row.verdict == "worse":
        return None
    return _change(store, row, {"verdict": "worse", "verdict_at": now})


def _find_fall(store: Store, row: CanaryRow, seen: CanaryEvidence) -> str | None:
    """Return the words of an alarm about a fall since the switch that is beyond the margin.

    Many good runs of the new model would hide a later fall from the odds for a long time.
    """
    alarm = find_last_alarm(store, f"job:{row.job}", "success")
    if alarm is None or alarm.ended_at or alarm.acknowledged_at or not seen.a.runs:
        return None
    if alarm.since < (row.promoted_at or 0) or alarm.after > seen.a.rate - row.margin:
        return None
    failures, runs = alarm.failures_after, alarm.runs_after
    return f"since the switch it fell: {failures} of {runs} runs failed lately (alarm {alarm.id})"


def stop_canary(
    store: Store, row: CanaryRow, reason: str, *, now: int, made_by: str | None = None
) -> CanaryRow | None:
    """End a trial: no slot is dealt any more, and the job keeps the model in use."""
    if ":" in row.job:
        _set_foreign(row, is_candidate=False)
    said = f"{reason} ({made_by})" if made_by else reason
    return _change(store, row, {"state": "stopped", "reason": said, "ended_at": now})


def promote(store: Store, row: CanaryRow, *, made_by: str, now: int) -> CanaryRow | None:
    """Switch the job to the model on trial, and watch it from then on."""
    seen = read_canary_evidence(store, row)
    good = "good enough" if row.verdict == "good enough" or made_by == AUTO else "asked for"
    reason = f"{good}, within {row.margin * 100:g} points: {_count(row, seen)}"
    changes = {"state": "promoted", "promoted_at": now, "verdict": None, "verdict_at": None}
    switch = SwitchRow(row.job, now, row.against, row.model, made_by, reason, row.id)
    return _change(store, row, changes, switch)


def roll_back(
    store: Store, row: CanaryRow, reason: str, *, made_by: str, now: int
) -> CanaryRow | None:
    """Switch a promoted job back to the model that it had before."""
    changes = {"state": "rolled_back", "ended_at": now, "reason": reason}
    switch = SwitchRow(row.job, now, row.model, row.against, made_by, reason, row.id)
    return _change(store, row, changes, switch)


def _change(
    store: Store, row: CanaryRow, changes: Mapping[str, object], switch: SwitchRow | None = None
) -> CanaryRow | None:
    """Change a canary and, by a switch, its job's model; None if another process was first."""
    is_candidate = changes.get("state") == "promoted"
    if switch and ":" in row.job:
        _set_foreign(row, is_candidate=is_candidate)
    with store.transaction() as database:
        if not table.update_canary(database, row, **changes):
            return None
        if "state" in changes:
            table.drop_open_deals(database, row.id)
        if switch:
            if ":" not in row.job:
                _set_own(store, database, row, is_candidate=is_candidate)
            table.add_switch(database, switch)
    return replace(row, **changes)


def find_canary(store: Store, job: str) -> CanaryRow:
    """Return the open canary of a job; raise if there is none."""
    found = table.find_open_canary(store, job)
    if found is None:
        hint = f"relight job canary {job} --model CHEAPER begins one"
        raise MissingError(f"no model is on trial in {job}", hint)
    return found


def do_as_asked(store: Store, job: str, action: str, *, made_by: str, now: int) -> CanaryRow:
    """Stop, promote or roll back the canary of a job, because a person asked for it."""
    row = find_canary(store, job)
    wanted = "promoted" if action == "back" else "running"
    if row.state != wanted:
        done = "promoted already" if row.state == "promoted" else "not promoted"
        raise RelightError(
            f"{row.model} is {done} in {job}", "`relight job canary` shows its state"
        )
    if action == "promote":
        after = promote(store, row, made_by=made_by, now=now)
    elif action == "back":
        after = roll_back(store, row, "asked for", made_by=made_by, now=now)
    else:
        after = stop_canary(store, row, "asked for", made_by=made_by, now=now)
    if after is None:
        raise RelightError(f"the canary of {job} changed meanwhile", "look at it again")
    return after


def is_on_trial(store: Store, row: CanaryRow) -> bool:
    """True if the job is there and has the model that the canary says."""
    if ":" in row.job:
        return True
    own = find_own_job(store, job_id(row.job))
    return own is not None and _is_as_before(row, own.definition)


def _is_as_before(row: CanaryRow, definition: str) -> bool:
    job = decode_job(definition)
    wanted = _read_settings(row, is_candidate=row.state == "promoted")
    return all(getattr(job, name) == value for name, value in wanted.items())


def _read_settings(row: CanaryRow, *, is_candidate: bool) -> dict[str, str | None]:
    text = row.change if is_candidate else row.before
    return msgspec.json.decode(text, type=dict[str, str | None])


def _set_own(store: Store, database: Connection, row: CanaryRow, *, is_candidate: bool) -> None:
    """Change the model of one of our jobs; its next slot stays."""
    own = find_own_job(store, job_id(row.job))
    if own is None:
        return
    job = replace(decode_job(own.definition), **_read_settings(row, is_candidate=is_candidate))
    definition = msgspec.json.encode(job).decode()
    set_definition(database, own.id, definition, model=job.model, provider=job.provider)


def _set_foreign(row: CanaryRow, *, is_candidate: bool) -> None:
    """Change the model of another scheduler's job, as that scheduler does."""
    editor, key = find_editor(row.job)
    settings = _read_settings(row, is_candidate=is_candidate)
    editor.write_model(key, settings["model"], settings["provider"])


def find_editor(job: str) -> tuple[JobEditor, str]:
    """Return what changes the jobs of another scheduler, and the id of this one there."""
    source, _, key = job.partition(":")
    editor = find_job_editor(source, os.environ)
    if editor is None:
        hint = "its scheduler's folder is not here; the variable of its agent may name another"
        raise RelightError(f"the model of {job} cannot be changed from here", hint)
    return editor, key


def deal_next(store: Store, row: CanaryRow, *, now: int) -> None:
    """Deal the next run of another scheduler's job, unless the last deal still waits for its run.

    The deal is written first: a scheduler that could not be changed has a run on another model
    than the one dealt, which counts for neither.
    """
    if table.find_open_deal(store, row.id) is not None:
        return
    is_candidate = draw(row, str(now))
    with store.transaction() as database:
        table.add_deal(database, table.DealRow(row.id, now, int(is_candidate), None))
    _set_foreign(row, is_candidate=is_candidate)


def _count(row: CanaryRow, seen: CanaryEvidence) -> str:
    ours = count_of(round(seen.b.successes), round(seen.b.failures))
    theirs = count_of(round(seen.a.successes), round(seen.a.failures))
    counted = f"{ours} runs of {row.model} succeeded, {theirs} of {row.against}"
    if seen.pairs == NO_PAIRS:
        return counted
    done, other = seen.pairs.b, seen.pairs.a
    tasks = f"{done.successes:.0f} and {other.successes:.0f} of {done.runs:.0f}"
    return f"{counted}; of replayed tasks {tasks}"
