"""Things that need a person: budgets, alarms, failing jobs, spirals, missing outcomes …"""

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from relight.errors import as_typed
from relight.reports.runs import JobReport
from relight.store import Store
from relight.store.candidates import count_candidates
from relight.store.queries.costs import UnpricedModel, read_unpriced_models
from relight.store.queries.filters import Filter
from relight.store.queries.health import read_set_aside_pieces
from relight.store.queries.listing import count_unlabelled
from relight.text import count, dollars, plural

if TYPE_CHECKING:
    from relight.reports.spirals import NamedSpiral

NeedKind = Literal[
    "budget", "alarm", "canary", "job", "spiral", "outcome", "price", "file", "candidate"
]


class Need(Struct, frozen=True, kw_only=True):
    """One thing that needs a person: its title, the reason, and the command that shows more.

    `name` is the job, session or model that it is about; None if it is about several. `turns` are
    those without a price, if that is the need.
    """

    kind: NeedKind
    title: str
    reason: str
    command: str
    name: str | None = None
    turns: int | None = None


def find_needs(
    store: Store,
    chosen: Filter,
    jobs: Sequence[JobReport],
    *,
    spirals: "Sequence[NamedSpiral]",
    unknown: int | None = None,
) -> list[Need]:
    """Return all that needs a person in a part of the record, the most urgent first.

    `unknown` is the number of sessions without an outcome, if it has been counted already.

    A kind of need is one function here and one row in the dashboard's table of actions.
    """
    return [
        *_find_budgets(store),
        *_find_alarms(store),
        *_find_canaries(store),
        *find_failing_jobs(jobs),
        *map(_show_spiral, spirals),
        *_find_unlabelled(store, chosen, unknown),
        *_find_unpriced(store, chosen),
        *_find_set_aside(store),
        *_find_candidates(store),
    ]


def describe_needs(needs: Sequence[Need]) -> list[str]:
    """Return one line for each kind of need, with the command that shows more.

    The number of turns without a price is that of all models, and `relight doctor` says how to set
    one; other reasons are the first one's.
    """
    lines = []
    for kind, found in groupby(needs, key=lambda one: one.kind):
        first, *others = found
        command = as_typed("relight doctor") if kind == "price" else first.command
        words = f"{first.title}: {first.reason}"
        more = f" (and {len(others):,} more)" if others else ""
        if kind in ("outcome", "candidate"):  # a title that counts says all
            words = first.title
        elif kind == "price" and others:
            turns = sum(one.turns or 0 for one in (first, *others))
            words, more = f"{first.title}{more}: {_explain_price(turns)}", ""
        lines.append(f"{words.removesuffix('.')}{more}: {command}")
    return lines


def _find_budgets(store: Store) -> list[Need]:
    """Return the budgets that are over or projected over."""
    if not store.has_rows("budget"):
        return []
    from relight.reports.budgets import describe_budget, describe_scope, read_budgets

    return [
        Need(
            kind="budget",
            title=f"{dollars(one.limit_usd)} a {one.period} for {describe_scope(one.scope)}",
            reason=describe_budget(one),
            command=as_typed("relight budget"),
            name=one.scope,
        )
        for one in read_budgets(store).budgets
        if one.state != "ok"
    ]


def _find_alarms(store: Store) -> list[Need]:
    """Return the alarms that are neither over nor acknowledged."""
    if not store.has_rows("alarm"):
        return []
    from relight.reports.alarms import read_alarms

    return [
        Need(
            kind="alarm",
            title=one.scope.partition(":")[2],
            reason=one.sentence,
            command=as_typed("relight alarms"),
            name=one.scope.partition(":")[2],
        )
        for one in read_alarms(store, is_open=True).alarms
    ]


def _find_canaries(store: Store) -> list[Need]:
    """Return the models on trial that wait for an answer: switch the job, or go back."""
    if not store.has_rows("canary"):
        return []
    from relight.reports.canaries import list_asking

    return [
        Need(
            kind="canary",
            title=one.name,
            reason=one.sentence,
            command=as_typed("relight job canary ") + f"{shlex.quote(one.job)} --{one.asks}",
            name=one.job,
        )
        for one in list_asking(store)
    ]


def find_failing_jobs(jobs: Sequence[JobReport]) -> list[Need]:
    """Return the jobs whose last runs failed; one that is paused fails no more."""
    return [
        Need(
            kind="job",
            title=job.name or job.job,
            reason=job.trouble,
            command=as_typed("relight job history ") + shlex.quote(_call_job(job, jobs)),
            name=job.job,
        )
        for job in jobs
        if job.trouble and job.state != "paused"
    ]


def _call_job(job: JobReport, jobs: Sequence[JobReport]) -> str:
    """Return what to call a job in a command: its name if no other job has the same."""
    is_only = sum(other.name == job.name for other in jobs) == 1
    return job.name if is_only and job.name else job.job


def _show_spiral(one: "NamedSpiral") -> Need:
    cost = dollars(one.cost_usd, unpriced=one.unpriced_turns)
    same = ", the same call" if one.kind == "identical" else ""
    return Need(
        kind="spiral",
        title=one.title or one.session_id,
        reason=f"{cost}: {one.tool} failed {one.count} times{same}",
        command=as_typed("relight show ") + f"{shlex.quote(one.session_id)} --errors",
        name=one.session_id,
    )


def _find_unlabelled(store: Store, chosen: Filter, unknown: int | None) -> list[Need]:
    number = count_unlabelled(store, chosen, unknown)
    if not number:
        return []
    sessions = "1 session has" if number == 1 else f"{count(number)} sessions have"
    return [
        Need(
            kind="outcome",
            title=f"{sessions} no outcome",
            reason="nothing proves how the work ended: one key labels a session",
            command=as_typed("relight label"),
        )
    ]


def _find_unpriced(store: Store, chosen: Filter) -> list[Need]:
    return [
        Need(
            kind="price",
            title=one.model,
            reason=f"{_explain_price(one.turns)}{_explain_local(store, one)}",
            command=as_typed("relight rebuild --prices"),
            name=one.model,
            turns=one.turns,
        )
        for one in read_unpriced_models(store, chosen)
        if one.model is not None
    ]


def _explain_price(turns: int) -> str:
    return f"no price is known: {plural(turns, 'turn')} missing from the cost"


def _explain_local(store: Store, one: UnpricedModel) -> str:
    """The end of a sentence: the one setting that makes local models free."""
    from relight.prices import is_local_model

    if store.config.local_models_are_free or not is_local_model(one.model, one.provider):
        return ""
    return "; local_models_are_free = true makes local models free"


def _find_set_aside(store: Store) -> list[Need]:
    return [
        Need(
            kind="file",
            title=one.part or one.file,
            reason=f"set aside, not recorded: {one.reason}",
            command=as_typed("relight doctor"),
        )
        for one in read_set_aside_pieces(store)
    ]


def _find_candidates(store: Store) -> list[Need]:
    number = count_candidates(store)
    if not number:
        return []
    candidates = "1 candidate waits" if number == 1 else f"{count(number)} candidates wait"
    return [
        Need(
            kind="candidate",
            title=f"{candidates} to be accepted",
            reason="sessions that did well, as templates for new ones; none is used before",
            command=as_typed("relight template list --candidates"),
        )
    ]
