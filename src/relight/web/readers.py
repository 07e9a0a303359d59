"""Threads that read the store, each with a connection of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from relight.config import Config
from relight.store import Store, open_reader

T = TypeVar("T")
THREADS = 4


class Readers:
    """Runs questions in a few threads: more would only wait for each other."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relight-reader")
        self._own = threading.local()

    async def read(self, question: Callable[[Store], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._answer, question
        )

    def _answer(self, question: Callable[[Store], T]) -> T:
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            store = self._own.store = open_reader(self.config)
        with store.snapshot():
            return question(store)
