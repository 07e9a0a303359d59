"""A year of a team, written straight into PostgreSQL's tables: ten million turns in minutes.

Triggers and indexes would take most of the time. They are put aside, the rows that triggers write
are written by statements over all sessions, and the indexes are built at the end.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.measure import tree
from bench.web_store import DAY_MS, MODELS, TOOLS, WORDS, write_jobs, write_templates
from relight.intake.importing import import_all
from relight.store import Store
from relight.store.derive import rollup
from relight.store.members import add_person
from relight.store.months import make_months
from relight.store.sql import Connection, make_id_table

DAYS, TURNS_EACH, MACHINES, PROJECTS = 365, 20, 8, 60
FILLED = (
    "session",
    "turn",
    "tool_call",
    "session_day",
    "usage_day",
    "call_day",
    "position_day",
    "session_hour",
    "listing",
    "skill_invocations",
    "skill_run",
)


def _choose(among: tuple[str, ...], number: str) -> str:
    """The SQL of one of some texts, chosen by a number."""
    quoted = ", ".join(f"'{one}'" for one in among)
    return f"(array[{quoted}])[1 + mod({number}, {len(among)})]"


SESSIONS = f"""
    insert into session (id, source, key, root_id, project, title, model, started_at, ended_at,
        outcome, outcome_evidence, task_type, category, score, answer, machine_id)
    select id, source, key, id, '/home/dev/project-' || mod(number * 7919, {PROJECTS}),
        {_choose(WORDS, "number")} || ' ' || {_choose(WORDS, "number / 7")} || ' ' ||
        {_choose(WORDS, "number / 31")}, model, started_at,
        started_at + (20 + mod(number * 37, 3000)) * 1000,
        {_choose(("success", "success", "failure", "unknown"), "number / 3")},
        '["the tests that ran last passed"]', 'code',
        {_choose(("bugfix", "feature", "research", "refactor", "operations"), "number / 5")},
        mod(number, 1000) / 1000.0, 'It is done', machine_id
    from (
        select number, hashtextextended(cast(number as text), 5) as id,
            {_choose(("claude-code", "claude-code", "claude-code", "codex", "hermes"), "number")}
                as source,
            md5(cast(number as text)) as key,
            {_choose(tuple(model for model, _ in MODELS), "number / 2")} as model,
            ? - cast({DAYS * DAY_MS} * (1 - number / cast(? as double precision)) as bigint)
                as started_at,
            1 + mod(number, {MACHINES}) as machine_id
        from generate_series(cast(1 as bigint), ?) as number
    ) as made
"""
DAY = "to_char(to_timestamp(at / 1000) at time zone 'utc', 'YYYY-MM-DD')"
# The number of a turn within its session goes with the session's: by the time alone either many
# calls would fail or none, as the clock has it.
_TURN = "mod(abs(session_id), 1000003) * 31 + mod(id # session_id, 1000) * 7919"
FAILS = f"mod({_TURN}, 20) = 3"
IS_REFUSED = f"mod({_TURN}, 250) = 0"
IS_UNPRICED = "model like 'qwen%'"
TURNS = f"""
    insert into turn (id, session_id, at, day, model, provider, calls, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, usage_status,
        cost_nanos, cost_status, cost_source, duration_ms, failure, failure_text, machine_id)
    select id, session_id, at, {DAY}, model,
        case when model like 'claude%' then 'anthropic' when model like 'gpt%' then 'openai'
            else 'local' end,
        1, 10 + mod(at, 4000), mod(at, 90000), mod(at, 9000), 0, 10 + mod(at, 2500), 'final',
        case when {IS_UNPRICED} then null else 100000 + mod(at, 99999999) end,
        case when {IS_UNPRICED} then 'unknown' else 'estimated' end, 'prices.toml',
        400 + mod(at, 40000), case when {IS_REFUSED} then 'rate_limit' end,
        case when {IS_REFUSED} then '429 Too Many Requests' end, machine_id
    from (
        select id # number as id, id as session_id, model, machine_id,
            started_at + (ended_at - started_at) * number / {TURNS_EACH} as at
        from session cross join generate_series(1, {TURNS_EACH}) as number
    ) as made
"""
CALLS = f"""
    insert into tool_call (id, session_id, turn_id, at, day, finished_at, tool, fingerprint,
        arguments_bytes, result_bytes, exit_code, duration_ms, label, kind, reason, machine_id)
    select id # (cast(1 as bigint) << 40), session_id, id, at + 100, day, at + 400,
        {_choose(TOOLS, "abs(id / 2)")}, id, 10 + mod(at, 300), mod(at, 9000),
        case when {FAILS} then 1 else 0 end, 300, case when {FAILS} then 'error' else 'ok' end,
        case when {FAILS} then
            {_choose(("command_failed", "timeout", "no_match"), "at / 20")} end,
        case when {FAILS} then 'exit code 1' end, machine_id
    from turn where mod(id, 2) = 0
"""
OF_ALL = "session_id in (select id from touched)"
CALL_DAYS = f"insert into call_day ({rollup.CALL_COLUMNS}) {rollup.CALL_SUMS.format(test=OF_ALL)}"
POSITION_DAYS = rollup.ADD_POSITIONS.format(test=OF_ALL)
# the rows that the triggers of `session_day` write
LISTING = """
    insert into listing (root_id, began_at, source, project, words, outcome, category, score,
        parts, turns, unpriced_turns, tokens, cost_nanos, included_nanos, tool_calls,
        tool_failures, wall_ms, machine_id)
    select id, coalesce(started_at, 0), source, project,
        coalesce(title, '') || ' ' || coalesce(project, '') || ' ' || key, outcome, category,
        score, parts, turns, unpriced_turns, tokens, cost_nanos, included_nanos, tool_calls,
        tool_failures, wall_ms, machine_id
    from session join (
        select root_id as summed_id, count(*) as parts, sum(turns) as turns,
            sum(unpriced_turns) as unpriced_turns,
            sum(coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0)
                + coalesce(cache_write_tokens, 0) + coalesce(output_tokens, 0)) as tokens,
            sum(cost_nanos) as cost_nanos, sum(included_nanos) as included_nanos,
            sum(tool_calls) as tool_calls, sum(tool_failures) as tool_failures,
            sum(wall_ms) as wall_ms
        from session_day group by root_id
    ) as summed on summed_id = id
