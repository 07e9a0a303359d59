"""Queries of the API: one function per address, with the shapes of the command line's JSON.

A function's docstring and types are its entry in the API's document.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from relight.errors import MissingError, RelightError
from relight.reports import doctor, failures, lessons, runs, sessions, trace
from relight.reports.alarms import AlarmList, read_alarms
from relight.reports.brief import Brief, read_brief
from relight.reports.budgets import BudgetList, read_budgets
from relight.reports.cache_rebuilds import CacheReport, read_cache_report
from relight.reports.canaries import CanaryList, read_canary_list
from relight.reports.comparison.models import Comparison, compare_job, compare_models
from relight.reports.failed_work import FailedTotals
from relight.reports.filters import find_jobs, read_start
from relight.reports.limits import LimitsReport, read_limits_report
from relight.reports.listing import SessionPage
from relight.reports.listing import list_sessions as list_page
from relight.reports.needs import Need, find_needs
from relight.reports.savings import SavingsReport, read_savings
from relight.reports.search import SearchResult, find_hits
from relight.reports.search_query import QueryError
from relight.reports.skill_canaries import SkillCanaries, read_skill_canaries
from relight.reports.skills.averages import SkillAverages, query_skill_ema, read_half_life
from relight.reports.skills.uses import SkillUseDays
from relight.reports.spirals import NamedSpiral
from relight.reports.totals import KEYS, ReportRow, ReportTotals, UsageReport, report
from relight.store import Store
from relight.store.queries.costs import CostRow, CostSums, sum_costs
from relight.store.queries.failures import FailureGroup
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing
from relight.store.queries.runs import find_job_names, read_runs
from relight.store.queries.skills import read_daily
from relight.web import parameters as given
from relight.web import template_api
from relight.web.filters import WITHIN, Filters, choose
from relight.web.parameters import Path
from relight.web.periods import TimeSeries, read_calendar, read_time_series
from relight.web.request import list_words
from relight.work.jobs import registry
from relight.work.moa import trace_report
from relight.work.moa.advisers import AdviserList, report_advisers


class Query(Struct, frozen=True):
    """An address of the API: its parameters and the function that reads the response.

    `may_miss` is set if a parameter names something that may not exist, and `is_of_server` if the
    response has more than rows: of a team's members, only those who see everything may read it.
    """

    path: str
    read: Callable[[Store, Any, Path], Any]
    parameters: type[Any] = given.NoParameters
    may_miss: bool = False
    is_of_server: bool = False


class OverviewReport(Struct, frozen=True, kw_only=True):
    """A period at a glance, with what needs a person, today and this month.

    `series` has the figures of the dashboard's chart, in hours if the period is one day.
    """

    needs: list[Need]
    total: ReportTotals
    today: CostSums
    month: CostSums
    series: TimeSeries
    days: list[ReportRow]
    models: list[CostRow]
    projects: list[CostRow]
    sources: list[CostRow]
    failed: FailedTotals
    failures: list[FailureGroup]
    spirals: list[NamedSpiral]
    jobs: list[runs.JobReport]


def read_overview(store: Store, asked: given.OverviewParameters, _: Path) -> OverviewReport:
    """The period at a glance: what needs a person, totals, a chart's figures, failures and jobs."""
    chosen = _choose(store, asked)
    today = datetime.now(ZoneInfo(store.timezone)).date()
    days = report(store, ("day",), chosen)
    found = failures.read_failures(store, chosen, slots=registry.find_allowed_slots(store))
    jobs = registry.list_jobs(store)
    return OverviewReport(
        needs=find_needs(store, chosen, jobs, spirals=found.spirals, unknown=days.total.unknown),
        total=days.total,
        **read_calendar(store, chosen, today),
        series=read_time_series(store, asked.by, chosen, today),
        days=days.rows,
        models=sum_costs(store, "model", chosen),
        projects=sum_costs(store, "project", chosen),
        sources=sum_costs(store, "source", chosen),
        failed=found.failed,
        failures=found.failures,
        spirals=found.spirals,
        jobs=jobs,
    )


