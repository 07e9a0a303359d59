import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relight.judging.shares import Charge, Entered, SpentItem, apportion, charge_skills

ROOT, AGENT = 1, 2


def enter(name: str, at: int | None, **fields: Any) -> Entered:
    return Entered(**{"session": ROOT, "name": name, "entry": "tool", "at": at, **fields})


def spend(cost: int | None, at: int | None, **fields: Any) -> SpentItem:
    return SpentItem(**{"session": ROOT, "at": at, "amounts": (cost,), "turns": 1, **fields})


def charge(entries: list[Entered], spent: list[SpentItem], **times: int | None) -> list[Charge]:
    return charge_skills(entries, spent, parents={AGENT: ROOT}, root=ROOT, **times)


def costs(entries: list[Entered], spent: list[SpentItem], **times: int | None) -> dict[str, Any]:
    return {one.name: one.amounts[0] for one in charge(entries, spent, **times)}


def test_a_session_without_skills_charges_nobody() -> None:
    assert charge([], [spend(5, 1)]) == []


def test_one_skill_is_charged_with_the_whole_session() -> None:
    spent = [spend(5, 1), spend(7, 11), spend(None, None)]
    assert costs([enter("a", 10)], spent) == {"a": 12}


def test_a_skill_has_the_turns_from_its_entry_to_the_next_ones() -> None:
    spent = [spend(30, 11), spend(40, 12), spend(5, 21)]
    assert costs([enter("a", 10), enter("b", 20)], spent) == {"a": 70, "b": 5}


def test_the_turn_that_loads_a_skill_is_not_yet_its_own() -> None:
    assert costs([enter("a", 10), enter("b", 20)], [spend(30, 20), spend(5, 21)]) == {
        "a": 30,
        "b": 5,
    }


def test_what_came_before_the_first_skill_is_spread_in_proportion_to_turns() -> None:
    spent = [spend(80, 1), *(spend(0, at) for at in (11, 12, 13)), spend(0, 21)]
    assert costs([enter("a", 10), enter("b", 20)], spent) == {"a": 60, "b": 20}


def test_skills_that_enter_at_the_same_moment_share_alike() -> None:
    assert costs([enter("a", 10), enter("b", 10)], [spend(7, 11)]) == {"a": 4, "b": 3}


def test_where_nothing_is_known_of_times_skills_share_alike() -> None:
    spent = [spend(9, None), spend(1, None)]
    assert costs([enter("a", None), enter("b", None)], spent) == {"a": 5, "b": 5}


def test_a_skill_that_returns_gets_its_later_turns_too() -> None:
    entries = [enter("a", 10), enter("b", 20), enter("a", 30)]
    assert costs(entries, [spend(1, 11), spend(2, 21), spend(4, 31)]) == {"a": 5, "b": 2}


def test_turns_that_the_log_attributes_go_where_it_says() -> None:
    entries = [enter("a", 10), enter("b", 20)]
    spent = [spend(30, 11, skill="b"), spend(10, 21, skill="a"), spend(8, 22)]
    assert costs(entries, spent) == {"a": 14, "b": 34}


def test_a_skill_that_the_log_never_names_has_its_turns_by_time() -> None:
    entries = [enter("typed", 10, entry="slash"), enter("a", 20)]
    spent = [spend(30, 11), spend(10, 21, skill="a"), spend(8, 22)]
    # what came after `a` belongs to no skill: it is spread over two turns
    assert costs(entries, spent) == {"typed": 34, "a": 14}


def test_a_skill_that_only_the_log_names_is_charged_all_the_same() -> None:
    (one,) = charge([], [spend(3, 5, skill="a"), spend(1, 6)], started_at=0, ended_at=9)
    assert (one.name, one.entry, one.amounts, one.invoked_at) == ("a", None, (4,), 5)


def test_a_sub_agent_works_under_its_parents_skill_until_it_loads_its_own() -> None:
    entries = [enter("a", 10), enter("b", 20, session=AGENT)]
    spent = [
        spend(1, 15, session=AGENT),
        spend(2, 25, session=AGENT),
        spend(4, 25),  # the parent goes on under its own
    ]
    assert costs(entries, spent) == {"a": 5, "b": 2}


