"""The kind of work of a session, by the meaning of its tool calls.

A call's meaning: it reads, writes, runs, looks up a record, changes one …

Every agent has other names for the same few things, so a call is understood by its command or its
arguments first, and by the words in its name after that. The words are in `data/taxonomy.toml`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Struct

from relight.chat.messages import list_own, read_arguments, read_entries
from relight.data import read_table
from relight.judging.shell import Stage, split_stages

_Work = Literal["read", "write", "run", "shell", "vcs", "ops"]
_Record = Literal["web", "lookup", "update", "comm", "plan", "other"]
Meaning = Literal[_Work, _Record]
TaskType = Literal["code", "file", "research", "mixed"]
Category = Literal["coding", "research", "ops", "general"]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
CATEGORIES: tuple[Category, ...] = get_args(Category)

_Name = TypeVar("_Name", bound=str)


class MeaningView(Struct, frozen=True, forbid_unknown_fields=True):
    """The side of a meaning in each view of a session; None is no side."""

    task_type: Literal["code", "file", "research"] | None = None
    category: Literal["coding", "research", "ops"] | None = None


class TaxonomyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `taxonomy.toml`."""

    views: dict[Meaning, MeaningView]
    dominance_percent: dict[str, int]
    names: dict[Meaning, frozenset[str]]
    arguments: dict[str, frozenset[str]]
    words: dict[str, frozenset[str]]
    programs: dict[str, tuple[str, ...]]
    files: dict[str, frozenset[str]]


class Understood(Struct, frozen=True):
    """A call's meaning, its shell command line, and the kinds of files that it names."""

    meaning: Meaning
    command: str | list[str] | None = None
    files: frozenset[str] = frozenset()


class _ToolName(Struct, frozen=True):
    """The words of a tool's name, by what they mean."""

    exact: Meaning | None
    verb: tuple[Meaning, Meaning] | None
    noun: Meaning | None
    is_web: bool
    is_vcs: bool
    is_file: bool
    is_shell: bool


class _Programs(Struct, frozen=True):
    order: tuple[Meaning, ...]
    meanings: dict[str, Meaning]
    neutral: frozenset[str]
    keeping: frozenset[str]


_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SEPARATOR = re.compile(r"[\W_]+")
_BETWEEN = re.compile(r"__|[.:/]")  # between a tool's name and its server's
_EXTENSION = re.compile(r"""\.([A-Za-z]\w{0,9})(?::\d+)?['"]*(?=\s|\Z)""")
_PATCHED = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)(\S+)", re.MULTILINE)
_LOCAL = re.compile(r"(?:^|//|@)(?:localhost|127\.|0\.0\.0\.0|\[::1\])")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")
_FOUND_DONE = re.compile(r"-(?:delete|exec(?:dir)?|ok(?:dir)?|fprint0?|fls)\Z")
_QUESTION = re.compile(r"\s*(?:select|explain|describe|show|with|pragma)\b", re.IGNORECASE)
# Words of a name, their meaning for files, and for records.
_VERBS: tuple[tuple[str, Meaning, Meaning], ...] = (
    ("plans", "plan", "plan"),
    ("looks", "read", "lookup"),
    ("changes", "write", "update"),
    ("runs", "run", "run"),
    ("sends", "comm", "comm"),
    ("operates", "ops", "ops"),
)
_NOUNS: tuple[tuple[str, Meaning], ...] = (
    ("shell", "shell"),
    ("code", "run"),
    ("comm", "comm"),
    ("file", "read"),
)


def find_meaning(tool: str, arguments: object = None) -> Meaning:
    """Return the meaning of a tool call; `other` if it is not understood.

    >>> find_meaning("exec_command", {"cmd": "sed -i s/a/b/ app.py"})
    'write'
    >>> find_meaning("mcp__shop__get_order_details", {"order_id": "#W1"})
    'lookup'
    """
    return understand_call(tool, arguments).meaning


def understand_call(tool: str, arguments: object) -> Understood:
    """Return a call's meaning with its sources; arguments are an object or its JSON."""
    name = _split_name(tool)
    given = arguments if type(arguments) is dict else read_arguments(arguments) or {}
    fields = {_plain_name(key): value for key, value in given.items()}
    files = _find_files(arguments, fields)
    order = fields.get("command")
    rules = read_taxonomy().arguments
    if isinstance(order, str) and fields.keys() & rules["file"]:
        if order in rules["editor_reads"]:
            return Understood("read", None, files)
        if order in rules["editor_writes"]:
            return Understood("write", None, files)
    command = None if name.is_web else _find_command(name, arguments, fields)
    if not command:
        return Understood(_judge_shape(name, fields), command, files)
    meanings = {_judge_stage(stage) for stage in split_stages(command)}
    meaning: Meaning | None = next((one for one in _read_programs().order if one in meanings), None)
    return Understood(meaning or "shell", command, files)


