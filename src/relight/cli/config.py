import click
from msgspec.structs import asdict, replace

from relight.cli.options import (
    current_home,
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
)
from relight.config import Config, PlanSettings, find_home, read_config
from relight.errors import RelightError, as_typed
from relight.text import dollars
from relight.times import check_timezone

SETTINGS = """Settings in config.toml:

\b
timezone = "Europe/Berlin"     # of a new store; `config timezone` changes it
auto_import = true             # commands that read take in what is new
max_tool_chars = 8000          # longer tool results are shortened
local_models_are_free = true   # those in your own network; default: false
[prices."my-model"]            # dollars per million tokens; overrides lists
input_usd_per_mtok = 0.5       # and output_…, cache_read_…, cache_write_…
[plans.SOURCE]                 # a plan pays for the calls of this source
since = 2026-01-01             # and until; the days that it is valid
name = "max"                   # and monthly_usd, provider
[limits.SOURCE]                # what a window allows, if not reported
five_hour_usd = 35             # or …_tokens; week_usd, week_tokens
[models.aliases]               # names of one model, which reports group
"my-model-v7" = "my-model"
[templates]
max_live_per_category = 5      # per project and category; 0: any number
hold_out = 0.2                 # the share of sessions that start cold
auto = "candidates"            # or "use", or "off": what imports create
[lessons]
give = true                    # sessions begin with those of their project
hold_out = 0.2                 # the share of sessions that begin without
[moa]
save_traces = true             # record every turn of a mixture
trace_dir = "~/traces"         # may name $VARIABLES; default: moa-traces/
mute_share = 0.2               # of sessions in which an adviser is muted
[moa.presets.review]           # a mixture with this name
references = [{ model = "a" }] # and base_url, key_variable, temperature
aggregator = { model = "b" }   # the model that acts
reference_timeout_seconds = 60
[jobs]
model = "gpt-5.1"              # and base_url, key_variable, provider
budget_usd_per_day = 5.0       # of all jobs; then runs are refused
warn_at = 0.8                  # the share of a budget at which runs warn
context_tokens = 131072        # of jobs' models, if they differ
max_parallel = 4               # runs of one scheduler at a time
for_team = false               # run jobs of the server it has joined
[[jobs.routes]]                # the first that matches a job's prompt
pattern = "(?i)summar"
model = "small-model"          # and base_url, key_variable, provider
[notify]                       # once for each failed run of any job
command = "~/notify"           # or webhook = "https://…", or file = "…"
[display]                      # texts and pages; JSON stays in dollars
currency = "EUR"
rate = 0.92                    # what a dollar costs
[serve]
token = "…"                    # that the dashboard requires
hosts = ["box.lan"]            # further names of the server
derivers = 2                   # processes that derive what is pushed
[store]                        # of a team's server, not of a laptop
url = "postgresql://…"         # needs relight[postgres]; then `migrate`
retention_tape_days = 90       # pruned by a team's server once a day
retention_index_days = 730
"""


# settings without secrets, which `--json` prints as they are
SHOWN = (
    *("auto_import", "max_tool_chars", "local_models_are_free", "prices", "plans", "limits"),
    *("templates", "lessons", "jobs", "display", "models"),
)


@relight_group("config", example="relight config timezone Europe/Berlin", alone="show")
def command() -> None:
    pass


@relight_command("show", example="relight config --json")
@json_option
def show(as_json: bool) -> None:
    """Show the settings and where they come from."""
    from relight.reports.plan_worth import find_unknown_plans

    home = find_home(current_home())
    config = read_config(home)
    path = home / "config.toml"
    zone = _find_timezone(config)
    for note in find_unknown_plans(config.plans, config.limits):
        click.echo(f"warning: {note}", err=True)
    if as_json:
        print_json(
            {
                "home": str(home),
                "file": str(path) if path.exists() else None,
                "timezone": zone,
                "timezone_setting": config.timezone,
                **{name: getattr(config, name) for name in SHOWN},
                "moa": replace(config.moa, trace_dir=str(config.trace_folder)),
                "serve": {"has_token": bool(config.serve.token), "hosts": config.serve.hosts},
                "notify": {"to": config.notify.shown},
                "store": asdict(config.store) | {"url": config.store.shown},
            }
        )
        return
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
    from relight.store import open_reader
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


@relight_command("timezone", example="relight config timezone Europe/Berlin")
@click.argument("zone", required=False)
@json_option
def timezone(zone: str | None, as_json: bool) -> None:
    """Show or change the time zone of the store's days.

    ZONE is a name such as Europe/Berlin. The days of everything recorded are derived again, and
    jobs without their own time zone use the new one.
    """
    import time

    from relight.store.keep.timezone import change_timezone
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
    if as_json:
        print_json({"timezone": after, "before": before, "jobs": moved})
    elif after == before:
        click.echo(f"days are in {after}")
    else:
        click.echo(f"days are in {after} now; before they were in {before}")
        if moved:
            click.echo(f"jobs that go by it: {', '.join(moved)}")
        click.echo(as_typed("start `relight serve` and `relight scheduler` again if they run"))


command.add_command(show)
command.add_command(timezone)


def _describe_plan(plan: PlanSettings) -> str:
    parts = [plan.name or "unnamed"]
    if plan.monthly_usd is not None:
        parts.append(f"{dollars(plan.monthly_usd, digits=2)} a month")
    parts += [f"for calls of {plan.provider}"] if plan.provider else []
    parts += [f"from {plan.since}"] if plan.since else []
    parts += [f"until {plan.until}"] if plan.until else []
    return ", ".join(parts)


command.help = f"Show the settings and where they come from.\n\n{SETTINGS}"
