"""Reproducible randomness, and a clock that only the story moves."""

import string
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

LETTERS = string.ascii_letters + string.digits


class Dice(Random):
    """Random numbers and ids; the same seed gives the same ones, on every machine."""

    def branch(self, name: str) -> "Dice":
        """Return separate dice for one part of the story, so that no part affects another."""
        return Dice(f"{self.getrandbits(64)}:{name}")

    def text_id(self, prefix: str, length: int = 22) -> str:
        return prefix + "".join(self.choices(LETTERS, k=length))

    def hex_id(self, length: int) -> str:
        return f"{self.getrandbits(4 * length):0{length}x}"

    def uuid(self) -> str:
        return str(UUID(int=self.getrandbits(128), version=4))

    def uuid7(self, at: datetime) -> str:
        """Return a UUIDv7, whose first 48 bits are the time, as Codex uses them."""
        milliseconds = int(at.timestamp() * 1000)
        tail = self.getrandbits(80) & ~(0xF << 76) | (0x7 << 76)
        tail = tail & ~(0x3 << 62) | (0x2 << 62)
        return str(UUID(int=milliseconds << 80 | tail))

    def is_lucky(self, chance: float) -> bool:
        return self.random() < chance


class Clock:
    """The time in one session: it passes when something takes time."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def wait(self, seconds: float) -> None:
        passed = timedelta(milliseconds=round(seconds * 1000))
        # in UTC, because local hours may be skipped or come twice
        self.now = (self.now.astimezone(UTC) + passed).astimezone(self.now.tzinfo)

    @property
    def seconds(self) -> float:
        return round(self.now.timestamp(), 3)

    @property
    def milliseconds(self) -> int:
        return round(self.now.timestamp() * 1000)

    @property
    def text(self) -> str:
        """The time as most agents write it: UTC with milliseconds.

        >>> Clock(datetime(2026, 11, 15, 3, 12, tzinfo=UTC)).text
        '2026-11-15T03:12:00.000Z'
        """
        moment = datetime.fromtimestamp(self.milliseconds / 1000, UTC)
        return moment.isoformat(timespec="milliseconds")[:-6] + "Z"
