"""Write the pages that the program itself knows best, and the picture of its report.

python docs/generate.py [--check | --picture]
"""

import inspect
import io
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

import relight as package
from relight.cli import COMMANDS, relight
from relight.cli.demo import write_demo
from relight.data import DECODED, decode_table
from relight.intake.importing import import_all
from relight.store import open_store
from relight.store.keep.migrate import WHOLE, WHOLE_HEAD, migrate
from relight.web.glossary import read_terms
from relight.web.openapi import build_document, format_document
from relight.web.routes import DOCUMENT

sys.path.insert(0, str(Path(__file__).parent.parent))
from docs.price_lists import write_lists

FOLDER = Path(__file__).parent / "reference"
PRICE_LISTS = Path(package.__file__).parent / "data" / "price_lists.json"
PICTURED = datetime(2026, 11, 15, 18, tzinfo=UTC)
HEAD = "<!-- Written by `./dev docs`; do not edit. -->\n"
# the parts of the Python page, and an example of every public name
EXAMPLES = Path(__file__).parent / "python.toml"
_WIDTH = 100
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])|~")
_QUOTED = re.compile(r"(: |-> )'([^']*)'")  # a type that is loaded later
_OPTIONAL = re.compile(r"Optional\[(\w+)\]")
_FUNCTION = re.compile(r"<(?:built-in )?function (\w+)[^>]*>")


def files() -> dict[Path, str]:
    """Every generated file by its path."""
    return {
        FOLDER / "commands.md": commands_page(),
        FOLDER / "database.md": database_page(),
        FOLDER / "api.md": api_page(),
        FOLDER / "glossary.md": glossary_page(),
        FOLDER / "python.md": python_page(),
        DOCUMENT: format_document(),
        PRICE_LISTS: write_lists(),
        WHOLE: schema_script(),
        DECODED: write_tables(),
    }


def commands_page() -> str:
    parts = [HEAD, "# Commands\n", describe(relight, "relight")]
    context = click.Context(relight, info_name="relight")
    for name in COMMANDS:
        command = relight.get_command(context, name)
        assert command is not None
        parts.append(describe(command, f"relight {name}"))
    return "\n".join(parts)


def describe(command: click.Command, name: str) -> str:
    """A command's help as it is printed, and its sub-commands' after it."""
    context = click.Context(command, info_name=name, max_content_width=90, terminal_width=90)
    text = f"## {name}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group) and command is not relight:
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            text += "\n" + describe(found, f"{name} {sub}").replace("## ", "### ", 1)
    return text


def schema_script() -> str:
    """The schema that all migrations lead to, in one script; search indexes with their settings."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, timezone="UTC", by_steps=True)
    (version,) = connection.execute("pragma user_version").fetchone()
    rows = connection.execute(
        "select name, sql from sqlite_master where sql is not null and name not like 'sqlite_%'"
        # SQLite writes the tables below a search index itself, in quotes
        " and sql not like 'create table ''%' order by rowid"
    ).fetchall()
    parts = [WHOLE_HEAD.format(version)]
    for name, sql in rows:
        parts.append(f"{sql};\n")
        if sql.lower().startswith("create virtual table"):
            settings = f"select k, v from {name}_config where k <> 'version'"
            parts += [
                f"insert into {name} ({name}, rank) values ('{key}', {value});\n"
                for key, value in connection.execute(settings)
            ]
    connection.close()
    return "".join(parts)


def write_tables() -> str:
    """All tables that people edit as JSON, each on a line."""
    encode = msgspec.json.encode
    rows = [
        f"{encode(path.name).decode()}:{encode(decode_table(path.read_bytes())).decode()}"
        for path in sorted(DECODED.parent.glob("*.toml"))
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def database_page() -> str:
    """The tables as a fresh store has them, in the order of the schema, with its comments."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, timezone="UTC", by_steps=True)
    (version,) = connection.execute("pragma user_version").fetchone()
    rows = connection.execute(
        "select sql from sqlite_master where sql is not null and name not like 'sqlite_%'"
        # what a search index keeps below itself is its own business
        " and name not like 'listing_words_%'"
        " order by rowid"
    ).fetchall()
    connection.close()
    statements = "\n\n".join(f"{sql};" for (sql,) in rows)
    return (
        f"{HEAD}\n# Database\n\nSchema {version} of `relight.db`. Columns ending in `_at` are Unix"
        " milliseconds in UTC, `day` is a calendar day in the store's time zone, `_nanos` are"
        " billionths of a dollar. Reading it with other programs is welcome; writing is not.\n\n"
        f"```sql\n{statements}\n```\n"
    )


def api_page() -> str:
    """The addresses of the dashboard's API, from its OpenAPI document."""
    document = build_document()
    parts = [HEAD, "# API\n", document["info"]["description"] + "\n"]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            parts.append(f"## `{method.upper()} {path}`\n\n{one['summary']}")
            if "description" in one:
                parts[-1] += f" {one['description']}"
            given = one.get("parameters", ())
            rows = [describe_parameter(each) for each in given if each["in"] == "query"]
            if sent := one.get("requestBody"):
                (content,) = sent["content"].values()
                name = content["schema"]["$ref"].rpartition("/")[2]
                fields = document["components"]["schemas"][name]["properties"]
                rows += [f"- `{field}` (sent)" for field in fields]
            parts[-1] += "\n\n" + "\n".join(rows) + "\n" if rows else "\n"
    return "\n".join(parts)


