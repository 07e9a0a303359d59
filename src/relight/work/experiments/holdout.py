"""Warm against cold as sessions came: those held out by chance are what the others are held to."""

from functools import lru_cache
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from relight.errors import MissingError
from relight.store import Store
from relight.warm import results
from relight.warm.library import read_templates
from relight.work.experiments.comparison import EFFECT, Report, compare
from relight.work.experiments.sessions import Session, read_sessions

_PROVISIONS = """
    select case when template_id is null then 'abstained' else arm end, count(*), avg(tokens)
    from provision where experiment_id is null
        and (?1 is null or template_id = (select id from template where name = ?1))
    group by 1
"""


def read_report(
    store: Store, *, template: str | None = None, effect: float = EFFECT, may_retire: bool = True
) -> Report:
    """The experiment so far; templates that it shows to do harm are retired, if they may be."""
    if template is not None and not store.query(
        "select 1 from template where name = ?", (template,)
    ):
        raise MissingError(
            f"there is no template {template!r}", "`relight template list` shows them"
        )
    report = compare_again(tuple(read_sessions(store, template)), effect=effect)
    retired = [
        one.name
        for one in (read_templates(store, with_retired=False) if may_retire else ())
        if results.retire_if_harmful(store, one)
    ]
    return replace(_add_provisions(store, report, template=template), retired=retired)


@lru_cache(maxsize=16)
def compare_again(sessions: tuple[Session, ...], *, effect: float = EFFECT) -> Report:
    """The arms compared, which takes a while: the same sessions need it only once."""
    return compare(sessions, effect=effect)


def _add_provisions(store: Store, report: Report, *, template: str | None = None) -> Report:
    """A report with how many sessions began how, and what the warm ones were given."""
    rows = store.query(_PROVISIONS, (template,))
    counts = {"warm": 0, "cold": 0, "abstained": 0} | {arm: count for arm, count, _ in rows}
    given = {arm: mean for arm, _, mean in rows}.get("warm")
    return replace(report, provisions=counts, injected_tokens=given)


def as_json(report: Report) -> dict[str, Any]:
    shown: dict[str, Any] = to_builtins(report)
    return shown
