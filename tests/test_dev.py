"""`./dev` in a copy of its own; a program in the place of uv writes its arguments to a file."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = ("dev", "pyproject.toml", "requirements")
UV = """#!{python}
import platform, sys
from pathlib import Path

words = sys.argv[1:]
with Path("uv.log").open("a") as log:
    log.write(" ".join(words) + "\\n")
programs = Path(".venv/bin")
if "venv" in words:
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    Path(".venv/pyvenv.cfg").write_text(f"version_info = {{platform.python_version()}}\\n")
if "sync" in words:
    wanted = ["relight"] if words[-1] == "requirements/run.txt" else ["relight", "pytest"]
    for name in wanted:
        program = programs / name
        program.write_text(f'#!/bin/sh\\necho {{name}} "$@" as "$RELIGHT_COMMAND"\\n')
        program.chmod(0o755)
sys.exit("broken" in words)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "src").mkdir()
    uv = tmp_path / "programs" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV.format(python=sys.executable))
    uv.chmod(0o755)
    return tmp_path


def dev(clone: Path, *words: str, path: str = "programs") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{clone / path}:/usr/bin:/bin", "HOME": str(clone)}
    if (clone / "modules").is_dir():
        environment["PYTHONPATH"] = str(clone / "modules")
    return subprocess.run(
        [sys.executable, "./dev", *words],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def installed(clone: Path) -> list[str]:
    """The hashed files that were installed so far, in order."""
    lines = (clone / "uv.log").read_text().splitlines()
    return [line.split()[-1] for line in lines if "sync" in line]


def read_pins(name: str) -> dict[str, list[str]]:
    """The hashes of every pinned package of a file below `requirements`."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", "")
    pins = {}
    for line in text.splitlines():
        pin, *hashes = re.split(r"\s+--hash=", line)
        pins[pin.strip()] = hashes
    return pins


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9._-]+", words) for words in requirements)
    return {re.sub(r"[._]", "-", one[0].lower()) for one in found if one}


def test_run_installs_what_running_needs_and_nothing_else(clone: Path) -> None:
    done = dev(clone, "run", "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "relight --version as ./dev run\n"
    assert installed(clone) == ["requirements/run.txt"]


def test_going_from_run_to_test_and_back_installs_each_kit_once(clone: Path) -> None:
    for name in ("run", "run", "test", "run", "test"):
        assert dev(clone, name).returncode == 0
    assert installed(clone) == ["requirements/run.txt", "requirements/dev.txt"]


def test_a_changed_requirement_is_installed_and_the_development_tools_stay(clone: Path) -> None:
    dev(clone, "test")
    with (clone / "requirements" / "dev.txt").open("a") as file:
        file.write("# newer\n")
    dev(clone, "run")
    dev(clone, "run")
    assert installed(clone) == ["requirements/dev.txt", "requirements/dev.txt"]


def test_an_environment_of_another_python_is_made_again(clone: Path) -> None:
    dev(clone, "run")
    (clone / ".venv" / "pyvenv.cfg").write_text("version_info = 3.10.1\n")
    shutil.rmtree(clone / ".venv" / "bin")
    dev(clone, "run")
    assert (clone / "uv.log").read_text().count(" venv ") == 2


def test_every_package_is_checked_by_its_hash(clone: Path) -> None:
    dev(clone, "test")
    lines = (clone / "uv.log").read_text().splitlines()
    sync, own = (line for line in lines if " pip " in line)
    assert "--require-hashes" in sync
    assert "--no-deps" in own
    assert "--build-constraints requirements/build.txt" in own


def test_an_installer_that_fails_ends_the_command_and_leaves_no_stamp(clone: Path) -> None:
    uv = clone / "programs" / "uv"
    uv.write_text(uv.read_text().replace('"broken" in words', '"install" in words'))
    done = dev(clone, "run")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "installing Relight itself failed; see the lines above"
    assert not (clone / ".venv" / "relight-stamp").exists()


def find_end(done: "subprocess.CompletedProcess[str]") -> str:
    """The last line of a command that failed with a message and without a traceback."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def put_uv(clone: Path, text: str, place: str = "programs") -> Path:
    """Write a program in the place of uv."""
    uv = clone / place / "uv"
    uv.parent.mkdir(parents=True, exist_ok=True)
    uv.write_text(text)
    uv.chmod(0o755)
    return uv


def put_pip(clone: Path, text: str) -> None:
    """Write a module in the place of pip, which the environment of the tests may lack."""
    (clone / "modules").mkdir()
    (clone / "modules" / "pip.py").write_text(text)


@pytest.mark.parametrize(
    "broken", ["#!/nowhere/python\n", "\x7fELF of another machine", "#!/bin/sh\nexit 1\n"]
)
def test_a_uv_that_does_not_work_is_replaced_by_our_own(clone: Path, broken: str) -> None:
    working = (clone / "programs" / "uv").read_text()
    uv = put_uv(clone, broken)
    put_uv(clone, working, ".tools/uv/bin")
    done = dev(clone, "run")
    assert done.returncode == 0, done.stderr
    assert f"{uv} does not work; it is not used" in done.stderr
    assert installed(clone) == ["requirements/run.txt"]


def test_our_own_uv_is_installed_again_if_it_does_not_work(clone: Path) -> None:
    working = (clone / "programs" / "uv").read_text()
    put_uv(clone, "#!/nowhere/python\n", ".tools/uv/bin")
    put_pip(
        clone,
        "import sys; from pathlib import Path\n"
        "target = Path(sys.argv[sys.argv.index('--target') + 1])\n"
        f"(target / 'bin' / 'uv').write_text({working!r})\n",
    )
    done = dev(clone, "run", path="nothing")
    assert done.returncode == 0, done.stderr
    assert installed(clone) == ["requirements/run.txt"]


def test_without_uv_and_without_a_network_it_ends_in_a_message(clone: Path) -> None:
    put_pip(clone, "raise SystemExit('ERROR: no matching distribution found for uv')")
    (clone / "programs" / "uv").unlink()
    last = find_end(dev(clone, "run"))
    assert last == "installing uv with pip failed; see the lines above"


def test_a_clone_that_cannot_be_written_ends_in_a_message(clone: Path) -> None:
    dev(clone, "run")
    stamp = clone / ".venv" / "relight-stamp"
    stamp.unlink()
    stamp.mkdir()  # permissions do not stop a superuser
    done = dev(clone, "run")
    assert "it is then installed again" in find_end(done)
    assert str(stamp) in done.stderr


def test_an_environment_without_the_program_ends_in_a_message(clone: Path) -> None:
    dev(clone, "run")
    (clone / ".venv" / "bin" / "relight").unlink()
    done = dev(clone, "run")
    assert "it is then installed again" in find_end(done)


def test_an_unknown_word_shows_the_help(clone: Path) -> None:
    done = dev(clone, "deploy")
    assert done.returncode == 2
    assert "./dev run ARGS…" in done.stderr


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", ""),
        ("mypy", "types failed"),
        ("pytest tests/web", "tests of the dashboard failed"),
    ],
)
def test_the_gate_runs_every_check_and_fails_with_the_one_that_fails(
    clone: Path, broken: str, said: str
) -> None:
    dev(clone, "test")
    for name in ("ruff", "mypy", "lint-imports", "pytest"):
        program = clone / ".venv" / "bin" / name
        program.write_text(
            f'#!/bin/sh\nline="{name} $*"\necho "$line" >> ran\necho "says $line"\n'
            f'case "$line " in "{broken or "nothing"} "*) exit 1;; esac\n'
        )
        program.chmod(0o755)
    done = dev(clone, "check")
    assert done.returncode == (1 if broken else 0), done.stderr
    assert done.stderr.splitlines() == ([said] if said else [])
    ran = [line.strip() for line in (clone / "ran").read_text().splitlines()]
    assert ran.index("ruff format --check .") < ran.index("ruff check .") < ran.index("mypy")
    if broken != "mypy":
        assert "lint-imports --no-cache" in ran
        assert all(f"says {line}" in done.stdout for line in ran)
        # every folder of tests is named once, or left to the group of the others; those that run
        # on PostgreSQL run a second time
        (others,) = [line.split() for line in ran if line.startswith("pytest --ignore=")]
        again = [line for line in ran if line.startswith("pytest --postgres")]
        chosen = [word.rpartition("=")[2] for line in again for word in line.split()[2:]]
        assert all(list(ROOT.glob(name)) for name in chosen)
        once = [line for line in ran if line not in again]
        named = [word for line in once for word in line.split() if word.startswith("tests/")]
        assert sorted(named) == sorted(word.removeprefix("--ignore=") for word in others[1:])


