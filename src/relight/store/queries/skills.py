"""Uses of skills by day, model and version."""

from collections.abc import Collection

from msgspec import Struct

from relight.errors import check_text
from relight.store import Store
from relight.store.derive.skills.uses import KNOWN_NANOS
from relight.store.sql import column_list, read_usd
from relight.times import write_time


class SkillDay(Struct, frozen=True):
    """The uses of a skill on one model and provider on one day; sums are of known values."""

    skill_name: str
    model: str | None
    provider: str | None
    day: str
    uses: int
    known: int
    successes: int
    priced: int
    nanos: int
    timed: int
    seconds: float
    last_at: int


class SkillUseDay(Struct, frozen=True):
    """The uses of a skill on one model and provider on one day; a row of `skill_stats_daily`."""

    skill_name: str
    model: str | None
    provider: str | None
    day: str
    invocation_count: int
    success_count: int
    failure_count: int
    unknown_count: int
    avg_duration_s: float | None
    total_cost_usd: float | None
    avg_cost_usd: float | None
    unpriced_count: int
    total_input_tokens: int | None
    total_output_tokens: int | None
    # of the qualities recorded, else of the sessions' scores: a weak hint
    avg_quality_score: float | None
    last_invoked_at: str | None


class SkillTotal(Struct, frozen=True):
    """All uses of a skill on one model; costs are of known values, means leave unknowns out.

    `included_usd` is what a plan paid for, at list price: it is not in the cost. `mean_quality` is
    of the qualities recorded, else of the sessions' scores, which are a weak hint.
    """

    skill_name: str
    model: str | None
    uses: int
    successes: int
    failures: int
    unknown: int
    cost_usd: float | None
    included_usd: float
    unpriced: int
    mean_seconds: float | None
    mean_quality: float | None


def read_days(store: Store, since: str, until: str, *, skill: str | None = None) -> list[SkillDay]:
    """Return the uses of all skills, or of one, between two days, by day, model and provider."""
    test, values = _where(since, until, skill)
    return store.read(
        SkillDay,
        f"""
        select skill_name, model, provider, day, count(*) as uses, count(success) as known,
            coalesce(sum(success), 0) as successes, count({KNOWN_NANOS}) as priced,
            coalesce(sum({KNOWN_NANOS}), 0) as nanos, count(duration_seconds) as timed,
            coalesce(sum(duration_seconds), 0) as seconds, max(invoked_at) as last_at
        from skill_invocations {test} group by day, skill_name, model, provider
        """,
        values,
    )


def read_daily(
    store: Store,
    *,
    since: str | None = None,
    until: str | None = None,
    skill: str | None = None,
) -> list[SkillUseDay]:
    """Return `skill_stats_daily` between two days, newest first."""
    test, values = _where(since, until, skill)
    return store.read(
        SkillUseDay,
        f"select {column_list(SkillUseDay)} from skill_stats_daily {test}"
        " order by day desc, skill_name, model nulls first, provider nulls first",
        values,
        {"last_invoked_at": write_time},
    )


def sum_uses(
    store: Store,
    *,
    since: str | None = None,
    until: str | None = None,
    skill: str | None = None,
) -> list[SkillTotal]:
    """Return the uses of each skill on each model between two days."""
    test, values = _where(since, until, skill)
    return store.read(
        SkillTotal,
        f"""
        select skill_name, model, count(*) as uses, coalesce(sum(success), 0) as successes,
            count(success) - coalesce(sum(success), 0) as failures,
            count(*) - count(success) as unknown,
            sum(cost_nanos - included_nanos) as cost_usd, sum(included_nanos) as included_usd,
            count(*) - count({KNOWN_NANOS}) as unpriced, avg(duration_seconds) as mean_seconds,
            avg(quality_score) as mean_quality
        from skill_invocations {test}
        group by skill_name, model order by skill_name, model nulls first
        """,
        values,
        {"cost_usd": read_usd, "included_usd": read_usd},
    )


def read_versions_used(store: Store, skill: str) -> dict[str | None, list[str]]:
    """Return the known versions of a skill on each model, the most used first."""
    versions: dict[str | None, list[str]] = {}
    for model, version in store.query(
        "select model, skill_version from skill_invocations"
        " where skill_name = ? and skill_version is not null group by model, skill_version"
        " order by count(*) desc, skill_version, model nulls first",
        (skill,),
    ):
        versions.setdefault(model, []).append(version)
    return versions


def list_skills(store: Store) -> list[str]:
    """Return the names of all skills with a recorded use."""
    rows = store.query("select distinct skill_name from skill_invocations")
    return [name for (name,) in rows]


def list_skills_of_job(store: Store, job: str) -> list[str]:
    """Return the names of the skills that the runs of a job used."""
    rows = store.query(
        "select distinct skill_name from skill_invocations where job_id = ? order by skill_name",
        (job,),
    )
    return [name for (name,) in rows]


def is_unlinked(store: Store, invocation_id: int) -> bool:
    """True if a use belongs to no recorded session."""
    statement = "select 1 from skill_invocations where id = ? and root_id is null"
    return bool(store.query(statement, (invocation_id,)))


def find_session_roots(store: Store, ids: Collection[int]) -> dict[str, int]:
    """Return the names of the sessions among these rows, with the rows of their roots."""
    rows = store.query(
        "select source || ':' || key, root_id from session"
        f" where id in ({', '.join('?' * len(ids))})",
        list(ids),
    )
    return dict(rows)


def _where(since: str | None, until: str | None, skill: str | None) -> tuple[str, list[str]]:
    """Return the `where` clause for days and a skill; without a last day, all days."""
    tests, values = ["day >= ?", "day <= ?"], [since or "", until or "~"]
    if skill is not None:
        check_text("skill", skill)
        tests.append("skill_name = ?")
        values.append(skill)
    return f"where {' and '.join(tests)}", values
