"""What a run begins with, and all that can be found wrong before anything is spent."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from relight.config import Config
from relight.errors import RelightError
from relight.store import Store
from relight.warm.library import find_template
from relight.work.agent.tools import choose_tools
from relight.work.jobs.checks import Allowance, check_run
from relight.work.jobs.documents import Skill, find_skills
from relight.work.jobs.job import Job, Run
from relight.work.jobs.keeping import find_folder
from relight.work.jobs.routing import Route, choose_route
from relight.work.jobs.scripts import find_script
from relight.work.jobs.spending import Spent, read_spent


class Task(Struct, frozen=True, kw_only=True):
    """A run that is to be done, and the world it is done in."""

    store: Store
    job: Job
    run: Run
    config: Config
    clock: Callable[[], float]
    environment: Mapping[str, str]
    sleep: Callable[[float], None]


class Prepared(Struct, frozen=True, kw_only=True):
    """What a run works with once all checks are passed."""

    route: Route
    allowance: Allowance
    skills: list[Skill]
    folder: Path


def settle_job(store: Store, job: Job) -> Job:
    """The job with the default model that it goes with, if all that it names is there."""
    home = store.config.home
    choose_tools(job.tools)
    if job.script is not None:
        find_script(home, job.script)
    if job.template not in ("auto", "none"):
        find_template(store, job.template)
    folder = Path(job.workdir).expanduser() if job.workdir else None
    find_skills(job.skills, home=home, workdir=folder)
    route = choose_route(job, config=store.config)
    is_default = job.runner == "chat" and job.model is None
    return replace(job, default_model=(job.default_model or route.model) if is_default else None)


def prepare_run(task: Task) -> Prepared:
    """The model, tools, skills and folder of a run, or the error that it must not begin with."""
    job, home = task.job, task.config.home
    route = choose_route(job, config=task.config, environment=task.environment)
    spent = Spent()
    if job.budget_usd_per_day is not None or task.config.jobs.budget_usd_per_day is not None:
        spent = read_spent(task.store, job, run_id=task.run.id, now=task.clock())
    allowance = check_run(job, route=route, config=task.config, spent=spent)
    if job.script is not None:
        find_script(home, job.script)
    folder = Path(job.workdir).expanduser() if job.workdir else _make_folder(home, job.name)
    if not folder.is_dir():
        raise RelightError(f"there is no folder {folder}", "name another with --workdir")
    skills = find_skills(job.skills, home=home, workdir=folder, environment=task.environment)
    return Prepared(route=route, allowance=allowance, skills=skills, folder=folder.resolve())


def _make_folder(home: Path, job: str) -> Path:
    """A folder of its own for a job that names none: whoever starts it may stand anywhere."""
    folder = find_folder(home, job) / "work"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
