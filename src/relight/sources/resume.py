"""The shell line that continues a session in its agent: folder and id are untrusted text."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from relight.sources import find_source, is_source
from relight.text import HIDDEN

# characters that no shell treats specially, wherever they stand in a word
PLAIN = re.compile(r"[A-Za-z0-9_./:@+,-]+")
UNSAFE = re.compile(r"(['\\])")


class ResumeCommand(Struct, frozen=True):
    """The program and words that continue a session, and the folder that they run in.

    Without a folder they run anywhere.
    """

    words: tuple[str, ...]
    folder: str | None

    @property
    def line(self) -> str:
        """One line for bash, zsh, fish and sh."""
        words = quote_words(self.words)
        return words if self.folder is None else f"cd {quote_word(self.folder)} && {words}"


def resume_line(source: str, key: str, folder: str | None, *, is_part: bool = False) -> str | None:
    """Return the shell line that continues a session in its agent; None if the agent cannot.

    `key` is the agent's id of the session, `folder` its project, and `is_part` True for a
    sub-agent, which no agent continues by itself.

    >>> resume_line("claude-code", "f5e83048", "/home/dev/my shop")
    "cd '/home/dev/my shop' && claude --resume f5e83048"
    """
    found = None if is_part else find_resume(source, key, folder)
    return None if found is None else found.line


def find_resume(source: str, key: str, folder: str | None) -> ResumeCommand | None:
    """Return the command that continues a session; None if its agent cannot.

    An id that a program would read as an option, and hidden characters, which a terminal may act
    on when the line is pasted, have no command.
    """
    row = find_source(source) if is_source(source) else None
    if row is None or not row.resume or not _is_id(key):
        return None
    if folder is None or not _is_folder(folder):
        return ResumeCommand((*row.resume, key), None) if row.resumes_anywhere else None
    return ResumeCommand((*row.resume, key), folder)


def _is_id(key: str) -> bool:
    return bool(key) and not key.startswith("-") and not _has_hidden(key)


def _is_folder(folder: str) -> bool:
    return PurePosixPath(folder).is_absolute() and not _has_hidden(folder)


def _has_hidden(text: str) -> bool:
    return "\n" in text or "\t" in text or HIDDEN.search(text) is not None


def quote_words(words: Sequence[str]) -> str:
    """Return a command as one line of a shell."""
    return " ".join(map(quote_word, words))


def quote_word(text: str) -> str:
    r"""Return a text as one word of a shell.

    `shlex.quote` is not enough: fish reads a backslash inside single quotes as an escape. So
    quotes and backslashes stand outside of the quotes, each behind a backslash.

    >>> print(quote_word("it's"), quote_word("a\\b"), quote_word("$(x)"), quote_word(""))
    'it'\''s' 'a'\\'b' '$(x)' ''
    """
    if PLAIN.fullmatch(text):
        return text
    parts = [part for part in UNSAFE.split(text) if part]
    return "".join(f"\\{part}" if part in "'\\" else f"'{part}'" for part in parts) or "''"
