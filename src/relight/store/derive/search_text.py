"""The words that the search index holds of a session's texts.

Prompts and answers are indexed whole, of a call its command, its paths and its short arguments, of
a result its beginning. The texts are a pure function of the tape: an index entry is deleted by the
very text that it was made of.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from relight.chat.messages import read_object
from relight.model import Passage, row_id

KINDS = ("prompt", "answer", "call", "result")
# the arguments that hold what a shell or an interpreter runs
COMMANDS = frozenset(("command", "cmd", "script", "code"))
# the folder of a command is nearly always the project's
FOLDERS = frozenset(("workdir", "cwd"))
# what is longer is the content of a file
SHORT = 300
# a word of a shell line that may be a path, and what makes it one
_WORD = re.compile(
    r"(?<![^\s'\"`=:,;|&<>(){}\[\]])[^\s'\"`=:,;|&<>(){}\[\]/\\.]*+[/\\.][^\s'\"`=:,;|&<>(){}\[\]]*+"
)
_FILE = re.compile(r"[\w.-]*\w\.[A-Za-z]\w{0,7}")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
# Scripts that write no spaces between words. Each of their characters is a word of the index, and
# a query for several is a phrase: so every part of a sentence is found. `re` keeps what it compiles
# of this at the first use: that takes 2 ms, and an import of little text has no use of it.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)


class TextRow(Struct, frozen=True, array_like=True, gc=False):
    """An entry of the search index; `kind` is its place in `KINDS`."""

    session_id: int
    kind: int
    words: str | None
    path: str | None = None
    tool: str | None = None


def make_texts(source: str, passages: Iterable[Passage]) -> list[TextRow]:
    """Return the entries of these texts in their order, without those that hold no words."""
    ids: dict[str, int] = {}
    rows = []
    for one in passages:
        session_id = ids.get(one.session)
        if session_id is None:
            session_id = ids[one.session] = row_id("session", source, one.session)
        row = _make_text(session_id, one)
        if row is not None:
            rows.append(row)
    return rows


def _make_text(session_id: int, one: Passage) -> TextRow | None:
    kind = KINDS.index(one.kind)
    if one.kind != "call":
        text = clean_for_index(one.text)
        return TextRow(session_id, kind, text, None, one.tool) if text else None
    words, paths = (
        clean_for_index("\n".join(some)) or None for some in split_call(read_object(one.text))
    )
    return TextRow(session_id, kind, words, paths, one.tool)


def split_call(arguments: Any) -> tuple[list[str], list[str]]:
    """Return a call's words and its paths, also those inside of a command."""
    words: list[str] = []
    paths: list[str] = []
    for name, value in _list_arguments(arguments):
        patched = _PATCHED.findall(value) if "*** " in value else []
        if patched:
            paths += patched
        elif name in COMMANDS:
            words.append(value)
            paths += find_path_words(value)
        elif len(value) > SHORT:
            continue
        elif is_path(value):
            paths.append(value)
        else:
            words.append(value)
    return words, paths


def _list_arguments(arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of arguments; a list of words is a command line."""
    if isinstance(arguments, str):
        yield "command", arguments
    elif isinstance(arguments, dict):
        for name, value in arguments.items():
            if name in FOLDERS:
                continue
            if isinstance(value, str):
                yield name, value
            elif isinstance(value, list) and all(isinstance(one, str) for one in value):
                yield name, " ".join(value)


def find_path_words(command: str) -> list[str]:
    """Return the words of a command that look like paths, each once.

    >>> find_path_words("cd /srv && pytest -q tests/test_app.py::test_one > log.txt")
    ['/srv', 'tests/test_app.py', 'log.txt']
    """
    return list(dict.fromkeys(word for word in _WORD.findall(command) if is_path(word)))


def is_path(word: str) -> bool:
    """True for a word with a slash or with a file's ending."""
    if "/" in word or "\\" in word:
        return word.strip("/\\") != "" and len(word.split(None, 1)) == 1
    return "." in word and _FILE.fullmatch(word) is not None


def clean_for_index(text: str) -> str:
    """Return the text as the index takes it: in UTF-8, with spaces around unspaced characters."""
    text = text.replace("\0", " ")
    if text.isascii():
        return text
    if re.search(UNSPACED, text):
        text = re.sub(UNSPACED, r" \g<0> ", text)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which no encoding can write
        return text.encode("utf-8", "replace").decode()
    return text
