"""Backups of a store on PostgreSQL, written and read by PostgreSQL's own programs."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from relight.config import Config
from relight.errors import RelightError
from relight.store import make_private
from relight.store.postgres import READER, PostgresStore, connect
from relight.text import show_url

Process = subprocess.Popen[bytes]
CLEAR = b"""begin;
set local client_min_messages = warning;
drop schema public cascade;
create schema public;
grant usage on schema public to public;
"""
PROGRAMS = "install PostgreSQL's client programs, of the server's version or later"


def dump(url: str, file: Path) -> None:
    """Copy a whole database into one file, as it is at one moment, while others write."""
    make_private(file)
    plain, environment = _split(url)
    command = ["pg_dump", "--format=custom", "--no-owner", f"--file={file}", f"--dbname={plain}"]
    try:
        _run(command, environment, of=show_url(url))
    except BaseException:  # also on Ctrl-C: half a backup must not look like one
        file.unlink(missing_ok=True)
        raise


def check_dump(file: Path) -> None:
    """Raise unless a file is a backup of a database."""
    _run(["pg_restore", "--list", str(file)], {}, of=f"{file} is not a backup of a database")


def restore_dump(config: Config, file: Path) -> PostgresStore:
    """Put a backup in the place of a database's tables, all of it or nothing.

    Return the store, whatever its schema is.
    """
    plain, environment = _split(str(config.store.url))
    psql = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={plain}"]
    read = ["pg_restore", "--no-owner", "--schema=public", "--file=-", str(file)]
    of = show_url(str(config.store.url))
    with (
        TemporaryFile() as errors,
        _start(psql, environment, stdin=PIPE, stdout=DEVNULL, stderr=errors) as writer,
        _start(read, {}, stdout=PIPE, stderr=errors) as reader,
    ):
        assert writer.stdin is not None
        assert reader.stdout is not None
        # without the last line it changes nothing: it ends when the backup is whole
        with suppress(BrokenPipeError), writer.stdin as script:
            script.write(CLEAR)
            shutil.copyfileobj(reader.stdout, script, 1 << 20)
            if reader.wait() == 0:
                script.write(b"\ncommit;\n")
        reader.kill()
        if writer.wait() or reader.wait():
            raise _explain(errors, of)
    return PostgresStore(config, connect(config))


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without its password, which no list of processes may show."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    password = options.pop("password", None) or unquote(parts.password or "")
    user = f"{parts.username}@" if parts.username else ""
    place = f"{user}{parts.netloc.rpartition('@')[2]}"
    plain = parts._replace(netloc=place, query=urlencode(options)).geturl()
    return plain, {"PGPASSWORD": password} if password else {}


def _run(command: list[str], environment: dict[str, str], *, of: str) -> None:
    with TemporaryFile() as errors:
        with _start(command, environment, stdout=DEVNULL, stderr=errors) as process:
            pass
        if process.returncode:
            raise _explain(errors, of)


def _start(command: list[str], environment: dict[str, str], **files: Any) -> Process:
    try:
        return subprocess.Popen(command, env={**os.environ, **environment}, **files)
    except FileNotFoundError:
        raise RelightError(f"there is no program {command[0]}", PROGRAMS) from None


def _explain(errors: IO[bytes], of: str) -> RelightError:
    """Return the error that a program has reported."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines() or ["it failed"]
    message, text = f"{of}: {lines[0][:300]}", " ".join(lines)
    if f'role "{READER}" does not exist' in text:
        return RelightError(message, "make it first: relight migrate")
    return RelightError(message, PROGRAMS if "version" in text else None)
