import click

from relight.cli.options import current_home, json_option, print_json, relight_command
from relight.config import find_home, read_config

SETTINGS = """Settings that config.toml may hold:

\b
timezone = "Europe/Berlin"      # whose days are counted; fixed when the store is made
[prices."my-model"]             # dollars per million tokens, before any price list
input_usd_per_mtok = 0.5        # and output_…, cache_read_…, cache_write_…
[templates]
max_live_per_category = 5       # in use, per project and category; 0: no limit
hold_out = 0.2                  # the share of sessions that starts cold, to compare with
auto = "candidates"             # what imports make of good sessions; or "use", or "off"
[jobs]
model = "gpt-5.1"               # of jobs that name none; and base_url, key_variable, provider
budget_usd_per_day = 5.0        # of all jobs together; beyond it runs are refused
warn_at = 0.8                   # the part of any budget from which on runs say so
context_tokens = 131072         # the window of jobs' models, where you know better
max_parallel = 4                # runs of one scheduler at a time
[[jobs.routes]]                 # the first whose pattern is in a job's prompt chooses its model
pattern = "(?i)summar"
model = "small-model"           # and base_url, key_variable, provider
[serve]
token = "…"                     # what the dashboard asks for; needed to serve other machines
hosts = ["box.lan"]             # names that it is reached by, beside this machine's own
"""


@relight_command("config", example="relight config --json")
@json_option
def command(as_json: bool) -> None:
    home = find_home(current_home())
    config = read_config(home)
    path = home / "config.toml"
    known = {
        "home": str(home),
        "file": str(path) if path.exists() else None,
        "timezone": config.timezone,
        "prices": config.prices,
        "templates": {
            "max_live_per_category": config.max_live_per_category,
            "hold_out": config.hold_out,
            "auto": config.auto_templates,
        },
        "jobs": {
            "model": config.job_model,
            "provider": config.job_provider,
            "base_url": config.job_base_url,
            "key_variable": config.job_key_variable,
            "budget_usd_per_day": config.budget_usd_per_day,
            "warn_at": config.warn_at,
            "context_tokens": config.job_context_tokens,
            "max_parallel": config.max_parallel,
            "routes": config.job_routes,
        },
        # the token is a secret, so only whether there is one
        "serve": {"has_token": bool(config.serve_token), "hosts": config.serve_hosts},
    }
    if as_json:
        print_json(known)
        return
    click.echo(f"home: {home}")
    click.echo(f"settings: {path if path.exists() else f'none ({path} is not there)'}")
    click.echo(f"timezone: {config.timezone or 'that of this machine when the store was made'}")
    live = config.max_live_per_category or "any number of"
    click.echo(f"templates: {live} live per project and category, {config.hold_out:.0%} held out")
    limit = config.budget_usd_per_day
    click.echo(
        f"jobs: {config.job_model or 'each names its model'},"
        f" {'any cost' if limit is None else f'${limit:g}'} a day"
    )
    for model, rates in config.prices.items():
        told = ", ".join(f"{name} {value}" for name, value in rates.items())
        click.echo(f"price of {model}: {told}")


command.help = f"Show the settings and where they come from.\n\n{SETTINGS}"
