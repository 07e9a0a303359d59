"""One name for all names of a model, by which reports group: `data/models.toml` has the rules."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache

from msgspec import Struct

from relight.data import read_data

_WINDOW = re.compile(r"\[\w*\]$")
_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\w+)?$")  # Bedrock's, behind the date
_DATE = re.compile(r"[-@](?:20\d{2}-\d{2}-\d{2}|20\d{6})$")


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
    table = tomllib.loads(read_data("models.toml"))
    makers = "|".join(map(re.escape, table["bedrock_makers"]))
    return ModelRules(
        prefixes=frozenset(table["prefixes"]),
        bedrock=re.compile(rf"(?:[a-z-]+\.)?(?:{makers})\."),
        keep=frozenset(table["keep"]),
        aliases=table["aliases"],
    )
