"""How good the choice of a template is, on labelled sessions.

Every task is a query, and the templates are all successful sessions of other task groups: a group
holds tasks of one user, so leaving out the task alone would show the answer. The query is the
task's text, also inside the first message if that wraps it, else the first message itself.

The relevance of a template is how alike its actions are to what the task takes: the longest common
subsequence (F1) of the tools that worked and the reference actions, or without these the TF-IDF
cosine of its commands and those of the task's own run, here-documents left out. Words that only
that run holds are left out: no template can have them. `own` is the relevance of the first choice
minus its mean over all tasks of the project: what is owed to the choice, and not to a template that
fits everything. A hit is a template within 10 % of the best among the first three. Figures are
means over tasks; a third of them, by a hash of their names, is shown apart (`check`): nothing was
fitted to it alone, but its figures were seen while the method was built.
"""

import math
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from bench.labelled import Labelled
from bench.measure import judge
from bench.warm_speed import Row, place_template
from relight.chat.messages import read_entries
from relight.chat.similarity import Vector, cosine, rarity, weigh, weigh_words
from relight.judging.scoring import score_session
from relight.stats.permutation import cluster_bootstrap
from relight.store import Store, open_store
from relight.store.templates import insert_version, set_state
from relight.warm import index
from relight.warm.capture import Wish, make_template
from relight.warm.choice import rank_templates
from relight.warm.material import Material
from relight.warm.words import read_command

# rel@1, nDCG@5 and own that the choice must reach, over all tasks
TARGETS = {"tau": (0.40, 0.54, 0.05), "swe_mini": (0.34, 0.80, 0.10)}
GIVEN = 0.75
HARNESS_LOSS = 0.01
HIT = 0.9
FIRST = 5
BEFORE_LOW, BEFORE_HIGH = 0.08, 0.25
SEED = 20261116
WORD = re.compile(r"[A-Za-z_]\w\w+")
NAMES = ("rel@1", "nDCG@5", "own", "hit@3", "given")


class Task(NamedTuple):
    """A query: what is asked, in one or several wordings, and the relevance of each template."""

    name: str
    group: str
    project: str | None
    plain: list[str]
    # the same inside a harness' message, if the sessions have one
    wrapped: list[str]
    relevance: dict[str, float]


class Ranking(NamedTuple):
    """Templates for a query, best first, and whether the first one would be given."""

    names: Sequence[str]
    is_given: bool = True


# from a task and one of its wordings to a ranking; the group of the task is left out
Selector = Callable[[Task, str], Ranking]
Figures = tuple[float, ...]


def measure_choice(file: str, sessions: Sequence[Labelled]) -> Iterator[Row]:
    """Print every selector's figures on each part; yield those of today's choice as rows."""
    good = {f"t{n}": one for n, one in enumerate(one for one in sessions if one.is_success)}
    if len({one.group for one in good.values()}) < 5:
        return
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as store:
        ids = add_templates(store, good)
        good = {name: one for name, one in good.items() if name in ids}
        tasks = list_tasks(sessions, good)
        fits = find_means(tasks)
        found = {
            "random": {task.name: measure_random(task) for task in tasks},
            "fixed template": measure(tasks, fits, rank_fixed(good)),
            "before": measure(tasks, fits, rank_before(good)),
            "now": measure_now(store, tasks, fits, ids, good),
            "now, in a harness": measure_now(store, tasks, fits, ids, good, is_wrapped=True),
            "oracle": measure(tasks, fits, rank_oracle),
        }
    print_table(file, tasks, found)
    yield from judge_now(file, found)


