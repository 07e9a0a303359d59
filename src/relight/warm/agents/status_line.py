"""Claude Code's status line: one line from the JSON on standard input and the kept summary.

Claude Code runs it after each message. It opens no database, reads no log and loads no other
package. If the summary is old, it starts one import in the background.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from relight.intake.status import LOCK, REPORTS, SUMMARY
from relight.text import clean, dollars, show_in

SOURCE = "claude-code"
OLD_SECONDS = 10
MOST_INPUT = 1 << 20
# reports that no import takes are left out from here on
MOST_REPORTS = 1 << 16
NAME_CHARACTERS = 40
MINUTE_MS = 60_000
# dollars or percent beyond this are an error of the agent, and are left out
MOST_FIGURE = 1e6
# an end that is further away cannot be one, whichever clock is wrong
MOST_LEFT_MS = {"5h": 86_400_000, "week": 14 * 86_400_000}
# no provider keeps a prompt for longer
MOST_CACHED_SECONDS = 86_400
# the windows of a plan as Claude Code names them
WINDOWS = {"five_hour": "5h", "seven_day": "week"}
SEPARATOR = " · "


def find_plain_home(words: list[str]) -> tuple[bool, str | None]:
    """Return whether the words ask for the line alone, and the home they name.

    >>> find_plain_home(["statusline", "--home", "/r"])
    (True, '/r')
    >>> find_plain_home(["statusline", "--install"])
    (False, None)
    """
    home, rest = None, []
    given = iter(words)
    for word in given:
        if word == "--home":
            home = next(given, None)
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
        else:
            rest.append(word)
    return rest == ["statusline"], home


def print_status(home: str | None) -> None:
    """Print the line, then refresh the summary; never raises, whatever it was given."""
    folder = home or os.environ.get("RELIGHT_HOME") or "~/.relight"
    folder = os.path.expanduser(folder)  # noqa: PTH111 - a Path takes longer to load
    now = time.time()
    given, summary = _read_input(), _read_summary(folder)
    try:
        line = SEPARATOR.join(make_parts(given, summary, now)) or "Relight"
    except Exception:  # noqa: BLE001 - a line all the same
        line = "Relight"
    _print(line)
    try:
        _leave_reports(folder, given, summary, now=now)
        if not 0 <= now * 1000 - _integer(summary.get("made_at")) < OLD_SECONDS * 1000:
            start_refresh(folder)
    except Exception:  # noqa: BLE001 - the line is printed; the next run tries again
        return


def _read_input() -> dict[str, Any]:
    """The JSON on standard input; nothing if it is a terminal, or no object."""
    try:
        if sys.stdin is None or sys.stdin.isatty():
            return {}
        return _object(json.loads(sys.stdin.buffer.read(MOST_INPUT)))
    except (OSError, ValueError, RecursionError, AttributeError):
        return {}


def _read_summary(folder: str) -> dict[str, Any]:
    try:
        with open(f"{folder}/{SUMMARY}", "rb") as file:  # noqa: PTH123
            return _object(json.loads(file.read()))
    except (OSError, ValueError, RecursionError):
        return {}


def _print(line: str) -> None:
    try:
        sys.stdout.buffer.write(f"{line}\n".encode(errors="replace"))
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return


def make_parts(given: dict[str, Any], summary: dict[str, Any], now: float) -> Iterator[str]:
    """Yield the parts of the line: model, costs, windows, context and cache, as far as known."""
    currency, rate = summary.get("currency"), _number(summary.get("rate"))
    if isinstance(currency, str) and currency.isalpha() and rate:
        show_in(currency[:3], rate)
    session = _object(_object(summary.get("sessions")).get(str(given.get("session_id"))))
    model = _object(given.get("model"))
    name = model.get("display_name") or model.get("id")
    if isinstance(name, str) and name.strip():
        yield clean(name.strip())[:NAME_CHARACTERS]
    cost = _number(_object(given.get("cost")).get("total_cost_usd"), most=MOST_FIGURE)
    if cost is not None:
        yield dollars(cost, digits=2)
    elif session:
        yield _money(session.get("cost"))
    if now * 1000 < _integer(summary.get("day_ends_at")):
        yield f"{_money(summary.get('today'))} today"
    yield from _show_windows(given, summary, now)
    yield from _show_context(_object(given.get("context_window")), session)
    yield from _show_cache(_object(given.get("prompt_cache")), session, now)


def _show_windows(given: dict[str, Any], summary: dict[str, Any], now: float) -> Iterator[str]:
    # Claude Code repeats its last report, also when that window is over
    reported = {
        kind: (ends_at, used)
        for kind, ends_at, used in find_reports(given)
        if 0 < ends_at - now * 1000 <= MOST_LEFT_MS[kind]
    }
    for kind in WINDOWS.values():
        known = _find_window(summary, kind, now)
        if kind in reported:
            ends_at, percent = reported[kind]
            if known.get("basis") == "reported" and known.get("ends_at") == ends_at:
                # another session may have a later report
                percent = max(percent, _number(known.get("used_percent")) or 0)
            share = f"{percent:.0f}%"
        elif known:
            ends_at, used = _integer(known.get("ends_at")), _number(known.get("used_percent"))
            about = "≈" if known.get("basis") == "estimated" else ""
            worth = _number(known.get("value_usd"))
            share = dollars(worth, digits=2) if used is None else f"{about}{used:.0f}%"
        else:
            continue
        # a line of eighty columns has room for the nearer end alone
        left = f" {show_left(ends_at / 1000 - now)}" if kind == "5h" else ""
        yield f"{kind} {share}{left}"


def show_left(seconds: float) -> str:
    """Return a time that is left, short and never too long.

    >>> [show_left(one) for one in (41.9, 250, 4320, 3600, 300_000)]
    ['41s', '4m', '1h12m', '1h00m', '3d']
    """
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if seconds < 60:
        return f"{int(seconds)}s"
    if hours < 24:
        return f"{hours}h{minutes % 60:02}m" if hours else f"{minutes}m"
    return f"{hours // 24}d"


def _find_window(summary: dict[str, Any], kind: str, now: float) -> dict[str, Any]:
    """The open window in the summary, of the account whose home this is."""
    account = os.environ.get("CLAUDE_CONFIG_DIR")
    windows = summary.get("windows")
    for one in map(_object, windows if isinstance(windows, list) else ()):
        is_own = one.get("account") in (None, account) and one.get("source") == SOURCE
        if is_own and one.get("kind") == kind and _integer(one.get("ends_at")) > now * 1000:
            return one
    return {}


def _show_context(context: dict[str, Any], session: dict[str, Any]) -> Iterator[str]:
    used = _number(context.get("used_percentage"), most=MOST_FIGURE)
    tokens = _number(session.get("context_tokens"))
    if used is not None:
        yield f"ctx {used:.0f}%"
    elif tokens is not None:
        yield f"ctx {tokens / 1000:.0f}k"


def _show_cache(cache: dict[str, Any], session: dict[str, Any], now: float) -> Iterator[str]:
    """The end of the prompt's cache: by Claude Code itself, else by the recorded turns."""
    until = _number(cache.get("expires_at"))
    if until is None and "warm" not in cache:
        kept = _number(session.get("cache_until"))
        until = None if kept is None else kept / 1000
    if until is not None and until - now <= MOST_CACHED_SECONDS:
        yield f"cache {show_left(until - now)}" if until > now else "cache cold"
    elif cache.get("warm") is False and cache.get("caching_observed"):
        yield "cache cold"


