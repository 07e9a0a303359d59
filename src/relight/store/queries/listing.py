"""Lists of sessions: searched, filtered, sorted and paged, as fast in a large store as in a small.

A page is found by the last row before it, not by a number of rows to skip. So the last page costs
what the first one does, and a session that arrives meanwhile moves no other.
"""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.model import WHOLE_TOKENS
from relight.store import Store
from relight.store.derive.pricing import NAMED
from relight.store.provisions import JOINED
from relight.store.queries.costs import KNOWN_COST
from relight.store.queries.filters import Filter, escape_like, find_day_start, is_whole, where
from relight.store.sql import add_up, like, read_list, read_seconds, read_usd
from relight.times import write_time

SORTS = {
    "started": "began_at",
    "cost": "cost_nanos",
    "duration": "wall_ms",
    "turns": "turns",
    "tokens": "tokens",
    "failures": "tool_failures",
}
COUNTED = 10_000  # the count stops here: an exact one would read every row
MOST_WORDS = 8
# The index of words finds beginnings of words. Scripts without spaces between words, and signs,
# are searched for in the whole text.
WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
NAME = "{0}.source || ':' || {0}.key"
COLUMNS = f"""
    {NAME.format("session")} as session_id, session.source, title, session.project, branch,
    {NAMED.format("session.model")} as model, started_at, ended_at,
    coalesce(session.outcome, 'unknown') as outcome, session.points_to, outcome_evidence,
    {KNOWN_COST.format("turns", "unpriced_turns", "cost_nanos")} as cost_usd,
    included_nanos as included_usd, unpriced_turns, turns, tokens, tool_calls, tool_failures,
    wall_ms as wall_seconds, session.category, session.score,
    case when session.id = session.root_id then
        (select count(*) from session as below where below.root_id = session.id) - 1
        else 0 end as subagents,
    case when session.parent_kind = 'subagent' then
        (select {NAME.format("above")} from session as above where above.id = session.parent_id)
        end as parent_session_id,
    session.key
"""
# The rows of `listing` with those of sub-agents, each with its own figures. `top_id` is the session
# that tests of a whole session are about.
SINGLE = f"""(
    select session.id as root_id, session.root_id as top_id, coalesce(started_at, 0) as began_at,
        session.source, session.project,
        coalesce(title, '') || ' ' || coalesce(session.project, '') || ' ' || key as words,
        session.outcome, category, sum(turns) as turns, sum(unpriced_turns) as unpriced_turns,
        sum({add_up(WHOLE_TOKENS)}) as tokens, sum(cost_nanos) as cost_nanos,
        sum(included_nanos) as included_nanos, sum(tool_calls) as tool_calls,
        sum(tool_failures) as tool_failures, max(coalesce(ended_at - started_at, 0)) as wall_ms
    from session join session_day on session_day.session_id = session.id
    group by session.id, session.root_id, started_at, session.source, session.project, title, key,
        session.outcome, category
)"""

Value = str | int | None


class Listing(Struct, frozen=True, kw_only=True):
    """The sessions that a list shows, beside its `Filter`, and their order; None is any.

    A tool, label or experiment `""` stands for none: a failed call of the model itself, a session
    that no person labelled, one outside of experiments. `arm` is how a session began, with this
    version of a template. With sub-agents each of them is a row, and every row has its own figures
    alone.
    """

    search: str | None = None
    outcome: str | None = None
    label: str | None = None
    category: str | None = None
    failure: str | None = None
    tool: str | None = None
    skill: str | None = None
    job: str | None = None
    template: str | None = None
    version: int | None = None
    arm: str | None = None
    experiment: str | None = None
    with_subagents: bool = False
    sort: str = "started"
    is_ascending: bool = False
    after: str | None = None
    limit: int = 50


class SessionLine(Struct, frozen=True):
    """A session of a list, with its sub-agents counted in.

    `points_to` is the outcome that all signs about an unknown one agree on; they prove nothing.
    """

    session_id: str
    source: str
    title: str | None
    project: str | None
    branch: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    points_to: str | None
    outcome_evidence: list[str]
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    turns: int
    tokens: int
    tool_calls: int
    tool_failures: int
    wall_seconds: float
    category: str | None
    score: float | None
    subagents: int
    parent_session_id: str | None


class ListingRow(SessionLine, frozen=True):
    """A session's line, with its value of the sort and its row, which are the page's cursor."""

    key: str
    place: int
    root_id: int


