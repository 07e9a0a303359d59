"""Pages and addresses of a server with ten million turns, written straight into its tables."""

import http.client
import random
import time
from pathlib import Path
from typing import Any

from bench.measure import judge
from bench.team.engines import Engine
from bench.team.homes import TeamServer
from bench.web import Addresses, find_addresses, p95, time_one
from bench.web_store import DAY_MS, MODELS, TOOLS, WORDS, write_jobs, write_templates
from relight.store import Store, open_store
from relight.store.derive import rollup
from relight.store.members import add_person, make_token
from relight.store.months import make_months
from relight.store.rights import allow_projects
from relight.store.sql import make_id_table

DAYS, TURNS_EACH, PORTIONS, MACHINES = 365, 20, 20, 8
MONTH_MS, HISTORY_MS = 150.0, 1500.0
# words that make a page read other rows than its default does
ALL = (
    "/",
    "/sessions",
    "/failures",
    "/skills",
    "/jobs",
    "/templates",
    "/api/overview",
    "/api/report",
    "/api/report?by=tool",
    "/api/report?by=project",
    "/api/report?by=person,model",
    "/api/report?by=day,model",
    "/api/sessions?sort=cost",
    "/api/failures",
    "/api/skills/stats",
)


def _choose(among: tuple[str, ...], number: str) -> str:
    """The SQL of one of some texts, chosen by a number."""
    quoted = ", ".join(f"'{one}'" for one in among)
    return f"(array[{quoted}])[1 + mod({number}, {len(among)})]"


