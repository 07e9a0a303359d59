"""From a good session to a template: judged, extracted, redacted, compared, kept."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from relight.chat.messages import read_entries
from relight.chat.shorten import clean_text
from relight.chat.similarity import LIMIT, Vector, read_words
from relight.chat.tokens import estimate_messages
from relight.chat.validity import validate_messages
from relight.checks import check_text
from relight.errors import RelightError
from relight.judging.scoring import Score, score_session
from relight.reports.weights import read_weights
from relight.store import Store
from relight.text import strip_hidden
from relight.warm.curation import drop_candidates, find_objections, retire_weakest
from relight.warm.library import Template, add_version, check_name, check_words
from relight.warm.material import Material as Material
from relight.warm.material import read_material, redact_messages, take_material
from relight.warm.naming import propose_name
from relight.warm.seeds import extract_seed

OUTCOMES = ("success", "failure", "unknown")
_PLACEHOLDER = re.compile(r"\[redacted:([\w-]+):")


def capture_template(
    store: Store,
    session_id: str,
    *,
    name: str | None = None,
    description: str = "",
    tags: Sequence[str] = (),
    project: str | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    calls: Iterable[Mapping[str, Any]] | None = None,
    outcome: str | None = None,
    force: bool = False,
    now: int | None = None,
) -> Template:
    """Keep the most instructive part of a session as a template, if it is worth it.

    It must pass the quality gate, there must be evidence that it succeeded, and it must not be
    nearly the same as another; `force` overrules all that, which is kept with the template. With
    `messages` the session need not be in the store. A name that is taken gets a new version.
    Beyond the number of live templates that a project's category may have, the weakest retires.
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise RelightError(f"{outcome!r} is not an outcome", f"say one of {', '.join(OUTCOMES)}")
    if name is not None:
        check_name(name)
    check_words(tags=tags)
    project = check_text("project", project) if project else None
    description = check_text("description", description) if description else ""
    if messages is None:
        material = read_material(store, session_id)
    else:
        material = take_material(store, session_id, messages=messages, calls=calls)
    if outcome is not None:
        told = [f"told when it was captured: {outcome}"]
        material = replace(material, outcome=outcome, evidence=told + material.evidence)
    score = score_session(material.messages, calls=material.calls, weights=read_weights(store))
    failed = find_failed_rules(score, material)
    if failed and not force:
        raise RelightError(
            f"{session_id} does not make a template: {failed[0]}",
            "`--force` takes it all the same, and that is kept with it"
            if len(failed) == 1
            else f"also: {'; '.join(failed[1:])}",
        )
    template = make_template(
        store,
        material,
        score,
        name=name,
        description=description,
        tags=tags,
        project=project,
        now=now,
    )
    objections = find_objections(store, template)
    if objections and not force:
        raise objections[0]
    failed += [one.message for one in objections]
    template = replace(template, overruled=failed)
    kept = add_version(store, template, is_new=name is None)
    drop_candidates(store, kept)
    retire_weakest(store, kept, now=now)
    return kept


def find_failed_rules(score: Score, material: Material) -> list[str]:
    """The rules of the gate that a session does not pass, each with its figure."""
    failed = []
    if not score.is_proficient:
        failed.append(
            f"too short: {score.total_messages} messages and {score.tool_calls} calls,"
            " at least 20 and 5 are needed"
        )
    if not score.is_successful:
        rate = "unknown" if score.error_rate is None else f"{score.error_rate:.1%}"
        failed.append(
            f"too many failures: {rate} of {score.tool_calls} calls failed,"
            " at most 10% of at least 3 may"
        )
    if material.outcome == "failure":
        failed.append(f"it failed: {_first(material.evidence)}")
    elif material.outcome != "success":
        failed.append(
            "its outcome is unknown: nothing shows that it succeeded"
            " (`relight label` says how it went)"
        )
    return failed


def make_template(
    store: Store,
    material: Material,
    score: Score,
    *,
    name: str | None = None,
    description: str = "",
    tags: Sequence[str] = (),
    project: str | None = None,
    now: int | None = None,
) -> Template:
    """The template that a session makes, not yet kept."""
    seed = redact_messages(store, extract_seed(material.messages, calls=material.calls))
    if not any(message.get("tool_calls") for message in seed):
        raise RelightError("there is no working call in it to learn from")
    if problems := validate_messages(seed):
        raise RelightError(f"the seed is not valid: {problems[0]}", "please report this")
    entries = read_entries(material.messages)
    asked = (strip_hidden(one.text) for one in entries if one.role == "user")
    task = next((text for text in asked if text.strip()), "")
    title = material.title or task
    flat = " ".join(task.split())
    if flat.startswith(title.rstrip("… ")):  # its first words, as most agents title a session
        title = flat
    calls = [call for message in seed for call in message.get("tool_calls", ())]
    place = project or material.project
    text = msgspec.json.encode(seed).decode()
    return Template(
        id=0,
        name=name or propose_name(store, title, category=score.category, project=place),
        version=0,
        description=description or " ".join(title.split())[:200],
        project=place,
        category=score.category,
        task_type=score.task_type,
        tags=sorted({clean_text(tag.strip()) for tag in tags if tag.strip()}),
        tools=sorted({call["function"]["name"] for call in calls}),
        task=task[:LIMIT],
        actions=read_actions(calls),
        seed=seed,
        tokens=estimate_messages(seed),
        score=score.score,
        outcome=material.outcome,
        evidence=material.evidence,
        overruled=[],
        redactions=count_redactions(text + task[:LIMIT]),
        source_session=material.source_session,
        provenance=None,
        created_at=int(time.time() * 1000) if now is None else now,
        content_hash=hash_seed(seed),
    )


def count_redactions(text: str) -> dict[str, int]:
    """How often each rule of redaction took something out of a text."""
    return dict(Counter(_PLACEHOLDER.findall(text)))


def read_actions(calls: Iterable[Mapping[str, Any]]) -> Vector:
    """The words of what was done: tools and their arguments."""
    functions = (call["function"] for call in calls)
    text = " ".join(f"{function['name']} {function['arguments']}" for function in functions)
    words = read_words(text)
    return {word: round(weight, 3) for word, weight in words.items()}


def hash_seed(seed: Sequence[Mapping[str, Any]]) -> str:
    return blake2b(msgspec.json.encode(seed), digest_size=8).hexdigest()


def _first(evidence: Sequence[str]) -> str:
    return evidence[0] if evidence else "no evidence was kept"
