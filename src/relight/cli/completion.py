"""Names that a shell completes: sessions, jobs, skills, templates, models, projects, sources.

They are read from the store as it is: nothing is imported. If the store is missing or damaged,
nothing is completed and nothing is printed.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from relight.store import Store

    Items = list[CompletionItem[str]]

# Bash inserts a word as it is. A name with other characters would be several words or a command.
SAFE = re.compile(r"[A-Za-z0-9_./@+:,-]+")
ABOUT = 60


def prepare_bash() -> None:
    """Let bash complete `source:id`, which it splits into three words, of which it replaces one."""
    from click.shell_completion import BashComplete, add_completion_class, split_arg_string

    class ColonBashComplete(BashComplete):
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

    add_completion_class(ColonBashComplete)


def _complete(name: str) -> Callable[[click.Context, click.Parameter, str], "Items"]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "Items":
        try:
            from relight.config import find_home, read_config
            from relight.store import open_reader

            config = read_config(find_home(_find_typed_home(ctx)))
            if not config.database.exists():
                return []
            with open_reader(config) as store:
                return _make_items(_find(store, name, incomplete))
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


def _find(store: "Store", name: str, typed: str) -> list[tuple[str, str | None]]:
    """Return the words that begin as typed, and what each stands for."""
    from relight.store.queries import completions

    if name == "sessions":
        return _find_sessions(store, typed)
    find = getattr(completions, f"find_{name}")
    return [(one.word, one.about) for one in find(store, typed)]


def _find_sessions(store: "Store", typed: str) -> list[tuple[str, str | None]]:
    """Return short ids, with the source before them if its name is typed."""
    from relight.reports.sessions import shorten_names
    from relight.store.queries.completions import find_sessions

    found = [(f"{one.source}:{one.key}", one) for one in find_sessions(store, typed)]
    short = shorten_names(store, [name for name, _ in found])
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


complete_sessions = _complete("sessions")
complete_jobs = _complete("jobs")
complete_skills = _complete("skills")
complete_templates = _complete("templates")
complete_models = _complete("models")
complete_projects = _complete("projects")
complete_sources = _complete("sources")


COMPLETED = {
    "session": complete_sessions,
    "job": complete_jobs,
    "skill": complete_skills,
    "skills": complete_skills,
    "template": complete_templates,
    "model": complete_models,
    "project": complete_projects,
    "source": complete_sources,
}
# what the argument NAME of a group's commands names, by the group's module
NAMED = {"job": complete_jobs, "template": complete_templates}


def add_completions(command: click.Command, module: str) -> None:
    """Let a shell complete the parameters that name something in the store."""
    group = module.rpartition(".")[2].partition("_")[0]
    for param in command.params:
        name = param.name or ""
        find = NAMED.get(group) if name in ("name", "names") else COMPLETED.get(name)
        is_free = param._custom_shell_complete is None and isinstance(
            param.type, click.types.StringParamType
        )
        if find is not None and is_free and group != "moa":  # moa names traces, not sessions
            param._custom_shell_complete = find


def complete_words(
    words: Iterable[str],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion of a comma-separated list of these words."""
    known = list(words)

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        used = before.split(",")
        return [
            f"{before}{comma}{word}" for word in known if word.startswith(last) and word not in used
        ]

    return complete
