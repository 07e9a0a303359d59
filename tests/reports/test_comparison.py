from typing import Any

import pytest

from relight.errors import RelightError
from relight.reports.skills.comparison import compare_models
from relight.reports.skills.uses import record_skill_invocation
from relight.stats.beta import probability_at_least, runs_to_settle
from relight.stats.rates import wilson
from relight.store import Store
from relight.store.queries.skills import read_daily


def use(
    store: Store,
    model: str | None,
    successes: int,
    failures: int,
    *,
    unknown: int = 0,
    **fields: Any,
) -> None:
    outcomes = [True] * successes + [False] * failures + [None] * unknown
    for number, success in enumerate(outcomes):
        record_skill_invocation(
            store,
            skill_name="triage",
            invoked_at=1_794_700_800 + number,
            model=model,
            success=success,
            **fields,
        )


def test_a_cheaper_model_that_does_as_well_is_good_enough(store: Store) -> None:
    use(store, "opus", 90, 10, cost_usd=0.9)
    use(store, "haiku", 92, 8, cost_usd=0.046)
    found = compare_models(store, "triage")
    assert [arm.model for arm in found.models] == ["opus", "haiku"]
    assert found.verdict.startswith("haiku is good enough for triage: with a probability of 9")
    assert "at $0.05 a success in place of $1" in found.verdict
    (pair,) = found.pairs
    assert pair.probability == probability_at_least((90, 10), (92, 8), margin=0.05)
    assert (pair.is_settled, pair.more_runs) == (True, 0)


def test_a_cheaper_model_that_fails_too_often_is_not(store: Store) -> None:
    use(store, "opus", 45, 5, cost_usd=0.9)
    use(store, "haiku", 25, 25, cost_usd=0.05)
    found = compare_models(store, "triage")
    assert found.verdict.startswith("haiku is not good enough for triage")
    assert "opus" in found.verdict


def test_too_few_runs_are_told_with_how_many_more_would_settle_it(store: Store) -> None:
    use(store, "opus", 9, 1, cost_usd=0.9)
    use(store, "haiku", 8, 2, cost_usd=0.05)
    found = compare_models(store, "triage")
    more = runs_to_settle((9, 1), (8, 2), margin=0.05)
    assert found.verdict.startswith("Not enough data: that haiku succeeds as often as opus")
    assert f"about {more} more runs of each" in found.verdict
    assert found.pairs[0].more_runs == more


def test_figures_leave_unknowns_out_and_count_them(store: Store) -> None:
    use(store, "opus", 3, 1, unknown=6, cost_usd=0.3)
    use(store, "opus", 0, 0, unknown=2)
    (arm,) = compare_models(store, "triage").models
    assert (arm.runs, arm.successes, arm.failures, arm.unknown, arm.unpriced) == (12, 3, 1, 8, 2)
    assert arm.success_rate == 0.75
    assert arm.cost_per_call == pytest.approx(0.3)
    assert arm.cost_per_success == pytest.approx(0.4)
    assert (arm.low, arm.high) == (wilson(3, 4).low, wilson(3, 4).high)


@pytest.mark.parametrize(
    ("unknown", "words"), [(0, "only opus has runs of triage"), (3, "only opus has runs")]
)
def test_one_model_alone_cannot_be_compared(store: Store, unknown: int, words: str) -> None:
    use(store, "opus", 5, 0)
    use(store, "haiku", 0, 0, unknown=unknown)
    verdict = compare_models(store, "triage").verdict
    assert verdict.startswith("Not enough data")
    assert words in verdict


def test_without_any_known_outcome_nothing_can_be_said(store: Store) -> None:
    use(store, "opus", 0, 0, unknown=2)
    use(store, "haiku", 0, 0, unknown=2)
    assert compare_models(store, "triage").verdict == (
        "Not enough data: no model has runs of triage with a known outcome."
    )


def test_other_versions_on_other_models_are_told(store: Store) -> None:
    use(store, "opus", 5, 0, skill_version="1.0", cost_usd=1)
    use(store, "haiku", 5, 0, skill_version="1.1", cost_usd=0.1)
    (note,) = compare_models(store, "triage").notes
    assert "versions differ between models (opus: 1.0; haiku: 1.1)" in note


def test_a_hash_and_a_declared_version_may_be_of_the_same_text(store: Store) -> None:
    use(store, "opus", 5, 0, skill_version="1.0", cost_usd=1)
    use(store, "haiku", 5, 0, skill_version="sha256:b246a1d1e6bd", cost_usd=0.1)
    assert compare_models(store, "triage").notes == []


def test_a_model_without_a_price_is_compared_and_its_cost_told_unknown(store: Store) -> None:
    use(store, "opus", 90, 10, cost_usd=0.9)
    use(store, "at-home", 95, 5)
    found = compare_models(store, "triage")
    assert found.verdict.startswith("at-home is good enough")
    assert found.verdict.endswith("; whether it is cheaper is unknown.")
    assert found.pairs[0].is_cheaper is None
    assert 'add [prices."at-home"]' in found.notes[0]


