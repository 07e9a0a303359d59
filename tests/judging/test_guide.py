"""The guide to kinds of work and to the score says what their tables say."""

import re
from pathlib import Path

import pytest

from relight.judging.features import read_scoring_table
from relight.judging.kinds import find_meaning, read_taxonomy
from relight.judging.scoring import is_proficient, is_successful

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "kinds.md").read_text(encoding="utf-8")


def read_table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is."""
    lines = PAGE.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


MEANINGS = read_table("meaning")


def test_every_meaning_has_its_row_and_its_sides() -> None:
    views = read_taxonomy().views
    assert {names(row[0])[0] for row in MEANINGS} == set(views)
    for row in MEANINGS:
        view = views[names(row[0])[0]]  # type: ignore[index]
        assert row[3:] == [view.task_type or "–", view.category or "–"], row


@pytest.mark.parametrize(
    ("meaning", "tool", "arguments"),
    [
        *((names(row[0])[0], tool, {}) for row in MEANINGS for tool in names(row[1])),
        *(
            (names(row[0])[0], "Bash", {"command": command})
            for row in MEANINGS
            for command in names(row[2])
        ),
    ],
)
def test_an_example_of_the_guide_has_the_meaning_it_stands_for(
    meaning: str, tool: str, arguments: dict[str, str]
) -> None:
    assert find_meaning(tool, arguments) == meaning


def test_the_thresholds_are_those_of_the_taxonomy() -> None:
    shares = {names(row[0])[0]: row[2] for row in read_table("view")}
    wanted = read_taxonomy().dominance_percent
    assert shares == {view: f"more than {least} % of the calls" for view, least in wanted.items()}


def test_every_part_of_the_score_has_its_row_with_its_weight() -> None:
    weights = {names(row[0])[0]: float(row[2].replace("−", "-")) for row in read_table("part")}
    assert weights == {name: one.weight for name, one in read_scoring_table().features.items()}


def test_the_flags_are_as_the_guide_says() -> None:
    assert "(at least 20 messages and 5 calls)" in PAGE
    assert is_proficient(20, 5)
    assert not is_proficient(19, 5)
    assert not is_proficient(20, 4)
    assert re.search(r"at least 3 calls,\s+of which at most 10 % failed", PAGE)
    assert is_successful(3, 0.1)
    assert not is_successful(2, 0.0)
    assert not is_successful(3, 0.11)
