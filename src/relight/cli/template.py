from pathlib import Path
from typing import Any

import click

from relight.cli.options import (
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
    yes_option,
)
from relight.templates.library import Template, find_template, read_templates, read_versions
from relight.times import write_time

WEAK = "no outcome is known: a score alone ranks a success above a failure in 6 cases of 10"


@relight_group("template", example="relight template auto --dry-run")
def command() -> None:
    """Keep the best part of good sessions, to start others with.

    A template is made only of a session that passes the quality gate and is known to have
    succeeded. Secrets are taken out, and each change is a new version.
    """


@relight_command("create", example="relight template create codex:01a1dd31 --name fix-rounding")
@click.argument("session")
@click.option("--name", metavar="NAME", help="Else made of the task's words.")
@click.option("--description", default="", metavar="TEXT", help="Else the task's first words.")
@click.option("--tags", default="", metavar="T,…", help="Words to choose by.")
@click.option("--project", metavar="P", help="Else the session's own.")
@click.option("--outcome", type=click.Choice(("success", "failure", "unknown")), help="If known.")
@click.option("--force", is_flag=True, help="Take it whatever the gate says; that is kept.")
@json_option
def create(
    session: str,
    name: str | None,
    description: str,
    tags: str,
    project: str | None,
    outcome: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Make a template of a session."""
    from relight.templates.capture import capture_template

    with current_store() as store:
        made = capture_template(
            store,
            session,
            name=name,
            description=description,
            tags=split_words(tags),
            project=project,
            outcome=outcome,
            force=force,
        )
    if as_json:
        print_json(show_template(made))
        return
    click.echo(f"{made.name} version {made.version}: {tell_template(made)}")
    click.echo(tell_redactions(made))
    for rule in made.overruled:
        click.echo(f"overruled by --force: {rule}")


@relight_command("list", example="relight template list --json")
@click.option("--all", "with_retired", is_flag=True, help="With those that are retired.")
@json_option
def list_templates(with_retired: bool, as_json: bool) -> None:
    """List the templates in use."""
    from relight.cli import screen

    with current_store() as store:
        found = read_templates(store, with_retired=with_retired)
    if as_json:
        print_json({"templates": [show_template(one, with_seed=False) for one in found]})
        return
    if not found:
        click.echo("no templates yet; `relight template auto --dry-run` looks for some")
        return
    names = ("name", "category", "outcome", "task")
    columns = [screen.Column(name, is_number=False) for name in names]
    columns += [screen.Column("version"), screen.Column("tokens"), screen.Column("score")]
    rows = [
        [
            one.name + (" (retired)" if one.retired_at else ""),
            one.category,
            one.outcome,
            " ".join(one.task.split())[:80],
            str(one.version),
            screen.count(one.tokens),
            "–" if one.score is None else f"{one.score:.2f}",
        ]
        for one in found
    ]
    screen.print_table(columns, rows)


@relight_command("show", example="relight template show fix-rounding")
@click.argument("name")
@click.option("--version", type=int, help="Else the newest.")
@json_option
def show(name: str, version: int | None, as_json: bool) -> None:
    """Show a template, and the text that a session would get."""
    from relight.cli import screen

    with current_store() as store:
        found = find_template(store, name, version=version)
        versions = [one.version for one in read_versions(store, name)]
    if as_json:
        print_json(show_template(found) | {"versions": versions})
        return
    screen.print_text(f"{found.name} version {found.version} of {len(versions)}", style="bold")
    screen.print_text(found.description)
    screen.print_text(tell_template(found))
    screen.print_text(tell_redactions(found))
    for line in tell_origin(found):
        screen.print_text(line)
    screen.print_text("\n" + render(found))


@relight_command("delete", example="relight template delete fix-rounding")
@click.argument("name")
@yes_option
def delete(name: str, yes: bool) -> None:
    """Delete a template with all its versions."""
    from relight.cli.screen import clean
    from relight.templates.library import delete_template

    with current_store() as store:
        found = find_template(store, name)
        if not yes:
            click.confirm(f"delete {clean(found.name)}?", abort=True, err=True)
        delete_template(store, name)
    click.echo(f"deleted {clean(name)}")


@relight_command("retire", example='relight template retire fix-rounding --why "old layout"')
@click.argument("name")
@click.option("--why", default="a person said so", metavar="TEXT", help="In a few words.")
def retire(name: str, why: str) -> None:
    """Take a template out of use; it is kept."""
    from relight.templates.library import retire_template

    with current_store() as store:
        retire_template(store, name, why=why)
    click.echo(f"{name} is retired; `relight template restore` brings it back")


@relight_command("restore", example="relight template restore fix-rounding")
@click.argument("name")
def restore(name: str) -> None:
    """Bring a retired template back into use."""
    from relight.templates.library import restore_template

    with current_store() as store:
        restore_template(store, name)
    click.echo(f"{name} is in use")


@relight_command("stats", example="relight template stats --json")
@json_option
def stats(as_json: bool) -> None:
    """Show what each version of each template achieved."""
    from relight.cli import screen
    from relight.templates.record import read_stats

    with current_store() as store:
        rows = read_stats(store)
    if as_json:
        print_json({"templates": rows})
        return
    columns = [screen.Column("template", is_number=False)]
    columns += [screen.Column(name) for name in ("version", "warm", "cold", "success", "failure")]
    columns += [screen.Column("unknown"), screen.Column("state", is_number=False)]
    shown = [
        [
            row["template"],
            str(row["version"]),
            *(screen.count(row[name]) for name in ("warm", "cold", "success", "failure")),
            screen.count(row["unknown"]),
            f"retired: {row['retired_why']}" if row["retired_at"] else "live",
        ]
        for row in rows
    ]
    screen.print_table(columns, shown) if shown else click.echo("no templates yet")


@relight_command("auto", example="relight template auto --dry-run")
@click.option("--dry-run", is_flag=True, help="Only tell which sessions would do.")
@click.option("--limit", type=int, default=20, show_default=True, help="How many at most.")
@json_option
def auto(dry_run: bool, limit: int, as_json: bool) -> None:
    """Make templates of sessions that clear a high bar.

    Known successes of at least 20 messages and 5 calls, of which at most 5 % failed, the newest
    first; what is nearly the same as a template in use is left out.
    """
    from relight.cli import screen
    from relight.templates.automatic import capture_candidates

    with current_store() as store:
        found = capture_candidates(store, dry_run=dry_run, limit=limit)
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


@relight_command("export", example="relight template export fix-rounding --to ./templates")
@click.argument("name")
@click.option("--to", "folder", type=click.Path(path_type=Path), default=Path(), help="The folder.")
def export(name: str, folder: Path) -> None:
    """Write a template as a JSON file, unless a secret is found in it."""
    from relight.templates.sharing import export_template

    with current_store() as store:
        path = export_template(find_template(store, name), folder)
    click.echo(f"wrote {path}")


@relight_command("import", example="relight template import fix-rounding.json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="In place of the file's own.")
@yes_option
def import_file(file: Path, name: str | None, yes: bool) -> None:
    """Take in a template from a file, after showing what it says.

    It is text by someone else: read it before you agree.
    """
    from relight.cli import screen
    from relight.templates.sharing import import_template, read_foreign

    with current_store() as store:
        found = read_foreign(store, file, name=name)
        screen.print_text(tell_template(found))
        for line in tell_origin(found):
            screen.print_text(line)
        screen.print_text("\n" + render(found) + "\n")
        if not yes:
            click.confirm(f"take in {screen.clean(found.name)}?", abort=True, err=True)
        made = import_template(store, found)
    click.echo(f"{screen.clean(made.name)} is in use")


def split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def render(template: Template) -> str:
    from relight.templates.injection import render_template

    return render_template(template)


def show_template(template: Template, *, with_seed: bool = True) -> dict[str, Any]:
    left_out = ("id", "actions", "seed", "created_at", "retired_at", "content_hash")
    names = [name for name in template.__struct_fields__ if name not in left_out]
    shown: dict[str, Any] = {name: getattr(template, name) for name in names}
    shown["created_at"] = write_time(template.created_at)
    shown["retired_at"] = write_time(template.retired_at)
    if template.outcome != "success":
        shown["warning"] = WEAK
    if with_seed:
        shown |= {"seed": template.seed, "text": render(template)}
    return shown


def tell_template(template: Template) -> str:
    score = "no score" if template.score is None else f"score {template.score:.2f}"
    told = f"{template.category}, {template.tokens} tokens, {score}, outcome {template.outcome}"
    if template.outcome != "success":
        told += f"\n{WEAK}"
    return told


def tell_redactions(template: Template) -> str:
    if not template.redactions:
        return "redaction took nothing out"
    parts = ", ".join(f"{count} {rule}" for rule, count in sorted(template.redactions.items()))
    return f"redaction took out: {parts}"


def tell_origin(template: Template) -> list[str]:
    lines = []
    if template.source_session:
        lines.append(f"made of {template.source_session}")
    if template.provenance:
        known = ", ".join(f"{name} {value}" for name, value in template.provenance.items())
        lines.append(f"foreign: {known}")
    lines += [f"evidence: {one}" for one in template.evidence]
    lines += [f"overruled by --force: {rule}" for rule in template.overruled]
    if template.retired_at:
        lines.append(f"retired: {template.retired_why}")
    return lines


for sub in (create, list_templates, show, delete, stats, auto, export, import_file):
    command.add_command(sub)
command.add_command(retire)
command.add_command(restore)
