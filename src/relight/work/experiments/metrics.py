"""The metrics of experiments, one row each, and the sessions they are read from.

Messages that Relight injected are not counted in a session's figures.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.model import WHOLE_TOKENS
from relight.stats.rates import Estimate
from relight.store import Store, experiments
from relight.store.experiments import DealtFilter, DealtSession
from relight.store.provisions import read_forks
from relight.text import align, count, dollars, seconds, share
from relight.work.jobs.spending import sum_known

FIRST_CALLS = 30


class ArmSession(Struct, frozen=True, kw_only=True):
    """One session of an arm, measured by its own calls."""

    arm: str
    outcome: bool | None
    calls: int
    judged_first: int
    failed_first: int
    failures: int
    tools: int
    # until the first call that worked, else until the end
    seconds: float | None
    has_success: bool
    cost_usd: float | None
    output_tokens: int | None
    # fresh, cached and answered
    tokens: int | None = None
    # of all model calls with a known time
    model_seconds: float = 0.0
    timed_calls: int = 0
    # calls of tools that do not exist
    missing_tools: int = 0
    # the share held out when it was dealt; None if it is unknown
    hold_out: float | None = None
    # True if it failed by the cause of a lesson that it was dealt; None if that is unknown
    is_hit: bool | None = None


class RunSide(Struct, frozen=True):
    """One run of a pair, with its outcome and its session."""

    run: experiments.TrialRun
    outcome: bool | None
    session: ArmSession | None


# a sum and the number of items in it
Ratio = tuple[float, float]


class ArmMetric(Struct, frozen=True, kw_only=True):
    """One metric: its name in JSON, its title, how to read, format and judge it.

    A metric without `read_session` is not in the report of sessions, one without `read_run` not in
    that of runs. `holdout.py` computes success, early failures and time to success itself.
    `more_is_better` is None if it has no goal. `warning` is set if it must not get worse
    while something else gets better.
    """

    name: str
    title: str
    format: Callable[[float], str]
    more_is_better: bool | None = False
    read_session: Callable[[ArmSession], Ratio | None] | None = None
    read_run: Callable[[RunSide], float | None] | None = None
    warning: str | None = None

    def format_difference(self, found: Estimate) -> str:
        """Return a difference with its sign and interval; shares in points, at most 100."""
        if found.value is None:
            return "–"
        figures = [one for one in (found.value, found.low, found.high) if one is not None]
        write = align(self.format, map(abs, figures))
        signed = [
            ("−" if one < 0 else "+")
            + (f"{min(abs(one), 1) * 100:.1f}" if self.format is share else write(abs(one)))
            for one in figures
        ]
        text = signed[0] + (" points" if self.format is share else "")
        return f"{text} ({signed[1]} to {signed[2]})" if len(signed) == 3 else text


def read_success(one: ArmSession) -> float | None:
    """Return 1 for a success and 0 for a failure; None if the outcome is unknown."""
    return None if one.outcome is None else float(one.outcome)


def read_early_failures(one: ArmSession) -> float | None:
    """Return the failed share of a session's first judged calls; None if it has none."""
    return one.failed_first / one.judged_first if one.judged_first else None


def read_hit(one: ArmSession) -> float | None:
    """Return 1 if a session failed by the cause of a lesson it was dealt, else 0."""
    return None if one.is_hit is None else float(one.is_hit)


def _per_session(value: float | None, *, is_known: object = True) -> Ratio | None:
    return None if value is None or not is_known else (value, 1.0)


def _as_float(value: float | None, *, unit: float = 1.0) -> float | None:
    return None if value is None else value / unit


