"""Options, store and formats of output that all commands share."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial, wraps
from importlib import import_module
from inspect import isgeneratorfunction, unwrap
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import ParameterError, RelightError, as_typed, name_home
from relight.store import Store, open_store

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch
    from relight.store.queries.filters import Filter

Function = Callable[..., Any]
# what a command yields: the Struct that `--json` prints. What follows prints the same as text
Answer = Iterator[Struct]
SETTINGS = {"help_option_names": ["-h", "--help"]}
# keys of a context's `meta`: read no new records, or no more of them; print JSON; do not ask
NO_IMPORT, AS_JSON, YES = "relight.no_import", "relight.as_json", "relight.yes"


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

        chosen = replace(self, project=name_project(self.project))
        return read_filter(store, job=job, **asdict(chosen))


class _TypedHelp(click.Command):
    """A command whose help names Relight as it was typed."""

    def get_help(self, ctx: click.Context) -> str:
        return as_typed(super().get_help(ctx))


class _Command(_TypedHelp):
    """A command whose errors name options as typed, not as Python parameters."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            message = error.message
            for name in error.names:
                message = re.sub(rf"(?<!-)\b{name}\b", name_option(self, name), message, count=1)
            raise RelightError(message, error.hint) from error


class _Group(_TypedHelp, click.Group):
    """A group that runs one of its commands, usually its list, if none is named."""

    alone = "list"
    # commands that are imported when they are used, and their modules
    more: Mapping[str, str] = {}

    def plain(self, name: str, example: str) -> Callable[[Function], click.Command]:
        """Return a decorator for a command of this group, which is as of `relight_command`."""
        return partial(_make_command, name, example, kind=_Command, group=self)

    def reading(self, name: str, example: str) -> Callable[[Function], click.Command]:
        """Return a decorator for a command of this group, which is as of `reading_command`."""
        return partial(_make_command, name, example, kind=_ReadingCommand, group=self)

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
    """Return a decorator for a command with the common options and an example in its help.

    A function that yields a Struct also gets `--json`, which prints it and ends the command there.
    """
    return partial(_make_command, name, example, kind=_Command)


def reading_command(name: str, example: str) -> Callable[[Function], click.Command]:
    """Return a decorator for a command that reads the record, which is `relight_command` and more.

    The command has `--no-import`. Without it, the first `current_store()` in the command takes in
    what is new in the agents' files, so that the answer is never stale. Nothing else is needed.
    Trouble with it is a line on standard error, never an exception. A hook, a status line and the
    completion of words must be quick: they use `relight_command`, and import nothing.
    """
    return partial(_make_command, name, example, kind=_ReadingCommand)


def _make_command(
    name: str,
    example: str,
    function: Function,
    *,
    kind: type[_Command],
    group: click.Group | None = None,
) -> click.Command:
    has_answer = isgeneratorfunction(unwrap(function))
    run = _print_answer(function) if has_answer else function
    epilog = f"Example: {example}"
    made = click.command(name, cls=kind, epilog=epilog, context_settings=SETTINGS)(run)
    if has_answer and all(option.name != "json" for option in made.params):
        json_option(made)
    if kind is _ReadingCommand:
        no_import_option(made)
    debug_option(home_option(made))
    for option in made.params:
        if isinstance(option.type, click.IntRange) and option.metavar is None:
            option.metavar = "N"  # click would write INTEGER RANGE
    if group is not None:
        group.add_command(made)
    return made


def _print_answer(function: Function) -> Function:
    """Return a function that prints what a command yields, and ends there with `--json`."""

    @wraps(function)
    def run(**given: Any) -> None:
        with closing(function(**given)) as answers:
            for answer in answers:
                if wants_json():
                    print_json(answer)
                    return

    return run


def relight_group(name: str, example: str, *, alone: str = "list") -> Callable[[Function], _Group]:
    """Return a decorator for a group of commands; `alone` is the one that runs if none is named."""

    def make(function: Function) -> _Group:
        epilog = f"Example: {example}"
        made = click.group(name, cls=_Group, epilog=epilog, context_settings=SETTINGS)(function)
        made.alone = alone
        debug_option(home_option(made))
        return made

    return make