def judge_now(file: str, found: Mapping[str, Mapping[str, Figures]]) -> Iterator[Row]:
    now = average(found["now"].values())
    limits = next((some for part, some in TARGETS.items() if part in file), ())
    for name, figure, limit in zip(NAMES, now, limits, strict=False):
        shown = f"{limit:+.2f}" if name == "own" else f"{limit:.2f}"
        yield (f"{file}: choice, {name}", f"{figure:.3f}", shown, judge(limit, figure))
    given = now[NAMES.index("given")]
    yield (f"{file}: a template is given", f"{given:.0%}", f"{GIVEN:.0%}", judge(GIVEN, given))
    if found["now, in a harness"]:
        inside = average(found["now, in a harness"].values())
        for place in (0, 1):
            loss = now[place] - inside[place]
            title = f"{file}: {NAMES[place]} lost inside a harness' message"
            yield (title, f"{loss:.3f}", f"{HARNESS_LOSS}", judge(loss, HARNESS_LOSS))


def print_table(
    file: str, tasks: Sequence[Task], found: Mapping[str, Mapping[str, Figures]]
) -> None:
    parts = {"all": tasks, "tune": [], "check": []}
    for task in tasks:
        aside = int.from_bytes(sha256(task.name.encode()).digest(), "big") % 3 == 0
        parts["check" if aside else "tune"] = [*parts["check" if aside else "tune"], task]
    for part, some in parts.items():
        print(f"\n{file}, {part}: {len(some)} tasks")
        print(f"  {'':34}" + "".join(f"{name:>9}" for name in NAMES))
        for selector, figures in found.items():
            rows = [figures[task.name] for task in some if task.name in figures]
            if rows:
                print(f"  {selector:34}" + "".join(f"{one:9.3f}" for one in average(rows)))
        for other in ("fixed template", "before"):
            shown = [compare(some, found["now"], found[other], place) for place in range(3)]
            print(f"  now - {other:28}" + ", ".join(shown))


def compare(
    tasks: Sequence[Task], now: Mapping[str, Figures], other: Mapping[str, Figures], place: int
) -> str:
    """The mean difference of a figure by task, with its 95 % interval."""
    pairs = [(now[one.name][place] - other[one.name][place], 1.0) for one in tasks]
    found = cluster_bootstrap(pairs, seed=SEED)
    if found is None or found.low is None or found.high is None:
        return f"{NAMES[place]} unknown"
    return f"{NAMES[place]} {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def add_templates(store: Store, good: Mapping[str, Labelled]) -> dict[str, int]:
    """Add a template of each session; the ids by name, without those that teach nothing."""
    ids = {}
    with store.transaction() as database:
        for name, one in good.items():
            material = Material(
                messages=one.messages, calls=one.calls, outcome="success", evidence=[]
            )
            score = score_session(one.messages, calls=one.calls)
            try:
                made = make_template(store, material, score, Wish(name=name, project=one.project))
            except Exception as error:  # noqa: BLE001 - a session without a call teaches nothing
                print(f"{name}: {error}")
                continue
            placed = place_template(database, made)
            insert_version(database, placed)
            ids[name] = placed.id
        index.rebuild_index(database)
    return ids


def list_tasks(sessions: Iterable[Labelled], good: Mapping[str, Labelled]) -> list[Task]:
    """The tasks whose actions are known, with the relevance of templates of other groups."""
    runs: dict[str, list[Labelled]] = defaultdict(list)
    for one in sessions:
        runs[one.task].append(one)
    scale = make_scale(good)
    tasks = []
    for name, some in runs.items():
        first = next((one for one in some if one.reference or one.is_success), None)
        if first is None:
            continue
        others = [other for other, one in good.items() if one.group != first.group]
        relevance = scale(first, others)
        is_wrapped = first.is_wrapped
        texts = sorted({one.text if is_wrapped else one.first for one in some})
        wrapped = sorted({one.first for one in some}) if is_wrapped else []
        if relevance and any(relevance.values()):
            tasks.append(Task(name, first.group, first.project, texts, wrapped, relevance))
    return tasks


