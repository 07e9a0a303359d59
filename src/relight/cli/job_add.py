import shutil
import time
from typing import Any

import click

from relight.cli.job_options import job_options, read_fields
from relight.cli.options import current_store, json_option, print_json, relight_command
from relight.store import Store


@relight_command(
    "add", example='relight job add inbox --schedule "weekdays 08:30" --prompt "Sort my inbox"'
)
@click.argument("name")
@job_options
@json_option
def add(name: str, as_json: bool, **given: Any) -> None:
    """Add a job: work for an agent, at times you choose.

    Schedules: "every 30m", "daily 07:00", "weekdays 08:30", "weekly mon 09:00", "monthly 1 09:00",
    a cron expression, or one time such as "2027-01-31 18:00". The runner chat is Relight's own
    agent at any OpenAI-compatible endpoint; with --command the work is done by another agent's
    program, such as "claude -p {prompt}", and the session it leaves is imported.
    """
    from relight.work.jobs.job import read_job
    from relight.work.jobs.preparing import settle_job
    from relight.work.jobs.registry import add_job

    fields = read_fields(given)
    if "schedule" not in fields:
        raise click.UsageError("when? give it a --schedule")
    with current_store() as store:
        job = read_job({**fields, "name": name})
        add_job(store, settle_job(store, job), now=_now())
        _show(store, name, "added", as_json=as_json)


@relight_command("edit", example="relight job edit inbox --model gpt-5.1-mini")
@click.argument("name")
@job_options
@json_option
def edit(name: str, as_json: bool, **given: Any) -> None:
    """Change a job; what is not named stays as it is.

    An empty value takes away what was there. `--model default` goes with the default model as it
    is now.
    """
    import msgspec

    from relight.work.jobs.job import read_job
    from relight.work.jobs.preparing import settle_job
    from relight.work.jobs.registry import add_job, find_job

    fields = read_fields(given)
    if not fields:
        raise click.UsageError("nothing to change: name what should be different")
    with current_store() as store:
        before = find_job(store, name)
        if fields.get("runner") == "chat":
            fields.setdefault("command", [])
        if "model" in fields:
            fields["default_model"] = None
        changed = msgspec.to_builtins(before) | fields
        job = read_job({key: value for key, value in changed.items() if value is not None})
        add_job(store, settle_job(store, job), now=_now(), replace=True)
        _show(store, name, "changed", as_json=as_json)


def _show(store: Store, name: str, done: str, *, as_json: bool) -> None:
    from relight.work.jobs.leases import find_alive
    from relight.work.jobs.view import describe_job

    told = describe_job(store, name, now=_now())
    if as_json:
        print_json(told)
        return
    click.echo(f"{done} {name}: {told['schedule_words']} ({told['timezone']})")
    if told["state"] == "paused":
        click.echo(f"it is paused: relight job resume {name}")
        return
    click.echo(f"next: {', '.join(told['next_times_told'])}")
    program = told["command"][0] if told["command"] and not told["use_shell"] else None
    if program and shutil.which(program) is None:
        click.echo(f"there is no program {program} here yet", err=True)
    if not find_alive(store.config.home):
        click.echo(
            "no scheduler is running: start `relight scheduler`, or `relight scheduler --install`"
            " to have one at every boot",
            err=True,
        )


def _now() -> int:
    return int(time.time() * 1000)
