"""Checks of parameters; an error names the parameter."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relight.errors import ParameterError, RelightError

SHOWN = 80
LARGEST = sys.float_info.max
# the year 9999: from 1970 to there a moment has a day in every zone
LATEST_MS = 253_370_764_800_000
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)


def refuse(name: str, problem: str, hint: str | None = None) -> ParameterError:
    """Return the error for a bad value of a parameter."""
    return ParameterError(f"{name} {problem}", hint, names=[name])


def check_text(name: str, value: object) -> str:
    """Return text without surrounding space; raise for NUL or half characters.

    >>> check_text("model", " haiku ")
    'haiku'
    """
    if not isinstance(value, str) or not value.strip():
        raise refuse(name, f"must be a text that is not empty, not {describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(
            name, f"must be text that can be written as UTF-8, not {describe(value)}"
        ) from None
    if "\0" in value:
        raise refuse(name, f"must be text without NUL, not {describe(value)}")
    return value.strip()


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise refuse(name, f"cannot be {describe(value)}", f"it is one of {', '.join(choices)}")
    return value


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return a number within its limits; raise for infinity or NaN.

    >>> check_number("share", 1, least=0, most=1)
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(name, f"must be a number, not {describe(value)}")
    # compared before conversion: the largest integers do not fit into a float
    is_good = abs(value) <= LARGEST
    is_good = is_good and (least is None or value >= least) and (most is None or value <= most)
    if not is_good or (below is not None and value >= below):
        limits = [
            f"{word} {limit:,}"
            for word, limit in (("at least", least), ("at most", most), ("below", below))
            if limit is not None
        ]
        allowed = " and ".join(limits) or "a finite number"
        raise refuse(name, f"must be {allowed}, not {describe(value)}")
    return float(value)


def check_count(name: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Return a whole number within its limits."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise refuse(name, f"must be a whole number from {least} up, not {describe(value)}")
    if most is not None and value > most:
        raise refuse(name, f"must be {most:,} at most, not {describe(value)}")
    return value


def describe_arguments(shape: type[Any]) -> tuple[str, dict[str, Any]]:
    """Return the description of a Struct of arguments, its docstring, and its JSON schema."""
    from inspect import cleandoc

    import msgspec

    _, parts = msgspec.json.schema_components([shape])
    schema = dict(parts[shape.__name__])
    schema.pop("title", None)
    return cleandoc(schema.pop("description", "")), schema


def describe(value: object) -> str:
    """Return a value as an error shows it, shortened.

    >>> describe("yesterday")
    "'yesterday'"
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr must not hide the problem
        text = f"something that cannot be shown ({type(value).__name__})"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def expand_path(setting: str, text: str, *, environment: Mapping[str, str] | None = None) -> Path:
    """Return a path with `~`, `$NAME` and `${NAME}` replaced; raise for a variable that is not set.

    >>> expand_path("moa.trace_dir", "$DATA/x", environment={"DATA": "/data"}).as_posix()
    '/data/x'
    """
    known = os.environ if environment is None else environment

    def read_variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not known.get(name):
            raise RelightError(
                f"{setting} = {text!r}: the variable {name} is not set",
                f"set {name}, or write the folder without it",
            )
        return known[name]

    return Path(_VARIABLE.sub(read_variable, text)).expanduser()


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
