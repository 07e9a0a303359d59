"""Lists of sessions: searched, filtered, sorted and paged, at the same pace in a large store."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.reports.filters import Filter, escape_like, is_whole, where
from relight.reports.totals import is_priced
from relight.store import Store
from relight.times import write_time

SORTS = {
    "started": "began_at",
    "cost": "cost_nanos",
    "duration": "wall_ms",
    "turns": "turns",
    "tokens": "tokens",
    "failures": "tool_failures",
}
LARGEST_PAGE = 500
COUNTED = 10_000  # beyond it a list has "many": to count them all would read them all
# The beginnings of words are looked up. Some scripts set no spaces between words: what is written
# in them, and signs, is looked for in the whole text.
WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
FOUND = "select rowid from listing_words where listing_words match :words"
CURSOR = re.compile(r"([0-9]{1,19})_(-?[0-9]{1,19})")
MOST = 2**63 - 1  # that a database holds
COLUMNS = (
    "session.source || ':' || session.key, session.source, session.key, title, session.project,"
    " model, started_at, ended_at, session.outcome, session.category, session.score, turns,"
    " tokens, cost_nanos, included_nanos, unpriced_turns, tool_calls, tool_failures, wall_ms,"
    " (select count(*) from session as below where below.root_id = session.id) - 1"
)


class Listing(Struct, frozen=True, kw_only=True):
    """What a list of sessions shows beside the filter of its report; None is any.

    A tool or an experiment named `""` is none: a failed call of the model itself, a session that
    came by itself. `arm` is how a session began, with which version of a template.
    """

    search: str | None = None
    outcome: str | None = None
    category: str | None = None
    failure: str | None = None
    tool: str | None = None
    skill: str | None = None
    job: str | None = None
    template: str | None = None
    version: int | None = None
    arm: str | None = None
    experiment: str | None = None
    sort: str = "started"
    is_ascending: bool = False
    after: str | None = None
    limit: int = 50


def list_sessions(
    store: Store, chosen: Filter | None = None, listing: Listing | None = None
) -> dict[str, Any]:
    """A page of sessions, sub-agents counted in their parents'; `next` asks for the one after it.

    The page after is told by the last row, not by how many to skip: so the last page costs what
    the first does, and a session that comes in meanwhile moves none of the others.
    """
    wanted = listing or Listing()
    if wanted.sort not in SORTS:
        raise RelightError(f"cannot sort by {wanted.sort!r}", f"there are {', '.join(SORTS)}")
    if not 1 <= wanted.limit <= LARGEST_PAGE:
        raise RelightError(f"a page has 1 to {LARGEST_PAGE} sessions", "ask for several pages")
    asked = _read_tests(store, chosen or Filter(), wanted)
    in_days = _count_days(store, asked)
    rows = _read_page(store, wanted, asked, asked.quick) if asked.quick else []
    if len(rows) <= wanted.limit:
        # many sessions are met soon by going through the list, few are sooner looked up in it
        is_looked_up = in_days is not None and in_days <= COUNTED and not asked.rest
        days = asked.days if is_looked_up else [f"+{test}" for test in asked.days]
        rows = _read_page(store, wanted, asked, [*days, *asked.rest])
    has_more = len(rows) > wanted.limit
    shown = rows[: wanted.limit]
    count = len(rows)
    if has_more or wanted.after is not None:
        count = _count(store, asked) if in_days is None or asked.rest else in_days
    return {
        "sessions": [_tell(row[2:]) for row in shown],
        "count": min(count, COUNTED),
        "is_more": count > COUNTED,
        "next": f"{shown[-1][1]}_{shown[-1][0]}" if has_more else None,
    }


def _read_page(
    store: Store, wanted: Listing, asked: "_Tests", tests: Sequence[str]
) -> list[tuple[Any, ...]]:
    by, turn, sign = SORTS[wanted.sort], *(("", ">") if wanted.is_ascending else ("desc", "<"))
    values = dict(asked.values)
    if wanted.after is not None:
        values |= _read_cursor(wanted.after)
        tests = [*tests, f"(listing.{by}, listing.root_id) {sign} (:after_value, :after_id)"]
    page = (
        f"select listing.root_id, listing.{by} as place from listing {_where(tests)}"
        f" order by listing.{by} {turn}, listing.root_id {turn} limit {wanted.limit + 1}"
    )
    return store.query(
        f"select page.root_id, page.place, {COLUMNS} from ({page}) as page"
        " join listing on listing.root_id = page.root_id"
        " join session on session.id = page.root_id"
        f" order by page.place {turn}, page.root_id {turn}",
        values,
    )


def _count(store: Store, asked: "_Tests") -> int:
    """How many there are, up to one more than are counted."""
    days = [f"+{test}" for test in asked.days]
    found = f"select 1 from listing {_where([*days, *asked.rest])} limit {COUNTED + 1}"
    return int(store.query(f"select count(*) from ({found})", asked.values)[0][0])


def _count_days(store: Store, asked: "_Tests") -> int | None:
    """How many sessions the days have, up to one more than are counted; None for all days."""
    if not asked.days:
        return None
    # the sign keeps SQLite from going through all sessions in their own order
    found = f"select distinct +root_id from session_day {asked.in_days} limit {COUNTED + 1}"
    return int(store.query(f"select count(*) from ({found})", asked.values)[0][0])


def count_outcomes(store: Store, chosen: Filter | None = None) -> dict[str, int]:
    """How many sessions succeeded, how many failed, and of how many nobody knows."""
    asked = _read_tests(store, chosen or Filter(), Listing())
    rows = store.query(
        f"select coalesce(outcome, 'unknown'), count(*) from listing {_where(asked.days)}"
        " group by 1",
        asked.values,
    )
    return dict.fromkeys(("success", "failure", "unknown"), 0) | dict(rows)


def _where(tests: Sequence[str]) -> str:
    return f"where {' and '.join(tests)}" if tests else ""


def _read_cursor(text: str) -> dict[str, int]:
    found = CURSOR.fullmatch(text)
    if found is None:
        raise RelightError(f"{text!r} is no place in a list", "leave `after` out to begin anew")
    value, root_id = (max(min(int(one), MOST), -MOST) for one in found.groups())
    return {"after_value": value, "after_id": root_id}


class _Tests(Struct, frozen=True, kw_only=True):
    """The tests of a row of `listing`: those of its days, the rest, and their values by name.

    `quick` are tests that find the newest without looking at all days: what began on the first
    day or later is in them, and whatever else is in them began before it.
    """

    days: list[str]
    in_days: str
    rest: list[str]
    quick: list[str]
    values: dict[str, Any]


def _read_tests(store: Store, chosen: Filter, wanted: Listing) -> _Tests:
    values: dict[str, Any] = {}
    test = _name_values("chosen", chosen, values)
    days = [f"listing.root_id in (select root_id from session_day {test})"] if test else []
    rest = _read_rest(wanted, values) + _memberships(chosen, test, wanted, values)
    quick = []
    is_newest = wanted.sort == "started" and not wanted.is_ascending
    is_open = chosen.until is None and chosen.model is None and chosen.project is None
    if chosen.since is not None and is_newest and is_open:
        quick = ["listing.began_at >= :since_at", *rest]
        values["since_at"] = _find_start(chosen.since, store.timezone)
        if chosen.source is not None:
            quick.append("listing.source = :source")
            values["source"] = chosen.source
    return _Tests(days=days, in_days=test, rest=rest, quick=quick, values=values)


def _name_values(prefix: str, chosen: Filter, values: dict[str, Any]) -> str:
    """The test of a filter, its values added to the others under names of their own."""
    test, given = where(chosen)
    for number, value in enumerate(given):
        test = test.replace("?", f":{prefix}_{number}", 1)
        values[f"{prefix}_{number}"] = value
    return test


def _find_start(day: str, timezone: str) -> int:
    """When a day begins, in Unix milliseconds."""
    from zoneinfo import ZoneInfo

    try:
        begins = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(timezone))
        return round(begins.timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0  # a year that no clock has shown


def _read_rest(wanted: Listing, values: dict[str, Any]) -> list[str]:
    """Tests of the row's own columns: outcome, category and words."""
    tests = []
    for name in ("outcome", "category"):
        if (value := getattr(wanted, name)) is not None:
            tests.append(f"coalesce(listing.{name}, 'unknown') = :{name}")
            values[name] = value
    words = (wanted.search or "").split()[:8]
    known = [word for word in words if WORD.search(word) and not UNSPACED.search(word)]
    if known:
        parts = [part for word in known for part in WORD.findall(word)]
        tests.append(f"listing.root_id in ({FOUND})")
        values["words"] = " AND ".join(f'"{part}"*' for part in parts)
    for number, word in enumerate(word for word in words if word not in known):
        tests.append(f"listing.words like :word_{number} escape '\\'")
        values[f"word_{number}"] = escape_like(word)
    return tests