class ListingTests(Struct, frozen=True, kw_only=True):
    """The tests of a row of `listing`: those of its days, the rest, and their values by name.

    `quick` are tests that find the newest sessions without reading all days: sessions that began
    on the first day or later pass them, and all others in these days began earlier.
    """

    days: list[str]
    in_days: str
    rest: list[str]
    quick: list[str]
    values: dict[str, Value]
    table: str


def select_sessions(store: Store, chosen: Filter, wanted: Listing) -> ListingTests:
    """Return the tests that the sessions of a list must pass."""
    values: dict[str, Value] = {}
    test = _name_values("chosen", chosen, values)
    by = "session_id" if wanted.with_subagents else "root_id"
    days = [f"listing.root_id in (select {by} from session_day {test})"] if test else []
    contents = _test_contents(chosen, test, wanted, values)
    if wanted.with_subagents:
        contents = [test.replace("listing.root_id", "listing.top_id") for test in contents]
    rest = _test_columns(store, wanted, values) + contents
    quick = []
    is_newest = wanted.sort == "started" and not wanted.is_ascending
    is_open = replace(chosen, since=None, source=None, jobs=()) == Filter()
    if chosen.since is not None and is_newest and is_open and not wanted.with_subagents:
        quick = ["listing.began_at >= :since_at", *rest]
        values["since_at"] = find_day_start(chosen.since, store.timezone)
        if chosen.source is not None:
            quick.append("listing.source = :source")
            values["source"] = chosen.source
    table = f"{SINGLE} as listing" if wanted.with_subagents else "listing"
    return ListingTests(days=days, in_days=test, rest=rest, quick=quick, values=values, table=table)


def read_page(
    store: Store,
    wanted: Listing,
    asked: ListingTests,
    after: tuple[int, int] | None,
    *,
    way: str,
) -> list[ListingRow]:
    """Return a page of sessions and one more, if there is one, after a place and root.

    The way is `quick`, or `lookup` (from the days to the list), or `scan` (through the list).
    """
    tests = {
        "quick": asked.quick,
        "lookup": [*asked.days, *asked.rest],
        "scan": [*_unindexed(asked), *asked.rest],
    }[way]
    by, turn, sign = SORTS[wanted.sort], *(("", ">") if wanted.is_ascending else ("desc", "<"))
    values = dict(asked.values)
    if after is not None:
        values |= {"after_value": after[0], "after_id": after[1]}
        tests = [*tests, f"(listing.{by}, listing.root_id) {sign} (:after_value, :after_id)"]
    page = (
        f"select listing.root_id, listing.{by} as place from {asked.table} {_where(tests)}"
        f" order by listing.{by} {turn}, listing.root_id {turn} limit {wanted.limit + 1}"
    )
    return store.read(
        ListingRow,
        f"select {COLUMNS}, page.place, page.root_id from ({page}) as page"
        f" join {asked.table} on listing.root_id = page.root_id"
        " join session on session.id = page.root_id"
        f" order by page.place {turn}, page.root_id {turn}",
        values,
        {
            "started_at": write_time,
            "ended_at": write_time,
            "cost_usd": read_usd,
            "included_usd": read_usd,
            "wall_seconds": read_seconds,
            "outcome_evidence": read_list,
        },
    )


def count_listed(store: Store, asked: ListingTests) -> int:
    """Return how many sessions pass the tests; one more than `COUNTED` stands for many."""
    tests = [*_unindexed(asked), *asked.rest]
    found = f"select 1 from {asked.table} {_where(tests)} limit {COUNTED + 1}"
    return int(store.query(f"select count(*) from ({found}) as found", asked.values)[0][0])


def count_in_days(store: Store, asked: ListingTests) -> int | None:
    """Return how many sessions the days have, counted as `count_listed` does; None for all days."""
    if not asked.days or asked.table != "listing":
        return None
    # without the sign SQLite would go through all sessions in their own order
    found = f"select distinct +root_id from session_day {asked.in_days} limit {COUNTED + 1}"
    return int(store.query(f"select count(*) from ({found}) as found", asked.values)[0][0])


