"""Relight in Hermes' Python environment: find it, install, uninstall.

Hermes runs in a separate environment with pinned versions. Its packages never change: they
constrain what is installed, and what was installed is recorded, so that it can be undone.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from shutil import which

from relight import __version__
from relight.errors import RelightError
from relight.sources.hermes.job_models import run_quietly
from relight.warm.agents.settings import PackageStep

ASK_SECONDS = 60
INSTALL_SECONDS = 900
LIST = (
    "import json, importlib.metadata as m;"
    "found = {d.metadata['Name']: d.version for d in m.distributions()};"
    "print(json.dumps({name: version for name, version in found.items() if name}))"
)
_PROGRAM = re.compile(r"(/[^\s\"']*/bin/(?:python[\d.]*|hermes))(?=[\s\"']|$)")


def plan_addition(environment: Mapping[str, str] | None = None) -> PackageStep:
    """Return the command after which Hermes can load the plugin; nothing is run yet."""
    environment = os.environ if environment is None else environment
    requirement = find_requirement()
    python = find_python(environment)
    if python is None:
        return PackageStep(why_not=f"hermes is not on the PATH; its own Python needs {requirement}")
    there = read_packages(python)
    if there.get("relight") == __version__:
        return PackageStep(python)
    installer, named = find_installer(python, environment)
    if not installer:
        return PackageStep(
            python,
            why_not=f"{python} has no pip, and there is no uv: install {requirement} there",
        )
    pins = [f"{name}=={version}" for name, version in there.items() if name != "relight"]
    command = [*installer, "install", *named, requirement]
    if named:  # uv would reuse an earlier build of a folder
        command += ["--refresh-package", "relight"]
    return PackageStep(python, command, constraints=pins, before=sorted(there))


def plan_removal(added: Sequence[str], environment: Mapping[str, str] | None = None) -> PackageStep:
    """Return the command that uninstalls what was installed, and no more."""
    environment = os.environ if environment is None else environment
    python = find_python(environment)
    if python is None:
        return PackageStep()
    there = read_packages(python)
    gone = [name for name in added if name in there]
    if not gone:
        return PackageStep(python)
    installer, named = find_installer(python, environment)
    if not installer:
        return PackageStep(python, why_not=f"{python} has no pip: uninstall {' '.join(gone)} there")
    return PackageStep(python, [*installer, "uninstall", *(named or ["--yes"]), *gone])


def run_step(step: PackageStep) -> list[str]:
    """Run a step, and return the packages it added."""
    if not step.command or step.python is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        command = list(step.command)
        if step.constraints:
            path = Path(folder) / "constraints.txt"
            path.write_text("\n".join(step.constraints) + "\n", encoding="utf-8")
            command += ["--constraint", str(path)]
        done = _run(command, INSTALL_SECONDS)
    if done.returncode:
        raise RelightError(
            f"{' '.join(step.command)} failed: {done.stderr.strip()[-600:] or done.stdout[-600:]}",
            "Hermes' settings were not changed",
        )
    return sorted(set(read_packages(step.python)) - set(step.before))


def find_python(environment: Mapping[str, str]) -> Path | None:
    """Return the Python that runs Hermes: beside its command, or named in it."""
    found = which("hermes", path=environment.get("PATH"))
    if found is None:
        return None
    script = Path(found).resolve()
    seen = set()
    while script not in seen:
        seen.add(script)
        beside = script.with_name("python")
        if beside.exists() and (script.parent.parent / "pyvenv.cfg").exists():
            return beside
        try:
            with script.open("rb") as file:
                head = file.read(4000).decode("utf-8", "replace")
        except OSError:
            return None
        named = [Path(name) for name in _PROGRAM.findall(head) if Path(name).exists()]
        if named and named[0].name.startswith("python"):
            return named[0]
        script = named[0].resolve() if named else script  # a script that starts the real one
    return None


def find_installer(python: Path, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the command of an installer, and the words by which it finds a Python, if any.

    It is uv, or that Python's pip; both are empty without either.
    """
    if uv := which("uv", path=environment.get("PATH")):
        return [uv, "pip"], ["--python", str(python)]
    done = _run([str(python), "-c", "import pip"], ASK_SECONDS)
    return ([] if done.returncode else [str(python), "-m", "pip"]), []


def find_requirement() -> str:
    """Return this Relight as a requirement, from where it was installed."""
    try:
        text = metadata.distribution("relight").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    if not text:
        return f"relight=={__version__}"
    origin = json.loads(text)
    url, vcs = origin["url"], origin.get("vcs_info")
    if vcs:
        return f"relight @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"relight @ {url}"


def read_packages(python: Path) -> dict[str, str]:
    """Return the packages in a Python's environment, with their versions."""
    done = _run([str(python), "-c", LIST], ASK_SECONDS)
    if done.returncode:
        raise RelightError(f"{python} does not run: {done.stderr.strip()[-300:]}")
    packages: dict[str, str] = json.loads(done.stdout)
    return packages


def _run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    # the variables of this process must not affect another Python
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        return run_quietly(command, clean, seconds=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RelightError(f"{command[0]} could not be run: {error}") from error
