"""Experiments and their runs, and the sessions that were dealt to arms."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from relight.store import Store
from relight.store.provisions import BEGUN, IS_BEGINNING, JOINED, DealtLesson, read_lessons
from relight.store.sql import Connection, S, column_list, divide, greatest, read_list

_TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


class TrialRun(Struct, frozen=True):
    """One task in one arm. `sessions` are those of all attempts, `session` the one that counts."""

    task: str
    round: int
    arm: str
    status: str
    attempts: int
    session: str | None
    sessions: list[str]
    outcome: str | None
    evidence: list[str]
    template: str | None
    similarity: float | None
    cost_nanos: int | None
    tokens: int | None
    duration_ms: int | None
    started_at: int
    finished_at: int | None

    @property
    def is_settled(self) -> bool:
        """True if the run need not be done again."""
        return self.status in ("done", "skipped")


class RunKey(Struct, frozen=True):
    """The primary key of an experiment's run."""

    experiment_id: int
    task: str
    round: int
    arm: str


class RunRecord(Struct, frozen=True, kw_only=True):
    """The record of a run at its end; `sessions` None leaves the known ones."""

    status: str
    finished_at: int
    session: str | None = None
    sessions: list[str] | None = None
    outcome: str | None = None
    evidence: list[str] = []
    cost_nanos: int | None = None
    tokens: int | None = None
    duration_ms: int | None = None


class DealtFilter(Struct, frozen=True, kw_only=True):
    """A choice of provisions: of one template, in a span of time."""

    template: str | None = None
    since: int = 0
    until: int | None = None


ALL_DEALT = DealtFilter()


class DealtSession(Struct, frozen=True):
    """A session of an arm, with the sums of its turns and its sub-agents' turns."""

    arm: str
    id: int
    outcome: str | None
    started_at: int | None
    ended_at: int | None
    cost_nanos: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    model_ms: int | None
    timed_calls: int
    # the share held out when it was dealt; None if it is unknown
    hold_out: float | None


class DealtCall(Struct, frozen=True):
    """A tool call of a session of an arm."""

    session_id: int
    label: str | None
    kind: str | None
    at: int | None
    finished_at: int | None
    tool: str


class ProvisionCount(Struct, frozen=True):
    """Provisions of one arm, or `abstained`, and the mean tokens of their templates."""

    arm: str
    provisions: int
    mean_tokens: float | None


_THIS_RUN = "experiment_id = :experiment_id and task = :task and round = :round and arm = :arm"
# Sessions of arms with what they spent. A sub-agent's tokens and dollars count for its root; one
# unpriced turn makes the cost unknown.
_SPENT = f"""
    with dealt as ({{dealt}}),
    spent as (
        select root_id, {", ".join(f"sum({name}) as {name}" for name in _TOKENS)},
            case when sum(unpriced_turns) > 0 then null else sum(cost_nanos + included_nanos) end
                as cost_nanos
        from session_day where root_id in (select id from dealt) group by root_id
    ),
    timed as (
        select session_id, sum(duration_ms) as model_ms, count(duration_ms) as timed_calls
        from turn where session_id in (select id from dealt) group by session_id
    )
    select arm, id, outcome, started_at, ended_at, cost_nanos, {", ".join(_TOKENS)}, model_ms,
        coalesce(timed_calls, 0) as timed_calls, hold_out
    from dealt left join spent on spent.root_id = dealt.id
    left join timed on timed.session_id = dealt.id
    order by created_at, id
"""
_SESSION = "session.id, session.outcome, session.started_at, session.ended_at"
# as chance deals them: experiments deal by their tasks
_DEALT = """
    provision.experiment_id is null and provision.created_at >= :since
    and (cast(:until as bigint) is null or provision.created_at < :until)
    and (cast(:template as text) is null
        or template_id = (select id from template where name = :template))
"""


