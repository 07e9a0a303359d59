"""One session: found by the name that a person typed, with all facts and figures about it."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict, replace

from relight.errors import MissingError, describe
from relight.reports.spirals import SessionSpiral, session_spirals
from relight.reports.totals import ReportFigures, make_figures
from relight.sources.resume import resume_line
from relight.store import Store
from relight.store.queries import sessions as queries
from relight.store.queries import take_fields
from relight.store.queries.git_costs import (
    EditedFile,
    SessionCommit,
    read_session_commits,
    read_session_edits,
)
from relight.store.queries.sessions import ChildSession, SessionFacts
from relight.store.queries.steps import SessionCall, SessionTurn, read_tool_calls, read_turns
from relight.text import plural

SHOWN_NAMES = 8
MOST_NAMES = 50
SHORT_ID = 8
# characters after the source, above which a name is shown by both its ends
LONGEST_BEGINNING = 16
SHORTEST_HEAD, SHORTEST_END = 4, 6
CUT = ".."  # stands for what a short name leaves out; people can type it
LAST = re.compile(r"last(?:~([0-9]{1,9}))?")


class SessionHead(SessionFacts, frozen=True, kw_only=True):
    """A session without its steps: facts, outcome, and figures with its sub-agents'.

    `machine` is the one that pushed it, null if it was recorded here. `resume` is the shell line
    that continues it in its agent, null if the agent cannot: safe to paste, but untrusted text to a
    page.
    """

    session_id: str
    children: list[ChildSession]
    resume: str | None
    figures: ReportFigures
    spirals: list[SessionSpiral]
    commits: list[SessionCommit]
    files: list[EditedFile]

    @property
    def changed(self) -> str | None:
        """The files, lines and commits in words; None if nothing was changed."""
        added = sum(one.lines_added for one in self.files)
        removed = sum(one.lines_removed for one in self.files)
        words = []
        if self.files:
            files = plural(len(self.files), "file")
            words.append(f"{files} changed by edit calls, +{added:,} −{removed:,} lines")
        if self.commits:
            hashes = [one.hash or "(hash not printed)" for one in self.commits]
            several = "commit" if len(hashes) == 1 else f"{len(hashes):,} commits"
            words.append(f"{several} {', '.join(hashes[:SHOWN_NAMES])}")
        return " · ".join(words) or None


class SessionReport(SessionHead, frozen=True, kw_only=True):
    """A session with its own turns and tool calls."""

    turns: list[SessionTurn]
    tool_calls: list[SessionCall]


def find_session(store: Store, name: str) -> int:
    """Return the row id of a session by the name that a person gave.

    The name is `source:id`, the agent's id, a unique beginning of either, or `last`; `last~2` is
    the second before the last. `cron..1115_0815` is the one that begins and ends so. Sub-agents
    are not counted. The beginning of a source's name stands for its sessions.
    """
    found = queries.find_exact(store, name)
    if not found and (place := LAST.fullmatch(name)):
        found = queries.find_newest(store, int(place[1] or 0))
        if not found:
            raise _too_few(store, name)
    if not found and name:
        found = _prefer_root(queries.find_by_prefix(store, name, limit=MOST_NAMES))
    if not found and CUT in name.strip("."):
        ends = name.split(CUT, 1)
        found = _prefer_root(queries.find_by_ends(store, *ends, limit=MOST_NAMES))
    if not found and name:
        found = queries.find_by_source(store, name, limit=MOST_NAMES)
    if not found:
        raise MissingError(f"there is no session {describe(name)}", "`relight sessions` lists them")
    if len(found) > 1:
        names = [f"{one.source}:{one.key}" for one in found]
        short = shorten_names(store, names[:SHOWN_NAMES])
        several = ", ".join(short.values())
        rest = len(found) - SHOWN_NAMES
        more = f" and {rest} more" if rest > 0 else ""
        raise MissingError(f"{name!r} could be {several}{more}", "write more of its beginning")
    return found[0].id


def _prefer_root(found: list[queries.SessionKey]) -> list[queries.SessionKey]:
    """Return the one session that is no part of another, if there is one; else all."""
    roots = [one for one in found if one.is_named]
    return roots if len(roots) == 1 else found


def _too_few(store: Store, name: str) -> MissingError:
    message = f"there is no session {name!r}"
    if queries.has_sessions(store):
        return MissingError(message, "fewer sessions are recorded: `relight sessions` lists them")
    return MissingError(
        message, "nothing is recorded yet; run `relight import`, or try `relight demo`"
    )


def shorten_names(store: Store, names: Sequence[str]) -> dict[str, str]:
    """Return a short name of each `source:id` by which `find_session` finds it.

    It is a unique beginning with at least 8 characters after the source. If that is long, as of the
    runs of one job, it is the first 4 characters, two dots, and a unique end; so it is for a
    sub-agent whose id contains its parent's.
    """
    short = find_beginnings(store, names)
    long: dict[bool, dict[str, tuple[str, str]]] = {False: {}, True: {}}
    for name in names:
        source, _, key = short[name].partition(":")
        if len(key) > LONGEST_BEGINNING:
            is_part = "/" in key and short[name] == name
            long[is_part][name] = (source, key[:SHORTEST_HEAD])
    for is_part, some in long.items():
        below = queries.read_keys_below(store, set(some.values()), with_parts=is_part)
        for (source, head), keys in below.items():
            backwards = sorted(key[::-1] for key in keys)
            for name in (one for one in some if some[one] == (source, head)):
                key = name.partition(":")[2]
                end = _find_end(backwards, key)
                if len(head) + len(CUT) + end < len(short[name].partition(":")[2]):
                    short[name] = f"{source}:{head}{CUT}{key[-end:]}"
    return short


def find_beginnings(store: Store, names: Sequence[str]) -> dict[str, str]:
    """Return the shortest beginning of each `source:id` by which `find_session` finds it.

    It has at least 8 characters after the source, and more if another session begins so. The
    name of a sub-agent that contains its parent's stays whole.
    """
    short = {name: name for name in names}
    for one in queries.read_neighbours(store, names):
        common = [_count_common(one.key, near) for near in (one.before, one.after) if near]
        length = max([SHORT_ID - 1, *common]) + 1
        short[f"{one.source}:{one.key}"] = f"{one.source}:{one.key[:length]}"
    return short


def _find_end(backwards: Sequence[str], key: str) -> int:
    """Return how many characters at its end distinguish an id from all others, in sorted order."""
    turned = key[::-1]
    at = bisect_left(backwards, turned)
    near = [*backwards[max(at - 1, 0) : at], *backwards[at + 1 : at + 2]]
    return max([SHORTEST_END - 1, *(_count_common(turned, one) for one in near)]) + 1


def _count_common(one: str, other: str) -> int:
    """Return the number of characters that both texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def read_session(store: Store, session_id: int | str) -> SessionReport:
    """Return what is known of a session, with all its turns and tool calls.

    A session is named by its row, or as in `find_session`.
    """
    if isinstance(session_id, str):
        session_id = find_session(store, session_id)
    return SessionReport(
        **asdict(read_head(store, session_id)),
        turns=read_turns(store, session_id),
        tool_calls=read_tool_calls(store, session_id),
    )


def read_head(store: Store, session_id: int) -> SessionHead:
    """Return what is known of a session, without its steps."""
    found = queries.read_facts(store, session_id)
    if found is None:
        raise MissingError("that session is not in the store", "`relight sessions` lists them")
    # a session of another machine is continued there
    is_part = found.parent_kind == "subagent" or found.machine is not None
    return SessionHead(
        **take_fields(found, SessionFacts),
        session_id=found.session,
        resume=resume_line(found.source, found.id, found.project, is_part=is_part),
        children=queries.read_children(store, session_id),
        figures=sum_family(store, session_id),
        spirals=session_spirals(store, session_id),
        commits=read_session_commits(store, session_id),
        files=read_session_edits(store, session_id),
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