def changes_nothing(call: Understood) -> bool:
    """True if a call leaves the files that it is about unchanged: it reads, looks up or plans.

    >>> changes_nothing(understand_call("Bash", {"command": "git status && cat app.py | head"}))
    True
    >>> changes_nothing(understand_call("Bash", {"command": "sed -i s/a/b/ app.py"}))
    False
    """
    if not call.command:
        return call.meaning in ("read", "lookup", "plan")
    return all(map(_keeps_files, split_stages(call.command)))


def is_commit(call: Understood) -> bool:
    """True if a command commits or pushes what was done.

    >>> is_commit(understand_call("Bash", {"command": "git add -A && git commit -m 'Fix it'"}))
    True
    """
    if not call.command or "git" not in str(call.command):
        return False
    stages = split_stages(call.command)
    return any(one.program == "git" and one.action in ("commit", "push") for one in stages)


def _judge_shape(name: _ToolName, fields: Mapping[str, Any]) -> Meaning:
    rules = read_taxonomy().arguments
    shape = _find_shape(tuple(fields))
    if name.is_web or ("url" in shape and name.exact in (None, "read")):
        return "web"
    if name.exact:
        return name.exact
    if "code" in shape:
        return "run"
    if name.is_vcs:
        return "vcs"
    if "sql" in shape:
        texts = (str(fields[key]) for key in fields if key in rules["sql"])
        return "lookup" if all(_QUESTION.match(text) for text in texts) else "update"
    if shape >= {"file", "contents"}:
        return "write"
    if name.verb:
        for_files, for_records = name.verb
        return for_files if "file" in shape or name.is_file else for_records
    if name.noun or "file" in shape:
        return name.noun or "read"
    return "lookup" if "query" in shape else "other"


@lru_cache(maxsize=4096)
def _find_shape(fields: tuple[str, ...]) -> set[str]:
    """The kinds of arguments that a call has."""
    rules = read_taxonomy().arguments.items()
    return {kind for kind, names in rules if not names.isdisjoint(fields)}


@lru_cache(maxsize=4096)
def _plain_name(argument: str) -> str:
    return _SEPARATOR.sub("", argument).lower()


@lru_cache(maxsize=4096)
def _split_name(tool: str) -> _ToolName:
    rules = read_taxonomy()
    *servers, own = _BETWEEN.split(tool)
    words = [piece.lower() for piece in _PIECE.findall(own)]
    around = {piece.lower() for one in servers for piece in _PIECE.findall(one)} | set(words)
    plain = "".join(words)
    verbs = (
        (for_files, for_records)
        for word in words
        for verb, for_files, for_records in _VERBS
        if word in rules.words[verb]
    )
    return _ToolName(
        exact=next((meaning for meaning, names in rules.names.items() if plain in names), None),
        verb=next(verbs, None),
        noun=next((meaning for noun, meaning in _NOUNS if around & rules.words[noun]), None),
        is_web=bool(around & rules.words["web"]),
        is_vcs=bool(around & rules.words["vcs"]) and rules.words["tracker"].isdisjoint(words),
        is_file=bool(around & rules.words["file"]),
        is_shell=bool(around & rules.words["shell"]),
    )


def _find_command(
    name: _ToolName, arguments: object, fields: Mapping[str, Any]
) -> str | list[str] | None:
    if not fields and name.is_shell and isinstance(arguments, str):
        return None if arguments.lstrip()[:1] in ("", "{") else arguments
    for argument, value in fields.items():
        if argument not in read_taxonomy().arguments["command"]:
            continue
        if isinstance(value, str) and (name.is_shell or len(value.split()) > 1):
            return value
        if isinstance(value, list) and value:
            if isinstance(value[0], str):
                return [str(word) for word in value]
            # terminus: a list of keystrokes, each with the time to wait for its output
            typed = (one for one in value if isinstance(one, Mapping))
            return "\n".join(str(one.get("keystrokes") or one.get("command")) for one in typed)
    return None


def _judge_stage(stage: Stage) -> Meaning | None:
    """The meaning of one program of a line; an unknown program runs something."""
    programs, program = _read_programs(), stage.program
    pair = f"{program} {stage.action}"
    meaning = programs.meanings.get(pair) or programs.meanings.get(program) or "run"
    if program in programs.neutral or meaning == "read":
        is_in_place = program == "sed" and any(map(_IN_PLACE.match, stage.words))
        if stage.hides_output or is_in_place:
            return "write"
        return None if program in programs.neutral else "read"
    if program == "perl" and any(map(_IN_PLACE.match, stage.words)):
        return "write"
    if meaning == "web" and any(map(_LOCAL.search, stage.words)):
        return "run"
    return meaning


