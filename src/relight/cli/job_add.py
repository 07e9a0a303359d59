import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relight.cli.job import current_ms
from relight.cli.options import (
    Answer,
    Function,
    add_options,
    current_store,
    relight_command,
    split_words,
)
from relight.errors import RelightError, as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.work.jobs.job import JobDefinition

OPTIONS = (
    click.option("--schedule", metavar="S", help='"every 30m", "daily 07:00", cron, or a time.'),
    click.option("--timezone", metavar="TZ", help="The schedule's time zone (else the store's)."),
    click.option(
        "--on", "place", metavar="PLACE", help="Machines of the team: any, machine:M or label:L."
    ),
    click.option("--prompt", metavar="P", help="The agent's task."),
    click.option("--prompt-file", metavar="F", help="A file with the prompt; - is standard input."),
    click.option(
        "--skill", "skills", multiple=True, metavar="N", help="A skill to use; repeatable."
    ),
    click.option(
        "--runner", type=click.Choice(["chat", "command"]), help="Relight's agent, or a command."
    ),
    click.option("--command", metavar="ARGV", help="An agent's program, such as: claude -p"),
    click.option(
        "--shell/--no-shell", "use_shell", default=None, help="The command is a shell line."
    ),
    click.option("--model", metavar="M", help="The model, moa:PRESET, or default."),
    click.option("--provider", metavar="P", help="The provider, if it is not obvious."),
    click.option("--base-url", metavar="U", help="Any OpenAI-compatible endpoint."),
    click.option("--key-variable", metavar="V", help="The variable that holds the endpoint's key."),
    click.option("--context-tokens", type=int, metavar="N", help="The model's context window."),
    click.option("--template", metavar="T", help="A template's name, auto or none."),
    click.option("--script", metavar="F", help="A file in the home's scripts folder."),
    click.option("--workdir", metavar="D", help="The working folder (else a new one)."),
    click.option("--tools", metavar="T,…", help="The tools that it may use."),
    click.option(
        "--allow-terminal/--no-allow-terminal", default=None, help="Allow it at any endpoint."
    ),
    click.option(
        "--pass-variable",
        "pass_variables",
        multiple=True,
        metavar="V",
        help="A variable named like a secret that its commands get; repeatable.",
    ),
    click.option("--timeout", metavar="10m", help="Time limit of a run (else 30m)."),
    click.option("--max-attempts", type=int, metavar="N", help="Attempts, if a retry can help."),
    click.option("--deliver", metavar="WHERE", help="file, command:ARGV or webhook:URL."),
    click.option("--budget-usd", type=float, metavar="X", help="Cost limit of a run."),
    click.option("--budget-usd-per-day", type=float, metavar="X", help="Cost limit of a day."),
)


def job_options(function: Function) -> Function:
    return add_options(function, OPTIONS)


