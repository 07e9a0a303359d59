"""How good a session was: what counts, what does not, and weights of a workspace's own."""

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import scipy.optimize  # type: ignore[import-untyped]
from hypothesis import given

import build
import relight
from build_messages import (
    Message,
    act,
    answered_messages,
    ask,
    assistant,
    call,
    coding_session,
    merge_calls,
    result,
    run,
    service_session,
    user,
)
from relight.intake.rebuild import rebuild
from relight.judging.features import Feature, measure_session, read_scoring_table
from relight.judging.scoring import (
    Example,
    Weights,
    predict,
    read_default_weights,
    refit,
    score_measures,
    score_session,
    standardize,
)
from relight.stats.rates import auc

GOOD = [("cat a.py", "x = 1"), ("sed -i s/1/2/ a.py", ""), ("pytest -q", "3 passed in 0.1s")]
BAD = ("cat gone.py", "cat: gone.py: No such file or directory")


def test_the_figures_are_counted_as_agreed() -> None:
    score = score_session([*run(*GOOD, BAD), ask(call("open", "Read", path="x"))])
    assert (score.total_messages, score.tool_calls, score.tool_results) == (11, 5, 4)
    assert (score.error_count, score.error_rate, score.unique_tools) == (1, 0.25, 2)
    assert len(score.tools) == 2
    assert "Read" in score.tools
    assert (score.task_type, score.category) == ("code", "coding")


def test_without_calls_the_failure_rate_is_unknown() -> None:
    score = score_session([user("Hi"), assistant("Hello.")])
    assert score.error_rate is None
    assert not score.is_successful
    assert (score.task_type, score.category) == ("mixed", "general")


@given(answered_messages())
def test_the_parts_add_up_to_the_score(messages: list[Message]) -> None:
    score = score_session(messages)
    assert score.score == pytest.approx(1 / (1 + math.exp(-sum(score.parts.values()))))
    assert set(score.parts) == {"base", *read_scoring_table().features}
    assert 0 < score.score < 1


@pytest.mark.parametrize(
    ("calls", "texts", "is_proficient"), [(9, 0, True), (8, 0, False), (5, 8, True), (4, 20, False)]
)
def test_proficient_is_20_messages_and_5_calls(calls: int, texts: int, is_proficient: bool) -> None:
    messages = [*run(*[GOOD[0]] * calls), *[user("Go on.")] * texts]
    assert score_session(messages).is_proficient == is_proficient


@pytest.mark.parametrize(
    ("good", "bad", "is_successful"), [(9, 1, True), (8, 1, False), (3, 0, True), (2, 0, False)]
)
def test_successful_is_3_calls_and_at_most_a_tenth_failed(
    good: int, bad: int, is_successful: bool
) -> None:
    messages = run(*[GOOD[0]] * good, *[BAD] * bad)
    assert score_session(messages).is_successful == is_successful


def test_what_is_known_of_calls_beside_their_text_counts() -> None:
    messages = run(("make", "ok"), ("make", "ok"), ("sleep 99", ""))
    facts: list[dict[str, Any]] = [
        {"call_id": "call_0", "exit_code": 2, "timed_out": None, "is_error": None},
        {"call_id": "call_2", "exit_code": None, "timed_out": True},
    ]
    assert score_session(messages).error_count == 0
    measures = measure_session(messages, calls=facts)
    assert measures.error_count == 2
    assert measures.features["time_outs"] == math.log1p(1)


def test_facts_of_a_reused_id_go_to_the_calls_in_order() -> None:
    messages = [*act("a", "bash", "", command="make"), *act("a", "bash", "", command="make test")]
    facts = [{"call_id": "a", "exit_code": 0}, {"call_id": "a", "exit_code": 2}]
    assert measure_session(messages, calls=facts).features["last_call_failed"] == 1.0


def test_a_longer_session_is_not_better_for_its_length() -> None:
    short, long = score_session(run(*GOOD)), score_session(run(*[GOOD[0]] * 40, *GOOD))
    assert long.score < short.score


def test_a_session_of_hardly_any_calls_gains_nothing_by_being_short() -> None:
    score = score_session([user("Hi")])
    assert (score.parts["messages"], score.parts["calls"]) == (0, 0)
    assert score.score < score_session(run(*GOOD)).score


