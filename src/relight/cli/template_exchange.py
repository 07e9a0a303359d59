"""Templates from recorded sessions by themselves, from files and into files."""

from pathlib import Path

import click

from relight.cli.options import (
    ask,
    current_store,
    json_option,
    print_json,
    relight_command,
    yes_option,
)


@relight_command("auto", example="relight template auto --dry-run")
@click.option("--dry-run", is_flag=True, help="Only tell which sessions would do.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most."
)
@json_option
def auto(dry_run: bool, limit: int, as_json: bool) -> None:
    """Take candidates into use, and make templates of sessions that clear a high bar.

    Known successes of at least 20 messages and 5 calls, of which at most 5 % failed, the newest
    first. What is nearly the same as a template in use is left out, and so is what no room is
    left for: nothing in use has to go. `[templates] auto` in the settings says what an import
    does by itself: candidates, use or off.
    """
    from relight.cli import screen
    from relight.warm.automatic import capture_candidates

    with current_store() as store:
        found = capture_candidates(store, dry_run=dry_run, limit=limit)
        ((good,),) = store.query("select count(*) from session where outcome = 'success'")
    made = [one for one in found if one.template]
    if as_json:
        rows = [
            {
                "session": one.session,
                "template": one.template.name if one.template else None,
                "category": one.template.category if one.template else None,
                "reason": one.reason,
            }
            for one in found
        ]
        print_json({"dry_run": dry_run, "candidates": rows})
        return
    for one in found:
        told = f"→ {one.template.name}" if one.template else f"left out: {one.reason}"
        click.echo(screen.clean(f"{one.session} {told}"))
    click.echo(f"{len(made)} template{'s' * (len(made) != 1)} {'to make' if dry_run else 'made'}")
    if not found:
        known = f"of {good} sessions known to have succeeded" if good else "no success is known:"
        click.echo(f"{known} none clears the bar; `relight label` says how a session went")


@relight_command("export", example="relight template export fix-rounding --to ./templates")
@click.argument("name")
@click.option(
    "--to",
    "place",
    type=click.Path(path_type=Path),
    default=Path(),
    help="A folder, or a file that ends in .json.",
)
def export(name: str, place: Path) -> None:
    """Write a template as a JSON file, unless a secret is found in it."""
    from relight.warm.library import find_template
    from relight.warm.sharing import export_template

    with current_store() as store:
        path = export_template(find_template(store, name), place)
    click.echo(f"wrote {path}")
    click.echo("read it before you share it: paths and names of the session are in it", err=True)


@relight_command("import", example="relight template import fix-rounding.json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="In place of the file's own.")
@yes_option
def import_file(file: Path, name: str | None, yes: bool) -> None:
    """Take in a template from a file, after showing what it says.

    It is text by someone else: read it before you agree.
    """
    from relight.cli import screen
    from relight.cli.template_view import tell_origin, tell_redactions, tell_template
    from relight.warm.injection import render_template
    from relight.warm.sharing import import_template, read_foreign

    with current_store() as store:
        found = read_foreign(store, file, name=name)
        screen.print_text(tell_template(found))
        screen.print_text(tell_redactions(found))
        for line in tell_origin(found):
            screen.print_text(line)
        screen.print_text("\n" + render_template(found) + "\n")
        if not yes:
            ask(f"take in {screen.clean(found.name)}?")
        made = import_template(store, found)
    click.echo(f"{screen.clean(made.name)} is in use")
