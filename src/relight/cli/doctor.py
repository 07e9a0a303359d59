import click

from relight.cli.options import current_store, json_option, print_json, relight_command


@relight_command("doctor", example="relight doctor --json")
@json_option
def command(as_json: bool) -> None:
    """Check the agents found, unreadable files, missing prices and the database.

    Exits with 1 if the database is damaged.
    """
    from relight.reports.doctor import examine

    with current_store() as store:
        found = examine(store)
    if as_json:
        print_json(found)
    else:
        _print(found)
    if not found["ok"]:
        raise click.exceptions.Exit(1)


def _print(found: dict[str, object]) -> None:
    from typing import Any, cast

    from relight.cli import screen

    told = cast(dict[str, Any], found)
    database = told["database"]
    screen.print_text(
        f"home {told['home']} · database {screen.size(database['bytes'])}, schema"
        f" {database['schema']}, integrity {database['integrity']} · days in {told['timezone']}"
    )
    columns = [screen.Column("source", is_number=False), screen.Column("files")]
    columns += [screen.Column("sessions"), screen.Column("folder", is_number=False)]
    rows = [
        [
            source["source"],
            screen.count(source["files"]),
            screen.count(source["sessions"]),
            source["folder"] + ("" if source["found"] else " (not found)")
            if source["folder"]
            else "named with --from",
        ]
        for source in told["sources"]
    ]
    screen.print_table(columns, rows)
    for bad in told["unreadable"]["recent"]:
        screen.print_text(f"unreadable: {bad['file']} at byte {bad['offset']}: {bad['reason']}")
    for line in told["advice"] or ["all is well"]:
        screen.print_text(f"→ {line}")
