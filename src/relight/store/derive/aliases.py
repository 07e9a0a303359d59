"""The short names of models in roll-ups and uses of skills.

Every name is looked up when it is recorded. If the rules or the user's aliases change, the next
import or rebuild sums the sessions with changed names again.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct

from relight.aliases import find_model_name
from relight.data import read_data
from relight.store import Store
from relight.store.sql import insert, replacing

# the short name of the model in a column or expression
NAMED = "coalesce((select name from model_alias where model_alias.model = {0}), {0})"
SEEN = """
    select model from turn union select model from session union select model from job
    union select model from run union select model from skill_told
"""
# the sessions that a changed name is in, and their roots, which skills are charged by
CHANGED = """
    select session_id from turn where model in ({marks})
    union select id from session where model in ({marks})
    union select session.root_id from turn join session on session.id = turn.session_id
    where turn.model in ({marks})
"""
# uses that belong to no recorded session have the model of their fact
TOLD = """(
    select told.model from skill_told as told
    where told.session_id = skill_invocations.session_id
        and told.skill_name = skill_invocations.skill_name
        and coalesce(told.entry, '') = coalesce(skill_invocations.entry, '')
)"""
RENAME_UNRECORDED = f"""
    update skill_invocations set model = {NAMED.format(TOLD)}
    where root_id is null and {TOLD} is not null
"""
KEY = "model_aliases"


class AliasRow(Struct, frozen=True):
    """A row of `model_alias`."""

    model: str
    name: str


def learn(
    database: sqlite3.Connection, models: Iterable[str | None], own: Mapping[str, str]
) -> dict[str | None, str]:
    """Record the short names of models; return those that differ from the full ones."""
    named = {one: find_model_name(one, own) for one in set(models) if one is not None}
    rows = [AliasRow(model, name) for model, name in named.items() if name != model]
    # most turns are on a known model: a live session writes no page more for it
    statement = "select 1 from model_alias where model = ? and name = ?"
    new = [one for one in rows if not database.execute(statement, (one.model, one.name)).fetchone()]
    insert(database, "model_alias", new, on_conflict=replacing(AliasRow, "model"))
    return {row.model: row.name for row in rows}


def refresh_aliases(store: Store) -> int:
    """Name all models by the present rules; return how many sessions were summed again."""
    own = store.config.models.aliases
    rules = msgspec.json.encode([read_data("models.toml"), own], order="sorted")
    version = blake2b(rules, digest_size=8).hexdigest()
    if store.query(f"select 1 from meta where key = '{KEY}' and value = ?", (version,)):
        return 0
    from relight.store.derive import rollup

    with store.transaction() as database:
        before = dict(database.execute("select model, name from model_alias").fetchall())
        models = [model for (model,) in database.execute(SEEN).fetchall()]
        database.execute("delete from model_alias")
        after = learn(database, models, own)
        # a name may have been learned by another process since its sessions were summed
        changed = [one for one in models if one in before or one in after]
        touched = _find_sessions(database, changed)
        rollup.refresh(database, touched)
        if _has_skills(database):
            from relight.store.derive.skills import uses

            uses.refresh(database, touched)
            database.execute(RENAME_UNRECORDED)
        database.execute(
            f"insert into meta (key, value) values ('{KEY}', ?)"
            " on conflict (key) do update set value = excluded.value",
            (version,),
        )
    return len(touched)


def _find_sessions(database: sqlite3.Connection, models: list[str]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(models), 100):
        some = models[start : start + 100]
        marks = ", ".join("?" * len(some))
        rows = database.execute(CHANGED.format(marks=marks), some * CHANGED.count("{marks}"))
        found |= {session for (session,) in rows.fetchall()}
    return found


def _has_skills(database: sqlite3.Connection) -> bool:
    return database.execute("select 1 from skill_invocations limit 1").fetchone() is not None
