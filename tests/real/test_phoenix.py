"""Phoenix takes exported sessions as they are: its tokens, spans and failures are the report's.

Its environment has 620 MB, which is too large for every run of the tests.
"""

import os
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import build
import build_agents as agents
from clients import find_program
from relight.intake.span_target import export_spans
from relight.reports.totals import report

PHOENIX = "arize-phoenix==20.26.1"
COUNTS = """
    select count(*), count(distinct trace_rowid), sum(llm_token_count_prompt),
        sum(llm_token_count_completion), sum(span_kind = 'TOOL'),
        sum(span_kind = 'TOOL' and status_code = 'ERROR') from spans
"""


def find_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def is_listening(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def run_phoenix(folder: Path) -> Iterator[str]:
    port = find_port()
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(find_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(find_program("phoenix", PHOENIX)), "serve"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            build.wait_for(lambda: is_listening(port), seconds=240)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def read_counts(folder: Path) -> tuple[int, ...]:
    with closing(sqlite3.connect(f"file:{folder}/phoenix.db?mode=ro", uri=True)) as database:
        return tuple(database.execute(COUNTS).fetchone())


@pytest.mark.programs
def test_phoenix_has_the_tokens_spans_and_failures_of_the_report_after_two_exports(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "phoenix"
    folder.mkdir()
    agents.write_all(tmp_path)
    with build.open_home(tmp_path) as store, run_phoenix(folder) as target:
        build.import_home(store, tmp_path)
        for has_content in (False, True):
            sent = export_spans(store, target, has_content=has_content, environment={})
        build.wait_for(lambda: read_counts(folder)[0] >= sent.spans, seconds=120)
        total = report(store, ("day",)).total
        prompt = (total.input_tokens, total.cache_read_tokens, total.cache_write_tokens)
        assert read_counts(folder) == (
            sent.spans,
            total.sessions,
            sum(one or 0 for one in prompt),
            total.output_tokens,
            total.tool_calls,
            total.tool_failures,
        )
