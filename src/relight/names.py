"""Safe names from any text: for files, and for tools in model APIs."""

import re
import unicodedata
from hashlib import blake2b

LIMIT = 60
TOOL_LIMIT = 64
_HASHED = re.compile(r"(?:.*-)?[0-9a-f]{16}\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?\Z", re.IGNORECASE)


def file_name(text: str, *, ending: str = "") -> str:
    """Return a file name for any text: the same text gives the same name, and it is never a path.

    If the text itself is not safe, a hash keeps two such texts apart. A text that looks as if it
    had a hash gets one too, so that no text can take another's name.

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
    """Return a tool's name that every API accepts, as seeds hold it.

    >>> tool_name("browser.open:url")
    'browser_open_url'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:TOOL_LIMIT] or "tool"


def slug(text: str, *, limit: int = LIMIT) -> str:
    """Return the letters and digits of a text, in lower case, joined by hyphens.

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
