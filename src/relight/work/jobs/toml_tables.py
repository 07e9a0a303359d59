"""Jobs as TOML, one table each, for backup, editing and other machines."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.store import Store
from relight.work.jobs.job import JobDefinition, read_job
from relight.work.jobs.preparation import settle_job


class ExportedJob(JobDefinition, frozen=True, kw_only=True):
    """A job as it is stored, and whether it is paused."""

    paused: bool


class ExportedJobs(Struct, frozen=True):
    """Jobs as JSON, for backup or another machine."""

    jobs: list[ExportedJob]


def write_tables(jobs: Sequence[JobDefinition], *, paused: Collection[str] = ()) -> str:
    """Jobs as TOML, without settings that have their defaults."""
    return "\n".join(_write_table(job, is_paused=job.name in paused) for job in jobs)


def _write_table(job: JobDefinition, *, is_paused: bool) -> str:
    fields = msgspec.to_builtins(job)
    own = {name: value for name, value in fields.items() if name not in ("name", "created_at")}
    listed = own | ({"paused": True} if is_paused else {})
    lines = [f"{name} = {_write_value(value)}" for name, value in listed.items()]
    return "\n".join([f"[jobs.{job.name}]", *lines, ""])


def _write_value(value: Any) -> str:
    """A TOML value; text of several lines stays readable."""
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    # a JSON string is a TOML string too, except for one control character
    text = msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")
    if "\n" not in value:
        return text
    return '"""\n' + text[1:-1].replace("\\n", "\n") + '"""'


def read_tables(store: Store, file: Path) -> tuple[list[JobDefinition], set[str]]:
    """The checked jobs in a TOML file, and the names of the paused ones."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8")).get("jobs")
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        hint = "it must be TOML, as `relight job export` writes it"
        raise RelightError(f"cannot read jobs from {file}: {error}", hint) from error
    is_table = isinstance(tables, dict) and all(isinstance(one, dict) for one in tables.values())
    if not is_table or not tables:
        raise RelightError(f"there are no jobs in {file}", "each is a table such as [jobs.inbox]")
    jobs = [_read_table(store, name, table) for name, table in tables.items()]
    return jobs, {name for name, table in tables.items() if table.get("paused")}


def _read_table(store: Store, name: str, table: Mapping[str, Any]) -> JobDefinition:
    fields = {key: value for key, value in table.items() if key != "paused"}
    try:
        if not isinstance(table.get("paused", False), bool):
            raise RelightError("paused must be true or false")
        return settle_job(store, read_job({**fields, "name": name}))
    except RelightError as error:
        raise RelightError(f"[jobs.{name}]: {error.message}", error.hint) from error
