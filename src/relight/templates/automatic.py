"""Templates made by themselves: of recorded sessions that clear a high bar."""

from collections.abc import Sequence

from msgspec import Struct

from relight.errors import RelightError
from relight.scores import read_weights
from relight.scoring import score_session
from relight.store import Store
from relight.templates.capture import (
    find_failed_rules,
    make_template,
    read_material,
    refuse_duplicate,
    retire_weakest,
)
from relight.templates.library import Template, add_version

FAILURE_RATE = 0.05
LEAST_CALLS = 5
LOOKED_AT = 200
# Known successes whose calls hardly ever failed, the newest first; made of before are left out.
_CANDIDATES = """
    select session.id, source || ':' || key,
        (select count(*) from tool_call where session_id = session.id) as calls,
        (select count(*) from tool_call where session_id = session.id and label = 'error')
    from session
    where outcome = 'success' and root_id = session.id and is_frozen = 0
        and not exists (
            select 1 from template_version where source_session = source || ':' || key)
    order by started_at desc, session.id
"""


class Candidate(Struct, frozen=True):
    """A session that could become a template: the template, or why not."""

    session: str
    template: Template | None
    reason: str


def capture_candidates(
    store: Store, *, dry_run: bool = False, tags: Sequence[str] = (), limit: int = 20
) -> list[Candidate]:
    """Make templates of the sessions that clear the bar; with `dry_run`, tell which they are."""
    found: list[Candidate] = []
    made = looked_at = 0
    for session_id, name, calls, failures in store.query(_CANDIDATES):
        if calls < LEAST_CALLS or failures > FAILURE_RATE * calls:
            continue
        looked_at += 1
        if made >= limit or looked_at > LOOKED_AT:
            break
        try:
            template = _make(store, session_id, tags)
            if not dry_run:
                template = add_version(store, template)
                retire_weakest(store, template)
            made += 1
            found.append(Candidate(name, template, "clears the bar"))
        except RelightError as error:
            found.append(Candidate(name, None, error.message))
    return found


def _make(store: Store, session_id: int, tags: Sequence[str]) -> Template:
    material = read_material(store, session_id)
    score = score_session(material.messages, calls=material.calls, weights=read_weights(store))
    if failed := find_failed_rules(score, material):
        raise RelightError(failed[0])
    template = make_template(store, material, score, tags=[*tags, "auto"])
    refuse_duplicate(store, template)
    return template