@pytest.mark.parametrize("name", ["run.txt", "dev.txt", "build.txt", "uv.txt"])
def test_every_pin_has_hashes_and_names_no_registry(name: str) -> None:
    for pin, hashes in read_pins(name).items():
        assert re.match(r"[a-z0-9-]+==[^ ]+( ; .+)?$", pin), pin
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), pin


def test_the_pins_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    run, development = read_pins("run.txt"), read_pins("dev.txt")
    groups = project["dependency-groups"]
    assert names(project["project"]["dependencies"]) <= names(list(run))
    assert names(groups["dev"]) <= names(list(development))
    assert names(groups["build"]) <= names(list(read_pins("build.txt")))
    assert names(project["build-system"]["requires"]) <= names(groups["build"])
    versions = {pin.split(" ")[0] for pin in development}
    assert {pin.split(" ")[0] for pin in run} <= versions


def test_the_script_begins_in_an_older_python() -> None:
    """It must compile there to say that it needs a newer one."""
    ast.parse((ROOT / "dev").read_text(encoding="utf-8"), feature_version=(3, 8))


def test_a_path_with_a_space_is_quoted_in_hints(clone: Path) -> None:
    dev(clone, "run")
    (clone / "my tools").symlink_to(clone)
    done = subprocess.run(
        [sys.executable, f"{clone}/my tools/dev", "run"],
        env={**os.environ, "PATH": f"{clone / 'programs'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"relight as '{clone}/my tools/dev' run\n"
