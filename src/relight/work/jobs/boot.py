"""The systemd or launchd files that start the scheduler and `import --watch` at boot."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from relight.errors import RelightError
from relight.locks import make_folder, write_private

SERVICES = {
    "scheduler": ("Relight: run jobs when they are due", ["scheduler"]),
    "import": ("Relight: read agents' sessions as they grow", ["import", "--watch"]),
}
KEYS = {
    "systemd": "the file `environment` in Relight's folder, a line each",
    "launchd": "EnvironmentVariables of these files",
}
# Only the scheduler gets the signal to stop; it has half an hour to finish its runs.
SYSTEMD = """\
[Unit]
Description={description}

[Service]
ExecStart={command}
Environment={path}
EnvironmentFile=-{keys}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec=30min

[Install]
WantedBy=default.target
"""


class BootUnit(Struct, frozen=True):
    """A service file, and the name of the service."""

    name: str
    path: Path
    text: str


def find_service_manager() -> str:
    """The service manager of this system."""
    if sys.platform == "darwin":
        return "launchd"
    if sys.platform.startswith("linux"):
        return "systemd"
    raise RelightError(
        "Relight installs services for systemd and launchd only",
        "let the system run `relight scheduler --once` every minute",
    )


def find_units(
    kind: str, *, home: Path, environment: Mapping[str, str] | None = None
) -> list[BootUnit]:
    """The service files for this user, this Python and this home."""
    environment = os.environ if environment is None else environment
    write = _write_systemd if kind == "systemd" else _write_launchd
    return [write(name, home.absolute(), environment) for name in SERVICES]


def _write_systemd(name: str, home: Path, environment: Mapping[str, str]) -> BootUnit:
    description, words = SERVICES[name]
    command = [sys.executable, "-m", "relight", "--home", str(home), *words]
    settings = environment.get("XDG_CONFIG_HOME") or str(_user_home(environment) / ".config")
    unit = f"relight-{name}.service"
    text = SYSTEMD.format(
        description=description,
        command=" ".join(_quote(word).replace("$", "$$") for word in command),
        path=_quote(f"PATH={environment.get('PATH', os.defpath)}"),
        keys=str(home / "environment").replace("%", "%%"),
    )
    return BootUnit(unit, Path(settings) / "systemd" / "user" / unit, text)


def _quote(word: str) -> str:
    """A word quoted for systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _write_launchd(name: str, home: Path, environment: Mapping[str, str]) -> BootUnit:
    label = f"relight.{name}"
    log = str(home / f"{name}.log")
    settings = {
        "Label": label,
        "ProgramArguments": [
            sys.executable,
            *("-m", "relight", "--home", str(home)),
            *SERVICES[name][1],
        ],
        "EnvironmentVariables": {"PATH": environment.get("PATH", os.defpath)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "ExitTimeOut": 1800,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    folder = _user_home(environment) / "Library" / "LaunchAgents"
    return BootUnit(label, folder / f"{label}.plist", plistlib.dumps(settings).decode())


def _user_home(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def install_units(kind: str, units: Sequence[BootUnit]) -> list[str]:
    """Write the files and start the services; return lines that report each step."""
    lines = []
    for unit in units:
        make_folder(unit.path.parent)
        write_private(unit.path, unit.text.encode())
        lines.append(f"wrote {unit.path}")
    lines += [_run(words) for words in _starting(kind, units)]
    lines.append(f"put keys that jobs need into {KEYS[kind]}")
    if kind == "systemd":
        lines.append("to run also while you are not logged in: loginctl enable-linger")
    return lines


def remove_units(kind: str, units: Sequence[BootUnit]) -> list[str]:
    """Stop the services and remove the files; return lines that report each step."""
    lines = [_run(words) for words in _ending(kind, units)]
    for unit in units:
        unit.path.unlink(missing_ok=True)
        lines.append(f"removed {unit.path}")
    if kind == "systemd":
        lines.append(_run(["systemctl", "--user", "daemon-reload"]))
    return lines


def _starting(kind: str, units: Sequence[BootUnit]) -> list[list[str]]:
    if kind == "systemd":
        names = [unit.name for unit in units]
        reload = ["systemctl", "--user", "daemon-reload"]
        return [reload, ["systemctl", "--user", "enable", "--now", *names]]
    return [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(unit.path)] for unit in units]


def _ending(kind: str, units: Sequence[BootUnit]) -> list[list[str]]:
    if kind == "systemd":
        return [["systemctl", "--user", "disable", "--now", *(unit.name for unit in units)]]
    return [["launchctl", "bootout", f"gui/{os.getuid()}/{unit.name}"] for unit in units]


def _run(words: Sequence[str]) -> str:
    """Run a system command; return a line that reports success or failure."""
    line = " ".join(words)
    if shutil.which(words[0]) is None:
        return f"not done, {words[0]} is not here: {line}"
    done = subprocess.run(
        words, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        return f"not done: {line}: {done.stderr.strip() or done.stdout.strip()}"
    return f"done: {line}"
