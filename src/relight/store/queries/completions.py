"""Names in the record: those that begin with what a person typed so far, and those lately used."""

import re

from msgspec import Struct

from relight.store import Store

MOST = 50
# the sessions whose names are suggested: a page must not read all of a large store for it
NEWEST = """(
    select root_id, project, began_at from listing order by began_at desc, root_id limit {}
) as newest"""
LATELY = {
    "project": f"select project as word from {NEWEST.format(500)} where project is not null"
    " group by project order by max(began_at) desc, project",
    "model": f"select session_day.model as word from {NEWEST.format(500)}"
    " join session_day on session_day.root_id = newest.root_id where session_day.model is not null"
    " group by session_day.model order by max(began_at) desc, session_day.model",
    # one step of the index for each skill
    "skill": """
        with recursive known (skill) as (
            select min(skill_name) from skill_invocations union all
            select (select min(skill_name) from skill_invocations where skill_name > known.skill)
            from known where known.skill is not null
        )
        select skill as word from known where skill is not null order by (
            select max(invoked_at) from skill_invocations where skill_name = known.skill
        ) desc, skill""",
    "job": "select name as word from job where coalesce(state, '') <> 'removed'"
    " group by name order by name",
    "machine": "select distinct name as word from machine order by name",
    "person": "select name as word from person order by name",
}
# the beginning is compared as text: no character of it is a pattern
BEGINS = "substr({0}, 1, length(:typed)) = :typed"
NAME = "session.source || ':' || session.key"


# where names of a kind are
NAMED = {
    "project": ("listing", "project"),
    "source": ("listing", "source"),
    "model": ("usage_day", "model"),
    "skill": ("skill_invocations", "skill_name"),
    "tool": ("call_day", "tool"),
    "job": ("job", "name"),
    "template": ("template", "name"),
    "failure": ("call_day", "kind"),
    "machine": ("machine", "name"),
    "person": ("person", "name"),
}


class Completion(Struct, frozen=True):
    """A word that may be typed, and what it stands for."""

    word: str
    about: str | None = None


class TypedSession(Struct, frozen=True):
    """A session that may be meant: its source, its id there, and its title."""

    source: str
    key: str
    title: str | None


def list_lately_used(store: Store, kind: str) -> list[str]:
    """Return names of projects, models, skills or jobs, those of the newest sessions first."""
    return [row[0] for row in store.query(f"{LATELY[kind]} limit {MOST}")]


def list_names(store: Store, kind: str) -> list[str]:
    """Return every name of a kind that sessions can be chosen by."""
    table, column = NAMED[kind]
    found = store.query(f"select distinct {column} from {table} where {column} is not null")
    return sorted(row[0] for row in found)


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


def find_names(store: Store, kind: str, typed: str) -> list[Completion]:
    """Return the names of a kind that begin so; models have their short names."""
    if kind == "job":
        return _find_jobs(store, typed)
    return _find_projects(store, typed) if kind == "project" else _find_names(store, kind, typed)


def _find_jobs(store: Store, typed: str) -> list[Completion]:
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


def _find_projects(store: Store, typed: str) -> list[Completion]:
    """Return folders that begin as typed; else the names of folders, which filters take too."""
    if found := _find_names(store, "project", typed):
        return found
    folders = {re.split(r"[/\\]", one)[-1]: one for one in reversed(list_names(store, "project"))}
    return [Completion(name, folders[name]) for name in sorted(folders) if name.startswith(typed)]


def _find_names(store: Store, kind: str, typed: str) -> list[Completion]:
    table, column = NAMED[kind]
    return store.read(
        Completion,
        f"select distinct {column} as word, cast(null as text) as about from {table}"
        f" where {column} is not null and {BEGINS.format(column)}"
        f" order by {column} limit {MOST}",
        {"typed": typed},
    )
