"""Watch the HTTP libraries of a program from the moment that it imports them.

Nothing is imported for a program that uses none of them. The loader of such a library stays the
same object: only its `exec_module` is replaced, until the library is loaded.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# the libraries that SDKs send requests with, and the functions of `clients` that watch them
LIBRARIES = {"httpx": "watch_httpx", "httpx2": "watch_httpx", "aiohttp": "watch_aiohttp"}


class LibraryFinder:
    """Finds no module itself, but takes part when a library is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in LIBRARIES:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                loader: Any = spec.loader
                with suppress(AttributeError):  # a loader that takes no attributes
                    loader.exec_module = partial(_load, loader, loader.exec_module)
                return spec
        return None


def _load(loader: Any, load: Callable[[ModuleType], None], module: ModuleType) -> None:
    loader.__dict__.pop("exec_module", None)
    load(module)
    _watch(module)


def activate() -> None:
    """Watch the libraries that are loaded, and those that will be; a second call does nothing."""
    if any(isinstance(one, LibraryFinder) for one in sys.meta_path):
        return
    finder: Any = LibraryFinder()
    sys.meta_path.insert(0, finder)
    for name in LIBRARIES:
        if name in sys.modules:
            _watch(sys.modules[name])


def _watch(library: ModuleType) -> None:
    try:
        clients = import_module("relight.intake.auto.clients")
        getattr(clients, LIBRARIES[library.__name__])(library)
        import_module("relight.intake.auto.calls").warn_once()
    except Exception as error:  # noqa: BLE001 - the program works without being recorded
        import logging

        name = library.__name__
        logging.getLogger("relight").warning("calls through %s are not recorded: %s", name, error)
