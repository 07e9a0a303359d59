from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from relight.cli.options import (
    Answer,
    confirm,
    current_store,
    name_project,
    relight_group,
    split_words,
    yes_option,
)
from relight.cli.template_lists import list_templates, provisions, stats
from relight.errors import as_typed
from relight.judging.kinds import CATEGORIES, TASK_TYPES
from relight.model import OUTCOMES
from relight.text import plural
from relight.warm.injection import count_tokens, render_template
from relight.warm.library import (
    WARNINGS,
    Template,
    delete_template,
    find_template,
    read_templates,
    read_versions,
    retire_template,
    show_template,
)


@relight_group("template", example="relight template auto --dry-run")
def command() -> None:
    """Manage templates: the best parts of good sessions, to start others with.

    A template is made only of a session that passes the quality gate and is known to have
    succeeded. Secrets are removed, and each change is a new version. Imports propose good
    sessions as candidates, which are not used until you accept them.
    """


def describe_template(template: Template) -> Iterator[str]:
    """Yield a template's category, size and outcome in words, and the secrets removed by rule."""
    yield f"{template.category}, {count_tokens(template):,} tokens, outcome {template.outcome}"
    if warning := WARNINGS.get(template.outcome):
        yield warning
    found = sorted(template.redactions.items())
    parts = ", ".join(f"{count} {rule}" for rule, count in found)
    yield f"redaction removed: {parts}" if found else "redaction removed nothing"


def describe_origin(template: Template) -> Iterator[str]:
    """Yield lines about a template's source, its evidence and its state."""
    if template.source_session:
        yield f"made of {template.source_session}"
    if template.provenance:
        known = ", ".join(f"{name} {value}" for name, value in template.provenance.items())
        yield f"imported: {known}"
    yield from (f"evidence: {one}" for one in template.evidence)
    yield from (f"overruled by --force: {rule}" for rule in template.overruled)
    if template.state == "retired":
        yield f"retired: {template.retired_why}"
    elif template.state == "candidate":
        yield as_typed("a candidate, not used until `relight template accept` takes it")


@command.reading("auto", example="relight template auto --dry-run")
@click.option("--dry-run", is_flag=True, help="Only list the sessions that would do.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most."
)
def auto(dry_run: bool, limit: int) -> Answer:
    """Accept candidates, and make templates of sessions that clear a high bar.

    The bar is a known success, at least 20 messages and 5 calls, and at most 5 % failed calls.
    The newest sessions come first. Sessions nearly the same as a template in use are left out.
    No template in use retires to make room. `[templates] auto` in the settings says what each
    import does: candidates, use or off.
    """
    from relight.cli import screen
    from relight.store.queries.sessions import count_successes
    from relight.warm.candidates import ProposedTemplates, capture_candidates, show_candidate

    with current_store() as store:
        found = capture_candidates(store, dry_run=dry_run, limit=limit)
        good = count_successes(store)
    made = [one for one in found if one.template]
    yield ProposedTemplates(dry_run, [show_candidate(one) for one in found])
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


@command.plain("export", example="relight template export fix-rounding --to ./templates")
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
    from relight.warm.sharing import export_template

    with current_store() as store:
        path = export_template(find_template(store, name), place)
    click.echo(f"wrote {path}")
    click.echo("read it before you share it: paths and names of the session are in it", err=True)


@command.plain("import", example="relight template import fix-rounding.json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Replaces the name in the file.")
@click.option("--force", is_flag=True, help="Also if one in use is nearly the same; recorded.")
@yes_option
def import_file(file: Path, name: str | None, force: bool) -> None:
    """Add a template from a file, after showing its content.

    The text is somebody else's: read it before you agree.
    """
    from relight.cli import screen
    from relight.warm.sharing import import_template, read_template_file

    with current_store() as store:
        found = read_template_file(store, file, name=name)
        for line in (*describe_template(found), *describe_origin(found)):
            screen.print_text(line)
        screen.print_text("\n" + render_template(found) + "\n")
        confirm(f"add {screen.clean(found.name)}?")
        made = import_template(store, found, force=force)
    click.echo(f"{screen.clean(made.name)} is in use")


