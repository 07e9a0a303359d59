"""`relight join`, `push`, `status`, `leave`, `member` and `serve --team`, as real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import build
import serving
from relight.intake.joining import DeriveStatus, join, leave, read_status
from relight.store import open_store
from relight.store.members import SCOPES, make_token
from relight.store.team import count_due, read_target, write_target
from relight.store.write.pushed import read_backlog
from terminal import Run, run_relight

SESSIONS = 12


def run(home: Path, *words: str, **environment: str) -> Run:
    return run_relight({**os.environ, **environment}, *words, "--home", str(home))


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with many small sessions, each a part of its own."""
    folder = tmp_path_factory.mktemp("laptop")
    for number in range(SESSIONS):
        name = f"{number:08}-aaaa-4aaa-8aaa-111111111111"
        session = {"sessionId": name}
        lines = [
            build.claude_prompt("Tidy", 0, **session),
            build.claude_answer(f"msg_{number}", **session),  # type: ignore[arg-type]
        ]
        build.write_claude(folder, lines, name=name)
    with build.open_home(folder) as store:
        build.import_home(store, folder)
        return store.config.home


@pytest.fixture(scope="module")
def server(laptop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("server") / "relight"
    added = run(home, "member", "add", "anna", "--json")
    found = json.loads(added.stdout)
    assert found["person"] == "anna"
    (home / "token").write_text(found["token"])
    (home / "token").chmod(0o600)
    return home


@pytest.fixture
def address(server: Path) -> Iterator[str]:
    with serving.serve(server, "--team", "--no-watch") as (found, _):
        yield found


def read_health(address: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{address}healthz") as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


def find_children(process: int) -> list[int]:
    words = (Path("/proc") / str(process) / "task" / str(process) / "children").read_text()
    return [int(word) for word in words.split()]


def start_client(laptop: Path, address: str, server: Path) -> "subprocess.Popen[bytes]":
    """A push in a separate process, in batches so small that a kill is in the middle of it."""
    with open_store(laptop) as store:
        target = read_target(store)
        url = address.rstrip("/")
        if target is None:
            token = str(server / "token")
            join(store, url, token_file=token, share="tapes", name="laptop")
        else:
            write_target(store, msgspec.structs.replace(target, url=url))
    code = (
        "import relight.intake.push as push; push.BATCH_PARTS = 1; from relight.cli import main;"
        f" main(['push', '--home', {str(laptop)!r}])"
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)


def check_kill(
    laptop: Path, server: Path, client: "subprocess.Popen[bytes]", *, parts: int, kill: list[int]
) -> None:
    """Kill processes when so many parts have arrived; what was acknowledged is stored."""
    count = "select count(*) from tape_part"
    with open_store(server) as store, open_store(laptop) as own:
        build.wait_for(lambda: store.query(count)[0][0] >= parts)
        for one in kill:
            os.kill(one, signal.SIGKILL)
        client.wait(60)
        due = own.query("select count(*) from push_due where kind = 'part'")[0][0]
        assert store.query(count)[0][0] >= SESSIONS - due >= 0


def test_killed_clients_servers_and_derivers_lose_nothing_and_count_nothing_twice(
    laptop: Path, server: Path
) -> None:
    with serving.serve(server, "--team", "--no-watch") as (address, process):
        client = start_client(laptop, address, server)
        check_kill(laptop, server, client, parts=1, kill=[client.pid])
        client = start_client(laptop, address, server)
        check_kill(laptop, server, client, parts=3, kill=[process])
    with serving.serve(server, "--team", "--no-watch") as (address, process):
        client = start_client(laptop, address, server)
        check_kill(laptop, server, client, parts=5, kill=find_children(process))
    with serving.serve(server, "--team", "--no-watch") as (address, _):
        assert start_client(laptop, address, server).wait(60) == 0
        build.wait_for(lambda: read_health(address)["behind"] == 0)
    with open_store(server) as store, open_store(laptop) as own:
        assert count_due(own) == 0
        sums = "select session_id, turns, output_tokens, cost_nanos from session_day order by 1"
        assert store.query(sums) == own.query(sums)
        assert store.query("select count(*) from tape_part") == [(SESSIONS,)]
        assert read_backlog(store).failed == 0


def test_a_joined_machine_pushes_after_each_import_by_itself(
    laptop: Path, server: Path, address: str
) -> None:
    url = address.rstrip("/")
    token = (server / "token").read_text()
    joined = run(laptop, "join", url, "--as", "laptop", "--json", RELIGHT_TEAM_TOKEN=token)
    status = json.loads(joined.stdout)
    assert (status["joined"], status["url"], status["share"]) == (True, url, "figures")
    assert status["pending"] > 0
    imported = run(laptop, "import", RELIGHT_TEAM_TOKEN=token)
    assert imported.returncode == 0
    with open_store(laptop) as store:
        found = read_status(store)
    assert (found.machine, found.pending, found.trouble) == ("laptop", 0, None)
    assert found.last_push_at is not None
    build.wait_for(lambda: read_health(address)["behind"] == 0)
    with open_store(server) as store:
        assert read_status(store).pushed_here == DeriveStatus(0, 0.0, 0)
    told = run(server, "report", "--by", "machine,person", "--since", "all", "--json")
    row = json.loads(told.stdout)["rows"][0]
    assert (row["machine"], row["person"], row["sessions"]) == ("laptop", "anna", SESSIONS)


def test_a_push_before_the_first_import_says_what_to_do(
    tmp_path: Path, server: Path, address: str
) -> None:
    token = (server / "token").read_text()
    joined = run(tmp_path, "join", address, "--as", "new", RELIGHT_TEAM_TOKEN=token)
    assert joined.returncode == 0
    for words in (["push", "--dry-run"], ["push"]):
        done = run(tmp_path, *words, RELIGHT_TEAM_TOKEN=token)
        assert done.returncode == 0
        hint = f"run `relight --home {tmp_path} import`"
        assert done.stderr == f"nothing is recorded here yet; {hint}\n"


def test_an_import_works_while_the_server_is_gone_and_without_a_token(laptop: Path) -> None:
    with open_store(laptop) as store, store.transaction() as database:
        database.execute("insert into push_due (kind, id) select 'part', id from tape_part")
    assert run(laptop, "import").returncode == 0
    pushed = run(laptop, "push", RELIGHT_TEAM_TOKEN="relight_x")
    assert pushed.returncode == 1
    assert "cannot be reached" in pushed.stderr
    assert "nothing is lost" in pushed.stderr
    status = json.loads(run(laptop, "status", "--json").stdout)
    assert status["pending"] == SESSIONS
    assert "cannot be reached" in status["trouble"]
    with open_store(laptop) as store:
        leave(store, forget=False)
        assert read_status(store).joined is False


def test_the_list_of_people_shows_when_a_token_last_pushed(tmp_path: Path) -> None:
    run(tmp_path, "member", "add", "zoe")

    def read_line() -> str:
        shown = run(tmp_path, "member", "list", COLUMNS="80").stdout
        return next(line for line in shown.splitlines() if line.startswith("zoe "))

    assert read_line().split()[-1] == "never"
    with open_store(tmp_path) as store, store.transaction() as database:
        database.execute("update token set used_at = ?", (1_794_712_360_218,))
    assert re.search(r" \w{3} 20\d\d-\d\d-\d\d \d\d:\d\d \w+ *$", read_line())


def test_every_page_of_a_team_needs_a_token_with_the_scope_for_it(
    server: Path, address: str
) -> None:
    def ask(path: str, token: str | None, method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{address}{path}", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with open_store(server) as store:
        tokens = {scope: make_token(store, "anna", [scope]) for scope in SCOPES}
    assert ask("api/report", None) == 401
    assert ask("api/report", "relight_wrong") == 401
    # the scopes in their order: push, read, label, claim, admin
    assert [ask("api/report", one) for one in tokens.values()] == [403, 200, 403, 403, 200]
    for path, wanted in (
        ("api/v1/join", [409, 403, 403, 403, 409]),
        ("api/v1/claims", [403, 403, 403, 409, 409]),
        ("api/jobs/none/pause", [403, 403, 403, 403, 404]),
    ):
        assert [ask(path, one, "POST") for one in tokens.values()] == wanted
    assert ask("healthz", None) == 200
    assert run(server, "member", "token", "anna", "--revoke", "all").returncode == 0
    assert ask("api/report", tokens["read"]) == 401


def test_a_team_is_not_served_unencrypted_by_accident(server: Path) -> None:
    words = ("serve", "--team", "--port", "0", "--host", "0.0.0.0")
    refused = run(server, *words)
    assert refused.returncode == 1
    assert "--tls-proxy" in refused.stderr
