"""What the fields of a JSON result tell: errors, flags, statuses, never the words beside them."""

from collections.abc import Mapping
from typing import Any

from relight.judging.verdicts.phrases import tell_error
from relight.judging.verdicts.results import read_flag, read_result, say
from relight.judging.verdicts.rules import read_rules
from relight.model import Verdict

_EMPTY = frozenset(("", "none", "null", "false", "no", "0", "ok", "n/a"))


def judge_fields(fields: Mapping[str, Any], depth: int = 0) -> Verdict | None:
    """The verdict that the fields of a JSON result give; None if they tell of no failure."""
    names = read_rules().fields
    for name in names.errors:
        if name in fields and (said := _read_complaint(fields[name])) is not None:
            return tell_error(None, said)
    for name in names.successes:
        if name in fields and read_flag(fields[name]) is False:
            return tell_error(None, _read_message(fields) or f"{name}: false")
    for name in names.statuses:
        if name in fields and _is_bad_status(fields[name], fields):
            said = _read_message(fields)
            return tell_error(None, f"{name}: {fields[name]}" + (f", {said}" if said else ""))
    if depth:
        return None
    if len(fields) == 1 and (said := _read_lone(*fields.values())):
        return tell_error(None, said)
    inner = fields.get("result")
    if isinstance(inner, str) and inner[:1] == "{":
        inner = read_result(inner).fields
    if isinstance(inner, Mapping):
        return judge_fields(inner, 1)
    parts = fields.get("results")
    if isinstance(parts, list) and parts:
        bad = [judge_fields(part, 1) if isinstance(part, Mapping) else None for part in parts]
        return bad[0] if all(bad) else None
    return None


def _read_complaint(value: object) -> str | None:
    """What the value of an `error` field says, if it says anything.

    Numbers are left alone: they count, or measure.
    """
    if isinstance(value, str):
        return None if value.strip().lower() in _EMPTY else value
    if isinstance(value, Mapping):
        return (_read_message(value) or say(dict(value))) if value else None
    if isinstance(value, list):
        return (_read_complaint(value[0]) or say(value[0])) if value else None
    return "error: true" if value is True else None


def _read_message(fields: Mapping[str, Any]) -> str:
    for name in ("message", "error", "detail", "reason", "msg", "description", "stderr"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _read_lone(value: object) -> str | None:
    """What an object says whose only field is a complaint, under whatever name."""
    if not isinstance(value, str) or not value:
        return None
    rules = read_rules()
    is_bad = value.strip(" .!").lower() in rules.fields.lone_words or rules.first_line.match(value)
    return value.strip().partition("\n")[0] if is_bad else None


def _is_bad_status(value: object, fields: Mapping[str, Any]) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 400 <= value < 600
    if not isinstance(value, str):
        return False
    names, word = read_rules().fields, value.lower()
    if word in names.error_words:
        return True
    return word in names.weak_error_words and not any(
        name == "id" or say(name).endswith(("_id", "Id")) for name in fields
    )
