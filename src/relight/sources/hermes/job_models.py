"""The models of Hermes' jobs, changed by `hermes cron edit` if it can, else in `cron/jobs.json`.

Its version 0.19.0 cannot: `cron edit` takes no model. So its help is asked first.
"""

import difflib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.errors import MissingError, RelightError
from relight.locks import hold, open_lock, replace_when_whole
from relight.sources.hermes.cron import JOBS

PROGRAM, OPTION = "hermes", "--model"
# Hermes holds it while it changes its jobs
LOCK = ".jobs.lock"
SECONDS = 60.0
# the mark that some editors write before UTF-8
MARK = "\ufeff"


class HermesJobs:
    """The jobs of one Hermes home."""

    edit = (PROGRAM, "cron", "edit")

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        self._environment = environment
        program = shutil.which(PROGRAM, path=environment.get("PATH"))
        self._program = program if program and self._takes_models(program) else None

    def read_model(self, key: str) -> tuple[str | None, str | None, str | None]:
        """Return the model and the provider that the job names, and the model that it runs on."""
        job = _find(self._read(), key)
        model = job.get("model") or None
        return model, job.get("provider") or None, model or job.get("model_snapshot") or None

    def write_model(self, key: str, model: str | None, provider: str | None) -> None:
        """Change the model of a job; raise unless it is in the file afterwards."""
        if self.read_model(key)[:2] == (model, provider):
            return
        if self._program is None:
            with self._locked():
                changed = self._change(self._read_text(), key, model, provider)
                mode = self._path.stat().st_mode & 0o777
                with replace_when_whole(self._path) as file:
                    file.write(changed.encode())
                self._path.chmod(mode)
        else:
            self._edit(key, model, provider)
        if self.read_model(key)[:2] != (model, provider):
            raise RelightError(f"{PROGRAM} did not take {model} for its job {key}", "set it there")

    def show_change(self, key: str, model: str | None, provider: str | None) -> str:
        """Return the command that makes the change, or a diff of the file."""
        if self._program is not None:
            return " ".join(self._words(key, model, provider))
        text, name = self._read_text(), str(self._path)
        changed = self._change(text, key, model, provider)
        old, new = text.splitlines(), changed.splitlines()
        lines = difflib.unified_diff(old, new, fromfile=name, tofile=name, n=1, lineterm="")
        return "\n".join(lines)

    @property
    def _path(self) -> Path:
        return self._home / "cron" / JOBS

    def _read(self) -> Any:
        return self._parse(self._read_text())

    def _read_text(self) -> str:
        """Return the file as it is, with its mark of encoding and its ends of lines."""
        try:
            return self._path.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise RelightError(f"cannot read {self._path}: {error}", "is it there?") from error

    def _parse(self, text: str) -> Any:
        try:
            return json.loads(text.removeprefix(MARK))
        except ValueError as error:
            raise RelightError(f"cannot read {self._path}: {error}", "is it there?") from error

    def _change(self, text: str, key: str, model: str | None, provider: str | None) -> str:
        """Return the text with another model for a job, written in the style of the rest."""
        style = _find_style(text, self._parse(text))
        document = self._parse(text)
        job = _find(document, key)
        for name, value in (("model", model), ("provider", provider)):
            if value is not None or name in job:
                job[name] = value
        return style.write(document)

    def _words(self, key: str, model: str | None, provider: str | None) -> list[str]:
        words = [*self.edit, key, "--model", model or ""]
        if self.read_model(key)[1] != provider:
            words += ["--provider", provider or ""]
        return words

    def _takes_models(self, program: str) -> bool:
        """True if the program's command takes a model; one that does not begin takes none."""
        try:
            changed_at = Path(program).stat().st_mtime_ns
            return OPTION in _read_help(program, changed_at, tuple(self._environment.items()))
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _edit(self, key: str, model: str | None, provider: str | None) -> None:
        assert self._program is not None
        words = [self._program, *self._words(key, model, provider)[1:]]
        try:
            done = run_quietly(words, {**self._environment, "HERMES_HOME": str(self._home)})
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RelightError(f"{PROGRAM} cron edit failed: {error}", "try it by hand") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            reason = said[-1] if said else f"exit code {done.returncode}"
            raise RelightError(f"{PROGRAM} cron edit failed: {reason}", "try it by hand")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open_lock(self._path.with_name(LOCK)) as file:
            hold(file.fileno())
            yield


@cache
def _read_help(program: str, changed_at: int, environment: tuple[tuple[str, str], ...]) -> str:
    """Return the options of `cron edit`; the moment of the program's change is part of the key."""
    return run_quietly([program, "cron", "edit", "--help"], dict(environment)).stdout


def run_quietly(
    words: Sequence[str], environment: Mapping[str, str], *, seconds: float = SECONDS
) -> "subprocess.CompletedProcess[str]":
    """Run a program without input; return its output, whatever it is."""
    return subprocess.run(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        check=False,
    )


def _find(document: Any, key: str) -> dict[str, Any]:
    jobs = document.get("jobs") if isinstance(document, dict) else document
    for job in jobs or ():
        if isinstance(job, dict) and str(job.get("id")) == key:
            return job
    raise MissingError(f"{PROGRAM} has no job {key} any more", "`relight job list` shows its jobs")


class _Style(Struct, frozen=True):
    """The style of a JSON file: so that a change taken back leaves the file as it was."""

    start: str = ""
    indent: int | None = 2
    is_ascii: bool = False
    line_end: str = "\n"
    end: str = "\n"

    def write(self, document: Any) -> str:
        text = json.dumps(document, indent=self.indent, ensure_ascii=self.is_ascii) + self.end
        return self.start + text.replace("\n", self.line_end)


def _find_style(text: str, document: Any) -> _Style:
    """Return the style that writes this text; the usual one if none does."""
    start = MARK if text.startswith(MARK) else ""
    line_end = "\r\n" if "\r\n" in text else "\n"
    end = "\n" if text.endswith("\n") else ""
    styles = (
        _Style(start, indent, is_ascii, line_end, end)
        for indent in (2, 4, None)
        for is_ascii in (False, True)
    )
    return next((one for one in styles if one.write(document) == text), _Style())
