"""Warm starts: how good scores, seeds, choices and verdicts are, and how fast.

`--data DIR` names a folder of labelled sessions; `bench/labelled.py` says under which names their
fields are looked for, and `--field outcome=verdict` adds one. What was found in each file is
printed first: figures that need a field which is not there are left out, never guessed.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.labelled import FIELDS, Labelled, merge_calls, read_sessions
from bench.measure import judge, print_rows
from bench.warm_speed import Row, measure_report, measure_speed, place_template
from relight.chat.messages import read_entries
from relight.chat.similarity import Vector, cosine, weigh_words
from relight.chat.tokens import estimate_messages
from relight.chat.validity import validate_messages
from relight.judging.features import judge_calls
from relight.judging.kinds import classify_session
from relight.judging.scoring import score_session
from relight.stats.rates import auc
from relight.store import Store, open_store
from relight.store.templates import insert_version
from relight.warm import index
from relight.warm.capture import Material, make_template
from relight.warm.choice import rank_templates
from relight.warm.plans import WarmPlan
from relight.warm.seeds import extract_seed
from relight.work.experiments.holdout import compare_arms
from relight.work.experiments.metrics import FIRST_CALLS
from relight.work.experiments.metrics import ArmSession as Dealt

BUDGET = 2000
AUC = {"tau": 0.56, "swe_mini": 0.62}
RELEVANCE = {"tau": 1.7, "swe_mini": 3.0}
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
    rows += [*measure_speed(), *measure_report()]
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
    counts = {
        "an outcome": sum(one.is_success is not None for one in sessions),
        "a project": sum(one.project is not None for one in sessions),
        "reference actions": sum(bool(one.reference) for one in sessions),
    }
    told = ", ".join(f"{count} with {what}" for what, count in counts.items())
    tasks = len({one.task for one in sessions})
    print(f"{file.name}: {len(sessions)} sessions of {tasks} tasks, {told}")
    if not sessions:
        return []
    rows = [*measure_kinds(name, sessions), *measure_scores(name, sessions)]
    rows += [*measure_seeds(name, sessions), *measure_recall(name, sessions)]
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


def measure_choice(name: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    """Relevance of the first choice against that of any, no template being of the same task."""
    good = [one for one in sessions if one.is_success]
    if len({one.task for one in good}) < 5:
        return
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as store:
        taken = _add_templates(store, good)
        chosen = anyone = 0.0
        counted = 0
        asked = {one.task: one for one in good}
        actions = {key: _read_actions(one) for key, one in taken.items()}
        for one in asked.values():
            others = [key for key, other in taken.items() if other.task != one.task]
            scores = {key: _relevance(one, taken[key], actions[key]) for key in others}
            ranked = rank_templates(store, one.text, project=one.project)
            best = next((each.template.name for each in ranked if each.template.name in scores), "")
            if best and scores:
                counted += 1
                chosen += scores[best]
                anyone += sum(scores.values()) / len(scores)
    if anyone:
        ratio = chosen / anyone
        limit = next((limit for part, limit in RELEVANCE.items() if part in name), None)
        told = f"{chosen / counted:.3f}, {ratio:.2f} × random"
        verdict = judge(limit, ratio) if limit else ""
        yield (f"{name}: relevance of the first choice", told, f"{limit or ''} ×", verdict)


def _add_templates(store: Store, good: Sequence[Labelled]) -> dict[str, Labelled]:
    taken = {}
    with store.transaction() as database:
        for number, one in enumerate(good):
            material = Material(
                messages=one.messages, calls=one.calls, outcome="success", evidence=[]
            )
            score = score_session(one.messages, calls=one.calls)
            name = f"t{number}"
            try:
                made = make_template(store, material, score, name=name, project=one.project)
            except Exception as error:  # noqa: BLE001 - a session without a call teaches nothing
                print(f"{name}: {error}")
                continue
            insert_version(database, place_template(database, made))
            taken[name] = one
        index.rebuild_index(database)
    return taken


def _read_actions(one: Labelled) -> tuple[list[str], Vector]:
    calls = [call for entry in read_entries(one.messages) for call in entry.calls]
    names = [call.tool for call in calls]
    return names, weigh_words(" ".join(str(call.arguments) for call in calls))


def _relevance(wanted: Labelled, other: Labelled, actions: tuple[list[str], Vector]) -> float:
    names, words = actions
    if wanted.reference:
        gold = [str(action.get("name")) for action in wanted.reference]
        return _common_share(gold, names)
    return cosine(_read_actions(wanted)[1], words)


def _common_share(a: Sequence[str], b: Sequence[str]) -> float:
    """F1 of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = 0
        for at, other in enumerate(b, 1):
            before, row[at] = row[at], before + 1 if one == other else max(row[at], row[at - 1])
    return 2 * row[-1] / (len(a) + len(b)) if a or b else 0.0


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
