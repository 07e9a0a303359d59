"""Everybody can tell the series of a chart apart: computed from the style sheet."""

import re
from itertools import combinations
from pathlib import Path

import pytest

import relight.web
from colour_difference import VISIONS, Triple, find_contrast, find_difference, see
from relight.web.charts.chart import SERIES, colour_of

SHEET = (Path(relight.web.__file__).parent / "static" / "relight.css").read_text("utf-8")
NAMES = [*(f"s{number}" for number in range(SERIES)), "rest"]
SCHEMES = ("light", "dark")
LEAST_DIFFERENCE = 20.0
LEAST_CONTRAST = 3.0


def read_colour(name: str, scheme: str) -> str:
    (found,) = re.findall(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\);", SHEET)
    return str(found[SCHEMES.index(scheme)])


# pairs of CIELAB colours with their difference, from the supplement of Sharma, Wu and Dalal 2005
@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_differences_are_those_of_the_published_pairs(
    one: Triple, other: Triple, difference: float
) -> None:
    assert find_difference(one, other) == pytest.approx(difference, abs=1e-4)
    assert find_difference(other, one) == pytest.approx(difference, abs=1e-4)


def test_the_blues_and_purples_of_old_were_one_colour_for_a_protanope() -> None:
    assert find_difference(see("#3d6fb4", "protan"), see("#8862b3", "protan")) < 2


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_series_differ_for_everybody(scheme: str, vision: str) -> None:
    seen = {name: see(read_colour(name, scheme), vision) for name in NAMES}
    close = {
        (one, other): round(difference, 1)
        for one, other in combinations(NAMES, 2)
        if (difference := find_difference(seen[one], seen[other])) < LEAST_DIFFERENCE
    }
    assert close == {}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["page", "card"])
def test_every_series_stands_out_from_what_is_behind_it(scheme: str, ground: str) -> None:
    behind = read_colour(ground, scheme)
    weak = {
        name: round(contrast, 2)
        for name in NAMES
        if (contrast := find_contrast(read_colour(name, scheme), behind)) < LEAST_CONTRAST
    }
    assert weak == {}


def test_every_class_of_a_series_has_its_colour() -> None:
    for place in range(SERIES + 3):
        name = colour_of(place)
        assert f".{name} {{ --own: var(--{name}); }}" in SHEET


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_rest_is_grey(scheme: str) -> None:
    _, a, b = see(read_colour("rest", scheme), "normal")
    assert abs(a) + abs(b) < 8
