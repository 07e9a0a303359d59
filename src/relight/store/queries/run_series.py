"""Runs in the order of their time, as series that may change, and the facts about each of them."""

from collections.abc import Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.queries.comparison import RESULT, RUNS
from relight.store.sql import divide


class SeriesRun(Struct, frozen=True):
    """A run that has ended; `success` is 1, 0 or None, `nanos` its wholly known cost."""

    job: str
    model: str | None
    at: int
    success: int | None
    nanos: int | None
    session_id: int | None


class RunFact(Struct, frozen=True):
    """One fact about the session of a run: its kind, whose it is, and its value."""

    session_id: int
    kind: str
    name: str | None
    value: str | None


# the newest are chosen first: the cost of each is a separate query
_SERIES = f"""
    select job, model, at, {RESULT}, session_id from (
        select * from ({RUNS}) as every_run
        where at is not null {{where}} order by at desc limit :most
    ) as ended order by at desc
"""
_FACTS = """
    select id as session_id, 'agent version' as kind, source as name, version as value
    from session where id in ({marks})
    union all
    select id, 'prompt', cast(null as text), title from session where id in ({marks})
    union all
    select distinct root_id, 'skill', skill_name, skill_version from skill_invocations
    where root_id in ({marks})
    union all
    select session.id, 'template', cast(null as text),
        case when provision.arm = 'warm' then template.name || ' ' || provision.version
            else 'none' end
    from session join provision on provision.session_key = session.key
    left join template on template.id = provision.template_id
    where session.id in ({marks})
    union all
    select distinct root_id, 'tool failure', coalesce(tool, 'model call'), kind from call_day
    where root_id in ({marks}) and (tool_failures > 0 or failed_turns > 0)
"""
_PARTS = _FACTS.count("{marks}")


def read_job_series(store: Store, job: str, *, most: int) -> list[SeriesRun]:
    """Return the newest runs of a job in the order of their time."""
    found = store.read(
        SeriesRun,
        _SERIES.format(test="and job.full_name = :job", where=""),
        {"job": job, "most": most},
    )
    return found[::-1]


def read_model_series(store: Store, model: str, *, most: int) -> list[SeriesRun]:
    """Return the newest runs on a model, of all jobs, in the order of their time."""
    found = store.read(
        SeriesRun,
        _SERIES.format(test="", where="and model = :model"),
        {"model": model, "most": most},
    )
    return found[::-1]


def read_run_facts(store: Store, sessions: Sequence[int]) -> list[RunFact]:
    """Return what is known about the sessions of some runs."""
    found = []
    for some, marks in divide(sessions):
        found += store.read(RunFact, _FACTS.format(marks=marks), some * _PARTS)
    return found
