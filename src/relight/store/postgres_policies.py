"""Row-level security on PostgreSQL: the role that reads sees the rows of one person.

A reader sets `relight.person` at the beginning of each transaction; without it a read fails.
The owner of the tables, by which the server writes and its own commands read, sees all rows. The
policies are written again by every `relight migrate`, so that they are those of its version.
"""

import re

from relight.errors import RelightError, StoreError
from relight.store.postgres import READER, PostgresConnection
from relight.store.visibility import Lists, write_rule

# SQLSTATE of what the user has no right to
NOT_ALLOWED = "42501"
# What a person sees is a constant of each plan, so that it is estimated, and found through indexes:
# the planner calls these functions, once for each statement. `seen_person` can differ by the
# transaction, so each policy compares it with what holds then: a plan that was kept for somebody
# else reads nothing. After a transaction with a person the setting is empty, not missing.
# The lists must come from its value alone, for they are not compared.
_SEEN = """
    drop view if exists seen_project, seen_machine, seen_all cascade;
    create or replace function seen_person() returns text language plpgsql immutable
    as $$ begin
        if current_setting('relight.person') = '' then
            raise 'relight.person is not set';
        end if;
        return current_setting('relight.person');
    end $$;
    create or replace function seen_projects(person text) returns text[] language plpgsql immutable
    as $$ begin return (cast(person as text[]))[2]; end $$;
    create or replace function seen_machines(person text) returns bigint[]
    language plpgsql immutable as $$ begin return (cast(person as text[]))[3]; end $$;
"""
# The planner takes a test for null as one that nearly all rows pass, as here.
_IS_OF_PERSON = "(select 1 where current_setting('relight.person') = seen_person()) is not null"
# a person who has no machine, or no project but their own, is spared the test of these
_LISTS = Lists(
    in_projects="= any (seen_projects(seen_person()))",
    in_machines="= any (seen_machines(seen_person()))",
    has_projects="cardinality(seen_projects(seen_person())) > 0",
    has_machines="cardinality(seen_machines(seen_person())) > 0",
)
# Tables that are read by days rather than by session. Their rules ask for the ids of all rows that
# the person sees, once for a statement.
_BY_DAYS = ("session_hour", "skill_invocations", "skill_run")
_LOOKUP = re.compile(r"exists \(select 1 from (\w+) where \1\.id = ([\w.]+)\)")
# It reads as its owner, whom no policy holds back, and so from two indexes alone.
_SESSIONS = f"""
    create index if not exists session_by_machine on session (machine_id, id);
    create or replace view seen_session as
        select id from session where {_IS_OF_PERSON} and project {_LISTS.in_projects} union all
        select id from session where {_IS_OF_PERSON} and machine_id {_LISTS.in_machines};
    grant select on seen_session to {READER};
"""
_TABLES = """
    select relname, relkind from pg_class
    where relnamespace = cast(current_schema() as regnamespace) and relkind in ('r', 'p', 'v')
        and not relispartition and relname <> 'seen_session'
    order by relname
"""


def write_test(table: str) -> str:
    """Return the test of a table's policy.

    >>> write_test("session_hour").partition(" is not null and ")[2]
    'session_hour.session_id in (select id from seen_session)'
    """
    rule = write_rule(table, _LISTS)
    if table in _BY_DAYS:
        rule = _LOOKUP.sub(r"\2 in (select id from \1)", rule)
        rule = rule.replace("from session)", "from seen_session)")
    return f"{_IS_OF_PERSON} and {rule}"


def protect(connection: PostgresConnection) -> None:
    """Write the policies of all tables, and let the role that reads have them.

    It gets no right to single months of a table: policies are those of the whole.
    """
    connection.execute(_SEEN)
    connection.execute(_SESSIONS)
    (schema,) = connection.execute("select quote_ident(current_schema())").fetchone()
    connection.execute(f"grant usage on schema {schema} to {READER}")
    for name, kind in connection.execute(_TABLES).fetchall():
        connection.execute(f"grant select on {name} to {READER}")
        if kind == "v":  # it would read as its owner
            connection.execute(f"alter view {name} set (security_invoker = true)")
            continue
        connection.execute(f"alter table {name} enable row level security")
        connection.execute(f"drop policy if exists seen on {name}")
        connection.execute(
            f"create policy seen on {name} for select to {READER} using ({write_test(name)})"
        )


def make_reader(connection: PostgresConnection) -> None:
    """Make the role that reads, and let this user take it; raise with what to run if it may not."""
    (user,) = connection.execute("select quote_ident(current_user)").fetchone()
    try:
        if not connection.execute("select 1 from pg_roles where rolname = ?", (READER,)).fetchone():
            connection.execute(f"create role {READER} nologin nobypassrls")
        (is_member,) = connection.execute(
            "select pg_has_role(current_user, ?, 'member')", (READER,)
        ).fetchone()
        if not is_member:
            connection.execute(f"grant {READER} to {user}")
    except StoreError as error:
        if getattr(error.__cause__, "sqlstate", None) != NOT_ALLOWED:
            raise
        raise RelightError(
            f"the user of [store] url may not make the role {READER}, which pages read as",
            f"run once as an administrator: create role {READER} nologin; grant {READER} to {user}",
        ) from error
