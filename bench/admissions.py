"""Admitted failures: cross-validation on labelled answers, speed, and the fit of the weights.

The answers are in `tests/judging/answers.jsonl`. A set is the work of one writer, who had not seen
the rules. Each set is judged with weights that were fitted on the other sets; the examples help
every fit. The phrases of cues were chosen with all sets in view, so these figures are too good.
With `--strict` a set is judged without the phrases that no other set has: these are too bad.
`--write` fits all sets and writes weights and threshold into `admissions.toml`.
"""

import argparse
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from relight.judging.admissions import (
    AdmissionIndex,
    Cue,
    admit,
    count_features,
    list_clauses,
    list_features,
    make_index,
    read_admission_table,
)

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = ROOT / "tests" / "judging" / "answers.jsonl"
TABLE = ROOT / "src" / "relight" / "data" / "admissions.toml"
EXAMPLES = "examples"
CUES = ("cue ", "first ", "last ")
LEAST_ANSWERS = 3
MOST_PHRASES = 150
# a phrase is worth less than a cue before anything is seen of it
PHRASE_SCALE = 0.3
EXAMPLE_WEIGHT = 3
ROUNDS = 60
LEAST_PRECISION = 0.95

Weights = dict[str, float]


class Judged(NamedTuple):
    """An answer: the set, whether it admits a failure, and its features."""

    group: str
    is_admitted: bool
    features: Mapping[str, float]


def main(argv: list[str]) -> int:
    """Print precision and recall by set, and the speed; with `--write`, fit the table."""
    parser = argparse.ArgumentParser(prog="bench admissions")
    parser.add_argument("--write", action="store_true", help="fit the weights and write them")
    parser.add_argument("--strict", action="store_true", help="without phrases of one set only")
    options = parser.parse_known_args(argv)[0]
    rows = [json.loads(line) for line in ANSWERS.read_text("utf-8").splitlines()]
    judged = [read_answer(row) for row in rows]
    groups = sorted({one.group for one in judged} - {EXAMPLES})
    scores: dict[int, float] = {}
    for group in groups:
        tested = judged
        if options.strict:
            index = make_reduced_index(row for row in rows if row["set"] != group)
            tested = [read_answer(row, index) for row in rows]
        bias, weights = fit([one for one in tested if one.group != group])
        for number, one in enumerate(tested):
            if one.group == group:
                scores[number] = score(one.features, bias, weights)
    threshold = choose_threshold([(scores[n], judged[n].is_admitted) for n in scores])
    print(f"cross-validation, threshold {threshold:.2f}:")
    for group in [*groups, ""]:
        chosen = [n for n in scores if judged[n].group.startswith(group)]
        print(describe(group or "all", [(scores[n] >= threshold, judged[n][1]) for n in chosen]))
    if options.write:
        bias, weights = fit(judged)
        write_table(bias, weights, threshold)
        print(f"{len(weights)} weights written to {TABLE.relative_to(ROOT)}")
    else:
        measure_speed([row["text"] for row in rows])
    return 0


def make_reduced_index(rows: Iterable[Mapping[str, Any]]) -> AdmissionIndex:
    """Return an index of the phrases that some answers have."""
    table = read_admission_table()
    names = {phrase for cue in table.cue for phrase in (*cue.phrases, *cue.characters)}
    ones = tuple(Cue(name=name, phrases=(name,), characters=(name,)) for name in sorted(names))
    alone = make_index(replace(table, cue=ones))
    found = {
        name.removeprefix("cue ")
        for row in rows
        for names in list_features(list_clauses(row["text"]), index=alone)
        for name in names
        if name.startswith("cue ")
    }
    cues = tuple(
        replace(
            cue,
            phrases=tuple(phrase for phrase in cue.phrases if phrase in found),
            characters=tuple(text for text in cue.characters if text in found),
        )
        for cue in table.cue
    )
    return make_index(replace(table, cue=cues))


def read_answer(row: Mapping[str, Any], index: AdmissionIndex | None = None) -> Judged:
    """Return a labelled answer with its features."""
    found = list_features(list_clauses(row["text"]), row["task"], index=index)
    return Judged(row["set"], bool(row["admits_failure"]), count_features(found))