def read_experiment_rows(
    store: Store, shape: type[S], read_plan: Callable[[str], object], name: str | None = None
) -> list[S]:
    """Return all experiments, newest first, or the one of a name; `plan` is its definition."""
    where = "" if name is None else "where name = ?"
    columns = column_list(shape).replace("plan", "definition as plan")
    statement = f"select {columns} from experiment {where} order by created_at desc, id desc"
    return store.read(shape, statement, () if name is None else (name,), {"plan": read_plan})


def read_trial_runs(store: Store, experiment_id: int) -> list[TrialRun]:
    """Return the runs that were begun or skipped, in the order they began."""
    return store.read(
        TrialRun,
        "select * from experiment_run where experiment_id = ? order by started_at, task, arm",
        (experiment_id,),
        {"sessions": read_list, "evidence": read_list},
    )


def insert_experiment(database: Connection, name: str, definition: str, *, now: int) -> bool:
    """Insert an experiment; False if the name is taken."""
    added = database.execute(
        "insert into experiment (name, definition, status, created_at)"
        " values (?, ?, 'stopped', ?) on conflict (name) do nothing",
        (name, definition, now),
    )
    return added.rowcount > 0


def update_definition(store: Store, experiment_id: int, definition: str) -> None:
    """Change the plan of an experiment."""
    store.write("update experiment set definition = ? where id = ?", (definition, experiment_id))


def claim_experiment(database: Connection, experiment_id: int, holder: str) -> None:
    """Set an experiment running; a run that a dead process left counts as interrupted."""
    database.execute(
        "update experiment set status = 'running', note = null, holder = ?, stop = 0,"
        " ended_at = null where id = ?",
        (holder, experiment_id),
    )
    database.execute(
        "update experiment_run set status = 'interrupted'"
        " where experiment_id = ? and status = 'running'",
        (experiment_id,),
    )


def release_experiment(
    store: Store, experiment_id: int, *, status: str, note: str | None, now: int
) -> None:
    """Set the status of an experiment that no process runs any more."""
    store.write(
        "update experiment set status = ?, note = ?, holder = null, lease_until = null,"
        " stop = 0, ended_at = ? where id = ?",
        (status, note, now, experiment_id),
    )


def request_stop(store: Store, experiment_id: int, stop: int) -> None:
    """Ask the process that runs an experiment to stop; the more urgent request wins."""
    statement = f"update experiment set stop = {greatest('stop', ':stop')} where id = :id"
    store.write(statement, {"stop": stop, "id": experiment_id})


def find_stop_request(store: Store, experiment_id: int) -> int | None:
    """Return how an experiment is asked to stop; None if it does not exist."""
    return store.find_first("select stop from experiment where id = ?", (experiment_id,))


def delete_experiment_rows(store: Store, experiment_id: int) -> None:
    """Delete an experiment with its runs."""
    with store.transaction() as database:
        database.execute("delete from experiment_run where experiment_id = ?", (experiment_id,))
        database.execute("delete from experiment where id = ?", (experiment_id,))


def begin_run(
    store: Store,
    key: RunKey,
    *,
    template: str | None,
    similarity: float | None,
    lease_until: int,
    now: int,
) -> None:
    """Record a run before its work begins, and extend the experiment's lease."""
    with store.transaction() as database:
        statement = "update experiment set lease_until = ? where id = ?"
        database.execute(statement, (lease_until, key.experiment_id))
        database.execute(
            "insert into experiment_run (experiment_id, task, round, arm, status, attempts,"
            " sessions, template, similarity, started_at)"
            " values (:experiment_id, :task, :round, :arm, 'running', 0, '[]', :template,"
            " :similarity, :now)"
            " on conflict (experiment_id, task, round, arm) do update set status = 'running',"
            " template = excluded.template, similarity = excluded.similarity,"
            " started_at = excluded.started_at",
            asdict(key) | {"template": template, "similarity": similarity, "now": now},
        )


