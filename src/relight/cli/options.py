"""Options, store and formats of output that all commands share."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from relight.errors import ParameterError, RelightError, as_typed, name_home
from relight.store import Store, open_store

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch
    from relight.store.queries.filters import Filter

Function = Callable[..., Any]
SETTINGS = {"help_option_names": ["-h", "--help"]}
# the key of a context's `meta` that is set if no new records are to be read, or none any more
NO_IMPORT = "relight.no_import"


class TypedFilter(Struct, frozen=True, kw_only=True):
    """The options by which a command chooses a part of the record, as typed."""

    since: str
    until: str | None
    source: str | None
    project: str | None
    model: str | None
    machine: str | None
    person: str | None

    def read(self, store: Store, *, job: str | None = None) -> "Filter":
        """Return the filter for reports; raise if an option cannot be understood."""
        from relight.reports.filters import read_filter

        return read_filter(
            store,
            since=self.since,
            until=self.until,
            source=self.source,
            project=name_project(self.project),
            model=self.model,
            job=job,
            machine=self.machine,
            person=self.person,
        )


class _Command(click.Command):
    """A command whose errors name options as typed, not as Python parameters."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            message = error.message
            for name in error.names:
                message = re.sub(rf"(?<!-)\b{name}\b", name_option(self, name), message, count=1)
            raise RelightError(message, error.hint) from error

    def get_help(self, ctx: click.Context) -> str:
        return as_typed(super().get_help(ctx))


