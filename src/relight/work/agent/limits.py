"""Limits that end a run early: budgets, and repeats of the same failing call."""

import threading

import msgspec
from msgspec import Struct

from relight.errors import check_count, check_number
from relight.intake.recorder import SessionTracker
from relight.judging.kinds import find_meaning

REFUSED_AT = 3
ENDED_AT = 5
HINT = (
    "This same call has failed {count} times. It was not run again: change the arguments, read the"
    " earlier results, or try another way."
)
OVER = "The run is over, because the same call kept failing. This call was not run."


class Budget(Struct, frozen=True, kw_only=True):
    """The limits of a run; None means no limit."""

    turns: int | None = 50
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("turns", "tokens"):
            if (count := getattr(self, name)) is not None:
                check_count(name, count, least=1)
        for name in ("cost_usd", "seconds"):
            if (amount := getattr(self, name)) is not None:
                check_number(name, amount, least=0)

    def find_spent(self, rec: SessionTracker, *, turns: int, is_late: bool) -> str | None:
        """Return which budget is used up, in words; None if something is left of each."""
        if is_late:
            return self.format_late()
        if self.turns is not None and turns >= self.turns:
            return f"the budget of {self.turns} turns is used up"
        if self.tokens is None and self.cost_usd is None:
            return None
        stats = rec.stats()
        if stats.turns is None:
            return "the rest of the budget is unknown: the database cannot be read"
        if self.tokens is not None and (stats.total_tokens or 0) >= self.tokens:
            return f"the budget of {self.tokens:,} tokens is used up"
        if self.cost_usd is not None and (stats.cost_usd or 0) >= self.cost_usd:
            return f"the budget of ${self.cost_usd:g} is used up"
        return None

    def format_late(self) -> str:
        return f"the budget of {self.seconds:g} second{'' if self.seconds == 1 else 's'} is used up"


class SpiralGuard:
    """Counts how often the same call failed, also if other calls succeeded in between.

    The count restarts when the call succeeds, and when something new is written: after an edit,
    the same tests may have another result.
    """

    def __init__(self) -> None:
        self._failed: dict[bytes, int] = {}
        self._done: set[bytes] = set()
        self._lock = threading.Lock()
        self.ended_by: str | None = None

    def refuse(self, tool: str, arguments: str) -> str | None:
        """Return why a call must not run, or None; sets `ended_by` when the run must end."""
        key = make_call_key(tool, arguments)
        with self._lock:
            if self.ended_by is not None:
                return OVER
            count = self._failed.get(key, 0)
            if count + 1 < REFUSED_AT:
                return None
            self._failed[key] = count + 1
            if count + 1 >= ENDED_AT:
                self.ended_by = f"the same failing call of {tool} was made {count + 1} times"
            return HINT.format(count=count)

    def see(self, tool: str, arguments: str, *, has_failed: bool) -> None:
        """Count the outcome of a call."""
        key = make_call_key(tool, arguments)
        with self._lock:
            if has_failed:
                self._failed[key] = self._failed.get(key, 0) + 1
                return
            self._failed.pop(key, None)
            is_new = key not in self._done
            self._done.add(key)
            if is_new and self._failed and find_meaning(tool, arguments) == "write":
                self._failed.clear()


def make_call_key(tool: str, arguments: str) -> bytes:
    """Return the key of a call; two calls with the same arguments have the same key.

    >>> make_call_key("f", '{"a": 1, "b": 2}') == make_call_key("f", '{"b":2,"a":1}')
    True
    """
    try:
        encoded = msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        encoded = arguments.encode("utf-8", "surrogatepass")
    return tool.encode("utf-8", "surrogatepass") + b"\0" + encoded