def make_scale(
    good: Mapping[str, Labelled],
) -> Callable[[Labelled, Sequence[str]], dict[str, float]]:
    """Return the function that gives the relevance of templates for a task."""
    tools = {name: list_worked(one) for name, one in good.items()}
    words = {name: read_command_words(one) for name, one in good.items()}
    holding = Counter(word for some in words.values() for word in some)
    rarities = {word: rarity(len(words), number) for word, number in holding.items()}
    weighed = {name: weigh(some, rarities, unseen=0.0) for name, some in words.items()}

    def measure_relevance(task: Labelled, others: Sequence[str]) -> dict[str, float]:
        if task.reference:
            gold = [str(action.get("name")) for action in task.reference]
            return {name: common_share(gold, tools[name]) for name in others}
        own = read_command_words(task)
        known = {word: weight for word, weight in own.items() if holding[word] > 1}
        wanted = weigh(known, rarities, unseen=0.0)
        return {name: cosine(wanted, weighed[name]) for name in others}

    return measure_relevance


def list_worked(one: Labelled) -> list[str]:
    """The tools of the calls that worked, in order."""
    failed = {call.get("call_id") for call in one.calls if call.get("error")}
    calls = (call for entry in read_entries(one.messages) for call in entry.calls)
    return [call.tool for call in calls if call.key not in failed]


def read_command_words(one: Labelled) -> Vector:
    """Whole words of three letters or more in commands, by the number of calls that have them."""
    counts: Counter[str] = Counter()
    for entry in read_entries(one.messages):
        for call in entry.calls:
            counts.update({word.lower() for word in WORD.findall(read_command(call))})
    return {word: 1 + math.log(count) for word, count in counts.items()}


def common_share(a: Sequence[str], b: Sequence[str]) -> float:
    """F1 of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = 0
        for at, other in enumerate(b, 1):
            before, row[at] = row[at], before + 1 if one == other else max(row[at], row[at - 1])
    return 2 * row[-1] / (len(a) + len(b)) if a or b else 0.0


def find_means(tasks: Sequence[Task]) -> dict[tuple[str | None, str], float]:
    """The mean relevance of each template over the tasks of each project."""
    values: dict[tuple[str | None, str], list[float]] = defaultdict(list)
    for task in tasks:
        for name, value in task.relevance.items():
            values[task.project, name].append(value)
    return {key: math.fsum(some) / len(some) for key, some in values.items()}


def measure(
    tasks: Sequence[Task],
    fits: Mapping[tuple[str | None, str], float],
    select: Selector,
    *,
    is_wrapped: bool = False,
) -> dict[str, Figures]:
    """The figures of a selector by task: means over the task's wordings."""
    found = {}
    for task in tasks:
        texts = task.wrapped if is_wrapped else task.plain
        if texts:
            found[task.name] = average([_measure(task, fits, select(task, one)) for one in texts])
    return found


def _measure(task: Task, fits: Mapping[tuple[str | None, str], float], ranking: Ranking) -> Figures:
    values = [task.relevance[name] for name in ranking.names]
    best = sorted(task.relevance.values(), reverse=True)
    first = values[0] if values else 0.0
    own = first - fits[task.project, ranking.names[0]] if values else 0.0
    is_hit = any(value >= HIT * best[0] for value in values[:3])
    return first, _gain(values) / _gain(best), own, float(is_hit), float(ranking.is_given)


def _gain(values: Sequence[float]) -> float:
    return math.fsum(value / math.log2(at + 2) for at, value in enumerate(values[:FIRST]))


def measure_random(task: Task) -> Figures:
    """The expected figures of a template drawn from all."""
    best = sorted(task.relevance.values(), reverse=True)
    mean = math.fsum(best) / len(best)
    good = sum(value >= HIT * best[0] for value in best)
    miss = math.comb(len(best) - good, 3) / math.comb(len(best), 3)
    return mean, _gain([mean] * FIRST) / _gain(best), 0.0, 1 - miss, 1.0


def average(rows: Iterable[Figures]) -> Figures:
    columns = list(zip(*rows, strict=True))
    return tuple(math.fsum(column) / len(column) for column in columns)


