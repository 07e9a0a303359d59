"""Weights of a workspace's own, once enough of its sessions are labelled.

A ridge logistic regression that is drawn towards the weights shipped, so that a feature of which
the examples say nothing keeps its worth. Pure Python, and the same every time.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from relight.judging.features import Feature, read_table
from relight.judging.scoring import Weights, read_weights, standardize
from relight.stats.rates import auc

_FOLDS = 5
_STEPS = 50
_TOLERANCE = 1e-10


class Example(Struct, frozen=True):
    """A labelled session: its features, whether it succeeded, and the task it was about.

    Sessions of one task resemble each other, so they are never on both sides of a check.
    """

    features: Mapping[str, float | None]
    is_success: bool
    task: str = ""


def refit(examples: Sequence[Example], *, prior: Weights | None = None) -> Weights:
    """Weights for sessions like these; the prior unless there is reason for others.

    Reason is: enough examples, of both outcomes, and a cross-validated AUC above the prior's.
    """
    prior = prior or read_weights()
    successes = sum(example.is_success for example in examples)
    enough = len(examples) >= read_table().minimum_examples
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
    """The log-odds of success that weights give to features."""
    return weights.intercept + math.fsum(
        feature.weight * standardize(value, feature)
        for name, feature in weights.features.items()
        if (value := features.get(name)) is not None
    )


def _fit(examples: Sequence[Example], prior: Weights) -> Weights:
    """Newton's method on the penalised likelihood; scales are the examples' own."""
    scales = {name: _scale(examples, name, old) for name, old in prior.features.items()}
    names = [name for name, scale in scales.items() if scale is not None]
    rows = [
        [1.0]
        + [
            0.0 if (value := one.features.get(name)) is None else standardize(value, scale)
            for name in names
            if (scale := scales[name]) is not None
        ]
        for one in examples
    ]
    labels = [float(one.is_success) for one in examples]
    target = [prior.intercept] + [prior.features[name].weight for name in names]
    penalties = [1e-6] + [read_table().ridge] * len(names)
    weights = list(target)
    for _ in range(_STEPS):
        change = _newton_step(rows, labels, weights, target, penalties)
        weights = [weight + step for weight, step in zip(weights, change, strict=True)]
        if max(map(abs, change)) < _TOLERANCE:
            break
    features = dict(prior.features)
    for name, weight in zip(names, weights[1:], strict=True):
        scale = scales[name]
        if scale is not None:
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
