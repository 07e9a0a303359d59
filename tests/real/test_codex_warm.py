"""Codex itself with Relight's hook: once it is trusted, lessons and seed reach the model, once."""

import json
from pathlib import Path
from typing import Any

import build
import build_warm
from build_lessons import prepare_start
from clients import Codex
from relight.chat.blocks import LESSONS_TAG, TAG
from relight.model import row_id
from relight.reports.transcript import read_transcript
from relight.warm.agents.settings import AGENTS, find_trouble
from scripted import Reply
from scripted_agents import AgentServer

TASK = "The rounding of invoice totals is wrong, please fix the rounding in invoices"


def answer(_: dict[str, Any]) -> Reply:
    return Reply("The rounding is right now.")


def find_seeds(server: AgentServer) -> list[int]:
    """How often the seed stands in each request; the lessons stand there as often."""
    texts = [json.dumps(one["input"]) for one in server.asked]
    seeds = [text.count(f"<{TAG} ") for text in texts]
    assert [text.count(f"<{LESSONS_TAG}>") for text in texts] == seeds
    return seeds


def test_the_first_prompt_gets_the_seed_once_the_hook_is_trusted(tmp_path: Path) -> None:
    prepare_start(tmp_path, "Fix the rounding in the invoices module")
    with AgentServer(answer) as server:
        codex = Codex(tmp_path, server.base_url)
        said = codex.relight("warm", "--install", "codex", "--yes")
        assert "type /hooks, and trust" in said
        codex.ask(TASK)
        assert find_seeds(server) == [0]  # an untrusted hook is skipped silently
        assert find_trouble("codex", AGENTS, codex.environment)
        codex.trust_hooks()
        assert find_trouble("codex", AGENTS, codex.environment) is None
        session = codex.ask(TASK)
        assert find_seeds(server)[1:] == [1]
        codex.ask("Is the rounding of invoices right as well?", "resume", session)
        fork = codex.ask("And the rounding of invoices elsewhere?", "fork", session)
        assert fork != session
        assert find_seeds(server)[2:] == [1, 1]  # the first one stays; no prompt adds another
        codex.relight("warm", "--install", "codex", "--remove", "--yes")
        assert not (tmp_path / ".codex" / "hooks.json").exists()
        codex.ask(TASK)
        assert find_seeds(server)[4:] == [0]
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build.import_home(store, tmp_path, sources=["codex"])
        arms = dict(store.query("select session_key, arm from provision where source = 'codex'"))
        ((title,),) = store.query("select title from session where key = ?", (session,))
        messages = read_transcript(store, row_id("session", "codex", session)).messages
    assert arms == {session: "warm", fork: "continued"}
    assert title == TASK
    assert TAG not in json.dumps(messages)
    assert LESSONS_TAG not in json.dumps(messages)
