"""What ends a run before its time: spirals of the same failing call, and budgets."""

import threading
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from relight.ids import row_id

REFUSED_AT = 3
ENDED_AT = 5
# after these have done something, the same call may well turn out differently
CHANGING = frozenset(("write_file", "patch"))
HINT = (
    "This same call has failed {count} times. It was not run again: change the arguments, look at"
    " what the earlier results say, or try another way."
)


class Budget(Struct, frozen=True, kw_only=True):
    """How much a run may use; None is no limit."""

    turns: int | None = 50
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None

    def find_spent(self, stats: Mapping[str, Any], *, turns: int, seconds: float) -> str | None:
        """Which budget is used up, in words; None while there is something left of each."""
        names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
        tokens = sum(stats[name] or 0 for name in names)
        if self.turns is not None and turns >= self.turns:
            return f"the budget of {self.turns} turns is used up"
        if self.tokens is not None and tokens >= self.tokens:
            return f"the budget of {self.tokens:,} tokens is used up"
        if self.cost_usd is not None and (stats["cost_usd"] or 0) >= self.cost_usd:
            return f"the budget of ${self.cost_usd:g} is used up"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the budget of {self.seconds:g} seconds is used up"
        return None


class SpiralGuard:
    """Counts how often the very same call failed in a row."""

    def __init__(self) -> None:
        self._failed: dict[int, int] = {}
        self._tools: dict[int, str] = {}
        self._lock = threading.Lock()
        self.ended_by: str | None = None

    def refuse(self, tool: str, arguments: str) -> str | None:
        """Why a call is not to be run, if so; `ended_by` is then set when it is once too often."""
        key = row_id("call", tool, arguments)
        with self._lock:
            count = self._failed.get(key, 0)
            if count + 1 < REFUSED_AT:
                return None
            self._failed[key] = count + 1
            if count + 1 >= ENDED_AT:
                self.ended_by = f"the same failing call of {tool} was made {count + 1} times"
            return HINT.format(count=count)

    def see(self, tool: str, arguments: str, *, has_failed: bool) -> None:
        """Note how a call that was run went."""
        key = row_id("call", tool, arguments)
        with self._lock:
            if has_failed:
                self._failed[key] = self._failed.get(key, 0) + 1
                self._tools[key] = tool
                return
            is_over = [one for one, own in self._tools.items() if own == tool or tool in CHANGING]
            for known in is_over:
                del self._tools[known]
                self._failed.pop(known, None)
