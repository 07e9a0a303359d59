import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relight.cli import screen
from relight.cli.options import current_store, json_option, print_json, reading_command, wants_json
from relight.cli.screen import seconds
from relight.errors import RelightError
from relight.reports.call_subjects import MOST_ARGUMENTS, describe_call
from relight.text import format_cost, make_line, make_visible, plural
from relight.times import format_moment, read_time

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from relight.reports.sessions import SessionHead
    from relight.reports.sharing import SharedSession
    from relight.reports.totals import ReportFigures
    from relight.reports.trace import Step, Trace

# of a long session the beginning and the end say most
FIRST_STEPS, LAST_STEPS = 100, 200
CODE = re.compile(r"(`[^`\n]*`)")
# tags and images would act where the document is shown
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")
CODE_TOKENS = ("fence", "code_block")
ACTIVE_TOKENS = ("html_block", "html_inline", "image")
MOST_RESULT = 4000
# longer texts are shown as code: the parser needs quadratic time for some hostile texts
MOST_PARSED = 16_000
END = "End."


@reading_command("show", example="relight show last --errors")
@click.argument("session")
@click.option("--full", is_flag=True, help="Print all steps, texts and results whole.")
@click.option("--errors", is_flag=True, help="Print only what failed, and what followed.")
@click.option("--step", "number", type=click.IntRange(1), help="Print one step whole.")
@click.option("--markdown", is_flag=True, help="Print the session as a Markdown document.")
@click.option(
    "--html",
    "file",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    help="Write the session into one HTML file, to share; `-` prints it.",
)
@json_option
def command(
    session: str,
    full: bool,
    errors: bool,
    number: int | None,
    markdown: bool,
    file: Path | None,
) -> None:
    """Show one session: what was said and done, what failed, and the cost.

    SESSION is `source:id` as printed, the agent's own id, a unique beginning of either, or `last`;
    `last~2` is the second before the last.
    """
    from relight.reports.sessions import find_session, read_head
    from relight.reports.trace import read_session_trace, read_trace
    from relight.store.derive.scores import refresh_due

    chosen = {"full": full, "errors": errors, "step": number, "markdown": markdown}
    _check_choice(**chosen, html=file, json=wants_json())
    with current_store() as store:
        refresh_due(store)
        found = find_session(store, session)
        if wants_json():
            print_json(read_session_trace(store, found))
            return
        head, trace = read_head(store, found), read_trace(store, found)
        key, timezone = store.redaction_key, store.timezone
    local = _move_times(trace, timezone)
    if number is not None:
        from relight.cli.show_steps import StepPrinter
        from relight.reports.trace import cut_part

        StepPrinter(is_full=False).print_whole(cut_part(local, step=number, limit=1).steps[0])
    elif markdown or file is not None:
        from relight.reports.sharing import redact_session

        _write(redact_session(head, trace, key=key), file)
    else:
        _print_head(head, trace, timezone)
        _print_steps(local, is_full=full, is_errors=errors, project=head.project)


def _check_choice(**chosen: object) -> None:
    given = [f"--{name}" for name, value in chosen.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} cannot be combined")


