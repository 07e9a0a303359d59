"""Where Relight keeps its things, and what the user has set."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relight.errors import RelightError

PRESET = ("references", "aggregator", "reference_timeout_seconds")
RATES = ("input", "output", "cache_read", "cache_write")


class Config:
    """The settings of one home folder; anything not set has its default."""

    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        self.home = home
        self.timezone: str | None = settings.get("timezone")
        self.prices: dict[str, dict[str, float]] = settings.get("prices", {})
        templates = settings.get("templates", {})
        self.max_live_per_category: int = templates.get("max_live_per_category", 5)
        self.hold_out: float = templates.get("hold_out", 0.2)
        moa = settings.get("moa", {})
        self.save_traces: bool = moa.get("save_traces", False)
        self.trace_folder = Path(moa.get("trace_dir") or home / "moa-traces").expanduser()
        self.presets: dict[str, dict[str, Any]] = moa.get("presets", {})

    @property
    def database(self) -> Path:
        return self.home / "relight.db"


def find_home(
    home: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> Path:
    """The folder given, else `RELIGHT_HOME`, else `.relight` in the user's home."""
    if home:
        return Path(home).expanduser()
    environment = os.environ if environment is None else environment
    if named := environment.get("RELIGHT_HOME"):
        return Path(named).expanduser()
    return Path.home() / ".relight"


def read_config(home: Path) -> Config:
    """The settings in `config.toml`; a key that Relight does not know is an error."""
    path = home / "config.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config(home, {})
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(
            f"cannot read {path}: {error}", "check the file's permissions"
        ) from error
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RelightError(
            f"{path} is not valid TOML: {error}", "mend the line it names"
        ) from error
    _check(settings, path)
    return Config(home, settings)


def _check(settings: Mapping[str, Any], path: Path) -> None:
    hint = "see `relight config --help` for the settings there are"
    for key, value in settings.items():
        match key:
            case "timezone":
                _check_timezone(value, path)
            case "prices":
                _check_prices(value, path)
            case "moa":
                _check_moa(value, path)
            case "templates":
                _check_templates(value, path)
            case _:
                raise RelightError(f"{path} has an unknown setting: {key}", hint)


def _check_timezone(name: object, path: Path) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name if isinstance(name, str) else "")
    except (ValueError, OSError, LookupError) as error:
        hint = 'name one such as "Europe/Berlin" or "UTC"'
        raise RelightError(f"{path}: timezone {name!r} is not known", hint) from error


def _check_prices(prices: object, path: Path) -> None:
    allowed = [f"{rate}_usd_per_mtok" for rate in RATES]
    if not isinstance(prices, dict):
        raise RelightError(f"{path}: prices must be tables", 'write [prices."my-model"]')
    for model, rates in prices.items():
        for key, value in rates.items() if isinstance(rates, dict) else [("", None)]:
            if key not in allowed or not isinstance(value, int | float) or not 0 <= value <= 1e6:
                hint = f"a price has {', '.join(allowed)}, in dollars"
                raise RelightError(
                    f'{path}: [prices."{model}"] has a bad entry: {key} = {value!r}', hint
                )


def _check_templates(settings: object, path: Path) -> None:
    hint = "there are max_live_per_category (a number from 0 up) and hold_out (a share below 1)"
    for key, value in settings.items() if isinstance(settings, dict) else [("", None)]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            is_good = False
        elif key == "max_live_per_category":
            is_good = isinstance(value, int) and value >= 0
        else:
            is_good = key == "hold_out" and 0 <= value < 1
        if not is_good:
            raise RelightError(f"{path}: [templates] has a bad entry: {key} = {value!r}", hint)


def _check_moa(moa: object, path: Path) -> None:
    kinds: dict[str, type] = {"save_traces": bool, "trace_dir": str, "presets": dict}
    for key, value in moa.items() if isinstance(moa, dict) else [("", None)]:
        if key not in kinds or not isinstance(value, kinds[key]):
            hint = f"[moa] has {', '.join(kinds)}"
            raise RelightError(f"{path}: [moa] has a bad entry: {key} = {value!r}", hint)
    for name, preset in moa.get("presets", {}).items() if isinstance(moa, dict) else ():
        unknown = set(preset if isinstance(preset, dict) else ("",)) - set(PRESET)
        if unknown:
            raise RelightError(
                f"{path}: [moa.presets.{name}] has an unknown setting: {sorted(unknown)[0]}",
                f"a preset has {', '.join(PRESET)}",
            )
