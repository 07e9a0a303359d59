import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, print_no_match, reading_command
from relight.errors import as_typed
from relight.model import OUTCOMES
from relight.store import Store
from relight.times import format_moment

if TYPE_CHECKING:
    from relight.store.labels import UnlabelledSession

KEYS = {"y": "success", "n": "failure", "u": "unknown"}
HELP = "y worked · n failed · u cannot tell · s skip · z undo · q quit"
# after the last session
LAST_HELP = "z undo · q quit"
PAGE = 50


@reading_command("label", example='relight label codex:01a1dd31 failure --why "wrong file"')
@click.argument("session", required=False)
@click.argument("outcome", type=click.Choice([*OUTCOMES, "clear"]), required=False)
@click.option("--why", metavar="TEXT", help="The reason, in a few words.")
def command(session: str | None, outcome: str | None, why: str | None) -> None:
    """Label a session's outcome; a label overrides all other evidence.

    Without a session it asks for one session of unknown outcome after the other, newest first; a
    key answers. `unknown` says that you cannot tell, `clear` takes a label back. Labels improve
    templates, comparisons and scores, and kinds of evidence that they prove begin to decide.
    """
    if session is None:
        _walk()
        return
    if outcome is None:
        raise click.UsageError("say how it went: success, failure, unknown or clear")
    from relight.reports.labels import label_session
    from relight.reports.sessions import find_session
    from relight.store.queries.sessions import read_name

    with current_store() as store:
        session_id = find_session(store, session)
        label_session(store, session_id, outcome, why=why)
        name = read_name(store, session_id).session
    click.echo(
        f"the label of {name} is removed" if outcome == "clear" else f"{name} is labelled {outcome}"
    )


def _walk() -> None:
    """Ask for the outcome of one session after the other, until none is left or `q`."""
    from relight.cli import screen
    from relight.reports.labels import label_session, read_labelling
    from relight.store.labels import find_unlabelled
    from relight.store.queries.sessions import has_sessions

    labelled: list[UnlabelledSession] = []
    skipped: set[int] = set()
    with current_store() as store:
        if not has_sessions(store):
            print_no_match(None)
            return
        key = ""
        while key != "q":
            found = find_unlabelled(store, limit=PAGE + len(skipped))
            one = next((one for one in found if one.id not in skipped), None)
            if one is None:
                screen.print_text("every other session has an outcome")
                if not labelled:
                    break
                key = _ask(LAST_HELP, {"z", "q"})
            else:
                _show(store, one)
                key = _ask(HELP, {*KEYS, "s", "z", "q"})
            if key == "z" and labelled:
                back = labelled.pop()
                label_session(store, back.id, "clear")
                screen.print_text(f"the label of {back.session_id} is removed")
            elif key == "z":
                screen.print_text("nothing to undo")
            elif one is not None and key in KEYS:
                label_session(store, one.id, KEYS[key])
                labelled.append(one)
            elif one is not None and key == "s":
                skipped.add(one.id)
        worth = read_labelling(store)
    screen.print_text(
        f"{len(labelled)} labelled now; {worth.labels} labelled success or failure in all"
    )
    if worth.until_scores:
        screen.print_text(f"{worth.until_scores} more until scores are fitted to your labels")
    if worth.until_signs:
        named = worth.next_sign and worth.next_sign.replace("_", " ")
        sign = f"the sign “{named}”" if named else "one sign"
        line = f"{worth.until_signs} more with {sign} until it can decide"
        screen.print_text(as_typed(f"{line}; `relight doctor` counts every sign"))


def _show(store: "Store", one: "UnlabelledSession") -> None:
    import msgspec

    from relight.cli import screen
    from relight.reports.labels import read_last_prompt

    target = screen.Printer()
    target.print()
    target.print_words(one.title or "(no title)", "bold")
    when = format_moment(one.started_at, store.timezone)
    target.print_words(f"{one.session_id} · {one.project or 'no project'} · {when}", "dim")
    prompt = read_last_prompt(store, one.id)
    if prompt and prompt.strip() != (one.title or "").strip():
        target.print_words(f"> {_shorten(prompt)}")
    target.print_words(_shorten(one.answer or "(no answer)"))
    for line in msgspec.json.decode(one.evidence or "[]", type=list[str]):
        target.print_words(line, "dim", indent=2)


def _shorten(text: str) -> str:
    """Return the beginning and the end of a long text: what was done is often said last."""
    text = text.strip()
    return text if len(text) <= 1200 else f"{text[:500]}\n…\n{text[-650:]}"


def _ask(words: str, known: Collection[str]) -> str:
    """Return the key that answers; on a pipe, the first letter of a line, `q` at its end."""
    click.echo(f"{words}: ", nl=False, err=True)
    while True:
        if sys.stdin.isatty():
            key = click.getchar().lower()
        else:
            key = (sys.stdin.readline() or "q").strip().lower()[:1]
        if key in ("\x03", "\x04", "\x1b"):
            key = "q"
        if key in known:
            click.echo(key, err=True)
            return key
