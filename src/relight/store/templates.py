"""Templates in the database: their rows and their versions."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from relight.store import Store
from relight.store.sql import (
    Connection,
    divide,
    find_first,
    find_next_id,
    insert_values,
    list_marks,
    list_values,
    read,
    same,
)

State = Literal["live", "retired", "candidate"]

LIVE = "retired_at is null and proposed_at is null"
_JOINED = "template join template_version on template_id = template.id"
_IS_NEWEST = (
    "version = (select max(version) from template_version as other"
    " where other.template_id = template.id)"
)
# JSON in the database, lists and tables in a Template
_STRUCTURED = ("tags", "tools", "actions", "seed", "evidence", "overruled", "redactions")
# columns of `template`; all other fields of a Template are columns of `template_version`
_SHARED = ("name", "project", "category", "retired_at", "retired_why", "proposed_at")


class TemplateFacts(Struct, frozen=True, rename={"source_session": "session_id"}):
    """The parts of a template's version that every view of it shows."""

    name: str
    version: int
    description: str
    project: str | None
    category: str
    task_type: str
    tags: list[str]
    tools: list[str]
    task: str
    tokens: int
    score: float | None
    outcome: str
    evidence: list[str]
    overruled: list[str]
    redactions: dict[str, int]
    source_session: str | None
    provenance: dict[str, Any] | None


class TemplateWords(Struct, frozen=True):
    """The weighed words of a template's session by where they stood, and those of its actions."""

    user: dict[str, float] = {}
    assistant: dict[str, float] = {}
    commands: dict[str, float] = {}
    results: dict[str, float] = {}
    actions: dict[str, float] = {}


class Template(TemplateFacts, frozen=True):
    """One version of a template."""

    id: int
    actions: dict[str, float]
    seed: list[dict[str, Any]]
    created_at: int
    retired_at: int | None = None
    retired_why: str | None = None
    proposed_at: int | None = None
    content_hash: str = ""
    # only a new one has them: they are read by `read_words` alone
    words: TemplateWords | None = None

    @property
    def state(self) -> State:
        if self.retired_at is not None:
            return "retired"
        return "live" if self.proposed_at is None else "candidate"


class TemplateText(Struct, frozen=True):
    """The searchable parts of a live template."""

    id: int
    task: str
    project: str | None
    category: str
    tags: list[str]
    tools: list[str]
    source_session: str | None
    provenance: dict[str, Any] | None


class WordlessVersion(Struct, frozen=True):
    """A version of a template whose words must be read from its seed."""

    id: int
    version: int
    task: str
    seed: list[dict[str, Any]]


class VersionName(Struct, frozen=True):
    """A version of a template that is or was in use."""

    template_id: int
    name: str
    version: int
    retired_at: int | None
    retired_why: str | None


def _name_column(name: str) -> str:
    if name == "words":  # as large as all the rest, and of use for comparisons alone
        return "null as words"
    table = {"id": "template.", "created_at": "template_version."}.get(name, "")
    return f"{table}{name}"


def _decode(text: str | None) -> Any:
    return msgspec.json.decode(text) if text else text


_FORMATS = dict.fromkeys(("provenance", *_STRUCTURED), _decode)
COLUMNS = ", ".join(map(_name_column, Template.__struct_fields__))
_read_words = msgspec.json.Decoder(TemplateWords).decode


def read_templates(store: Store, *, with_retired: bool = True) -> list[Template]:
    """Return the newest version of every live, and by default retired, template, by name."""
    state = "proposed_at is null or retired_at is not null" if with_retired else LIVE
    return _read(store, f"{_IS_NEWEST} and ({state}) order by name")


def read_candidates(store: Store) -> list[Template]:
    """Return the templates that wait for a person to accept them, by name."""
    state = "retired_at is null and proposed_at is not null"
    return _read(store, f"{_IS_NEWEST} and {state} order by name")


def read_siblings(store: Store, template: Template) -> list[Template]:
    """Return the live templates of a template's project and category, itself included."""
    where = f"{_IS_NEWEST} and {LIVE} and {same('project', '?')} and category = ? order by name"
    return _read(store, where, [template.project, template.category])


def read_template(store: Store, name: str, *, version: int | None = None) -> Template | None:
    """Return one version of a template, the newest by default."""
    if version is None:
        found = _read(store, f"name = ? and {_IS_NEWEST}", [name])
    else:
        found = _read(store, "name = ? and version = ?", [name, version])
    return found[0] if found else None


def read_versions(store: Store, name: str) -> list[Template]:
    """Return all versions of a template, the oldest first."""
    return _read(store, "name = ? order by version", [name])


def read_by_id(store: Store, ids: Sequence[int]) -> dict[int, Template]:
    """Return the newest versions of the templates with these ids."""
    found = _read(store, f"template.id in ({list_marks(ids)}) and {_IS_NEWEST}", ids)
    return {one.id: one for one in found}


def read_version_names(store: Store) -> list[VersionName]:
    """Return every version of the templates that are or were in use, by name."""
    return store.read(
        VersionName,
        f"select template_id, name, version, retired_at, retired_why from {_JOINED}"
        " where proposed_at is null order by name, version",
    )