def read_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job given by these options; None for an empty value, which removes one."""
    from relight.work.jobs.schedules import read_span

    if given["prompt"] is not None and given["prompt_file"] is not None:
        raise click.UsageError("--prompt and --prompt-file exclude each other")
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value == ():
            continue
        match name:
            case "prompt":
                fields["prompt"] = value
            case "prompt_file":
                fields["prompt"] = _read_prompt(value)
            case "skills" | "pass_variables":
                fields[name] = [word for word in value if word]
            case "model":
                fields["model"] = None if value in ("", "default") else value
            case "command":
                fields["command"] = _read_command(value, use_shell=bool(given["use_shell"]))
            case "tools":
                fields["tools"] = split_words(value) or None
            case "workdir":
                fields["workdir"] = _find_folder(value) if value else None
            case "timeout":
                fields["timeout_seconds"] = read_span(value)
            case _:
                fields[name] = None if value == "" else value
    if "command" in fields:
        fields.setdefault("runner", "command" if fields["command"] else "chat")
    return fields


def _read_prompt(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(
            f"cannot read the prompt from {name}: {error}",
            "check the path given with --prompt-file",
        ) from error


def _read_command(text: str, *, use_shell: bool) -> list[str]:
    """The words of a command split as by a shell, or the whole line if a shell runs it."""
    if use_shell:
        return [text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RelightError(
            f"the command {text!r} cannot be read: {error}", "check its quotes"
        ) from None


def _find_folder(name: str) -> str:
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise RelightError(f"there is no folder {folder}", "check the path given with --workdir")
    return str(folder)


@relight_command(
    "add", example='relight job add inbox --schedule "weekdays 08:30" --prompt "Sort my inbox"'
)
@click.argument("name")
@job_options
def add(name: str, **given: Any) -> Answer:
    """Add a job: agent work on a schedule.

    Schedules: "every 30m", "daily 07:00", "weekdays 08:30", "weekly mon 09:00", "monthly 1 09:00",
    a cron expression, or one time such as "2027-01-31 18:00". The runner chat is Relight's own
    agent at any OpenAI-compatible endpoint. With --command another agent's program does the work,
    such as "claude -p {prompt}", and its session is imported.
    """
    from relight.work.jobs.job import read_job
    from relight.work.jobs.preparation import settle_job
    from relight.work.jobs.registry import add_job

    fields = read_fields(given)
    if "schedule" not in fields:
        raise click.UsageError("a job needs a --schedule")
    with current_store() as store:
        job = read_job({**fields, "name": name})
        add_job(store, settle_job(store, job), now=current_ms())
        yield from _show(store, job, "added")


@relight_command("edit", example="relight job edit inbox --model gpt-5.1-mini")
@click.argument("name")
@job_options
def edit(name: str, **given: Any) -> Answer:
    """Change settings of a job; the others stay.

    An empty value removes a setting. `--model default` means the current default model.
    """
    import msgspec

    from relight.work.jobs.job import read_job
    from relight.work.jobs.preparation import settle_job
    from relight.work.jobs.registry import add_job, find_job

    fields = read_fields(given)
    if not fields:
        raise click.UsageError("nothing to change: give at least one option")
    with current_store() as store:
        before = find_job(store, name)
        if fields.get("runner") == "chat":
            fields.setdefault("command", [])
        if "model" in fields:
            fields["default_model"] = None
        changed = msgspec.to_builtins(before) | fields
        job = read_job({key: value for key, value in changed.items() if value is not None})
        add_job(store, settle_job(store, job), now=current_ms(), replace=True)
        yield from _show(store, job, "changed")


def _show(store: Store, definition: "JobDefinition", done: str) -> Answer:
    from relight.cli.job_tables import print_times
    from relight.work.jobs.leases import find_alive
    from relight.work.jobs.preparation import choose_route, find_unpriced
    from relight.work.jobs.registry import describe_job

    if definition.runner == "command":
        route = choose_route(definition, config=store.config)
        for warning in find_unpriced(definition, route=route, config=store.config):
            click.echo(warning, err=True)
    name = definition.name
    job = describe_job(store, name, now=current_ms())
    yield job
    click.echo(f"{done} {name}: {job.schedule_words} ({job.timezone})")
    if job.state == "paused":
        click.echo(as_typed(f"it is paused: relight job resume {name}"))
        return
    print_times(job, store.timezone)
    program = job.command[0] if job.command and not job.use_shell else None
    if program and shutil.which(program) is None:
        click.echo(f"the program {program} is not installed here", err=True)
    if definition.place is not None:
        hint = "machines that have joined run it: those with [jobs] for_team = true"
        click.echo(hint if store.has_rows("machine") else f"no machine has joined yet; {hint}")
    elif not find_alive(store.config.home):
        hint = (
            "no scheduler is running: start `relight scheduler`, or `relight scheduler --install`"
            " to start one at every boot"
        )
        click.echo(as_typed(hint), err=True)
