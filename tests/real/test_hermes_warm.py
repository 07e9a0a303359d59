"""Hermes itself with Relight's plugin: the seed reaches the model once, and is counted nowhere."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import build
import build_warm
from build_lessons import prepare_start
from clients import find_hermes, find_old_hermes, run_client
from relight.chat.blocks import LESSONS_TAG, TAG
from relight.store import Store
from relight.warm.agents.settings import apply_change, plan_change
from relight.work.experiments.holdout import read_holdout
from relight.work.experiments.metrics import read_arm_sessions
from scripted import Reply, Server, call, has_results
from terminal import Screen

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """model: {{provider: custom, base_url: "{url}", api_key: sk-scripted,
  default: scripted-model, context_length: 131072}}
agent: {{api_max_retries: 1}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""
TASK = "The rounding of invoice totals is wrong, please fix the rounding in invoices"
USAGE = {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234}
PRICED = {
    "id": "scripted-model",
    "context_length": 131072,
    "pricing": {"prompt": "0.000001", "completion": "0.000004"},
}
CALL_NANOS = 1200 * 1000 + 34 * 4000


def answer(request: dict[str, Any]) -> Reply:
    if "elsewhere" not in user_texts(request) and not has_results(request):
        return Reply("Let me look.", [call("terminal", command="echo looked")], usage=USAGE)
    return Reply("The rounding is right now.", usage=USAGE)


def put_package(folder: Path) -> Path:
    """Relight as Hermes' Python would find it once installed, beside what it needs."""
    site = Path(next(path for path in sys.path if path.endswith("site-packages")))
    folder.mkdir()
    for name in ("msgspec", "backports", "httpx2", "httpcore2", "truststore"):
        for found in [site / name, *site.glob(f"{name}*.dist-info")]:
            (folder / found.name).symlink_to(found)
    (folder / "relight").symlink_to(ROOT / "src" / "relight")
    about = folder / "relight-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: relight\nVersion: 0.1.0\n")
    points = "[hermes_agent.plugins]\nrelight = relight.warm.agents.hermes_plugin\n"
    (about / "entry_points.txt").write_text(points)
    return folder


def run_hermes(home: Path, url: str, *words: str, program: Path | None = None) -> str:
    command = [str(program or find_hermes()), *words]
    return run_client(command, prepare_hermes(home, url), home)


def prepare_hermes(home: Path, url: str) -> dict[str, str]:
    """The environment of Hermes, whose settings have the model's address and the plugin."""
    hermes = home / ".hermes"
    hermes.mkdir(exist_ok=True)
    if not (hermes / "config.yaml").exists():
        (hermes / "config.yaml").write_text(CONFIG.format(url=url))
        apply_change(plan_change("hermes", environment={"HOME": str(home)}))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HERMES_HOME": str(hermes),
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "RELIGHT_HOME": str(home / "relight"),
        "PYTHONPATH": str(home / "package"),
    }


def user_texts(body: dict[str, Any]) -> str:
    return json.dumps([one for one in body["messages"] if one["role"] == "user"])


def recorded(store: Store) -> tuple[int, int, int]:
    (row,) = store.query(
        "select sum(turns), sum(tool_calls), sum(tool_failures) from session_day"
        " where source = 'hermes'"
    )
    return row[0], row[1], row[2]


def test_the_first_turn_gets_lessons_and_seed_and_no_count_holds_them(tmp_path: Path) -> None:
    put_package(tmp_path / "package")
    prepare_start(tmp_path, "Fix the rounding in the invoices module")
    with Server(answer) as server:
        run_hermes(tmp_path, server.base_url, "chat", "-q", TASK, "-Q", "--yolo")
        first, second = (one.body for one in server.chats[:2])
        check_record(tmp_path)
        asked = len(server.chats)
        words = ("chat", "-q", "And elsewhere?", "-Q", "--yolo", "--continue")
        run_hermes(tmp_path, server.base_url, *words)
        later = [user_texts(one.body) for one in server.chats[asked:]]
    for mark in (f"<{LESSONS_TAG}>", f'<{TAG} name=\\"fix-rounding\\"'):
        assert user_texts(first).count(mark) == 1
        # a session that goes on has what it began with, and gets it no second time
        assert later
        assert [text.count(mark) for text in later] == [1] * len(later)
    assert user_texts(first) == user_texts(second)  # as it was, for the cache


