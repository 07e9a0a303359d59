from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import (
    Answer,
    TypedFilter,
    current_store,
    filter_options,
    print_no_match,
    reading_command,
)
from relight.errors import as_typed

if TYPE_CHECKING:
    from relight.cli.screen import Printer
    from relight.reports.search import Hit, SearchResult
    from relight.store.queries.sessions import SessionOutcome


@reading_command("search", example="relight search 'retry \"rate limit\" -test path:src/app'")
@click.argument("query", nargs=-1, required=True)
@filter_options(since="all")
@click.option("--tool", metavar="T", help="Only calls of this tool, and their results.")
@click.option("--failed", is_flag=True, help="Only calls that failed, and their results.")
@click.option(
    "--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="Hits to show."
)
def command(query: Sequence[str], typed: TypedFilter, **given: Any) -> Answer:
    """Search what was said and done in all sessions, and show the step of each hit.

    Prompts, answers, commands and paths are searched whole, and the first 500 characters of each
    result. QUERY has words, which must all be in one text, "a phrase" in double quotes, the
    beginning of a word as prefix*, -without for words that must not be there, path:src/app for
    calls with such a path, also inside of a command, and tool:bash. Put it into single quotes, so
    that the shell leaves it as it is.
    """
    from relight.reports.search import find_hits
    from relight.reports.sessions import shorten_names
    from relight.store.queries.sessions import has_sessions, read_outcomes

    with current_store() as store:
        found = find_hits(store, " ".join(query), typed.read(store), **given)
        ids = list(dict.fromkeys(hit.session_id for hit in found.hits))
        names, outcomes = shorten_names(store, ids), read_outcomes(store, ids)
        has_any = bool(ids) or has_sessions(store)
    yield found
    if not has_any:
        print_no_match(None)
    else:
        _print(found, names, outcomes)


# a word such as -without or --no-verify belongs to the query, and so does -hash, which is no -h
command.context_settings = {
    **command.context_settings,
    "ignore_unknown_options": True,
    "help_option_names": ["--help"],
}


def _print(
    found: "SearchResult", names: Mapping[str, str], outcomes: "Mapping[str, SessionOutcome]"
) -> None:
    from relight.cli import screen
    from relight.reports.listing import name_outcome

    target = screen.Printer()
    before = None
    for hit in found.hits:
        if hit.session_id != before:
            known = outcomes[hit.session_id]
            outcome = name_outcome(known.outcome, known.points_to)
            project = screen.last_folder(hit.project)
            about = [names[hit.session_id], (hit.at or "")[:10], project, outcome]
            if before is not None:
                screen.print_text("")
            screen.print_text(hit.title or "(no title)", style="bold")
            screen.print_text(" · ".join(filter(None, about)), style="dim")
            before = hit.session_id
        kind = f"{hit.kind} {hit.tool}" if hit.tool else hit.kind
        label = target.paint(f"{hit.step:>5}  {screen.clean(kind)}  ", "cyan")
        target.print(label + _mark(hit, target))
    if found.hits:
        total = "more" if found.total is None else f"{max(found.total, len(found.hits)):,}"
        first = found.hits[0]
        screen.print_text(f"\n{len(found.hits)} of {total} hits", style="dim")
        name = names[first.session_id]
        screen.print_text(as_typed(f"open one: relight show {name} --step {first.step}"))
    if found.note:
        click.echo(found.note, err=bool(found.hits))


def _mark(hit: "Hit", target: "Printer") -> str:
    """The snippet with its hits in bold."""
    from relight.cli.screen import clean
    from relight.reports.search_query import split_snippet

    return "".join(
        target.paint(clean(part.text), "bold yellow" if part.is_hit else "")
        for part in split_snippet(hit.snippet)
    )
