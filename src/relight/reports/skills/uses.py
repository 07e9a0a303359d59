"""Uses of skills: recorded by the programs that run them, and added up by day and model."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import UNSET, Struct

from relight import errors
from relight.errors import ParameterError
from relight.model import row_id
from relight.redact import redact_text
from relight.sources import list_sources
from relight.store import Store
from relight.store.derive.pricing import learn
from relight.store.derive.skills import facts
from relight.store.derive.skills import uses as invocations
from relight.store.derive.skills.facts import SkillFact, Values
from relight.store.queries.skills import SkillUseDay, find_session_roots
from relight.times import LATEST_MS, take_time

WAYS = ("cron", "tool", "slash", "preload", "auto")
STATUSES = ("reported", "estimated", "included", "unknown")
# limits of one use; so no sum comes near the 9.2 billion dollars that 64 bits hold
MOST_USD, MOST_TOKENS = 10**6, 10**12
# for `invoked_at`: the known time of a session's use, else now
AS_KNOWN = UNSET


def _check_success(name: str, value: object) -> int:
    if not isinstance(value, bool):
        raise errors.refuse(
            name, f"must be True, False or None for unknown, not {errors.describe(value)}"
        )
    return int(value)


_check_tokens = partial(errors.check_count, most=MOST_TOKENS)
_check_share = partial(errors.check_number, least=0, most=1)
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "job_id": errors.check_text,
    "skill_version": errors.check_text,
    "completed_at": take_time,
    "model": errors.check_text,
    "provider": errors.check_text,
    "duration_seconds": partial(errors.check_number, least=0, most=LATEST_MS // 1000),
    "input_tokens": _check_tokens,
    "output_tokens": _check_tokens,
    "cache_read_tokens": _check_tokens,
    "cache_write_tokens": _check_tokens,
    "cost_usd": partial(errors.check_number, least=0, most=MOST_USD),
    "cost_status": partial(errors.check_choice, choices=STATUSES),
    "cost_source": errors.check_text,
    "success": _check_success,
    "end_reason": errors.check_text,
    "quality_score": _check_share,
    "share": _check_share,
}


def record_skill_invocation(
    store: Store,
    *,
    skill_name: str,
    invoked_at: object,
    session_id: str | None = None,
    job_id: str | None = None,
    skill_version: str | None = None,
    completed_at: object = None,
    entry: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    duration_seconds: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    cache_read_tokens: int | None = None,
    cache_write_tokens: int | None = None,
    cost_usd: float | None = None,
    cost_status: str | None = None,
    cost_source: str | None = None,
    success: bool | None = None,
    end_reason: str | None = None,
    quality_score: float | None = None,
    share: float | None = None,
) -> int:
    """Record one use of a skill, and return its id.

    With a `session_id` there is one row per session, skill and `entry`: a later call replaces the
    values it gives and leaves the others. The session's own records fill in the values that were
    never given, in either order; without an `entry` it is the use that they show, if they show
    one. `share` is the use's part of its session, by default the whole.
    """
    given = locals()
    skill = redact_text(errors.check_text("skill_name", skill_name), key=store.redaction_key)
    name = None if session_id is None else errors.check_text("session_id", session_id)
    way = None if entry is None else errors.check_choice("entry", entry, WAYS)
    values = {
        field: check(field, given[field])
        for field, check in CHECKS.items()
        if given[field] is not None
    }
    if "end_reason" in values:
        values["end_reason"] = redact_text(values["end_reason"], key=store.redaction_key)
    if invoked_at is not AS_KNOWN:
        values["invoked_at"] = take_time("invoked_at", invoked_at)
    cost = values.pop("cost_usd", None)
    if cost is not None and cost_status != "unknown":
        values["cost_nanos"] = round(cost * 1e9)
    # the latest possible start of a use whose start is unknown
    begun_at = min(int(time.time() * 1000), values.get("completed_at", LATEST_MS))
    with store.transaction() as database:
        if name is None:
            _check_together(values)
            return invocations.record_alone(database, skill, way, values, begun_at=begun_at)
        full_name, root_id = _find_session(store, name)
        fact = SkillFact(session_id=full_name, skill_name=skill, entry=way, values=values)
        learn(database, [fact.values.get("model")], store.config.models.aliases)
        kept = facts.write_fact(database, fact)
        _check_together(kept.values)
        return invocations.record_use(database, kept, root_id, begun_at=begun_at)


def _find_session(store: Store, name: str) -> tuple[str, int | None]:
    """Return the session's full name and root if it is recorded, else the name as given."""
    source, _, key = name.partition(":")
    ids = {
        row_id("session", source, key),
        *(row_id("session", one, name) for one in list_sources()),
    }
    found = find_session_roots(store, ids)
    if len(found) > 1:
        names = ", ".join(found)
        raise errors.refuse("session_id", f"{name!r} is of several sessions", f"say one of {names}")
    return next(iter(found.items()), (name, None))


def _check_together(values: Values) -> None:
    """Raise if values that were recorded together or before contradict each other."""
    if values.get("completed_at", LATEST_MS) < values.get("invoked_at", 0):
        raise ParameterError(
            "completed_at is before invoked_at",
            "give both in the same time zone",
            names=["completed_at", "invoked_at"],
        )
    status = values.get("cost_status")
    if status in ("reported", "estimated") and "cost_nanos" not in values:
        raise ParameterError(
            f"cost_status is {status!r}, but there is no cost_usd",
            names=["cost_status", "cost_usd"],
        )


class RecordedUse(Struct, frozen=True):
    """The number of a use of a skill."""

    id: int


class SkillUseDays(Struct, frozen=True):
    """The uses of skills by day and model between two days."""

    since: str | None
    until: str | None
    rows: list[SkillUseDay]
