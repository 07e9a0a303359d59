"""Sums of the roll-ups by the keys of a report, and the names of the sessions in it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER, OF_JOBS
from relight.store.queries.filters import MACHINE, OWNED, PERSON, Filter, where
from relight.store.queries.sums import (
    GroupSums,
    OutcomeSums,
    SessionCounts,
    UsageSums,
)
from relight.store.queries.tool_sums import (
    IS_SUMMED,
    SINGLE_CALLS,
    TOOLS,
    is_summed,
    sum_tools,
)


class SessionName(Struct, frozen=True):
    """A session's row, full name and title."""

    id: int
    session: str
    title: str | None


SUMS = tuple(name for name in UsageSums.__struct_fields__ if name != "sessions")
# tokens and cost belong to turns, not to calls; failed model calls are no turns
CALL_SUMS = ("tool_calls", "tool_failures", "failed_turns")
USAGE_SUMS = tuple(name for name in SUMS if name != "failed_turns")
# what is known of the sessions that succeeded or failed
RATED = ("turns", "unpriced_turns", "cost_nanos")
DAY_COUNTS = ", ".join(
    f"coalesce(sum({name}), 0) as {name}" for name in SessionCounts.__struct_fields__
)
IS_RATED = "outcome in ('success', 'failure')"
COUNTS = """
    count(root_id) as sessions,
    count(case when outcome = 'success' then 1 end) as successes,
    count(case when outcome = 'failure' then 1 end) as failures
"""
USAGE_KEYS = {
    "day": "day",
    "week": "week.week",
    "month": "substr(day, 1, 7)",
    "source": "source",
    "model": "model",
    "provider": "provider",
    "project": "project",
    "session": "root_id",
    "job": "job",
    "skill": "skill",
    "branch": "branch",
    "agent_version": "agent_version",
    "machine": "machine",
    "person": "person",
}
CALL_KEYS = {"tool": "tool", "failure": "kind"}
COLUMNS = {**USAGE_KEYS, **CALL_KEYS}

USAGE = "session_day"
# The same added up, for keys and filters of days. It counts the sessions that have one row; those
# with several rows are counted apart.
DAYS, DAY_KEYS = "usage_day", ("day", "week", "month", "source", "model", "provider", "project")
# the same with the names of machines and their people
OWNER_KEYS = ("machine", "person")
OF_OWNERS = f"""(
    select used.*, {MACHINE} as machine, {PERSON} as person from {{0}} as used
    left join machine on machine.id = used.machine_id
    left join person on person.id = machine.person_id
) as owned"""
# the job that each session was a run of; where a scheduler's ledger lost the run, the session's
# name gives the job
SCHEDULED = f"""
    left join run_attempt on run_attempt.session_id = used.root_id
    left join run on run.session_id = used.root_id or run.id = run_attempt.run_id
    left join (
        select session.id as session_id, job.id as job_id from job join session on {IS_NAMED_AFTER}
    ) as named on named.session_id = used.root_id and run.id is null
    left join job on job.id = coalesce(run.job_id, named.job_id)
"""
JOBS = f"(select used.*, job.full_name as job from {USAGE} as used {SCHEDULED}) as job_usage"
# the same for the sessions of jobs alone: all others are left out before they are joined
JOB_USES = f"""(
    select used.*, job.full_name as job from {USAGE} as used {SCHEDULED}
    where used.root_id in ({OF_JOBS})
) as job_usage"""
# usage with the skills that each session is charged to; a session without any has no skill
SKILL_SUMS = [name for name in USAGE_SUMS if name not in ("cost_nanos", "wall_ms")]
# the charge of a use: by the session's records, where a fact says otherwise
_CHARGE = "case when charge.id is null then skill.{0} else charge.{0} end"
# a recorded use without a session has tokens and a cost, but no turn is known
CHARGED = [
    f"case when skill.root_id is null then 0 else {_CHARGE.format(name)} end as {name}"
    if name == "turns"
    else f"{_CHARGE.format(name)} as {name}"
    for name in SKILL_SUMS
]
# a name in an expression: by the index of names SQLite would read the uses of all days
_CHARGED_TO = f"""
    select day, session.source, session.project, skill.root_id, session.outcome, skill.model,
        provider, job_id as job, skill_name || '' as skill, {", ".join(CHARGED)},
        coalesce({_CHARGE.format("cost_nanos")}, 0) - {_CHARGE.format("included_nanos")}
            as cost_nanos,
        round(coalesce({_CHARGE.format("duration_seconds")}, 0) * 1000) as wall_ms
    from skill_invocations as skill
    left join skill_charge as charge on charge.id = skill.id
    left join session on session.id = skill.root_id
"""
SKILL_USES = f"({_CHARGED_TO}) as skill_usage"
SKILLS = f"""(
    select day, source, project, root_id, outcome, model, provider, job,
        cast(null as text) as skill,
        {", ".join(SKILL_SUMS)}, cost_nanos, wall_ms
    from {JOBS}
    where root_id not in (select root_id from skill_invocations where root_id is not null)
    union all
    {_CHARGED_TO}
) as skill_usage"""
CALLS = """(
    select day, source, project, root_id, outcome, model, provider, tool, kind, tool_calls,
        tool_failures, failed_turns
    from call_day where {test}
) as calls"""
CALL_JOBS = f"(select used.*, job.full_name as job from {{table}} {SCHEDULED}) as job_calls"

