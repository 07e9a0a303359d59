"""Where Relight keeps its things, and what the user has set."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relight.errors import RelightError

RATES = ("input", "output", "cache_read", "cache_write")


class Config:
    """The settings of one home folder; anything not set has its default."""

    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        self.home = home
        self.timezone: str | None = settings.get("timezone")
        self.prices: dict[str, dict[str, float]] = settings.get("prices", {})

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
            if key not in allowed or not isinstance(value, int | float) or value < 0:
                hint = f"a price has {', '.join(allowed)}, in dollars"
                raise RelightError(
                    f'{path}: [prices."{model}"] has a bad entry: {key} = {value!r}', hint
                )