def find_reports(given: dict[str, Any]) -> Iterator[tuple[str, int, float]]:
    """Yield the windows that Claude Code reports: kind, end in milliseconds, percent used."""
    limits = _object(given.get("rate_limits"))
    for name, kind in WINDOWS.items():
        window = _object(limits.get(name))
        used, resets = _number(window.get("used_percentage")), _number(window.get("resets_at"))
        if used is not None and resets is not None and used <= 1000 and 0 < resets < 1e11:
            yield kind, round(resets * 1000 / MINUTE_MS) * MINUTE_MS, used


def _leave_reports(
    folder: str, given: dict[str, Any], summary: dict[str, Any], *, now: float
) -> None:
    """Leave what is new in the reported windows for the next import."""
    session = given.get("session_id")
    if not isinstance(session, str) or not 0 < len(session) <= 200:
        return
    lines = []
    for kind, ends_at, used in find_reports(given):
        known = _find_window(summary, kind, now)
        is_known = known.get("basis") == "reported" and known.get("ends_at") == ends_at
        if not is_known or known.get("used_percent") != used:
            report = {"source": SOURCE, "session": session, "kind": kind, "ends_at": ends_at}
            lines.append(json.dumps({**report, "at": round(now * 1000), "used_percent": used}))
    if not lines:
        return
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    file = os.open(f"{folder}/{REPORTS}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if os.fstat(file).st_size < MOST_REPORTS:
            os.write(file, "".join(f"{line}\n" for line in lines).encode())
    finally:
        os.close(file)


def start_refresh(folder: str) -> bool:
    """Start one import in the background; False if one runs, or was started a moment ago.

    The new process holds the lock until it ends, because it inherits the open file.
    """
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    file = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        about = os.fstat(file)
        if about.st_size and 0 <= time.time() - about.st_mtime < OLD_SECONDS:
            return False
        from relight.locks import hold  # not needed by a line without a refresh

        if not hold(file, waits=False):
            return False
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, b"tried")
        os.utime(file)
        _start(file, folder)
    finally:
        os.close(file)
    return True


def _start(lock: int, folder: str) -> None:
    """Start the refreshing process, apart from the agent's terminal and its pipes."""
    # -P: the agent's folder may have a module of the same name
    words = ["-P", "-m", "relight", "statusline", "--refresh", "--home", os.path.abspath(folder)]  # noqa: PTH100
    command = [sys.executable, *words]
    if not hasattr(os, "fork"):
        import subprocess

        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
        return
    if os.fork():
        return
    try:
        os.setsid()
        nothing_file = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing_file, number)
        os.set_inheritable(lock, True)
        os.execv(command[0], command)
    finally:
        os._exit(1)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any, *, most: float = 1e15) -> float | None:
    """A time, an amount or a share; None for what cannot be one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None


def _integer(value: Any) -> int:
    return int(_number(value) or 0)


def _money(value: Any) -> str:
    amount = _object(value)
    return dollars(
        _number(amount.get("cost_usd")),
        unpriced=_integer(amount.get("unpriced_turns")),
        included=_number(amount.get("included_usd")),
        digits=2,
    )
