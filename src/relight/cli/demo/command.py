import shlex
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from relight.cli.options import relight_command
from relight.errors import RelightError, as_typed, name_home
from relight.store import open_store


@relight_command("demo", example="relight demo --serve")
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Make it there.")
@click.option("--serve", "is_served", is_flag=True, help="Then serve the dashboard on it.")
def command(keep: Path | None, is_served: bool) -> None:
    """Try Relight on invented sessions.

    Writes a month of invented Claude Code, Codex and Hermes sessions into a new folder, imports
    and reports them. Your own record is not changed.
    """
    from relight.cli.demo import write_demo
    from relight.cli.demo.own_records import record_facts, write_settings
    from relight.cli.importing import summarise
    from relight.cli.report import print_report
    from relight.reports.filters import read_filter
    from relight.reports.totals import report
    from relight.warm.automatic import import_and_propose

    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise RelightError(f"{keep} is not an empty folder", "name a new folder")
    folder = keep.absolute() if keep else Path(tempfile.mkdtemp(prefix="relight-demo-"))
    now = datetime.now(UTC)
    environment = write_demo(folder / "agents", now=now)
    home = folder / "relight"
    write_settings(home)
    name_home(home)
    click.get_current_context().call_on_close(name_home)
    with open_store(home) as store:
        started = datetime.now(UTC)
        done = import_and_propose(store, environment=environment)
        click.echo(summarise(done, (datetime.now(UTC) - started).total_seconds()))
        record_facts(store, now=now)
        print_report(report(store, ("day",), read_filter(store, now=now)))
    click.echo(f"The demo is in {folder}. Look around with:")
    for words in ("report --by model,project", "failures", "serve"):
        click.echo(as_typed(f"  relight {words}"))
    click.echo("or with any command in this shell, after:")
    click.echo(f"  export RELIGHT_HOME={shlex.quote(str(home))}")
    if is_served:
        from relight.cli.serve import serve

        serve(home, host="127.0.0.1", port=0, token=None)
