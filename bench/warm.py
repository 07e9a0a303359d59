"""Warm starts: how good scores, seeds, choices and verdicts are, and how fast.

`--data DIR` names a folder of `*.jsonl` (or `.jsonl.gz`) files in the `chat` format: one session a
line with `messages`, and where known `calls`, `outcome` or `reward`, `task_id`, `project`, and
`reference_actions`, a list of objects with `name` and `arguments`.
"""

import argparse
import gzip
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.measure import judge, print_rows, relight, run
from relight.conversations import read_entries
from relight.experiments import Session as Dealt
from relight.experiments import compare
from relight.relevance import Vector, cosine, read_words
from relight.scoring import score_session
from relight.seeds import extract_seed
from relight.stats import auc
from relight.store import Store, open_store
from relight.taxonomy import classify_session
from relight.templates import catalogue
from relight.templates.capture import Material, make_template
from relight.templates.choice import choose_template, rank_templates
from relight.templates.library import Template, write_version
from relight.tokens import estimate_messages
from relight.validity import validate_messages

BUDGET = 2000
TEMPLATES = 10_000
CHOOSE_MS, WARM_SECONDS = 50, 0.4
AUC = {"tau": 0.56, "swe_mini": 0.62}
RELEVANCE = {"tau": 1.7, "swe_mini": 3.0}
RECALL = 0.80
FALSE_ALARMS = 0.06
TRIALS = 200

Row = tuple[str, str, str, str]


class Labelled(NamedTuple):
    messages: list[Any]
    calls: list[dict[str, Any]]
    is_success: bool | None
    task: str
    project: str | None
    reference: list[dict[str, Any]]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench warm")
    parser.add_argument("--data", type=Path, help="folder of labelled sessions")
    folder: Path | None = parser.parse_known_args(words)[0].data
    rows: list[Row] = [("what", "figure", "limit", "")]
    rows += measure_speed()
    files = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")]) if folder else []
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
    rows = [*measure_kinds(name, sessions), *measure_scores(name, sessions)]
    rows += [*measure_seeds(name, sessions), *measure_recall(name, sessions)]
    return [*rows, *measure_choice(name, sessions), *measure_alarms(name, sessions)]


def read_sessions(file: Path) -> Iterator[Labelled]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for line in lines:
            told = json.loads(line)
            told = told if isinstance(told, dict) else {"messages": told}
            outcome = told.get("outcome")
            reward = told.get("reward")
            known = {"success": True, "failure": False, True: True, False: False}
            is_success = known.get(outcome) if isinstance(outcome, str | bool) else None
            if is_success is None and isinstance(reward, int | float):
                is_success = reward >= 0.5
            messages = told["messages"]
            first = next((one.text for one in read_entries(messages) if one.role == "user"), "")
            task = told.get("task_id") or told.get("task") or told.get("instance_id") or first
            yield Labelled(
                messages=messages,
                calls=told.get("calls") or [],
                is_success=is_success,
                task=str(task),
                project=told.get("project") or told.get("repo") or told.get("domain"),
                reference=told.get("reference_actions") or told.get("actions") or [],
            )


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
    dice = random.Random(5)
    good = 0
    for one in sessions:
        most = dice.choice((30, 30, 3, 7, 12))
        seed = extract_seed(one.messages, max_messages=most, calls=one.calls)
        good += (
            len(seed) <= most
            and estimate_messages(seed) <= BUDGET
            and not validate_messages(seed)
            and not validate_messages(seed, rules="anthropic")
        )
    share = good / len(sessions)
    yield (f"{name}: seeds valid and within budget", f"{share:.1%}", "100 %", judge(1.0, share))


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
            first = read_entries(one.messages)
            text = next((entry.text for entry in first if entry.role == "user"), "")
            ranked = rank_templates(store, text, project=one.project)
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
            write_version(database, _place(database, made))
            taken[name] = one
        catalogue.rebuild(database)
    return taken


