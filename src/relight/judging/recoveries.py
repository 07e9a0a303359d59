"""Calls that worked soon after a failed one, and what was different then."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.judging.command_forms import (
    PATH,
    CommandLine,
    Form,
    is_own_word,
    read_table,
    share_targets,
)
from relight.judging.edits import HEAD, take_argument

NEAR_CALLS = 8  # calls of the same tool after a failure in which a recovery is looked for


class TriedCall(Struct, frozen=True, kw_only=True):
    """A tool call of a session with its verdict; `step` is its number in the session."""

    step: int
    tool: str
    arguments: object
    result: str
    label: str
    kind: str | None = None
    evidence: str | None = None
    turn: int | None = None
    cost_nanos: int | None = None


class Stumble(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed call: its cause, the program, and what was different when it worked.

    `calls` counts the calls from the failure to the recovery. `cure` is None if nothing worked
    soon after, or if what worked is the session's own affair.
    """

    kind: str
    name: str
    program: str
    # the program with its flags
    form: str
    step: int
    calls: int = 1
    is_recovered: bool = False
    is_own_program: bool = False
    cure: str | None = None
    cost_nanos: int | None = None
    # set where stumbles of a session and its sub-agents are together
    session_id: int | None = None


class ReadCall(Struct):
    """A call with its command line, and the names that the session had made until then."""

    call: TriedCall
    line: CommandLine | None
    # the program that the call is about
    form: Form | None
    own: frozenset[str]
    gone: frozenset[str]
    made: tuple[str, ...]


def recover(stumble: Stumble, seen: Sequence[ReadCall], place: int) -> Stumble:
    """Return the stumble with what worked after it."""
    failed = seen[place]
    left = NEAR_CALLS
    for later in range(place + 1, len(seen)):
        one = seen[later]
        if one.call.tool != failed.call.tool:
            continue
        left -= 1
        if left < 0:
            break
        if one.call.label not in ("ok", "negative"):
            continue
        form = _find_same(stumble, failed, one)
        if form is None and not _is_same_tool_use(failed, one):
            continue
        between = seen[place : later + 1]
        return msgspec.structs.replace(
            stumble,
            calls=later - place,
            is_recovered=True,
            cure=_find_cure(stumble, failed, one, form, between),
            cost_nanos=_add_costs([each.call for each in between[:-1]]),
        )
    return stumble


def _find_same(stumble: Stumble, failed: ReadCall, later: ReadCall) -> Form | None:
    """The program of a later call that is about the same as the failed one."""
    if failed.form is None or later.line is None:
        return None
    looking = read_table().commands.looking
    is_looking = failed.form.program.split(" ")[0] in looking
    for form in reversed(later.line.forms):
        if not is_looking and form.program.split(" ")[0] in looking:
            continue  # to read or delete the file is no other way to run it
        if form.program in read_table().commands.around:
            continue
        if share_targets(failed.form, form):
            return form
        if _has_found(stumble, form):
            return form
    return None


def _has_found(stumble: Stumble, form: Form) -> bool:
    """True if what was missing is there, by another way to run it."""
    return stumble.kind == "missing" and form.program.rpartition(" ")[2] == stumble.name


def _is_same_tool_use(failed: ReadCall, later: ReadCall) -> bool:
    """True if a tool with named arguments is used about the same thing."""
    if failed.form is not None or later.form is not None:
        return False
    before, after = (find_paths(one.call.arguments) for one in (failed, later))
    return bool(before & after) or not before


def _find_cure(
    stumble: Stumble,
    failed: ReadCall,
    later: ReadCall,
    form: Form | None,
    between: Sequence[ReadCall],
) -> str | None:
    """Return the difference when it worked, in words; None without one, or if only files differ."""
    if form is None or failed.form is None or failed.line is None or later.line is None:
        return _find_tool_cure(failed, later, between)
    if form.program != failed.form.program and not form.is_own:
        if failed.form.program.startswith(f"{stumble.name} ") and stumble.kind == "missing":
            return f"`{form.program.split(' ')[0]}`"
        if _has_found(stumble, form):
            return f"`{form.program} {PATH}`" if PATH in failed.form.text else f"`{form.program}`"
        return f"`{form.text}`"
    if step := _find_step(stumble.name, failed.form, form, between):
        return f"`{step}` first"
    if new := [one for one in later.line.settings if one not in failed.line.settings]:
        return f"with `{new[0]}`"
    if later.line.folder and later.line.folder != failed.line.folder:
        folder = later.line.folder
        if not folder.startswith(("/", "~", "$", "..")) and folder not in failed.own:
            return f"in `{folder}`"
    if form.text != failed.form.text and not form.is_own:
        return f"`{form.text}`"
    if stumble.kind in ("missing", "no_path", "cannot_import"):
        made = _find_other_files(failed, between)
        return f"make `{made}`" if made else None
    return None


def _find_step(name: str, failed: Form, later: Form, between: Sequence[ReadCall]) -> str | None:
    """The command that installed, built or started what was needed: one with its name, or the last.

    A step in the very command that worked counts as well.
    """
    steps = read_table().steps
    found = [
        form.whole
        for one in between[1:]
        if one.line and one.call.label != "error"
        for form in one.line.forms
        if form is not later and form.text != failed.text and steps.match(form.text)
    ]
    return next((one for one in found if name and name in one), found[-1] if found else None)


def _find_other_files(failed: ReadCall, between: Sequence[ReadCall]) -> str | None:
    """A file or folder that was made before it worked, other than the failed script itself."""
    targets = {PurePosixPath(one).name for one in (failed.form.targets if failed.form else ())}
    names = [
        PurePosixPath(path).name
        for one in between
        # a call that makes files, and does not only change them
        if one.line or take_argument(read_arguments(one.call.arguments) or {}, "old") is None
        for path in one.made
        if one.call.label != "error"
    ]
    fixed = [name for name in names if name not in targets and name and not is_own_word(name, ())]
    return "__init__.py" if "__init__.py" in fixed else next(iter(fixed), None)


def _find_tool_cure(failed: ReadCall, later: ReadCall, between: Sequence[ReadCall]) -> str | None:
    before, after = (set(read_arguments(one.call.arguments) or {}) for one in (failed, later))
    if new := sorted(after - before):
        return f"with `{new[0]}`"
    others = [one.call.tool for one in between[1:-1] if one.call.label == "ok"]
    return f"`{others[-1]}` first" if others and others[-1] != later.call.tool else None


def find_paths(arguments: object) -> set[str]:
    """The files that a call without a command is about."""
    path = take_argument(read_arguments(arguments) or {}, "path")
    patched = [found[2] for found in HEAD.finditer(str(arguments))]
    return {one for one in (path, *patched) if isinstance(one, str) and one}


def _add_costs(calls: Sequence[TriedCall]) -> int | None:
    """The known cost of the turns of these calls; each turn is paid for once."""
    turns = {
        (one.turn if one.turn is not None else -place - 1): one.cost_nanos
        for place, one in enumerate(calls)
    }
    known = [cost for cost in turns.values() if cost is not None]
    return sum(known) if known else None