def _move_times(trace: "Trace", timezone: str) -> "Trace":
    """Return the steps with their times in the store's zone, as lists and pages show them."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from msgspec.structs import replace

    zone = ZoneInfo(timezone)

    def move(at: str | None) -> str | None:
        if at is None:
            return None
        here = datetime.fromisoformat(at).astimezone(zone)
        return here.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    steps = [replace(one, at=move(one.at), ended_at=move(one.ended_at)) for one in trace.steps]
    return replace(trace, steps=steps)


def _print_head(found: "SessionHead", trace: "Trace", timezone: str) -> None:
    from relight.cli.failures import describe_spiral
    from relight.reports.cache_rebuilds import describe_session

    figures = found.figures
    started = read_time(found.started_at)
    project, model = (screen.clean(name or "") for name in (found.project, found.model))
    screen.print_text(found.title or "(no title)", style="bold")
    screen.print_text(f"{found.session} · {project or 'no project'}", style="dim")
    screen.print_text(
        f"{'unknown start' if started is None else format_moment(started, timezone)},"
        f" {screen.seconds(figures.wall_seconds)} · {model or 'unknown model'} ·"
        f" {format_cost(figures)}"
    )
    screen.print_text(_describe_figures(figures))
    if figures.partial_turns:
        is_uncounted = figures.cache_read_tokens is None and figures.output_tokens is not None
        bound = (
            "cached tokens are unknown, so the cost is an upper bound"
            if is_uncounted
            else "output is a lower bound"
        )
        screen.print_text(
            f"{plural(figures.partial_turns, 'turn is', 'turns are')} partial: {bound}",
            style="dim",
        )
    if shared := sum(step.is_shared for step in trace.steps):
        screen.print_text(
            f"shared turns below: {shared}; another session has them too, and counts them",
            style="dim",
        )
    if found.parent:
        screen.print_text(f"{found.parent_kind} of {found.parent}")
    for child in found.children:
        title = (child.title or "")[:50]
        screen.print_text(f"  {child.kind}: {child.session_id} {format_cost(child)} {title}")
    style = {"success": "green", "failure": "red"}.get(found.outcome, "")
    screen.print_text(f"outcome {found.outcome}", style=style)
    for evidence in found.evidence:
        screen.print_text(f"  {evidence}", style="dim")
    for spiral in found.spirals:
        screen.print_text(f"  spiral: {describe_spiral(spiral)}")
    if found.changed:
        screen.print_text(f"  {found.changed}")
    if rebuilt := describe_session(trace.steps):
        screen.print_text(f"  {rebuilt}")
    if found.resume:
        screen.print_text(f"resume: {found.resume}")
    if trace.silence:
        screen.print_text(trace.silence, style="yellow")


def _describe_figures(figures: "ReportFigures") -> str:
    fresh = None
    if figures.input_tokens is not None:
        fresh = figures.input_tokens + (figures.cache_write_tokens or 0)
    turns, calls = plural(figures.turns or 0, "turn"), plural(figures.tool_calls or 0, "tool call")
    return (
        f"{turns} · {screen.count(fresh)} in, {screen.count(figures.cache_read_tokens)} cached,"
        f" {screen.count(figures.output_tokens)} out · {calls}, {figures.tool_failures} failed"
    )


def _print_steps(trace: "Trace", *, is_full: bool, is_errors: bool, project: str | None) -> None:
    from relight.cli.show_steps import StepPrinter

    printer = StepPrinter(is_full=is_full, project=project)
    if is_errors:
        if not printer.print_errors(trace.steps):
            screen.print_text("\nno step failed")
        return
    for part in _cut(trace.steps, is_full=is_full):
        if isinstance(part, str):
            screen.print_text(part, style="dim")
        else:
            printer.print(part)


def _cut(steps: "Sequence[Step]", *, is_full: bool) -> "Sequence[Step | str]":
    """Return the steps; of a long session the first and the last, with a note between them."""
    left = len(steps) - FIRST_STEPS - LAST_STEPS
    if is_full or left <= 0:
        return steps
    note = f"\n… {left:,} steps, from {FIRST_STEPS + 1:,} on: --full shows all, --errors failures\n"
    return [*steps[:FIRST_STEPS], note, *steps[-LAST_STEPS:]]


def _write(session: "SharedSession", file: Path | None) -> None:
    """Print a session as Markdown without tags and images, or write it into an HTML file."""
    if file is None:
        steps = map(_write_step, session.trace.steps)
        click.echo("\n".join([*_write_head(session), *steps, ""]), nl=False)
        return
    from relight.web.reading.document import write_document

    if file == Path("-"):
        click.echo(write_document(session), nl=False)
        return
    try:
        file.write_text(write_document(session), "utf-8")
    except OSError as error:
        raise RelightError(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"wrote {file}: secrets are redacted; read it before you share it", err=True)


def _write_head(session: "SharedSession") -> Iterator[str]:
    head, trace = session.head, session.trace
    yield f"# {_escape(make_line(head.title or 'Session', 160))}\n"
    facts = {
        "session": f"`{head.session}`",
        "project": head.project and f"`{make_line(head.project)}`",
        "model": head.model and make_line(head.model),
        "started": head.started_at,
        "time": seconds(head.figures.wall_seconds),
        "cost": format_cost(head.figures),
        "outcome": "; ".join([head.outcome, *(make_line(one, 300) for one in head.evidence)]),
        "texts": trace.silence,
    }
    for name, value in facts.items():
        if value:
            yield f"- {name}: {_escape(value)}"
    yield ""


def _write_step(step: "Step") -> str:
    number = f"## {step.step}."
    match step.kind:
        case "prompt":
            words = "\n".join(f"> {line}" for line in _write_words(step.text or "").split("\n"))
            put = f"\n{_fence(step.injected)}" if step.injected else ""
            return f"{number} {'Prompt' if step.text else 'Not typed'}\n\n{words}\n{put}"
        case "answer":
            said = _write_words(step.text) if step.text else "(no text)"
            failed = f"\n**failed: {_line(step.failure_kind)}** {_line(step.reason)}\n"
            return f"{number} Answer\n\n{said}\n{failed if step.label == 'error' else ''}"
        case "compaction":
            return f"{number} Compaction\n\n{_fence(step.text or '')}"
        case "pause":
            return f"{number} Pause of {seconds((step.duration_ms or 0) / 1000)}\n"
    verdict = " · ".join(filter(None, [_line(step.label), _line(step.reason)]))
    subject = describe_call(step) or (step.arguments or "")[:MOST_ARGUMENTS]
    result = (step.result or "")[:MOST_RESULT]
    rest = len(step.result or "") - len(result)
    more = f"\n… {rest:,} characters more\n" if rest else ""
    return (
        f"{number} {_line(step.tool)}{' · ' if verdict else ''}{verdict}\n\n"
        f"{_fence(subject)}\n{_fence(result)}{more}"
    )


def _line(text: str | None) -> str:
    return _escape(make_line(text or "", 200))


def _write_words(text: str) -> str:
    """A text as the Markdown that it is; as a block of code if it could act or not end."""
    words = _escape_words(make_visible(text)) if len(text) <= MOST_PARSED else ""
    return words if words and _is_passive(words) else _fence(text)


def _escape_words(text: str) -> str:
    """Text with its tags and images made plain; blocks of code in it stay as they are."""
    blocks = (one for one in _make_parser(is_html=False).parse(text) if one.type in CODE_TOKENS)
    code = {line for block in blocks for line in range(*(block.map or (0, 0)))}
    lines = enumerate(text.split("\n"))
    return "\n".join(line if number in code else _escape(line) for number, line in lines)


def _escape(text: str) -> str:
    """Text with its tags and images made plain; short code in it stays as it is.

    >>> _escape("see <b> and `<b>`, ![x](y)")
    'see \\\\<b> and `<b>`, \\\\![x](y)'
    """
    parts = CODE.split(text)
    parts[::2] = [ACTIVE.sub(lambda one: "\\" + one[0], part) for part in parts[::2]]
    return "".join(parts)


def _is_passive(text: str) -> bool:
    """True if a text has no tags and images, and what follows is no part of it."""
    tokens = _make_parser(is_html=True).parse(f"{text}\n\n{END}")
    inside = [one for token in tokens for one in token.children or ()]
    if any(one.type in ACTIVE_TOKENS for one in (*tokens, *inside)):
        return False
    last = [(one.type, one.level, one.content) for one in tokens[-3:-1]]
    return last == [("paragraph_open", 0, ""), ("inline", 1, END)]


@cache
def _make_parser(*, is_html: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": is_html})


def _fence(text: str) -> str:
    """A text as a block of code that it cannot close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}\n{make_visible(text)}\n{marks}\n" if text else ""
