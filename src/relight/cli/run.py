import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from relight.cli.options import (
    current_store,
    endpoint_options,
    json_option,
    print_json,
    relight_command,
    split_words,
    wants_json,
)
from relight.config import LEAST_TOOL_CHARS, MAX_TOOL_CHARS
from relight.errors import RelightError

SHOWN_CHARACTERS = 100


@relight_command("run", example='relight run "Fix the failing test" --model gpt-5.1 --workdir shop')
@click.argument("prompt")
@click.option(
    "--model",
    metavar="M",
    envvar="RELIGHT_MODEL",
    help="The model, or moa:PRESET (default: RELIGHT_MODEL).",
)
@endpoint_options
@click.option(
    "--template",
    metavar="T",
    default="none",
    show_default=True,
    help="A template's name, auto or none.",
)
@click.option("--tools", metavar="T,…", help="Tools that it may use (default: all).")
@click.option("--workdir", default=".", metavar="DIR", help="Working folder (default: this one).")
@click.option(
    "--max-turns",
    "turns",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Limit of model calls.",
)
@click.option("--max-tokens", "tokens", type=click.IntRange(1), help="Limit of tokens in all.")
@click.option("--budget-usd", "cost_usd", type=float, metavar="X", help="Limit of cost in dollars.")
@click.option("--timeout", "seconds", type=float, metavar="SECONDS", help="Limit of time in all.")
@click.option(
    "--allow-private-fetch", is_flag=True, help="Let web_fetch reach this machine and its network."
)
@click.option(
    "--max-tool-chars",
    type=click.IntRange(LEAST_TOOL_CHARS),
    help="Longer tool results are shortened (default: RELIGHT_MAX_TOOL_CHARS, else max_tool_chars"
    f" in config.toml, else {MAX_TOOL_CHARS}).",
)
@json_option
def command(prompt: str, model: str | None, tools: str | None, workdir: str, **given: Any) -> None:
    """Let an agent do a task in a folder, and record it.

    File tools stay inside the folder; the terminal can do everything that you can, but gets no
    variable named *KEY*, *TOKEN*, *SECRET* or *PASS* without --pass-variable. Without
    --base-url, OPENAI_BASE_URL and OPENAI_API_KEY are used; with it, a key is sent only if
    --key-variable names it. Tool results longer than --max-tool-chars are shortened for the model;
    the record has them in full. Exit 1 if the run failed.
    """
    from relight.work.agent.limits import Budget
    from relight.work.agent.session import run_prompt, summarise_run
    from relight.work.processes import own_children
    from relight.work.run_spec import RunSpec

    if not model:
        raise RelightError("which model?", "name one with --model or RELIGHT_MODEL")
    if click.get_current_context().obj:
        own_children()
    # a terminated run also ends its commands, and its record says so
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    budget = Budget(**{name: given.pop(name) for name in Budget.__struct_fields__})
    spec = RunSpec(
        model=model,
        tools=split_words(tools) if tools else None,
        folder=workdir,
        budget=budget,
        **given,
    )
    with current_store() as store:
        result, start = run_prompt(store, prompt, spec, on_event=None if wants_json() else _show)
    figures = result.figures
    if wants_json():
        print_json(summarise_run(result, start, model=model))
    else:
        from relight.cli import screen

        if result.answer:
            click.echo(screen.clean_lines(result.answer))
        turns = f"{screen.count(figures['turns'])} turn{'' if figures['turns'] == 1 else 's'}"
        cost = screen.dollars(figures["cost_usd"], unpriced=figures["unpriced_turns"])
        lines = [f"{result.session_id} · {turns} · {cost} · outcome {result.outcome}"]
        lines += [screen.clean(result.ended_by)] if result.ended_by else []
        lines += [f"hint: {result.hint}"] if result.hint else []
        click.echo("\n".join(lines), err=True)
    if result.outcome == "failure":
        click.get_current_context().exit(1)


def _show(kind: str, event: Mapping[str, Any]) -> None:
    """Print an event as a line on standard error."""
    from relight.cli.screen import clean

    if kind == "answer":
        for call in event.get("tool_calls") or ():
            function = call.get("function") or {}
            words = clean(f"{function.get('name')} {function.get('arguments')}")
            click.echo(f"→ {words[:SHOWN_CHARACTERS]}", err=True)
    elif kind == "wait":
        reason = clean(str(event["reason"]))[:SHOWN_CHARACTERS]
        click.echo(f"  {reason}; again in {event['seconds']:.0f} s", err=True)
    elif event.get("is_error"):
        click.echo(f"  {clean(str(event.get('content')))[:SHOWN_CHARACTERS]}", err=True)
