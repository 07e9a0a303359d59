"""The rows that a person sees on a team's server: of their own machines, and of their projects.

There is one rule for each table, and a table without one is hidden. On PostgreSQL the rules are
policies of row-level security, which hold for the role that reads (`postgres_schema`). SQLite has
no such thing: there a reader of a person sees views in the place of the tables, which last as long
as its snapshot. Both read the rules from here.
"""

from msgspec import Struct
from msgspec.structs import asdict

from relight.store.sql import PART_SHIFT, Connection

EVERYTHING = "*"
# each engine puts its own form of the two lists there
OF_PROJECT = "({has_projects} and project {in_projects})"
OF_MACHINE = "({has_machines} and machine_id {in_machines})"
OF_SESSION = "exists (select 1 from session where session.id = {table}.session_id)"
OF_ROOT = "exists (select 1 from session where session.id = {table}.root_id)"
OF_CALL = "exists (select 1 from tool_call where tool_call.id = {table}.call_id)"
OF_TEMPLATE = "exists (select 1 from template where template.id = {table}.template_id)"
OF_PART = "exists (select 1 from tape_part where tape_part.id = {table}.tape_part_id)"
HIDDEN = "1 = 0"
RULES = {
    # the rows that say which project or machine they are of
    **dict.fromkeys(
        (
            "session",
            "session_day",
            "usage_day",
            "call_day",
            "tool_day",
            "position_day",
            "listing",
        ),
        f"({OF_PROJECT} or {OF_MACHINE})",
    ),
    # the rows of a session
    **dict.fromkeys(
        (
            "turn",
            "shared_turn",
            "tool_call",
            "session_hour",
            "control_total",
            "call_latency",
            "call_timing",
            "call_report",
            "session_words",
            "skill_entry",
            "label",
            "limit_report",
            "compaction",
            "cache_rebuild",
            "stumble_reading",
            "search_part",
            "machine_session",
            "told_outcome",
            "run_attempt",
            "score_due",
            "candidate_due",
        ),
        OF_SESSION,
    ),
    "tape_part": f"({OF_SESSION} or {OF_MACHINE})",
    "file_edit": OF_CALL,
    "git_commit": OF_CALL,
    "derive_due": OF_PART,
    "origin": "exists (select 1 from tape_part where tape_part.origin_id = origin.id)",
    # a table on PostgreSQL only
    "search_words": "exists (select 1 from search_part"
    f" where search_part.place = search_words.entry >> {PART_SHIFT})",
    "skill_told": OF_MACHINE,
    "skill_invocations": f"({OF_ROOT} or {OF_MACHINE})",
    "skill_charge": OF_ROOT,
    "skill_run": "exists (select 1 from skill_invocations where skill_invocations.id = use_id)",
    # jobs and their runs, as machines push them
    "run": f"({OF_SESSION} or {OF_MACHINE})",
    "job": f"(exists (select 1 from run where run.job_id = job.id) or {OF_MACHINE})",
    "template": OF_PROJECT,
    "template_version": OF_TEMPLATE,
    "template_word": OF_TEMPLATE,
    "provision": OF_PROJECT,
    "machine": "(id {in_machines} or exists"
    " (select 1 from machine_session where machine_session.machine_id = machine.id))",
    "person": "exists (select 1 from machine where machine.person_id = person.id)",
    # what belongs to no project
    "meta": "key <> 'redaction_key'",
    "price": "1 = 1",
    "model_alias": "1 = 1",
    "stale_day": "1 = 1",
    # the server's own affairs
    **dict.fromkeys(
        (
            "adviser_deal",
            "alarm",
            "budget",
            "canary",
            "canary_deal",
            "experiment",
            "experiment_run",
            # sums of all sessions: who sees some reads single calls
            "failure_day",
            "failure_session",
            "file_mark",
            "forgotten",
            "forgotten_by",
            "job_switch",
            "member",
            "notice",
            "push_due",
            "remote_run",
            "set_aside",
            "tape_read",
            "template_rarity",
            "token",
            "unreadable",
            "warm_plan",
        ),
        HIDDEN,
    ),
}
# The projects of the person `{person}`. The names of all projects are read one by one in the order
# of an index: reading all sessions would take longer than a page.
PROJECTS = f"""
    with recursive known (project) as (
        select min(project) from listing union all
        select (select min(listing.project) from listing where listing.project > known.project)
        from known where known.project is not null
    )
    select distinct known.project from known join member on member.person_id = {{person}}
    where known.project is not null and (member.project in (known.project, '{EVERYTHING}')
        or '/' || member.project
            = substr(known.project, length(known.project) - length(member.project)))
"""
MACHINES = "select id from machine where person_id = {person}"
SEES_ALL = f"select 1 from member where member.person_id = {{person}} and project = '{EVERYTHING}'"


class Viewer(Struct, frozen=True):
    """A person who reads; with `only_own`, nothing but what their machines pushed."""

    person_id: int
    only_own: bool = False


class Lists(Struct, frozen=True):
    """The tests that a value is in a person's projects and machines, in the form of an engine."""

    in_projects: str
    in_machines: str
    has_projects: str
    has_machines: str


VIEWED = Lists(
    in_projects="in (select project from seen_project)",
    in_machines="in (select id from seen_machine)",
    has_projects="1 = 1",
    has_machines="1 = 1",
)


def write_rule(table: str, lists: Lists) -> str:
    """Return the test of the rows of a table that a person sees.

    >>> write_rule("turn", VIEWED)
    'exists (select 1 from session where session.id = turn.session_id)'
    """
    return RULES.get(table, HIDDEN).format(table=table, **asdict(lists))


def narrow(connection: Connection, viewer: Viewer) -> None:
    """Put views of what a person sees in the place of SQLite's tables, until the rollback.

    A name without a schema means the view. The words of the full-text indexes stay as they are:
    every query of them joins a table that is narrowed.
    """
    person = str(viewer.person_id)
    if not viewer.only_own and connection.execute(SEES_ALL.format(person=person)).fetchone():
        return
    objects = connection.execute(
        "select type, name, sql from sqlite_master where sql is not null"
        " and (type = 'view' or type = 'table' and sql like '%strict%') order by type, name"
    ).fetchall()
    connection.execute("create temp table seen_project (project text primary key)")
    connection.execute("create temp table seen_machine (id integer primary key)")
    if not viewer.only_own:
        connection.execute(f"insert into seen_project {PROJECTS.format(person=person)}")
    connection.execute(f"insert into seen_machine {MACHINES.format(person=person)}")
    for kind, name, text in objects:
        if kind == "view":  # its tables are to be those that are narrowed
            connection.execute(text.replace("CREATE VIEW", "create temp view", 1))
        else:
            connection.execute(
                f"create temp view {name} as select * from main.{name} as {name}"
                f" where {write_rule(name, VIEWED)}"
            )
