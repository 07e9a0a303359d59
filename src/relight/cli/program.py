import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from relight.cli.options import current_home, relight_command
from relight.errors import RelightError

PYTHON = re.compile(r"(?:python|pypy)w?[\d.]*t?(?:\.exe)?", re.IGNORECASE)
# what runs programs of other languages, and never starts Python
OTHERS = ("node", "npm", "npx", "deno", "bun", "java", "ruby", "perl", "php", "dotnet")
# options of Python that make it ignore its path or what is run at its start
DEAF = re.compile(r"-[^-WXcm]*[IES].*")
# options of Python with a value, and those that are followed by the program itself
VALUED, LAST = ("-W", "-X", "--check-hash-based-pycs"), ("-c", "-m")
PROBE = "import relight.auto"
# the folder of a script, as uv writes it into one that may be moved
BESIDE = '"$(dirname -- "$(realpath -- "$0")")"'


class Interpreter(Struct, frozen=True):
    """The program that runs a script, and its options."""

    path: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.path).name


@relight_command("exec", example="relight exec -- python agent.py")
@click.option("--session", metavar="ID", help="Record all calls in one session with this id.")
@click.argument("words", metavar="-- PROGRAM…", nargs=-1, required=True, type=click.UNPROCESSED)
def command(session: str | None, words: tuple[str, ...]) -> None:
    """Run a Python program and record its model calls, without a change in it.

    The OpenAI, Anthropic, Google GenAI and LiteLLM clients are recorded, in this program and in the
    Python programs that it starts. Its output, its exit code and its signals stay its own.
    """
    from shutil import which

    program = which(words[0])
    if program is None:
        is_script = Path(words[0]).suffix == ".py" and Path(words[0]).exists()
        raise RelightError(
            f"there is no program {words[0]!r} on the PATH",
            f"relight exec -- python {words[0]}" if is_script else "name a program and its words",
        )
    check_program(program, words)
    _run(program, words, make_environment(session))


# what follows the program's name is the program's
command.allow_interspersed_args = False


def make_environment(session: str | None) -> dict[str, str]:
    """Return this process's variables with those that switch the recording on."""
    from relight.intake import auto
    from relight.intake.auto.scope import VARIABLE

    folder = str(Path(auto.__file__).with_name("startup"))
    before = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{before}" if before else folder,
    }
    if home := current_home():
        environment["RELIGHT_HOME"] = str(Path(home).expanduser().absolute())
    if session:
        environment[VARIABLE] = session
    return environment


def check_program(program: str, words: Sequence[str]) -> None:
    """Raise if a program cannot be recorded; say so if only its children can be."""
    from relight.sources import SOURCES

    name = Path(program).name.lower().removesuffix(".exe")
    for source in SOURCES.values():
        if source.resume and source.resume[0] == name:
            raise RelightError(
                f"{source.title} is not recorded in this way: it would count twice, or not at all",
                f"run {name} alone; `relight import` reads the sessions that it keeps itself",
            )
    runner = find_interpreter(program, words)
    if PYTHON.fullmatch(runner.name):
        _check_python(runner)
    elif runner.name.lower() in OTHERS:
        raise RelightError(
            f"{name} is run by {Path(runner.path).stem}: only Python programs can be recorded",
            "Relight reads the sessions of the agents that `relight doctor` lists",
        )
    elif not runner.path:
        raise RelightError(
            f"{program} does not say which program runs it", f"relight exec -- python {words[0]}"
        )
    else:
        kind = "no Python program" if runner.path == program else f"run by {runner.name}"
        click.echo(
            f"relight: {name} is {kind}; the Python programs that it starts are recorded"
            " if their Python has Relight",
            err=True,
        )


def find_interpreter(program: str, words: Sequence[str]) -> Interpreter:
    """Return what runs a program: itself, or the interpreter that its first lines name.

    A script with the name of a Python starts one, as the shims of pyenv and asdf do. The path is
    empty for a script of Python that names none.
    """
    options = tuple(words[1:])
    if PYTHON.fullmatch(Path(program).name):
        return Interpreter(program, options)
    try:
        with Path(program).open("rb") as file:
            head = file.read(4096)
    except OSError:
        head = b""
    if not head.startswith(b"#!"):
        return Interpreter("" if program.endswith(".py") else program, options)
    first, second, *_ = [*head[2:].decode("utf-8", "replace").split("\n"), ""]
    line = first.split()
    if second.startswith("'''exec' "):
        line = _read_exec(program, second)
    elif line and Path(line[0]).name == "env":
        from shutil import which

        line = [one for one in line[1:] if one != "-S" and "=" not in one]
        line = [which(line[0]) or line[0], *line[1:]] if line else []
    return Interpreter(line[0], tuple(line[1:])) if line else Interpreter(program)


def _read_exec(program: str, line: str) -> list[str]:
    """Return the words that start Python in a line of shell, which Python takes for a text.

    pip and uv write it where the path of Python is too long for a first line, has a space, or is
    to be found beside the script.
    """
    import shlex

    folder = shlex.quote(str(Path(program).resolve().parent))
    try:
        words = shlex.split(line.replace(BESIDE, folder))[1:]
    except ValueError:
        return []
    return words[: words.index("$0")] if "$0" in words else words


def _check_python(runner: Interpreter) -> None:
    """Raise if this Python runs nothing at its start, or has no Relight."""
    import subprocess

    rest = iter(runner.options)
    for option in rest:
        if option in LAST or not option.startswith("-"):
            break
        if option in VALUED:
            next(rest, None)
        elif DEAF.fullmatch(option):
            raise RelightError(
                f"{runner.name} {option} ignores what would switch the recording on",
                f"leave out {option}, or put `import relight.auto` into the program",
            )
    # at the start of a program its folder is not yet on the path: a `relight.py` there is no matter
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [runner.path, "-c", PROBE], env=environment, capture_output=True, check=False
    )
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RelightError(
            f"{runner.path} cannot load Relight, so its model calls cannot be recorded"
            f": {(errors or ['it ended without a word'])[-1]}",
            "install Relight with the pip of that Python, beside the packages of the program",
        )


def _run(program: str, words: tuple[str, ...], environment: dict[str, str]) -> None:
    """Replace this process by the program, so that signals and the exit code are the program's."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if os.name == "nt":  # pragma: no cover - a replaced process ends at once for its caller there
        import subprocess

        sys.exit(subprocess.run(words, executable=program, env=environment, check=False).returncode)
    os.execve(program, words, environment)