# keys that a table may lack, and that the session itself has: calls and skills know no branch
DESCRIBED = f"""(
    select used.*, {{1}} from (select * from {{0}}) as used
    left join ({OWNED}) on about.id = used.root_id
) as described"""
ABOUT = {"branch": "about.branch", "agent_version": "about.version as agent_version"}
ABOUT |= {"machine": f"{MACHINE} as machine", "person": f"{PERSON} as person"}


def sum_groups(
    store: Store, by: Sequence[str], chosen: Filter, *, has_outcomes: bool = True
) -> list[GroupSums]:
    """Return the sums of each group, ordered by the keys; without keys, those of everything.

    Without outcomes no session is counted, which takes half of the time.
    """
    keys = {key: COLUMNS[key] for key in by}
    if "tool" in by and is_summed(by, chosen):
        return sum_tools(store, keys, chosen)
    is_of_calls = any(key in CALL_KEYS for key in by)
    known = CALL_SUMS if is_of_calls else USAGE_SUMS
    table = _choose_table(by, chosen)
    prefix, join = _week_table(store, table) if "week" in by else ("", "")
    groups = sum_table(
        store,
        keys,
        chosen,
        f"{table} {join}",
        known=known,
        prefix=prefix,
        has_outcomes=has_outcomes,
        is_of_days=_is_of_days(by, chosen),
    )
    if not (has_outcomes and _is_of_days(by, chosen)):
        return groups
    shared = _count_shared(store, keys, chosen, prefix=prefix, join=join)
    return [_add_counts(one, shared.get((*one.keys.values(),))) for one in groups]


def sum_skills(store: Store, chosen: Filter) -> list[GroupSums]:
    """Return the sums of each skill by model; work without a skill is not read."""
    keys = {"skill": "skill", "model": "model"}
    return sum_table(store, keys, chosen, SKILL_USES, known=USAGE_SUMS, has_outcomes=False)


def sum_jobs(store: Store, chosen: Filter) -> list[GroupSums]:
    """Return the sums of each job by model; work outside of jobs is not read."""
    keys = {"job": "job", "model": "model"}
    return sum_table(store, keys, chosen, JOB_USES, known=USAGE_SUMS, has_outcomes=False)


