from collections.abc import Sequence

import click
from msgspec import Struct

from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
    yes_option,
)
from relight.store.members import SCOPES, MemberLine

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


class MemberList(Struct, frozen=True):
    """All members, as `--json` prints them."""

    members: list[MemberLine]


@relight_group("member", example="relight member add anna")
def command() -> None:
    """Manage the people whose machines push to this store.

    Run it where `relight serve --team` runs. Each machine joins with a token of its person.
    """


@relight_command("add", example="relight member add anna")
@click.argument("name")
@scope_option
@json_option
def add(name: str, scopes: Sequence[str], as_json: bool) -> None:
    """Add a person and print a token, which is shown only now."""
    from relight.store.members import add_person, make_token

    with current_store() as store:
        add_person(store, name)
        token = make_token(store, name, scopes)
    _print_token(name, token, as_json=as_json)


@relight_command("token", example="relight member token anna --scope read")
@click.argument("name")
@scope_option
@click.option("--revoke", metavar="ID", help="Revoke a token by its number, or `all`.")
@json_option
def token(name: str, scopes: Sequence[str], revoke: str | None, as_json: bool) -> None:
    """Print another token of a person, or revoke one."""
    from relight.store.members import make_token, revoke_tokens
    from relight.text import plural

    if revoke is not None and revoke != "all" and not revoke.isdigit():
        raise click.UsageError("--revoke takes the number of a token, or `all`")
    with current_store() as store:
        if revoke is None:
            _print_token(name, make_token(store, name, scopes), as_json=as_json)
            return
        count = revoke_tokens(store, name, None if revoke == "all" else int(revoke))
    if as_json:
        print_json({"person": name, "revoked": count})
    else:
        click.echo(f"revoked {plural(count, 'token')}")


@relight_command("remove", example="relight member remove anna --yes")
@click.argument("name")
@click.option("--forget", is_flag=True, help="Delete the person and all that was pushed, too.")
@yes_option
def remove(name: str, forget: bool, yes: bool) -> None:
    """Revoke all tokens of a person; what was pushed stays.

    With --forget everything of the person goes for good: tokens, machines, and what they pushed. A
    session that another person pushed too stays as theirs.
    """
    from relight.store.members import find_person, revoke_tokens
    from relight.text import plural

    with current_store() as store:
        if forget:
            from relight.intake.search_filling import derive_from
            from relight.store.keep.machines import remove_person

            find_person(store, name)
            if not yes:
                confirm(f"delete {name} and everything that was pushed?")
            gone = remove_person(store, name, derive_from(store))
            click.echo(f"deleted {name} and {plural(gone, 'session')}")
            return
        if not yes:
            confirm(f"revoke all tokens of {name}?")
        count = revoke_tokens(store, name)
    click.echo(f"revoked {plural(count, 'token')} of {name}; what was pushed stays")


@relight_command("list", example="relight member list --json")
@json_option
def list_members(as_json: bool) -> None:
    """List people, tokens and machines."""
    from relight.cli import screen
    from relight.errors import as_typed
    from relight.store import members

    with current_store() as store:
        found = members.list_members(store)
    if as_json:
        print_json(MemberList(found))
        return
    if not found:
        click.echo(as_typed("there are no members: relight member add NAME"))
        return
    titles = ("person", "token or machine", "what", "last used")
    columns = [screen.Column(name, is_number=False) for name in titles]
    rows = []
    for one in found:
        for made in one.tokens:
            what = "revoked" if made.revoked_at else made.scopes.replace(" ", ", ")
            rows.append([one.person, f"token {made.token_id}", what, made.used_at or "never"])
        for machine in one.machines:
            what = f"{machine.share}, {machine.sessions} sessions"
            rows.append([one.person, machine.machine, what, machine.pushed_at or "never"])
    screen.print_table(columns, rows)


def _print_token(name: str, token: str, *, as_json: bool) -> None:
    if as_json:
        print_json(NewToken(name, token))
        return
    click.echo(token)
    click.echo("it is shown only now: put it into a file that only its owner may read", err=True)


for each in (add, token, remove, list_members):
    command.add_command(each)