@pytest.mark.parametrize(
    ("find_program", "copies"),
    [(find_hermes, 1), pytest.param(find_old_hermes, 0, marks=pytest.mark.programs)],
)
def test_a_branch_gets_no_second_start_and_counts_for_its_parents_arm(
    tmp_path: Path, find_program: Callable[[], Path], copies: int
) -> None:
    """An older Hermes loses the start when a session goes on: it gets none either."""
    program = find_program()
    put_package(tmp_path / "package")
    prepare_start(tmp_path, "Fix the rounding in the invoices module")
    with Server(answer, models=[PRICED]) as server:
        first = ("chat", "-q", TASK, "-Q", "--yolo")
        run_hermes(tmp_path, server.base_url, *first, program=program)
        asked = len(server.chats)
        words = [str(program), "chat", "--continue", "--yolo"]
        environment = prepare_hermes(tmp_path, server.base_url)
        with Screen(words, environment, tmp_path) as screen:
            screen.wait_for(lambda: screen.has("\u276f"))  # the mark before what a person types
            screen.press("/branch another way\r")
            screen.wait_for(lambda: screen.has("Branch session:"))
            screen.press("And elsewhere?\r")
            screen.wait_for(lambda: find_later(server, asked))
            screen.wait_for(lambda: screen.shown.count("The rounding is right now.") >= 2)
            screen.press("/exit\r")
            screen.wait_for(lambda: screen.child.poll() is not None)
        later = find_later(server, asked)
    # the branch has its parent's start, which Hermes copied with the conversation
    for mark in (f"<{LESSONS_TAG}>", f'<{TAG} name=\\"fix-rounding\\"'):
        assert user_texts(server.chats[0].body).count(mark) == 1
        assert [text.count(mark) for text in later] == [copies] * len(later)
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build.import_home(store, tmp_path, sources=["hermes"])
        kinds = store.query(
            "select parent_kind, sum(turns), sum(tool_calls), sum(cost_nanos)"
            " from session join session_day on session_id = session.id"
            " where session.source = 'hermes' group by session.id, parent_kind, key order by key"
        )
        ((arm,),) = store.query("select arm from provision")
        report = read_holdout(store)
        (unit,) = read_arm_sessions(store)
    assert kinds == [(None, 2, 1, 2 * CALL_NANOS), ("fork", 1, 0, CALL_NANOS)]
    assert report.provisions == {"warm": 1, "cold": 0, "abstained": 0}
    assert report.sessions == {"warm": 1, "cold": 0}
    assert (arm, unit.arm, unit.output_tokens) == ("warm", "warm", 3 * USAGE["completion_tokens"])


def find_later(server: Server, asked: int) -> list[str]:
    """What the conversation's own requests say from one on; that of its title has no tools."""
    return [user_texts(one.body) for one in server.chats[asked:] if one.body.get("tools")]


def check_record(home: Path) -> None:
    with build_warm.open_warm(home, hold_out=0.0) as store:
        own = "from turn join session on session.id = session_id where source = 'hermes'"
        before = store.query(f"select count(*), sum(calls) {own} and role is null")
        build.import_home(store, home, sources=["hermes"])
        ((key, arm, version),) = store.query("select session_key, arm, version from provision")
        assert (arm, version) == ("warm", 1)
        assert store.query("select 1 from session where source = 'hermes' and key = ?", (key,))
        # the plugin told of both calls one by one, and the database's sums add nothing to them
        assert before == [(2, 2)]
        assert recorded(store) == (2, 1, 0)
        ((taken,),) = store.query(
            "select duration_ms is not null from tool_call"
            " join session on session.id = session_id where source = 'hermes'"
        )
        assert taken == 1
        for tag in (TAG, LESSONS_TAG):
            assert store.query("select 1 from session where title like ?", (f"%{tag}%",)) == []


def test_a_broken_store_leaves_hermes_as_it_is(tmp_path: Path) -> None:
    put_package(tmp_path / "package")
    (tmp_path / "relight").mkdir()
    (tmp_path / "relight" / "relight.db").write_bytes(b"this is no database" * 100)
    with Server(answer) as server:
        said = run_hermes(tmp_path, server.base_url, "chat", "-q", TASK, "-Q", "--yolo")
        assert TAG not in user_texts(server.chats[0].body)
    assert "The rounding is right now." in said
    assert (tmp_path / "relight" / "missed.log").read_text().count("\n") > 0


def test_a_failed_call_leaves_the_cost_that_hermes_knows(tmp_path: Path) -> None:
    put_package(tmp_path / "package")
    build.open_home(tmp_path).close()

    def flaky(request: dict[str, Any]) -> Reply:
        if len(server.chats) == 1:
            return Reply(status=500, body=b'{"error": {"message": "scripted outage"}}')
        return answer(request)

    with Server(flaky, models=[PRICED]) as server:
        (tmp_path / ".hermes").mkdir()
        retrying = CONFIG.format(url=server.base_url).replace("retries: 1", "retries: 3")
        (tmp_path / ".hermes" / "config.yaml").write_text(retrying)
        apply_change(plan_change("hermes", environment={"HOME": str(tmp_path)}))
        run_hermes(tmp_path, server.base_url, "chat", "-q", TASK, "-Q", "--yolo")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path, sources=["hermes"])
        failed = store.query("select failure, cost_nanos from turn where calls = 0")
        ((turns, nanos, unpriced),) = store.query(
            "select sum(turns), sum(cost_nanos), sum(unpriced_turns) from session_day"
        )
    assert failed == [("server_error", 0)]
    assert (turns, nanos, unpriced) == (2, 2 * CALL_NANOS, 0)