def _set_home(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta["relight.home"] = value
        name_home(value)
        ctx.call_on_close(name_home)


home_option: Function = click.option(
    "--home",
    metavar="DIR",
    expose_value=False,
    callback=_set_home,
    help="Relight's folder (default: RELIGHT_HOME or ~/.relight).",
)
debug_option: Function = click.option(
    "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
)


def _remembered_flag(word: str, key: str, help: str) -> Function:
    """Return a decorator for an option that is no parameter: it sets a key of the context."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[key] = True

    option: Function = click.option(
        word, is_flag=True, expose_value=False, callback=remember, help=help
    )
    return option


no_import_option = _remembered_flag("--no-import", NO_IMPORT, "Do not read what is new first.")
# of a command that does more than yield its answer; it calls `wants_json()`
json_option = _remembered_flag("--json", AS_JSON, "Print JSON.")
yes_option = _remembered_flag("--yes", YES, "Do not ask for confirmation.")


def wants_json() -> bool:
    """True if the command prints JSON."""
    return bool(click.get_current_context().meta.get(AS_JSON))


def format_options(function: Function) -> Function:
    """Add `--json`, `--csv` and `--markdown`, of which one may be given."""

    @wraps(function)
    def check(*args: Any, **given: Any) -> Any:
        if sum((wants_json(), given["as_csv"], given["as_markdown"])) > 1:
            raise click.UsageError("choose one of --json, --csv and --markdown")
        return function(*args, **given)

    markdown = click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
    as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
    return add_options(check, (json_option, as_csv, markdown))


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

        return add_options(collect, options)

    return decorate


def add_options(function: Function, options: Sequence[Function]) -> Function:
    """Return a function with options, which its help lists in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def endpoint_options(function: Function) -> Function:
    """Add the options of Relight's own agent: its endpoint, the key, and variables to pass on."""
    options = (
        click.option("--base-url", metavar="URL", help="Any OpenAI-compatible endpoint."),
        click.option(
            "--key-variable", metavar="NAME", help="Environment variable with the endpoint's key."
        ),
        click.option(
            "--pass-variable",
            "pass_variables",
            multiple=True,
            metavar="NAME",
            help="Variable that its commands get although it is named like a secret; repeatable.",
        ),
    )
    return add_options(function, options)


def print_no_match(why: "NoMatch | None", otherwise: str | None = None) -> None:
    """Print why nothing matches, and what does.

    If the options are not why, print `otherwise`; by default, that nothing is recorded.
    """
    from relight.cli.screen import print_text

    nothing = as_typed("nothing is recorded yet; run `relight import`, or try `relight demo`")
    print_text(why.text if why else otherwise or nothing)


def current_home() -> str | None:
    home: str | None = click.get_current_context().meta.get("relight.home")
    return home


def current_store() -> Store:
    """Return the store that the command works on; a reading command first takes in what is new."""
    context = click.get_current_context()
    store = open_store(current_home())
    if not wants_json():
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


def print_json(value: Struct | list[Any]) -> None:
    """Print JSON to standard output, where nothing else is printed; a list is of chat messages."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def split_words(text: str) -> list[str]:
    """Return the words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def name_project(project: str | None) -> str | None:
    """Return a project as sessions name it: the absolute folder they ran in."""
    from pathlib import Path

    if project and (project in (".", "..") or project.startswith(("./", "../", "~"))):
        return str(Path(project).expanduser().resolve())
    return project


def confirm(question: str, *, preview: str | None = None) -> None:
    """Continue only after confirmation or with `--yes`; raise without a terminal."""
    if click.get_current_context().meta.get(YES):
        return
    if preview is not None:
        click.echo(preview, err=True)
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise RelightError("not done: not confirmed", "add --yes to skip the question") from None
