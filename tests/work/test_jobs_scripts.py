"""Scripts before a run: only from the home's own folder, limited, and never failing unseen."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from relight.errors import RelightError
from relight.work.jobs.scripts import ScriptResult, find_script, read_wake, run_script
from relight.work.processes import ProcessEnd, find_descendants, run_process


def write_script(home: Path, name: str, text: str) -> Path:
    path = home / "scripts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(
    home: Path, name: str, seconds: float = 20.0, environment: Mapping[str, str] | None = None
) -> ScriptResult:
    return run_script(home, name, folder=home, seconds=seconds, environment=environment)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_dead(process: int) -> bool:
    for _ in range(1500):
        if not is_alive(process):
            return True
        time.sleep(0.02)
    return False


def test_a_script_returns_what_it_printed(tmp_path: Path) -> None:
    write_script(tmp_path, "look.sh", "echo found $((1 + 2)); echo beware >&2; pwd")
    done = run(tmp_path, "look.sh")
    assert done == ScriptResult(
        name="look.sh", output=f"found 3\n{tmp_path}\n", errors="beware\n", exit_code=0
    )
    assert done.failure is None


def test_python_and_executable_scripts_run_too(tmp_path: Path) -> None:
    write_script(tmp_path, "look.py", "import sys\nprint(sys.version_info[0])")
    write_script(tmp_path, "own", f"#!{sys.executable}\nprint('by itself')").chmod(0o755)
    assert run(tmp_path, "look.py").output == "3\n"
    assert run(tmp_path, "own").output == "by itself\n"


def test_a_script_that_nobody_knows_how_to_run_is_an_error(tmp_path: Path) -> None:
    write_script(tmp_path, "look.rb", "puts 1")
    with pytest.raises(RelightError, match=r"there is no known way to run look\.rb"):
        run(tmp_path, "look.rb")


def test_a_script_that_fails_says_why(tmp_path: Path) -> None:
    write_script(tmp_path, "bad.sh", "echo half; echo 'no disk' >&2; exit 3")
    done = run(tmp_path, "bad.sh")
    assert (done.exit_code, done.output) == (3, "half\n")
    assert done.failure == "bad.sh ended with exit code 3: no disk"


def test_a_script_whose_interpreter_is_gone_fails(tmp_path: Path) -> None:
    write_script(tmp_path, "own", "#!/no/such/program\n").chmod(0o755)
    assert "cannot be run" in (run(tmp_path, "own").failure or "")


@pytest.mark.parametrize("name", ["../secret.sh", "/bin/sh", "sub/../../secret.sh", "", "."])
def test_a_path_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    write_script(tmp_path, "sub/good.sh", "echo good")
    (tmp_path / "secret.sh").write_text("echo secret")
    with pytest.raises(RelightError, match="script"):
        find_script(tmp_path, name)
    assert run(tmp_path, "sub/good.sh").output == "good\n"


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    write_script(tmp_path, "good.sh", "echo good")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "evil.sh").write_text("echo evil")
    (tmp_path / "scripts" / "link.sh").symlink_to(outside / "evil.sh")
    (tmp_path / "scripts" / "folder").symlink_to(outside)
    (tmp_path / "scripts" / "inner.sh").symlink_to(tmp_path / "scripts" / "good.sh")
    for name in ("link.sh", "folder/evil.sh"):
        with pytest.raises(RelightError, match="lies outside"):
            find_script(tmp_path, name)
    assert run(tmp_path, "inner.sh").output == "good\n"


def test_a_missing_script_is_an_error_that_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(RelightError, match=r"there is no script 'look\.sh'") as caught:
        find_script(tmp_path, "look.sh")
    assert str(tmp_path / "scripts") in (caught.value.hint or "")


def test_much_output_is_cut_in_the_middle_and_the_last_line_still_counts(tmp_path: Path) -> None:
    text = "print('first'); print('x' * 3_000_000); print('{\"wakeAgent\": false}')"
    write_script(tmp_path, "much.py", text)
    done = run(tmp_path, "much.py")
    assert done.output.startswith("first\nxxx")
    assert "… [truncated, 3000028 bytes total]" in done.output
    assert len(done.output) < 70_000
    assert not done.wakes_agent


@pytest.mark.parametrize(
    ("output", "wakes"),
    [
        ('{"wakeAgent": false}', False),
        ('news\n\n {"wakeAgent": false, "why": "none"} \n\n', False),
        ('{"wakeAgent": true}', True),
        ('{"wakeAgent": 0}', True),
        ('{"wakeAgent": "false"}', True),
        ('{"wakeAgent": false}\nmore', True),
        ('say {"wakeAgent": false}', True),
        ("{not json", True),
        ("[false]", True),
        ("", True),
    ],
)
def test_only_the_last_line_can_say_that_the_agent_sleeps_on(output: str, wakes: bool) -> None:
    assert read_wake(output) is wakes


def test_a_script_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    write_script(tmp_path, "slow.sh", "sleep 60 & echo $!; setsid sleep 60 & echo $!; wait")
    started = time.monotonic()
    done = run(tmp_path, "slow.sh", seconds=2)
    assert time.monotonic() - started < 30
    assert done.timed_out
    assert done.failure == "slow.sh took too long and was ended"
    children = [int(line) for line in done.output.split()]
    assert len(children) == 2
    assert all(wait_until_dead(child) for child in children)


def test_a_program_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    text = "import signal, sys, time\ndef tidy(*_):\n    print('tidied'); sys.exit(5)\n"
    text += "signal.signal(signal.SIGTERM, tidy)\nprint('ready', flush=True)\ntime.sleep(60)"
    ended = run_process([sys.executable, "-c", text], folder=tmp_path, seconds=4)
    assert (ended.timed_out, ended.exit_code, ended.output) == (True, 5, "ready\ntidied\n")


def test_a_program_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]
    ended = run_process(command, folder=tmp_path, seconds=2)
    assert (ended.timed_out, ended.exit_code, ended.output) == (True, -9, "deaf\n")


def test_what_is_left_in_the_background_holds_up_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    ended = run_process(["/bin/sh", "-c", "sleep 60 & echo $!"], folder=tmp_path, seconds=60)
    assert time.monotonic() - started < 30
    assert (ended.timed_out, ended.exit_code) == (False, 0)
    assert wait_until_dead(int(ended.output))


def test_an_interrupted_run_kills_what_it_started(tmp_path: Path) -> None:
    text = (
        "import sys; from pathlib import Path; from relight.work.processes import run_process\n"
        "run_process(['/bin/sh', '-c', 'echo $$ > own; sleep 60'], folder=Path(), seconds=60)"
    )
    outer = subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path, stderr=subprocess.DEVNULL)
    own = tmp_path / "own"
    for _ in range(500):
        if own.exists() and own.read_text().strip():
            break
        time.sleep(0.02)
    child = int(own.read_text())
    assert child in find_descendants(outer.pid)
    os.kill(outer.pid, 2)
    assert outer.wait(20) != 0
    assert wait_until_dead(child)


def test_an_interrupt_while_a_program_starts_does_not_leave_it_to_itself(tmp_path: Path) -> None:
    def stop(number: int, _: object) -> None:
        raise SystemExit(number)

    def run_interrupted(after_seconds: float) -> None:
        own = os.getpid()
        threading.Timer(after_seconds, os.kill, (own, signal.SIGTERM)).start()
        command = ["/bin/sh", "-c", "echo $$ >> own; exec sleep 60"]
        run_process(command, folder=tmp_path, seconds=60)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        # a program starts within a few thousandths of a second: some of these come right then
        for number in range(60):
            with pytest.raises(SystemExit):
                run_interrupted(number / 10_000)
    finally:
        signal.signal(signal.SIGTERM, before)
    time.sleep(0.1)
    begun = (tmp_path / "own").read_text().split()
    assert all(wait_until_dead(int(child)) for child in begun)


def test_a_run_that_takes_too_long_leaves_no_service_behind(tmp_path: Path) -> None:
    marks = {"RELIGHT_HOME": str(tmp_path), "RELIGHT_RUN_ID": "house@1"}
    # started by a child that has left: only its environment shows where it came from
    write_script(tmp_path, "slow.sh", "(setsid sleep 60 & echo $!); sleep 60")
    done = run(tmp_path, "slow.sh", seconds=2, environment={**os.environ, **marks})
    assert done.timed_out
    assert wait_until_dead(int(done.output))


LEAVING = {
    "another group": "setsid sleep 971 & echo $!",
    "a lost parent": "(setsid sleep 971 & echo $!)",
    "two forks": "setsid sh -c 'sleep 971 & echo $!'",
}


@pytest.mark.parametrize("how", LEAVING)
@pytest.mark.parametrize("rest", ["", "; sleep 60"])
def test_a_child_that_left_the_group_ends_with_its_program(
    tmp_path: Path, how: str, rest: str
) -> None:
    command = ["/bin/sh", "-c", f"{LEAVING[how]}{rest}"]
    seconds = 3.0 if rest else 30
    ended = run_process(command, folder=tmp_path, seconds=seconds, ending_seconds=0)
    assert ended.timed_out is bool(rest)
    assert wait_until_dead(int(ended.output))


def test_the_end_of_one_program_leaves_the_children_of_another_alone(tmp_path: Path) -> None:
    marks = {**os.environ, "RELIGHT_HOME": str(tmp_path), "RELIGHT_RUN_ID": "house@1"}
    script = "(setsid sleep 971 & echo $! > left); while [ ! -e go ]; do sleep 0.05; done; cat left"
    ended: list[ProcessEnd] = []

    def work() -> None:
        command = ["/bin/sh", "-c", script]
        ended.append(run_process(command, folder=tmp_path, seconds=60, environment=marks))

    other = threading.Thread(target=work)
    other.start()
    while not (tmp_path / "left").exists() or not (tmp_path / "left").read_text().strip():
        time.sleep(0.02)
    run_process(["/bin/sh", "-c", "sleep 60"], folder=tmp_path, seconds=0.1, environment=marks)
    run_process(["/bin/sh", "-c", "true"], folder=tmp_path, seconds=60, environment=marks)
    left = int((tmp_path / "left").read_text())
    os.kill(left, 0)
    (tmp_path / "go").touch()
    other.join()
    assert ended[0].exit_code == 0
    assert wait_until_dead(left)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_a_child_without_any_mark_ends_with_the_last_program_of_a_process_that_owns_all(
    tmp_path: Path,
) -> None:
    text = (
        "from pathlib import Path; from relight.work.processes import own_children, run_process\n"
        "own_children()\n"
        "left = '(env -i setsid sleep 971 & echo $!)'\n"
        "ended = run_process(['/bin/sh', '-c', left], folder=Path(), seconds=60)\n"
        "stat = Path('/proc', ended.output.strip(), 'stat')\n"
        "print('dead' if not stat.exists() else stat.read_text())\n"
    )
    ended = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True)
    assert ended.stdout == b"dead\n", ended


def test_the_prompt_of_a_program_reaches_it_however_long(tmp_path: Path) -> None:
    told = "ä" * 300_000
    command = [sys.executable, "-c", "import sys; print(len(sys.stdin.buffer.read()))"]
    ended = run_process(command, folder=tmp_path, seconds=30, standard_input=told)
    assert ended.output == "600000\n"
    deaf = run_process(
        ["/bin/sh", "-c", "exit 0"], folder=tmp_path, seconds=30, standard_input=told
    )
    assert deaf.exit_code == 0
