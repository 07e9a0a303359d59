"""The settings in `config.toml`, and the folder that Relight keeps its files in."""

import os
import re
from collections.abc import Mapping
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field

from relight.errors import RelightError

PriceKey = Literal[
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "cache_read_usd_per_mtok",
    "cache_write_usd_per_mtok",
]
# whole numbers stay as they are written
Amount = Annotated[int, Meta(ge=0, le=10**6)] | Annotated[float, Meta(ge=0, le=1e6)]
# TOML has `inf`, by which no amount can be divided or multiplied
Positive = Annotated[int, Meta(gt=0, le=10**15)] | Annotated[float, Meta(gt=0, le=1e15)]
Name = Annotated[str, Meta(min_length=1)]
PresetKey = Literal["references", "aggregator", "reference_timeout_seconds"]


class PlanSettings(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`[plans.SOURCE]`: a plan that pays for the source's calls of a provider, between two days."""

    name: str | None = None
    provider: str | None = None
    monthly_usd: Amount | None = None
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.until < self.since:
            raise ValueError(f"until {self.until} is before since {self.since}")

    def covers(self, provider: str | None, day: str | None) -> bool:
        """True if the plan pays for a call; for one of an unknown day only without limits."""
        if self.provider is not None and provider != self.provider:
            return False
        if day is None:
            return self.since is None and self.until is None
        first, until = self.since or date.min, self.until or date.max
        return first.isoformat() <= day <= until.isoformat()

    def is_valid_in(self, month: str) -> bool:
        """True if the plan pays for some day of a month, written as 2026-11."""
        first, until = self.since or date.min, self.until or date.max
        return first.isoformat()[:7] <= month <= until.isoformat()[:7]


class LimitSettings(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`[limits.SOURCE]`: how much of a source a window allows, at list price or in tokens."""

    five_hour_usd: Positive | None = None
    five_hour_tokens: Positive | None = None
    week_usd: Positive | None = None
    week_tokens: Positive | None = None


class TemplateSettings(Struct, forbid_unknown_fields=True):
    """`[templates]`. `auto`: what an import does with good sessions."""

    max_live_per_category: Annotated[int, Meta(ge=0)] = 5
    hold_out: Annotated[int, Meta(ge=0, lt=1)] | Annotated[float, Meta(ge=0, lt=1)] = 0.2
    auto: Literal["candidates", "use", "off"] = "candidates"


class LessonSettings(Struct, forbid_unknown_fields=True):
    """`[lessons]`: whether sessions begin with those of their project, and the share held out."""

    give: bool = True
    hold_out: Annotated[int, Meta(ge=0, lt=1)] | Annotated[float, Meta(ge=0, lt=1)] = 0.2


class MoaSettings(Struct, forbid_unknown_fields=True):
    """`[moa]`. Presets are validated when one is used."""

    save_traces: bool = False
    trace_dir: str | None = None
    # each adviser is muted in this share of sessions, at random, to measure its worth
    mute_share: Annotated[int, Meta(ge=0, lt=1)] | Annotated[float, Meta(ge=0, lt=1)] = 0.0
    presets: dict[str, dict[PresetKey, Any]] = {}


class JobRoute(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`[[jobs.routes]]`: the model for prompts in which the pattern is found."""

    pattern: Name
    model: Name
    provider: Name | None = None
    base_url: Name | None = None
    key_variable: Name | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from error


class JobSettings(Struct, forbid_unknown_fields=True):
    """`[jobs]`: what applies to jobs without a model, and limits over all jobs.

    From `warn_at` of any budget on, a run reports it. With `context_tokens` the context window of
    a model is not checked.
    """

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    budget_usd_per_day: Positive | None = None
    warn_at: Positive = 0.8
    context_tokens: Annotated[int, Meta(gt=0)] | None = None
    max_parallel: Annotated[int, Meta(gt=0)] = 4
    # run jobs of the server that this machine has joined
    for_team: bool = False
    routes: list[JobRoute] = []


class ModelSettings(Struct, forbid_unknown_fields=True):
    """`[models]`. `aliases`: further names of models, and the name that reports use instead."""

    aliases: dict[Name, Name] = {}


class DisplaySettings(Struct, forbid_unknown_fields=True):
    """`[display]`: the currency of texts and pages, and how much of it a dollar is."""

    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "USD"
    rate: Positive | None = None

    def __post_init__(self) -> None:
        if (self.currency == "USD") != (self.rate is None):
            raise ValueError("currency and rate go together")


class ServeSettings(Struct, forbid_unknown_fields=True):
    """`[serve]`: the dashboard's token and further names, and a team's processes that derive."""

    token: str | None = None
    hosts: list[str] = []
    derivers: Annotated[int, Meta(ge=1, le=16)] = 1


class StoreSettings(Struct, forbid_unknown_fields=True):
    """`[store]`: the database of a team's server, and the days after which it is pruned."""

    url: Annotated[str, Meta(pattern="^postgres(ql)?://")] | None = None
    retention_tape_days: Annotated[int, Meta(ge=1)] | None = None
    retention_index_days: Annotated[int, Meta(ge=1)] | None = None

    @property
    def shown(self) -> str | None:
        """The address without its password."""
        from relight.text import show_url

        return show_url(self.url) if self.url else None


class NotifySettings(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`[notify]`: a program, an address or a file that is notified of failed runs."""

    command: Name | None = None
    webhook: Name | None = None
    file: Name | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.command, self.webhook, self.file)) > 1:
            raise ValueError("only one of command, webhook and file can be set")
        if self.webhook is not None and not self.webhook.startswith(("https://", "http://")):
            raise ValueError("webhook must begin with https:// or http://")
        if self.command is not None and not _split(self.command):
            raise ValueError("command must name a program")

    @property
    def to(self) -> str | None:
        """The target as jobs name theirs: `command:…`, `webhook:…` or `file:…`."""
        kinds = {"command": self.command, "webhook": self.webhook, "file": self.file}
        return next((f"{kind}:{one}" for kind, one in kinds.items() if one is not None), None)

    @property
    def shown(self) -> str | None:
        """The target without its secrets: only the program of a command, the host of an address."""
        from relight.text import hide_secrets

        if self.command is not None:
            program, *words = _split(self.command)
            return f"command:{program}{' …' if words else ''}"
        return hide_secrets(self.to) if self.to else None


LEAST_TOOL_CHARS, MAX_TOOL_CHARS = 200, 8000


class Settings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Everything that `config.toml` may hold, with its defaults.

    `auto_import`: reading commands and the dashboard take in what is new by themselves.
    `max_tool_chars`: longer tool results are shortened before a model gets them.
    `local_models_are_free`: calls at addresses of this machine or its network cost nothing.
    """

    timezone: str | None = None
    auto_import: bool = True
    max_tool_chars: Annotated[int, Meta(ge=LEAST_TOOL_CHARS)] = MAX_TOOL_CHARS
    local_models_are_free: bool = False
    prices: dict[str, dict[PriceKey, Amount]] = {}
    plans: dict[str, PlanSettings] = {}
    limits: dict[str, LimitSettings] = {}
    templates: TemplateSettings = field(default_factory=TemplateSettings)
    lessons: LessonSettings = field(default_factory=LessonSettings)
    moa: MoaSettings = field(default_factory=MoaSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    display: DisplaySettings = field(default_factory=DisplaySettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    models: ModelSettings = field(default_factory=ModelSettings)
    store: StoreSettings = field(default_factory=StoreSettings)


class Config(Settings, kw_only=True):
    """The settings of one home folder."""

    home: Path

    @property
    def database(self) -> Path:
        return self.home / "relight.db"

    @property
    def has_store(self) -> bool:
        """True if a store was made, or is on a server."""
        return self.store.url is not None or self.database.exists()

    @property
    def backlog(self) -> Path:
        """The folder of live events that could not be written to the database yet."""
        return self.home / "backlog"

    @property
    def telemetry(self) -> Path:
        """The folder of the spool files: what was received and waits to be read."""
        return self.home / "telemetry"

    @property
    def status_file(self) -> Path:
        """The summary for status lines; imports keep it once one has been used."""
        return self.home / "statusline.json"

    @property
    def trace_folder(self) -> Path:
        if not self.moa.trace_dir:
            return self.home / "moa-traces"
        from relight.locks import expand_path

        return expand_path("moa.trace_dir", self.moa.trace_dir)


# The settings at each place below a table's, as msgspec names it.
_KNOWN = {
    "$": Settings.__struct_fields__,
    "$.jobs.routes[...]": JobRoute.__struct_fields__,
    "$.prices[...]": get_args(PriceKey),
    "$.plans[...]": PlanSettings.__struct_fields__,
    "$.limits[...]": LimitSettings.__struct_fields__,
    "$.moa.presets[...]": get_args(PresetKey),
}
# What a setting must be, where msgspec describes only one of several types.
_EXPECTED = {
    "templates.max_live_per_category": "a whole number, 0 for no limit",
    "templates.auto": "candidates, use or off",
    **dict.fromkeys(("templates.hold_out", "lessons.hold_out"), "a share from 0 to below 1"),
    **dict.fromkeys(("jobs.budget_usd_per_day", "jobs.warn_at"), "a number above 0"),
    **dict.fromkeys(("jobs.context_tokens", "jobs.max_parallel"), "a whole number above 0"),
    "models.aliases": 'a name, as in "my-model-2026" = "my-model"',
    "prices": "dollars per million tokens, from 0 to 1,000,000",
    "display.currency": 'a code of three letters, such as "EUR"',
    "display.rate": "the price of a dollar, above 0",
    "display": 'a currency and the price of a dollar: currency = "EUR", rate = 0.92',
    "limits": "dollars or tokens above 0",
    "store.url": "an address such as postgresql://relight@localhost/relight",
    "plans": "a name, dollars a month, and days as 2026-01-31 with since before until",
}
_PROBLEM = r"(?s)(.*?)(?: - at (?:`key` in )?`(\$[^`]*)`)?"
_UNKNOWN = r"(?s)Object contains unknown field `(.*)`|Invalid enum value '(.*)'"


def _split(command: str) -> list[str]:
    from shlex import split

    return split(command)


def find_home(home: str | Path | None = None) -> Path:
    """Return the folder given, else `RELIGHT_HOME`, else `.relight` in the user's home."""
    named = home or os.environ.get("RELIGHT_HOME")
    return Path(named).expanduser() if named else Path.home() / ".relight"


def read_config(home: Path) -> Config:
    """Return the settings of a home folder; raise for a key or value that Relight does not know."""
    path = home / "config.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config(home=home)
    except NotADirectoryError as error:
        raise RelightError(f"{home} is not a folder", "--home names a folder") from error
    except (OSError, UnicodeDecodeError) as error:
        hint = "check the file's permissions"
        raise RelightError(f"cannot read {path}: {error}", hint) from error
    import tomllib  # most homes have no such file

    try:
        fields = tomllib.loads(text)
        settings = msgspec.convert(fields, Settings)
    except tomllib.TOMLDecodeError as error:
        raise RelightError(f"{path} is not valid TOML: {error}", "fix the line it names") from error
    except RecursionError:
        reason = "its brackets are nested too deeply"
        raise RelightError(f"{path} is not valid: {reason}", "close what is left open") from None
    except msgspec.ValidationError as error:
        raise _explain(path, fields, str(error)) from error
    if settings.timezone is not None:
        from relight.times import check_timezone

        check_timezone(settings.timezone, f"{path}: ")
    return Config(home=home, **msgspec.structs.asdict(settings))


def _explain(path: Path, fields: Mapping[str, Any], problem: str) -> RelightError:
    """The error for an unknown setting, with the nearest known one, or for a bad value."""
    from difflib import get_close_matches

    found = re.fullmatch(_PROBLEM, problem)
    reason, place = (found[1], found[2] or "$") if found else (problem, "$")
    shown = place.removeprefix("$").removeprefix(".")
    table = shown.partition("[")[0]
    value: Any = fields
    for key in table.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if "[...]" in shown:
        shown, value = _find_entry(table, value)
    tables = {f"$.{one.name}": one.type for one in msgspec.structs.fields(Settings)}
    known = getattr(tables.get(place), "__struct_fields__", None)
    known = known or _KNOWN.get(re.sub(r"\[\d+\]", "[...]", place))
    if known and (unknown := re.fullmatch(_UNKNOWN, reason)):
        name = unknown[1] or unknown[2]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        full = shown if "[...]" in place else f"{shown}.{name}".lstrip(".")
        message = f"{path} has an unknown setting: {full}"
        return RelightError(message, f"{hint}the settings here are {', '.join(known)}")
    # a token, the address of a webhook and the password of a database are secrets
    has_value = value is not None and not shown.startswith(("serve", "notify", "store"))
    message = f"{path}: {shown}{f' = {value!r}' if has_value else ''} is not valid"
    if expected := _EXPECTED.get(table):
        return RelightError(message, f"it must be {expected}")
    return RelightError(f"{message}: {reason}", "see `relight config --help` for the settings")


def _find_entry(table: str, entries: Mapping[str, Any]) -> tuple[str, Any]:
    """The entry of a table that is not valid, and its value: msgspec names only the table."""
    for name, entry in entries.items():
        if not _is_valid(table, {name: entry}):
            for key, value in entry.items() if isinstance(entry, dict) else ():
                if not _is_valid(table, {name: {key: value}}):
                    return f'{table}."{name}".{key}', value
            return f'{table}."{name}"', entry
    return table, None


def _is_valid(table: str, entries: Mapping[str, Any]) -> bool:
    fields = reduce(lambda inner, parent: {parent: inner}, reversed(table.split(".")), entries)
    try:
        msgspec.convert(fields, Settings)
    except msgspec.ValidationError:
        return False
    return True