METRICS = {
    metric.name: metric
    for metric in (
        ArmMetric(
            name="success_rate",
            title="Task success",
            format=share,
            more_is_better=True,
            read_run=lambda side: _as_float(side.outcome),
        ),
        ArmMetric(
            name="first_30_failure_rate",
            title="Failures in the first 30 calls",
            format=share,
            read_run=lambda side: read_early_failures(side.session) if side.session else None,
        ),
        ArmMetric(
            name="seconds_to_first_success",
            title="Time to the first call that worked",
            format=seconds,
        ),
        ArmMetric(
            name="failures_per_session",
            title="Failed calls per session",
            format="{:.2f}".format,
            read_session=lambda one: _per_session(one.failures, is_known=one.calls),
        ),
        ArmMetric(
            name="tools_per_session",
            title="Different tools per session",
            format="{:.2f}".format,
            more_is_better=None,
            read_session=lambda one: _per_session(one.tools, is_known=one.calls),
        ),
        ArmMetric(
            name="tokens_per_session",
            title="Tokens per session",
            format=count,
            read_session=lambda one: _per_session(one.tokens),
            warning="warm sessions use more tokens",
        ),
        ArmMetric(
            name="cost_usd_per_session",
            title="Cost per session",
            format=dollars,
            read_session=lambda one: _per_session(one.cost_usd),
            warning="warm sessions cost more",
        ),
        ArmMetric(
            name="seconds_per_model_call",
            title="Time per model call",
            format=seconds,
            read_session=lambda one: (
                (one.model_seconds, one.timed_calls) if one.timed_calls else None
            ),
            warning="model calls of warm sessions take longer",
        ),
        ArmMetric(
            name="missing_tools_per_session",
            title="Calls of missing tools",
            format="{:.2f}".format,
            read_session=lambda one: _per_session(one.missing_tools, is_known=one.calls),
            warning="warm sessions call more tools that are not there",
        ),
        ArmMetric(
            name="failures_per_run",
            title="Failed calls per run",
            format="{:.2f}".format,
            read_run=lambda side: None if side.session is None else float(side.session.failures),
        ),
        ArmMetric(
            name="calls_per_run",
            title="Calls per run",
            format="{:.1f}".format,
            more_is_better=None,
            read_run=lambda side: None if side.session is None else float(side.session.calls),
        ),
        ArmMetric(
            name="tokens_per_run",
            title="Tokens per run",
            format=count,
            read_run=lambda side: _as_float(side.run.tokens),
        ),
        ArmMetric(
            name="cost_usd_per_run",
            title="Cost per run",
            format=dollars,
            read_run=lambda side: _as_float(side.run.cost_nanos, unit=1e9),
        ),
        ArmMetric(
            name="seconds_per_run",
            title="Time per run",
            format=seconds,
            read_run=lambda side: _as_float(side.run.duration_ms, unit=1000),
        ),
    )
}


def read_arm_sessions(
    store: Store, among: DealtFilter = experiments.ALL_DEALT
) -> Iterator[ArmSession]:
    """Yield the sessions that followed provisions with a template, each with its forks."""
    yield from measure_sessions(store, experiments.read_dealt_sessions(store, among))


def measure_sessions(store: Store, dealt: Sequence[DealtSession]) -> Iterator[ArmSession]:
    """Yield sessions of arms in their order, each with its forks."""
    forks = read_forks(store, [one.id for one in dealt])
    calls = experiments.read_dealt_calls(store, [*(one.id for one in dealt), *forks])
    for one in dealt:
        own = list(calls.get(one.id, ()))
        for fork in (fork for fork, root in forks.items() if root == one.id):
            if (more := experiments.find_dealt_session(store, fork, one.arm)) is not None:
                one = _add_fork(one, more)
                own += calls.get(fork, ())
        yield _measure(one, own)


def find_arm_session(store: Store, session_id: int, arm: str) -> ArmSession | None:
    """Return one session as part of an arm, if it is in the store."""
    found = experiments.find_dealt_session(store, session_id, arm)
    if found is None:
        return None
    return _measure(found, experiments.read_dealt_calls(store, [session_id]).get(session_id, []))


def _add_fork(session: DealtSession, fork: DealtSession) -> DealtSession:
    """Return a session with what its fork spent; one unknown cost makes the sum unknown."""
    costs = session.cost_nanos, fork.cost_nanos
    sums = {
        name: sum_known([getattr(session, name), getattr(fork, name)])
        for name in (*WHOLE_TOKENS, "model_ms")
    }
    return replace(
        session,
        cost_nanos=None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
        timed_calls=session.timed_calls + fork.timed_calls,
        **sums,
    )


def _measure(session: DealtSession, calls: Sequence[experiments.DealtCall]) -> ArmSession:
    judged = [one.label for one in calls if one.label in ("ok", "negative", "error")]
    first = judged[:FIRST_CALLS]
    worked = [one.finished_at or one.at for one in calls if one.label in ("ok", "negative")]
    began, ended = session.started_at, worked[0] if worked else session.ended_at
    return ArmSession(
        arm=session.arm,
        outcome={"success": True, "failure": False}.get(session.outcome or ""),
        calls=len(calls),
        judged_first=len(first),
        failed_first=first.count("error"),
        failures=judged.count("error"),
        tools=len({one.tool for one in calls}),
        seconds=None if began is None or ended is None else max(ended - began, 0) / 1000,
        has_success=bool(worked),
        cost_usd=None if session.cost_nanos is None else session.cost_nanos / 1e9,
        output_tokens=session.output_tokens,
        tokens=sum_known(getattr(session, name) for name in WHOLE_TOKENS),
        model_seconds=(session.model_ms or 0) / 1000,
        timed_calls=session.timed_calls,
        missing_tools=sum(one.kind == "tool_not_available" for one in calls),
        hold_out=session.hold_out,
    )