def read_report(store: Store, asked: given.ReportParameters, _: Path) -> UsageReport:
    """Totals by day, model, project and more."""
    keys, chosen = list_words(asked.by), _choose(store, asked)
    if not keys:
        raise RelightError("`by` names no key", f"known: {', '.join(KEYS)}")
    return report(store, keys, chosen, sort=asked.sort or None, top=asked.top or None)


def list_sessions(store: Store, asked: given.SessionListParameters, _: Path) -> SessionPage:
    """Sessions, one page at a time."""
    within: dict[str, Any] = {name: getattr(asked, name) or None for name in (*WITHIN, "after")}
    wanted = Listing(
        search=asked.search,
        with_subagents=asked.subagents,
        sort=asked.sort,
        is_ascending=asked.order == "asc",
        limit=asked.limit,
        **within,
    )
    return list_page(store, _choose(store, asked), wanted)


def search(store: Store, asked: given.SearchParameters, _: Path) -> SearchResult:
    """Texts of all sessions that match a query, each with its step, best first.

    In a snippet, what matched stands between ⟦ and ⟧. `note` says why nothing was found.
    """
    chosen = _choose(store, asked)
    tool = asked.tool or None
    try:
        return find_hits(store, asked.q, chosen, tool=tool, failed=asked.failed, limit=asked.limit)
    except QueryError as error:  # one types a query letter by letter
        return SearchResult([], 0, f"{error.message}: {error.hint}")


def read_session(store: Store, _: given.NoParameters, path: Path) -> trace.SessionTrace:
    """One session with all its turns, tool calls, and numbered steps with their texts.

    A very long session is better read by parts of its steps: this response has them all.
    """
    return trace.read_session_trace(store, sessions.find_session(store, path["session"]))


def list_steps(store: Store, asked: given.StepListParameters, path: Path) -> trace.TracePart:
    """A session's steps from one of them on: prompts, answers, calls, compactions and pauses."""
    found = sessions.find_session(store, path["session"])
    return trace.read_part(store, found, step=asked.step, limit=asked.limit)


def read_failures(store: Store, asked: given.FailureParameters, _: Path) -> failures.FailuresSince:
    """Failed runs and sessions by cause, failed calls by kind, tool or place, and spirals.

    `runs` are the newest failed runs and sessions; `failures` are failed calls by the keys of `by`.
    """
    chosen = _choose(store, asked)
    if asked.job:
        chosen = replace(chosen, jobs=find_jobs(store, asked.job))
    slots = registry.find_allowed_slots(store)
    found = failures.read_failures(store, chosen, list_words(asked.by), slots=slots)
    return failures.FailuresSince(since=chosen.since, until=chosen.until, **asdict(found))


def read_cache(store: Store, asked: given.CacheParameters, _: Path) -> CacheReport:
    """Turns that rebuilt the prompt cache, by cause, day and length of pause, at list price."""
    return read_cache_report(store, _choose(store, asked), limit=asked.limit)


def list_lessons(store: Store, asked: given.LessonParameters, _: Path) -> lessons.LessonList:
    """Lessons: stumbles that recur in the sessions of a project, and what worked."""
    return lessons.list_lessons(store, Filter(project=asked.project or None))


def read_skill_stats(store: Store, asked: given.SkillDayParameters, _: Path) -> SkillUseDays:
    """Uses, outcomes, costs and times of skills by day and model."""
    chosen = _choose(store, asked)
    if asked.skill:
        _check_skill(asked.skill)
    rows = read_daily(store, since=chosen.since, until=chosen.until, skill=asked.skill or None)
    return SkillUseDays(chosen.since, chosen.until, rows)


def read_skill_averages(
    store: Store, asked: given.SkillAverageParameters, _: Path
) -> SkillAverages:
    """Moving averages of each skill: the newest days count most."""
    half_life = read_half_life(asked.alpha or None, asked.half_life_days or None)
    rows = query_skill_ema(store, window_days=asked.window_days, half_life_days=half_life)
    return SkillAverages(asked.window_days, half_life, rows)