def fit(judged: list[Judged]) -> tuple[float, Weights]:
    """Return bias and weights of the cues and of the phrases that matter most."""
    rows = [scale(one.features) for one in judged]
    counts = Counter(name for row in rows for name in row)
    groups: dict[str, set[str]] = {}
    for one, row in zip(judged, rows, strict=True):
        for name in row:
            groups.setdefault(name, set()).add(one.group)
    names = {
        name
        for name, count in counts.items()
        if count >= LEAST_ANSWERS and (name.startswith(CUES) or len(groups[name]) > 1)
    }
    _, weights = _descend(judged, rows, names)
    share = {name: counts[name] / len(rows) for name in names}
    worth = {
        name: abs(weights[name]) * math.sqrt(share[name] * (1 - share[name]))
        for name in names
        if not name.startswith(CUES)
    }
    kept = set(sorted(worth, key=lambda name: (-worth[name], name))[:MOST_PHRASES])
    bias, weights = _descend(judged, rows, kept | {name for name in names if name.startswith(CUES)})
    return bias, {
        name: weight if name.startswith(CUES) else weight * PHRASE_SCALE
        for name, weight in weights.items()
    }


def scale(features: Mapping[str, float]) -> Weights:
    return {
        name: value if name.startswith(CUES) else value * PHRASE_SCALE
        for name, value in features.items()
    }


def _descend(judged: list[Judged], rows: list[Weights], names: set[str]) -> tuple[float, Weights]:
    """Logistic regression with a normal prior, one coordinate after the other."""
    columns: dict[str, list[tuple[int, float]]] = {name: [] for name in sorted(names)}
    for number, row in enumerate(rows):
        for name, value in row.items():
            if name in names:
                columns[name].append((number, value))
    parts = [EXAMPLE_WEIGHT if one.group == EXAMPLES else 1 for one in judged]
    signs = [1.0 if one.is_admitted else 0.0 for one in judged]
    margins = [0.0] * len(rows)
    errors = [part * (0.5 - sign) for part, sign in zip(parts, signs, strict=True)]
    bias, weights = 0.0, dict.fromkeys(columns, 0.0)
    everything = [(number, 1.0) for number in range(len(rows))]

    def move(column: list[tuple[int, float]], step: float) -> None:
        for number, value in column:
            margins[number] += step * value
            chance = 1 / (1 + math.exp(-margins[number]))
            errors[number] = parts[number] * (chance - signs[number])

    for _ in range(ROUNDS):
        step = -sum(errors) / (0.25 * sum(parts))
        bias += step
        move(everything, step)
        for name, column in columns.items():
            slope = weights[name] + sum(errors[number] * value for number, value in column)
            curve = 1 + 0.25 * sum(parts[number] * value * value for number, value in column)
            weights[name] -= slope / curve
            move(column, -slope / curve)
    return bias, weights


def score(features: Mapping[str, float], bias: float, weights: Weights) -> float:
    return bias + sum(weights.get(name, 0.0) * value for name, value in features.items())


def choose_threshold(scored: list[tuple[float, bool]]) -> float:
    """Return the lowest score at which enough of the answers found are right."""
    best, right = math.inf, 0
    for count, (value, is_admitted) in enumerate(sorted(scored, reverse=True), start=1):
        right += is_admitted
        if right >= LEAST_PRECISION * count:
            best = value
    return best


def describe(name: str, found: Iterable[tuple[bool, bool]]) -> str:
    counts = Counter(found)
    right, wrong, missed = counts[True, True], counts[True, False], counts[False, True]
    return (
        f"  {name:6} {right} of {right + missed} found ({right / (right + missed):.2f}),"
        f" {wrong} of {wrong + counts[False, False]} false alarms,"
        f" precision {right / max(1, right + wrong):.2f}"
    )


def write_table(bias: float, weights: Weights, threshold: float) -> None:
    text = TABLE.read_text("utf-8").partition("\n[phrases]\n")[0]
    text = re.sub(r"(?m)^threshold = .*$", f"threshold = {threshold:.2f}", text)
    text = re.sub(r"(?m)^bias = .*$", f"bias = {bias:.2f}", text)
    text = re.sub(r"(?m)^(weight|first|last) = .*\n", "", text)
    for cue in read_admission_table().cue:
        keys = (("weight", "cue"), ("first", "first"), ("last", "last"))
        lines = [f"{key} = {weights.get(f'{kind} {cue.name}', 0.0):.2f}\n" for key, kind in keys]
        head = f'name = "{cue.name}"\n'
        text = text.replace(head, head + "".join(lines))
    phrases = {name: weight for name, weight in weights.items() if not name.startswith(CUES)}
    ordered = sorted(phrases, key=lambda name: (-phrases[name], name))
    lines = [f"{json.dumps(name, ensure_ascii=False)} = {phrases[name]:.2f}" for name in ordered]
    TABLE.write_text(text + "\n[phrases]\n" + "\n".join(lines) + "\n", "utf-8")


def measure_speed(answers: list[str]) -> None:
    admit.__wrapped__(answers[0])
    started = time.process_time()
    for answer in answers:
        admit.__wrapped__(answer)
    seconds = time.process_time() - started
    size = sum(map(len, answers))
    print(f"{seconds * 1e3 * 300 / size:.2f} ms for 300 characters")
