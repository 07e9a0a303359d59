"""Where Relight keeps its things, and what the user has set."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relight.errors import RelightError

PRESET = ("references", "aggregator", "reference_timeout_seconds")
RATES = ("input", "output", "cache_read", "cache_write")
# what becomes of good sessions after an import
AUTO = ("candidates", "use", "off")
JOBS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "provider": str,
    "base_url": str,
    "key_variable": str,
    "max_parallel": int,
    "budget_usd_per_day": (int, float),
    "warn_at": (int, float),
    "context_tokens": int,
    "routes": list,
}
ROUTE = ("pattern", "model", "provider", "base_url", "key_variable")


class Config:
    """The settings of one home folder; anything not set has its default."""

    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        self.home = home
        self.timezone: str | None = settings.get("timezone")
        self.prices: dict[str, dict[str, float]] = settings.get("prices", {})
        templates = settings.get("templates", {})
        self.max_live_per_category: int = templates.get("max_live_per_category", 5)
        self.hold_out: float = templates.get("hold_out", 0.2)
        self.auto_templates: str = templates.get("auto", "candidates")
        moa = settings.get("moa", {})
        self.save_traces: bool = moa.get("save_traces", False)
        self.trace_folder = Path(moa.get("trace_dir") or home / "moa-traces").expanduser()
        self.presets: dict[str, dict[str, Any]] = moa.get("presets", {})
        jobs = settings.get("jobs", {})
        # what jobs use that name no model of their own
        self.job_model: str | None = jobs.get("model")
        self.job_provider: str | None = jobs.get("provider")
        self.job_base_url: str | None = jobs.get("base_url")
        self.job_key_variable: str | None = jobs.get("key_variable")
        self.max_parallel: int = jobs.get("max_parallel", 4)
        # over all jobs; from `warn_at` of any budget on a run is done, and says so
        self.budget_usd_per_day: float | None = jobs.get("budget_usd_per_day")
        self.warn_at: float = jobs.get("warn_at", 0.8)
        # the context window of jobs' models where a person knows better: no check then
        self.job_context_tokens: int | None = jobs.get("context_tokens")
        # which model a prompt goes to: the first row whose pattern is found in it
        self.job_routes: list[dict[str, str]] = jobs.get("routes", [])

        serve = settings.get("serve", {})
        # what the dashboard asks for, and the names it is reached by beside its own
        self.serve_token: str | None = serve.get("token")
        self.serve_hosts: list[str] = serve.get("hosts", [])

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
    except NotADirectoryError as error:
        raise RelightError(
            f"{home} is no folder", "--home names the folder to keep it in"
        ) from error
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
            case "jobs":
                _check_jobs(value, path)
            case "serve":
                _check_serve(value, path)
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
    hint = (
        "there are max_live_per_category (a number from 0 up), hold_out (a share below 1) and"
        f" auto ({', '.join(AUTO)})"
    )
    for key, value in settings.items() if isinstance(settings, dict) else [("", None)]:
        match key, value:
            case _, bool():
                is_good = False
            case "max_live_per_category", int():
                is_good = value >= 0
            case "hold_out", int() | float():
                is_good = 0 <= value < 1
            case _:
                is_good = key == "auto" and value in AUTO
        if not is_good:
            raise RelightError(f"{path}: [templates] has a bad entry: {key} = {value!r}", hint)


def _check_jobs(settings: object, path: Path) -> None:
    for key, value in settings.items() if isinstance(settings, dict) else [("", None)]:
        is_good = key in JOBS and isinstance(value, JOBS[key]) and not isinstance(value, bool)
        if not is_good or (isinstance(value, int | float) and value <= 0):
            hint = f"[jobs] has {', '.join(JOBS)}; numbers are above 0"
            raise RelightError(f"{path}: [jobs] has a bad entry: {key} = {value!r}", hint)
        for route in value if isinstance(value, list) else ():
            _check_route(route, path)


def _check_route(route: object, path: Path) -> None:
    import re

    fields = route if isinstance(route, dict) else {}
    is_good = {"pattern", "model"} <= set(fields) <= set(ROUTE)
    if not is_good or not all(isinstance(value, str) and value for value in fields.values()):
        hint = f"a route has a pattern and a model, and may have {', '.join(ROUTE[2:])}"
        raise RelightError(f"{path}: [[jobs.routes]] has a bad entry: {route!r}", hint)
    try:
        re.compile(fields["pattern"])
    except re.error as error:
        raise RelightError(
            f"{path}: the route's pattern {fields['pattern']!r} is not one: {error}",
            "it is a regular expression",
        ) from error


def _check_serve(settings: object, path: Path) -> None:
    for key, value in settings.items() if isinstance(settings, dict) else [("", None)]:
        is_names = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not (isinstance(value, str) if key == "token" else key == "hosts" and is_names):
            hint = 'there are token (a secret) and hosts (names such as ["box.lan"])'
            raise RelightError(f"{path}: [serve] has a bad entry: {key}", hint)


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
