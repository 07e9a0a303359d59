"""The health of the record: agents found, unreadable lines, missing prices, and what to do."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from relight.errors import as_typed
from relight.prices import is_local_model
from relight.reports.plan_worth import find_unknown_plans
from relight.reports.tapes import TapeHealth, check_tapes
from relight.sources import find_added, find_source, find_user, list_sources
from relight.store import Store
from relight.store.keep.migrate import find_old_rules
from relight.store.labels import SignPrecision, measure_signs
from relight.store.misses import count_missed
from relight.store.notices import NoticeCounts, count_notices
from relight.store.queries import health
from relight.store.queries.costs import UnpricedModel, read_unpriced_models
from relight.store.queries.filters import Filter
from relight.store.queries.health import DatabaseHealth, SetAsidePiece, UnreadableLine
from relight.store.queries.sessions import count_by_source, count_subagents
from relight.text import make_line, plural

RECENT = 10
Depth = Literal["quick", "usual", "deep"]
# how many tape parts are checked: chosen by chance, so that all of them are in time
SAMPLES: dict[Depth, int | None] = {"quick": 20, "usual": 200, "deep": None}


class SourceHealth(Struct, frozen=True):
    """A source: its folder, the files in it, and the sessions recorded of it with their sub-agents.

    A sub-agent is part of a session, as in every report.
    """

    source: str
    folder: str | None
    found: bool
    files: int
    sessions: int
    subagents: int


class UnreadableLines(Struct, frozen=True):
    """The number of unreadable lines, and the last of them."""

    count: int
    recent: list[UnreadableLine]


class SetAsidePieces(Struct, frozen=True):
    """The number of pieces that no worker process could read, and the pieces."""

    count: int
    pieces: list[SetAsidePiece]


class UnpricedTurns(Struct, frozen=True):
    """The number of model calls without a known cost, and the models without a price."""

    turns: int
    models: list[str]


class NotifyHealth(NoticeCounts, frozen=True):
    """The notifications so far; `to` is their target without its secrets."""

    to: str | None


class HealthReport(Struct, frozen=True, kw_only=True):
    """The health of the record; `ok` unless damage of the database or of a tape was found."""

    ok: bool
    home: str
    timezone: str
    sources: list[SourceHealth]
    unreadable: UnreadableLines
    set_aside: SetAsidePieces
    unpriced: UnpricedTurns
    database: DatabaseHealth
    tapes: TapeHealth
    missed_records: int
    signs: list[SignPrecision]
    notify: NotifyHealth
    advice: list[str]


def examine(
    store: Store,
    *,
    environment: Mapping[str, str] | None = None,
    depth: Depth = "usual",
    notes: Sequence[str] = (),
) -> HealthReport:
    """Return an examination of the record; `notes` are more advice, on what is not in it.

    The usual one reads the whole database and a sample of the tapes, a deep one all tapes. A quick
    one takes some milliseconds: it leaves the database's integrity unknown.
    """
    environment = os.environ if environment is None else environment
    counts = count_by_source(store), count_subagents(store)
    sources = [_examine_source(name, environment, *counts) for name in list_sources()]
    sources += [  # of packages that were removed
        SourceHealth(name, None, found=False, files=0, sessions=number, subagents=0)
        for name, number in counts[0].items()
        if name not in list_sources()
    ]
    lines = health.read_unreadable(store, limit=RECENT)
    unreadable = UnreadableLines(health.count_unreadable(store), lines)
    aside = health.read_set_aside_pieces(store)
    models = read_unpriced_models(store, Filter())
    unpriced = UnpricedTurns(
        health.count_unpriced(store), [one.model or "unknown" for one in models]
    )
    database = health.examine_database(store, is_whole=depth != "quick")
    tapes = check_tapes(store, sample=SAMPLES[depth])
    missed = count_missed(store)
    notices = read_notify_health(store)
    return HealthReport(
        ok=database.integrity in (None, "ok") and not tapes.damaged,
        home=str(store.config.home),
        timezone=store.timezone,
        sources=sources,
        unreadable=unreadable,
        set_aside=SetAsidePieces(len(aside), aside),
        unpriced=unpriced,
        database=database,
        tapes=tapes,
        missed_records=missed,
        signs=measure_signs(store),
        notify=notices,
        advice=[
            *map(as_typed, _advise(sources, unreadable, database, missed)),
            *_advise_on_forms(environment),
            *map(as_typed, _advise_on_prices(models, store.config.local_models_are_free)),
            *map(as_typed, _advise_on_pieces(aside)),
            *map(as_typed, _advise_on_tapes(tapes)),
            *_advise_on_notices(notices),
            *find_old_rules(store),
            *find_unknown_plans(store.config.plans, store.config.limits),
            *find_added().warnings,
            *notes,
        ],
    )


def _examine_source(
    name: str,
    environment: Mapping[str, str],
    sessions: Mapping[str, int],
    subagents: Mapping[str, int],
) -> SourceHealth:
    source = find_source(name)
    folders = source.find_folders(environment)
    found = [folder for folder in folders if folder.exists()]
    folder = next(iter(found or folders), None)
    return SourceHealth(
        source=name,
        folder=None if folder is None else str(folder),
        found=bool(found),
        files=sum(1 for _ in source.find(environment, None)),
        sessions=sessions.get(name, 0),
        subagents=subagents.get(name, 0),
    )


def _advise(
    sources: Sequence[SourceHealth],
    unreadable: UnreadableLines,
    database: DatabaseHealth,
    missed: int,
) -> list[str]:
    advice = []
    if database.integrity not in (None, "ok"):
        advice.append("the database is damaged: restore a copy made by `relight backup`")
    if not any(source.sessions for source in sources):
        if any(source.files for source in sources):
            advice.append("nothing is recorded yet: run `relight import`")
        else:
            advice.append("no agent's sessions were found: try `relight demo`")
    if unreadable.count:
        lines = plural(unreadable.count, "line")
        advice.append(f"{lines} could not be read; all other lines were")
    if missed:
        advice.append(
            f"{plural(missed, 'record')} could not be saved as sent: the database was locked, full"
            " or read-only, a value was not valid, or telemetry was refused or shortened (the log"
            " of the program names it)"
        )
    return advice


def _advise_on_forms(environment: Mapping[str, str]) -> list[str]:
    """The files of agents in forms that Relight does not read."""
    found = Counter[str]()
    for source in list_sources().values():
        for pattern, what in source.unread:
            is_users = pattern.startswith("~/")
            roots = [find_user(environment)] if is_users else source.find_homes(environment)
            for root in roots:
                with suppress(OSError):
                    found[what] += sum(1 for _ in root.glob(pattern.removeprefix("~/")))
    return [f"{plural(files, 'file')} not read: {what}" for what, files in found.items() if files]


def _advise_on_prices(models: Sequence[UnpricedModel], is_free: bool) -> list[str]:
    """The settings that give models a price; local models have one setting in common."""
    advice = []
    local = [one for one in models if is_local_model(one.model, one.provider)]
    nameless = sum(one.turns for one in models if one.model is None and one not in local)
    if nameless:
        advice.append(
            f"{plural(nameless, 'turn has', 'turns have')} no recorded model, so no price"
        )
    if others := [_name(one) for one in models if one.model is not None and one not in local]:
        advice.append(
            f'no price is known for {", ".join(others[:3])}: add [prices."{others[0]}"] to'
            " config.toml, then run `relight rebuild --prices`"
        )
    if local:
        names = ", ".join(map(_name, local[:3]))
        cause = "recorded before they were free" if is_free else "at local endpoints"
        cure = "" if is_free else "set local_models_are_free = true in config.toml, then "
        advice.append(
            f"no price is known for {names}, {cause}: {cure}run `relight rebuild --prices`"
        )
    return advice


def _name(one: UnpricedModel) -> str:
    return make_line(one.model or "unknown", 80)


def _advise_on_pieces(aside: Sequence[SetAsidePiece]) -> list[str]:
    if not aside:
        return []
    pieces = plural(len(aside), "piece of a file is", "pieces of files are")
    return [
        f"{pieces} set aside: the next import tries each once more, and again after an upgrade of"
        " Relight; all other sessions were read"
    ]


def _advise_on_tapes(tapes: TapeHealth) -> list[str]:
    if not tapes.damaged:
        return []
    sessions = plural(len({damage.session_id for damage in tapes.damaged}), "session")
    advice = [
        f"the tapes of {sessions} are damaged: restore a copy made by `relight backup`; the"
        " figures stay, and other sessions are not affected"
    ]
    if tapes.checked < tapes.parts:
        advice.append("run `relight doctor --deep`, which checks all tapes")
    return advice


def read_notify_health(store: Store) -> NotifyHealth:
    """Return the target of notifications and how many were sent, wait or failed."""
    return NotifyHealth(**asdict(count_notices(store)), to=store.config.notify.shown)


def _advise_on_notices(notices: NotifyHealth) -> list[str]:
    if not (notices.to and notices.failed):
        return []
    number = plural(notices.failed, "notification")
    test = as_typed("`relight notify --test` tries the setting")
    return [f"{number} could not be sent to {notices.to}: {notices.error}; {test}"]
