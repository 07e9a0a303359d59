"""What the API changes: each by a store of its own, never by the ones that pages read from."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from relight.store import Store
from relight.web import questions as ask

Path = Mapping[str, str]


class Action(Struct, frozen=True):
    """An address that something is sent to, what may be sent, and what does it."""

    path: str
    body: type[Any]
    act: Callable[[Store, Any, Path], Any]


def label(store: Store, sent: ask.Label, path: Path) -> Any:
    from relight.reports.labels import label_session
    from relight.reports.sessions import find_session, name_session

    found = find_session(store, path["session"])
    label_session(store, found, sent.outcome, why=sent.why or None)
    return {"session": name_session(store, found), "outcome": sent.outcome, "why": sent.why or None}


def capture(store: Store, sent: ask.Capture, path: Path) -> Any:
    from relight.warm.capture import capture_template
    from relight.warm.telling import show_template

    made = capture_template(
        store,
        path["session"],
        name=sent.name or None,
        description=sent.description,
        tags=[tag.strip() for tag in sent.tags.split(",") if tag.strip()],
        project=sent.project or None,
        outcome=sent.outcome or None,
        force=sent.force,
    )
    return show_template(made)


def capture_of(store: Store, sent: ask.CaptureOf, _: Path) -> Any:
    return capture(store, sent, {"session": sent.session})


def retire(store: Store, sent: ask.Retire, path: Path) -> Any:
    from relight.warm.library import retire_template

    retire_template(store, path["template"], why=sent.why)
    return _tell_template(store, path["template"])


def restore(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.warm.curation import take_into_use
    from relight.warm.library import find_template

    found = find_template(store, path["template"])
    if found.state != "live":
        take_into_use(store, found)
    return _tell_template(store, path["template"])


def _tell_template(store: Store, name: str) -> Any:
    from relight.warm.library import find_template
    from relight.warm.telling import show_template

    return show_template(find_template(store, name), with_seed=False)


def pause(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.work.jobs.registry import pause_job

    pause_job(store, path["job"])
    return _tell_job(store, path["job"])


def resume(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.work.jobs.registry import resume_job

    resume_job(store, path["job"], now=round(time.time() * 1000))
    return _tell_job(store, path["job"])


def run(store: Store, _: ask.Nothing, path: Path) -> Any:
    """Begin a run in a process of its own: it may last for hours, and must outlive this one."""
    from relight.work.jobs.registry import find_job

    name = find_job(store, path["job"]).name
    child = subprocess.Popen(
        [sys.executable, "-m", "relight", "--home", str(store.config.home), "job", "run", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # its end is taken note of, or it would stay in the system's table
    threading.Thread(target=child.wait, daemon=True).start()
    return {"job": name, "is_begun": True}


def _tell_job(store: Store, name: str) -> Any:
    from relight.times import write_time
    from relight.work.jobs.registry import find_state

    state, due = find_state(store, name)
    return {"job": name, "state": state, "next_run_at": write_time(due)}


ACTIONS = (
    Action("/api/sessions/{session:path}/label", ask.Label, label),
    Action("/api/sessions/{session:path}/template", ask.Capture, capture),
    Action("/api/templates", ask.CaptureOf, capture_of),
    Action("/api/templates/{template:path}/retire", ask.Retire, retire),
    Action("/api/templates/{template:path}/restore", ask.Nothing, restore),
    Action("/api/jobs/{job:path}/run", ask.Nothing, run),
    Action("/api/jobs/{job:path}/pause", ask.Nothing, pause),
    Action("/api/jobs/{job:path}/resume", ask.Nothing, resume),
)
