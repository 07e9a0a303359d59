"""One session: found by the name that a person typed, with all facts and figures about it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import MissingError
from relight.reports.failures import SessionSpiral, session_spirals
from relight.reports.totals import ReportFigures, make_figures
from relight.store import Store
from relight.store.queries import sessions as queries
from relight.store.queries.sessions import ChildSession
from relight.store.queries.steps import SessionCall, SessionTurn, read_tool_calls, read_turns

SHOWN_NAMES = 8
MOST_NAMES = 50


class SessionHead(Struct, frozen=True, kw_only=True):
    """A session without its steps: facts, outcome, and figures with its sub-agents'."""

    session: str
    source: str
    id: str
    parent: str | None
    parent_kind: str | None
    children: list[ChildSession]
    project: str | None
    title: str | None
    model: str | None
    version: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    evidence: list[str]
    answer: str | None
    task_type: str | None
    category: str | None
    score: float | None
    has_tape: bool
    figures: ReportFigures
    spirals: list[SessionSpiral]


class SessionReport(SessionHead, frozen=True, kw_only=True):
    """A session with its own turns and tool calls."""

    turns: list[SessionTurn]
    tool_calls: list[SessionCall]


def find_session(store: Store, name: str) -> int:
    """Return the row id of a session from `source:id`, the agent's id, or a beginning of either."""
    found = queries.find_exact(store, name)
    if not found and name:
        found = queries.find_by_prefix(store, name, limit=MOST_NAMES)
        roots = [one for one in found if "/" not in one.key]
        found = roots if len(roots) == 1 else found
    if not found:
        raise MissingError(
            f"there is no session {name!r}", "`relight report --by session` lists them"
        )
    if len(found) > 1:
        several = ", ".join(f"{one.source}:{one.key}" for one in found[:SHOWN_NAMES])
        rest = len(found) - SHOWN_NAMES
        more = f" and {rest} more" if rest > 0 else ""
        raise MissingError(f"{name!r} could be {several}{more}", "write more of its beginning")
    return found[0].id


def read_session(store: Store, session_id: int) -> SessionReport:
    """Return what is known of a session, with all its turns and tool calls."""
    return SessionReport(
        **asdict(read_head(store, session_id)),
        turns=read_turns(store, session_id, SessionTurn),
        tool_calls=read_tool_calls(store, session_id, SessionCall),
    )


def read_head(store: Store, session_id: int) -> SessionHead:
    """Return what is known of a session, without its steps."""
    found = queries.read_facts(store, session_id)
    if found is None:
        raise MissingError("that session is not in the store", "`relight report --by session`")
    known = asdict(found)
    del known["root_id"]
    return SessionHead(
        **known,
        children=queries.read_children(store, session_id),
        figures=sum_family(store, session_id),
        spirals=session_spirals(store, session_id),
    )


def sum_family(
    store: Store, session_id: int, *, unwritten: Iterable[Mapping[str, int | None]] = ()
) -> ReportFigures:
    """Return the figures of a session and all sub-agents below it.

    `unwritten` are sums of turns that are not in the store yet. The time is the session's own:
    its sub-agents run within it.
    """
    sums = queries.sum_usage(store, session_id)
    for more in unwritten:
        known = {name: value for name, value in more.items() if value is not None}
        sums = replace(sums, **{name: (getattr(sums, name) or 0) + known[name] for name in known})
    return replace(make_figures(sums), failed_turns=sums.failed_turns or 0)