def count_unlabelled(store: Store, chosen: Filter, unknown: int | None = None) -> int:
    """Return how many sessions of these days have no outcome, and no label that says so.

    `unknown` is the number without an outcome, where it is known: labels are fewer than sessions.
    """
    if unknown is None:
        asked = select_sessions(store, chosen, Listing(outcome="unknown", label='""'))
        test = _where([*asked.days, *asked.rest])
        return int(store.query(f"select count(*) from listing {test}", asked.values)[0][0])
    test, values = where(chosen)
    days = f"{test} and" if test else "where"
    rows = store.query(
        # a cross join keeps SQLite from going through all sessions
        "select count(*) from label cross join listing where listing.root_id = label.session_id"
        " and coalesce(listing.outcome, 'unknown') = 'unknown' and exists"
        f" (select 1 from session_day {days} session_day.root_id = label.session_id)",
        values,
    )
    return unknown - int(rows[0][0])


def _where(tests: Sequence[str]) -> str:
    return f"where {' and '.join(tests)}" if tests else ""


def _unindexed(asked: ListingTests) -> list[str]:
    """Return the tests of the days with a sign that keeps SQLite from using an index for them.

    Words of each session are read for a person who sees some only, to whom PostgreSQL does not
    show their index. So it reads those of the days, which the cast does not keep it from.
    """
    if "words" in asked.values:
        name = "listing.root_id"
        return [test.replace(name, f"cast({name} as bigint)", 1) for test in asked.days]
    return [f"+{test}" for test in asked.days]


def _name_values(prefix: str, chosen: Filter, values: dict[str, Value]) -> str:
    """Return the test of a filter, with its values added to the others under this prefix."""
    test, given = where(chosen)
    for number, value in enumerate(given):
        test = test.replace("?", f":{prefix}_{number}", 1)
        values[f"{prefix}_{number}"] = value
    return test


def _test_columns(store: Store, wanted: Listing, values: dict[str, Value]) -> list[str]:
    """Return the tests of the row itself: outcome, category and words."""
    tests = []
    for name in ("outcome", "category"):
        if (value := getattr(wanted, name)) is not None:
            tests.append(f"coalesce(listing.{name}, 'unknown') = :{name}")
            values[name] = value
    if wanted.label is not None:
        label = "(select outcome from label where session_id = listing.root_id)"
        tests.append(f"coalesce({label}, '') = :label")
        values["label"] = "" if wanted.label == '""' else wanted.label
    words = (wanted.search or "").split()[:MOST_WORDS]
    indexed = [word for word in words if WORD.search(word) and not UNSPACED.search(word)]
    if wanted.with_subagents:
        indexed = []  # the index has no words of sub-agents
    if indexed:
        parts = [part for word in indexed for part in WORD.findall(word)]
        from relight.store.search_index import match_listing

        test, values["words"] = match_listing(store, parts)
        tests.append(test)
    for number, word in enumerate(word for word in words if word not in indexed):
        tests.append(like("listing.words", f":word_{number}"))
        values[f"word_{number}"] = escape_like(word)
    return tests


def _test_contents(
    chosen: Filter, test: str, wanted: Listing, values: dict[str, Value]
) -> list[str]:
    """Return the tests of what a session has: a failure, a tool, a skill, a job, a template.

    A failure and a skill's use must themselves be of the filter's days and model. That another
    part of the session is of these is not enough.
    """
    tests = []
    values |= {name: getattr(wanted, name) for name in ("failure", "tool", "skill", "job")}
    if wanted.failure is not None or wanted.tool is not None:
        kind = "kind is null" if wanted.failure == "unknown" else "kind = :failure"
        tool = "tool is null" if wanted.tool == '""' else "tool = :tool"
        failed = f"and {kind} and tool_failures + failed_turns > 0" if wanted.failure else ""
        tests.append(
            f"listing.root_id in (select root_id from call_day {test or 'where 1 = 1'}"
            f" {f'and {tool}' if wanted.tool else ''} {failed})"
        )
    if wanted.skill is not None:
        used = _name_values("used", replace(chosen, source=None, project=None), values)
        tests.append(
            "listing.root_id in (select root_id from skill_invocations"
            f" {used or 'where 1 = 1'} and skill_name = :skill)"
        )
    tests += _test_beginning(wanted, values)
    if wanted.job is not None:
        tests.append(
            "listing.root_id in (with own as (select run.id, run.session_id from run"
            " join job on job.id = run.job_id where job.full_name = :job or job.name = :job)"
            " select session_id from own union all"
            " select run_attempt.session_id from run_attempt join own on own.id = run_id)"
        )
    return tests


def _test_beginning(wanted: Listing, values: dict[str, Value]) -> list[str]:
    """Return the test of how a session began, if the list asks for that."""
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
    # a fork counts for its parent in the figures that lead here
    return [f"listing.root_id in (select session.id {JOINED} and {tests})"]
