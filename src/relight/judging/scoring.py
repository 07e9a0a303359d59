"""How good a session was, from 0 to 1, with the parts that made it so.

How a session went says little about how it ended: the score ranks a success above a failure in
six cases of ten, in eight at best. Prefer any outcome that is known. The weights are in
`data/scoring.toml`.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from relight.judging.features import Feature, Measures, measure_session, read_table
from relight.judging.kinds import Category, TaskType

_PROFICIENT_MESSAGES, _PROFICIENT_CALLS = 20, 5
_SUCCESSFUL_CALLS, _SUCCESSFUL_FAILURE_RATE = 3, 0.1
_EXTREME = 3.0  # deviations; a feature further out says no more


class Weights(Struct, frozen=True):
    """What each feature is worth; `examples` and `auc` tell of the sessions they were fitted to."""

    intercept: float
    features: dict[str, Feature]
    examples: int = 0
    auc: float | None = None


class Score(Struct, frozen=True, kw_only=True):
    """A session's score, and what it was made of.

    `parts` are log-odds and add up to those of the score. `error_rate` is None where no call has
    a verdict.
    """

    score: float
    parts: dict[str, float]
    total_messages: int
    tool_calls: int
    tool_results: int
    error_count: int
    error_rate: float | None
    unique_tools: int
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
    """How good the session of these OpenAI chat messages was.

    `calls` adds what the messages do not say: `exit_code`, `timed_out` and `is_error` by
    `call_id`.
    """
    return score_measures(measure_session(messages, calls=calls), weights=weights)


def score_measures(measures: Measures, *, weights: Weights | None = None) -> Score:
    """The score that measures give with some weights, those of `scoring.toml` if none are given."""
    weights = weights or read_weights()
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
        unique_tools=measures.unique_tools,
        is_proficient=measures.total_messages >= _PROFICIENT_MESSAGES
        and calls >= _PROFICIENT_CALLS,
        is_successful=calls >= _SUCCESSFUL_CALLS
        and rate is not None
        and rate <= _SUCCESSFUL_FAILURE_RATE,
        task_type=measures.task_type,
        category=measures.category,
    )


def standardize(value: float, feature: Feature) -> float:
    """How many deviations a value is from what is typical."""
    return max(-_EXTREME, min(_EXTREME, (value - feature.mean) / feature.deviation))


@cache
def read_weights() -> Weights:
    """The weights that come with Relight: a prior for work of every kind."""
    table = read_table()
    return Weights(table.intercept, table.features)
