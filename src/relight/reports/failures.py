"""Failed runs and sessions, failed calls by kind, tool and place, their cures, and spirals."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.judging.command_forms import describe_cause
from relight.judging.lessons import find_stumbled
from relight.reports.failed_work import (
    FailedReport,
    FailedWork,
    read_failed_totals,
    read_failed_work,
)
from relight.reports.spirals import NamedSpiral, read_spirals, sum_spirals
from relight.store import Store, stumbles
from relight.store.queries import failures as queries
from relight.store.queries.failures import FAILURE_KEYS, FailureGroup, read_session_names
from relight.store.queries.filters import Filter

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch

MOST = 40
KINDS = ("kind", "tool")


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


class FailureReport(FailedReport, frozen=True, kw_only=True):
    """Failed runs and sessions; failed calls by the keys `by`; spirals, the costliest first.

    `cures` are causes of failed calls, as far as sessions were read for lessons.
    """

    by: list[str]
    failures: list[FailureGroup]
    spirals: list[NamedSpiral]
    cures: list[CauseCure]

    @property
    def is_empty(self) -> bool:
        """True if nothing failed."""
        return not self.failures and not self.causes


class FailuresSince(FailureReport, frozen=True):
    """The failures and spirals of some days; None is no bound."""

    since: str | None
    until: str | None


def read_failures(
    store: Store,
    chosen: Filter,
    by: Sequence[str] = KINDS,
    *,
    slots: Mapping[str, int | None] | None = None,
) -> FailureReport:
    """Return the failures and spirals of a part of the record; `slots` as in `read_failed_work`."""
    keys = check_failure_keys(by)
    found = read_failed_work(store, chosen, slots=slots)
    return FailureReport(
        failed=found.failed,
        causes=found.causes,
        runs=add_burnt(store, found.runs),
        by=keys,
        failures=queries.read_failure_groups(store, chosen, keys),
        spirals=read_spirals(store, chosen),
        cures=read_cures(store, chosen),
    )


def add_burnt(store: Store, failed: Sequence[FailedWork]) -> list[FailedWork]:
    """Return failed runs and sessions with the part of their cost that went into spirals."""
    burnt = sum_spirals(store, [one.session_id for one in failed if one.session_id])
    return [replace(one, burnt_usd=burnt.get(one.session_id or "")) for one in failed]


def check_failure_keys(by: Sequence[str]) -> list[str]:
    """Return the keys that failed calls are grouped by, each once; raise if one is unknown."""
    for key in by:
        if key not in FAILURE_KEYS:
            hint = f"the keys are {', '.join(FAILURE_KEYS)}"
            raise RelightError(f"cannot group failures by {key!r}", hint)
    return list(dict.fromkeys(by)) or list(KINDS)


def explain_no_failure(store: Store, chosen: Filter, *, job: str | None = None) -> "NoMatch":
    """Return why there are no failures; `job` is the name of the filter's jobs."""
    from relight.reports.narrowing import explain_no_match, list_given, make_filter

    def count(given: Mapping[str, str]) -> int:
        part = make_filter(given, jobs=chosen.jobs)
        failed = read_failed_totals(store, part)
        calls = sum(one.failures for one in queries.count_failures_by_day(store, part))
        return failed.runs + failed.sessions + calls

    return explain_no_match(store, "failure", list_given(chosen, job=job), count)
