"""What the API tells: one function for each address, with the shapes of the command line's JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from relight.errors import MissingError, RelightError
from relight.reports.filters import Filter
from relight.reports.listing import Listing, list_sessions
from relight.reports.totals import KEYS, report
from relight.store import Store
from relight.web import questions as ask
from relight.web.filters import Filters, choose

Path = Mapping[str, str]


class Reading(Struct, frozen=True):
    """An address of the API: what may be asked there, and the function that answers."""

    path: str
    question: type[Any]
    answer: Callable[[Store, Any, Path], Any]


def read_report(store: Store, asked: ask.Report, _: Path) -> Any:
    keys = [key.strip() for key in asked.by.split(",") if key.strip()]
    if not keys:
        raise RelightError("`by` names no key", f"there are {', '.join(KEYS)}")
    return report(store, keys, _choose(store, asked))


def read_overview(store: Store, asked: ask.Chosen, _: Path) -> Any:
    from relight.reports.failures import read_failures
    from relight.reports.runs import read_jobs

    chosen = _choose(store, asked)
    days = report(store, ("day",), chosen)
    found = read_failures(store, chosen)
    return {
        "total": days.total,
        "days": days.rows,
        "models": report(store, ("model",), chosen).rows,
        "projects": report(store, ("project",), chosen).rows,
        "failures": found["failures"],
        "spirals": found["spirals"],
        "jobs": read_jobs(store),
    }


def read_sessions(store: Store, asked: ask.Sessions, _: Path) -> Any:
    wanted = Listing(
        search=asked.search,
        outcome=asked.outcome or None,
        category=asked.category or None,
        failure=asked.failure or None,
        tool=asked.tool or None,
        skill=asked.skill or None,
        job=asked.job or None,
        template=asked.template or None,
        version=asked.version or None,
        arm=asked.arm or None,
        experiment=asked.experiment or None,
        sort=asked.sort,
        is_ascending=asked.order == "asc",
        after=asked.after or None,
        limit=asked.limit,
    )
    return list_sessions(store, _choose(store, asked), wanted)


def read_session(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.reports import sessions

    return sessions.read_session(store, sessions.find_session(store, path["session"]))


def read_steps(store: Store, asked: ask.Steps, path: Path) -> Any:
    from relight.reports import steps
    from relight.reports.sessions import find_session

    found = find_session(store, path["session"])
    return steps.read_steps(store, found, after=asked.after or None, limit=asked.limit)


def read_failures(store: Store, asked: ask.Chosen, _: Path) -> Any:
    from relight.reports import failures

    return {"since": asked.since, **failures.read_failures(store, _choose(store, asked))}


def read_skill_stats(store: Store, asked: ask.SkillStats, _: Path) -> Any:
    from relight.reports.skills.uses import read_daily

    chosen = _choose(store, asked)
    if asked.skill:
        _check_skill(asked.skill)
    rows = read_daily(store, since=chosen.since, until=chosen.until, skill=asked.skill or None)
    return {"since": chosen.since, "until": chosen.until, "rows": rows}


def read_skill_ema(store: Store, asked: ask.SkillEma, _: Path) -> Any:
    from relight.reports.skills.averages import query_skill_ema, read_half_life

    half_life = read_half_life(asked.alpha or None, asked.half_life_days or None)
    rows = query_skill_ema(store, window_days=asked.window_days, half_life_days=half_life)
    return {"window_days": asked.window_days, "half_life_days": half_life, "rows": rows}


def compare_skill(store: Store, asked: ask.SkillCompare, _: Path) -> Any:
    from relight.reports.skills.comparison import compare_models

    _check_skill(asked.skill)
    names = [name.strip() for name in (asked.models or "").split(",") if name.strip()]
    return compare_models(store, asked.skill, models=names or None, margin=asked.margin)


def read_jobs(store: Store, _: ask.Nothing, __: Path) -> Any:
    from relight.reports import runs

    return {"jobs": runs.read_jobs(store)}


def read_runs(store: Store, asked: ask.Runs, _: Path) -> Any:
    from relight.reports import runs

    return {"runs": runs.read_runs(store, asked.job or None, limit=asked.limit)}


def read_job(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.reports import runs

    name = path["job"]
    meant = runs.find_meant(store, name)
    for job in runs.read_jobs(store):
        if job["job"] in meant:
            return job | {"history": runs.read_runs(store, job["job"])}
    raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")


def read_templates(store: Store, asked: ask.Templates, _: Path) -> Any:
    from relight.warm import library
    from relight.warm.telling import show_template

    every = [*library.read_templates(store), *library.read_candidates(store)]
    shown = [one for one in every if asked.state in (UNSET, one.state)]
    return {"templates": [show_template(one, with_seed=False) for one in shown]}


def read_template_stats(store: Store, _: ask.Nothing, __: Path) -> Any:
    from relight.warm.results import read_stats

    return {"templates": read_stats(store)}


def read_template(store: Store, asked: ask.Template, path: Path) -> Any:
    from relight.warm import library
    from relight.warm.telling import show_template

    found = library.find_template(store, path["template"], version=asked.version or None)
    versions = [one.version for one in library.read_versions(store, found.name)]
    return show_template(found) | {"versions": versions}


def read_experiment(store: Store, asked: ask.Experiment, _: Path) -> Any:
    from relight.web.arms import read_arms
    from relight.work.experiments import as_json

    return as_json(read_arms(store, asked.template or None, effect=asked.effect))


def list_experiments(store: Store, _: ask.Nothing, __: Path) -> Any:
    from relight.work.experiments.overview import read_overview as read_started

    return {"experiments": read_started(store)}


def read_pairs(store: Store, _: ask.Nothing, path: Path) -> Any:
    from relight.work.experiments.pairs import as_json, read_paired_report
    from relight.work.experiments.register import find_experiment

    return as_json(read_paired_report(store, find_experiment(store, path["experiment"])))


def read_traces(store: Store, _: ask.Nothing, __: Path) -> Any:
    from relight.work.moa.traces import list_traces

    return {"traces": list_traces(store.config.trace_folder)}


def read_trace(store: Store, asked: ask.Trace, path: Path) -> Any:
    from relight.work.moa.traces import find_trace, tell_trace

    return tell_trace(find_trace(store.config.trace_folder, path["session"]), asked.turn or None)


def examine(store: Store, _: ask.Nothing, __: Path) -> Any:
    from relight.reports import doctor

    return doctor.examine(store)


def _check_skill(name: str) -> None:
    if not name.strip() or "\0" in name:
        raise MissingError("no skill has such a name", "`/api/skills/stats` has those there are")


def _choose(store: Store, asked: Any) -> Filter:
    """The filter in a question, read as the pages read theirs."""
    names = [name for name in Filters.__struct_fields__ if getattr(asked, name, UNSET)]
    return choose(store, Filters(**{name: getattr(asked, name) for name in names}))


# what is named in a path may hold a slash, so the longer paths come first
READINGS = (
    Reading("/api/overview", ask.Chosen, read_overview),
    Reading("/api/report", ask.Report, read_report),
    Reading("/api/sessions", ask.Sessions, read_sessions),
    Reading("/api/sessions/{session:path}/steps", ask.Steps, read_steps),
    Reading("/api/sessions/{session:path}", ask.Nothing, read_session),
    Reading("/api/failures", ask.Chosen, read_failures),
    Reading("/api/skills/stats", ask.SkillStats, read_skill_stats),
    Reading("/api/skills/ema", ask.SkillEma, read_skill_ema),
    Reading("/api/skills/compare", ask.SkillCompare, compare_skill),
    Reading("/api/jobs", ask.Nothing, read_jobs),
    Reading("/api/jobs/history", ask.Runs, read_runs),
    Reading("/api/jobs/{job:path}", ask.Nothing, read_job),
    Reading("/api/templates", ask.Templates, read_templates),
    Reading("/api/templates/stats", ask.Nothing, read_template_stats),
    Reading("/api/templates/{template:path}", ask.Template, read_template),
    Reading("/api/experiments", ask.Experiment, read_experiment),
    Reading("/api/experiments/list", ask.Nothing, list_experiments),
    Reading("/api/experiments/{experiment:path}", ask.Nothing, read_pairs),
    Reading("/api/moa/traces", ask.Nothing, read_traces),
    Reading("/api/moa/traces/{session:path}", ask.Trace, read_trace),
    Reading("/api/doctor", ask.Nothing, examine),
)
