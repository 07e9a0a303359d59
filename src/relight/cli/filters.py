"""The options by which commands choose a part of the record: days, source, project, model."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from relight.cli.options import Function, name_project
from relight.errors import as_typed
from relight.reports.filters import DEFAULT_SINCE, read_filter
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.times import DAY_FORMS

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch


class TypedFilter(Struct, frozen=True, kw_only=True):
    """The options as typed."""

    since: str
    until: str | None
    source: str | None
    project: str | None
    model: str | None
    machine: str | None
    person: str | None

    def read(self, store: Store, *, job: str | None = None) -> Filter:
        """Return the filter for reports; raise if an option cannot be understood."""
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


def since_ever(typed: TypedFilter) -> TypedFilter:
    """Return the options without a first day, unless one was typed."""
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source("since")
    return typed if source is ParameterSource.COMMANDLINE else replace(typed, since="all")


def print_no_match(why: "NoMatch | None", otherwise: str | None = None) -> None:
    """Print why nothing matches, and what does.

    If the options are not why, print `otherwise`; by default, that nothing is recorded.
    """
    from relight.cli.screen import print_text

    nothing = as_typed("nothing is recorded yet; run `relight import`, or try `relight demo`")
    print_text(why.text if why else otherwise or nothing)


def since_option(default: str = DEFAULT_SINCE) -> Callable[[Function], Function]:
    return click.option(
        "--since",
        default=default,
        metavar="D",
        show_default=True,
        help=f"The first day: {DAY_FORMS}.",
    )


until_option = click.option("--until", metavar="D", help="The last day, likewise.")


def filter_options(*, since: str = DEFAULT_SINCE) -> Callable[[Function], Function]:
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
        click.option(
            "--model",
            metavar="M",
            help="Only models with this in their name.",
        ),
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
