"""Costs of branches, commits and files, and the commits and edits of a session."""

from msgspec import Struct

from relight.store import Store
from relight.store.derive.rollup import UNPRICED_TURNS
from relight.store.queries.costs import KNOWN_COST
from relight.store.queries.filters import escape_like
from relight.store.queries.steps import FAMILY
from relight.store.sql import like, read_usd
from relight.times import write_time

# sessions in a folder, or below it
IN_FOLDER = f"(session.project = :folder or {like('session.project', ':below')})"
IS_MADE = "coalesce(tool_call.label, '') <> 'error'"
# the path of an edit from the root of the file system
FULL_PATH = """case when substr(file_edit.path, 1, 1) = '/' then file_edit.path
    else coalesce(session.project || '/', '') || file_edit.path end"""
# the turns of a session and of its sub-agents between two moments
UNTIL = "turn.at > :after and turn.at <= :at"


class GitCost(Struct, frozen=True):
    """The cost of several turns, and the lines that their edits added and removed."""

    sessions: int
    turns: int
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    lines_added: int
    lines_removed: int


class CommitCall(Struct, frozen=True):
    """A commit that a call made, with the commit before it in the same tree of sessions."""

    root_id: int
    at: int
    after: int
    hash: str
    finished_at: int | None


class SessionCommit(Struct, frozen=True):
    """A commit of a session; `hash` is as git printed it, null if it printed none."""

    at: str | None
    hash: str | None
    branch: str | None


class EditedFile(Struct, frozen=True):
    """A file that a session changed by its edit calls."""

    path: str
    edits: int
    lines_added: int
    lines_removed: int


TURN_SUMS = f"""
    count(distinct session.root_id) as sessions, coalesce(sum(turn.calls), 0) as turns,
    coalesce(sum(case when turn.cost_status = 'included' then 0 else turn.cost_nanos end), 0)
        as cost_nanos,
    coalesce(sum(case when turn.cost_status = 'included' then turn.cost_nanos else 0 end), 0)
        as included_nanos,
    coalesce(sum({UNPRICED_TURNS}), 0) as unpriced_turns
"""
LINE_SUMS = """
    coalesce(sum(lines_added), 0) as lines_added, coalesce(sum(lines_removed), 0) as lines_removed
"""
FORMATS = {"cost_usd": read_usd, "included_usd": read_usd}
COST = KNOWN_COST.format("turns", "unpriced_turns", "cost_nanos")
SELECT = f"""
    select sessions, turns, {COST} as cost_usd, included_nanos as included_usd, unpriced_turns,
        lines_added, lines_removed from ({{sums}}) as sums, ({{lines}}) as lines
"""


def list_branches(store: Store, folder: str) -> list[str]:
    """Return the branches that sessions in a folder worked on, the latest first."""
    statement = (
        "select session_day.branch from session_day join session"
        f" on session.id = session_day.session_id where session_day.branch <> '' and {IN_FOLDER}"
        " group by session_day.branch order by max(session_day.day) desc, session_day.branch"
    )
    return [branch for (branch,) in store.query(statement, _within(folder))]


def sum_branch(store: Store, folder: str, branch: str) -> GitCost:
    """Return the cost of the turns on a branch, in sessions of a folder."""
    on_branch = f"coalesce(turn.branch, session.branch) = :branch and {IN_FOLDER}"
    sums = (
        f"select {TURN_SUMS} from session join turn on turn.session_id = session.id"
        f" where {on_branch}"
    )
    lines = (
        f"select {LINE_SUMS} from session join tool_call on tool_call.session_id = session.id"
        " join file_edit on file_edit.call_id = tool_call.id"
        f" left join turn on turn.id = tool_call.turn_id where {on_branch} and {IS_MADE}"
    )
    statement = SELECT.format(sums=sums, lines=lines)
    return store.read(GitCost, statement, {**_within(folder), "branch": branch}, FORMATS)[0]


def find_commit_calls(store: Store, folder: str) -> list[CommitCall]:
    """Return the commits that sessions of a folder made, oldest first."""
    return store.read(
        CommitCall,
        "select root_id, at, coalesce(lag(at) over (partition by root_id order by at, call_id), -1)"
        " as after, hash, finished_at from ("
        "   select session.root_id, tool_call.at, min(hash) as hash, finished_at, call_id"
        "   from git_commit join tool_call on tool_call.id = call_id"
        "   join session on session.id = tool_call.session_id"
        f"  where {IN_FOLDER} and {IS_MADE} and tool_call.at is not null"
        "   group by session.root_id, tool_call.at, finished_at, call_id"
        " ) as made order by at, call_id",
        _within(folder),
    )


