"""The skills of a job: their documents, and the record of their uses."""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from relight.errors import RelightError
from relight.model import row_id
from relight.sources import skill_documents
from relight.store import Store
from relight.store.misses import record_safely
from relight.store.runs import find_recorded_session
from relight.work.jobs.job import JobResult, JobRun
from relight.work.jobs.notes import RunNote

FILE = "SKILL.md"
LIMIT_BYTES = 512 << 10


class SkillDocument(Struct, frozen=True):
    """The text of a skill, and the folder of the files it names."""

    name: str
    text: str
    folder: str
    version: str | None


def find_skills(
    names: Sequence[str],
    *,
    home: Path,
    workdir: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[SkillDocument]:
    """The documents of these skills, each once, in the order named.

    Relight's own `skills` folder comes before those of other agents, and the working folder comes
    last: a repository must not replace a skill that the person wrote.
    """
    if not names:
        return []
    environment = os.environ if environment is None else environment
    user = Path(environment.get("HOME") or Path.home())
    roots = [home / "skills", *skill_documents.find_skill_folders(environment)]
    roots.append(user / ".agents" / "skills")
    if workdir is not None:
        roots += [*skill_documents.find_project_skills(workdir), workdir / ".agents" / "skills"]
    return [_find_skill(name, roots) for name in dict.fromkeys(names)]


def _find_skill(name: str, roots: Sequence[Path]) -> SkillDocument:
    if Path(name).is_absolute() or {"..", "."} & set(name.replace("\\", "/").split("/")):
        raise RelightError(f"{name!r} is not the name of a skill", "give its name, not its path")
    for root in roots:
        # in the folder itself, or in one of its categories
        below = sorted(root.glob(f"*/{glob.escape(name)}/{FILE}")) if root.is_dir() else []
        for path in (root / name / FILE, root / f"{name}.md", *below):
            if path.is_file():
                return _read_skill(name, path)
    searched = ", ".join(str(root) for root in roots)
    raise RelightError(f"there is no skill {name!r}", f"put {name}/{FILE} into one of {searched}")


def _read_skill(name: str, path: Path) -> SkillDocument:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise RelightError(
            f"the skill {name!r} cannot be read: {error}", "check the file's permissions"
        ) from error
    if len(data) > LIMIT_BYTES:
        hint = f"keep {path} short, and let it name other files"
        raise RelightError(f"the skill {name!r} is larger than {LIMIT_BYTES >> 10} KB", hint)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    if not text:
        raise RelightError(f"the skill {name!r} is empty", f"write {path}")
    return SkillDocument(name, text, str(path.parent), skill_documents.read_skill_version(text))


def record_skills(store: Store, note: RunNote, result: JobResult) -> None:
    """Record the use of a run's skills in each of its sessions; never fails the run.

    The session decides the cost and success of a use: it shares its cost among these skills and
    those that it loaded itself. If a run left no session, the use is recorded without one.
    """
    if not note.skills:
        return
    from relight.reports.skills.uses import record_skill_invocation

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
            record_safely(store, partial(_record_use, use=use, session=session, run=run))
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


def _record_use(store: Store, *, use: Callable[..., int], session: str, run: JobRun) -> int:
    found = find_recorded_session(store, row_id("session", *session.split(":", 1)))
    begun = (found.started_at if found else None) or run.started_at
    return use(store, session_id=session, invoked_at=begun / 1000)