"""
SHARED = """
    update session_day set is_alone = 0 where root_id in (
        select root_id from session_day group by root_id having count(*) > 1
    )
"""
USAGE_DAYS = """
    insert into usage_day (day, source, project, model, provider, machine_id, unknown, parts, turns,
        partial_turns, unpriced_turns, input_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_1h_tokens, output_tokens, reasoning_tokens, cost_nanos, included_nanos,
        tool_calls, tool_failures, wall_ms, sessions, successes, failures, rated_turns,
        rated_unpriced_turns, rated_cost_nanos)
    select * from usage_day_now
"""
USES = f"""
    insert into skill_invocations (session_id, root_id, skill_name, entry, invoked_at, day, model,
        provider, duration_seconds, cost_nanos, cost_status, success, is_told)
    select source || ':' || key, id, 'skill-' || mod(abs(id) / 8, 40), 'tool', started_at,
        {DAY.replace("at /", "started_at /")}, model, 'openai', 5 + mod(abs(id), 900),
        1000000 + mod(abs(id), 1000000000), 'estimated', mod(abs(id) / 64, 2), 0
    from session where mod(id, 4) = 0
"""
STALE_DAYS = """
    insert into stale_day (day) select distinct day from call_day where 1 = 1 on conflict do nothing
"""
RUNS = """
    insert into skill_run (use_id, skill_name, job_id, project, model, success, nanos, last_at)
    select use_id, skill_name, job_id, project, model, success, nanos, last_at from skill_run_now
"""
CHOSEN = """
    select id, source, key, root_id, project, title, model, started_at, ended_at, outcome
    from session order by started_at desc limit 40000
"""
INDEXES = """
    select indexrelid::regclass::text, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')
    from pg_index where indrelid = cast(? as regclass)
        and not exists (select 1 from pg_constraint where conindid = indexrelid)
"""


# A team writes its rows in the order of time; the statements over all sessions do not.
IN_ORDER = ("session_day_by_day", "call_day_by_day", "listing_by_start")


def fill(store: Store, turns: int, *, now: int) -> None:
    """Write a year with jobs, templates and some sessions with words."""
    write_year(store, turns, now=now)
    with store.transaction() as database:
        made = database.execute(CHOSEN).fetchall()
        dice = random.Random(3)
        write_jobs(database, dice, made)
        write_templates(database, dice, made)
    # the end of an import adds up all days
    import_all(store, environment={"HOME": str(tree(10))})
    store.run("vacuum analyze")


def write_year(store: Store, turns: int, *, now: int) -> None:
    """Write sessions of a year, twenty turns each, with all that pages read of them."""
    add_machines(store)
    with store.transaction() as database:
        database.execute("set local work_mem = '256MB'")
        database.execute("set local maintenance_work_mem = '1GB'")
        divided: Any = database
        months = [now - day * DAY_MS for day in range(-1, DAYS + 2)]
        for table in ("turn", "tool_call"):
            make_months(divided, table, months)
        with _without_indexes(database, FILLED):
            _write_rows(database, turns // TURNS_EACH, now=now)
    for index in IN_ORDER:
        store.run(f"cluster {index.partition('_by_')[0]} using {index}")
    store.run("vacuum analyze")


def _write_rows(database: Connection, sessions: int, *, now: int) -> None:
    database.execute(SESSIONS, (now - DAY_MS // 8, sessions, sessions))
    make_id_table(database, "touched")
    database.execute("insert into touched select id from session")
    database.execute("analyze session, touched")
    # a table without statistics would be joined row by row
    for table, statement in (
        ("turn", TURNS),
        ("tool_call", CALLS),
        ("session_day", rollup.REFRESH),
        ("session_day", SHARED),
        ("usage_day", USAGE_DAYS),
        ("session_hour", rollup.ADD_HOURS.format(test=OF_ALL)),
        ("call_day", CALL_DAYS),
        ("stale_day", STALE_DAYS),
        ("position_day", POSITION_DAYS),
        ("listing", LISTING),
        ("skill_invocations", USES),
        ("skill_run", RUNS),
    ):
        database.execute(statement)
        database.execute(f"analyze {table}")


@contextmanager
def _without_indexes(database: Connection, tables: Sequence[str]) -> Iterator[None]:
    """Put triggers and indexes aside, and build the indexes again afterwards."""
    indexes = [row for table in tables for row in database.execute(INDEXES, (table,)).fetchall()]
    for table in tables:
        database.execute(f"alter table {table} disable trigger user")
    for name, _ in indexes:
        database.execute(f"drop index {name}")
    yield
    for _, definition in indexes:
        database.execute(definition)
    for table in tables:
        database.execute(f"alter table {table} enable trigger user")


def add_machines(store: Store) -> None:
    """Add the machines of as many people, which the sessions are of."""
    for number in range(MACHINES):
        add_person(store, f"person{number}")
        with store.transaction() as database:
            database.execute(
                "insert into machine (id, key, name, person_id, share, joined_at, labels)"
                " select ?, ?, ?, id, 'tapes', 0, '' from person where name = ?",
                (number + 1, f"machine{number}", f"machine{number}", f"person{number}"),
            )