def find_commit_hashes(store: Store, folder: str) -> dict[str, int]:
    """Return the moments of the commits that git printed in sessions of a folder, by hash."""
    rows = store.query(
        "select hash, min(tool_call.at) from git_commit join tool_call on tool_call.id = call_id"
        " join session on session.id = tool_call.session_id"
        f" where hash <> '' and {IN_FOLDER} and {IS_MADE} and tool_call.at is not null"
        " group by hash",
        _within(folder),
    )
    return dict(rows)


def sum_commit(store: Store, made: CommitCall) -> GitCost:
    """Return the cost of the turns since the commit before, with those of sub-agents."""
    sums = (
        f"select {TURN_SUMS} from session join turn on turn.session_id = session.id"
        f" where session.root_id = :root and {UNTIL}"
    )
    lines = (
        f"select {LINE_SUMS} from session join tool_call on tool_call.session_id = session.id"
        " join file_edit on file_edit.call_id = tool_call.id"
        " where session.root_id = :root and tool_call.at > :after and tool_call.at <= :at"
        f" and {IS_MADE}"
    )
    values = {"root": made.root_id, "after": made.after, "at": made.at}
    return store.read(GitCost, SELECT.format(sums=sums, lines=lines), values, FORMATS)[0]


def sum_path(store: Store, path: str) -> GitCost:
    """Return the cost of a file or folder: of each turn that changed it, its share.

    A turn that changed several files is divided equally among them.
    """
    is_it = f"({FULL_PATH} = :folder or {like(FULL_PATH, ':below')})"
    touched = f"""
        select tool_call.turn_id as id, session.root_id,
            count(distinct case when {is_it} then {FULL_PATH} end) as own,
            count(distinct {FULL_PATH}) as every
        from file_edit join tool_call on tool_call.id = call_id
        join session on session.id = tool_call.session_id
        where {IS_MADE} and tool_call.turn_id in (
            select tool_call.turn_id from file_edit join tool_call on tool_call.id = call_id
            join session on session.id = tool_call.session_id where {IS_MADE} and {is_it}
        ) group by tool_call.turn_id, session.root_id
    """
    share = "cast(round(cast(turn.cost_nanos as double precision) * own / every) as bigint)"
    sums = TURN_SUMS.replace("session.root_id", "touched.root_id")
    sums = sums.replace("0 else turn.cost_nanos end", f"0 else {share} end")
    sums = sums.replace("then turn.cost_nanos else 0", f"then {share} else 0")
    lines = (
        f"select {LINE_SUMS} from file_edit join tool_call on tool_call.id = call_id"
        f" join session on session.id = tool_call.session_id where {IS_MADE} and {is_it}"
    )
    statement = SELECT.format(
        sums=f"select {sums} from ({touched}) as touched join turn on turn.id = touched.id",
        lines=lines,
    )
    return store.read(GitCost, statement, _within(path), FORMATS)[0]


def read_session_commits(store: Store, session_id: int) -> list[SessionCommit]:
    """Return the commits of a session and its sub-agents, oldest first."""
    return store.read(
        SessionCommit,
        f"{FAMILY} select tool_call.at, nullif(hash, '') as hash, git_commit.branch"
        " from git_commit join tool_call on tool_call.id = call_id"
        f" where tool_call.session_id in (select id from family) and {IS_MADE}"
        " order by tool_call.at nulls last, call_id, hash",
        {"session": session_id},
        {"at": write_time},
    )


def read_session_edits(store: Store, session_id: int) -> list[EditedFile]:
    """Return the files that a session and its sub-agents changed, the most changed first."""
    return store.read(
        EditedFile,
        f"{FAMILY} select {FULL_PATH} as path, count(*) as edits, {LINE_SUMS}"
        " from file_edit join tool_call on tool_call.id = call_id"
        " join session on session.id = tool_call.session_id"
        f" where tool_call.session_id in (select id from family) and {IS_MADE}"
        f" group by {FULL_PATH} order by sum(lines_added) + sum(lines_removed) desc, 1",
        {"session": session_id},
    )


def _within(folder: str) -> dict[str, str]:
    """The values that select a folder and what is below it."""
    return {"folder": folder, "below": escape_like(f"{folder.rstrip('/')}/").removeprefix("%")}
