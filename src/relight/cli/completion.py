"""Names that a shell completes: sessions, jobs, skills, templates, models, projects, sources.

They are read from the store as it is: nothing is imported. If the store is missing or damaged,
nothing is completed and nothing is printed.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

Complete = Callable[[click.Context, click.Parameter, str], Any]

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from relight.store import Store

    Items = list[CompletionItem[str]]

# Bash inserts a word as it is. A name with other characters would be several words or a command.
SAFE = re.compile(r"[A-Za-z0-9_./@+:,-]+")
ABOUT = 60


def prepare_shells(typed: str) -> str:
    """Let bash complete `source:id`, and fish words with commas, in the order they come in.

    Bash splits `source:id` into three words, of which it replaces one. Click's function for fish
    cuts a word at its first comma, and fish sorts what it is not told to leave. So does zsh if two
    words have one description, which it would show once.

    Return the word that is completed. A command of several words, such as `/src/relight/dev run`,
    is completed as its alias `relight`. A script cannot start an alias, and zsh completes the words
    that it stands for.
    """
    import shlex

    from click.shell_completion import (
        BashComplete,
        FishComplete,
        ZshComplete,
        add_completion_class,
        split_arg_string,
    )

    started = shlex.split(typed)
    is_alias = len(started) > 1
    if is_alias and os.sep in started[0]:
        started[0] = os.path.abspath(started[0])  # noqa: PTH100
    program = shlex.join(started).replace("%", "%%")

    class ColonBashComplete(BashComplete):
        source_template = (
            BashComplete.source_template.replace("complete $1)", f"complete {program})")
            if is_alias
            else BashComplete.source_template
        )
        cut = 0

        def get_completion_args(self) -> tuple[list[str], str]:
            typed = os.environ["COMP_WORDS"].split("\n")
            last = int(os.environ["COMP_CWORD"])
            words: list[str] = []
            for word in typed[1 : last + 1]:
                if words and (word.startswith(":") or words[-1].endswith(":")):
                    words[-1] += word
                else:
                    words.append(word)
            plain = ["".join(split_arg_string(word)) for word in words]
            if last >= len(typed) or not words:
                return plain, ""
            self.cut = plain[-1].rfind(":") + 1
            return plain[:-1], plain[-1]

        def format_completion(self, item: "CompletionItem[str]") -> str:
            return f"{item.type},{item.value[self.cut :]}"

    class CommaFishComplete(FishComplete):
        source_template = FishComplete.source_template.replace(
            'string split "," ', 'string split -m 1 "," '
        ).replace("complete --no-files", "complete --keep-order --no-files")
        if is_alias:
            source_template = source_template.replace("-t) %(prog_name)s", f"-t) {program}")

    class OrderedZshComplete(ZshComplete):
        source_template = ZshComplete.source_template.replace(
            "() {\n",
            "() {\n    zstyle ':completion:*:*:%(prog_name)s:*' list-grouped false\n",
            1,
        )
        if is_alias:
            path = shlex.quote(started[0]).replace("%", "%%")
            source_template = (
                source_template.replace("(( ! $+commands[%(prog_name)s] )) && return 1", "")
                .replace("zsh_complete %(prog_name)s", f"zsh_complete {program}")
                .replace(
                    "compdef %(complete_func)s %(prog_name)s",
                    f"compdef %(complete_func)s %(prog_name)s {path}",
                )
            )

        def get_completion_args(self) -> tuple[list[str], str]:
            args, incomplete = super().get_completion_args()
            more = started[1:]
            return (
                args[len(more) :] if is_alias and args[: len(more)] == more else args
            ), incomplete

    add_completion_class(ColonBashComplete)
    add_completion_class(CommaFishComplete)
    add_completion_class(OrderedZshComplete)
    return "relight" if is_alias else typed


def _complete(kind: str) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "Items":
        try:
            from relight.config import find_home, read_config
            from relight.store import open_reader

            config = read_config(find_home(_find_typed_home(ctx)))
            if not config.has_store:
                return []
            with open_reader(config) as store:
                return _make_items(_find(store, kind, incomplete))
        except Exception:  # noqa: BLE001 - a person who presses Tab can use no error
            return []

    return complete


def _find_typed_home(ctx: click.Context) -> str | None:
    """Return the folder after `--home`, wherever it stands in the line."""
    at: click.Context | None = ctx
    while at is not None:
        home = at.meta.get("relight.home") or at.params.get("home")
        if home:
            return str(home)
        at = at.parent
    return None


def _find(store: "Store", kind: str, typed: str) -> list[tuple[str, str | None]]:
    """Return the words that begin as typed, and what each stands for."""
    from relight.store.queries.completions import find_names

    if kind == "session":
        return _find_sessions(store, typed)
    return [(one.word, one.about) for one in find_names(store, kind, typed)]


def _find_sessions(store: "Store", typed: str) -> list[tuple[str, str | None]]:
    """Return short ids, with the source before them if its name is typed."""
    from relight.reports.sessions import find_beginnings
    from relight.store.queries.completions import find_sessions

    found = [(f"{one.source}:{one.key}", one) for one in find_sessions(store, typed)]
    short = find_beginnings(store, [name for name, _ in found])
    words: list[tuple[str, str | None]] = [("last", None)] if "last".startswith(typed) else []
    for name, one in found:
        first = 0 if typed and not one.key.startswith(typed) else len(one.source) + 1
        word = short[name][first:]
        words.append((word if len(word) > len(typed) else name[first:], one.title))
    return words


def _make_items(found: Iterable[tuple[str, str | None]]) -> "Items":
    from click.shell_completion import CompletionItem

    from relight.text import make_line

    return [
        CompletionItem(word, help=make_line(about, ABOUT) if about else None)
        for word, about in found
        if SAFE.fullmatch(word) and not word.startswith("-")
    ]


def complete_days(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from relight.reports.filters import DAY_WORDS

    words = (*DAY_WORDS, "7d", "2w", "30d", "all")
    return [word for word in words if word.startswith(incomplete.lower())]


def _complete_list(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last of several words with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    used = before.split(",")
    return [
        f"{before}{comma}{word}"
        for word in _list_words(ctx.info_name, param.name)
        if word.startswith(last) and word not in used
    ]


def _list_words(command: str | None, param: str | None) -> tuple[str, ...]:
    """Return the words that `--by` and `--sort` of a command take."""
    if command == "failures":
        from relight.store.queries.failures import FAILURE_KEYS

        return FAILURE_KEYS
    from relight.reports import totals
    from relight.store.queries import listing

    if command == "report":
        return totals.KEYS if param == "by" else (*totals.KEYS, *totals.SORTS)
    return tuple(listing.SORTS) if command == "sessions" else ()


COMPLETED: dict[str, Complete] = {
    "session": _complete("session"),
    "job": _complete("job"),
    "skill": _complete("skill"),
    "skills": _complete("skill"),
    "template": _complete("template"),
    "model": _complete("model"),
    "project": _complete("project"),
    "source": _complete("source"),
    "since": complete_days,
    "until": complete_days,
    "by": _complete_list,
    "sort": _complete_list,
}
# what the argument NAME of a group's commands names
NAMED = {"job": COMPLETED["job"], "template": COMPLETED["template"]}


def add_completions(command: click.Command, name: str) -> None:
    """Let a shell complete the parameters of a command or a group that name something."""
    if name == "moa":  # it names traces, not sessions
        return
    commands: Iterable[click.Command | None] = (command,)
    if isinstance(command, click.Group):
        context = click.Context(command)
        commands = (command.get_command(context, one) for one in command.list_commands(context))
    for each in filter(None, commands):
        for param in each.params:
            is_name = param.name in ("name", "names")
            find = NAMED.get(name) if is_name else COMPLETED.get(param.name or "")
            is_free = param._custom_shell_complete is None and isinstance(
                param.type, click.types.StringParamType
            )
            if find is not None and is_free:
                param._custom_shell_complete = find
