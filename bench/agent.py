"""Running agents: what recording, tracing and the loop add to the models' own time."""

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import relight
from bench.measure import judge, print_rows
from bench.model import serving
from relight.models.endpoints import Endpoint
from relight.store import Store, open_store
from relight.work.agent.loop import run_agent
from relight.work.agent.models import OneModel
from relight.work.agent.tools import TOOLS
from relight.work.moa.openai_client import MoA
from relight.work.run_spec import RunSpec

RECORDED_TURNS = 1000
MIXED_TURNS = 12
TASK_TURNS = 30
ADVISERS = 8


def main(_: list[str]) -> int:
    """Print the table; exit 1 where a figure is missed."""
    rows: list[tuple[str, str, str, str]] = []

    def add(what: str, figure: float, limit: float, unit: str) -> None:
        rows.append((what, f"{figure:.2f} {unit}", f"≤ {limit:g} {unit}", judge(figure, limit)))

    with tempfile.TemporaryDirectory() as folder:
        add("recorder: a turn, median of 1,000", measure_recorder(Path(folder)), 0.5, "ms")
        with serving() as url:
            plain, traced = measure_mixture(Path(folder), url)
            add("moa turn: 8 × 200 ms, then 100 ms", plain, 330, "ms")
            add("moa turn, traced", traced, 330, "ms")
            add("tracing adds", (traced / plain - 1) * 100, 2, "%")
            add(
                "loop: beyond the model, a turn of 3 calls",
                measure_loop(Path(folder), url),
                5,
                "ms",
            )
    print_rows(rows)
    return int(any(row[3] != "ok" for row in rows))


def measure_recorder(folder: Path) -> float:
    """Milliseconds that recording one turn takes, in a session of a thousand with as many calls."""
    times = []
    with (
        open_home(folder / "recorder") as store,
        relight.record(store, model="gpt-5.1", provider="openai") as rec,
    ):
        rec.message("user", "Do it")
        for _ in range(RECORDED_TURNS):
            started = time.perf_counter()
            rec.turn(input_tokens=1000, output_tokens=50, duration_ms=12)
            times.append(time.perf_counter() - started)
            rec.tool_call("terminal", {"command": "ls"}, '{"output": "a", "exit_code": 0}')
    return statistics.median(times) * 1000


def measure_mixture(folder: Path, url: str) -> tuple[float, float]:
    """Milliseconds of a turn without and with traces, taken in turns so that both see the same."""
    preset = {
        "name": "bench",
        "references": [{"model": "slow-200", "base_url": url}] * ADVISERS,
        "aggregator": {"model": "slow-100", "base_url": url},
    }
    with open_home(folder / "off") as off, open_home(folder / "on", is_traced=True) as on:
        clients = [MoA(preset, store=store) for store in (off, on)]
        times: list[list[float]] = [[], []]
        for number in range(MIXED_TURNS):
            order = (0, 1) if number % 2 else (1, 0)
            for which in order:
                messages = [{"role": "user", "content": f"Question {number}. " + "Words. " * 2000}]
                create = clients[which].chat.completions.create
                took = clock(partial(create, messages=messages))
                if number > 1:  # the first pays for connections and price lists
                    times[which].append(took)
    return statistics.median(times[0]) * 1000, statistics.median(times[1]) * 1000


def measure_loop(folder: Path, url: str) -> float:
    """Milliseconds a turn takes beyond what the model's server takes for it."""
    (folder / "work").mkdir()
    text = "some text\n" * 50
    (folder / "work" / "a.txt").write_text(text)
    endpoint = Endpoint(model=f"task-{TASK_TURNS}", base_url=url)
    with open_home(folder / "loop") as store:
        took = []
        for _ in range(3):
            rec = relight.record(store, model="task")
            spec = RunSpec(model=endpoint.model, folder=folder / "work")
            run = partial(run_agent, "Do it", spec, model=OneModel(endpoint), rec=rec)
            took.append(clock(run) * 1000 / (TASK_TURNS + 1))
    return min(took) - measure_server(url, text)


def measure_server(url: str, text: str) -> float:
    """Milliseconds that the server takes for one answer, asked in the plainest way there is.

    It is asked half-way through the task: to read a long conversation is its own time, too.
    """
    host, _, path = url.removeprefix("http://").partition("/")
    connection = HTTPConnection(host)
    function = {"name": "read_file", "arguments": '{"path": "a.txt"}'}
    calls = [{"id": f"0-{n}", "type": "function", "function": function} for n in range(3)]
    told = [{"role": "tool", "tool_call_id": one["id"], "content": text} for one in calls]
    turn = [{"role": "assistant", "content": None, "tool_calls": calls}, *told]
    tools = [tool.describe() for tool in TOOLS.values()]
    body = {"model": f"task-{TASK_TURNS}", "messages": turn * (TASK_TURNS // 2), "stream": True}
    data = json.dumps({**body, "tools": tools}).encode()
    times = []
    for _ in range(TASK_TURNS):
        started = time.perf_counter()
        connection.request("POST", f"/{path}/chat/completions", data)
        connection.getresponse().read()
        times.append(time.perf_counter() - started)
    connection.close()
    return statistics.median(times) * 1000


def clock(action: Callable[[], Any]) -> float:
    gc.collect()
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def open_home(home: Path, *, is_traced: bool = False) -> Store:
    home.mkdir()
    (home / "config.toml").write_text(f"[moa]\nsave_traces = {str(is_traced).lower()}\n")
    return open_store(home)
