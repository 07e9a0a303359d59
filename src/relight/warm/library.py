"""The templates there are: read, added to in versions, retired, restored, deleted.

A template is live, retired, or a candidate that waits for a person to take it.
"""

import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.checks import describe, refuse
from relight.errors import MissingError, RelightError
from relight.store import Store
from relight.warm import catalogue

NAME_LIMIT = 80
COLUMNS = (
    "template.id, name, version, description, project, category, task_type, tags, tools, task,"
    " actions, seed, tokens, score, outcome, evidence, overruled, redactions, source_session,"
    " provenance, template_version.created_at, retired_at, retired_why, proposed_at, content_hash"
)
LIVE = "retired_at is null and proposed_at is null"
# JSON in the database, lists and tables here
_STRUCTURED = ("tags", "tools", "actions", "seed", "evidence", "overruled", "redactions")


State = Literal["live", "retired", "candidate"]


class Template(Struct, frozen=True, kw_only=True):
    """One version of a template."""

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
    proposed_at: int | None = None
    content_hash: str = ""

    @property
    def state(self) -> State:
        if self.retired_at is not None:
            return "retired"
        return "live" if self.proposed_at is None else "candidate"


def read_templates(store: Store, *, with_retired: bool = True) -> list[Template]:
    """The newest version of every template that is or was in use, by name."""
    wanted = "proposed_at is null" if with_retired else LIVE
    return _read(store, f"version = ({_NEWEST}) and {wanted} order by name")


def read_neighbours(store: Store, template: Template) -> list[Template]:
    """The templates in use in a template's project and category, by name; it may be one of them."""
    place = [template.project, template.category]
    wanted = f"version = ({_NEWEST}) and {LIVE} and project is ? and category = ? order by name"
    return _read(store, wanted, place)


def read_candidates(store: Store) -> list[Template]:
    """The templates that wait for a person to take them, by name."""
    return _read(store, "retired_at is null and proposed_at is not null order by name")


def find_template(store: Store, name: str, *, version: int | None = None) -> Template:
    """The template of a name, in its newest version or the one given."""
    wanted = f"version = ({_NEWEST})" if version is None else "version = ?2"
    found = _read(store, f"name = ?1 and {wanted}", [name, *([] if version is None else [version])])
    if not found:
        which = "" if version is None else f" version {version}"
        raise MissingError(
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


def add_version(store: Store, template: Template, *, is_new: bool = False) -> Template:
    """Keep a template as a new one, or as the next version of the one of its name.

    With `is_new` it is never a version of another: a name that is taken gets a number. A retired
    template of that name comes back to life.
    """
    check_name(template.name)
    with store.transaction() as database:
        if is_new:
            _refuse_same(database, template)
            template = replace(template, name=find_free_name(database, template.name))
        row = database.execute(
            "select id from template where name = ?", (template.name,)
        ).fetchone()
        if row is None:
            kept = replace(template, id=_find_free_id(database), version=1)
            database.execute(
                "insert into template (id, name, project, category, created_at, proposed_at)"
                " values (?, ?, ?, ?, ?, ?)",
                (
                    kept.id,
                    kept.name,
                    kept.project,
                    kept.category,
                    kept.created_at,
                    kept.proposed_at,
                ),
            )
        else:
            kept = replace(template, id=row[0], version=_find_next_version(database, row[0]))
            database.execute(
                "update template set retired_at = null, retired_why = null, proposed_at = ?,"
                " project = ?, category = ? where id = ?",
                (kept.proposed_at, kept.project, kept.category, kept.id),
            )
        write_version(database, kept)
        catalogue.refresh(database, kept.id)
    return kept


def _refuse_same(database: sqlite3.Connection, template: Template) -> None:
    """Refuse what another process has kept since it was looked for."""
    row = database.execute(
        "select name from template join template_version on template_id = template.id"
        f" where content_hash = ? and source_session is ? and project is ? and {LIVE}",
        (template.content_hash, template.source_session, template.project),
    ).fetchone()
    if row:
        raise RelightError(f"{row[0]} holds the same already")


def find_free_name(database: sqlite3.Connection, name: str) -> str:
    """The name, or with a number where it is taken."""
    taken = {found for (found,) in database.execute("select name from template")}
    number, free = 1, name
    while free in taken:
        number += 1
        ending = f"-{number}"
        free = name[: NAME_LIMIT - len(ending)] + ending
    return free


def _find_free_id(database: sqlite3.Connection) -> int:
    """An id that no template ever had: provisions keep those of templates that are gone."""
    (last,) = database.execute(
        "select max(id) from (select id from template union all select template_id from provision)"
    ).fetchone()
    return int(last or 0) + 1


def _find_next_version(database: sqlite3.Connection, template_id: int) -> int:
    """One more than any there was: of a forgotten session only what was decided is left."""
    (last,) = database.execute(
        "select max(version) from (select version from template_version where template_id = ?1"
        " union all select version from provision where template_id = ?1)",
        (template_id,),
    ).fetchone()
    return int(last) + 1


def write_version(database: sqlite3.Connection, template: Template) -> None:
    """Write the row of a version; one that is there already is never overwritten."""
    row = {name: getattr(template, name) for name in Template.__struct_fields__}
    row |= {name: msgspec.json.encode(row[name]).decode() for name in _STRUCTURED}
    provenance = template.provenance
    row["provenance"] = msgspec.json.encode(provenance).decode() if provenance else None
    row["template_id"] = row.pop("id")
    for name in ("name", "project", "category", "retired_at", "retired_why", "proposed_at"):
        del row[name]
    marks = ", ".join("?" * len(row))
    database.execute(
        f"insert into template_version ({', '.join(row)}) values ({marks})", list(row.values())
    )


def retire_template(store: Store, name: str, *, why: str, now: int | None = None) -> None:
    """Take a template out of use; it is kept, with the reason."""
    template = find_template(store, name)
    at = int(time.time() * 1000) if now is None else now
    _set_state(store, template, retired_at=at, retired_why=why)


def restore_template(store: Store, name: str) -> Template:
    """Put a template into use that is retired or waits to be taken."""
    template = find_template(store, name)
    _set_state(store, template, retired_at=None, retired_why=None)
    return replace(template, retired_at=None, retired_why=None, proposed_at=None)


def _set_state(
    store: Store, template: Template, *, retired_at: int | None, retired_why: str | None
) -> None:
    with store.transaction() as database:
        database.execute(
            "update template set retired_at = ?, retired_why = ?, proposed_at = null where id = ?",
            (retired_at, retired_why, template.id),
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


def check_words(**lists: Any) -> None:
    """Refuse what is no list of words; of a plain text the letters would be taken for words."""
    for name, words in lists.items():
        is_list = isinstance(words, Collection) and not isinstance(words, str | Mapping)
        if not is_list or not all(isinstance(word, str) for word in words):
            raise refuse(name, f"must be a list of words, not {describe(words)}")


def check_name(name: object) -> None:
    """A name is one line of text; it becomes a file name only through `names`."""
    is_line = isinstance(name, str) and bool(name.strip()) and name.isprintable()
    if not is_line or len(str(name)) > NAME_LIMIT:
        raise RelightError(
            f"{describe(name)} cannot name a template",
            f"give it one line of 1 to {NAME_LIMIT} characters",
        )
