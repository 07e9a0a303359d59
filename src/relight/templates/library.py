"""The templates there are: read, added to in versions, retired, restored, deleted."""

import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.store import Store
from relight.templates import catalogue

NAME_LIMIT = 80
COLUMNS = (
    "template.id, name, version, description, project, category, task_type, tags, tools, task,"
    " actions, seed, tokens, score, outcome, evidence, overruled, redactions, source_session,"
    " provenance, template_version.created_at, retired_at, retired_why, content_hash"
)
# JSON in the database, lists and tables here
_STRUCTURED = ("tags", "tools", "actions", "seed", "evidence", "overruled", "redactions")


class Template(Struct, frozen=True, kw_only=True):
    """One version of a template. `retired_at` is None while the template is live."""

    id: int
    name: str
    version: int
    description: str
    project: str | None
    category: str
    task_type: str
    tags: list[str]
    tools: list[str]
    task: str
    actions: dict[str, float]
    seed: list[dict[str, Any]]
    tokens: int
    score: float | None
    outcome: str
    evidence: list[str]
    overruled: list[str]
    redactions: dict[str, int]
    source_session: str | None
    provenance: dict[str, Any] | None
    created_at: int
    retired_at: int | None = None
    retired_why: str | None = None
    content_hash: str = ""


def read_templates(store: Store, *, with_retired: bool = True) -> list[Template]:
    """The newest version of every template, by name."""
    live = "" if with_retired else " and retired_at is null"
    return _read(store, f"version = ({_NEWEST}){live} order by name")


def find_template(store: Store, name: str, *, version: int | None = None) -> Template:
    """The template of a name, in its newest version or the one given."""
    wanted = f"version = ({_NEWEST})" if version is None else "version = ?2"
    found = _read(store, f"name = ?1 and {wanted}", [name, *([version] if version else [])])
    if not found:
        which = f" version {version}" if version else ""
        raise RelightError(
            f"there is no template {name!r}{which}", "`relight template list` shows them"
        )
    return found[0]


def read_versions(store: Store, name: str) -> list[Template]:
    return _read(store, "name = ? order by version", [name])


def read_by_id(store: Store, ids: Sequence[int]) -> dict[int, Template]:
    """The newest versions of the templates of these ids."""
    marks = ",".join("?" * len(ids))
    found = _read(store, f"template.id in ({marks}) and version = ({_NEWEST})", ids)
    return {one.id: one for one in found}


_NEWEST = "select max(version) from template_version as other where other.template_id = template.id"


def _read(store: Store, where: str, values: Sequence[Any] = ()) -> list[Template]:
    rows = store.query(
        f"select {COLUMNS} from template join template_version on template_id = template.id"
        f" where {where}",
        list(values),
    )
    names = [column.rpartition(".")[2].strip() for column in COLUMNS.split(",")]
    return [_make_template(dict(zip(names, row, strict=True))) for row in rows]


def _make_template(row: dict[str, Any]) -> Template:
    row |= {name: msgspec.json.decode(row[name]) for name in _STRUCTURED}
    row["provenance"] = msgspec.json.decode(row["provenance"]) if row["provenance"] else None
    return Template(**row)


def add_version(store: Store, template: Template) -> Template:
    """Keep a template as a new one, or as the next version of the one of its name.

    `id` and `version` are given here. A retired template of that name comes back to life.
    """
    check_name(template.name)
    with store.transaction() as database:
        row = database.execute(
            "select id, (select max(version) from template_version where template_id = id),"
            " category, project from template where name = ?",
            (template.name,),
        ).fetchone()
        if row is None:
            values = (template.name, template.project, template.category, template.created_at)
            added = database.execute(
                "insert into template (name, project, category, created_at) values (?, ?, ?, ?)",
                values,
            )
            found, version = added.lastrowid, 1
        else:
            found, version = row[0], row[1] + 1
            database.execute(
                "update template set retired_at = null, retired_why = null, project = ?,"
                " category = ? where id = ?",
                (template.project, template.category, found),
            )
        kept = msgspec.structs.replace(template, id=found, version=version)
        write_version(database, kept)
        catalogue.refresh(database, kept.id)
    return kept


def write_version(database: sqlite3.Connection, template: Template) -> None:
    """Write the row of a version; one that is there already is never overwritten."""
    row = {name: getattr(template, name) for name in Template.__struct_fields__}
    row |= {name: msgspec.json.encode(row[name]).decode() for name in _STRUCTURED}
    provenance = template.provenance
    row["provenance"] = msgspec.json.encode(provenance).decode() if provenance else None
    row["template_id"] = row.pop("id")
    for name in ("name", "project", "category", "retired_at", "retired_why"):
        del row[name]
    marks = ", ".join("?" * len(row))
    database.execute(
        f"insert into template_version ({', '.join(row)}) values ({marks})", list(row.values())
    )


def retire_template(store: Store, name: str, *, why: str, now: int | None = None) -> None:
    """Take a template out of use; it is kept, with the reason."""
    template = find_template(store, name)
    at = int(time.time() * 1000) if now is None else now
    with store.transaction() as database:
        database.execute(
            "update template set retired_at = ?, retired_why = ? where id = ?",
            (at, why, template.id),
        )
        catalogue.refresh(database, template.id)


def restore_template(store: Store, name: str) -> None:
    template = find_template(store, name)
    with store.transaction() as database:
        database.execute(
            "update template set retired_at = null, retired_why = null where id = ?",
            (template.id,),
        )
        catalogue.refresh(database, template.id)


def delete_template(store: Store, name: str) -> None:
    """Delete a template with all its versions; what was decided with it stays on record."""
    template = find_template(store, name)
    with store.transaction() as database:
        delete_rows(database, template.id)


def delete_rows(database: sqlite3.Connection, template_id: int) -> None:
    database.execute("delete from template_version where template_id = ?", (template_id,))
    database.execute("delete from template where id = ?", (template_id,))
    catalogue.refresh(database, template_id)


def check_name(name: str) -> None:
    """A name is one line of text; it becomes a file name only through `names`."""
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise RelightError(
            f"{name[:NAME_LIMIT]!r} cannot name a template",
            f"give it one line of 1 to {NAME_LIMIT} characters",
        )
