"""The command `job canary`."""

import time
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from relight.cli.comparison import margin_option
from relight.cli.options import (
    Answer,
    Function,
    add_options,
    confirm,
    current_store,
    reading_command,
    wants_json,
    yes_option,
)
from relight.errors import as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.reports.canaries import CanaryList
    from relight.work.jobs.canary_plan import CanaryOrder, CanaryPlan

# options of a trial that are fields of `CanaryOrder`
TRIAL = ("base_url", "key_variable", "provider", "share", "margin", "budget_usd", "anyway")


def _read_share(_: click.Context, __: click.Parameter, text: str) -> float:
    """Return a share from 20%, 20 or 0.2."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise click.BadParameter("give a share, as 20% or 0.2") from None
    share = number / 100 if number >= 1 else number
    if not 0 < share < 1:
        raise click.BadParameter(f"give more than 0 and less than 100 percent, not {text}")
    return share


def trial_options(function: Function) -> Function:
    """Add the options of a trial to a command, which gets them as `order`; None without --model."""

    @wraps(function)
    def with_order(*, model: str | None, auto: bool, replay: int | None, **given: Any) -> Any:
        order = None
        trial = {name: given.pop(name) for name in TRIAL}
        if model is not None:
            from relight.work.jobs.canary_plan import CanaryOrder

            order = CanaryOrder(model=model, is_auto=auto, replay=replay or 0, **trial)
        return function(order=order, **given)

    options = (
        click.option("--model", metavar="M", help="Try this model in a share of the job's runs."),
        click.option("--base-url", help="The address of that model, if it is not the job's."),
        click.option("--key-variable", metavar="NAME", help="The variable with the key for it."),
        click.option("--provider", help="Its provider, if it is not the job's."),
        click.option(
            "--share",
            callback=_read_share,
            default="20%",
            metavar="X",
            help="Its first share of the runs (default: 20%; 50% after 20 clean runs).",
        ),
        margin_option,
        click.option(
            "--budget-usd",
            type=click.FloatRange(min=0, min_open=True),
            help="The most that all its runs in a job may cost.",
        ),
        click.option(
            "--replay", type=click.IntRange(1), metavar="N", help="Repeat N past tasks first."
        ),
        click.option("--auto", is_flag=True, help="Switch, and go back, without asking."),
        click.option("--anyway", is_flag=True, help="Begin also if it takes more than 180 days."),
    )
    return add_options(with_order, options)


@reading_command("canary", example="relight job canary inbox --model gpt-5-mini")
@click.argument("name", required=False)
@trial_options
@click.option("--promote", "action", flag_value="promote", help="Switch the job to it.")
@click.option("--back", "action", flag_value="back", help="Go back to the model before.")
@click.option("--stop", "action", flag_value="stop", help="End the trial.")
@yes_option
def canary(name: str | None, order: "CanaryOrder | None", action: str | None) -> Answer:
    """Try a cheaper model in a share of a job's runs, and switch when it is good enough.

    Each slot is dealt at random before its run. A model that does worse is stopped. Without --model
    the command shows the trials, and every switch with what it saved. Without a name it lists all.
    """
    if name is None and (order or action):
        raise click.UsageError("name a job")
    if order and action:
        raise click.UsageError("--model begins a trial; --promote, --back and --stop end one")
    with current_store() as store:
        if order is not None and name is not None:
            _begin(store, name, order)
        elif action is not None and name is not None:
            _answer(store, name, action)
        from relight.reports.canaries import read_canary_list

        found = read_canary_list(store, _find_name(store, name))
    yield found
    _print(found, name)


def _find_name(store: "Store", name: str | None) -> str | None:
    """Return a job's full name; one that was removed keeps its trials."""
    from relight.store.queries.runs import find_job_names

    names = find_job_names(store, name) if name else []
    return names[0] if names else name


def _begin(store: "Store", name: str, order: "CanaryOrder") -> None:
    from relight.work.jobs.canary_plan import plan_canary

    plan = plan_canary(store, name, order, now=round(time.time() * 1000))
    show_plan(plan)
    if not wants_json():
        confirm(f"Try {plan.row.model} in {plan.row.job}?")
    start_plan(store, plan, order)


def show_plan(plan: "CanaryPlan") -> None:
    """Print what a trial is likely to take, and the change of another scheduler's job."""
    from relight.cli import screen

    click.echo(screen.clean(plan.sentence), err=True)
    if ":" in plan.row.job:
        _show_change(plan)


def start_plan(store: "Store", plan: "CanaryPlan", order: "CanaryOrder") -> None:
    """Repeat past tasks if that was asked for, and begin a trial."""
    from relight.work.jobs.canary_plan import start_canary

    replay = None
    if order.replay:
        from relight.cli.screen import clean
        from relight.work.jobs.replays import replay_tasks

        def show(line: str) -> None:
            click.echo(clean(line), err=True)

        replay = replay_tasks(store, plan.row, number=order.replay, report=show)
    start_canary(store, plan, replay=replay)


def _show_change(plan: "CanaryPlan") -> None:
    import msgspec

    from relight.cli import screen
    from relight.work.jobs.canaries import find_editor

    editor, key = find_editor(plan.row.job)
    change = msgspec.json.decode(plan.row.change, type=dict[str, str | None])
    shown = editor.show_change(key, change["model"], change["provider"])
    click.echo(screen.clean_lines(shown), err=True)
    click.echo("each of its runs is dealt so, or back; --stop and --back undo it", err=True)


def _answer(store: "Store", name: str, action: str) -> None:
    import getpass

    from relight.work.jobs.canaries import do_as_asked

    job = _find_name(store, name) or name
    do_as_asked(store, job, action, made_by=getpass.getuser(), now=round(time.time() * 1000))


def _print(found: "CanaryList", name: str | None) -> None:
    from relight.cli import screen
    from relight.reports.canaries import describe_switch

    for one in found.canaries:
        style = "bold" if one.state in ("running", "promoted") else "dim"
        screen.print_text(one.sentence, style=style)
    if not found.canaries:
        where = f" in {name}" if name else ""
        hint = f"relight job canary {name or 'NAME'} --model CHEAPER"
        click.echo(as_typed(f"no model was tried{where}: {hint}"))
    if switches := found.switches:
        screen.print_columns(
            screen.Words(
                "switched",
                [one.at[:16].replace("T", " ") if one.at else "" for one in switches],
                is_name=True,
            ),
            screen.Words("from", [one.from_model or "" for one in switches]),
            screen.Words("to", [one.to_model or "" for one in switches]),
            screen.Words("by", [one.made_by for one in switches]),
            screen.Words("why", [one.reason for one in switches], lines=3),
            screen.Words("since then", [describe_switch(one) for one in switches], lines=3),
        )
