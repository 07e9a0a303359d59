import shutil
import time
from typing import TYPE_CHECKING, Any

import click

from relight.cli.job_options import job_options, read_fields
from relight.cli.options import current_store, json_option, print_json, relight_command
from relight.errors import as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.work.jobs.job import JobDefinition


@relight_command(
    "add", example='relight job add inbox --schedule "weekdays 08:30" --prompt "Sort my inbox"'
)
@click.argument("name")
@job_options
@json_option
def add(name: str, as_json: bool, **given: Any) -> None:
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
        add_job(store, settle_job(store, job), now=_now())
        _show(store, job, "added", as_json=as_json)


@relight_command("edit", example="relight job edit inbox --model gpt-5.1-mini")
@click.argument("name")
@job_options
@json_option
def edit(name: str, as_json: bool, **given: Any) -> None:
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
        add_job(store, settle_job(store, job), now=_now(), replace=True)
        _show(store, job, "changed", as_json=as_json)


def _show(store: Store, definition: "JobDefinition", done: str, *, as_json: bool) -> None:
    from relight.cli.job_tables import print_times
    from relight.work.jobs.leases import find_alive
    from relight.work.jobs.preparation import choose_route, find_unpriced
    from relight.work.jobs.registry import describe_job

    if definition.runner == "command":
        route = choose_route(definition, config=store.config)
        for warning in find_unpriced(definition, route=route, config=store.config):
            click.echo(warning, err=True)
    name = definition.name
    job = describe_job(store, name, now=_now())
    if as_json:
        print_json(job)
        return
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


def _now() -> int:
    return int(time.time() * 1000)
