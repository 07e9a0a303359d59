"""Sentences about a pair of models: counts first, then the interval, then what is still needed."""

from collections.abc import Sequence

from relight.errors import as_typed
from relight.reports.comparison.pairing import (
    MOST_UNKNOWN,
    WIDE_MARGIN,
    JobPair,
    Pairing,
    list_shared,
)
from relight.text import dollars, join_words, plural

MANY_RUNS, MANY_DAYS = 1000, 90
SHOWN_JOBS = 5
LISTED_JOBS = 3  # with their counts in the sentence; more are in the table
WIDEST = 0.6  # the end of the grid of differences
EVIDENCE = {
    "seen": "Seen, not tested: the models were not dealt at random.",
    "dealt": "Its runs were dealt at random.",
}


def describe_pair(pair: Pairing, what: str, *, margin: float) -> str:
    """Return the sentences on one pair; `what` is the skill or the job."""
    if pair.verdict == "good enough":
        return _describe_good(pair, what, margin)
    if pair.verdict == "worse":
        how = EVIDENCE[pair.evidence]
        return f"{name_model(pair.model)} does worse at {what}: {_settled(pair)}. {how}"
    if pair.reason == "different jobs":
        return _describe_different(pair, what)
    if pair.reason == "unknown outcomes":
        return _describe_unknown(pair, what)
    if pair.reason == "opposite jobs":
        return _describe_opposite(pair, what)
    return _describe_open(pair, what, margin)


def _describe_good(pair: Pairing, what: str, margin: float) -> str:
    exceptions = [job.name for job in list_shared(pair.jobs) if job.is_exception]
    but = f", except in {join_words(exceptions)}" if exceptions else ""
    saving = pair.saving_month_usd
    wide = ""
    if pair.low is not None and pair.low < -margin:
        wide = (
            " The interval is wider than the margin, since it bounds every difference at every"
            f' look; the verdict weighs "as good" against "{format_points(margin)} worse".'
        )
    parts = [
        f"{name_model(pair.model)} is good enough for {what}, within {format_points(margin)}{but}:"
        f" {_settled(pair)}.{wide}",
        EVIDENCE[pair.evidence],
    ]
    if pair.is_cheaper is None:
        parts.append("Whether it is cheaper is unknown.")
    elif saving is not None and saving > 0:
        parts.append(f"It saves {dollars(saving)} a month.")
    return " ".join(parts)


def _describe_open(pair: Pairing, what: str, margin: float) -> str:
    start = f"Cannot tell yet whether {name_model(pair.model)} is good enough for {what}"
    return f"{start}: {_counts(pair)}. {_interval(pair)} {_describe_need(pair, margin)}"


def _describe_need(pair: Pairing, margin: float) -> str:
    """Return how many runs are still needed and how long they take, if the model is as good."""
    model, other = name_model(pair.model), name_model(pair.against)
    wide = pair.wide_runs
    if pair.more_runs is not None and not is_long(pair):
        runs = "run shows" if pair.more_runs == 1 else "runs show"
        text = (
            f"If {model} is as good as {other}, about {pair.more_runs:,} more {runs} it within"
            f" {format_points(margin)}{_describe_time(pair)}"
        )
        if wide is not None and wide < pair.more_runs:
            text += f"; {_describe_wide(wide)}"
        return f"{text}."
    runs = "over 20,000" if pair.more_runs is None else f"about {pair.more_runs:,}"
    successes = pair.successes + pair.against_successes
    rate = successes / (successes + pair.failures + pair.against_failures)
    text = (
        f"Models {format_points(margin)} apart are hard to tell here: at {rate:.0%} success"
        f" it takes {runs} more runs of {model} to show that it is as good{_describe_time(pair)}."
    )
    if pair.share == 1:
        text += f" Runs of {model} alone do not help: {other} has not run in the last 30 days."
    if wide is not None:
        text += f" {_describe_wide(wide).capitalize()}: `--margin {WIDE_MARGIN * 100:.0f}`."
    return text


def _describe_wide(runs: int) -> str:
    if runs == 0:
        return "within 10 points it is shown already"
    return f"within 10 points {runs:,} {'run shows' if runs == 1 else 'runs show'} it"


def is_long(pair: Pairing) -> bool:
    """True if the runs that are still needed are too many to wait for."""
    if pair.reason != "few runs":
        return False
    is_often = pair.more_runs is None or pair.more_runs > MANY_RUNS
    return is_often or (pair.more_days or 0) > MANY_DAYS


def _describe_time(pair: Pairing) -> str:
    if pair.more_days is None:
        return ""
    if pair.more_days > 2 * 365:
        return f", {pair.more_days / 365:.0f} years at this pace"
    return f", {plural(pair.more_days, 'day')} at this pace (until {pair.until})"