@pytest.mark.parametrize("messages", [[], [None], [user("Hi")], [assistant("")]])
def test_where_nothing_was_done_no_trouble_is_no_merit(messages: list[Any]) -> None:
    score = score_session(messages)
    assert score.score < 1 / (1 + math.exp(-score.parts["base"]))
    assert score.parts["longest_failure_run"] == score.parts["time_outs"] == 0


def test_what_is_known_of_calls_must_be_objects() -> None:
    wrong: Any = ["x"]
    with pytest.raises(relight.RelightError, match="calls must be a list of objects"):
        score_session(run(*GOOD), calls=wrong)


def test_many_different_tools_change_nothing() -> None:
    alike = [one for at in range(6) for one in act(f"c{at}", "get_order", "{}", order=str(at))]
    mixed = [
        one for at in range(6) for one in act(f"c{at}", f"get_thing_{at}", "{}", order=str(at))
    ]
    assert score_session(alike).parts == score_session(mixed).parts


@pytest.mark.parametrize(
    ("worse", "part"),
    [
        (run(*GOOD, BAD), "last_call_failed"),
        (run(*GOOD, BAD, BAD, GOOD[0]), "repeated_failures"),
        (run(*GOOD, ("pytest -q", "1 failed, 2 passed in 0.2s")), "last_tests_passed"),
        ([*run(*GOOD), user("No, that's wrong.")], "user_corrections"),
        ([*run(*GOOD), user("Your output was not formatted correctly.")], "malformed_turns"),
        ([*run(*GOOD), assistant("I'm unable to fix this.")], "give_ups"),
        ([*run(*GOOD), *act("t", "transfer_to_human_agents", "ok", summary="x")], "handed_over"),
        (run(*GOOD, ("sleep 999", "Command timed out after 60 seconds")), "time_outs"),
    ],
)
def test_signs_of_failure_lower_their_part(worse: list[Message], part: str) -> None:
    assert score_session(worse).parts[part] < score_session(run(*GOOD)).parts[part]


