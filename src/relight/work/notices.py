"""Notifications to the user's program, webhook or file, as `[notify]` in the settings says.

A notification is written to the store before it is sent, and a try is written before it begins: so
each cause is notified once, by whichever process comes first, and one that a killed process left is
sent by another. Only a kill between the sending and its record can send a notification twice.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from relight.intake.importing import Imported
from relight.locks import expand_path, make_folder, open_private
from relight.redact import redact_text
from relight.store import Store
from relight.store import notices as table
from relight.store.alarms import has_new_runs
from relight.store.queries.runs import RunReport, read_unnoticed_runs
from relight.text import clean_lines

NoticeKind = Literal["run_failed", "budget", "alarm", "canary"]

logger = logging.getLogger("relight")
SEND_SECONDS = 10.0
# after a first and a second try that failed; longer than a try may take
WAITS_MS = (60_000, 600_000)
# limits of one pass: what is left is for the next
MOST_SENT, PASS_SECONDS = 20, 30.0
# runs that ended before the setting was first seen are notified if they ended so recently
RECENT_MS = 6 * 3_600_000
OLDEST_MS = 7 * 86_400_000
# a session without an end is taken for over after so long
QUIET_MS = 300_000
# a watch imports every other second: budgets are looked at more rarely
BUDGET_SECONDS = 30.0
_budgets_at: dict[Path, float] = {}
# of the facts of a run
REASON_CHARACTERS, MOST_REASONS = 500, 5
FACTS = (
    "job",
    "name",
    "run_id",
    "status",
    "outcome",
    "session_id",
    "model",
    "cost_usd",
    "failure_kind",
    "retry_at",
    "started_at",
    "finished_at",
)


def import_and_notify(store: Store, **options: Any) -> list[Imported]:
    """Import as `import_and_propose` does, then notify of failed runs, if the settings ask for it.

    Commands that import once do the second part themselves: few need this module.
    """
    from relight.warm.automatic import import_and_propose

    done = import_and_propose(store, **options)
    notify_news(store)
    return done


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log an error: neither a run nor an import may fail by a notification."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - any error at all
        logger.warning("%s: %s", what, error)


def notify_news(store: Store) -> None:
    """Look for alarms and at models on trial; notify of news if asked for; never raise."""
    watch_runs(store)
    watch_canaries(store)
    notify_failed_runs(store)
    notify_budgets(store)
    notify_alarms(store)


@_logged("alarms could not be looked for")
def watch_runs(store: Store) -> None:
    """Look for alarms in series that have new runs; never raise."""
    if store.can_write and has_new_runs(store):
        from relight.reports.alarm_watch import refresh_alarms

        refresh_alarms(store)


@_logged("models on trial could not be looked at")
def watch_canaries(store: Store) -> None:
    """Make the next steps of models on trial, and notify of each; never raise."""
    if not store.can_write or not store.has_rows("canary"):
        return
    from relight.reports.canaries import show_canary
    from relight.work.jobs.canaries import review_canaries

    for row in review_canaries(store):
        one = show_canary(store, row)
        key = f"{row.id} {row.state} {row.verdict}"
        notify(store, "canary", key, one.sentence, asdict(one))


@_logged("alarms could not be read")
def notify_alarms(store: Store) -> None:
    """Notify of each open alarm once; never raise. Those of old history are left out."""
    if not _can_notify(store) or not store.has_rows("alarm"):
        return
    from relight.reports.alarms import read_alarms
    from relight.times import read_time

    for one in read_alarms(store, is_open=True).alarms:
        if (read_time(one.raised_at) or 0) >= round(time.time() * 1000) - OLDEST_MS:
            notify(store, "alarm", str(one.id), one.sentence, asdict(one))


@_logged("failed runs could not be notified")
def notify_failed_runs(store: Store, *, now: int | None = None) -> None:
    """Notify of each failed run of any scheduler once; never raise.

    Runs of old history are left out: those that ended before the setting was first seen, except in
    the last hours.
    """
    if not _can_notify(store):
        return
    at = round(time.time() * 1000) if now is None else now
    since = max(table.find_since(store, otherwise=at - RECENT_MS), at - OLDEST_MS)
    runs = read_unnoticed_runs(store, since=since, quiet_at=at - QUIET_MS)
    table.add_notices(store, [_make_run_notice(store, run, now=at) for run in reversed(runs)])
    send_due(store, now=at)


@_logged("budgets could not be checked")
def notify_budgets(store: Store, *, now: float | None = None) -> None:
    """Notify once for each budget and period when it is over or projected over; never raise."""
    if not _can_notify(store) or not store.has_rows("budget"):
        return
    home, at = store.config.home, time.monotonic()
    if now is None and at < _budgets_at.get(home, 0.0):
        return
    _budgets_at[home] = at + BUDGET_SECONDS
    from relight.reports.budgets import describe_budget, read_budgets

    for one in read_budgets(store, now=now).budgets:
        if one.state != "ok":
            key = f"{one.scope} {one.period} {one.started_at}"
            notify(store, "budget", key, describe_budget(one), asdict(one))


@_logged("a notification could not be sent")
def notify(
    store: Store, kind: NoticeKind, key: str, text: str, facts: Mapping[str, object] | None = None
) -> None:
    """Send a text and its facts once for this kind and key, as the settings say; never raise.

    Without `[notify]` nothing is sent, and nothing is remembered.
    """
    if _can_notify(store):
        now = round(time.time() * 1000)
        body = make_body(store, kind, key, text, facts or {}, at=now)
        row = table.NoticeRow(kind=kind, key=key, at=now, body=body, next_try_at=now)
        table.add_notices(store, [row])
        send_due(store, now=now)


def _can_notify(store: Store) -> bool:
    return store.config.notify.to is not None and store.can_write


def send_due(store: Store, *, now: int) -> None:
    """Send the notifications that are due, oldest first; after a failure the rest must wait."""
    to = store.config.notify.to
    until = time.monotonic() + PASS_SECONDS
    for _ in range(MOST_SENT):
        notice = table.claim_notice(store, now=now, waits_ms=WAITS_MS) if to else None
        if notice is None or to is None:
            return
        try:
            send(store, to, notice.body)
        except Exception as error:  # noqa: BLE001 - any error of a stranger's program
            from relight.work.sending import find_reason

            reason = redact_text(find_reason(error, to), key=store.redaction_key)
            table.set_failed(store, notice, error=reason)
            return
        table.set_sent(store, notice, at=round(time.time() * 1000))
        if time.monotonic() >= until:
            return


def send(store: Store, to: str, body: str) -> None:
    """Send one JSON text to a target; raise if it fails."""
    from relight.work.sending import post_json, run_program

    kind, _, target = to.partition(":")
    if kind == "file":
        path = store.config.home / expand_path("notify.file", target)
        make_folder(path.parent)
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_APPEND), "wb", 0) as file:
            file.write(body.encode() + b"\n")
    elif kind == "command":
        run_program(target, body, folder=store.config.home, seconds=SEND_SECONDS)
    else:
        post_json(target, body.encode(), seconds=SEND_SECONDS)


def make_body(
    store: Store, kind: str, key: str, text: str, facts: Mapping[str, object], *, at: int
) -> str:
    """Return the JSON of a notification, without secrets."""
    from relight.times import write_time

    fields = {"kind": kind, "key": key, "at": write_time(at), "text": text, **facts}
    return msgspec.json.encode(_redact(fields, store.redaction_key)).decode()


def _make_run_notice(store: Store, run: RunReport, *, now: int) -> table.NoticeRow:
    from relight.times import read_time

    facts = {name: value for name, value in asdict(run).items() if name in FACTS}
    evidence = [one[:REASON_CHARACTERS] for one in run.evidence[:MOST_REASONS]]
    end = "failed" if run.outcome == "failure" else "was cut off"
    text = f"The job {run.name} {end}" + (f": {evidence[0]}" if evidence else "")
    kind, key, at = "run_failed", run.run_id, read_time(run.finished_at or run.started_at) or now
    body = make_body(store, kind, key, text, {**facts, "evidence": evidence}, at=at)
    return table.NoticeRow(kind=kind, key=key, at=at, body=body, next_try_at=now)


def _redact(value: object, key: bytes) -> object:
    """Return a value of JSON whose texts have no secrets, and nothing that acts unseen."""
    if isinstance(value, str):
        return redact_text(clean_lines(value), key=key)
    if isinstance(value, Mapping):
        return {name: _redact(one, key) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(one, key) for one in value]
    return value
