"""How the record is doing: what is found, read, unreadable, unpriced, and what to do about it."""

import os
from collections.abc import Mapping
from typing import Any

from relight.sources import find_added, find_source, list_sources
from relight.store import Store
from relight.store.misses import count_missed

RECENT = 10


def examine(store: Store, *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A full examination; `ok` unless the database itself is broken."""
    environment = os.environ if environment is None else environment
    sources = [_examine_source(store, name, environment) for name in list_sources()]
    unreadable = _unreadable(store)
    unpriced = _unpriced(store)
    database = _examine_database(store)
    missed = count_missed(store)
    return {
        "ok": database["integrity"] == "ok",
        "home": str(store.config.home),
        "timezone": store.timezone,
        "sources": sources,
        "unreadable": unreadable,
        "unpriced": unpriced,
        "database": database,
        "missed_records": missed,
        "advice": [
            *_advise(sources, unreadable, unpriced, database, missed),
            *find_added().warnings,
        ],
    }


def _examine_source(store: Store, name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    source = find_source(name)
    folders = source.find_folders(environment)
    files = sum(1 for _ in source.find(environment, None))
    (sessions,) = store.query("select count(*) from session where source = ?", (name,))[0]
    found = [folder for folder in folders if folder.exists()]
    folder = next(iter(found or folders), None)
    return {
        "source": name,
        "folder": None if folder is None else str(folder),
        "found": bool(found),
        "files": files,
        "sessions": sessions,
    }


def _unreadable(store: Store) -> dict[str, Any]:
    (count,) = store.query("select count(*) from unreadable")[0]
    rows = store.query(
        "select path, position, reason from unreadable join origin on origin.id = origin_id"
        f" order by seen_at desc, path, position limit {RECENT}"
    )
    recent = [{"file": path, "offset": at, "reason": reason} for path, at, reason in rows]
    return {"count": count, "recent": recent}


def _unpriced(store: Store) -> dict[str, Any]:
    rows = store.query(
        "select coalesce(model, 'unknown'), sum(unpriced_turns) from session_day"
        " where unpriced_turns > 0 group by model order by 2 desc"
    )
    return {"turns": sum(turns for _, turns in rows), "models": [model for model, _ in rows]}


def _examine_database(store: Store) -> dict[str, Any]:
    integrity = store.query("pragma quick_check(1)")[0][0]
    size = sum(
        path.stat().st_size
        for path in (store.path, store.path.with_name(store.path.name + "-wal"))
        if path.exists()
    )
    (schema,) = store.query("pragma user_version")[0]
    return {"integrity": integrity, "bytes": size, "schema": schema}


def _advise(
    sources: list[dict[str, Any]],
    unreadable: dict[str, Any],
    unpriced: dict[str, Any],
    database: dict[str, Any],
    missed: int,
) -> list[str]:
    advice = []
    if database["integrity"] != "ok":
        advice.append("the database is damaged: restore a copy made by `relight backup`")
    if not any(source["sessions"] for source in sources):
        if any(source["files"] for source in sources):
            advice.append("nothing is recorded yet: run `relight import`")
        else:
            advice.append("no agent's sessions were found: try `relight demo`")
    if unreadable["count"]:
        lines = "1 line" if unreadable["count"] == 1 else f"{unreadable['count']:,} lines"
        advice.append(f"{lines} could not be read; the rest of the files was")
    if unpriced["models"]:
        names = ", ".join(unpriced["models"][:3])
        advice.append(
            f'no price is known for {names}: add [prices."{unpriced["models"][0]}"] to'
            " config.toml, then run `relight rebuild --prices`"
        )
    if missed:
        advice.append(
            f"{missed} records could not be kept: the database was locked, full or read-only, or"
            " what was told was wrong"
        )
    return advice
