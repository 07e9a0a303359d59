"""Names: safe ones from any text, for files and for tools in model APIs, and one for each model.

A model has many names; reports group by the one that `data/models.toml` gives it. Addresses of
private networks are recognised here as well.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from msgspec import Struct

from relight.data import read_table

try:
    from _blake2 import blake2b as blake2b  # hashlib's own; that loads OpenSSL first, for 5 ms
except ImportError:  # another Python than CPython
    from hashlib import blake2b as blake2b

LIMIT = 60
TOOL_LIMIT = 64
_HASHED = re.compile(r"(?:.*-)?[0-9a-f]{16}\Z")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?\Z", re.IGNORECASE)
_WINDOW = re.compile(r"\[\w*\]$")
_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\w+)?$")  # Bedrock's, behind the date
_DATE = re.compile(r"[-@](?:20\d{2}-\d{2}-\d{2}|20\d{6})$")


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


@cache
def find_sha256() -> Callable[[bytes], Any]:
    """Return Python's own SHA-256; `hashlib` has it too, but loads OpenSSL first."""
    for name in ("_sha2", "_sha256"):  # from Python 3.12 on, and before
        with suppress(ImportError):
            found: Callable[[bytes], Any] = import_module(name).sha256
            return found
    from hashlib import sha256

    return sha256


def hash_with_key(key: bytes, data: bytes) -> bytes:
    """Return the HMAC of some bytes with SHA-256, as `hmac.digest` does with OpenSSL."""
    sha256 = find_sha256()
    block = (key if len(key) <= 64 else sha256(key).digest()).ljust(64, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in block) + data).digest()
    digest: bytes = sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()
    return digest


def tool_name(text: str) -> str:
    """Return a tool's name that every API accepts, as seeds hold it.

    >>> tool_name("browser.open:url")
    'browser_open_url'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:TOOL_LIMIT] or "tool"


def cut_project(project: str | None) -> str | None:
    """Return the last part of a project's folder.

    >>> cut_project("/home/anna/shop/"), cut_project("C:\\\\work\\\\shop"), cut_project("/")
    ('shop', 'shop', None)
    """
    return re.split(r"[/\\]", (project or "").rstrip("/\\"))[-1] or None


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


class ModelRules(Struct, frozen=True):
    """The content of `data/models.toml`."""

    prefixes: frozenset[str]
    bedrock: re.Pattern[str]
    keep: frozenset[str]
    aliases: dict[str, str]


def find_model_name(model: str, own: Mapping[str, str] | None = None) -> str:
    """Return the name that reports use for a model; `own` are the user's aliases.

    >>> find_model_name("claude-sonnet-4-5-20250929")
    'claude-sonnet-4-5'
    >>> find_model_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    'claude-sonnet-4-5'
    >>> find_model_name("gpt-4o-2024-05-13")
    'gpt-4o-2024-05-13'
    """
    own = own or {}
    if model in own:
        return own[model]
    name = _shorten(model)
    return own.get(name, name)


@lru_cache(maxsize=1024)
def _shorten(model: str) -> str:
    rules = read_model_rules()
    name = _WINDOW.sub("", model.strip())
    while "/" in name and name.partition("/")[0].lower() in rules.prefixes:
        name = name.partition("/")[2]
    if bedrock := rules.bedrock.match(name):
        name = _VERSION.sub("", name[bedrock.end() :])
    if name.lower() not in rules.keep:
        name = _DATE.sub("", name).removesuffix("-latest")
    return rules.aliases.get(name.lower(), name) or model


@cache
def read_model_rules() -> ModelRules:
    """Return the rules that Relight comes with."""
    table = read_table("models.toml", dict[str, Any])
    makers = "|".join(map(re.escape, table["bedrock_makers"]))
    return ModelRules(
        prefixes=frozenset(table["prefixes"]),
        bedrock=re.compile(rf"(?:[a-z-]+\.)?(?:{makers})\."),
        keep=frozenset(table["keep"]),
        aliases=table["aliases"],
    )


def is_private(address: str) -> bool:
    """True if an IP address is of this machine or of a private network; False for a name."""
    import ipaddress

    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped:
        known = known.ipv4_mapped
    return known.is_loopback or (known.is_private and not known.is_unspecified)
