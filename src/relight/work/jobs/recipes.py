"""Other agents' programs as runners: their arguments, from the table `data/recipes.toml`."""

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePath

from msgspec import Struct

from relight.data import read_table
from relight.errors import RelightError

PLACES = ("prompt", "prompt_file", "workdir", "usage_file", "session_id", "model")
_PLACE = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
# the longest single argument on Linux, with its final null byte
ARGUMENT_BYTES = 128 << 10


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table: how a program runs once, and the format of its output."""

    name: str
    programs: list[str]
    source: str
    # a name in `sources.printouts.READERS`
    reads: str
    mode: list[str]
    prompt: list[str] = []
    model: list[str] = []
    budget: list[str] = []
    options: list[list[str]] = []
    session: list[str] = []


class RecipeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table; a wrapper is a program that only starts another."""

    wrappers: list[str]
    recipe: list[Recipe]


class CommandPlan(Struct, frozen=True, kw_only=True):
    """A command ready to run: its words, its standard input, and its recipe if it has one."""

    words: list[str]
    standard_input: str | None
    recipe: Recipe | None
    # the words set the session's id
    names_session: bool
    # the program ends itself at the budget
    limits_cost: bool


@cache
def read_recipes() -> RecipeTable:
    return read_table("recipes.toml", RecipeTable)


def find_recipe(command: Sequence[str]) -> tuple[Recipe, int] | None:
    """The recipe of a command and the index of its program, also behind a wrapper (`env A=1`)."""
    table = read_recipes()
    for place, word in enumerate(command):
        name = PurePath(word).name
        for recipe in table.recipe:
            if name in recipe.programs:
                return recipe, place
        is_passed = place > 0 and (word.startswith("-") or "=" in word or word[:1].isdigit())
        if name not in table.wrappers and not is_passed:
            return None
    return None


def plan_command(
    command: Sequence[str],
    values: Mapping[str, str],
    *,
    use_shell: bool = False,
    model: str | None = None,
    budget_usd: float | None = None,
) -> CommandPlan:
    """The words to run, with the recipe's options added and all places filled in.

    A command without a place for the prompt gets it on standard input. In a shell's line every
    value is quoted, so that no prompt can become a command.
    """
    words = list(command)
    found = None if use_shell else find_recipe(words)
    if found:
        words = _complete(words, *found, model=model, budget_usd=budget_usd)
    places = set(_find_places(words))
    standard_input = None if places & {"prompt", "prompt_file"} else values["prompt"]
    if use_shell:
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        words = ["/bin/sh", "-c", _fill(words[0], quoted)]
    else:
        words = [_fill(word, values) for word in words]
    if max(len(word.encode("utf-8", "replace")) for word in words) >= ARGUMENT_BYTES:
        raise RelightError(
            f"the prompt is longer than the {ARGUMENT_BYTES >> 10} KB that an argument may have",
            "use {prompt_file}, or leave {prompt} out for standard input",
        )
    return CommandPlan(
        words=words,
        standard_input=standard_input,
        recipe=found[0] if found else None,
        names_session="session_id" in places,
        limits_cost=bool(found and budget_usd is not None and _takes_budget(command, *found)),
    )


def can_choose_model(command: Sequence[str], *, use_shell: bool = False) -> bool:
    """True if the job's model reaches the command's program."""
    found = None if use_shell else find_recipe(command)
    return "model" in _find_places(command) or bool(found and found[0].model)


def _takes_budget(words: Sequence[str], recipe: Recipe, place: int) -> bool:
    """True if the budget is added to the words: the program takes one, the command sets none."""
    given = {word.partition("=")[0] for word in words[place + 1 :]}
    return bool(recipe.budget) and not given & set(recipe.budget)


def _complete(
    words: list[str], recipe: Recipe, place: int, *, model: str | None, budget_usd: float | None
) -> list[str]:
    """Add the recipe's options that the command lacks, right behind the program or its mode."""
    given = {word.partition("=")[0] for word in words[place + 1 :]}
    if not given & set(recipe.mode):
        words = [*words[: place + 1], recipe.mode[0], *words[place + 1 :]]
    if recipe.prompt and not set(_find_places(words)) & {"prompt", "prompt_file"}:
        behind = next(n for n, word in enumerate(words) if n > place and word in recipe.prompt)
        words = [*words[: behind + 1], "{prompt}", *words[behind + 1 :]]
    added: list[str] = []
    has_model = given & set(recipe.model) or "model" in _find_places(words)
    if model and recipe.model and not has_model:
        added += [recipe.model[0], "{model}"]
    if budget_usd is not None and _takes_budget(words, recipe, place):
        added += [recipe.budget[0], f"{budget_usd:f}"]
    for option in recipe.options:
        is_chosen = "{session_id}" in option and given & set(recipe.session)
        if option[0] not in given and not is_chosen:
            added += option
    # the options of a subcommand stand behind it
    own = next((n for n, word in enumerate(words) if n > place and word in recipe.mode), place)
    behind = place if words[own].startswith("-") else own
    return [*words[: behind + 1], *added, *words[behind + 1 :]]


def _find_places(words: Sequence[str]) -> list[str]:
    return [name for word in words for name in _PLACE.findall(word)]


def _fill(word: str, values: Mapping[str, str]) -> str:
    """Fill all places in one pass, so that filled-in text is never expanded again."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), word)