def _memberships(chosen: Filter, test: str, wanted: Listing, values: dict[str, Any]) -> list[str]:
    """Tests of what is in a session: a failure, a tool, a skill, a job, a template.

    A failure and a skill's use are themselves of the days and the model asked for: a session
    that also used that model has neither by that.
    """
    tests = []
    values |= {name: getattr(wanted, name) for name in ("failure", "tool", "skill", "job")}
    if wanted.failure is not None or wanted.tool is not None:
        failed = "and kind is nullif(:failure, 'unknown') and tool_failures + failed_turns > 0"
        of_tool = "and tool is nullif(:tool, '\"\"')" if wanted.tool else ""
        tests.append(
            f"listing.root_id in (select root_id from call_day {test or 'where 1 = 1'} {of_tool}"
            f" {failed if wanted.failure else ''})"
        )
    if wanted.skill is not None:
        used = _name_values("used", replace(chosen, source=None, project=None), values)
        tests.append(
            "listing.root_id in (select root_id from skill_invocations"
            f" {used or 'where 1 = 1'} and skill_name = :skill)"
        )
    tests += _read_beginning(wanted, values)
    if wanted.job is not None:
        tests.append(
            "listing.root_id in (with own as (select run.id, run.session_id from run"
            " join job on job.id = run.job_id where job.full_name = :job or job.name = :job)"
            " select session_id from own union all"
            " select run_attempt.session_id from run_attempt join own on own.id = run_id)"
        )
    return tests


