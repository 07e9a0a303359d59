"""The one safe way from any text to a file name, and to a name that the APIs take."""

import re
import unicodedata
from hashlib import blake2b

LIMIT = 60
TOOL_LIMIT = 64
_HASHED = re.compile(r"(?:.*-)?[0-9a-f]{16}\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?\Z", re.IGNORECASE)


def file_name(text: str, *, ending: str = "") -> str:
    """A file name for any text: the same text always gives the same, and it is never a path.

    Where the text itself would not do, a hash keeps two such texts apart; a text that looks as if
    it had one gets its own, so that nobody can name another's file.

    >>> file_name("fix-rounding", ending=".json")
    'fix-rounding.json'
    >>> file_name("../../etc/passwd")
    'etc-passwd-e5e710ea784151b5'
    """
    plain = slug(text)
    if plain != text or _RESERVED.match(plain) or _HASHED.match(plain):
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        plain = f"{plain}-{digest}" if plain else digest
    return plain + ending


def tool_name(text: str) -> str:
    """A tool's name as every API takes it, and as seeds hold it.

    >>> tool_name("browser.open:url")
    'browser_open_url'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:TOOL_LIMIT] or "tool"


def slug(text: str, *, limit: int = LIMIT) -> str:
    """The letters and digits of a text, in lower case, joined by hyphens.

    >>> slug("Fix the Rounding: in Invoices!")
    'fix-the-rounding-in-invoices'
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", ascii_text.lower())
    kept = ""
    for word in words:
        if len(kept) + len(word) + bool(kept) > limit:
            break
        kept += f"-{word}" if kept else word
    return kept or (words[0][:limit] if words else "")
