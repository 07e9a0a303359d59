"""Row-level security on PostgreSQL: the role that reads sees the rows of one person.

A reader sets `relight.person` at the beginning of each transaction; without it a read fails.
The owner of the tables, by which the server writes and its own commands read, sees all rows. The
policies are written again by every `relight migrate`, so that they are those of its version.
"""

from relight.errors import RelightError, StoreError
from relight.store.postgres import READER, PostgresConnection
from relight.store.visibility import MACHINES, PROJECTS, SEES_ALL, write_rule

# SQLSTATE of what the user has no right to
NOT_ALLOWED = "42501"
_PERSON = "cast(current_setting('relight.person') as bigint)"
_IS_WIDE = "coalesce(current_setting('relight.only_own', true), '') <> '1'"
# A view reads as its owner, whom no policy holds back. A function alone would be called for each
# row; as a subquery it is called once.
_SEEN = f"""
    create or replace view seen_project as
        select project from ({PROJECTS.format(person=_PERSON)}) as found where {_IS_WIDE};
    create or replace view seen_machine as {MACHINES.format(person=_PERSON)};
    create or replace view seen_all as
        select exists ({SEES_ALL.format(person=_PERSON)}) and {_IS_WIDE} as is_all;
"""
_TABLES = """
    select relname, relkind from pg_class
    where relnamespace = cast(current_schema() as regnamespace) and relkind in ('r', 'p', 'v')
        and not relispartition and relname not like 'seen\\_%'
    order by relname
"""


def protect(connection: PostgresConnection) -> None:
    """Write the policies of all tables, and let the role that reads have them.

    It gets no right to single months of a table: policies are those of the whole.
    """
    connection.execute(_SEEN)
    (schema,) = connection.execute("select quote_ident(current_schema())").fetchone()
    connection.execute(f"grant usage on schema {schema} to {READER}")
    connection.execute(f"grant select on seen_project, seen_machine, seen_all to {READER}")
    for name, kind in connection.execute(_TABLES).fetchall():
        connection.execute(f"grant select on {name} to {READER}")
        if kind == "v":  # it would read as its owner
            connection.execute(f"alter view {name} set (security_invoker = true)")
            continue
        connection.execute(f"alter table {name} enable row level security")
        connection.execute(f"drop policy if exists seen on {name}")
        connection.execute(
            f"create policy seen on {name} for select to {READER}"
            f" using ((select is_all from seen_all) or {write_rule(name)})"
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