def sum_table(
    store: Store,
    keys: Mapping[str, str],
    chosen: Filter,
    table: str,
    *,
    known: Collection[str],
    prefix: str = "",
    has_outcomes: bool = True,
    is_of_days: bool = False,
) -> list[GroupSums]:
    """Return the sums of the known columns of a table by these columns."""
    sums = {name: f"sum({name})" if name in known else "null" for name in SUMS}
    sums["sessions"] = "count(distinct root_id)" if has_outcomes else "0"
    if is_of_days:
        sums["sessions"] = "coalesce(sum(sessions), 0)"
    figures = [f"{sums[name]} as {name}" for name in UsageSums.__struct_fields__]
    if is_of_days:
        figures += [f"coalesce(sum({name}), 0)" for name in ("successes", "failures")]
        figures += [f"sum(rated_{name})" for name in RATED]
    elif has_outcomes:
        figures += [
            f"count(distinct case when outcome = '{one}' then root_id end)"
            for one in ("success", "failure")
        ]
        figures += [
            f"sum(case when {IS_RATED} then {name} end)" if name in known else "null"
            for name in RATED
        ]
    order = ", ".join(f"{key} nulls first" for key in keys.values())
    grouped = f"group by {', '.join(keys.values())} order by {order}" if keys else ""
    test, values = where(chosen)
    columns = ", ".join([*keys.values(), *figures])
    rows = store.query(f"{prefix} select {columns} from {table} {test} {grouped}", values)
    first, last = len(keys), len(keys) + len(UsageSums.__struct_fields__)
    return [
        GroupSums(
            dict(zip(keys, row, strict=False)),
            UsageSums(*row[first:last]),
            OutcomeSums(*row[last:] or (0, 0)),
        )
        for row in rows
    ]


def count_sessions(store: Store, by: Sequence[str], chosen: Filter) -> SessionCounts:
    """Return how many sessions a report by these keys covers, each counted once."""
    if "tool" in by and is_summed(by, chosen):
        return _count_tool_sessions(store, chosen)
    test, values = where(chosen)
    if _is_of_days(by, chosen):
        alone = store.read(SessionCounts, f"select {DAY_COUNTS} from {DAYS} {test}", values)[0]
        return _add_up(alone, _count_shared(store, {}, chosen)[()])
    covered = f"select distinct root_id, outcome from {_choose_table(by, chosen)} {test}"
    return store.read(SessionCounts, f"select {COUNTS} from ({covered}) as covered", values)[0]


def _count_tool_sessions(store: Store, chosen: Filter) -> SessionCounts:
    """Return the number of sessions that called any tool."""
    test, values = where(chosen)
    days = f"{test} and" if test else "where"
    alone = f"select {DAY_COUNTS} from tool_day {days} tool is null and {IS_SUMMED}"
    covered = f"select distinct root_id, outcome from {SINGLE_CALLS} {test}"
    single = f"select {COUNTS} from ({covered}) as covered"
    both = f"select {DAY_COUNTS} from ({alone} union all {single}) as parts"
    return store.read(SessionCounts, both, [*values, *values])[0]


def _count_shared(
    store: Store, keys: Mapping[str, str], chosen: Filter, *, prefix: str = "", join: str = ""
) -> dict[tuple[object, ...], SessionCounts]:
    """Return the number of sessions with several rows, by the values of these columns."""
    test, values = where(chosen)
    named = "".join(f"{key} as {name}, " for name, key in keys.items())
    names = "".join(f"{name}, " for name in keys)
    grouped = f"group by {names.removesuffix(', ')}" if keys else ""
    table = OF_OWNERS.format(USAGE) if _has_owner(keys) else USAGE
    rows = store.query(
        f"{prefix} select {names} {COUNTS} from (select distinct {named} root_id, outcome"
        f" from {table} {join} {test or 'where 1 = 1'} and is_alone = 0) as shared {grouped}",
        values,
    )
    return {row[: len(keys)]: SessionCounts(*row[len(keys) :]) for row in rows}


def _add_counts(group: GroupSums, more: SessionCounts | None) -> GroupSums:
    """Return a group with more sessions."""
    if more is None:
        return group
    counted = SessionCounts(group.sums.sessions, group.outcomes.successes, group.outcomes.failures)
    found = _add_up(counted, more)
    return replace(
        group,
        sums=replace(group.sums, sessions=found.sessions),
        outcomes=replace(group.outcomes, successes=found.successes, failures=found.failures),
    )


