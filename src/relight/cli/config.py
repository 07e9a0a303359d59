import click

from relight.cli.options import current_home, json_option, print_json, relight_command
from relight.config import find_home, read_config

SETTINGS = """Settings that config.toml may hold:

\b
timezone = "Europe/Berlin"      # whose days are counted; fixed when the store is made
[prices."my-model"]             # dollars per million tokens, before any price list
input_usd_per_mtok = 0.5        # and output_…, cache_read_…, cache_write_…
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
    }
    if as_json:
        print_json(known)
        return
    click.echo(f"home: {home}")
    click.echo(f"settings: {path if path.exists() else f'none ({path} is not there)'}")
    click.echo(f"timezone: {config.timezone or 'that of this machine when the store was made'}")
    for model, rates in config.prices.items():
        told = ", ".join(f"{name} {value}" for name, value in rates.items())
        click.echo(f"price of {model}: {told}")


command.help = f"Show the settings and where they come from.\n\n{SETTINGS}"