class _Group(click.Group):
    """A group that runs one of its commands, usually its list, if none is named."""

    alone = "list"
    # commands that are imported when they are used, and their modules
    more: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self.more})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.more and cmd_name not in self.commands:
            module = import_module(f"relight.cli.{self.more[cmd_name]}")
            self.add_command(getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [
            word
            for before, word in zip(["", *args], args, strict=False)
            if not word.startswith("-") and before != "--home"
        ]
        is_helped = bool({"-h", "--help"} & set(args))
        if not words and not is_helped and not ctx.resilient_parsing:
            # a group without a list shows its commands
            args = [self.alone if self.alone in self.list_commands(ctx) else "--help", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole first sentence of each command; click would cut it to one line."""
        made = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(300)) for name, one in made if one])

    def get_help(self, ctx: click.Context) -> str:
        return as_typed(super().get_help(ctx))


class _ReadingCommand(_Command):
    """A command whose `current_store()` first takes in what is new."""


def name_option(command: click.Command, name: str) -> str:
    """Return the option or argument that sets a parameter, as it is typed.

    A parameter's name may add its unit: `--half-life` sets `half_life_days`.
    """
    found = {one.name: one for one in command.params if one.name}
    near = [one for one in found if name.startswith(f"{one}_")]
    param = found.get(name) or (found[max(near, key=len)] if near else None)
    if isinstance(param, click.Option):
        return max((*param.opts, *param.secondary_opts), key=len)
    return name if param is None else param.human_readable_name


def relight_command(name: str, example: str) -> Callable[[Function], click.Command]:
    """Return a decorator for a command with the common options and an example in its help."""

    def make(function: Function) -> click.Command:
        made = click.command(
            name, cls=_Command, epilog=f"Example: {example}", context_settings=SETTINGS
        )(function)
        made.params += _shared_options()
        return _name_numbers(made)

    return make


def reading_command(name: str, example: str) -> Callable[[Function], click.Command]:
    """Return a decorator for a command that reads the record, which is `relight_command` and more.

    The command has `--no-import`. Without it, the first `current_store()` in the command takes in
    what is new in the agents' files, so that the answer is never stale. Nothing else is needed.
    Trouble with it is a line on standard error, never an exception. A hook, a status line and the
    completion of words must be quick: they use `relight_command`, and import nothing.
    """

    def make(function: Function) -> click.Command:
        made = click.command(
            name, cls=_ReadingCommand, epilog=f"Example: {example}", context_settings=SETTINGS
        )(function)
        made.params += [no_import_option(), *_shared_options()]
        return _name_numbers(made)

    return make


def _name_numbers(command: click.Command) -> click.Command:
    """Let the help of a command name whole numbers N, where click writes INTEGER RANGE."""
    for option in command.params:
        if isinstance(option.type, click.IntRange) and option.metavar is None:
            option.metavar = "N"
    return command


def no_import_option() -> click.Option:
    return click.Option(
        ["--no-import"],
        is_flag=True,
        expose_value=False,
        callback=_skip_import,
        help="Do not read what is new first.",
    )


def _skip_import(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[NO_IMPORT] = True


def relight_group(name: str, example: str, *, alone: str = "list") -> Callable[[Function], _Group]:
    """Return a decorator for a group of commands; `alone` is the one that runs if none is named."""

    def make(function: Function) -> _Group:
        made = click.group(
            name, cls=_Group, epilog=f"Example: {example}", context_settings=SETTINGS
        )(function)
        made.alone = alone
        made.params += _shared_options()
        return made

    return make


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            expose_value=False,
            callback=_set_home,
            help="Relight's folder (default: RELIGHT_HOME or ~/.relight).",
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."
        ),
    ]


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def format_options(function: Function) -> Function:
    """Add `--json`, `--csv` and `--markdown`, of which one may be given."""

    @wraps(function)
    def check(*args: Any, **given: Any) -> Any:
        if sum(given[name] for name in ("as_json", "as_csv", "as_markdown")) > 1:
            raise click.UsageError("choose one of --json, --csv and --markdown")
        return function(*args, **given)

    markdown = click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
    as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
    return json_option(as_csv(markdown(check)))


def since_option(default: str | None = None) -> Callable[[Function], Function]:
    from relight.reports.filters import DAY_FORMS, DEFAULT_SINCE

    return click.option(
        "--since",
        default=default or DEFAULT_SINCE,
        metavar="D",
        show_default=True,
        help=f"The first day: {DAY_FORMS}.",
    )


until_option = click.option("--until", metavar="D", help="The last day, likewise.")


def filter_options(*, since: str | None = None) -> Callable[[Function], Function]:
    """Return a decorator that adds the options and passes them as `typed`, a `TypedFilter`."""
    options = (
        since_option(since),
        until_option,
        click.option("--source", metavar="S", help="Only this source."),
        click.option(
            "--project",
            metavar="P",
            help="Only projects with this in their folder. A path, such as . or ~/shop, is that"
            " folder and those below it.",
        ),
        click.option("--model", metavar="M", help="Only models with this in their name."),
        click.option("--machine", metavar="M", help="Only sessions that this machine pushed here."),
        click.option("--person", metavar="P", help="Only sessions of this person's machines."),
    )

    def decorate(function: Function) -> Function:
        @wraps(function)
        def collect(*args: Any, **given: Any) -> Any:
            names = TypedFilter.__struct_fields__
            typed = TypedFilter(**{name: given.pop(name) for name in names})
            return function(*args, typed=typed, **given)

        made: Function = collect
        for option in reversed(options):
            made = option(made)
        return made

    return decorate


def yes_option(function: Function) -> Function:
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def endpoint_options(function: Function) -> Function:
    """Add the options of Relight's own agent: its endpoint, the key, and variables to pass on."""
    for option in (
        click.option(
            "--pass-variable",
            "pass_variables",
            multiple=True,
            metavar="NAME",
            help="Variable that its commands get although it is named like a secret; repeatable.",
        ),
        click.option(
            "--key-variable", metavar="NAME", help="Environment variable with the endpoint's key."
        ),
        click.option("--base-url", metavar="URL", help="Any OpenAI-compatible endpoint."),
    ):
        function = option(function)
    return function


def print_no_match(why: "NoMatch | None", otherwise: str | None = None) -> None:
    """Print why nothing matches, and what does.

    If the options are not why, print `otherwise`; by default, that nothing is recorded.
    """
    from relight.cli.screen import print_text

    nothing = as_typed("nothing is recorded yet; run `relight import`, or try `relight demo`")
    print_text(why.text if why else otherwise or nothing)


def _set_home(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta["relight.home"] = value
        name_home(value)
        ctx.call_on_close(name_home)


def current_home() -> str | None:
    home: str | None = click.get_current_context().meta.get("relight.home")
    return home


def current_store() -> Store:
    """Return the store that the command works on; a reading command first takes in what is new."""
    context = click.get_current_context()
    store = open_store(current_home())
    if not context.params.get("as_json"):
        use_currency(store)
    if isinstance(context.command, _ReadingCommand) and not context.meta.get(NO_IMPORT):
        context.meta[NO_IMPORT] = True
        from relight.cli.news import refresh

        refresh(store)
    return store


def use_currency(store: Store) -> None:
    """Show amounts in the currency that the user chose; JSON stays in dollars."""
    display = store.config.display
    if display.rate is not None:
        from relight.text import show_in

        show_in(display.currency, display.rate)


def print_json(value: object) -> None:
    """Print JSON to standard output, where nothing else is printed."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as CSV.

    Texts of sessions are untrusted: no escape sequences, and no formulas of spreadsheets.
    """
    import csv
    import sys

    from relight.text import make_cell

    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: make_cell(row[name]) for name in names} for row in rows)
    sys.stdout.flush()


def split_words(text: str) -> list[str]:
    """Return the words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def name_project(project: str | None) -> str | None:
    """Return a project as sessions name it: the absolute folder they ran in."""
    from pathlib import Path

    if project and (project in (".", "..") or project.startswith(("./", "../", "~"))):
        return str(Path(project).expanduser().resolve())
    return project


def confirm(question: str) -> None:
    """Continue only after confirmation; raise without a terminal."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise RelightError("not done: not confirmed", "add --yes to skip the question") from None
