import time
from pathlib import Path

import click

from relight.cli.options import Answer, current_store, relight_group


@relight_group("history", example="relight history export ~/relight-history")
def command() -> None:
    """Keep the figures of closed months as Parquet files.

    They need DuckDB: pip install 'relight[history]'.
    """


@command.plain("export", example="relight history export ~/relight-history")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def export(folder: Path) -> Answer:
    """Write the months that are over into DIR; a month that has not changed stays as it is.

    `relight report --history DIR` reads them. Sessions that were pruned stay in them, sessions that
    were forgotten leave them with the next export.
    """
    from relight.store.history_export import export_history
    from relight.text import plural, size

    with current_store() as store:
        done = export_history(store, folder, now=time.time())
    yield done
    wrote = f"wrote {', '.join(done.written)}" if done.written else "no month has changed"
    kept = plural(len(done.unchanged), "month") + " unchanged"
    click.echo(f"{wrote}; {kept} ({size(done.bytes)} in {done.folder})")
    for month in done.damaged:
        note = f"warning: the files of {month} could not be read: they have what the store has now"
        click.echo(note, err=True)