def compare_skill(store: Store, asked: given.SkillComparisonParameters, _: Path) -> Comparison:
    """A skill's models compared job by job: is a cheaper one good enough?"""
    _check_skill(asked.skill)
    models, job = list_words(asked.models) or None, asked.job or None
    return compare_models(store, asked.skill, models=models, margin=asked.margin, job=job)


def compare_job_models(store: Store, asked: given.ComparisonParameters, path: Path) -> Comparison:
    """A job's models compared: is a cheaper one good enough?"""
    models = list_words(asked.models) or None
    return compare_job(store, path["job"], models=models, margin=asked.margin)


def list_jobs(store: Store, _: given.NoParameters, __: Path) -> runs.JobList:
    """Scheduled jobs, also those of other schedulers, with the results of their runs."""
    return runs.JobList(registry.list_jobs(store))


def list_runs(store: Store, asked: given.RunListParameters, _: Path) -> runs.RunList:
    """Runs of jobs, newest first."""
    since = read_start(store, asked.since)
    found = read_runs(
        store, asked.job or None, limit=asked.limit, has_failed=asked.failed, since=since
    )
    return runs.RunList(found)


def read_job(store: Store, _: given.NoParameters, path: Path) -> runs.JobHistory:
    """One job and its runs, newest first."""
    name = path["job"]
    names = find_job_names(store, name)
    for job in registry.list_jobs(store):
        if job.job in names:
            return runs.JobHistory(**(asdict(job) | {"runs": read_runs(store, job.job)}))
    raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")


def list_canaries(store: Store, _: given.NoParameters, path: Path) -> CanaryList:
    """Models on trial in a job, and every change of its model with what it saved or cost."""
    names = find_job_names(store, path["job"])
    return read_canary_list(store, names[0] if names else path["job"])


def list_all_canaries(store: Store, _: given.NoParameters, __: Path) -> CanaryList:
    """Models on trial in all jobs, newest first."""
    return read_canary_list(store)


def list_skill_canaries(store: Store, _: given.NoParameters, path: Path) -> SkillCanaries:
    """Models on trial in the jobs that use a skill, and the mean over these jobs."""
    return read_skill_canaries(store, path["skill"])


def list_traces(store: Store, _: given.NoParameters, __: Path) -> trace_report.TraceList:
    """Traced sessions of mixtures, newest first."""
    return trace_report.TraceList(trace_report.list_traces(store))


def list_advisers(store: Store, _: given.NoParameters, __: Path) -> AdviserList:
    """Advisers of mixtures over all sessions: cost, time, how often they differed, their worth."""
    return report_advisers(store)


def read_trace(store: Store, asked: given.TraceParameters, path: Path) -> trace_report.TraceReport:
    """A mixture's trace: each model's input, output and cost."""
    found = trace_report.find_trace(store, path["session"])
    return trace_report.report_trace(found, asked.turn or None)


def examine(store: Store, asked: given.HealthParameters, _: Path) -> doctor.HealthReport:
    """Agents found, files unreadable or set aside, models without a price, the database's health.

    Only with another `depth` than quick is the database's integrity checked, which reads all of it.
    """
    from relight.warm.agents.settings import find_troubles

    return doctor.examine(store, depth=asked.depth, notes=find_troubles())


def read_limits(store: Store, asked: given.LimitParameters, _: Path) -> LimitsReport:
    """The use of the open windows of plans, and of the earlier ones."""
    start = read_start(store, asked.since) or 0
    return read_limits_report(store, history_since=start if asked.history else None)


def list_budgets(store: Store, asked: given.NoParameters, _: Path) -> BudgetList:
    """All budgets: what is spent in the running period, and what it will end with."""
    return read_budgets(store)


