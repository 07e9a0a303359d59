"""`relight collect` and `relight serve --otlp`: what was acknowledged survives a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import build
from build_telemetry import encode, make_call
from relight.intake.importing import import_all
from relight.store import open_store


def post(address: str, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{address}v1/traces", body, headers), timeout=120) as response:
        return int(response.status)


@pytest.mark.parametrize(
    ("words", "line"),
    [(["collect", "--port", "0"], 0), (["serve", "--port", "0", "--otlp", "0"], 2)],
)
def test_what_was_acknowledged_before_a_kill_is_recorded_after_it(
    tmp_path: Path, words: list[str], line: int
) -> None:
    build.open_home(tmp_path).close()
    home = tmp_path / "relight"
    environment = {**os.environ, "HOME": str(tmp_path), "RELIGHT_HOME": str(home)}
    command = [sys.executable, "-m", "relight", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(line + 1)]
        address = lines[line].split()[-1]
        for number in range(3):
            body = encode("traces", make_call(f"span{number}", number, session__id="s"))
            assert post(address, body) == 200
        # a body that is too large is read to its end: else the exporter would see a broken line
        with pytest.raises(HTTPError, match="413"):
            post(address, bytes(40 << 20))
        os.killpg(server.pid, signal.SIGKILL)
    with open_store(home) as store:
        import_all(store, environment={"HOME": str(tmp_path)}, workers=1)
        assert store.query("select count(*), sum(output_tokens) from turn") == [(3, 30)]
