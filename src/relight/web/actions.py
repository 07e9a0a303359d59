"""Changes made through the API, each with its own writable store."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.reports import alarms
from relight.reports.canaries import CanaryReport, show_canary
from relight.reports.labels import label_session as write_label
from relight.reports.sessions import find_session, read_head
from relight.store import Store
from relight.store.queries.sessions import read_name
from relight.times import write_time
from relight.warm import library
from relight.warm.capture import capture_tasks
from relight.warm.curation import take_into_use
from relight.web import parameters as given
from relight.web.request import list_words
from relight.work.jobs import registry

Path = Mapping[str, str]


class Action(Struct, frozen=True):
    """An address that takes a POST: its body and the function that acts on it."""

    path: str
    act: Callable[[Store, Any, Path], Any]
    body: type[Any] = given.NoParameters


class SessionLabel(Struct, frozen=True):
    """A session and its outcome after a change of its label."""

    session_id: str
    outcome: str
    why: str | None


class JobStatus(Struct, frozen=True):
    """A job's state and next run after a change."""

    job: str
    state: registry.JobState
    next_run_at: str | None


class StartedRun(Struct, frozen=True):
    """A job whose run was started."""

    job: str
    is_begun: bool = True


def label_session(store: Store, body: given.LabelBody, path: Path) -> SessionLabel:
    """Label a session's outcome; a label overrides all other evidence."""
    found = find_session(store, path["session"])
    write_label(store, found, body.outcome, why=body.why or None)
    outcome = read_head(store, found).outcome
    return SessionLabel(read_name(store, found).session, outcome, body.why or None)


def capture_session(store: Store, body: given.CaptureBody, path: Path) -> library.TemplateView:
    """Capture a template from a session, or one from each of its tasks."""
    captured, *more = capture_tasks(
        store,
        path["session"],
        name=body.name or None,
        description=body.description,
        tags=list_words(body.tags),
        category=body.category or None,
        task_type=body.task_type or None,
        max_examples=body.max_examples or None,
        project=body.project or None,
        outcome=body.outcome or None,
        force=body.force,
    )
    return replace(library.show_template(captured), more=[one.name for one in more])


def create_template(store: Store, body: given.CaptureSessionBody, _: Path) -> library.TemplateView:
    """Capture a template from the session named in the body."""
    return capture_session(store, body, {"session": body.session_id})


def retire_template(store: Store, body: given.RetireBody, path: Path) -> library.TemplateView:
    """Retire a template: no session starts with it any more."""
    library.retire_template(store, path["template"], why=body.why)
    return _show_template(store, path["template"])


def restore_template(store: Store, _: given.NoParameters, path: Path) -> library.TemplateView:
    """Put a retired or proposed template into use."""
    found = library.find_template(store, path["template"])
    if found.state != "live":
        take_into_use(store, found)
    return _show_template(store, path["template"])


def _show_template(store: Store, name: str) -> library.TemplateView:
    return library.show_template(library.find_template(store, name), with_seed=False)


def pause_job(store: Store, _: given.NoParameters, path: Path) -> JobStatus:
    """Start no run of a job until it is resumed."""
    registry.pause_job(store, path["job"])
    return _show_job(store, path["job"])


def resume_job(store: Store, _: given.NoParameters, path: Path) -> JobStatus:
    """Let runs of a paused job start again."""
    registry.resume_job(store, path["job"], now=round(time.time() * 1000))
    return _show_job(store, path["job"])


def run_job(store: Store, _: given.NoParameters, path: Path) -> StartedRun:
    """Start a run of a job now.

    The run has its own process: it may last for hours and outlive the server.
    """
    name = registry.find_job(store, path["job"]).name
    child = subprocess.Popen(
        [sys.executable, "-m", "relight", "--home", str(store.config.home), "job", "run", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # reap the child, or it would stay in the process table
    threading.Thread(target=child.wait, daemon=True).start()
    return StartedRun(name)


def acknowledge_alarm(store: Store, _: given.NoParameters, path: Path) -> alarms.Alarm:
    """Acknowledge an alarm: what it found is the usual state from then on."""
    return alarms.acknowledge_alarm(store, alarms.read_id(path["alarm"]))


def promote_canary(store: Store, _: given.NoParameters, path: Path) -> CanaryReport:
    """Switch a job to the model on trial in it."""
    return _answer_canary(store, path, "promote")


def roll_back_canary(store: Store, _: given.NoParameters, path: Path) -> CanaryReport:
    """Switch a job back to the model that it had before."""
    return _answer_canary(store, path, "back")


def stop_canary(store: Store, _: given.NoParameters, path: Path) -> CanaryReport:
    """End a trial: the job keeps the model in use."""
    return _answer_canary(store, path, "stop")


def _answer_canary(store: Store, path: Path, action: str) -> CanaryReport:
    from relight.work.jobs.canaries import do_as_asked

    now = round(time.time() * 1000)
    row = do_as_asked(store, path["job"], action, made_by="dashboard", now=now)
    return show_canary(store, row, now=now)


def _show_job(store: Store, name: str) -> JobStatus:
    state, due = registry.find_state(store, name)
    return JobStatus(name, state, write_time(due))


ACTIONS = (
    Action("/api/sessions/{session:path}/label", label_session, given.LabelBody),
    Action("/api/sessions/{session:path}/template", capture_session, given.CaptureBody),
    Action("/api/templates", create_template, given.CaptureSessionBody),
    Action("/api/templates/{template:path}/retire", retire_template, given.RetireBody),
    Action("/api/templates/{template:path}/restore", restore_template),
    Action("/api/jobs/{job:path}/run", run_job),
    Action("/api/jobs/{job:path}/pause", pause_job),
    Action("/api/jobs/{job:path}/resume", resume_job),
    Action("/api/jobs/{job:path}/canary/promote", promote_canary),
    Action("/api/jobs/{job:path}/canary/back", roll_back_canary),
    Action("/api/jobs/{job:path}/canary/stop", stop_canary),
    Action("/api/alarms/{alarm}/acknowledge", acknowledge_alarm),
)