@pytest.mark.parametrize(
    "ending",
    [
        [assistant("Done: the rounding is right.")],
        [assistant("Done. Anything else?"), user("No, thanks! ###STOP###")],
        act("s", "submit", ""),
        act("s", "bash", "", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ],
)
def test_a_session_that_came_to_an_end_is_submitted(ending: list[Message]) -> None:
    cut_short = measure_session(run(*GOOD)).features["submitted"]
    assert (cut_short, measure_session([*run(*GOOD), *ending]).features["submitted"]) == (0, 1)


def test_answers_that_are_no_corrections_are_not_counted() -> None:
    said = ["No, thanks!", "No problem, go on.", "That's right.", "Yes, that is correct."]
    messages = [user("Hi"), *[user(text) for text in said]]
    assert measure_session(messages).features["user_corrections"] == 0


def test_an_unknown_feature_adds_nothing() -> None:
    score = score_session(run(("ls", "a.py")))
    assert measure_session(run(("ls", "a.py"))).features["last_tests_passed"] is None
    assert score.parts["last_tests_passed"] == 0


def test_calls_in_parallel_score_as_they_do_one_by_one() -> None:
    messages = coding_session(3)
    one, many = measure_session(messages), measure_session(merge_calls(messages, 4))
    assert one.error_count == many.error_count
    assert one.features["late_failures"] == many.features["late_failures"]


def test_unreadable_arguments_and_empty_turns_are_malformed() -> None:
    broken = {"id": "a", "function": {"name": "bash", "arguments": '{"command": '}}
    messages = [user("Go."), ask(broken), result("a", "?"), assistant("")]
    assert measure_session(messages).features["malformed_turns"] == math.log1p(2)


def test_clean_sessions_rank_above_troubled_ones() -> None:
    dice = Random(1)
    scores: list[float] = []
    labels: list[bool] = []
    for number in range(60):
        is_good = number % 2 == 0
        trouble = dice.randint(0, 3) if is_good else dice.randint(1, 9)
        messages = [*coding_session(number, actions=dice.randint(8, 16)), *run(*[BAD] * trouble)]
        scores.append(score_session(messages).score)
        labels.append(is_good)
    area = auc(scores, labels)
    assert area is not None
    assert area > 0.7


def examples(count: int, *, noise: float, seed: int = 1) -> list[Example]:
    """Sessions whose success hangs on two features, one against the prior's sign."""
    dice = Random(seed)
    drawn: list[Example] = []
    for number in range(count):
        calls, tests = dice.gauss(2.7, 0.5), float(dice.random() < 0.5)
        drive = 3 * (calls - 2.7) + 2 * (tests - 0.5) + dice.gauss(0, noise)
        features = {"calls": calls, "last_tests_passed": tests, "submitted": None, "messages": 3.0}
        drawn.append(Example(features, drive > 0, f"task {number // 2}"))
    return drawn


def test_enough_labelled_sessions_give_weights_of_their_own() -> None:
    labelled = examples(200, noise=1.0)
    weights = refit(labelled)
    assert weights.features["calls"].weight > 0.3
    assert weights.features["last_tests_passed"].weight > 0.3
    assert weights.features["give_ups"] == read_default_weights().features["give_ups"]
    assert weights.examples == 200
    assert weights.auc is not None
    assert weights.auc > 0.8
    assert refit(labelled) == weights


@pytest.mark.parametrize(
    "labelled",
    [
        examples(49, noise=0.5),
        [Example({"calls": 1.0 + at}, True) for at in range(80)],
        [Example({"calls": 2.0}, at % 2 == 0) for at in range(80)],
    ],
)
def test_without_reason_the_weights_stay(labelled: list[Example]) -> None:
    assert refit(labelled) is read_default_weights()


def test_new_weights_are_the_best_under_the_penalty() -> None:
    prior = Weights(0.2, {"a": Feature(0.1, 0, 1), "b": Feature(-0.4, 0, 1)})
    dice = Random(7)
    labelled = []
    for number in range(120):
        a, b = dice.gauss(0, 1), dice.gauss(0, 1)
        labelled.append(Example({"a": a, "b": b}, a + b + dice.gauss(0, 1) > 0, str(number)))
    fitted = refit(labelled, prior=prior)
    rows = [
        [standardize(one.features[name] or 0.0, fitted.features[name]) for name in ("a", "b")]
        for one in labelled
    ]

    def loss(point: list[float]) -> float:
        total = sum(
            math.log1p(
                math.exp(-(1 if one.is_success else -1) * (point[0] + point[1] * a + point[2] * b))
            )
            for one, (a, b) in zip(labelled, rows, strict=True)
        )
        pull = (point[1] - 0.1) ** 2 + (point[2] + 0.4) ** 2
        return total + read_scoring_table().ridge / 2 * pull

    best = scipy.optimize.minimize(loss, [0.0, 0.0, 0.0], tol=1e-10).x
    found = [fitted.intercept, fitted.features["a"].weight, fitted.features["b"].weight]
    assert found == pytest.approx(list(best), abs=1e-3)


def test_a_score_by_other_weights_is_what_those_predict() -> None:
    measures = measure_session(service_session(2)[0])
    weights = refit(examples(200, noise=1.0))
    score = score_measures(measures, weights=weights)
    assert math.log(score.score / (1 - score.score)) == pytest.approx(
        predict(measures.features, weights)
    )


def test_a_session_whose_program_was_killed_is_scored_by_the_next_who_looks(
    tmp_path: Path,
) -> None:
    """It never reports its end: its last score is from the last message."""
    with build.open_home(tmp_path) as store:
        rec = relight.record(store, "killed", model="m")
        rec.message("user", "Fix the tests")
        for number in range(6):
            asked = {"id": f"c{number}", "function": {"name": "bash", "arguments": "{}"}}
            rec.turn(input_tokens=1, output_tokens=1, message={"tool_calls": [asked]})
            rec.tool_call("bash", {"command": "pytest"}, "boom", call_id=f"c{number}", exit_code=2)
        stale = store.query("select score, category from session")
        build.import_home(store, tmp_path)
        told = store.query("select score, category from session")
        assert store.query("select * from score_due") == []
        rebuild(store, workers=1)
        assert store.query("select score, category from session") == told
    assert told != stale
    assert told[0][1] == "coding"
