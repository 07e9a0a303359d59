"""What a run leaves in the home folder: its answer in a file, and the uses of its skills."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from relight.ids import row_id
from relight.names import file_name
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store
from relight.store.misses import record_safely
from relight.work.jobs.job import Run, RunResult
from relight.work.jobs.notes import Note

FOLDER = "jobs"


def find_folder(home: Path, job: str) -> Path:
    """Where a job keeps its answers and, where it names no other folder, works."""
    return home / FOLDER / file_name(job)


def keep_answer(home: Path, job: str, text: str, *, at: float) -> str:
    """Write an answer into a file of its own, for its owner's eyes; gives where, from the home."""
    folder = find_folder(home, job)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    moment = f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.gmtime(at))}-{round(at * 1000) % 1000:03}"
    number = 1
    while True:
        name = file_name(moment if number == 1 else f"{moment}-{number}", ending=".md")
        try:
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
        return (folder / name).relative_to(home).as_posix()


def keep_skills(store: Store, note: Note, result: RunResult) -> None:
    """Keep that a run used its skills, in each of its sessions; never failing the run.

    What a use cost and how it went follows from the session, which shares its cost among these
    and the skills that it loaded itself. Of a run that left no session it is told.
    """
    run, sessions = note.run, [*result.earlier, *([result.session] if result.session else [])]
    for name, version in note.skills:
        use = partial(
            record_skill_invocation,
            skill_name=name,
            skill_version=version,
            job_id=run.job,
            entry="cron",
        )
        for session in sessions:
            record_safely(store, partial(_keep_use, use=use, session=session, run=run))
        if not sessions:
            alone = partial(
                use,
                invoked_at=run.started_at / 1000,
                completed_at=max(result.finished_at or 0, run.started_at) / 1000,
                model=result.model,
                provider=result.provider,
                success=None if result.outcome == "unknown" else result.outcome == "success",
                end_reason=next(iter(result.evidence), None),
                share=1 / len(note.skills),
            )
            record_safely(store, alone)


def _keep_use(store: Store, *, use: Callable[..., int], session: str, run: Run) -> int:
    found = row_id("session", *session.split(":", 1))
    rows = store.query("select started_at from session where id = ?", (found,))
    begun = rows[0][0] if rows and rows[0][0] else run.started_at
    return use(store, session_id=session, invoked_at=begun / 1000)
