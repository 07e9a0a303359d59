from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, json_option, print_json, relight_command, wants_json
from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.reports.doctor import HealthReport, SourceHealth


@relight_command("doctor", example="relight doctor --json")
@click.option("--secrets", is_flag=True, help="Look for secrets in what is recorded.")
@click.option("--deep", is_flag=True, help="Check all tapes, not only some of them.")
@json_option
def command(secrets: bool, deep: bool) -> None:
    """Check the agents found, unreadable files, missing prices, tapes and the database.

    Exits with 1 if the database or a tape is damaged, or if `--secrets` finds one.
    """
    if secrets:
        _look_for_secrets()
        return
    from relight.reports.doctor import examine
    from relight.warm.agents.settings import find_troubles

    with current_store() as store:
        found = examine(store, depth="deep" if deep else "usual", notes=find_troubles())
    if wants_json():
        print_json(found)
    else:
        _print(found)
    if not found.ok:
        raise click.exceptions.Exit(1)


def _look_for_secrets() -> None:
    from relight.cli import screen
    from relight.reports.secrets import StoredSecrets, find_stored_secrets

    with current_store() as store:
        found = find_stored_secrets(store)
    if wants_json():
        print_json(StoredSecrets(found))
    elif found:
        screen.print_columns(
            screen.Words("session", [row.session_id or "unknown" for row in found]),
            screen.Words("rule", [row.rule for row in found]),
            screen.Column("found", [screen.count(row.found) for row in found]),
        )
        screen.print_text(as_typed("→ run `relight rebuild --redact`, which applies today's rules"))
    else:
        screen.print_text("no secret of a known shape is in the record")
    if found:
        raise click.exceptions.Exit(1)


def _describe_folder(source: "SourceHealth") -> str:
    from relight.sources import is_source

    if source.folder:
        return source.folder + ("" if source.found else " (not found)")
    return "named with --from" if is_source(source.source) else "(its package is not installed)"


def _print(found: "HealthReport") -> None:
    from relight.cli import screen

    database = found.database
    screen.print_text(
        f"home {found.home} · database {screen.size(database.bytes)}, schema"
        f" {database.schema}, integrity {database.integrity} · days in {found.timezone}"
    )
    sources = found.sources
    below = [screen.count(one.subagents) for one in sources]
    screen.print_columns(
        screen.Words("source", [one.source for one in sources]),
        screen.Column("files", [screen.count(one.files) for one in sources]),
        screen.Column("sessions", [screen.count(one.sessions) for one in sources]),
        screen.Column("sub-agents", below, is_spare=True),
        screen.Words("folder", [_describe_folder(one) for one in sources], lines=8),
    )
    for line in found.unreadable.recent:
        text = f"unreadable: {line.file} at byte {line.offset}: {line.reason}"
        screen.print_text(text, style="yellow")
    for piece in found.set_aside.pieces:
        place = f"{piece.file} from byte {piece.offset}"
        if piece.part:
            place = f"session {piece.part} in {piece.file}"
        tries = "once" if piece.tries == 1 else f"{piece.tries} times, last by {piece.version}"
        screen.print_text(f"set aside: {place}: {piece.reason} (tried {tries})")
    for damage in found.tapes.damaged:
        place = f"{damage.session_id}: {damage.file} from byte {damage.offset}"
        screen.print_text(f"damaged tape: {place}: {damage.reason}", style="red")
    if labelled := [sign for sign in found.signs if sign.sessions]:
        screen.print_text("signs of an outcome, on the sessions that you labelled:")
        screen.print_columns(
            screen.Words("sign", [sign.kind.replace("_", " ") for sign in labelled]),
            screen.Words("points to", [sign.points_to for sign in labelled]),
            screen.Column("right", [f"{sign.right} of {sign.sessions}" for sign in labelled]),
            screen.Words("decides", ["yes" if sign.decides else "no" for sign in labelled]),
        )
    for advice in found.advice:
        screen.print_text(f"→ {advice}")
    if not found.advice:
        screen.print_text("→ all is well", style="green")
