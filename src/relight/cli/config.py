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
        },
    }
    if as_json:
        print_json(known)
        return
    click.echo(f"home: {home}")
    click.echo(f"settings: {path if path.exists() else f'none ({path} is not there)'}")
    click.echo(f"timezone: {config.timezone or 'that of this machine when the store was made'}")
    live = config.max_live_per_category or "any number of"
    click.echo(f"templates: {live} live per project and category, {config.hold_out:.0%} held out")
    for model, rates in config.prices.items():
        told = ", ".join(f"{name} {value}" for name, value in rates.items())
        click.echo(f"price of {model}: {told}")


command.help = f"Show the settings and where they come from.\n\n{SETTINGS}"
