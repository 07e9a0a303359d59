"""Other schedulers' jobs whose model a person lets Relight change.

Everything else of other agents is read only. A change is asked for by a person, shown first, made
in one step, and undone by writing what was there before.
"""

import shlex
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from relight.sources import list_sources


class JobEditor(Protocol):
    """A reader and writer of the model of a scheduler's jobs; `key` is the job's id there.

    `edit` is the command of the scheduler's own program that changes a job.
    """

    edit: tuple[str, ...]

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None: ...

    def read_model(self, key: str) -> tuple[str | None, str | None, str | None]:
        """Return the model and the provider that the job names, and the model that it runs on."""
        ...

    def write_model(self, key: str, model: str | None, provider: str | None) -> None:
        """Change the model of a job; None follows the scheduler's default."""
        ...

    def show_change(self, key: str, model: str | None, provider: str | None) -> str:
        """Return the change in words: the command that makes it, or a diff of the file."""
        ...


def find_job_editor(source: str, environment: Mapping[str, str]) -> JobEditor | None:
    """Return what changes the jobs of an agent's scheduler; None if nothing does."""
    kind = _load_editor(source)
    if kind is None:
        return None
    homes = [home for home in list_sources()[source].find_homes(environment) if home.is_dir()]
    return kind(homes[0], environment) if homes else None


def find_edit_command(full_name: str) -> str | None:
    """Return the line that changes another scheduler's job with its own program, if it is known.

    >>> find_edit_command("hermes:4d9a61c07b3e")
    'hermes cron edit 4d9a61c07b3e'
    """
    source, _, key = full_name.partition(":")
    kind = _load_editor(source)
    return None if kind is None else shlex.join([*kind.edit, key])


def _load_editor(source: str) -> type[JobEditor] | None:
    row = list_sources().get(source)
    if row is None or row.job_editor is None:
        return None
    module, _, name = row.job_editor.partition(":")
    kind: type[JobEditor] = getattr(import_module(module), name)
    return kind
