"""Invented tasks and their steps, in a form that every agent's writer can write."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from relight.cli.demo.dice import Dice

HOME = "/home/kim"
TOOLS = ("run", "read", "edit", "write", "search", "fetch", "plan", "skill", "delegate")
HABIT_CHANCE = 0.5
# by arm: a session that starts cold has more mishaps, and fails more often
MISHAP_CHANCES = {"warm": 0.04, "cold": 0.13}
SETBACK_CHANCES = {"warm": 0.06, "cold": 0.4}
# obviously invented, but in a form that redaction knows; joined so that no scanner reports it
PLANTED_SECRET = "_".join(["ghp", "RelightDemo0" * 3])


@dataclass(frozen=True)
class StoryStep:
    """One tool call and its result; an `exit` other than 0 is a failure."""

    tool: str
    target: str
    say: str = ""
    out: str = ""
    exit: int = 0
    seconds: float = 0.4
    path: str = ""
    text: str = ""
    old: str = ""
    new: str = ""
    items: tuple[str, ...] = ()
    inner: tuple["StoryStep", ...] = ()


@dataclass(frozen=True)
class StoryTask:
    """A prompt, its steps, and the answer; without an answer it was interrupted."""

    name: str
    project: str
    prompt: str
    steps: tuple[StoryStep, ...]
    answer: str
    command: str = ""

    @property
    def folder(self) -> str:
        return f"{HOME}/src/{self.project}"


@cache
def read_demo_table(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def make_call(call_id: str, tool: str, command: str) -> dict[str, Any]:
    """Return the call of a command, as a message of a chat has it."""
    function = {"name": tool, "arguments": json.dumps({"command": command})}
    return {"id": call_id, "type": "function", "function": function}


def fill(text: str, values: Mapping[str, object]) -> str:
    return Template(text).safe_substitute(values).strip("\n")


def fill_step(raw: Mapping[str, Any], values: Mapping[str, object]) -> StoryStep:
    """Return a step of a table with its values filled in, and a varied duration."""
    tool = next(tool for tool in TOOLS if tool in raw)
    target = raw[tool]
    texts: dict[str, Any] = {
        name: fill(raw.get(name, ""), values)
        for name in ("say", "out", "path", "text", "old", "new")
    }
    return StoryStep(
        tool=tool,
        target="" if isinstance(target, list) else fill(target, values),
        items=tuple(target) if isinstance(target, list) else (),
        exit=raw.get("exit", 0),
        seconds=raw.get("seconds", 0.4) * float(str(values["pace"])),
        **texts,
    )


def draw_values(dice: Dice) -> dict[str, object]:
    """Return random figures for one task; those that depend on each other agree."""
    count, suite, slow = dice.choice((3, 5, 7, 9)), dice.randint(140, 188), dice.randint(610, 1480)
    passed, run, orders = dice.randint(9, 14), dice.randint(11_000, 19_000), dice.randint(180, 420)
    tests, before = dice.randint(9, 30), round(orders * dice.uniform(0.8, 1.2))
    return {
        "count": count,
        "count0": int(12.5 * count),
        "count1": int(12.5 * count) + 1,
        "suite": suite,
        "suite0": suite - 1,
        "slow": slow,
        "slow0": slow - 31,
        "slow1": slow - 243,
        "fast": dice.randint(38, 74),
        "passed": passed,
        "passed0": passed - 1,
        "run": run,
        "run1": run + 2,
        "tests": tests,
        "tests1": tests + 1,
        "orders": orders,
        "before": before,
        "percent": f"{(orders - before) / before * 100:+.0f}",
        "revenue": orders * 61 + dice.randint(0, 60),
        "revenue0": before * 61,
        "refunds": dice.randint(2, 9),
        "queries": 51,
        "tries": dice.randint(3, 6),
        "cents": dice.randint(12, 31),
        "line": dice.randint(24, 96),
        "pr": dice.randint(310, 460),
        "sha": dice.hex_id(7),
        "pace": round(dice.uniform(0.75, 1.6), 2),
        "secret": PLANTED_SECRET,
    }


def find_arm(session: str) -> str:
    """Return the arm of a session, which depends on its id only."""
    from relight.warm.provision import is_held_out

    hold_out = read_demo_table("settings.toml")["templates"]["hold_out"]
    return "cold" if is_held_out(session, hold_out) else "warm"


class Stories:
    """The tasks, dealt like cards: none repeats before the pack is used up."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        table = read_demo_table("tasks.toml")
        self.projects: list[dict[str, Any]] = table["project"]
        self.tasks: dict[str, dict[str, Any]] = {task["name"]: task for task in table["task"]}
        self.habits, self.mishaps, self.setbacks = (
            table[name] for name in ("habit", "mishap", "setback")
        )
        self.packs: dict[str, list[tuple[str, str]]] = {}

    def choose_project(self) -> str:
        weights = [project["weight"] for project in self.projects]
        return str(self.dice.choices(self.projects, weights)[0]["name"])

    def deal(
        self, project: str, count: int = 1, *, may_delegate: bool = False, arm: str = "warm"
    ) -> list[StoryTask]:
        """Return the next different tasks of a project for one session, at most `count`."""
        pack = self.packs.setdefault(project, [])
        tasks: dict[str, StoryTask] = {}
        for fresh in (False, True):
            if fresh and not tasks:
                pack += self._shuffle(self._find_project(project))
            for card in list(pack):
                name, module = card
                steps = self.tasks[name]["step"]
                allowed = may_delegate or not any("delegate" in step for step in steps)
                if len(tasks) < count and name not in tasks and allowed:
                    pack.remove(card)
                    tasks[name] = self.make_task(name, project, module=module, arm=arm)
        *done, last = tasks.values()
        return [*done, self._end_badly(last, arm)]

    def make_task(
        self, name: str, project: str, *, module: str | None = None, arm: str = "warm"
    ) -> StoryTask:
        """Return one task, with random figures."""
        found, raw, dice = self._find_project(project), self.tasks[name], self.dice
        module = module or dice.choice(found["modules"])
        values = draw_values(dice) | {
            "project": project,
            "package": found["package"],
            "module": module,
            "Module": module.capitalize(),
        }
        return StoryTask(
            name=name,
            project=project,
            prompt=fill(dice.choice(raw["prompts"]), values),
            steps=tuple(self._make_steps(raw, values, arm)),
            answer=fill(raw["answer"], values),
            command=raw.get("command", ""),
        )

    def _end_badly(self, task: StoryTask, arm: str) -> StoryTask:
        """Return the task, or by chance one whose tests still fail at the end."""
        language = self._find_project(task.project)["language"]
        ends = [row for row in self.setbacks if row["language"] == language]
        if not ends or not task.answer or not self.dice.is_lucky(SETBACK_CHANCES[arm]):
            return task
        end, values = self.dice.choice(ends), draw_values(self.dice)
        steps = [fill_step(step, values) for step in end["step"]]
        return replace(task, steps=(*task.steps, *steps), answer=fill(end["answer"], values))

    def _make_steps(
        self, raw: dict[str, Any], values: Mapping[str, object], arm: str
    ) -> Iterator[StoryStep]:
        for number, step in enumerate(raw["step"]):
            if number and not raw.get("special"):
                yield from self._stray(raw["language"], values, arm)
            for _ in range(step.get("repeat", 1)):
                filled = fill_step(step, values)
                inner = (
                    self._make_steps(self.tasks[step["steps"]], values, arm)
                    if "steps" in step
                    else ()
                )
                yield replace(filled, inner=tuple(inner))

    def _stray(self, language: str, values: Mapping[str, object], arm: str) -> Iterator[StoryStep]:
        """Yield by chance a step in between: a look around, or a mishap."""
        chances = ((HABIT_CHANCE, self.habits), (MISHAP_CHANCES[arm], self.mishaps))
        for chance, rows in chances:
            if self.dice.is_lucky(chance):
                near = [row for row in rows if row["language"] in (language, "any")]
                yield fill_step(self.dice.choice(near), values)

    def _find_project(self, name: str) -> dict[str, Any]:
        return next(project for project in self.projects if project["name"] == name)

    def _shuffle(self, project: dict[str, Any]) -> list[tuple[str, str]]:
        names = [
            name
            for name, task in self.tasks.items()
            if task["language"] == project["language"] and not task.get("special")
        ]
        pack = [(name, module) for name in names for module in project["modules"]]
        self.dice.shuffle(pack)
        return pack


@dataclass(frozen=True)
class DemoSkill:
    """One version of a skill's document."""

    name: str
    version: str
    description: str
    body: str

    @property
    def document(self) -> str:
        head = f"name: {self.name}\ndescription: {self.description}\nversion: {self.version}"
        return f"---\n{head}\n---\n{self.body.strip()}\n"


def read_skills(name: str) -> list[DemoSkill]:
    """Return all versions of a skill, the oldest first."""
    return [
        DemoSkill(**row) for row in read_demo_table("jobs.toml")["skill"] if row["name"] == name
    ]
