"""Codex itself writes how full its windows are; Relight reads it from the rollout."""

import time
from pathlib import Path
from typing import Any

import build
from clients import Codex
from relight.reports.limits import read_limits_report
from scripted import Reply
from scripted_agents import AgentServer


def test_the_windows_in_a_rollout_of_codex_are_those_that_the_server_named(tmp_path: Path) -> None:
    resets_at = int(time.time()) // 60 * 60 + 7200

    def answer(_: dict[str, Any]) -> Reply:
        headers = {
            "x-codex-primary-used-percent": "12.5",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": str(resets_at),
            "x-codex-secondary-used-percent": "40",
            "x-codex-secondary-window-minutes": "10080",
            "x-codex-secondary-reset-at": str(resets_at + 86400),
        }
        return Reply("The rounding is right.", headers=headers)

    with AgentServer(answer) as server:
        Codex(tmp_path, server.base_url).ask("Is the rounding right?")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = read_limits_report(store).windows
    reported = {one.kind: (one.used_percent, one.ends_at) for one in found}
    ends = [time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(resets_at + s)) for s in (0, 86400)]
    assert reported == {"5h": (12.5, ends[0]), "week": (40.0, ends[1])}
    assert {(one.source, one.basis, one.turns) for one in found} == {("codex", "reported", 1)}
