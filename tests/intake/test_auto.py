"""`relight.auto` and `relight exec` in real programs: sessions, processes, a store in trouble."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import build
from relight.store import open_store
from scripted import Reply, Server

# a program without an SDK, which takes a second to load: any client of httpx is recorded
CLIENT = """
import os, sys, threading
import httpx2
URL = sys.argv[1]
client = httpx2.Client(trust_env=False)
def ask(*words):
    said = []
    for word in words:
        said.append({"role": "user", "content": word})
        body = {"model": "gpt-5.1", "messages": said}
        said.append(client.post(URL, json=body).json()["choices"][0]["message"])
        print(said[-1]["content"], flush=True)
    return said
"""


def script(body: dict[str, Any]) -> Reply:
    return Reply(f"Answer {len(body['messages'])} to {body['messages'][-1]['content']}")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(script) as server:
        yield server


class Program:
    """Runs programs that talk to the server, with a home of their own."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.url = f"{server.base_url}/chat/completions"

    def command(self, code: str, *words: str) -> list[str]:
        file = self.folder / "program.py"
        file.write_text(CLIENT + code, encoding="utf-8")
        return [*words, sys.executable, str(file), self.url]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "RELIGHT_HOME": str(self.home), **more}

    def run(self, code: str, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(code, *words),
            env=self.environment(**more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def sessions(self) -> Mapping[str, int]:
        """The number of turns of each session, by its title."""
        with open_store(self.home) as store:
            return dict(
                store.query(
                    "select s.title, sum(t.calls) from session s join turn t"
                    " on t.session_id = s.id group by s.id order by s.title"
                )
            )


EXEC = (sys.executable, "-m", "relight", "exec", "--")


@pytest.fixture
def program(tmp_path: Path, server: Server) -> Program:
    return Program(tmp_path, server)


def test_an_import_is_enough_whenever_it_comes_and_secrets_are_removed(program: Program) -> None:
    secret = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    done = program.run(f"ask('early')\nimport relight.auto\nask('late', 'a key: {secret}')\n")
    assert done.stderr == ""
    assert program.sessions() == {"late": 2}
    files = [path.read_bytes() for path in program.home.rglob("*") if path.is_file()]
    assert not any(secret.encode() in data for data in files)


def test_a_block_is_one_session_and_a_block_in_it_a_sub_agents(program: Program) -> None:
    done = program.run(
        """
import relight.auto
with relight.auto.session("mine", title="All of it") as outer:
    ask("one")
    ask("two")
    with relight.auto.session():
        ask("inner")
try:
    with relight.auto.session("bad"):
        ask("three")
        raise ValueError("no apples")
except ValueError:
    print(outer.name)
with relight.auto.session("mine"):
    ask("four")
"""
    )
    assert done.stdout.splitlines()[-2] == "relight:mine"
    assert program.sessions() == {"All of it": 3, "inner": 1, "three": 1}
    with open_store(program.home) as store:
        rows = store.query(
            "select s.key, p.key, s.parent_kind from session s join session p on p.id = s.parent_id"
        )
        assert [(above, kind) for _, above, kind in rows] == [("mine", "subagent")]
        outcomes = dict(store.query("select key, told_outcome from session"))
        assert outcomes["bad"] == "failure"
        assert store.query("select distinct model from session") == [("gpt-5.1",)]


def test_a_block_may_be_used_again_inside_itself_and_by_threads(program: Program) -> None:
    done = program.run(
        """
import relight.auto
block = relight.auto.session("mine")
inside, left = threading.Event(), threading.Event()
def share():
    with block:
        inside.set()
        left.wait(20)
thread = threading.Thread(target=share)
thread.start()
inside.wait(20)
with block:
    with block:
        ask("one")
        with relight.auto.session("mine"):
            ask("two")
    ask("three")
left.set()
thread.join()
ask("outside")
"""
    )
    assert done.stderr == ""
    assert program.sessions() == {"one": 3, "outside": 1}
    with open_store(program.home) as store:
        assert store.query("select key from session where parent_id is not null") == []


def test_threads_and_forks_record_into_the_sessions_that_they_continue(program: Program) -> None:
    done = program.run(
        """
import relight.auto
threads = [threading.Thread(target=ask, args=(f"thread {n}", "more")) for n in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
said = ask("parent")
child = os.fork()
client = httpx2.Client(trust_env=False)
said.append({"role": "user", "content": "child" if child == 0 else "again"})
client.post(URL, json={"model": "gpt-5.1", "messages": said})
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    assert done.stderr == ""
    assert program.sessions() == {**{f"thread {n}": 2 for n in range(4)}, "parent": 3}


def test_a_killed_program_loses_no_call_that_had_returned(program: Program) -> None:
    endless = "import relight.auto\nwhile True: ask('a', 'b', 'c')\n"
    child = subprocess.Popen(
        program.command(endless), env=program.environment(), stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        seen = [child.stdout.readline() for _ in range(10)]
        child.kill()
        seen += child.stdout.readlines()
    with open_store(program.home) as store:
        ((recorded,),) = store.query("select sum(calls) from turn")
    assert recorded >= len(seen)


def test_a_stream_that_is_left_unread_at_the_end_is_recorded_once(program: Program) -> None:
    done = program.run(
        """
import relight.auto
def begin(word):
    body = {"model": "gpt-5.1", "messages": [{"role": "user", "content": word}], "stream": True}
    pieces = client.send(client.build_request("POST", URL, json=body), stream=True).iter_raw()
    next(pieces)
    return pieces
first = begin("before a fork")
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
second = begin("after it")
"""
    )
    assert done.stderr == ""
    with open_store(program.home) as store:
        found = store.query(
            "select s.title, count(*) from session s join turn t on t.session_id = s.id"
            " group by s.id order by s.title"
        )
    assert found == [("after it", 1), ("before a fork", 1)]


def test_a_store_that_cannot_be_written_costs_one_warning(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    code = "import relight.auto\nask('one')\nask('two')\nask('three', 'more')\n"
    done = program.run(code, RELIGHT_HOME=str(tmp_path / "file"))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 4
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("model calls are not recorded: ")


def test_calls_wait_beside_a_store_that_another_program_writes(program: Program) -> None:
    with build.open_home(program.folder) as store:
        program.home = store.config.home
        with build.holding(store):
            done = program.run("import relight.auto\nask('one', 'two')\n")
        assert len(done.stdout.splitlines()) == 2
        assert len(done.stderr.splitlines()) == 1
    assert program.run("import relight.auto\nask('later')\n").stderr == ""
    assert program.sessions() == {"one": 2, "later": 1}


def test_what_relight_records_itself_is_not_recorded_twice(program: Program) -> None:
    done = program.run(
        """
import relight.auto
place = {"model": "gpt-5.1", "base_url": URL.removesuffix("/chat/completions")}
preset = {"name": "two", "references": [place], "aggregator": place}
with relight.open_store() as store, relight.MoA(preset, store=store) as moa:
    moa.chat.completions.create(messages=[{"role": "user", "content": "mixed"}])
"""
    )
    assert done.stderr == ""
    assert program.sessions() == {"mixed": 2}


def test_exec_records_a_program_and_the_programs_it_starts(program: Program) -> None:
    (program.folder / "sitecustomize.py").write_text("print('my own start', flush=True)\n")
    done = program.run(
        """
ask("first")
if len(sys.argv) == 2:
    import subprocess
    subprocess.run([sys.executable, __file__, URL, "again"], check=True)
    print(os.environ["PYTHONPATH"].count("startup"), any("startup" in one for one in sys.path))
    sys.exit(7)
""",
        *EXEC,
        PYTHONPATH=str(program.folder),
    )
    assert done.returncode == 7, done.stderr
    answer = "Answer 1 to first"
    # the user's own start is run in both programs
    expected = ["my own start", answer, "my own start", answer, "1 False"]
    assert done.stdout.splitlines()[-5:] == expected
    with open_store(program.home) as store:
        assert store.query("select title from session") == [("first",), ("first",)]


def test_exec_names_home_and_session_and_signals_reach_the_program(program: Program) -> None:
    code = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(43))
ask("one")
ask("two")
time.sleep(60)
"""
    program.home = program.folder / "other"
    words = (*EXEC[:-2], "--home", str(program.home), "exec", "--session", "mine", "--")
    environment = {**os.environ, "RELIGHT_HOME": str(program.folder / "home")}
    child = subprocess.Popen(
        program.command(code, *words), env=environment, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        assert [child.stdout.readline() for _ in range(2)] == [
            "Answer 1 to one\n",
            "Answer 1 to two\n",
        ]
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 43
    with open_store(program.home) as store:
        rows = store.query(
            "select s.key, sum(t.calls) from session s join turn t on t.session_id = s.id"
        )
    assert rows == [("mine", 2)]


def test_exec_says_that_only_the_children_of_a_shell_are_recorded(program: Program) -> None:
    inner = " ".join(program.command("ask('one')\n"))
    done = subprocess.run(
        [*EXEC, "sh", "-c", f"{inner}; exit 3"],
        env=program.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr == (
        "relight: sh is no Python program; the Python programs that it starts are recorded"
        " if their Python has Relight\n"
    )
    assert program.sessions() == {"one": 1}


def test_a_shim_of_python_is_recorded_without_a_word(program: Program) -> None:
    shim = program.folder / "python"  # as pyenv has it
    shim.write_text(f'#!/usr/bin/env sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    *words, _, file, url = program.command("ask('one')\n", *EXEC)
    done = subprocess.run(
        [*words, str(shim), file, url],
        env=program.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert program.sessions() == {"one": 1}


def test_requests_that_are_none_to_a_model_pass_and_are_not_recorded(program: Program) -> None:
    done = program.run(
        """
import relight.auto
for body in (b"", b"{", b'{"messages": 5}', b"[1]"):
    try:
        print(client.post(URL, content=body).status_code)
    except httpx2.HTTPError as error:
        print(type(error).__name__)
print(client.post(URL.replace("chat/completions", "embeddings"), json={"input": "x"}).status_code)
"""
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 5
    assert not (program.home / "relight.db").exists()


def test_the_warnings_of_others_are_shown_each_time_unless_a_program_is_recorded() -> None:
    import_module("relight.intake.auto.recording")
    assert not logging.getLogger("relight").filters
