"""Warm against cold, compared once for all who ask: of many sessions that takes a while."""

import threading
import time
from pathlib import Path

from relight.store import Store
from relight.work.experiments.comparison import EFFECT, Report
from relight.work.experiments.holdout import read_report

MOST_KEPT = 50
_lock = threading.Lock()
_kept: dict[tuple[Path, str | None, float], tuple[float, Report | None]] = {}


def read_arms(store: Store, template: str | None, *, effect: float = EFFECT) -> Report:
    """The arms compared, kept for twenty times as long as that took.

    So of a thousand sessions it may be some seconds old, and of a few it never is.
    """
    with _lock:
        until, found = _kept.get((store.path, template, effect), (0.0, None))
        began = time.monotonic()
        if found is None or began >= until:
            found = read_report(store, template=template, effect=effect, may_retire=False)
            until = began + 20 * (time.monotonic() - began)
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[store.path, template, effect] = (until, found)
        return found
