"""Comparisons of models: `job compare`, its options, and the tables it shares with skills."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from relight.cli.options import Answer, current_store, reading_command, split_words

if TYPE_CHECKING:
    from relight.reports.comparison.models import Comparison
    from relight.reports.comparison.pairing import JobPair, Pairing


def _read_models(_: click.Context, __: click.Parameter, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = split_words(text)
    if len(set(names)) < 2:
        raise click.BadParameter("name two models or more, as in A,B")
    return names


def _read_margin(_: click.Context, __: click.Parameter, text: str) -> float:
    """Return a share from points, as 5, or from a share, as 0.05."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise click.BadParameter("give points, as 5, or a share, as 0.05") from None
    if not 0 < number < 100:
        raise click.BadParameter(f"give more than 0 and less than 100 points, not {text}")
    return number / 100 if number >= 1 else number


margin_option = click.option(
    "--margin",
    callback=_read_margin,
    default="5",
    metavar="X",
    help="The acceptable loss of success in points, or as a share (default: 5 or 0.05).",
)
models_option = click.option(
    "--models",
    metavar="A,B",
    callback=_read_models,
    help="Only these, by name or a part of it (default: all).",
)


def print_comparison(found: "Comparison") -> None:
    """Print the models, the pairs job by job, and the verdict."""
    from relight.cli import screen
    from relight.reports.coverage import show_interval
    from relight.stats.rates import Interval

    several = [pair for pair in found.pairs if len(pair.jobs) > 1]
    # counts of different jobs make no rate of a model: those of each job are below
    headings = ["runs", "ok", "failed", "unkn.", "a run"]
    headings += [] if several else ["95 %", "a success"]
    columns: list[screen.Column] = [screen.Words("model")]
    columns += [
        screen.Column(one, colour=screen.colour_failures if one == "failed" else None)
        for one in headings
    ]
    rows = []
    for arm in found.models:
        known = arm.success_rate is not None
        rate = show_interval(Interval(arm.low, arm.high) if known else None)
        success = screen.dollars(arm.cost_per_success_usd) if arm.successes else "–"
        counts = [arm.runs, arm.successes, arm.failures, arm.unknown]
        row = [arm.model or "unknown", *map(screen.count, counts)]
        row.append(screen.dollars(arm.cost_per_call_usd))
        rows.append(row if several else [*row, rate, success])
    screen.print_table(columns, rows)
    _print_pairs([(job.name, pair, job) for pair in several for job in pair.jobs])
    screen.print_text(found.verdict, style="bold")
    for pair in found.pairs:
        if pair.sentence != found.verdict:
            screen.print_text(pair.sentence)
    for note in found.notes:
        screen.print_text(note, style="dim")


def _print_pairs(pairs: "Sequence[tuple[str, Pairing, Pairing | JobPair]]") -> None:
    """Print the counts of pairs of models by job."""
    from relight.cli import screen
    from relight.reports.comparison.sentences import count_of

    if not pairs:
        return
    first = [count_of(one.successes, one.failures) for _, _, one in pairs]
    second = [count_of(one.against_successes, one.against_failures) for _, _, one in pairs]
    verdicts = [one.verdict or "not shared" for _, _, one in pairs]
    screen.print_columns(
        screen.Words("job", [name for name, _, _ in pairs], is_name=True),
        screen.Words("model", [pair.model or "unknown" for _, pair, _ in pairs]),
        screen.Column("succeeded", first),
        screen.Words("against", [pair.against or "unknown" for _, pair, _ in pairs]),
        screen.Column("succeeded", second),
        screen.Words("verdict", verdicts, lines=2, colour=screen.colour_state),
    )


@reading_command("compare", example="relight job compare inbox --models opus,haiku")
@click.argument("name", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every job that ran on two models or more.")
@models_option
@margin_option
def compare(name: str | None, is_all: bool, models: list[str] | None, margin: float) -> Answer:
    """Show whether a cheaper model is good enough for a job.

    Compares the models that ran it, whatever skills they used; jobs of other schedulers too.
    """
    from relight.reports.comparison.models import compare_job, compare_jobs
    from relight.work.jobs.lost_runs import settle_lost

    if is_all is (name is not None):
        raise click.UsageError("name one job, or give --all")
    if is_all and models:
        raise click.UsageError("--models goes with one job")
    with current_store() as store:
        settle_lost(store)
        if name is None:
            every = compare_jobs(store, margin=margin)
            yield every
            if every.jobs:
                pairs = [pair for one in every.jobs for pair in one.pairs]
                _print_pairs([(pair.jobs[0].name, pair, pair) for pair in pairs])
            else:
                click.echo("no job ran on two models with known outcomes")
            return
        found = compare_job(store, name, models=models, margin=margin)
    yield found
    print_comparison(found)
