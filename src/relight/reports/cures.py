"""The causes of failed calls with their usual cures, as far as sessions were read for lessons."""

from collections import Counter

from msgspec import Struct

from relight.judging.lesson_table import describe_cause
from relight.judging.lessons import find_stumbled
from relight.store import Store, stumbles
from relight.store.queries.failures import read_session_names
from relight.store.queries.filters import Filter

MOST = 40


class CauseCure(Struct, frozen=True, kw_only=True):
    """A cause of failed calls and its usual cure; null if none is known.

    `cured` of `count` failures were followed by the cure. The step is the newest failure.
    """

    cause: str
    count: int
    sessions: int
    cure: str | None
    cured: int
    session_id: str
    step: int


def read_cures(store: Store, chosen: Filter) -> list[CauseCure]:
    """Return the causes of failed calls, the most frequent first."""
    hits_by_cause = find_stumbled(stumbles.read_stumbled(store, chosen))
    causes = sorted(
        hits_by_cause.values(), key=lambda hits: -sum(len(hit.stumbles) for hit in hits)
    )[:MOST]
    names = read_session_names(store, {hits[-1].evidence[0] for hits in causes})
    found = []
    for hits in causes:
        some = [one for hit in hits for one in hit.stumbles]
        programs = Counter(one.program for one in some).most_common(1)
        cures = Counter(one.cure for one in some if one.cure)
        cure, cured = cures.most_common(1)[0] if cures else (None, 0)
        session_id, step = hits[-1].evidence
        found.append(
            CauseCure(
                cause=f"`{programs[0][0]}`: {describe_cause(some[0].kind, some[0].name)}",
                count=len(some),
                sessions=len({hit.session.session_id for hit in hits}),
                cure=cure,
                cured=cured,
                session_id=names[session_id],
                step=step,
            )
        )
    return found
