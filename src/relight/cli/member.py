from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from relight.cli.options import Answer, confirm, current_store, relight_group, yes_option
from relight.errors import as_typed
from relight.locks import replace_when_whole
from relight.store.members import (
    SCOPES,
    MemberLine,
    add_person,
    find_person,
    make_token,
    revoke_tokens,
)
from relight.store.rights import (
    ROLES,
    Role,
    TapeRead,
    allow_projects,
    deny_projects,
    export_person,
    list_reads,
)
from relight.store.visibility import EVERYTHING
from relight.times import format_minute

scope_option = click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=("push", "read"),
    show_default=True,
    help="What the token allows; may be given more than once. admin allows everything.",
)


class NewToken(Struct, frozen=True):
    """A new token, as `--json` prints it."""

    person: str
    token: str


class RevokedTokens(Struct, frozen=True):
    """The number of tokens of a person that were revoked, as `--json` prints it."""

    person: str
    revoked: int


class MemberList(Struct, frozen=True):
    """All members, as `--json` prints them."""

    members: list[MemberLine]


class ReadList(Struct, frozen=True):
    """Reads of tapes, as `--json` prints them."""

    reads: list[TapeRead]


@relight_group("member", example="relight member add anna")
def command() -> None:
    """Manage the people whose machines push to this store.

    Run it where `relight serve --team` runs. Each machine joins with a token of its person.
    """


@command.plain("add", example="relight member add anna")
@click.argument("name")
@scope_option
def add(name: str, scopes: Sequence[str]) -> Answer:
    """Add a person and print a token, which is shown only now."""
    with current_store() as store:
        add_person(store, name)
        token = make_token(store, name, scopes)
    yield from _print_token(name, token)


@command.plain("token", example="relight member token anna --scope read")
@click.argument("name")
@scope_option
@click.option("--revoke", metavar="ID", help="Revoke a token by its number, or `all`.")
def token(name: str, scopes: Sequence[str], revoke: str | None) -> Answer:
    """Print another token of a person, or revoke one."""
    from relight.text import plural

    if revoke is not None and revoke != "all" and not revoke.isdigit():
        raise click.UsageError("--revoke takes the number of a token, or `all`")
    with current_store() as store:
        if revoke is None:
            yield from _print_token(name, make_token(store, name, scopes))
            return
        count = revoke_tokens(store, name, None if revoke == "all" else int(revoke))
    yield RevokedTokens(name, count)
    click.echo(f"revoked {plural(count, 'token')}")


@command.plain("remove", example="relight member remove anna --yes")
@click.argument("name")
@click.option("--forget", is_flag=True, help="Delete the person and all that was pushed, too.")
@yes_option
def remove(name: str, forget: bool) -> None:
    """Revoke all tokens of a person; what was pushed stays.

    With --forget everything of the person goes for good: tokens, machines, and what they pushed. A
    session that another person pushed too stays as theirs.
    """
    from relight.text import plural

    with current_store() as store:
        if forget:
            from relight.intake.retention import derive_from
            from relight.store.keep.machines import remove_person

            find_person(store, name)
            confirm(f"delete {name} and everything that was pushed?")
            gone = remove_person(store, name, derive_from(store))
            click.echo(f"deleted {name} and {plural(gone, 'session')}")
            return
        confirm(f"revoke all tokens of {name}?")
        count = revoke_tokens(store, name)
    click.echo(f"revoked {plural(count, 'token')} of {name}; what was pushed stays")


project_argument = click.argument("projects", metavar="[PROJECT]...", nargs=-1)
all_option = click.option("--all", "is_all", is_flag=True, help="All projects, also later ones.")


@command.plain("allow", example="relight member allow anna shop --role lead")
@click.argument("name")
@project_argument
@all_option
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="reader",
    show_default=True,
    help="A lead may also label the sessions.",
)
def allow(name: str, projects: Sequence[str], is_all: bool, role: Role) -> None:
    """Let a person see the sessions of projects.

    A project is a folder, or the last part of one. Everybody sees what their own machines pushed.
    """
    with current_store() as store:
        allow_projects(store, name, _choose_projects(projects, is_all=is_all), role=role)
    click.echo(f"{name} sees {'everything' if is_all else ', '.join(projects)}")


@command.plain("deny", example="relight member deny anna shop")
@click.argument("name")
@project_argument
@all_option
def deny(name: str, projects: Sequence[str], is_all: bool) -> None:
    """Take projects from a person, by the names under which they were allowed."""
    from relight.text import plural

    with current_store() as store:
        count = deny_projects(store, name, _choose_projects(projects, is_all=is_all))
    click.echo(f"took {plural(count, 'project')} from {name}")


def _choose_projects(projects: Sequence[str], *, is_all: bool) -> Sequence[str]:
    if is_all == bool(projects):
        raise click.UsageError("name projects, or give --all")
    return [EVERYTHING] if is_all else projects


@command.plain("reads", example="relight member reads anna")
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
def reads(name: str | None, limit: int) -> Answer:
    """List who read which tape on the server, the newest first.

    With a name: the reads of this person, and those of what this person's machines pushed. Reads
    are noted once an hour for each person and session. Commands on the server itself are not.
    """
    from relight.cli import screen

    with current_store() as store:
        found = list_reads(store, name, limit=limit)
    yield ReadList(found)
    screen.print_columns(
        screen.Words("read at", [format_minute(one.read_at, store.timezone) for one in found]),
        screen.Words("person", [one.person for one in found]),
        screen.Words("session", [one.session or "deleted" for one in found]),
    )


@command.plain("export", example="relight member export anna anna.jsonl")
@click.argument("name")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def export(name: str, target: Path) -> None:
    """Write everything that the store has of a person into a file, one row of a table a line.

    It has the account without the hashes of tokens, everything that the person's machines pushed,
    with the texts of tapes, and what the person read.
    """
    import msgspec

    from relight.text import plural

    count = 0
    with current_store() as store, replace_when_whole(target) as file:
        for row in export_person(store, name):
            file.write(msgspec.json.encode(row) + b"\n")
            count += 1
    click.echo(f"wrote {plural(count, 'row')} to {target}")


@command.plain("list", example="relight member list --json")
def list_members() -> Answer:
    """List people, with their tokens, machines and projects."""
    from relight.cli import screen
    from relight.store import members

    with current_store() as store:
        found = members.list_members(store)
    yield MemberList(found)
    if not found:
        click.echo(as_typed("there are no members: relight member add NAME"))
        return
    columns = [screen.Words(name) for name in ("person", "entry", "what", "last push")]
    rows = []
    for one in found:
        for made in one.tokens:
            what = "revoked" if made.revoked_at else made.scopes.replace(" ", ", ")
            used = format_minute(made.used_at, store.timezone)
            rows.append([one.person, f"token {made.token_id}", what, used])
        for machine in one.machines:
            what = f"{machine.share}, {machine.sessions} sessions"
            pushed = format_minute(machine.pushed_at, store.timezone)
            rows.append([one.person, machine.machine, what, pushed])
        for seen in one.projects:
            project = "all projects" if seen.project == EVERYTHING else seen.project
            rows.append([one.person, project, seen.role, ""])
    screen.print_table(columns, rows)


def _print_token(name: str, token: str) -> Answer:
    yield NewToken(name, token)
    click.echo(token)
    click.echo("it is shown only now: put it into a file that only its owner may read", err=True)
