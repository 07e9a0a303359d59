"""The commands that capture, import and export templates, and a template as text."""

from pathlib import Path

import click

from relight.cli.options import (
    confirm,
    current_store,
    json_option,
    print_json,
    reading_command,
    relight_command,
    yes_option,
)
from relight.errors import as_typed
from relight.warm.library import WARNINGS, Template


def describe_template(template: Template) -> str:
    """Return a template's category, the size of its text, and its outcome in words."""
    from relight.warm.injection import count_tokens

    line = f"{template.category}, {count_tokens(template):,} tokens, outcome {template.outcome}"
    warning = WARNINGS.get(template.outcome)
    return f"{line}\n{warning}" if warning else line


def describe_redactions(template: Template) -> str:
    """Return how many secrets were removed, by rule."""
    if not template.redactions:
        return "redaction removed nothing"
    parts = ", ".join(f"{count} {rule}" for rule, count in sorted(template.redactions.items()))
    return f"redaction removed: {parts}"


def describe_origin(template: Template) -> list[str]:
    """Return lines about a template's source, its evidence and its state."""
    lines = []
    if template.source_session:
        lines.append(f"made of {template.source_session}")
    if template.provenance:
        known = ", ".join(f"{name} {value}" for name, value in template.provenance.items())
        lines.append(f"imported: {known}")
    lines += [f"evidence: {one}" for one in template.evidence]
    lines += [f"overruled by --force: {rule}" for rule in template.overruled]
    match template.state:
        case "retired":
            lines.append(f"retired: {template.retired_why}")
        case "candidate":
            lines.append(as_typed("a candidate, not used until `relight template accept` takes it"))
    return lines


@reading_command("auto", example="relight template auto --dry-run")
@click.option("--dry-run", is_flag=True, help="Only list the sessions that would do.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most."
)
@json_option
def auto(dry_run: bool, limit: int, as_json: bool) -> None:
    """Accept candidates, and make templates of sessions that clear a high bar.

    The bar is a known success, at least 20 messages and 5 calls, and at most 5 % failed calls.
    The newest sessions come first. Sessions nearly the same as a template in use are left out.
    No template in use retires to make room. `[templates] auto` in the settings says what each
    import does: candidates, use or off.
    """
    from relight.cli import screen
    from relight.store.queries.sessions import count_successes
    from relight.text import plural
    from relight.warm.candidates import capture_candidates

    with current_store() as store:
        found = capture_candidates(store, dry_run=dry_run, limit=limit)
        good = count_successes(store)
    made = [one for one in found if one.template]
    if as_json:
        rows = [
            {
                "session_id": one.session,
                "template": one.template.name if one.template else None,
                "category": one.template.category if one.template else None,
                "reason": one.reason,
            }
            for one in found
        ]
        print_json({"dry_run": dry_run, "candidates": rows})
        return
    results = (
        f"{one.session} → {one.template.name}"
        if one.template
        else f"{one.session} left out: {one.reason}"
        for one in found
    )
    for line in dict.fromkeys(results):  # several tasks of one session may share their reason
        click.echo(screen.clean(line))
    click.echo(f"{plural(len(made), 'template')} {'to make' if dry_run else 'made'}")
    if not found:
        known = "no success is known:"
        if good:
            known = f"of {plural(good, 'session')} known to have succeeded"
        click.echo(as_typed(f"{known} none clears the bar; `relight label` sets an outcome"))


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
@click.option("--name", metavar="NAME", help="Replaces the name in the file.")
@click.option("--force", is_flag=True, help="Also if one in use is nearly the same; recorded.")
@yes_option
def import_file(file: Path, name: str | None, force: bool, yes: bool) -> None:
    """Add a template from a file, after showing its content.

    The text is somebody else's: read it before you agree.
    """
    from relight.cli import screen
    from relight.warm.injection import render_template
    from relight.warm.sharing import import_template, read_template_file

    with current_store() as store:
        found = read_template_file(store, file, name=name)
        screen.print_text(describe_template(found))
        screen.print_text(describe_redactions(found))
        for line in describe_origin(found):
            screen.print_text(line)
        screen.print_text("\n" + render_template(found) + "\n")
        if not yes:
            confirm(f"add {screen.clean(found.name)}?")
        made = import_template(store, found, force=force)
    click.echo(f"{screen.clean(made.name)} is in use")
