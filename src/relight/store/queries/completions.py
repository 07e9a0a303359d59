"""Names in the record that begin with what a person typed so far, for a shell's completion."""

from msgspec import Struct

from relight.store import Store

MOST = 50
# the beginning is compared as text: no character of it is a pattern
BEGINS = "substr({0}, 1, length(:typed)) = :typed"
NAME = "session.source || ':' || session.key"


class Completion(Struct, frozen=True):
    """A word that may be typed, and what it stands for."""

    word: str
    about: str | None = None


class TypedSession(Struct, frozen=True):
    """A session that may be meant: its source, its id there, and its title."""

    source: str
    key: str
    title: str | None


def find_sessions(store: Store, typed: str) -> list[TypedSession]:
    """Return the newest sessions whose id, or `source:id`, begins so."""
    return store.read(
        TypedSession,
        "select session.source, session.key, session.title from listing"
        " join session on session.id = listing.root_id"
        f" where {BEGINS.format('session.key')}"
        f" or {BEGINS.format(NAME)}"
        f" order by listing.began_at desc, listing.root_id limit {MOST}",
        {"typed": typed},
    )


def find_jobs(store: Store, typed: str) -> list[Completion]:
    """Return jobs by name, and by full name once that is typed; removed ones are left out."""
    return store.read(
        Completion,
        "select word, about from ("
        " select name as word, full_name as about, state from job union all"
        " select full_name, name, state from job where full_name <> name and :typed <> ''"
        f") as named where {BEGINS.format('word')} and coalesce(state, '') <> 'removed'"
        f" order by word limit {MOST}",
        {"typed": typed},
    )


def find_skills(store: Store, typed: str) -> list[Completion]:
    return _find_names(store, "skill_invocations", "skill_name", typed)


def find_templates(store: Store, typed: str) -> list[Completion]:
    return _find_names(store, "template", "name", typed)


def find_models(store: Store, typed: str) -> list[Completion]:
    """Return the models of sessions, by their short names."""
    return _find_names(store, "session_day", "model", typed)


def find_projects(store: Store, typed: str) -> list[Completion]:
    return _find_names(store, "listing", "project", typed)


def find_sources(store: Store, typed: str) -> list[Completion]:
    return _find_names(store, "listing", "source", typed)


def _find_names(store: Store, table: str, column: str, typed: str) -> list[Completion]:
    return store.read(
        Completion,
        f"select distinct {column} as word, cast(null as text) as about from {table}"
        f" where {column} is not null and {BEGINS.format(column)}"
        f" order by {column} limit {MOST}",
        {"typed": typed},
    )