def _place(database: Any, template: Template) -> Template:
    added = database.execute(
        "insert into template (name, project, category, created_at) values (?, ?, ?, 1)",
        (template.name, template.project, template.category),
    )
    return msgspec.structs.replace(template, id=added.lastrowid, version=1)


def _read_actions(one: Labelled) -> tuple[list[str], Vector]:
    calls = [call for entry in read_entries(one.messages) for call in entry.calls]
    names = [call.tool for call in calls]
    return names, read_words(" ".join(str(call.arguments) for call in calls))


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
    scored = [score_session(one.messages, calls=one.calls) for one in sessions]
    alarms = 0
    for _ in range(TRIALS):
        some = dice.sample(scored, k=min(len(scored), 200))
        dealt = [
            Dealt(
                arm="cold" if dice.random() < 0.5 else "warm",
                outcome=None,
                calls=one.tool_calls,
                judged_first=one.tool_results,
                failed_first=one.error_count,
                failures=one.error_count,
                tools=one.unique_tools,
                seconds=None,
                has_success=False,
                cost_usd=None,
                output_tokens=None,
            )
            for one in some
        ]
        p_value = compare(dealt, samples=200).measures["first_30_failure_rate"].p_value
        alarms += p_value is not None and p_value < 0.05
    share = alarms / TRIALS
    yield (f"{name}: false alarms at 5 %", f"{share:.1%}", "6 %", judge(share, FALSE_ALARMS))


def measure_speed() -> Iterator[Row]:
    """Choosing among ten thousand templates of invented tasks, in a process and as a command."""
    dice = random.Random(3)
    vocabulary = [f"{a}{b}" for a in _HEADS for b in _TAILS]
    weights = [1 / (place + 1) ** 0.8 for place in range(len(vocabulary))]

    def invent(number: int) -> str:
        return " ".join(dice.choices(vocabulary, weights, k=60)) + f" ticket{number % 3000}"

    with tempfile.TemporaryDirectory() as folder:
        with open_store(folder) as store:
            with store.transaction() as database:
                for number in range(TEMPLATES):
                    write_version(
                        database, _place(database, _invent_template(number, invent(number)))
                    )
                catalogue.rebuild(database)
            choose_template(store, "the first call in a process")
            spent = []
            for number in range(50):
                task = invent(number)
                started = time.perf_counter()
                choose_template(store, task, project="/p3", tools=["bash"])
                spent.append((time.perf_counter() - started) * 1000)
        figure = sorted(spent)[len(spent) // 2]
        yield (
            f"choose_template among {TEMPLATES:,}",
            f"{figure:.0f} ms, at most {max(spent):.0f}",
            f"{CHOOSE_MS} ms",
            judge(figure, CHOOSE_MS),
        )
        warm = relight("warm", invent(1), "--home", folder, "--json")
        seconds = sorted(run(warm, {}).seconds for _ in range(7))[3]
        limit = f"{WARM_SECONDS} s"
        told = f"relight warm among {TEMPLATES:,}"
        yield (told, f"{seconds:.2f} s", limit, judge(seconds, WARM_SECONDS))


_HEADS = ("inv", "ord", "cust", "pay", "deploy", "parse", "cach", "rend", "sync", "migr", "auth")
_TAILS = ("oice", "er", "omer", "ment", "ing", "table", "view", "flow", "node", "spec", "rule")


def _invent_template(number: int, task: str) -> Template:
    function = {"name": "bash", "arguments": json.dumps({"command": task[:80]})}
    call = {"id": f"c{number:08x}", "type": "function", "function": function}
    seed: list[dict[str, Any]] = [
        {"role": "user", "content": task},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "done " * 300},
    ]
    return Template(
        id=0,
        name=f"t{number}",
        version=1,
        description="",
        project=f"/p{number % 50}",
        category="coding",
        task_type="code",
        tags=[],
        tools=["bash"],
        task=task,
        actions=read_words(task[:200]),
        seed=seed,
        tokens=500,
        score=0.5,
        outcome="success",
        evidence=[],
        overruled=[],
        redactions={},
        source_session=None,
        provenance=None,
        created_at=1,
        content_hash=str(number),
    )