def _read_beginning(wanted: Listing, values: dict[str, Any]) -> list[str]:
    """The test of how a session began, where that is asked for."""
    columns = {
        "template": "(select name from template where id = template_id)",
        "version": "provision.version",
        "arm": "arm",
        "experiment": "coalesce((select name from experiment where id = experiment_id), '')",
    }
    asked = {name: value for name in columns if (value := getattr(wanted, name)) is not None}
    if not asked:
        return []
    if is_whole(asked.get("experiment", "")):
        asked["experiment"] = asked["experiment"][1:-1]
    values |= asked
    tests = " and ".join(f"{columns[name]} = :{name}" for name in asked)
    return [
        "listing.root_id in (select session.id from provision join session"
        " on session.key = session_key and coalesce(provision.source, session.source)"
        f" = session.source where template_id is not null and {tests})"
    ]


def _tell(row: Sequence[Any]) -> dict[str, Any]:
    (name, source, key, title, project, model, started_at, ended_at, outcome, category) = row[:10]
    (score, turns, tokens, nanos, included, unpriced, calls, failures, wall_ms, below) = row[10:]
    return {
        "session": name,
        "source": source,
        "id": key,
        "title": title,
        "project": project,
        "model": model,
        "started_at": write_time(started_at),
        "ended_at": write_time(ended_at),
        "outcome": outcome or "unknown",
        "category": category,
        "score": score,
        "turns": turns,
        "tokens": tokens,
        "cost_usd": nanos / 1e9 if is_priced(turns, unpriced, nanos) else None,
        "included_usd": included / 1e9,
        "unpriced_turns": unpriced,
        "tool_calls": calls,
        "tool_failures": failures,
        "wall_seconds": wall_ms / 1000,
        "subagents": below,
    }