def test_a_lump_is_spread_over_the_moments_of_work() -> None:
    """Hermes keeps sums only, but says when it called its tools, and when it ended."""
    calls = [spend(None, at, turns=0) for at in (11, 12, 13, 21)]
    lump = spend(600, 1, is_lump=True, turns=6)
    entries = [enter("a", 10), enter("b", 20)]
    found = costs(entries, [lump, *calls], started_at=0, ended_at=30)
    assert found == {"a": 360, "b": 240}


def test_a_cost_that_nobody_knows_stays_unknown() -> None:
    assert costs([enter("a", 10), enter("b", 20)], [spend(None, 11), spend(None, 21)]) == {
        "a": None,
        "b": None,
    }


def test_a_skill_has_the_time_to_the_next_ones_entry() -> None:
    found = charge([enter("a", 100), enter("b", 400)], [spend(1, 101)], started_at=0, ended_at=1000)
    assert [(one.milliseconds, one.completed_at) for one in found] == [(400, 101), (600, 1000)]


def test_the_last_recorded_version_of_a_skill_is_its_version() -> None:
    entries = [enter("a", 10, version="1"), enter("a", 20, version="2"), enter("a", 30)]
    (one,) = charge(entries, [spend(1, 40)])
    assert one.version == "2"


@pytest.mark.parametrize("total", [0, 1, 2, 10, 10**15 + 1])
def test_whole_parts_add_up_and_none_is_off_by_more_than_one(total: int) -> None:
    ideals = [Fraction(total * weight, 17) for weight in (3, 3, 4, 7)]
    parts = apportion(total, ideals)
    assert sum(parts) == total
    assert all(abs(part - ideal) < 1 for part, ideal in zip(parts, ideals, strict=True))


def make_session(dice: random.Random) -> tuple[list[Entered], list[SpentItem]]:
    """A session with a few skills, sub-agents and every kind of gap in what is known."""
    names = ["a", "b", "c", "d"][: dice.randint(1, 4)]
    entries = [
        Entered(
            session=dice.choice([ROOT, ROOT, AGENT]),
            name=dice.choice(names),
            entry=dice.choice(["tool", "slash"]),
            at=dice.choice([None, *range(0, 100, 10)]),
        )
        for _ in range(dice.randint(1, 6))
    ]
    by_log = dice.random() < 0.3
    spent = [
        SpentItem(
            session=dice.choice([ROOT, AGENT]),
            at=dice.choice([None, dice.randint(0, 120)]),
            amounts=(
                dice.choice([None, dice.randint(0, 10**12)]),
                dice.choice([None, dice.randint(0, 10**6)]),
                dice.randint(0, 5),
            ),
            turns=dice.choice([0, 1, 1, 1, 7]),
            skill=dice.choice([*names, "unseen", None]) if by_log else None,
            is_lump=dice.random() < 0.1,
        )
        for _ in range(dice.randint(0, 12))
    ]
    return entries, spent


@settings(max_examples=100)
@given(seed=st.integers())
def test_the_shares_of_a_hundred_sessions_add_up_to_the_last_nano_dollar(seed: int) -> None:
    """A hundred sessions an example: ten thousand in all."""
    dice = random.Random(seed)
    for _ in range(100):
        entries, spent = make_session(dice)
        found = charge(entries, spent, started_at=0, ended_at=dice.choice([None, 130]))
        assert sum(one.weight for one in found) == 1
        for figure in range(3):
            known = [one.amounts[figure] for one in spent if one.amounts[figure] is not None]
            shares = [one.amounts[figure] for one in found if one.amounts]
            if known:
                assert sum(share or 0 for share in shares) == sum(value or 0 for value in known)
                assert all(share is not None and share >= 0 for share in shares)
            else:
                assert set(shares) <= {None}
        if found[0].milliseconds is not None:
            assert sum(one.milliseconds or 0 for one in found) == 130


@given(seed=st.integers())
def test_the_order_of_records_does_not_matter(seed: int) -> None:
    dice = random.Random(seed)
    entries, spent = make_session(dice)

    def told() -> Any:
        found = charge(entries, spent, started_at=0, ended_at=130)
        return [(one.name, one.entry, one.amounts, one.weight, one.milliseconds) for one in found]

    before = told()
    dice.shuffle(entries)
    dice.shuffle(spent)
    assert told() == before