def read_texts(database: Connection, template_id: int | None = None) -> list[TemplateText]:
    """Return what live templates are found by, of all or of the one with this id."""
    columns = ", ".join(map(_name_column, TemplateText.__struct_fields__))
    is_one = "" if template_id is None else " and template.id = ?"
    return read(
        database,
        TemplateText,
        f"select {columns} from {_JOINED} where {_IS_NEWEST} and {LIVE}{is_one}",
        () if template_id is None else (template_id,),
        _FORMATS,
    )


def read_words(database: Connection, ids: Iterable[int]) -> dict[int, TemplateWords]:
    """Return the words of the newest versions of these templates."""
    return {
        found: _read_words(words)
        for some, marks in divide(ids)
        for found, words in database.execute(
            f"select template.id, words from {_JOINED} where template.id in ({marks})"
            f" and {_IS_NEWEST} and words is not null",
            some,
        )
    }


def read_wordless(database: Connection) -> list[WordlessVersion]:
    """Return the live templates whose words are not known, made by an earlier Relight."""
    return read(
        database,
        WordlessVersion,
        f"select template.id, version, task, seed from {_JOINED}"
        f" where {_IS_NEWEST} and {LIVE} and words is null",
        (),
        _FORMATS,
    )


def write_words(database: Connection, template_id: int, version: int, words: TemplateWords) -> None:
    """Record the words of a template's version."""
    statement = "update template_version set words = ? where template_id = ? and version = ?"
    database.execute(statement, (msgspec.json.encode(words).decode(), template_id, version))


def read_live_ids(database: Connection) -> set[int]:
    """Return the ids of all live templates."""
    return set(list_values(database, f"select id from template where {LIVE}"))


def has_templates(store: Store) -> bool:
    """True if there is any template, live or not."""
    return store.has_rows("template")


def has_name(store: Store, name: str) -> bool:
    """True if a template has this name."""
    return bool(store.query("select 1 from template where name = ?", (name,)))


def find_name(store: Store, template_id: int | None) -> str | None:
    """Return the name of a template; None if it was deleted."""
    return store.find_first("select name from template where id = ?", (template_id,))


def read_names(database: Connection) -> set[str]:
    """Return the names of all templates."""
    return set(list_values(database, "select name from template"))


def find_same_seed(store: Store, template: Template) -> list[int]:
    """Return the ids of live templates in the same project with the same seed."""
    return store.list_values(
        f"select template.id from {_JOINED} where {LIVE} and content_hash = ?"
        f" and {same('project', '?')}",
        (template.content_hash, template.project),
    )


def find_copy(database: Connection, template: Template) -> str | None:
    """Return the name of a live template with the same seed, session and project, if any."""
    return find_first(
        database,
        f"select name from {_JOINED} where {LIVE} and content_hash = ?"
        f" and {same('source_session', '?')} and {same('project', '?')}",
        (template.content_hash, template.source_session, template.project),
    )


def find_id(database: Connection, name: str) -> int | None:
    """Return the id of the template with this name, if any."""
    return find_first(database, "select id from template where name = ?", (name,))


def find_free_id(database: Connection) -> int:
    """Return an id that no template ever had: provisions keep the ids of deleted templates."""
    used = "(select id from template union all select template_id from provision) as used"
    return find_next_id(database, used)


def find_next_version(database: Connection, template_id: int) -> int:
    """Return a version number that was never used; provisions keep those of deleted versions."""
    (last,) = database.execute(
        "select max(version) from (select version from template_version where template_id = ?"
        " union all select version from provision where template_id = ?) as used",
        (template_id, template_id),
    ).fetchone()
    return int(last) + 1


def insert_template(database: Connection, template: Template) -> None:
    """Insert the row of a new template, without its version."""
    columns = ("id", "name", "project", "category", "created_at", "proposed_at")
    insert_values(database, "template", {name: getattr(template, name) for name in columns})


def update_template(database: Connection, template: Template) -> None:
    """Make an existing template live again, or a candidate, with a new version's place."""
    database.execute(
        "update template set retired_at = null, retired_why = null, proposed_at = ?,"
        " project = ?, category = ? where id = ?",
        (template.proposed_at, template.project, template.category, template.id),
    )


def insert_version(database: Connection, template: Template) -> None:
    """Insert the row of a version. An existing version is never overwritten."""
    row = {
        name: getattr(template, name)
        for name in Template.__struct_fields__
        if name not in ("id", *_SHARED)
    }
    row |= {name: msgspec.json.encode(row[name]).decode() for name in _STRUCTURED}
    for name in ("words", "provenance"):
        row[name] = msgspec.json.encode(row[name]).decode() if row[name] else None
    insert_values(database, "template_version", row | {"template_id": template.id})


def set_state(
    database: Connection,
    template_id: int,
    *,
    retired_at: int | None,
    retired_why: str | None,
) -> None:
    """Retire a template, or make it live if `retired_at` is None. Either ends its candidacy."""
    database.execute(
        "update template set retired_at = ?, retired_why = ?, proposed_at = null where id = ?",
        (retired_at, retired_why, template_id),
    )


def delete_rows(database: Connection, template_id: int) -> None:
    """Delete a template and all its versions."""
    database.execute("delete from template_version where template_id = ?", (template_id,))
    database.execute("delete from template where id = ?", (template_id,))


def _read(store: Store, where: str, values: Sequence[Any] = ()) -> list[Template]:
    statement = f"select {COLUMNS} from {_JOINED} where {where}"
    return store.read(Template, statement, list(values), _FORMATS)