def add_attempt(store: Store, key: RunKey, session: str | None) -> None:
    """Count an attempt of a run, with its session if that is known."""
    with store.transaction() as database:
        statement = f"select sessions from experiment_run where {_THIS_RUN}"
        (known,) = database.execute(statement, asdict(key)).fetchone()  # no attempt without a run
        sessions = [*read_list(known), *([session] if session else [])]
        database.execute(
            "update experiment_run set attempts = attempts + 1, sessions = :sessions"
            f" where {_THIS_RUN}",
            asdict(key) | {"sessions": msgspec.json.encode(sessions).decode()},
        )


def finish_run(store: Store, key: RunKey, record: RunRecord) -> None:
    """Record the end of a run."""
    sessions = None if record.sessions is None else msgspec.json.encode(record.sessions).decode()
    evidence = msgspec.json.encode(record.evidence).decode()
    store.write(
        "update experiment_run set status = :status, session = :session,"
        " sessions = coalesce(:sessions, sessions), outcome = :outcome, evidence = :evidence,"
        " cost_nanos = :cost_nanos, tokens = :tokens, duration_ms = :duration_ms,"
        f" finished_at = :finished_at where {_THIS_RUN}",
        asdict(record) | asdict(key) | {"sessions": sessions, "evidence": evidence},
    )


def read_dealt_sessions(store: Store, among: DealtFilter) -> list[DealtSession]:
    """Return the sessions that followed provisions with a template, in the order of those."""
    columns = f"{_SESSION}, provision.arm, provision.hold_out, provision.created_at"
    dealt = f"select {columns} {JOINED} and {_DEALT}"
    return store.read(DealtSession, _SPENT.format(dealt=dealt), asdict(among))


def read_lesson_sessions(store: Store, among: DealtFilter) -> list[DealtSession]:
    """Return the sessions that were dealt lessons: `warm` if they got them, `cold` if held out."""
    arm = "case when has_lessons = 1 then 'warm' else 'cold' end as arm"
    columns = f"{_SESSION}, {arm}, lessons_hold_out as hold_out, provision.created_at"
    dealt = f"select {columns} {BEGUN} and has_lessons is not null and {_DEALT}"
    return store.read(DealtSession, _SPENT.format(dealt=dealt), asdict(among))


def read_session_lessons(store: Store, among: DealtFilter) -> dict[int, list[DealtLesson]]:
    """Return the lessons that each of these sessions was dealt."""
    statement = f"select session.id, lessons {BEGUN} and has_lessons is not null and {_DEALT}"
    rows = store.query(statement, asdict(among))
    return {session_id: read_lessons(text) for session_id, text in rows}


def find_dealt_session(store: Store, session_id: int, arm: str) -> DealtSession | None:
    """Return one session as part of an arm, if it is in the store."""
    columns = f"{_SESSION}, cast(? as text) as arm, cast(null as real) as hold_out, 0 as created_at"
    dealt = f"select {columns} from session where session.id = ?"
    return store.find(DealtSession, _SPENT.format(dealt=dealt), (arm, session_id))


def read_dealt_calls(store: Store, sessions: Sequence[int]) -> dict[int, list[DealtCall]]:
    """Return the tool calls of some sessions, in order, by their session."""
    found: dict[int, list[DealtCall]] = {}
    for some, marks in divide(sessions):
        calls = store.read(
            DealtCall,
            f"select * from tool_call where session_id in ({marks})"
            " order by session_id, at nulls first, id",
            some,
        )
        for call in calls:
            found.setdefault(call.session_id, []).append(call)
    return found


def count_dealt(store: Store, among: DealtFilter) -> list[ProvisionCount]:
    """Return how many sessions were dealt to each arm, without experiments and forks."""
    return store.read(
        ProvisionCount,
        "select case when template_id is null then 'abstained' else arm end as arm,"
        " count(*) as provisions, avg(tokens) as mean_tokens"
        f" from provision where {_DEALT} and {IS_BEGINNING} group by 1",
        asdict(among),
    )
