from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.cli.options import Answer, current_home, current_store, relight_group
from relight.config import (
    Amount,
    Config,
    DisplaySettings,
    JobSettings,
    LessonSettings,
    LimitSettings,
    MoaSettings,
    ModelSettings,
    PlanSettings,
    PriceKey,
    StoreSettings,
    TemplateSettings,
    find_home,
    read_config,
)
from relight.errors import RelightError, as_typed
from relight.store import open_reader
from relight.text import dollars
from relight.times import check_timezone

EXAMPLE = Path(__file__).with_name("settings.toml").read_text("utf-8")
SETTINGS = f"Settings in config.toml:\n\n\b\n{EXAMPLE}"


class ShownServer(Struct, frozen=True):
    """`[serve]` without its token."""

    has_token: bool
    hosts: list[str]


class ShownTarget(Struct, frozen=True):
    """`[notify]` without its secrets."""

    to: str | None


class ShownSettings(Struct, frozen=True, kw_only=True):
    """The settings without secrets, and where they come from."""

    home: str
    file: str | None
    timezone: str | None
    timezone_setting: str | None
    auto_import: bool
    max_tool_chars: int
    local_models_are_free: bool
    prices: dict[str, dict[PriceKey, Amount]]
    plans: dict[str, PlanSettings]
    limits: dict[str, LimitSettings]
    templates: TemplateSettings
    lessons: LessonSettings
    jobs: JobSettings
    display: DisplaySettings
    models: ModelSettings
    moa: MoaSettings
    serve: ShownServer
    notify: ShownTarget
    store: StoreSettings


@relight_group("config", example="relight config timezone Europe/Berlin", alone="show")
def command() -> None:
    pass


@command.plain("show", example="relight config --json")
def show() -> Answer:
    """Show the settings and where they come from."""
    from relight.reports.plan_worth import find_unknown_plans

    home = find_home(current_home())
    config = read_config(home)
    path = home / "config.toml"
    zone = _find_timezone(config)
    for note in find_unknown_plans(config.plans, config.limits):
        click.echo(f"warning: {note}", err=True)
    shown: dict[str, Any] = {
        name: getattr(config, name, None) for name in ShownSettings.__struct_fields__
    }
    shown |= {
        "home": str(home),
        "file": str(path) if path.exists() else None,
        "timezone": zone,
        "timezone_setting": config.timezone,
        "moa": replace(config.moa, trace_dir=str(config.trace_folder)),
        "serve": ShownServer(bool(config.serve.token), config.serve.hosts),
        "notify": ShownTarget(config.notify.shown),
        "store": replace(config.store, url=config.store.shown),
    }
    yield ShownSettings(**shown)
    click.echo(f"home: {home}")
    click.echo(f"settings: {path if path.exists() else f'none ({path} does not exist)'}")
    click.echo(f"timezone: {_describe_timezone(config, zone)}")
    if not config.auto_import:
        click.echo(as_typed("import: only by `relight import`"))
    live = config.templates.max_live_per_category or "any number of"
    click.echo(
        f"templates: {live} live per project and category, {config.templates.hold_out:.0%} held out"
    )
    held = f"given, {config.lessons.hold_out:.0%} held out" if config.lessons.give else "not given"
    click.echo(f"lessons: {held}")
    saved = f"saved in {config.trace_folder}" if config.moa.save_traces else "not saved"
    click.echo(f"moa: {', '.join(config.moa.presets) or 'no presets'}, traces {saved}")
    limit = config.jobs.budget_usd_per_day
    click.echo(
        f"jobs: {config.jobs.model or 'every job names its model'},"
        f" {'any cost' if limit is None else dollars(limit, digits=2)} a day"
    )
    if config.store.shown:
        click.echo(f"store: {config.store.shown}")
    if config.notify.shown:
        click.echo(f"notify: {config.notify.shown}")
    if config.display.rate is not None:
        click.echo(f"display: {config.display.currency}, {config.display.rate:g} a dollar")
    if config.local_models_are_free:
        click.echo("local models: free")
    for model, rates in config.prices.items():
        listed = ", ".join(f"{name} {value}" for name, value in rates.items())
        click.echo(f"price of {model}: {listed}")
    for source, plan in config.plans.items():
        click.echo(f"plan of {source}: {_describe_plan(plan)}")
    for source, sizes in config.limits.items():
        listed = ", ".join(f"{name} {value:g}" for name, value in asdict(sizes).items() if value)
        click.echo(f"limits of {source}: {listed}")
    if config.plans or config.prices or config.local_models_are_free:
        click.echo(as_typed("earlier sessions keep their costs until `relight rebuild --prices`"))


def _find_timezone(config: Config) -> str | None:
    """Return the time zone of the store's days; without a store, that of one made now.

    None if the database cannot be read: settings are shown all the same.
    """
    from relight.store.keep.migrate import local_timezone

    if not config.has_store:
        return config.timezone or local_timezone()
    try:
        with open_reader(config) as store:
            return store.timezone
    except RelightError:
        return None


def _describe_timezone(config: Config, zone: str | None) -> str:
    if zone is None:
        return "unknown: the database cannot be read"
    if config.timezone in (None, zone):
        return zone
    apply = as_typed(f"`relight config timezone {config.timezone}` applies it")
    return f"{zone} (the setting {config.timezone} is for a new store: {apply})"


@command.plain("timezone", example="relight config timezone Europe/Berlin")
@click.argument("zone", required=False)
def timezone(zone: str | None) -> Answer:
    """Show or change the time zone of the store's days.

    ZONE is a name such as Europe/Berlin. The days of everything recorded are derived again, and
    jobs without their own time zone use the new one.
    """
    import time

    from relight.store.keep.timezone import TimezoneChange, change_timezone
    from relight.work.jobs.registry import plan_again

    if zone is not None:
        check_timezone(zone)
    moved: list[str] = []
    with current_store() as store:
        before = store.timezone
        if zone is not None and zone != before:
            change_timezone(store, zone)
            moved = plan_again(store, now=int(time.time() * 1000))
        after = store.timezone
    yield TimezoneChange(after, before, moved)
    if after == before:
        click.echo(f"days are in {after}")
    else:
        click.echo(f"days are in {after} now; before they were in {before}")
        if moved:
            click.echo(f"jobs that go by it: {', '.join(moved)}")
        click.echo(as_typed("start `relight serve` and `relight scheduler` again if they run"))


def _describe_plan(plan: PlanSettings) -> str:
    parts = [plan.name or "unnamed"]
    if plan.monthly_usd is not None:
        parts.append(f"{dollars(plan.monthly_usd, digits=2)} a month")
    parts += [f"for calls of {plan.provider}"] if plan.provider else []
    parts += [f"from {plan.since}"] if plan.since else []
    parts += [f"until {plan.until}"] if plan.until else []
    return ", ".join(parts)


command.help = f"Show the settings and where they come from.\n\n{SETTINGS}"
