"""The commands that list templates, their results, and the sessions they were chosen for."""

from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import Answer, current_store, name_project, reading_command, split_words
from relight.errors import as_typed
from relight.judging.kinds import CATEGORIES, TASK_TYPES

if TYPE_CHECKING:
    from relight.cli.screen import Column
    from relight.warm.results import TemplateStats, TemplateTotals

SORTS = ("newest", "best")


@reading_command("list", example="relight template list --category coding --sort best")
@click.option("--all", "with_all", is_flag=True, help="With candidates and retired ones.")
@click.option("--candidates", is_flag=True, help="Only candidates.")
@click.option("--type", "task_type", type=click.Choice(TASK_TYPES), help="Only of this task type.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Only of this category.")
@click.option("--tags", default="", metavar="T,…", help="Only with all of these tags.")
@click.option(
    "--max-examples", type=click.IntRange(0), metavar="N", help="Only with at most so many calls."
)
@click.option("--project", metavar="P", help="Only of projects with this in their folder.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="newest", show_default=True, help="The order."
)
def list_templates(
    with_all: bool, candidates: bool, tags: str, project: str | None, **given: Any
) -> Answer:
    """List the templates in use, newest first.

    `tokens` is what a session gets, and `calls` are the examples in it. The best are those with
    the best outcome, then the best results, then the highest score.
    """
    from relight.cli import screen
    from relight.cli.job_tables import format_time
    from relight.text import plural
    from relight.warm.library import TemplateList, count_examples, read_candidates, show_template
    from relight.warm.listing import list_templates

    with current_store() as store:
        waiting = len(read_candidates(store))
        shown = list_templates(
            store,
            state="all" if with_all else "candidate" if candidates else "live",
            tags=split_words(tags),
            project=name_project(project),
            **given,
        )
        timezone = store.timezone
    views = [show_template(one, with_seed=False) for one in shown]
    yield TemplateList(views, candidates=waiting)
    kinds = [*(["state"] if with_all else []), "category", "type", "outcome"]
    field = {"type": "task_type"}
    words = [
        screen.Words(
            kind,
            [getattr(one, field.get(kind, kind)) for one in shown],
            is_spare=kind == "type",
            colour=screen.colour_state,
        )
        for kind in kinds
    ]
    calls = [screen.count(count_examples(one)) for one in shown]
    made = [format_time(view.created_at, timezone)[:10] for view in views]
    columns = [
        screen.Column("name", [one.name for one in shown], is_name=True),
        *words,
        screen.Column("calls", calls, is_spare=True, drop=1),
        screen.Column("tokens", [screen.count(view.tokens) for view in views]),
        screen.Column("made", made, is_spare=True, drop=2),
    ]
    narrowing = (given["task_type"], given["category"], tags, project)
    is_narrowed = any(narrowing) or given["max_examples"] is not None
    if shown:
        screen.print_columns(*columns)
    elif is_narrowed:
        click.echo(as_typed("no template matches; `relight template list --all` shows all"))
    elif candidates:
        click.echo(as_typed("no candidates wait; `relight template auto --dry-run` looks for some"))
    elif not waiting:
        click.echo(as_typed("no templates yet; `relight template auto --dry-run` looks for some"))
    if waiting and not with_all and not candidates:
        some = plural(waiting, "candidate waits", "candidates wait")
        click.echo(as_typed(f"{some} to be accepted: `relight template list --candidates`"))


@reading_command("stats", example="relight template stats --json")
def stats() -> Answer:
    """Show the results of each version of each template, and totals by task type.

    `warm` sessions began with the template, `cold` ones were held out from it. Outcomes are those
    of warm sessions. `unused` are decisions that no recorded session followed.
    """
    from relight.cli import screen
    from relight.warm.results import read_template_stats

    with current_store() as store:
        found = read_template_stats(store)
    yield found
    if not found.templates and not found.types:
        click.echo("no templates yet")
        return
    columns = [screen.Column("template", is_name=True), screen.Column("v.")]
    columns += _list_counts()
    columns += [screen.Words("state", is_name=True, colour=screen.colour_state)]
    shown = [
        [
            row.template,
            str(row.version),
            *map(screen.count, (row.warm, row.cold, row.success, row.failure, row.unknown)),
            screen.count(row.unfollowed),
            "retired" if row.retired_at else "live",
        ]
        for row in found.templates
    ]
    if shown:
        screen.print_table(columns, shown)
        for name, why in {row.template: row.retired_why for row in found.templates}.items():
            if why:
                screen.print_text(f"{name} is retired: {why}", style="dim")
        click.echo()
    _print_types(found)


def _list_counts() -> "list[Column]":
    from relight.cli.screen import Column, colour_failures

    columns = [Column(name) for name in ("warm", "cold", "ok")]
    columns += [Column("failed", colour=colour_failures)]
    return [*columns, *(Column(name, is_spare=True) for name in ("unkn.", "unused"))]


def _print_types(found: "TemplateStats") -> None:
    from relight.cli import screen

    columns: list[screen.Column] = [screen.Words("type")]
    columns += [screen.Column(name) for name in ("in use", "waiting", "retired", "calls")]

    def count_all(one: "TemplateTotals") -> list[str]:
        counted = (one.live, one.candidates, one.retired, one.examples, one.warm, one.cold)
        known = (one.successes, one.failures, one.unknown, one.unfollowed)
        return [screen.count(number) for number in (*counted, *known)]

    screen.print_table(
        [*columns, *_list_counts()],
        [[one.task_type, *count_all(one)] for one in found.types],
        total=["all", *count_all(found.total)],
    )


@reading_command("provisions", example="relight template provisions --template fix-rounding")
@click.option("--template", metavar="NAME", help="Only those for which it was chosen.")
@click.option(
    "--arm", type=click.Choice(("warm", "cold", "continued")), help="Only those that began so."
)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many."
)
def provisions(**given: Any) -> Answer:
    """List the latest decisions how sessions began, newest first, with their reasons.

    A session is warm if it got a template. It is cold if it was held out from one, or if none was
    like its task. A fork or resumed session is continued: the arm of its earlier session counts.
    """
    from relight.cli import screen
    from relight.cli.job_tables import format_time
    from relight.reports.sessions import shorten_names
    from relight.warm.listing import list_provisions

    with current_store() as store:
        found = list_provisions(store, **given)
        short = shorten_names(store, [one.session_id for one in found.provisions])
        timezone = store.timezone
    yield found
    if not found.provisions:
        click.echo(as_typed("no session was provisioned yet; `relight warm --install` begins it"))
        return
    rows = found.provisions
    templates = [one.template or ("deleted" if one.template_version else "") for one in rows]
    tokens = [screen.count(one.tokens) for one in rows]
    outcomes, colour = [one.outcome or "no session" for one in rows], screen.colour_state
    screen.print_columns(
        screen.Words("when", [format_time(one.at, timezone)[5:] for one in rows], is_name=True),
        screen.Words("session", [short[one.session_id] for one in rows], is_name=True),
        screen.Words("arm", [one.arm for one in rows], is_name=True),
        screen.Words("template", templates),
        screen.Column("tokens", tokens, is_spare=True, drop=2),
        screen.Words("outcome", outcomes, is_name=True, is_spare=True, drop=1, colour=colour),
        screen.Words("reason", [one.reason for one in rows], lines=4, least=22),
    )
    if found.total > len(rows):
        screen.print_text(f"{len(rows):,} of {found.total:,}: --limit shows more", style="dim")
