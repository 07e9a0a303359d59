"""Relight: the flight recorder and warm start for AI agents.

Names are loaded when they are used, so that importing the package costs nothing. Their modules
stand in `__init__.pyi`, which type checkers read too.
"""

from functools import cache
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "NAMES":
        return _read_names()
    if not name.startswith("_") and (module := _read_names().get(name)):
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'relight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_read_names(), "__version__"]


@cache
def _read_names() -> dict[str, str]:
    """The public names, and the modules that hold them."""
    import re
    from pathlib import Path

    text = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = re.findall(r"^from (relight\S+) import (\w+) as", text, re.MULTILINE)
    return {name: module for module, name in imports}
