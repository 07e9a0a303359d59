"""The part of the record that a query is about: days, sources, models, projects and jobs."""

import re
from datetime import datetime, timedelta

from msgspec import Struct

from relight.errors import RelightError
from relight.names import find_model_name
from relight.store import Store
from relight.store.jobs import IS_NAMED_AFTER
from relight.store.sql import like
from relight.times import LATEST_MS, find_zone

LONGEST_NAME = 4000  # longer than the path of any folder
# the sessions of jobs: of their runs, of earlier attempts, and those whose run a ledger has lost
JOB_SESSIONS = f"""
    select run.session_id from run join job on job.id = run.job_id
    where job.full_name in ({{names}}) and run.session_id is not null
    union
    select run_attempt.session_id from run_attempt join run on run.id = run_attempt.run_id
    join job on job.id = run.job_id where job.full_name in ({{names}})
    union
    select session.id from job join session on {IS_NAMED_AFTER}
    where job.full_name in ({{names}})
"""

# sessions in a folder or below it
IS_BELOW = like("project || '/'", "?")


# a session with the machine that pushed it and the person of that; without one it is from here
OWNED = """session as about left join machine on machine.id = about.machine_id
    left join person on person.id = machine.person_id"""
MACHINE = "coalesce(machine.name, (select value from meta where key = 'machine_name'), 'here')"
PERSON = "person.name"


class Filter(Struct, frozen=True, kw_only=True):
    """The part of the record that a report covers; days are in the store's time zone.

    A model, project, machine or person is a part of its name; in double quotes it is the whole
    name, and `""` stands for records without one. A project that begins with a slash is this folder
    and all below it. `folders` are those of one project, with all below them; none stands for every
    folder. Jobs are full names; none stands for all sessions.
    """

    since: str | None = None
    until: str | None = None
    source: str | None = None
    model: str | None = None
    project: str | None = None
    folders: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    machine: str | None = None
    person: str | None = None

    @property
    def is_of_days(self) -> bool:
        """True if the sums of days have all that it tests, so that no session is looked at."""
        return not self.jobs and self.machine is None and self.person is None


def where(chosen: Filter) -> tuple[str, list[str]]:
    """Return the `where` clause of a filter and its values, over columns of the same names."""
    tests, values = [], []
    for test, value in (
        ("day >= ?", chosen.since),
        ("day <= ?", chosen.until),
        ("source = ?", chosen.source),
        _test_project(chosen.project),
    ):
        if value is not None:
            tests.append(test)
            values.append(value)
    if chosen.model is not None:
        test, wanted = _test_model(chosen.model)
        tests.append(test)
        values += wanted
    if chosen.folders:
        tests.append(f"({' or '.join(IS_BELOW for _ in chosen.folders)})")
        values += map(_match_below, chosen.folders)
    if chosen.jobs:
        names = ", ".join("?" for _ in chosen.jobs)
        tests.append(f"root_id in ({JOB_SESSIONS.format(names=names)})")
        values += chosen.jobs * JOB_SESSIONS.count("{names}")
    for column, owner in ((MACHINE, chosen.machine), (PERSON, chosen.person)):
        if owner is not None:
            test, name = _test_name(column, owner)
            tests.append(f"root_id in (select about.id from {OWNED} where {test})")
            values.append(str(name))
    return f"where {' and '.join(tests)}" if tests else "", values


def find_first_day(store: Store, chosen: Filter) -> str | None:
    """Return the first day with a record; the word for an unknown day sorts after every day."""
    test, values = where(chosen)
    table = "usage_day" if chosen.is_of_days else "session_day"
    ((first,),) = store.query(f"select min(day) from {table} {test}", values)
    return first if first and first[:1].isdigit() else None


def has_usage(store: Store, chosen: Filter) -> bool:
    """Return False if the sums of days already say that no session passes a filter."""
    test, values = where(chosen)
    if not test or not chosen.is_of_days:
        return True
    return bool(store.query(f"select 1 from usage_day {test} limit 1", values))


def _test_name(column: str, wanted: str | None) -> tuple[str, str | None]:
    if wanted is None or not is_whole(wanted):
        return like(column, "?"), None if wanted is None else escape_like(wanted)
    name = wanted[1:-1]
    return f"{column} = ?" if name else f"coalesce({column}, '') = ?", name


def _test_project(wanted: str | None) -> tuple[str, str | None]:
    if wanted is None or not wanted.startswith("/"):
        return _test_name("project", wanted)
    return IS_BELOW, _match_below(wanted)


def _match_below(folder: str) -> str:
    """Return the pattern of a folder and those below it, but not of one whose name begins alike."""
    return escape_like(f"{folder.rstrip('/')}/").removeprefix("%")


def _test_model(wanted: str) -> tuple[str, list[str]]:
    """Return the test of a model's short name, which any of its full names may select."""
    test, value = _test_name("model", wanted)
    assert value is not None
    if wanted == '""':
        return test, [value]
    full, _ = _test_name("model_alias.model", wanted)
    short = find_model_name(wanted.strip('"'))
    test = f"({test} or model = ? or model in (select name from model_alias where {full}))"
    return test, [value, short, value]


def is_whole(wanted: str) -> bool:
    """True if a filter gives a whole name in quotes, not a part of one."""
    return len(wanted) > 1 and wanted[0] == wanted[-1] == '"'


def escape_like(text: str) -> str:
    """Return the pattern of `like … escape '\\'` that matches any text with this in it.

    Raise if the text is longer than a database takes.
    """
    if len(text) > LONGEST_NAME:
        raise RelightError(
            f"cannot look for a text of {len(text):,} characters",
            f"{LONGEST_NAME:,} are the most: look for a part of it",
        )
    escaped = re.sub(r"([%_\\])", r"\\\1", text)
    return f"%{escaped}%"


def find_day_start(day: str, timezone: str, *, later_days: int = 0) -> int:
    """Return when a day, or one so many days later, begins, in Unix milliseconds."""
    try:
        begins = datetime.fromisoformat(day) + timedelta(days=later_days)
        return round(begins.replace(tzinfo=find_zone(timezone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        # outside of the years of a clock
        return LATEST_MS if later_days else 0