def rank_oracle(task: Task, _: str) -> Ranking:
    return Ranking(sorted(task.relevance, key=lambda name: -task.relevance[name]))


def rank_fixed(good: Mapping[str, Labelled]) -> Selector:
    """One template for a project: the one whose actions are most like those of all others."""
    scale = make_scale(good)
    tools = {name: list_worked(one) for name, one in good.items()}
    alike: dict[str, dict[str, float]] = {}
    for name, one in good.items():
        near = [other for other in good if good[other].project == one.project]
        alike[name] = (
            {other: common_share(tools[name], tools[other]) for other in near}
            if one.reference
            else scale(one, near)
        )

    @cache
    def rank_for(group: str, project: str | None) -> list[str]:
        left = [name for name in good if good[name].group != group]
        near = [name for name in left if good[name].project == project]
        sums = {name: sum(alike[name][other] for other in near if other != name) for name in near}
        far = [name for name in left if name not in sums]
        return [*sorted(sums, key=lambda name: -sums[name]), *far]

    return lambda task, _: Ranking(rank_for(task.group, task.project))


def rank_before(good: Mapping[str, Labelled]) -> Selector:
    """The choice that Relight had before: the words of task texts, above a floor project first."""
    tasks = {name: weigh_words(one.first) for name, one in good.items()}
    holding = Counter(word for words in tasks.values() for word in words)
    rarities = {word: rarity(len(tasks), number) for word, number in holding.items()}
    unseen = rarity(len(tasks), 0)
    weighed = {name: weigh(words, rarities, unseen=unseen) for name, words in tasks.items()}
    postings: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, words in weighed.items():
        for word, weight in words.items():
            postings[word].append((name, weight))

    def find_alike(words: Vector) -> dict[str, float]:
        sums = dict.fromkeys(good, 0.0)
        for word, weight in words.items():
            for name, other in postings.get(word, ()):
                sums[name] += weight * other
        return sums

    dice = random.Random(SEED)
    sample = dice.sample(sorted(good), min(100, len(good)))
    nearest = sorted(
        max(value for other, value in find_alike(weighed[name]).items() if other != name)
        for name in sample
    )
    floor = min(max(nearest[len(nearest) // 5], BEFORE_LOW), BEFORE_HIGH)

    def rank(task: Task, text: str) -> Ranking:
        alike = find_alike(weigh(weigh_words(text), rarities, unseen=unseen))
        ranked = sorted(
            task.relevance,
            key=lambda name: (
                alike[name] >= floor,
                alike[name] >= floor and good[name].project == task.project,
                alike[name],
            ),
            reverse=True,
        )
        return Ranking(ranked, alike[ranked[0]] >= floor)

    return rank


def measure_now(
    store: Store,
    tasks: Sequence[Task],
    fits: Mapping[tuple[str | None, str], float],
    ids: Mapping[str, int],
    good: Mapping[str, Labelled],
    *,
    is_wrapped: bool = False,
) -> dict[str, Figures]:
    """The choice as it is; the templates of a task's group are retired while it is asked."""

    def rank(task: Task, text: str) -> Ranking:
        ranked = rank_templates(store, text, project=task.project)
        names = [one.template.name for one in ranked]
        return Ranking(names, bool(ranked) and ranked[0].is_above_floor)

    found: dict[str, Figures] = {}
    for group in dict.fromkeys(task.group for task in tasks):
        some = [task for task in tasks if task.group == group]
        own = [ids[name] for name, one in good.items() if one.group == group]
        _set_state(store, own, retired_at=1)
        found |= measure(some, fits, rank, is_wrapped=is_wrapped)
        _set_state(store, own, retired_at=None)
    return found


def _set_state(store: Store, ids: Iterable[int], *, retired_at: int | None) -> None:
    with store.transaction() as database:
        for one in ids:
            set_state(database, one, retired_at=retired_at, retired_why=None)
            index.refresh_index(database, one)