def _add_up(one: SessionCounts, other: SessionCounts) -> SessionCounts:
    """Return the sum of the numbers of two parts."""
    return SessionCounts(
        one.sessions + other.sessions,
        one.successes + other.successes,
        one.failures + other.failures,
    )


def count_in_groups(
    store: Store, by: Sequence[str], chosen: Filter, groups: Collection[tuple[object, ...]]
) -> SessionCounts:
    """Return how many sessions these groups have together, each counted once."""
    table = _choose_table(by)
    prefix, join = _week_table(store, table) if "week" in by else ("", "")
    keys = ", ".join(COLUMNS[key] for key in by)
    test, values = where(chosen)
    rows = store.query(
        f"{prefix} select distinct {keys}, root_id, outcome from {table} {join} {test}",
        values,
    )
    found = {row[-2]: row[-1] for row in rows if row[-2] is not None and row[: len(by)] in groups}
    outcomes = list(found.values())
    return SessionCounts(len(found), outcomes.count("success"), outcomes.count("failure"))


def read_models(store: Store, *, since: str) -> dict[str, set[str]]:
    """Return the models that each source has used since a day."""
    found: dict[str, set[str]] = {}
    for source, model in store.query(
        "select distinct source, model from usage_day where day >= ? and model is not null"
        " order by source",
        (since,),
    ):
        found.setdefault(source, set()).add(model)
    return found


def name_jobs(store: Store) -> dict[str, str]:
    """Return the name that people gave each job, by its full name."""
    return dict(store.query("select full_name, name from job"))


def name_sessions(store: Store, by: Sequence[str], chosen: Filter) -> list[SessionName]:
    """Return the sessions that a report by these keys covers, in the order they began."""
    test, values = where(chosen)
    return store.read(
        SessionName,
        "select id, source || ':' || key as session, title from session"
        f" where id in (select root_id from {_choose_table(by)} {test})"
        " order by started_at nulls last, id",
        values,
    )


def _is_of_days(by: Sequence[str], chosen: Filter) -> bool:
    """True if the sums of days have all of these keys, and all that a filter tests."""
    return chosen.is_of_days and all(key in (*DAY_KEYS, *OWNER_KEYS) for key in by)


def _has_owner(keys: Iterable[str]) -> bool:
    return any(key in OWNER_KEYS for key in keys)


def _choose_table(by: Sequence[str], chosen: Filter | None = None) -> str:
    """Return the table that has all of these keys, and all that a filter tests."""
    if chosen is not None and _is_of_days(by, chosen):
        return OF_OWNERS.format(DAYS) if _has_owner(by) else DAYS
    rest = [key for key in by if key not in ABOUT]
    has_branch = not any(key in (*CALL_KEYS, "skill") for key in by)
    asked = [ABOUT[key] for key in ABOUT if key in by and not (key == "branch" and has_branch)]
    if asked:
        return DESCRIBED.format(_choose_table(rest), ", ".join(asked))
    if any(key in CALL_KEYS for key in by):
        # by failure: failed or negative calls, and failed model calls; else all tool calls
        table = CALLS.format(test="kind is not null" if "failure" in by else f"tool in ({TOOLS})")
        if "job" in by:
            return CALL_JOBS.format(table=table.removesuffix("as calls") + "as used")
        return table
    if "skill" in by:
        return SKILLS
    return JOBS if "job" in by else USAGE


def _week_table(store: Store, table: str) -> tuple[str, str]:
    """Return days and their ISO weeks as a table and its join: no SQL for weeks is portable."""
    days = [day for (day,) in store.query(f"select distinct day from {table}")]
    pairs = ", ".join(f"('{day}', '{_find_week(day)}')" for day in days) or "('', '')"
    return f"with week (on_day, week) as (values {pairs})", "join week on week.on_day = day"


def _find_week(day: str) -> str:
    try:
        year, week, _ = date.fromisoformat(day).isocalendar()
    except ValueError:
        return day
    return f"{year}-W{week:02}"