@command.reading("create", example="relight template create codex:01a1dd31 --name fix-rounding")
@click.argument("session")
@click.option("--name", metavar="NAME", help="By default, words of the task.")
@click.option(
    "--description", default="", metavar="TEXT", help="By default, the first words of the task."
)
@click.option("--tags", default="", metavar="T,…", help="Words to choose by.")
@click.option(
    "--type", "task_type", type=click.Choice(TASK_TYPES), help="By default, what its calls are."
)
@click.option("--category", type=click.Choice(CATEGORIES), help="By default, what its calls are.")
@click.option(
    "--max-examples",
    type=click.IntRange(1),
    metavar="N",
    help="Calls at most; by default, as many as fit.",
)
@click.option("--project", metavar="P", help="By default, the session's.")
@click.option(
    "--task", type=click.IntRange(1), metavar="N", help="Only the session's Nth task, from 1 on."
)
@click.option("--outcome", type=click.Choice(OUTCOMES), help="If known.")
@click.option("--force", is_flag=True, help="Overrule the quality gate; the template records it.")
def create(session: str, tags: str, project: str | None, **wish: Any) -> Answer:
    """Make a template of a session, or one of each of its tasks.

    A session of several tasks, from prompt to prompt, makes one template of each task that is good
    enough; with --name X they are X, X-2, and so on. --task makes one of them alone. A name that is
    taken gets a new version.
    """
    from relight.cli import screen
    from relight.warm.capture import capture_tasks

    with current_store() as store:
        before = {one.name for one in read_templates(store, with_retired=False)}
        place, words = name_project(project), split_words(tags)
        found = capture_tasks(store, session, tags=words, project=place, **wish)
        retired = before - {one.name for one in read_templates(store, with_retired=False)}
    view = replace(show_template(found[0]), made_way=sorted(retired))
    yield replace(view, more=[one.name for one in found[1:]])
    for made in found:
        first, *rest = describe_template(made)
        for line in (f"{made.name} version {made.version}: {first}", *rest):
            screen.print_text(line)
        for rule in made.overruled:
            screen.print_text(f"overruled by --force: {rule}")
    for one in sorted(retired):
        hint = as_typed("`relight template restore` brings it back")
        screen.print_text(f"{one} retired to make room; {hint}")


@command.reading("show", example="relight template show fix-rounding")
@click.argument("name", required=False)
@click.option("--version", type=click.IntRange(1), help="By default, the newest.")
@click.option("--category", type=click.Choice(CATEGORIES), help="The best one of a category.")
@click.option("--project", metavar="P", help="With --category: only of this project.")
def show(
    name: str | None,
    version: int | None,
    category: str | None,
    project: str | None,
) -> Answer:
    """Show a template, and the text that a session gets.

    With --category it is the one in use with the best outcome, then the best results, then the
    highest score.
    """
    from relight.cli import screen
    from relight.warm.listing import load_template

    if (name is None) == (category is None):
        raise click.UsageError("name a template, or a category with --category")
    with current_store() as store:
        place = name_project(project)
        found = load_template(store, name, version=version, category=category, project=place)
        versions = [one.version for one in read_versions(store, found.name)]
    yield replace(show_template(found), versions=versions)
    screen.print_text(f"{found.name} version {found.version} of {len(versions)}", style="bold")
    for line in (found.description, *describe_template(found), *describe_origin(found)):
        screen.print_text(line)
    screen.print_text("\n" + render_template(found))


@command.plain("delete", example="relight template delete fix-rounding")
@click.argument("name")
@yes_option
def delete(name: str) -> None:
    """Delete a template with all its versions."""
    from relight.cli.screen import clean

    with current_store() as store:
        found = find_template(store, name)
        confirm(f"delete {clean(found.name)}?")
        delete_template(store, name)
    click.echo(f"deleted {clean(name)}")


@command.plain("retire", example='relight template retire fix-rounding --why "old layout"')
@click.argument("name")
@click.option("--why", default="a person said so", metavar="TEXT", help="The reason.")
def retire(name: str, why: str) -> None:
    """Take a template out of use, or decline a candidate, without deleting it."""
    from relight.cli.screen import clean

    with current_store() as store:
        retire_template(store, name, why=why)
    hint = as_typed("`relight template restore` brings it back")
    click.echo(f"{clean(name)} is retired; {hint}")


@command.plain("restore", example="relight template restore fix-rounding")
@click.argument("name")
def restore(name: str) -> None:
    """Put a retired template back into use."""
    _take_into_use([name])


@command.plain("accept", example="relight template accept fix-rounding")
@click.argument("names", nargs=-1, required=True)
def accept(names: Sequence[str]) -> None:
    """Put candidates into use; `relight template show` shows their content."""
    _take_into_use(names)


def _take_into_use(names: Sequence[str]) -> None:
    from relight.cli.screen import clean
    from relight.warm.curation import take_into_use
    from relight.warm.results import find_harm

    with current_store() as store:
        for name in names:
            found = find_template(store, name)
            if found.state == "live":
                click.echo(f"{clean(name)} is in use")
                continue
            retired = take_into_use(store, found)
            click.echo(f"{clean(name)} is in use")
            for one in retired:
                click.echo(f"{clean(one.name)} retired to make room")
            if why := find_harm(store, found):
                click.echo(f"it will retire again when it is chosen: {why}", err=True)


for each in (list_templates, stats, provisions):
    command.add_command(each)
