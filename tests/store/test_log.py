"""The write-ahead log stays short while others read, and no writer waits long for it."""

import sqlite3
import threading
import time

import pytest

from relight.store import Store, connect, open_reader
from relight.store.log import WAIT_SECONDS, Log

LONGEST = 1_000_000


def open_log(store: Store) -> Log:
    return Log(store.path, longest_bytes=LONGEST, look_seconds=0)


def write(database: sqlite3.Connection, log: Log, *, times: int) -> float:
    """Write a hundred thousand bytes some times; gives the longest that one took."""
    longest = 0.0
    for _ in range(times):
        began = time.monotonic()
        with database:
            values = ("filling", "x" * 100_000)
            database.execute("insert or replace into meta values (?, ?)", values)
        log.shorten(database)
        longest = max(longest, time.monotonic() - began)
    return longest


def log_bytes(store: Store) -> int:
    return store.path.with_name(f"{store.path.name}-wal").stat().st_size


@pytest.mark.sqlite("it has the log")
def test_readers_without_a_pause_do_not_let_the_log_grow(store: Store) -> None:
    over = threading.Event()

    def read() -> None:
        with open_reader(store.config) as reader:
            while not over.is_set():
                with reader.snapshot():
                    reader.query("select count(*) from sqlite_master")
                    time.sleep(0.02)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    database = connect(store.path)
    try:
        write(database, open_log(store), times=100)
        assert log_bytes(store) < 2 * LONGEST
    finally:
        over.set()
        for reader in readers:
            reader.join()
        database.close()


@pytest.mark.sqlite("it has the log")
def test_who_reads_for_long_holds_nobody_up_for_long(store: Store) -> None:
    database = connect(store.path)
    with open_reader(store.config) as reader, reader.snapshot():
        reader.query("select count(*) from session")
        began = time.monotonic()
        longest = write(database, open_log(store), times=25)
        # it waits now and then, and gives up each time: else it would wait for a minute
        assert WAIT_SECONDS <= 0.1
        assert longest < 20
        assert time.monotonic() - began < 40
    assert log_bytes(store) > LONGEST
    database.close()
