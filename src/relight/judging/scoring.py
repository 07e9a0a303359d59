"""The score of a session from 0 to 1 with its parts, and weights fitted to labelled sessions.

How a session went says little about how it ended: the score ranks a success above a failure in
six cases of ten, in eight at best. Prefer any outcome that is known. The shipped weights are in
`data/scoring.toml`. Fitting is a ridge logistic regression towards them, so that a feature without
evidence keeps its weight. It is pure Python and deterministic.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from relight.judging.features import Feature, Measures, measure_session, read_scoring_table
from relight.judging.kinds import Category, TaskType
from relight.stats.rates import auc

PROFICIENT_MESSAGES, _PROFICIENT_CALLS = 20, 5
_SUCCESSFUL_CALLS, SUCCESSFUL_FAILURE_RATE = 3, 0.1
_EXTREME = 3.0  # deviations; a feature further out counts no more
_FOLDS = 5
_STEPS = 50
_TOLERANCE = 1e-10


class Weights(Struct, frozen=True):
    """The weight of each feature; `examples` and `auc` describe the sessions that were fitted."""

    intercept: float
    features: dict[str, Feature]
    examples: int = 0
    auc: float | None = None


class Score(Struct, frozen=True, kw_only=True):
    """A session's score, and its parts.

    `parts` are log-odds and add up to those of the score. `error_rate` is None if no call has a
    verdict.
    """

    score: float
    parts: dict[str, float]
    total_messages: int
    tool_calls: int
    tool_results: int
    error_count: int
    error_rate: float | None
    # of the later half of the calls
    late_error_rate: float | None = None
    unique_tools: int
    # their names
    tools: tuple[str, ...]
    is_proficient: bool
    is_successful: bool
    task_type: TaskType
    category: Category


def score_session(
    messages: Iterable[object],
    *,
    calls: Iterable[Mapping[str, Any]] | None = None,
    weights: Weights | None = None,
) -> Score:
    """Return the score of the session with these OpenAI chat messages.

    `calls` adds facts that messages do not hold: `exit_code`, `timed_out` and `is_error` by
    `call_id`.
    """
    return score_measures(measure_session(messages, calls=calls), weights=weights)


def score_measures(measures: Measures, *, weights: Weights | None = None) -> Score:
    """Return the score of measures with these weights, by default those of `scoring.toml`."""
    weights = weights or read_default_weights()
    parts = {"base": weights.intercept}
    for name, feature in weights.features.items():
        value = measures.features.get(name)
        z = 0.0 if value is None else standardize(value, feature)
        parts[name] = feature.weight * z + 0.0  # no part is shown as -0.0
    calls, judged = measures.tool_calls, measures.judged_calls
    rate = measures.error_count / judged if judged else None
    return Score(
        score=1 / (1 + math.exp(-math.fsum(parts.values()))),
        parts=parts,
        total_messages=measures.total_messages,
        tool_calls=calls,
        tool_results=measures.tool_results,
        error_count=measures.error_count,
        error_rate=rate,
        late_error_rate=measures.features.get("late_failures"),
        unique_tools=len(measures.tools),
        tools=measures.tools,
        is_proficient=is_proficient(measures.total_messages, calls),
        is_successful=is_successful(calls, rate),
        task_type=measures.task_type,
        category=measures.category,
    )


def is_proficient(messages: int, calls: int) -> bool:
    """True if a session is long enough to learn from."""
    return messages >= PROFICIENT_MESSAGES and calls >= _PROFICIENT_CALLS


def is_successful(calls: int, error_rate: float | None) -> bool:
    """True if a session's calls hardly ever failed."""
    return (
        calls >= _SUCCESSFUL_CALLS
        and error_rate is not None
        and error_rate <= SUCCESSFUL_FAILURE_RATE
    )


def standardize(value: float, feature: Feature) -> float:
    """Return the distance of a value from the typical one, in deviations."""
    return max(-_EXTREME, min(_EXTREME, (value - feature.mean) / feature.deviation))


@cache
def read_default_weights() -> Weights:
    """Return the weights that come with Relight: a prior for work of every kind."""
    table = read_scoring_table()
    return Weights(table.intercept, table.features)


class Example(Struct, frozen=True):
    """A labelled session: its features, whether it succeeded, and its task.

    Sessions of one task resemble each other, so they are never on both sides of a check.
    """

    features: Mapping[str, float | None]
    is_success: bool
    task: str = ""


