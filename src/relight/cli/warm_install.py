"""Warm starts added to an agent and taken out again: shown, asked, done."""

import shlex
from difflib import unified_diff
from pathlib import Path

import click

from relight.cli.options import ask, current_home, print_json
from relight.config import find_home
from relight.errors import RelightError
from relight.warm.agents.hermes_package import Step
from relight.warm.agents.settings import Change, apply_change, plan_change

# the packages that came into Hermes' Python with Relight, so that they can go with it
ADDED = "hermes-packages.json"


def install_agent(agent: str, *, remove: bool, yes: bool, as_json: bool) -> None:
    """Show what would change, ask, and change it; with JSON, people read standard error."""
    home = find_home(current_home()).absolute()
    change = plan_change(agent, remove=remove, home=home)
    step = Step() if agent != "hermes" else _plan_hermes(home, remove=remove)
    is_needed = change.is_needed or bool(step.command)
    if step.why_not:
        click.echo(f"not done: {step.why_not}", err=True)
    if is_needed:
        _show(change, step, remove=remove, is_quiet=as_json)
        if not yes:
            ask("do so?" if step.command else f"change {change.path} so?")
        if remove:  # the settings first: the agent must not look for what is gone
            apply_change(change)
            _run_step(step, home, remove=True)
        else:
            _run_step(step, home, remove=False)
            apply_change(change)
    if as_json:
        told = {"agent": agent, "path": str(change.path), "changed": is_needed, "run": step.command}
        print_json(told | {"not_done": step.why_not})
        return
    if not is_needed:
        click.echo(f"nothing to do: {change.path} is {'without' if remove else 'set up for'} it")
        return
    click.echo(f"changed {change.path}" if change.is_needed else "done")
    if agent == "hermes" and not remove and home != Path.home() / ".relight":
        click.echo(f"Hermes must find this home: start it with RELIGHT_HOME={home}")
    undo = f"relight warm --install {agent}" + ("" if remove else " --remove")
    click.echo(f"to {'install' if remove else 'remove'} it again: {undo}")


def _show(change: Change, step: Step, *, remove: bool, is_quiet: bool) -> None:
    if change.is_needed:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        lines = unified_diff(before, after, str(change.path), str(change.path), lineterm="")
        click.echo("\n".join(lines), err=is_quiet)
    if step.command:
        click.echo(f"and run: {shlex.join(step.command)}", err=is_quiet)
        if not remove:
            click.echo("(nothing that Hermes has there is changed)", err=is_quiet)


def _plan_hermes(home: Path, *, remove: bool) -> Step:
    """Hermes loads the plugin from its own Python, so that has to change as well."""
    from relight.warm.agents.hermes_package import plan_addition, plan_removal

    return plan_removal(_read_added(home)) if remove else plan_addition()


def _run_step(step: Step, home: Path, *, remove: bool) -> None:
    import msgspec

    from relight.warm.agents.hermes_package import run_step

    news = run_step(step)
    kept = home / ADDED
    if remove:
        kept.unlink(missing_ok=True)
    elif news:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept.write_bytes(msgspec.json.encode(sorted({*_read_added(home), *news})))


def _read_added(home: Path) -> list[str]:
    import msgspec

    kept = home / ADDED
    try:
        return msgspec.json.decode(kept.read_bytes(), type=list[str]) if kept.exists() else []
    except msgspec.DecodeError as error:
        raise RelightError(f"{kept} is not as Relight wrote it: {error}", "delete it") from error
