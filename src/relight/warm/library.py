"""The library of templates: read, extended by versions, retired, restored, deleted.

A template is live, retired, or a candidate that waits for a person to accept it.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from relight.errors import MissingError, RelightError, check_choice, describe, refuse
from relight.judging.kinds import CATEGORIES, TASK_TYPES
from relight.store import Store
from relight.store import templates as table
from relight.store.sql import Connection
from relight.store.templates import State as State
from relight.store.templates import Template as Template
from relight.store.templates import TemplateFacts
from relight.store.templates import read_by_id as read_by_id
from relight.store.templates import read_candidates as read_candidates
from relight.store.templates import read_siblings as read_siblings
from relight.store.templates import read_templates as read_templates
from relight.store.templates import read_versions as read_versions
from relight.times import write_time
from relight.warm import index
from relight.warm.injection import count_tokens, render_template

NAME_LIMIT = 80
WARNINGS = {
    "unknown": "no outcome is known: a score alone ranks a success above a failure"
    " in 6 cases of 10",
    "failure": "the session failed: what it shows did not lead to success",
}


class TemplateView(TemplateFacts, frozen=True, kw_only=True):
    """A template as JSON, for the command line and the dashboard's API."""

    retired_why: str | None
    state: State
    created_at: str | None
    retired_at: str | None
    # the size of the seed: its messages, and the calls in them
    seed_messages: int
    examples: int
    warning: str | UnsetType = UNSET
    seed: list[dict[str, Any]] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    # with a single template
    versions: list[int] | UnsetType = UNSET
    # with a template just made: the names of those that retired for it
    made_way: list[str] | UnsetType = UNSET
    # and of those that further tasks of the session made
    more: list[str] | UnsetType = UNSET


class TemplateList(Struct, frozen=True):
    """Templates as JSON, each in its newest version, and how many candidates wait."""

    templates: list[TemplateView]
    candidates: int


def show_template(template: Template, *, with_seed: bool = True) -> TemplateView:
    """Return a template as JSON shows it; the seed and the text of a session are optional."""
    # the tokens of the text, which sessions get, not of the stored messages
    shown = replace(template, tokens=count_tokens(template))
    return TemplateView(
        *(getattr(shown, name) for name in TemplateFacts.__struct_fields__),
        retired_why=template.retired_why,
        state=template.state,
        created_at=write_time(template.created_at),
        retired_at=write_time(template.retired_at),
        seed_messages=len(template.seed),
        examples=count_examples(template),
        warning=WARNINGS.get(template.outcome, UNSET),
        seed=template.seed if with_seed else UNSET,
        text=render_template(template) if with_seed else UNSET,
    )


def count_examples(template: Template) -> int:
    """Return the number of calls in a template's seed, each with its result."""
    return sum(len(message.get("tool_calls", ())) for message in template.seed)


def find_template(store: Store, name: str, *, version: int | None = None) -> Template:
    """Return the newest version of a template, or the one given; raise if it does not exist."""
    found = table.read_template(store, name, version=version)
    if found is None:
        which = "" if version is None else f" version {version}"
        raise MissingError(
            f"there is no template {name!r}{which}", "`relight template list` shows them"
        )
    return found


def add_version(store: Store, template: Template, *, is_new: bool = False) -> Template:
    """Add a template as a new one, or as the next version of the one with its name.

    With `is_new` a name that is taken gets a number. Otherwise a retired template with that name
    becomes live again.
    """
    check_name(template.name)
    with store.transaction() as database:
        if is_new:
            if copy := table.find_copy(database, template):  # by another process, meanwhile
                raise RelightError(f"{copy} has the same content")
            template = replace(template, name=find_free_name(database, template.name))
        found = table.find_id(database, template.name)
        if found is None:
            added = replace(template, id=table.find_free_id(database), version=1)
            table.insert_template(database, added)
        else:
            number = table.find_next_version(database, found)
            added = replace(template, id=found, version=number)
            table.update_template(database, added)
        table.insert_version(database, added)
        index.refresh_index(database, added.id)
    return added


def find_free_name(database: Connection, name: str) -> str:
    """Return the name, with a number if it is taken."""
    taken = table.read_names(database)
    number, free = 1, name
    while free in taken:
        number += 1
        ending = f"-{number}"
        free = name[: NAME_LIMIT - len(ending)] + ending
    return free


def retire_template(store: Store, name: str, *, why: str, now: int | None = None) -> None:
    """Take a template out of use. It remains in the library, with the reason."""
    template = find_template(store, name)
    at = int(time.time() * 1000) if now is None else now
    _set_state(store, template, retired_at=at, retired_why=why)


def restore_template(store: Store, name: str) -> Template:
    """Put a retired template or a candidate into use."""
    template = find_template(store, name)
    _set_state(store, template, retired_at=None, retired_why=None)
    return replace(template, retired_at=None, retired_why=None, proposed_at=None)


def _set_state(
    store: Store, template: Template, *, retired_at: int | None, retired_why: str | None
) -> None:
    with store.transaction() as database:
        table.set_state(database, template.id, retired_at=retired_at, retired_why=retired_why)
        index.refresh_index(database, template.id)


def delete_template(store: Store, name: str) -> None:
    """Delete a template with all its versions. The decisions made with it stay on record."""
    delete_templates(store, [find_template(store, name)])


def delete_templates(store: Store, templates: Collection[Template]) -> None:
    """Delete templates with all their versions."""
    with store.transaction() as database:
        for one in templates:
            table.delete_rows(database, one.id)
            index.refresh_index(database, one.id)


def check_words(**lists: Any) -> None:
    """Raise unless each argument is a list of words; a plain text would be split into letters."""
    for name, words in lists.items():
        is_list = isinstance(words, Collection) and not isinstance(words, str | Mapping)
        if not is_list or not all(isinstance(word, str) for word in words):
            raise refuse(name, f"must be a list of words, not {describe(words)}")


def check_kind(*, category: object = None, task_type: object = None) -> None:
    """Raise unless a category and a task type are known; None is any."""
    if category is not None:
        check_choice("category", category, CATEGORIES)
    if task_type is not None:
        check_choice("task_type", task_type, TASK_TYPES)


def check_name(name: object) -> None:
    """Raise unless a name is one line of text; it becomes a file name only through `names`."""
    is_line = isinstance(name, str) and bool(name.strip()) and name.isprintable()
    if not is_line or len(str(name)) > NAME_LIMIT:
        raise RelightError(
            f"{describe(name)} cannot name a template",
            f"give it one line of 1 to {NAME_LIMIT} characters",
        )
