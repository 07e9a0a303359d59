"""Claude Code itself with budgets: stopped by the decision of its hook, and let go on again."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from clients import Claude
from relight.reports.budgets import set_limit
from relight.store import open_store
from scripted import Reply, call
from scripted_agents import AgentServer, has_tool_results

USAGE = {"prompt_tokens": 10_000, "completion_tokens": 10, "total_tokens": 10_010}
TASK = "Look after the house"


class House:
    """The scripted model: it calls a tool, then answers."""

    def __init__(self, home: Path) -> None:
        self.looked = home / "looked.txt"
        self.is_over = False
        self.home = home / "relight"

    def answer(self, request: dict[str, Any]) -> Reply:
        names = {tool["name"] for tool in request.get("tools") or ()}
        if "Bash" not in names or has_tool_results(request):
            return Reply("All is well.", usage=USAGE)
        if self.is_over:  # while the model thinks, the money runs out
            with open_store(self.home) as store:
                set_limit(store, "all", "0.01/day", stops=True)
        arguments = {"command": f"echo x > {self.looked}", "description": "Look"}
        return Reply("Let me.", [call("Bash", f"toolu_{uuid4().hex}", **arguments)], usage=USAGE)


def test_a_budget_that_is_used_up_stops_claude_code_and_can_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "relight").mkdir()
    house = House(tmp_path)
    with AgentServer(house.answer) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.relight("budget", "--install", "claude-code", "--yes")
        claude.relight("budget", "set", "1/day", "--stop")
        assert claude.ask(TASK)["result"] == "All is well."
        house.looked.unlink()
        claude.relight("import")

        house.is_over, asked = True, len(server.asked)
        claude.ask(TASK)
        assert len(server.asked) == asked + 1, "it went on after the tool call was stopped"
        assert not house.looked.exists()

        blocked = claude.ask(TASK)
        assert len(server.asked) == asked + 1
        assert "Relight's budget of $0.01 a day for everything is used up" in blocked["result"]

        house.is_over = False
        claude.environment["RELIGHT_BUDGET"] = "off"
        assert claude.ask(TASK)["result"] == "All is well."
        del claude.environment["RELIGHT_BUDGET"]
        claude.relight("budget", "set", "9/day", "--stop")
        assert claude.ask(TASK)["result"] == "All is well."
        claude.relight("budget", "--install", "claude-code", "--remove", "--yes")
    assert not (tmp_path / ".claude" / "settings.json").exists()