def glossary_page() -> str:
    """The words of Relight, which the dashboard shows too."""
    rows = "".join(f"| **{term.name}** | {term.text} |\n" for term in read_terms())
    return f"{HEAD}\n# Glossary\n\n| word | meaning |\n|---|---|\n{rows}"


def python_page() -> str:
    """The public names: signatures and sentences from the code, examples from `EXAMPLES`."""
    table = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))
    parts = [HEAD, "# Python\n", table["intro"].lstrip()]
    for part in table["parts"]:
        parts.append(f"## {part['title']}\n\n{part['text']}\n")
        for example in part["examples"]:
            parts += [describe_name(name) for name in example["names"]]
            parts.append(f"```python\n{example['code'].strip()}\n```\n")
    return "\n".join(parts)


def describe_name(name: str) -> str:
    """A public name: its signature, its sentences, and the fields of what it returns."""
    value = getattr(package, name)
    sentences = (inspect.getdoc(value) or "").partition(">>>")[0].strip()
    text = f"### {name}\n\n```python\n{write_signature(name, value)}\n```\n\n{sentences}\n"
    if inspect.isclass(value):
        return text + describe_methods(value)
    for kind in find_structs(inspect.signature(value).return_annotation):
        fields = ", ".join(f"`{one.name}`" for one in msgspec.structs.fields(kind))
        text += f"\n`{kind.__name__}` has {fields}.\n"
    return text


def write_signature(name: str, value: Any) -> str:
    """The call as it is written, without names of modules; a long one has a line a parameter."""
    is_value = inspect.isclass(value) and issubclass(value, msgspec.Struct)
    signature = list_fields(value) if is_value else str(inspect.signature(value))
    signature = _MODULE.sub("", _FUNCTION.sub(r"\1", signature))
    signature = _QUOTED.sub(r"\1\2", _OPTIONAL.sub(r"\1 | None", signature))
    text = f"{name}{signature}".removesuffix(" -> None")
    if len(text) <= _WIDTH:
        return text
    inside, _, after = text[len(name) + 1 :].rpartition(")")
    return f"{name}(\n" + "".join(f"    {one},\n" for one in split_commas(inside)) + f"){after}"


def list_fields(kind: type[msgspec.Struct]) -> str:
    """The fields of a Struct as its signature; msgspec's own needs every type at run time."""
    types: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        types |= vars(one).get("__annotations__", {})
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], map(repr, defaults), strict=True))
    fields = (
        f"{name}: {inspect.formatannotation(types[name])}"
        + (f" = {given[name]}" if name in given and given[name] != "NODEFAULT" else "")
        for name in names
    )
    return f"({', '.join(fields)})"


def split_commas(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth, start = 0, 0
    for at, sign in enumerate(f"{text},"):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            yield text[start:at].strip()
            start = at + 1


def find_structs(annotation: Any) -> list[type[msgspec.Struct]]:
    """The Structs of our own in a type, such as the rows of a list."""
    if inspect.isclass(annotation) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [one for part in get_args(annotation) for one in find_structs(part)]


def describe_methods(kind: type) -> str:
    """The public methods of a class that is no plain value, with the first line of each."""
    if issubclass(kind, msgspec.Struct | Exception):
        return ""
    rows = []
    for name, value in vars(kind).items():
        is_inner = name.startswith("_") or name == "renew"  # which forks call
        if is_inner or not inspect.isfunction(value) or not value.__doc__:
            continue
        names = ", ".join(list(inspect.signature(value).parameters)[1:])
        rows.append(f"- `{name}({names})`: {value.__doc__.splitlines()[0]}\n")
    return "\n" + "".join(rows) if rows else ""


def describe_parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    words = [parameter["description"]] if "description" in parameter else []
    if "enum" in schema:
        words.append(f"One of {', '.join(schema['enum'])}.")
    if "maximum" in schema:
        words.append(f"At most {schema['maximum']:,}.")
    if "default" in schema:
        default = schema["default"]
        words.append(f"Default: {','.join(default) if isinstance(default, list) else default}.")
    return f"- `{parameter['name']}` {' '.join(words)}".rstrip()


def write_picture() -> None:
    """The report of the demo as a picture, drawn from what the terminal would show."""
    from rich.console import Console
    from rich.text import Text

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "relight"
        with open_store(home) as store:
            import_all(store, environment=write_demo(Path(folder) / "agents", now=PICTURED))
        # hints name a home that was given, and the command as it was typed
        names = {"RELIGHT_HOME": str(home), "RELIGHT_COMMAND": "relight"}
        environment = {**os.environ, **names, "FORCE_COLOR": "1", "COLUMNS": "80", "TZ": "UTC"}
        command = [sys.executable, "-m", "relight", "report"]
        days = ["--since", "2026-11-02", "--until", "2026-11-15"]
        shown = subprocess.run(
            [*command, *days], env=environment, capture_output=True, text=True, check=True
        ).stdout
    console = Console(record=True, width=84, file=io.StringIO())
    console.print(Text("$ relight report --since 14d", style="dim"))
    console.print(Text.from_ansi(shown))
    picture = console.export_svg(title="relight report", unique_id="relight")
    # a viewer's own fonts will do: nothing is to be fetched
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (FOLDER.parent / "images").mkdir(exist_ok=True)
    (FOLDER.parent / "images" / "report.svg").write_text(picture, encoding="utf-8")


def main() -> int:
    if "--picture" in sys.argv:
        write_picture()
    stale = []
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        click.echo(f"stale: {', '.join(stale)}; run ./dev docs", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
