import sys
from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, json_option, print_json, relight_command, wants_json
from relight.errors import as_typed
from relight.store import Store
from relight.text import plural, size

if TYPE_CHECKING:
    from relight.intake.push import PushReport
    from relight.intake.push_preview import DryRun
    from relight.intake.team_client import ServerError


@relight_command("push", example="relight push --dry-run")
@click.option("--watch", is_flag=True, help="Keep pushing what is new, until interrupted.")
@click.option("--dry-run", is_flag=True, help="Show what would leave this machine; send nothing.")
@json_option
def command(watch: bool, dry_run: bool) -> None:
    """Send what is new to the server that this machine has joined.

    Imports do it by themselves. What the server has acknowledged is not sent again, however often
    this is interrupted.
    """
    if watch and dry_run:
        raise click.UsageError("choose one of --watch and --dry-run")
    with current_store() as store:
        if dry_run:
            from relight.intake.push_preview import try_out

            found = try_out(store)
            print_json(found) if wants_json() else _print_dry(found)
        elif watch:
            _watch(store)
        else:
            _push(store)
        if not store.has_rows("session"):
            click.echo(as_typed("nothing is recorded here yet; run `relight import`"), err=True)


def _push(store: "Store") -> None:
    from relight.intake.push import push

    if sys.stderr.isatty():
        from relight.cli.progress import progress_bar

        with progress_bar("pushing") as progress:
            done = push(store, progress=progress)
    else:
        done = push(store)
    if wants_json():
        print_json(done)
    else:
        _print(done)


def _print(done: "PushReport") -> None:
    from relight.cli.screen import clean

    for note in done.notes:
        click.echo(f"warning: {clean(note)}", err=True)
    words = [f"sent {plural(done.sent, 'part')} ({size(done.bytes)})"]
    if done.forgotten:
        words.append(f"{plural(done.forgotten, 'session')} forgotten there")
    if done.known:
        words.append(f"{done.known} known there")
    if done.refused:
        words.append(f"{done.refused} refused: their sessions were forgotten there")
    if done.left_out:
        words.append(f"{done.left_out} not shared")
    if done.pending:
        words.append(f"{done.pending} pending")
    if done.waiting:
        words.append(_describe_waiting(done.waiting))
    click.echo(", ".join(words))


def _describe_waiting(count: int) -> str:
    return f"{plural(count, 'part waits', 'parts wait')} until the project is known"


def _watch(store: "Store") -> None:
    from relight.intake.push import PushReport, watch
    from relight.intake.team_client import ServerError

    def show(found: "PushReport | ServerError") -> None:
        if isinstance(found, ServerError):
            click.echo(f"warning: {found.message}", err=True)
        elif wants_json():
            import msgspec

            click.echo(msgspec.json.encode(found).decode())
        elif isinstance(found, PushReport):
            _print(found)

    watch(store, show)


def _print_dry(found: "DryRun") -> None:
    from relight.cli import screen
    from relight.intake.push import describe_untaped

    click.echo(f"{found.share} for {found.url}; nothing was sent")
    if found.parts:
        parts = found.parts
        screen.print_columns(
            screen.Words("project", [one.project or "unknown" for one in parts]),
            screen.Words("source", [one.source for one in parts], is_name=True),
            screen.Column("sessions", [str(one.sessions) for one in parts]),
            screen.Column("parts", [str(one.parts) for one in parts]),
            screen.Column("size", [size(one.bytes) for one in parts]),
        )
    counts = (
        plural(found.outcomes, "outcome"),
        plural(found.runs, "run of a job", "runs of jobs"),
        plural(found.skill_uses, "recorded use of a skill", "recorded uses of skills"),
        plural(found.forgotten, "forgotten session"),
    )
    click.echo(f"{', '.join(counts)}; {plural(found.left_out, 'part')} not shared")
    if found.waiting:
        click.echo(_describe_waiting(found.waiting))
    if found.without_tape:
        click.echo(describe_untaped(found.without_tape))