def _describe_different(pair: Pairing, what: str) -> str:
    model, other = name_model(pair.model), name_model(pair.against)
    alone = [job for job in pair.jobs if job.runs and not job.against_runs]
    shared = f" Together they ran {_list_jobs(both)}." if (both := _common(pair)) else ""
    runs, of = sum(job.runs for job in alone), sum(job.runs for job in pair.jobs)
    listed = ", ".join(f"{job.name}: {job.runs:,}" for job in alone[:SHOWN_JOBS])
    more = f" and {len(alone) - SHOWN_JOBS} more" if len(alone) > SHOWN_JOBS else ""
    return (
        f"{model} and {other} cannot be compared at {what}: the models ran different jobs."
        f" {runs:,} of {model}'s {of:,} runs are in jobs that {other} never ran"
        f" ({listed}{more}).{shared} Nothing can be said about the model."
    )


def _describe_unknown(pair: Pairing, what: str) -> str:
    common = _common(pair)
    ours = _share_unknown([(job.unknown, job.runs) for job in common])
    theirs = _share_unknown([(job.against_unknown, job.against_runs) for job in common])
    hint = as_typed("`relight label` sets an outcome")
    return (
        f"{name_model(pair.model)} cannot be judged at {what}: the outcome of {ours} runs is"
        f" unknown ({name_model(pair.against)}: {theirs}). A verdict needs at most"
        f" {MOST_UNKNOWN:.0%} unknown and shares within 10 points of each other; {hint}."
    )


def _share_unknown(pairs: Sequence[tuple[int, int]]) -> str:
    return f"{sum(one for one, _ in pairs):,} of {sum(of for _, of in pairs):,}"


def _describe_opposite(pair: Pairing, what: str) -> str:
    shared = list_shared(pair.jobs)
    good = [job for job in shared if job.verdict == "good enough"]
    worse = [job for job in shared if job.verdict == "worse"]
    return (
        f"At {what} {name_model(pair.model)} does as well as {name_model(pair.against)} in"
        f" {_list_jobs(good)} and worse in {_list_jobs(worse)}: there is no one answer."
        f" By job: {_count_jobs(pair, [*good, *worse][:SHOWN_JOBS])}."
    )


def _common(pair: Pairing) -> list[JobPair]:
    return [job for job in pair.jobs if job.runs and job.against_runs]


def _list_jobs(jobs: Sequence[JobPair]) -> str:
    names = [job.name for job in jobs]
    more = [f"{len(names) - SHOWN_JOBS} more"] if len(names) > SHOWN_JOBS else []
    return join_words([*names[:SHOWN_JOBS], *more])


def _counts(pair: Pairing) -> str:
    """Return the counts of both models; of few jobs, by job."""
    shared = list_shared(pair.jobs)
    if 1 < len(shared) <= LISTED_JOBS:
        return _count_jobs(pair, shared)
    ours, theirs = _count_both(pair)
    where = f" in {len(shared)} jobs" if len(shared) > 1 else ""
    return f"{ours} succeeded{where} ({name_model(pair.against)}: {theirs})"


def _settled(pair: Pairing) -> str:
    """Return the counts of a settled pair and its interval."""
    if len(list_shared(pair.jobs)) > 1:
        return f"{_counts(pair)}; job by job it is {_bound(pair)}"
    ours, theirs = _count_both(pair)
    return f"{ours} succeeded, {name_model(pair.against)} {theirs} ({_bound(pair)})"


def _count_jobs(pair: Pairing, jobs: Sequence[JobPair]) -> str:
    other = name_model(pair.against)
    counts = [(job.name, *_count_both(job)) for job in jobs]
    return ", ".join(f"{ours} in {name} ({other}: {theirs})" for name, ours, theirs in counts)


def _count_both(one: Pairing | JobPair) -> tuple[str, str]:
    ours = count_of(one.successes, one.failures)
    return ours, count_of(one.against_successes, one.against_failures)


def count_of(successes: int, failures: int) -> str:
    """Return a count of successes.

    >>> count_of(1000, 50)
    '1,000 of 1,050'
    """
    return f"{successes:,} of {successes + failures:,}"


def _interval(pair: Pairing) -> str:
    assert pair.low is not None
    assert pair.high is not None
    how = "Job by job, the" if len(list_shared(pair.jobs)) > 1 else "The"
    least = f"{_signed(pair.low)}{' or less' if pair.low <= -WIDEST else ''}"
    return f"{how} difference lies between {least} and {_signed(pair.high)} points."


def _bound(pair: Pairing) -> str:
    """Return the interval of a settled pair in words."""
    assert pair.low is not None
    assert pair.high is not None
    if pair.high < 0:
        return f"at least {format_points(-pair.high)} worse"
    if pair.low > 0:
        return f"at least {format_points(pair.low)} better"
    return f"between {format_points(-pair.low)} worse and {pair.high * 100:.0f} better"


def _signed(value: float) -> str:
    return f"{value * 100:+.0f}".replace("-", "−") if value else "0"


def format_points(value: float) -> str:
    """Return a share in points.

    >>> format_points(0.05)
    '5 points'
    """
    return f"{round(value * 100, 1):g} point{'' if round(value * 100, 1) == 1 else 's'}"


def name_model(model: str | None) -> str:
    """Return a model's name in a sentence."""
    return model or "an unknown model"
