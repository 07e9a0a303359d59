"""Warm starts: how good scores, seeds, choices and verdicts are, and how fast.

`--data DIR` names a folder of labelled sessions; `bench/labelled.py` says under which names their
fields are looked for, and `--field outcome=verdict` adds one. What was found in each file is
printed first: figures that need a field which is not there are left out, never guessed.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.labelled import FIELDS, Labelled, merge_calls, read_sessions
from bench.lesson_effect import measure_lesson_effect
from bench.measure import judge, print_rows
from bench.warm_choice import measure_choice
from bench.warm_lessons import measure_lessons, measure_repositories
from bench.warm_speed import Row, measure_report, measure_speed
from relight.chat.messages import read_entries
from relight.chat.tokens import estimate_messages
from relight.chat.validity import validate_messages
from relight.judging.features import judge_calls
from relight.judging.kinds import classify_session
from relight.judging.scoring import score_session
from relight.stats.rates import auc
from relight.warm.plans import WarmPlan
from relight.warm.seeds import extract_seed
from relight.work.experiments.holdout import compare_arms
from relight.work.experiments.metrics import FIRST_CALLS
from relight.work.experiments.metrics import ArmSession as Dealt

BUDGET = 2000
AUC = {"tau": 0.56, "swe_mini": 0.62}
RECALL = 0.80
FALSE_ALARMS = 0.05
TRIALS = 200


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench warm")
    parser.add_argument("--data", type=Path, help="folder of labelled sessions")
    parser.add_argument("--field", action="append", default=[], metavar="FIELD=NAME")
    asked = parser.parse_known_args(words)[0]
    for pair in asked.field:
        field, _, name = pair.partition("=")
        if field not in FIELDS:
            parser.error(f"there is no field {field!r}, only {', '.join(FIELDS)}")
        FIELDS[field].insert(0, name)
    folder: Path | None = asked.data
    rows: list[Row] = [("what", "figure", "limit", "")]
    rows += [*measure_speed(), *measure_report(), *measure_repositories()]
    rows += measure_lesson_effect()
    kinds = ("*.jsonl", "*.jsonl.gz", "*.json")
    files = sorted(path for kind in kinds for path in folder.rglob(kind)) if folder else []
    for file in files:
        rows += measure_file(file)
    print_rows(rows)
    if folder is None:
        print("\nno labelled sessions: scores, seeds, choices and false alarms need --data DIR")
        print("(the head of bench/warm.py says what is in it)")
    elif not files:
        print(f"\nno *.jsonl in {folder}")
        return 1
    return int(any(row[3] == "MISSED" for row in rows))


def measure_file(file: Path) -> list[Row]:
    """Every figure that the sessions of one file allow."""
    name = file.name.partition(".")[0]
    sessions = list(read_sessions(file))
    if not sessions:  # a list of the files, say
        return []
    counts = {
        "an outcome": sum(one.is_success is not None for one in sessions),
        "a project": sum(one.project is not None for one in sessions),
        "reference actions": sum(bool(one.reference) for one in sessions),
    }
    known = ", ".join(f"{count} with {what}" for what, count in counts.items())
    tasks = len({one.task for one in sessions})
    print(f"{file.name}: {len(sessions)} sessions of {tasks} tasks, {known}")
    rows = [*measure_kinds(name, sessions), *measure_scores(name, sessions)]
    rows += [*measure_seeds(name, sessions), *measure_recall(name, sessions)]
    rows += measure_lessons(name, sessions)
    return [*rows, *measure_choice(name, sessions), *measure_alarms(name, sessions)]


def measure_kinds(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    kinds = [classify_session(one.messages) for one in sessions]
    told = sum(one.task_type != "mixed" or one.category != "general" for one in kinds)
    share = told / len(kinds)
    yield (f"{name}: sessions with a kind", f"{share:.1%}", "95 %", judge(0.95, share))


def measure_scores(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    known = [one for one in sessions if one.is_success is not None]
    scores = [score_session(one.messages, calls=one.calls).score for one in known]
    value = auc(scores, [bool(one.is_success) for one in known])
    limit = next((limit for part, limit in AUC.items() if part in name), None)
    if value is not None:
        verdict = judge(limit, value) if limit else ""
        yield (f"{name}: score AUC", f"{value:.3f}", f"{limit or ''}", verdict)


def measure_seeds(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    """Seeds of all sessions, as they are and with calls made at once, of any number of messages."""
    for told, size in (("", 1), (" of merged calls", 3)):
        dice = random.Random(5)
        good = 0
        for one in sessions:
            messages = merge_calls(one.messages, size) if size > 1 else one.messages
            most = dice.choice((30, 30, 3, 7, 12))
            seed = extract_seed(messages, max_messages=most, calls=one.calls)
            good += (
                len(seed) <= most
                and estimate_messages(seed) <= BUDGET
                and not validate_messages(seed)
                and not validate_messages(seed, rules="anthropic")
            )
        share = good / len(sessions)
        title = f"{name}: seeds{told} valid and within budget"
        yield (title, f"{share:.1%}", "100 %", judge(1.0, share))


def measure_recall(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    found = wanted = 0
    for one in sessions:
        if not one.is_success or not one.reference:
            continue
        shown = {_name_call(call["function"]) for call in _seed_calls(one)}
        actions = [_name_call(action) for action in one.reference]
        wanted += len(actions)
        found += sum(action in shown for action in actions)
    if wanted:
        share = found / wanted
        yield (f"{name}: reference actions in seeds", f"{share:.2f}", "0.80", judge(RECALL, share))


def _seed_calls(one: Labelled) -> list[Any]:
    seed = extract_seed(one.messages, max_tokens=BUDGET, calls=one.calls)
    return [call for message in seed for call in message.get("tool_calls", ())]


def _name_call(action: dict[str, Any]) -> tuple[str, str]:
    arguments = action.get("arguments", action.get("kwargs")) or {}
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return str(action.get("name")), json.dumps(arguments, sort_keys=True)


def measure_alarms(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    """How often the report sees a difference between arms dealt from the same sessions."""
    dice = random.Random(11)
    judged = [_judge_first(one) for one in sessions]
    alarms = 0
    for _ in range(TRIALS):
        some = dice.sample(judged, k=min(len(judged), 200))
        dealt = [
            Dealt(
                arm="cold" if dice.random() < 0.5 else "warm",
                outcome=None,
                calls=calls,
                judged_first=calls,
                failed_first=failed,
                failures=failed,
                tools=1,
                seconds=None,
                has_success=False,
                cost_usd=None,
                output_tokens=None,
            )
            for calls, failed in some
        ]
        alarms += compare_arms(dealt, WarmPlan(), samples=100).verdict != "cannot tell yet"
    share = alarms / TRIALS
    yield (f"{name}: wrong verdicts", f"{share:.1%}", "5 %", judge(share, FALSE_ALARMS))


def _judge_first(one: Labelled) -> tuple[int, int]:
    """How many of a session's first calls were judged, and how many of those failed."""
    calls = [call for entry in read_entries(one.messages) for call in entry.calls]
    labels = [verdict.label for verdict in judge_calls(calls, facts=one.calls)]
    first = [label for label in labels if label != "unknown"][:FIRST_CALLS]
    return len(first), first.count("error")
