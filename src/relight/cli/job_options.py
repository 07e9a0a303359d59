"""The options of `job add` and `job edit`."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from relight.cli.options import split_words
from relight.errors import RelightError

Function = Callable[..., Any]
# options that are fields of the job unchanged
PLAIN = (
    "schedule",
    "timezone",
    "place",
    "runner",
    "provider",
    "base_url",
    "key_variable",
    "context_tokens",
    "template",
    "script",
    "allow_terminal",
    "max_attempts",
    "deliver",
    "budget_usd",
    "budget_usd_per_day",
)
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
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def read_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job given by these options; None for an empty value, which removes one."""
    from relight.work.jobs.schedules import read_span

    fields: dict[str, Any] = {name: given[name] for name in PLAIN if given[name] is not None}
    fields = {name: None if value == "" else value for name, value in fields.items()}
    if given["prompt"] is not None and given["prompt_file"] is not None:
        raise click.UsageError("--prompt and --prompt-file exclude each other")
    if given["prompt"] is not None:
        fields["prompt"] = given["prompt"]
    if given["prompt_file"] is not None:
        fields["prompt"] = _read_prompt(given["prompt_file"])
    if given["skills"]:
        fields["skills"] = [name for name in given["skills"] if name]
    if given["pass_variables"]:
        fields["pass_variables"] = [name for name in given["pass_variables"] if name]
    if given["model"] is not None:
        fields["model"] = None if given["model"] in ("", "default") else given["model"]
    if given["use_shell"] is not None:
        fields["use_shell"] = given["use_shell"]
    if given["command"] is not None:
        fields["command"] = _read_command(given["command"], use_shell=bool(given["use_shell"]))
        fields.setdefault("runner", "command" if fields["command"] else "chat")
    if given["tools"] is not None:
        fields["tools"] = split_words(given["tools"]) or None
    if given["workdir"] is not None:
        fields["workdir"] = _find_folder(given["workdir"]) if given["workdir"] else None
    if given["timeout"] is not None:
        fields["timeout_seconds"] = read_span(given["timeout"])
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
