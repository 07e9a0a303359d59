"""Charts: well-formed for any data, and never the only place of a figure."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from relight.stats.rates import Estimate
from relight.web.charts.bars import StackedBar, draw_bars
from relight.web.charts.chart import Chart, SeriesLink, colour_of
from relight.web.charts.curves import Series, draw_lines
from relight.web.charts.intervals import IntervalRow, draw_intervals
from relight.web.charts.lanes import Lane, OutcomeCounts, draw_lanes
from relight.web.charts.sparks import RunBlock, draw_share, draw_span, draw_sparkline, draw_strip
from relight.web.charts.svg import find_ticks
from relight.web.periods import choose_step, walk

SHAPES = {"svg", "g", "a", "rect", "path", "line", "circle", "polyline", "polygon", "text"}
HOSTILE = (
    "<script>alert(1)</script>",
    "\"' onload='alert(1)' x=\"",
    "]]><svg/onload=alert(1)>&amp;&#0;",
    "\x1b[31m\x00\x07\ud800\ufffe",
    "\u202eoverridden\u2066 \U000e0041\U000e0042",
    "line\nline\r\nline\ttab",
)
texts = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE)
values = st.floats(0, 1e15, allow_subnormal=True)
maybe = st.none() | values
numbers = st.integers(0, 10**6)
counts = st.builds(OutcomeCounts, numbers, numbers, numbers)
lines_of = st.lists(st.lists(maybe, min_size=3, max_size=3), max_size=10)


def tell(value: float) -> str:
    return f"<{value:.6g}>"


def check(svg: Markup) -> ElementTree.Element:
    """The drawing as XML, in which nothing acts and nothing is styled by itself."""
    root = ElementTree.fromstring(str(svg))
    for one in root.iter():
        assert one.tag in SHAPES
        assert not {name for name in one.attrib if name == "style" or name.startswith("on")}
    return root


def attributes_of(root: ElementTree.Element, name: str) -> list[str]:
    return [one.attrib[name] for one in root.iter() if name in one.attrib]


def blocks_of(root: ElementTree.Element) -> dict[str, list[tuple[float, ...]]]:
    """The blocks of each class: left, top, width and height."""
    block = re.compile(r"M(\S+) (\S+?)h([\d.]+)v([\d.]+)h-[\d.]+z")
    return {
        one.attrib["class"]: [tuple(map(float, found)) for found in block.findall(one.attrib["d"])]
        for one in root.iter("path")
    }


@given(st.lists(st.tuples(texts, st.lists(maybe, min_size=2, max_size=2)), max_size=8), texts)
def test_bars_are_well_formed_whatever_they_are_called(
    told: list[tuple[str, list[float | None]]], name: str
) -> None:
    columns = [StackedBar(label=label, parts=parts, link=f"/s?m={label}") for label, parts in told]
    chart = draw_bars(name, columns, names=[name, "other"], formatter=tell)
    root = check(chart.svg)
    assert len(chart.rows) == len(columns)
    for place in ("x", "y", "width", "height"):
        for value in attributes_of(root, place):
            assert re.fullmatch(r"-?\d+(\.\d+)?%?", value)


@given(lines_of, st.lists(texts, min_size=3, max_size=3), texts)
def test_lines_are_well_formed_whatever_they_are_called(
    told: list[list[float | None]], labels: list[str], name: str
) -> None:
    lines = [
        Series(
            name=name,
            points=[None if one is None else Estimate(one, one * 0.9, one * 1.1) for one in line],
        )
        for line in told
    ]
    chart = draw_lines(name, lines, labels=labels, formatter=tell)
    root = check(chart.svg)
    assert len(chart.rows) == 3
    drawn = sum(one.tag == "polyline" for one in root.iter())
    assert drawn == sum(count_runs(line) for line in told)


def count_runs(line: Sequence[float | None]) -> int:
    return sum(one is not None and (not at or line[at - 1] is None) for at, one in enumerate(line))


@given(st.lists(st.tuples(texts, texts), max_size=40), texts)
def test_strips_are_well_formed_whatever_they_are_called(
    told: list[tuple[str, str]], name: str
) -> None:
    blocks = [RunBlock(outcome=outcome, tip=tip, link=f"/jobs/{tip}") for outcome, tip in told]
    root = check(draw_strip(name, blocks))
    assert sum(one.tag == "a" for one in root.iter()) == min(len(blocks), 30)


@given(st.lists(st.tuples(texts, maybe, texts), max_size=6), st.floats(1e-9, 1e15))
def test_intervals_are_well_formed_whatever_they_are_called(
    told: list[tuple[str, float | None, str]], top: float
) -> None:
    rows = [
        IntervalRow(
            name=name,
            estimate=None if value is None else Estimate(value, -value, value),
            note=note,
        )
        for name, value, note in told
    ]
    check(draw_intervals("arms", rows, formatter=tell, bounds=(0.0, top)).svg)


@given(st.lists(maybe, max_size=40), texts, values, values)
def test_small_drawings_are_well_formed(
    told: list[float | None], name: str, one: float, other: float
) -> None:
    drawn = draw_sparkline(name, told, formatter=tell)
    assert drawn.startswith("<svg" if set(told) - {None} else "<span")
    if drawn.startswith("<svg"):
        check(drawn)
    check(draw_span(one, other, kind="turn", tip=name))
    check(draw_share(one, other))


def test_a_bar_is_as_tall_as_its_value() -> None:
    columns = [
        StackedBar(label="Mon", parts=[30.0, 10.0], link="/sessions?since=mon"),
        StackedBar(label="Tue", parts=[None, 20.0]),
    ]
    chart = draw_bars(
        "Cost", columns, names=["opus", "haiku"], formatter="${:.0f}".format, height=100
    )
    root = check(chart.svg)
    tall = {
        (name, left): height for name, own in blocks_of(root).items() for left, _, _, height in own
    }
    assert tall == {("s0", 0.14): 75.0, ("s1", 0.14): 25.0, ("s1", 1.14): 50.0}
    assert next(root.iter("path")).attrib["d"] == "M.14 25h.72v75h-.72z"
    assert attributes_of(root, "href") == ["/sessions?since=mon"]
    (link, plain) = (one for one in root.iter() if "data-tip" in one.attrib)
    assert link.attrib["aria-label"] == "Mon: $40\nopus: $30\nhaiku: $10"
    assert plain.attrib["data-tip"] == "Tue: $20\nhaiku: $20"
    assert root.attrib["aria-label"] == "Cost: together $60, most at Mon with $40"


def test_every_figure_of_a_chart_is_in_its_table_too() -> None:
    columns = [StackedBar(label="Mon", parts=[3.0, None], link="/monday")]
    chart = draw_bars("Cost", columns, names=["opus", "haiku"], formatter="${:.0f}".format)
    assert chart.head == ["", "opus", "haiku", "total"]
    assert [(cell.text, cell.link) for cell in chart.rows[0]] == [
        ("Mon", "/monday"),
        ("$3", None),
        ("–", None),
        ("$3", None),
    ]
    assert [one.colour for one in chart.legend] == ["s0", "s1"]


def test_a_total_without_all_of_its_parts_is_a_lower_bound() -> None:
    bars = [
        StackedBar(label="Mon", parts=[3.0, None], is_partial=True),
        StackedBar(label="Tue", parts=[0.0, None], is_partial=True),
        StackedBar(label="Wed", parts=[2.0, 1.0]),
    ]
    names = ["opus", "haiku"]
    chart = draw_bars("Cost", bars, names=names, formatter="${:.0f}".format, unknown="no price")
    assert [[cell.text for cell in row[2:]] for row in chart.rows] == [
        ["no price", "≥$3"],
        ["no price", "no price"],
        ["$1", "$3"],
    ]


def test_a_gap_in_a_line_is_not_bridged() -> None:
    found = [Estimate(0.5, 0.4, 0.6), None, Estimate(0.9, 0.8, 1.0)]
    chart = draw_lines(
        "Success",
        [Series(name="opus", points=found)],
        labels=["a", "b", "c"],
        formatter=str,
        top=1.0,
    )
    root = check(chart.svg)
    assert sum(one.tag == "polyline" for one in root.iter()) == 2
    assert chart.rows[1][1].text == "–"
    assert chart.rows[2][1].text == "0.9 (0.8 to 1.0)"


def test_outcomes_are_shown_by_height_and_not_by_colour_alone() -> None:
    told = [RunBlock(outcome=name, tip=name) for name in ("success", "failure", "unknown")]
    root = check(draw_strip("Runs", told))
    tall = {
        one.attrib["class"]: float(one.attrib["height"])
        for one in root.iter("rect")
        if one.attrib["class"] not in ("hit", "vacant")
    }
    assert len(set(tall.values())) == 3
    assert root.attrib["aria-label"] == "Runs: of the last 3 runs 1 succeeded and 1 failed"


@given(st.floats(1e-17, 1e17))
def test_a_grid_reaches_up_to_the_highest_value(top: float) -> None:
    ticks = find_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] >= top * 0.999
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("top", [0.0, -1.0, float("inf"), float("nan")])
def test_a_grid_of_nothing_is_a_grid(top: float) -> None:
    assert find_ticks(top) == [0.0, 1.0]


def test_six_series_have_colours_and_the_rest_is_grey() -> None:
    assert [colour_of(n) for n in (0, 5, 6, 50)] == ["s0", "s5", "rest", "rest"]


def test_series_after_the_sixth_become_one_that_is_grey() -> None:
    names = [f"model-{number}" for number in range(9)]
    bars = [
        StackedBar(label="Mon", parts=[10.0] * 7 + [None, 5.0]),
        StackedBar(label="Tue", parts=[1.0] * 6 + [None] * 3),
    ]
    chart = draw_bars(
        "Cost", bars, names=names, formatter=str, links=[SeriesLink(f"/{n}") for n in names]
    )
    assert [(one.name, one.colour, one.link) for one in chart.legend[-2:]] == [
        ("model-5", "s5", SeriesLink("/model-5")),
        ("3 more", "rest", None),
    ]
    assert chart.head == ["", *names[:6], "3 more", "total"]
    assert [row[7].text for row in chart.rows] == ["15.0", "–"]
    assert [row[8].text for row in chart.rows] == ["75.0", "6.0"]
    assert attributes_of(check(chart.svg), "class").count("rest") == 1


def test_a_seventh_series_alone_keeps_its_name() -> None:
    names = [f"model-{number}" for number in range(7)]
    bars = [StackedBar(label="Mon", parts=[1.0] * 7)]
    links = [SeriesLink(f"/{name}") for name in names]
    chart = draw_bars("Cost", bars, names=names, formatter=str, links=links)
    last = chart.legend[-1]
    assert (last.name, last.colour, last.link) == ("model-6", "rest", SeriesLink("/model-6"))


@given(st.lists(st.tuples(texts, st.lists(counts, min_size=2, max_size=2)), max_size=7), texts)
def test_lanes_are_well_formed_whatever_they_are_called(
    given_lanes: list[tuple[str, list[OutcomeCounts]]], name: str
) -> None:
    lanes = [Lane(name=one, steps=steps, whole=steps[0]) for one, steps in given_lanes]
    chart = draw_lanes(name, lanes, labels=[name, "b"], links=[f"/s?m={name}", None])
    root = check(chart.svg)
    assert len(chart.rows) == 2
    for value in attributes_of(root, "height"):
        assert re.fullmatch(r"\d+(\.\d+)?%?", value)


def test_outcomes_stand_on_their_line_and_hang_from_it() -> None:
    lane = Lane(name="opus", steps=[OutcomeCounts(3, 2, 4)], whole=OutcomeCounts(3, 2, 4))
    chart = draw_lanes("Outcomes", [lane], labels=["Mon"], links=["/monday"])
    drawn = {name: own for name, (own,) in blocks_of(check(chart.svg)).items()}
    top = {name: one[1] for name, one in drawn.items()}
    tall = {name: one[3] for name, one in drawn.items()}
    (line,) = (float(one.attrib["y1"]) for one in check(chart.svg).iter("line"))
    assert top["success"] + tall["success"] == pytest.approx(line, abs=0.01)
    assert top["unknown"] + tall["unknown"] == pytest.approx(top["success"], abs=0.01)
    assert top["failure"] == pytest.approx(line, abs=0.01)
    assert tall["success"] / 3 == pytest.approx(tall["unknown"] / 4, abs=0.01)
    assert chart.rows[0][1].text == "3 of 5 succeeded, 4 unknown"


def test_a_long_sparkline_has_no_more_points_than_can_be_seen() -> None:
    drawn = draw_sparkline("cost", [float(day) for day in range(92)], formatter=str)
    (line,) = check(drawn).iter("polyline")
    assert len(line.attrib["points"].split()) == 46
    assert line.attrib["points"].endswith("98.9,2")
    assert drawn.count("from 0.0 to 91.0, last 91.0") == 1


def test_a_chart_of_nothing_is_a_chart() -> None:
    assert isinstance(draw_bars("t", [], names=["a"], formatter=str), Chart)


def test_a_chart_has_at_most_54_steps_up_to_four_years() -> None:
    """More would make its page larger than a list may be."""
    first = date(2023, 3, 1)
    for days in range(1, 4 * 366):
        last = first + timedelta(days=days - 1)
        assert len(list(walk(first, last, choose_step(first, last)))) <= 54
    assert choose_step(first, first + timedelta(days=29)) == "day"
    assert choose_step(first, first + timedelta(days=89)) == "week"
    assert choose_step(first, first + timedelta(days=365)) == "week"