def list_savings(store: Store, asked: given.SavingParameters, _: Path) -> SavingsReport:
    """Savings by cheaper models in jobs and skills, and the runs it takes to know."""
    return read_savings(store, models=list_words(asked.models), margin=asked.margin)


def read_night(store: Store, asked: given.BriefParameters, _: Path) -> Brief:
    """Runs and sessions since last evening or a day, failures of one cause together."""
    since = (read_start(store, asked.since) or 0) if asked.since else None
    return read_brief(store, since=since, slots=registry.find_allowed_slots(store))


def list_alarms(store: Store, asked: given.AlarmParameters, _: Path) -> AlarmList:
    """Jobs and models that fail more, or cost more a run, than before."""
    return read_alarms(store, is_open=not asked.all)


def _check_skill(name: str) -> None:
    if not name.strip() or "\0" in name:
        raise MissingError("no skill has such a name", "`/api/skills/stats` lists them")


def _choose(store: Store, asked: Any) -> Filter:
    """Return the filter in the parameters, read as the pages read theirs."""
    names = [name for name in Filters.__struct_fields__ if getattr(asked, name, UNSET)]
    return choose(store, Filters(**{name: getattr(asked, name) for name in names}))


# a name in a path may contain a slash, so the longer paths come first
QUERIES = (
    Query("/api/overview", read_overview, given.OverviewParameters),
    Query("/api/report", read_report, given.ReportParameters),
    Query("/api/sessions", list_sessions, given.SessionListParameters),
    Query("/api/search", search, given.SearchParameters),
    Query("/api/sessions/{session:path}/steps", list_steps, given.StepListParameters),
    Query("/api/sessions/{session:path}", read_session),
    Query("/api/failures", read_failures, given.FailureParameters, may_miss=True),
    Query("/api/limits", read_limits, given.LimitParameters),
    Query("/api/lessons", list_lessons, given.LessonParameters),
    Query("/api/cache", read_cache, given.CacheParameters),
    Query("/api/budgets", list_budgets),
    Query("/api/savings", list_savings, given.SavingParameters),
    Query("/api/brief", read_night, given.BriefParameters),
    Query("/api/alarms", list_alarms, given.AlarmParameters),
    Query("/api/skills/stats", read_skill_stats, given.SkillDayParameters, may_miss=True),
    Query("/api/skills/ema", read_skill_averages, given.SkillAverageParameters),
    Query("/api/skills/compare", compare_skill, given.SkillComparisonParameters, may_miss=True),
    Query("/api/skills/{skill:path}/canary", list_skill_canaries),
    Query("/api/jobs", list_jobs),
    Query("/api/jobs/history", list_runs, given.RunListParameters, may_miss=True),
    Query("/api/canaries", list_all_canaries),
    Query("/api/jobs/{job:path}/canary", list_canaries),
    Query("/api/jobs/{job:path}/compare", compare_job_models, given.ComparisonParameters),
    Query("/api/jobs/{job:path}", read_job),
    Query("/api/templates", template_api.list_templates, given.TemplateListParameters),
    Query("/api/templates/stats", template_api.read_template_stats),
    Query("/api/templates/{template:path}/export", template_api.export_template),
    Query("/api/templates/{template:path}", template_api.read_template, given.TemplateParameters),
    Query(
        "/api/provisions",
        template_api.list_provisions,
        given.ProvisionListParameters,
        may_miss=True,
    ),
    Query("/api/experiments", template_api.read_experiment, given.HoldoutParameters, may_miss=True),
    Query("/api/experiments/list", template_api.list_experiments),
    Query("/api/experiments/plans", template_api.list_plans),
    Query("/api/experiments/{experiment:path}", template_api.read_pairs),
    Query("/api/moa/advisers", list_advisers),
    Query("/api/moa/traces", list_traces, is_of_server=True),
    Query("/api/moa/traces/{session:path}", read_trace, given.TraceParameters, is_of_server=True),
    Query("/api/doctor", examine, given.HealthParameters, is_of_server=True),
)