SESSIONS = f"""
    insert into session (id, source, key, root_id, project, title, model, started_at, ended_at,
        outcome, outcome_evidence, task_type, category, score, answer, machine_id)
    select id, source, key, id, '/home/dev/project-' || mod(number * 7919, 60),
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
FAILS = "mod(at, 20) = 3"
IS_UNPRICED = "model like 'qwen%'"
TURNS = f"""
    insert into turn (id, session_id, at, day, model, provider, calls, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, usage_status,
        cost_nanos, cost_status, cost_source, duration_ms, failure, failure_text, machine_id)
    select id # number, id, at, {DAY}, model,
        case when model like 'claude%' then 'anthropic' when model like 'gpt%' then 'openai'
            else 'local' end,
        1, 10 + mod(at, 4000), mod(at, 90000), mod(at, 9000), 0, 10 + mod(at, 2500), 'final',
        case when {IS_UNPRICED} then null else 100000 + mod(at, 99999999) end,
        case when {IS_UNPRICED} then 'unknown' else 'estimated' end, 'prices.toml',
        400 + mod(at, 40000), case when mod(at, 250) = 0 then 'rate_limit' end,
        case when mod(at, 250) = 0 then '429 Too Many Requests' end, machine_id
    from (
        select id, number, model, machine_id,
            started_at + (ended_at - started_at) * number / {TURNS_EACH} as at
        from session cross join generate_series(1, {TURNS_EACH}) as number
        where id in (select id from touched)
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
    from turn where session_id in (select id from touched) and mod(id, 2) = 0
"""
USES = f"""
    insert into skill_invocations (session_id, root_id, skill_name, entry, invoked_at, day, model,
        provider, duration_seconds, cost_nanos, cost_status, success, is_told)
    select source || ':' || key, id, 'skill-' || mod(abs(id), 40), 'tool', started_at,
        {DAY.replace("at /", "started_at /")}, model, 'openai', 5 + mod(abs(id), 900),
        1000000 + mod(abs(id), 1000000000), 'estimated', mod(abs(id) / 64, 2), 0
    from session where id in (select id from touched) and mod(id, 4) = 0
"""
CALL_DAYS = (
    f"insert into call_day ({rollup.CALL_KEYS}, tool_calls, tool_failures, failed_turns, last_at)"
    + rollup.CALL_SUMS.format(test="session_id in (select id from touched)")
)
CHOSEN = """
    select id, source, key, root_id, project, title, model, started_at, ended_at, outcome
    from session order by started_at desc limit 40000
"""


def fill(store: Store, turns: int, *, now: int) -> None:
    """Write sessions of a year, twenty turns each, with the roll-ups that pages read."""
    write_sessions(store, turns // TURNS_EACH, now=now)
    for portion in range(PORTIONS):
        write_portion(store, portion)
    write_others(store)


def write_sessions(store: Store, sessions: int, *, now: int) -> None:
    store.run("set synchronous_commit = off")
    with store.transaction() as database:
        divided: Any = database
        months = [now - day * DAY_MS for day in range(-1, DAYS + 2)]
        for table in ("turn", "tool_call"):
            make_months(divided, table, months)
        database.execute(SESSIONS, (now - DAY_MS // 8, sessions, sessions))
    store.run("analyze session")


def write_portion(store: Store, portion: int) -> None:
    """Write the turns, calls, uses of skills and roll-ups of some of the sessions."""
    with store.transaction() as database:
        make_id_table(database, "touched")
        database.execute("delete from touched")
        database.execute(
            "insert into touched select id from session where mod(abs(id) / 16, ?) = ?",
            (PORTIONS, portion),
        )
        database.execute("analyze touched")
        for statement in (TURNS, CALLS, rollup.REFRESH, CALL_DAYS, USES):
            database.execute(statement)


def write_others(store: Store) -> None:
    """Write jobs with their runs, and templates, as many as a single person has."""
    with store.transaction() as database:
        made = database.execute(CHOSEN).fetchall()
        dice = random.Random(3)
        write_jobs(database, dice, made)
        write_templates(database, dice, made)
    store.run("vacuum analyze")


class TokenConnection(http.client.HTTPConnection):
    """A connection that sends a member's token with every request."""

    token = ""

    def endheaders(self, *given: Any, **options: Any) -> None:
        self.putheader("Authorization", f"Bearer {self.token}")
        super().endheaders(*given, **options)


def add_people(store: Store, url: str) -> dict[str, http.client.HTTPConnection]:
    """Two people, one who may see all projects and one with three of them: their connections."""
    rights = {"everything": ["*"], "three projects": [f"project-{one}" for one in (1, 2, 3)]}
    found: dict[str, http.client.HTTPConnection] = {}
    for name, projects in rights.items():
        person = name.replace(" ", "-")
        add_person(store, person)
        allow_projects(store, person, projects)
        connection = TokenConnection(url.removeprefix("http://"), timeout=300)
        connection.token = make_token(store, person, ["read"])
        found[name] = connection
    return found


def measure(
    folder: Path, engine: Engine, *, turns: int, asked: int = 20
) -> list[tuple[str, str, str, str]]:
    """Fill a server, and ask for every page and address as a person who sees everything."""
    folder.mkdir()
    server = TeamServer(folder / "server", engine)
    began = time.perf_counter()
    with open_store(server.home) as store:
        add_machines(store)
        fill(store, turns, now=int(time.time() * 1000))
        size = store.read_size()
    spent = time.perf_counter() - began
    server.start()
    try:
        with open_store(server.home) as store:
            people = add_people(store, server.url)
        rows = [
            (
                f"{turns:,} turns written in {spent:.0f} s",
                f"{size / 1e9:.1f} GB",
                "",
                "",
            )
        ]
        for name, connection in people.items():
            rows += ask_all(connection, find_addresses(server.url, connection)[0], name, asked)
    finally:
        server.stop()
    return rows


def add_machines(store: Store) -> None:
    """Machines of as many people, which the sessions are of."""
    for number in range(MACHINES):
        add_person(store, f"person{number}")
        with store.transaction() as database:
            database.execute(
                "insert into machine (id, key, name, person_id, share, joined_at, labels)"
                " select ?, ?, ?, id, 'tapes', 0, '' from person where name = ?",
                (number + 1, f"machine{number}", f"machine{number}", f"person{number}"),
            )


def ask_all(
    connection: http.client.HTTPConnection, addresses: Addresses, who: str, asked: int
) -> list[tuple[str, str, str, str]]:
    """The time that 95 of 100 requests take at most, for each address made again each time."""
    dice = random.Random(5)
    cases = [(name, make, MONTH_MS, "30 days") for name, make in addresses.items()]
    rows = []
    for name, make, limit, days in cases:
        paths = [make(dice, f"{dice.randint(20, 40)}d") for _ in range(asked)]
        rows.append(time_paths(connection, f"{name}, {days}, {who}", paths, limit))
    for name in ALL:
        path = f"{name}{'&' if '?' in name else '?'}since=all"
        rows.append(
            time_paths(connection, f"{name}, all, {who}", [path] * max(asked // 4, 3), HISTORY_MS)
        )
    return rows


def time_paths(
    connection: http.client.HTTPConnection, name: str, paths: list[str], limit: float
) -> tuple[str, str, str, str]:
    time_one(connection, paths[0], is_forced=True)
    spent = p95([time_one(connection, path, is_forced=True) for path in paths]) * 1000
    return name, f"{spent:.0f} ms", f"{limit:.0f} ms", judge(spent, limit)