def _keeps_files(stage: Stage) -> bool:
    """True if one program of a line leaves files unchanged; an unknown program may not."""
    keeping = _read_programs().keeping
    if stage.program in keeping or f"{stage.program} {stage.action}" in keeping:
        return not stage.hides_output
    does_more = stage.program == "find" and any(map(_FOUND_DONE.match, stage.words))
    return not does_more and _judge_stage(stage) in (None, "read", "plan")


def _find_files(arguments: object, fields: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of files that a call names: source, documents, both or neither."""
    rules = read_taxonomy()
    texts: list[str] = []
    for name, value in fields.items() if fields else [("input", arguments)]:
        if name in rules.arguments["command"] or name in rules.arguments["file"]:
            texts += map(str, value) if isinstance(value, list) else [str(value)]
        elif isinstance(value, str) and name in ("input", "patch"):
            texts += _PATCHED.findall(value) or ([] if fields else [value])
    found = {ending.lower() for text in texts if "." in text for ending in _EXTENSION.findall(text)}
    if not found:
        return frozenset()
    return frozenset(kind for kind, endings in rules.files.items() if found & endings)


@cache
def _read_programs() -> _Programs:
    table = dict(read_taxonomy().programs)
    neutral = frozenset(table.pop("neutral"))
    order = msgspec.convert(table.pop("order"), tuple[Meaning, ...])
    keeping = frozenset(table.pop("keeping"))
    meanings = {name: one for one in order for name in table.get(one, ())}
    return _Programs(order, meanings, neutral, keeping)


@cache
def read_taxonomy() -> TaxonomyTable:
    """Return the words and weights of `taxonomy.toml`, read at the first use."""
    return read_table("taxonomy.toml", TaxonomyTable)


class WorkKind(Struct, frozen=True):
    """The kind of work of a session, in the two views of the reports."""

    task_type: TaskType
    category: Category


class Sides(Struct, frozen=True):
    """The side of a call in each view, None for no side, and the kinds of files that it names."""

    task_type: str | None
    category: str | None
    files: frozenset[str] = frozenset()


def classify_session(messages: Iterable[object]) -> WorkKind:
    """Return the kind of work in OpenAI chat messages.

    >>> asked = {"id": "c1", "function": {"name": "Bash", "arguments": '{"command": "pytest -q"}'}}
    >>> classify_session([{"role": "assistant", "tool_calls": [asked]}])
    WorkKind(task_type='code', category='coding')
    """
    entries = read_entries(list_own(messages))
    return classify_calls((call.tool, call.arguments) for one in entries for call in one.calls)


def classify_calls(calls: Iterable[tuple[str, object]]) -> WorkKind:
    """Return the kind of work of tool calls, each a tool with its arguments.

    A command is code whatever it does, and so is work on files if commands are run as well and most
    of the files are source. Calls without a side (a plan, a thought) are left out.
    """
    sides = (take_sides(understand_call(tool, arguments)) for tool, arguments in calls)
    return judge_sides(Counter(sides))


def take_sides(call: Understood) -> Sides:
    """Return the side of a call in each view, and the kinds of files that it names."""
    view = read_taxonomy().views.get(call.meaning)
    if view is None:
        return Sides("mixed", "general", call.files)
    is_command = view.task_type == "file" and call.command
    return Sides("code" if is_command else view.task_type, view.category, call.files)


def judge_sides(counts: Mapping[Sides, int]) -> WorkKind:
    """Return the kind of work, from the number of calls on each side."""
    types: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for sides, count in counts.items():
        if sides.task_type:
            types[sides.task_type] += count
        if sides.category:
            categories[sides.category] += count
        files.update(dict.fromkeys(sides.files, count))
    if types["code"] and files["source"] > files["document"]:
        types["code"] += types.pop("file", 0)
    return WorkKind(
        _find_dominant(types, ("code", "file", "research"), "task_type") or "mixed",
        _find_dominant(categories, ("coding", "ops", "research"), "category") or "general",
    )


def _find_dominant(counts: Counter[str], names: tuple[_Name, ...], view: str) -> _Name | None:
    best = max(names, key=lambda name: counts[name])
    percent = read_taxonomy().dominance_percent[view]
    return best if 100 * counts[best] > percent * counts.total() else None
