"""Threads that read the store, each with a connection of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from relight.config import Config
from relight.errors import StoreError
from relight.store import Store, open_reader

T = TypeVar("T")
THREADS = 4


class Readers:
    """Runs questions in a few threads: more would only wait for each other."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._begin()

    def _begin(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relight-reader")
        self._own = threading.local()
        self._opened: list[Store] = []

    def close(self) -> None:
        """Let the questions under way come to their end, and close what was opened.

        Whoever asks again after that is answered: an application may be started more than once.
        """
        self._threads.shutdown()
        for store in self._opened:
            store.close()
        self._begin()

    async def read(self, question: Callable[[Store], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._answer, question
        )

    def _answer(self, question: Callable[[Store], T]) -> T:
        which = identify(self.config.database)
        store: Store | None = getattr(self._own, "store", None)
        if store is None or self._own.which != which:
            if store is not None:
                self._opened.remove(store)
                store.close()
            store = self._own.store = open_reader(self.config)
            self._opened.append(store)
            self._own.which = which
        with store.snapshot():
            return question(store)


def identify(database: Path) -> tuple[int, int]:
    """Which file this is: one that was moved away still answers whoever has it open."""
    try:
        found = database.stat()
    except OSError as error:
        raise StoreError(
            f"the database {database} is not there any more: {error.strerror}",
            "put it back, or end `relight serve` and start it anew",
        ) from error
    return found.st_dev, found.st_ino
