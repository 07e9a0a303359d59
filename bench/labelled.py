"""Labelled sessions from files of many shapes, for the benchmarks.

`*.jsonl`, `.jsonl.gz` or `.json`, one session an object (or a bare list of messages). What is taken
from each, under any of these names, at the top or in an object named `info`, `meta`, `metadata` or
`labels`:

    messages     messages, trajectory, traj, conversation, history     OpenAI chat messages
    calls        calls                      {"call_id", "exit_code", "timed_out", "error"}
    outcome      outcome, success, resolved, is_success, passed        true, "success", "failed" …
    reward       reward, score              a number; from 0.5 on it is a success
    task         task_id, instance_id, problem_id, task                runs of one task share it
    group        task_group, group          tasks that give each other away; else the task
    text         task_text, instruction, problem_statement, prompt     else the first user message
    project      project, repo, repository, domain
    reference    reference_actions, gold_actions, actions              {"name", "arguments"}
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from relight.chat.messages import read_entries

FIELDS = {
    "messages": ["messages", "trajectory", "traj", "conversation", "history"],
    "calls": ["calls"],
    "outcome": ["outcome", "success", "resolved", "is_success", "passed"],
    "reward": ["reward", "score"],
    "task": ["task_id", "instance_id", "problem_id", "task"],
    "group": ["task_group", "group"],
    "text": ["task_text", "instruction", "problem_statement", "prompt"],
    "project": ["project", "repo", "repository", "domain"],
    "reference": ["reference_actions", "gold_actions", "actions"],
}
NESTED = ("info", "meta", "metadata", "labels")
WORDS = {
    **dict.fromkeys(("success", "succeeded", "resolved", "pass", "passed", "true"), True),
    **dict.fromkeys(("failure", "failed", "fail", "unresolved", "false", "error"), False),
}


class Labelled(NamedTuple):
    messages: list[Any]
    calls: list[dict[str, Any]]
    is_success: bool | None
    task: str
    text: str
    project: str | None
    reference: list[dict[str, Any]]
    group: str
    # the first message of the user
    first: str

    @property
    def is_wrapped(self) -> bool:
        """True if the first message is the task's text with words around it."""
        text, first = (" ".join(one.split()) for one in (self.text, self.first))
        return text != first and text[:200] in first


def read_sessions(file: Path) -> Iterator[Labelled]:
    """The sessions of a file; what holds no messages is left out."""
    for told in _read_objects(file):
        told = told if isinstance(told, dict) else {"messages": told}
        messages = _find(told, "messages")
        if not isinstance(messages, list):
            continue
        first = next((one.text for one in read_entries(messages) if one.role == "user"), "")
        text = _find(told, "text")
        text = text if isinstance(text, str) and text else first
        project = _find(told, "project")
        reference = _find(told, "reference")
        task = str(_find(told, "task") or text)
        yield Labelled(
            messages=messages,
            calls=_find(told, "calls") or [],
            is_success=_read_outcome(told),
            task=task,
            text=text,
            project=str(project) if project else None,
            reference=[one for one in reference or () if isinstance(one, dict)],
            group=str(_find(told, "group") or task),
            first=first,
        )


def _read_objects(file: Path) -> Iterator[Any]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        if file.suffix == ".json":
            whole = json.load(lines)
            yield from whole if isinstance(whole, list) else [whole]
            return
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _find(told: dict[str, Any], field: str) -> Any:
    """A field by the first of its names that is there, at the top or one step below."""
    places = [told, *(told[name] for name in NESTED if isinstance(told.get(name), dict))]
    for name in FIELDS[field]:
        for place in places:
            if place.get(name) is not None:
                return place[name]
    return None


def _read_outcome(told: dict[str, Any]) -> bool | None:
    outcome = _find(told, "outcome")
    if isinstance(outcome, bool):
        return outcome
    if isinstance(outcome, str) and outcome.lower() in WORDS:
        return WORDS[outcome.lower()]
    reward = outcome if isinstance(outcome, int | float) else _find(told, "reward")
    return reward >= 0.5 if isinstance(reward, int | float) else None


def merge_calls(messages: Sequence[Any], size: int) -> list[Any]:
    """The same session with up to `size` calls asked for in one message."""
    merged: list[Any] = []
    asked: list[Any] = []
    results: list[Any] = []
    for message in [*messages, None]:
        role = message.get("role") if isinstance(message, dict) else None
        calls = message.get("tool_calls") if role == "assistant" else None
        if role == "tool":
            results.append(message)
            continue
        if asked and (not calls or len(asked) + len(calls) > size):
            merged += [{"role": "assistant", "content": None, "tool_calls": asked}, *results]
            asked, results = [], []
        if calls:
            asked = [*asked, *calls]
        elif message is not None:
            merged += [*results, message]
            results = []
    return [*merged, *results]
