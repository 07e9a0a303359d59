"""Forks that Claude Code itself makes: every session has the turns and the cost of its own run."""

from pathlib import Path
from typing import Any

import build
from clients import Claude
from relight.reports.sessions import find_session, read_session
from scripted import Reply
from scripted_agents import AgentServer

USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}
PARENT = "99999999-aaaa-4aaa-8aaa-999999999999"
FORK = "00000000-bbbb-4bbb-8bbb-000000000000"
DEEP = "01111111-cccc-4ccc-8ccc-011111111111"


def answer(request: dict[str, Any]) -> Reply:
    return Reply("It is done.", usage=USAGE)


def test_forks_of_the_real_client_keep_their_own_turns(tmp_path: Path) -> None:
    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        totals = {PARENT: claude.ask("Begin", "--session-id", PARENT)["total_cost_usd"]}
        for parent, fork in ((PARENT, FORK), (FORK, DEEP)):
            words = ("--resume", parent, "--fork-session", "--session-id", fork)
            totals[fork] = claude.ask(f"Go on in {fork}", *words)["total_cost_usd"]
        claude.ask("The parent goes on", "--resume", PARENT)
    for order in ([PARENT, FORK, DEEP], [DEEP, FORK, PARENT]):
        home = tmp_path / order[0]
        with build.open_home(home) as store:
            for name in order:
                (file,) = (tmp_path / ".claude").rglob(f"{name}.jsonl")
                copied = home / ".claude" / file.relative_to(tmp_path / ".claude")
                copied.parent.mkdir(parents=True, exist_ok=True)
                copied.write_bytes(file.read_bytes())
                build.import_home(store, home, sources=["claude-code"])
            found = {name: read_session(store, find_session(store, name)) for name in order}
    assert {name: one.figures.turns for name, one in found.items()} == {PARENT: 2, FORK: 1, DEEP: 1}
    parents = {name: (one.parent_kind, one.parent) for name, one in found.items()}
    assert parents == {
        PARENT: (None, None),
        FORK: ("fork", f"claude-code:{PARENT}"),
        DEEP: ("fork", f"claude-code:{FORK}"),
    }
    # the client's figure includes what a fork copied
    costs = {name: one.figures.cost_usd or 0.0 for name, one in found.items()}
    assert round(costs[FORK], 9) == round(totals[FORK] - totals[PARENT], 9)
    assert round(costs[DEEP], 9) == round(totals[DEEP] - totals[FORK], 9)
