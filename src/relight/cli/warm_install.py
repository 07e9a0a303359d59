"""Add a part of Relight to an agent, or remove it: show the change, ask, apply it."""

import os
import shlex
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from importlib import import_module
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from relight.cli.options import confirm, current_home, print_json, wants_json
from relight.config import find_home
from relight.errors import RelightError, as_typed
from relight.locks import make_folder, write_private
from relight.sources import SOURCES
from relight.text import join_words
from relight.warm.agents import settings

# the packages added to an agent's Python environment with Relight, so that --remove can remove them
ADDED = "{agent}-packages.json"


class Installation(Struct, frozen=True):
    """The result of an installation or removal, as JSON.

    `trouble` is what keeps the agent from using it.
    """

    agent: str
    path: str
    changed: bool
    run: list[str]
    not_done: str | None
    trouble: str | None = None


class Installations(Struct, frozen=True):
    """The results for several agents, as JSON."""

    installations: list[Installation]


def install_skills(agents: Sequence[str], *, remove: bool) -> None:
    """Write the skill for agents, or for all that are on this machine, or remove it."""
    homes = {name: SOURCES[name].find_homes(os.environ)[0] for name in settings.SKILLS}
    chosen = agents or [name for name, place in homes.items() if remove or place.exists()]
    if not chosen:
        raise RelightError(
            f"none of {join_words(list(settings.SKILLS))} was found",
            "name one: its folder is then made",
        )
    done, failed = [], []
    for agent in chosen:
        undo = f"skills install {agent}{'' if remove else ' --remove'}"
        try:
            done.append(add_part(agent, settings.SKILLS, undo=undo, remove=remove))
        except RelightError as error:  # such as an edited file, which is no matter to other agents
            failed.append(error)
    if wants_json():
        print_json(Installations(done))
    if failed:
        raise failed[0]


def write_lessons(path: Path, text: str, *, remove: bool) -> None:
    """Write the block of lessons into a file, update it, or remove it."""
    from relight.warm.lessons import make_file_row

    row = {"lessons": make_file_row(path, text)}
    undo = f"lessons --to {shlex.quote(str(path))}{'' if remove else ' --remove'}"
    install_part("lessons", row, undo=undo, remove=remove)


def install_part(
    agent: str, agents: Mapping[str, settings.Agent], *, undo: str, remove: bool
) -> None:
    """Add a part to an agent or remove it; with `--json`, print the result."""
    done = add_part(agent, agents, undo=undo, remove=remove)
    if wants_json():
        print_json(done)


def add_part(
    agent: str, agents: Mapping[str, settings.Agent], *, undo: str, remove: bool
) -> Installation:
    """Show the change, ask, and apply it; with JSON, people read standard error.

    `undo` are the words after `relight` that undo it.
    """
    home = find_home(current_home()).absolute()
    change = settings.plan_change(agent, remove=remove, home=home, agents=agents)
    added = home / ADDED.format(agent=agent)
    package = agents[agent].package
    step = _plan_package(package, added, remove=remove) if package else settings.PackageStep()
    is_needed = change.is_needed or bool(step.command)
    if step.why_not:
        click.echo(f"not done: {step.why_not}", err=True)
    if is_needed:
        _show(agent, change, step, remove=remove, is_quiet=wants_json())
        confirm("do so?" if step.command else f"change {change.path} so?")
        if remove:  # the settings first: the agent must not look for a missing package
            settings.apply_change(change)
            _run_step(package, step, added, remove=True)
        else:
            _run_step(package, step, added, remove=False)
            settings.apply_change(change)
    elif remove:  # removes the copy of the original if a person edited Relight out
        settings.apply_change(change)
    trouble = None if remove else settings.find_trouble(agent, agents)
    if not wants_json():
        _report(change, is_needed=is_needed, remove=remove)
        if package and is_needed and not remove and home != Path.home() / ".relight":
            click.echo(f"start {agent} with RELIGHT_HOME={home}, so that it finds this home")
        if trouble:
            click.echo(f"one step is left: {trouble}")
        if is_needed:
            click.echo(
                f"to {'install' if remove else 'remove'} it again: {as_typed(f'relight {undo}')}"
            )
    return Installation(agent, str(change.path), is_needed, step.command, step.why_not, trouble)


def _report(change: settings.Change, *, is_needed: bool, remove: bool) -> None:
    if not is_needed:
        click.echo(f"nothing to do: {change.path} is {'without' if remove else 'set up for'} it")
    elif change.after is None:
        click.echo(f"removed {change.path}")
    else:
        click.echo(f"changed {change.path}" if change.is_needed else "done")


def _show(
    agent: str, change: settings.Change, step: settings.PackageStep, *, remove: bool, is_quiet: bool
) -> None:
    if change.is_needed:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        lines = unified_diff(before, after, str(change.path), str(change.path), lineterm="")
        click.echo("\n".join(lines), err=is_quiet)
    if step.command:
        click.echo(f"and run: {shlex.join(step.command)}", err=is_quiet)
        if not remove:
            click.echo(f"(no package of {agent} is changed)", err=is_quiet)


def _plan_package(module: str, added: Path, *, remove: bool) -> settings.PackageStep:
    """Return the step that changes the Python environment from which the agent loads Relight."""
    package = import_module(module)
    step: settings.PackageStep = (
        package.plan_removal(_read_added(added)) if remove else package.plan_addition()
    )
    return step


def _run_step(module: str | None, step: settings.PackageStep, added: Path, *, remove: bool) -> None:
    new = import_module(module).run_step(step) if module else []
    if remove:
        added.unlink(missing_ok=True)
    elif new:
        make_folder(added.parent)
        write_private(added, msgspec.json.encode(sorted({*_read_added(added), *new})))


def _read_added(path: Path) -> list[str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[str]) if path.exists() else []
    except msgspec.DecodeError as error:
        raise RelightError(f"{path} is not valid: {error}", "delete it") from error