def test_one_that_is_known_to_be_cheaper_comes_before_one_without_a_price(store: Store) -> None:
    for model, cost in (("opus", 0.9), ("haiku", 0.05), ("at-home", None)):
        use(store, model, 99, 1, cost_usd=cost)
    found = compare_models(store, "triage")
    assert found.verdict.startswith("haiku is good enough")
    assert [(pair.model, pair.is_cheaper) for pair in found.pairs] == [
        ("haiku", True),
        ("at-home", None),
    ]


def test_a_model_that_costs_the_same_is_not_cheaper(store: Store) -> None:
    use(store, "one", 95, 5, cost_usd=0.5)
    use(store, "other", 99, 1, cost_usd=0.5)
    found = compare_models(store, "triage")
    assert found.verdict == "No model is cheaper than one: a call costs the same on each."
    assert found.pairs[0].is_cheaper is False
    use(store, "less", 1, 0, cost_usd=0.1)
    assert compare_models(store, "triage").verdict.startswith("Not enough data: that less ")


def test_without_any_price_nothing_is_called_cheaper(store: Store) -> None:
    use(store, "one", 80, 20)
    use(store, "other", 95, 5)
    found = compare_models(store, "triage")
    assert [pair.is_cheaper for pair in found.pairs] == [None]
    assert found.verdict.endswith("; whether it is cheaper is unknown.")


def test_a_cheaper_model_of_which_nothing_is_known_is_not_called_bad(store: Store) -> None:
    use(store, "one", 9, 1, cost_usd=0.5)
    use(store, "other", 9, 1, cost_usd=0.5)
    use(store, "less", 0, 0, unknown=3, cost_usd=0.1)
    assert compare_models(store, "triage").verdict == (
        "Not enough data: no run of triage on less has a known outcome."
    )


def test_runs_of_an_unknown_model_are_told_without_a_price_to_add(store: Store) -> None:
    use(store, "opus", 5, 0, cost_usd=1)
    use(store, None, 5, 0)
    use(store, "opus", 1, 0)
    assert compare_models(store, "triage").notes == [
        "the cost of runs on an unknown model is unknown",
        "1 run of unknown or partly known cost is left out of the costs",
    ]


def test_models_may_be_chosen_by_a_part_that_only_one_has(store: Store) -> None:
    for model in ("claude-opus-4-6", "claude-haiku-4-5", "claude-haiku-4-6", None):
        use(store, model, 1, 0, cost_usd=1)
    found = compare_models(store, "triage", models=["opus", "unknown", "claude-opus-4-6"])
    assert sorted(arm.model or "" for arm in found.models) == ["", "claude-opus-4-6"]
    with pytest.raises(RelightError, match="ran on several models like 'haiku'") as caught:
        compare_models(store, "triage", models=["opus", "haiku"])
    assert caught.value.hint == "it ran on claude-haiku-4-5, claude-haiku-4-6"
    with pytest.raises(RelightError, match=r"^models must name two or more"):
        compare_models(store, "triage", models=["opus"])


def test_a_probability_is_never_said_to_be_all(store: Store) -> None:
    use(store, "opus", 500, 500, cost_usd=0.9)
    use(store, "haiku", 990, 10, cost_usd=0.1)
    verdict = compare_models(store, "triage", margin=0).verdict
    assert "with a probability of over 99% it succeeds as often as opus, at $" in verdict


def test_of_several_models_the_cheapest_that_will_do_is_named(store: Store) -> None:
    for model, successes, cost in (("big", 90, 1.0), ("mid", 92, 0.5), ("small", 40, 0.1)):
        use(store, model, successes, 100 - successes, cost_usd=cost)
    assert compare_models(store, "triage").verdict.startswith("mid is good enough")
    chosen = compare_models(store, "triage", models=["small", "big"])
    assert [arm.model for arm in chosen.models] == ["big", "small"]
    assert chosen.verdict.startswith("small is not good enough")


def test_of_many_skills_those_with_the_part_asked_for_are_named_first(store: Store) -> None:
    for name in (*"abcdefgh", "ticket-triage"):
        record_skill_invocation(store, skill_name=name, invoked_at=1_794_700_800)
    with pytest.raises(RelightError) as caught:
        compare_models(store, "triage")
    assert caught.value.hint == "there are ticket-triage, a, b, c, d, e, f, g and 1 more"


def test_what_is_not_there_is_told(store: Store) -> None:
    use(store, "opus", 1, 0)
    with pytest.raises(RelightError) as caught:
        compare_models(store, "tidy")
    assert caught.value.hint == "there are triage"
    with pytest.raises(RelightError, match="never ran on 'haiku'"):
        compare_models(store, "triage", models=["opus", "haiku"])
    with pytest.raises(RelightError, match="margin must be"):
        compare_models(store, "triage", margin=1)
    for nonsense in ("half \ud83d", "", "a\0b"):
        with pytest.raises(RelightError, match="skill must be"):
            compare_models(store, nonsense)
        with pytest.raises(RelightError, match="skill must be"):
            read_daily(store, skill=nonsense)
