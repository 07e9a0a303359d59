import click

from relight.cli.options import (
    current_store,
    json_option,
    print_json,
    relight_command,
    relight_group,
)
from relight.experiments import Measure, Report, read_report
from relight.experiments import as_json as to_json
from relight.stats import Estimate

LINES = {
    "success_rate": ("sessions that succeeded, of those known", "{:.1%}"),
    "first_30_failure_rate": ("failed of the first 30 calls", "{:.1%}"),
    "seconds_to_first_success": ("seconds to the first call that worked", "{:.1f}"),
    "failures_per_session": ("failed calls a session", "{:.2f}"),
    "tools_per_session": ("different tools a session (no goal)", "{:.1f}"),
}


@relight_group("experiment", example="relight experiment report")
def command() -> None:
    """Compare sessions that started warm with those held out cold."""


@relight_command("report", example="relight experiment report --json")
@click.option("--template", metavar="NAME", help="Only sessions for which this one was chosen.")
@click.option(
    "--effect", type=float, default=0.1, show_default=True, help="The gain it is planned to see."
)
@json_option
def report(template: str | None, effect: float, as_json: bool) -> None:
    """Show what warm starts changed, with intervals and a verdict.

    Whole sessions are compared, never single calls, in the arms they were dealt to; what Relight
    put into them counts nowhere. Until enough sessions are known the answer is "not enough data".
    """
    with current_store() as store:
        found = read_report(store, template=template, effect=effect)
    if as_json:
        print_json(to_json(found))
        return
    _print_report(found)


def _print_report(found: Report) -> None:
    from relight.cli import screen

    given = found.provisions
    click.echo(
        f"{given['warm']} provisions warm, {given['cold']} held out cold,"
        f" {given['abstained']} with nothing similar"
    )
    columns = [screen.Column("", is_number=False), screen.Column("cold"), screen.Column("warm")]
    columns += [screen.Column("warm − cold"), screen.Column("p")]
    told = [screen.count(found.sessions[arm]) for arm in _ARMS]
    rows = [["sessions that followed", *told, "", ""]]
    for name, (title, form) in LINES.items():
        rows.append([title, *_tell_measure(found.measures[name], form)])
    rows.append(["dollars a session", *(screen.dollars(found.cost_usd[a]) for a in _ARMS), "", ""])
    screen.print_table(columns, rows)
    if (view := found.live_view) is not None:
        click.echo(
            f"live view, to be looked at as often as you like: {view.difference:+.3f}"
            f" [{view.low:+.3f}, {view.high:+.3f}] in {LINES[found.primary][0]}"
        )
    if found.probability_warm_better is not None:
        click.echo(
            f"probability that warm succeeds more often: {found.probability_warm_better:.2f}"
        )
    for name in found.retired:
        click.echo(f"retired, for doing harm: {screen.clean(name)}")
    click.echo(f"verdict: {found.verdict}")


_ARMS = ("cold", "warm")


def _tell_measure(measure: Measure, form: str) -> list[str]:
    p_value = "" if measure.p_value is None else f"{measure.p_value:.3f}"
    return [
        _tell(measure.cold, form),
        _tell(measure.warm, form),
        _tell(measure.difference, form.replace(":", ":+")),
        p_value,
    ]


def _tell(estimate: Estimate | None, form: str) -> str:
    if estimate is None or estimate.value is None:
        return "–"
    low, high = (
        "?" if bound is None else form.format(bound) for bound in (estimate.low, estimate.high)
    )
    return f"{form.format(estimate.value)} [{low}, {high}]"


command.add_command(report)
