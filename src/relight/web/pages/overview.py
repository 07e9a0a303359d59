"""The overview: what needs a person, the figures of the period, and one chart of them."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import cast, get_args

from markupsafe import Markup
from msgspec import Struct

from relight.reports.failed_work import describe_failed, read_failed_totals
from relight.reports.filters import quote_name
from relight.reports.listing import list_sessions
from relight.reports.narrowing import explain_no_session
from relight.reports.needs import Need, NeedKind, find_needs
from relight.reports.series import SeriesKey, SeriesPoint, rank_names
from relight.reports.spirals import read_spirals
from relight.reports.totals import ReportRow, report
from relight.store.queries.costs import CostRow, sum_cost, sum_costs
from relight.store.queries.listing import Listing
from relight.store.queries.tool_sums import spread_calls
from relight.text import NO_PRICE, count, dollars
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.chart import SERIES, UNKNOWN, Chart
from relight.web.charts.lanes import Lane, OutcomeCounts, draw_lanes
from relight.web.charts.sparks import draw_share
from relight.web.page import Context, View
from relight.web.pages.jobs import is_chosen, read_spent_today
from relight.web.periods import (
    PeriodStep,
    count_days,
    find_before,
    read_calendar,
    read_time_series,
    today_of,
    walk_steps,
)
from relight.work.jobs.registry import list_jobs

TOP, MOST = SERIES + 1, 200
HEIGHT = 260.0
LATEST = (4, 14)  # at least and at most
NEEDS_SHOWN = 3  # of one kind
KEYS: tuple[SeriesKey, ...] = get_args(SeriesKey)
FIGURES = ("cost", "tokens", "outcomes")
NAMELESS = {"model": "unknown model", "project": "no project", "source": "unknown source"}


class NeedAction(Struct, frozen=True):
    """The link of a kind of need: the words and the address of one, and of all others.

    In an address, `{}` is the name of what the need is about.
    """

    words: str
    path: str
    parameters: dict[str, str] = {}
    anchor: str = ""
    others: str = ""
    all_path: str = ""


# a new kind of need is a row here and a function in `reports/needs.py`
NEED_ACTIONS: dict[NeedKind, NeedAction] = {
    "budget": NeedAction(
        "see all budgets", "/limits", {}, "#budgets", "budgets", "/limits#budgets"
    ),
    "alarm": NeedAction("see all alarms", "/jobs", {}, "#alarms", "alarms", "/jobs#alarms"),
    "canary": NeedAction(
        "see its trial", "/jobs/{}", anchor="#canary", others="models on trial", all_path="/jobs"
    ),
    "job": NeedAction(
        "see its runs", "/jobs/{}", {"outcome": "failure"}, "#runs-title", "failing jobs", "/jobs"
    ),
    "spiral": NeedAction(
        "see its errors",
        "/sessions/{}",
        {"kind": "error"},
        "#steps",
        "spirals",
        "/failures#spirals",
    ),
    "outcome": NeedAction("label them", "/sessions", {"outcome": "unknown", "label": '""'}),
    "price": NeedAction(
        "see its sessions", "/sessions", {"model": '"{}"'}, "", "models without a price", "/#models"
    ),
    "file": NeedAction("", "", others="pieces of files set aside"),
    "candidate": NeedAction("see them", "/templates", anchor="#candidates-title"),
}


class ShownNeed(Struct, frozen=True):
    """A need with the address that it leads to, and the lines that set a missing price."""

    need: Need
    words: str
    link: str
    lines: str


class RankedRow(Struct, frozen=True):
    """A row of a table: its name, figures, list of sessions, and a bar for its cost."""

    name: str
    figures: CostRow | ReportRow
    link: str
    bar: Markup


class RankedTable(Struct, frozen=True):
    """The costliest models, projects or sources, and how many more there are."""

    by: SeriesKey
    rows: list[RankedRow]
    more: int


class MoreNeeds(Struct, frozen=True):
    """The number of needs of a kind that are not shown, and the page that has them."""

    number: int
    words: str
    link: str


def show(view: View) -> Context:
    """Return what needs a person, the figures of the chosen days, and one chart of them."""
    store, chosen, today = view.store, view.chosen, today_of(view)
    by = cast(SeriesKey, _choose(view, "by", KEYS))
    rows = report(store, (by,), chosen)
    jobs = [job for job in list_jobs(store) if is_chosen(view, job)]
    spirals = read_spirals(store, chosen)
    needs = find_needs(store, chosen, jobs, spirals=spirals, unknown=rows.total.unknown)
    shown, more = show_needs(view, needs)
    found: Context = {
        "needs": shown,
        "more_needs": more,
        "failed": describe_failed(read_failed_totals(store, chosen)),
        "total": rows.total if rows.rows else None,
    }
    if not rows.rows:
        return found | {"why": explain_no_session(store, chosen)}
    before = find_before(store, chosen, today)
    chart, hidden = draw_chart(view, by, rows.rows)
    tables = [rank_rows(view, by, rows.rows)]
    tables += [rank_rows(view, key, sum_costs(store, key, chosen)) for key in KEYS if key != by]
    latest = Listing(limit=count_latest([len(one.rows) for one in tables]))
    return found | {
        "spread": spread_calls(store, chosen),
        "before": sum_cost(store, before) if before else None,
        "days_before": count_days(before) if before else 0,
        **read_calendar(store, chosen, today),
        "chart": chart,
        "hidden": hidden,
        "by": by,
        "keys": KEYS,
        "figure": _choose(view, "chart", FIGURES),
        "figures": FIGURES,
        "tables": tables,
        "latest": list_sessions(store, chosen, latest).sessions,
        "budget": store.config.jobs.budget_usd_per_day,
        "spent": read_spent_today(view),
    }


def _choose(view: View, name: str, choices: Sequence[str]) -> str:
    """Return the parameter of the address; anything else than a choice is the first of them."""
    value = view.query.get(name, "")
    return value if value in choices else choices[0]


def show_needs(view: View, needs: Sequence[Need]) -> tuple[list[ShownNeed], list[MoreNeeds]]:
    """Return the first needs of each kind with their actions, and how many more there are."""
    shown, more = [], []
    for kind, action in NEED_ACTIONS.items():
        own = [one for one in needs if one.kind == kind]
        for one in own[:NEEDS_SHOWN]:
            link = _link(view, action, one.name or "") if action.path else ""
            lines = _write_price(one.name) if kind == "price" and one.name else ""
            shown.append(ShownNeed(one, action.words, link, lines))
        if len(own) > NEEDS_SHOWN:
            path, _, anchor = action.all_path.partition("#")
            link = view.filters.link(path) + (anchor and f"#{anchor}") if path else ""
            more.append(MoreNeeds(len(own) - NEEDS_SHOWN, action.others, link))
    return shown, more


def _link(view: View, action: NeedAction, name: str) -> str:
    parameters = {key: value.replace("{}", name) for key, value in action.parameters.items()}
    return view.filters.link(action.path.replace("{}", name), **parameters) + action.anchor


def _write_price(model: str) -> str:
    """Return the lines of `config.toml` that set the price of a model."""
    name = model.replace("\\", "\\\\").replace('"', '\\"')
    return f'[prices."{name}"]\ninput_usd_per_mtok = 0.50\noutput_usd_per_mtok = 2.00'


def draw_chart(view: View, by: SeriesKey, rows: Sequence[ReportRow]) -> tuple[Chart, int]:
    """Return the chart that the address chooses, and how many names are not in it."""
    figure = _choose(view, "chart", FIGURES)
    is_of_outcomes = figure == "outcomes"
    series = read_time_series(
        view.store, by, view.chosen, today_of(view), has_outcomes=is_of_outcomes
    )
    _, steps = walk_steps(view)
    points = {(one.step, one.name): one for one in series.points}
    names = rank_names(series.points)
    title = f"{figure.capitalize()} by {series.step} and {by}"
    if is_of_outcomes:
        shown = names[:SERIES]  # sessions of several models cannot be added up
        lanes = _make_lanes(shown, by, steps=steps, points=points, rows=rows)
        links = [_link_step(view, step) for step in steps]
        labels = [step.label for step in steps]
        chart = draw_lanes(title, lanes, labels=labels, links=links)
        return chart, len(names) - len(shown)
    read, formatter = (
        (attrgetter("worth_usd"), dollars) if figure == "cost" else (attrgetter("tokens"), count)
    )
    columns = [
        StackedBar(
            label=step.label,
            # a model without turns in a step cost nothing
            parts=[
                read(point) if (point := points.get((step.name, name))) else 0.0 for name in names
            ],
            link=_link_step(view, step),
            is_partial=figure == "cost"
            and any(point.unpriced_turns for point in series.points if point.step == step.name),
        )
        for step in steps
    ]
    chart = draw_bars(
        title,
        columns,
        names=_call_all(names, by),
        formatter=formatter,
        links=[view.toggle(by, _filter_name(name, by)) for name in names],
        height=HEIGHT,
        unknown=NO_PRICE if figure == "cost" else UNKNOWN,
    )
    return chart, 0


def _make_lanes(
    names: Sequence[str | None],
    by: SeriesKey,
    *,
    steps: Sequence[PeriodStep],
    points: dict[tuple[str, str | None], SeriesPoint],
    rows: Sequence[ReportRow],
) -> list[Lane]:
    whole = {row.key(by): row for row in rows}
    return [
        Lane(
            name=called,
            steps=[_count(points.get((step.name, name))) for step in steps],
            whole=_count(whole.get(name)),
        )
        for name, called in zip(names, _call_all(names, by), strict=True)
    ]


def _count(row: SeriesPoint | ReportRow | None) -> OutcomeCounts:
    if row is None:
        return OutcomeCounts()
    return OutcomeCounts(row.successes or 0, row.failures or 0, row.unknown or 0)


def _link_step(view: View, step: PeriodStep) -> str:
    return view.filters.link("/sessions", since=step.first, until=step.last)


def _call_all(names: Sequence[str | None], by: SeriesKey) -> list[str]:
    """Return names as charts and tables show them; a project is its last folder, or two."""
    if by != "project":
        return [name or NAMELESS[by] for name in names]
    parts = [(name or "").rstrip("/").split("/") for name in names]
    last = Counter(part[-1] for part in parts)
    return [
        "/".join(part[-2 if last[part[-1]] > 1 else -1 :]) or name or NAMELESS[by]
        for name, part in zip(names, parts, strict=True)
    ]


def _filter_name(name: str | None, by: SeriesKey) -> str | None:
    """Return the filter for exactly this name; a source is always named whole."""
    return name if by == "source" else quote_name(name)


def rank_rows(view: View, by: SeriesKey, rows: Sequence[CostRow | ReportRow]) -> RankedTable:
    """Return the costliest rows by one key, each with its filter and a bar for its cost."""
    ranked = sorted(rows, key=lambda row: (-_find_worth(row), -row.sessions))
    largest = max(map(_find_worth, ranked), default=0)
    most = MOST if view.query.get("all") == by else TOP
    names = [row.name if isinstance(row, CostRow) else row.key(by) for row in ranked[:most]]
    shown = []
    for row, name, called in zip(ranked, names, _call_all(names, by), strict=False):
        link = view.filters.link("/sessions", **{by: _filter_name(name, by)})
        bar = draw_share(_find_worth(row), largest)
        shown.append(RankedRow(called, row, link, bar))
    return RankedTable(by, shown, max(len(ranked) - most, 0))


def count_latest(rows: Sequence[int]) -> int:
    """Return how many sessions fill the column beside tables of so many rows, in pixels."""
    beside = sum(102 + 38 * number for number in rows)
    least, most = LATEST
    return min(max((beside - 480) // 48, least), most)


def _find_worth(row: CostRow | ReportRow) -> float:
    return (row.cost_usd or 0.0) + (row.included_usd or 0.0)