def refit(examples: Sequence[Example], *, prior: Weights | None = None) -> Weights:
    """Return weights fitted to these sessions, or the prior if they are not better.

    They need enough examples of both outcomes and a cross-validated AUC above the prior's.
    """
    prior = prior or read_default_weights()
    successes = sum(example.is_success for example in examples)
    enough = len(examples) >= read_scoring_table().minimum_examples
    if not enough or not 0 < successes < len(examples):
        return prior
    names = {example.task for example in examples if example.task}
    fold_of = {task: at % _FOLDS for at, task in enumerate(sorted(names))}
    folds = [fold_of.get(one.task, at % _FOLDS) for at, one in enumerate(examples)]
    predicted = [0.0] * len(examples)
    for fold in range(_FOLDS):
        seen = [one for one, own in zip(examples, folds, strict=True) if own != fold]
        if len({one.is_success for one in seen}) < 2:
            return prior
        weights = _fit(seen, prior)
        for at, own in enumerate(folds):
            if own == fold:
                predicted[at] = predict(examples[at].features, weights)
    labels = [example.is_success for example in examples]
    before = auc([predict(example.features, prior) for example in examples], labels)
    after = auc(predicted, labels)
    if before is None or after is None or after <= before:
        return prior
    fitted = _fit(examples, prior)
    return Weights(fitted.intercept, fitted.features, len(examples), after)


def predict(features: Mapping[str, float | None], weights: Weights) -> float:
    """Return the log-odds of success of these features."""
    return weights.intercept + math.fsum(
        feature.weight * standardize(value, feature)
        for name, feature in weights.features.items()
        if (value := features.get(name)) is not None
    )


def _fit(examples: Sequence[Example], prior: Weights) -> Weights:
    """Newton's method on the penalised likelihood, with the scales of the examples."""
    found = {name: _scale(examples, name, old) for name, old in prior.features.items()}
    scales = {name: scale for name, scale in found.items() if scale is not None}
    rows = [
        [1.0]
        + [
            0.0 if (value := one.features.get(name)) is None else standardize(value, scale)
            for name, scale in scales.items()
        ]
        for one in examples
    ]
    labels = [float(one.is_success) for one in examples]
    target = [prior.intercept] + [prior.features[name].weight for name in scales]
    penalties = [1e-6] + [read_scoring_table().ridge] * len(scales)
    weights = list(target)
    for _ in range(_STEPS):
        change = _newton_step(rows, labels, weights, target, penalties)
        weights = [weight + step for weight, step in zip(weights, change, strict=True)]
        if max(map(abs, change)) < _TOLERANCE:
            break
    features = dict(prior.features)
    for (name, scale), weight in zip(scales.items(), weights[1:], strict=True):
        features[name] = Feature(weight, scale.mean, scale.deviation)
    return Weights(weights[0], features)


def _scale(examples: Sequence[Example], name: str, old: Feature) -> Feature | None:
    """The mean and deviation of a feature; None if it is the same in all examples."""
    values = [value for one in examples if (value := one.features.get(name)) is not None]
    mean = math.fsum(values) / len(values) if values else 0.0
    squares = math.fsum((value - mean) ** 2 for value in values)
    if not values or squares <= 1e-12:
        return None
    return Feature(old.weight, mean, math.sqrt(squares / len(values)))


def _newton_step(
    rows: Sequence[Sequence[float]],
    labels: Sequence[float],
    weights: Sequence[float],
    target: Sequence[float],
    penalties: Sequence[float],
) -> list[float]:
    size = len(weights)
    gradient = [penalties[i] * (target[i] - weights[i]) for i in range(size)]
    curvature = [[penalties[i] * (i == j) for j in range(size)] for i in range(size)]
    for row, label in zip(rows, labels, strict=True):
        z = math.fsum(weight * value for weight, value in zip(weights, row, strict=True))
        chance = 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))
        spread = chance * (1 - chance)
        for i, value in enumerate(row):
            gradient[i] += (label - chance) * value
            for j in range(i + 1):
                curvature[i][j] += spread * value * row[j]
    for i in range(size):
        for j in range(i):
            curvature[j][i] = curvature[i][j]
    return _solve(curvature, gradient)


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a positive definite system, by elimination."""
    size = len(right)
    for i in range(size):
        for k in range(i + 1, size):
            share = matrix[k][i] / matrix[i][i]
            for j in range(i, size):
                matrix[k][j] -= share * matrix[i][j]
            right[k] -= share * right[i]
    answer = [0.0] * size
    for i in reversed(range(size)):
        known = math.fsum(matrix[i][j] * answer[j] for j in range(i + 1, size))
        answer[i] = (right[i] - known) / matrix[i][i]
    return answer
