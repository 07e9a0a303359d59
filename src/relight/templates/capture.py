"""From a good session to a template: judged, extracted, redacted, compared, kept."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from relight.conversations import read_entries
from relight.errors import RelightError
from relight.injections import skip_injected
from relight.names import slug
from relight.redact import redact
from relight.relevance import LIMIT, Vector, cosine, read_words
from relight.scores import read_weights
from relight.scoring import Score, score_session
from relight.seeds import extract_seed
from relight.sessions import find_session
from relight.store import Store
from relight.templates import catalogue, record
from relight.templates.library import (
    Template,
    add_version,
    check_name,
    read_by_id,
    read_templates,
    retire_template,
)
from relight.tokens import estimate_messages
from relight.transcripts import read_transcript
from relight.validity import validate_messages

OUTCOMES = ("success", "failure", "unknown")
# of task and of actions: what is as alike as this in both is the same template again
DUPLICATE = 0.9
COMPARED = 20
_PLACEHOLDER = re.compile(r"\[redacted:([\w-]+):")


class Material(Struct, frozen=True, kw_only=True):
    """A session as a template can be made of it: redacted, with what is known of how it ended."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    outcome: str
    evidence: list[str]
    source_session: str | None = None
    project: str | None = None
    title: str | None = None


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

    It must pass the quality gate, and there must be evidence that it succeeded; `force` overrules
    both, and that is kept with the template. With `messages` the session need not be in the store.
    A name that is taken gets a new version. Beyond the number of live templates that a project's
    category may have, the weakest retires.
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise RelightError(f"{outcome!r} is not an outcome", f"say one of {', '.join(OUTCOMES)}")
    if name is not None:
        check_name(name)
    if messages is None:
        material = read_material(store, session_id)
    else:
        clean = redact_messages(store, list(skip_injected(messages)))
        material = Material(
            messages=clean,
            calls=[dict(call) for call in calls or ()],
            outcome="unknown",
            evidence=[],
            source_session=session_id,
        )
    if outcome is not None:
        told = [f"told when it was captured: {outcome}"]
        material = msgspec.structs.replace(
            material, outcome=outcome, evidence=told + material.evidence
        )
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
        overruled=failed,
        now=now,
    )
    refuse_duplicate(store, template)
    kept = add_version(store, template)
    retire_weakest(store, kept, now=now)
    return kept


def read_material(store: Store, session_id: str | int) -> Material:
    """What a recorded session offers for a template."""
    found = session_id if isinstance(session_id, int) else find_session(store, session_id)
    talk = read_transcript(store, found)
    row = store.query(
        "select source || ':' || key, project, title, outcome, outcome_evidence from session"
        " where id = ?",
        (found,),
    )[0]
    return Material(
        messages=redact_messages(store, talk.messages),
        calls=talk.calls,
        outcome=row[3] or "unknown",
        evidence=msgspec.json.decode(row[4] or "[]"),
        source_session=row[0],
        project=row[1],
        title=row[2],
    )


def redact_messages(store: Store, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with secrets taken out, by today's rules."""
    data = b"\n".join(msgspec.json.encode(message) for message in messages)
    clean = redact(data, key=store.redaction_key)
    return [msgspec.json.decode(line) for line in clean.split(b"\n") if line]


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
    overruled: Sequence[str] = (),
    now: int | None = None,
) -> Template:
    """The template that a session makes, not yet kept."""
    seed = redact_messages(store, extract_seed(material.messages, calls=material.calls))
    if not any(message.get("tool_calls") for message in seed):
        raise RelightError("there is no working call in it to learn from")
    if problems := validate_messages(seed):
        raise RelightError(f"the seed is not valid: {problems[0]}", "please report this")
    entries = read_entries(material.messages)
    task = next((one.text for one in entries if one.role == "user" and one.text.strip()), "")
    calls = [call for message in seed for call in message.get("tool_calls", ())]
    text = msgspec.json.encode(seed).decode()
    taken = Counter(_PLACEHOLDER.findall(text + task[:LIMIT]))
    return Template(
        id=0,
        name=name or propose_name(store, material.title or task),
        version=0,
        description=description or " ".join((material.title or task).split())[:200],
        project=project or material.project,
        category=score.category,
        task_type=score.task_type,
        tags=sorted({tag.strip() for tag in tags if tag.strip()}),
        tools=sorted({call["function"]["name"] for call in calls}),
        task=task[:LIMIT],
        actions=read_actions(calls),
        seed=seed,
        tokens=estimate_messages(seed),
        score=score.score,
        outcome=material.outcome,
        evidence=material.evidence,
        overruled=list(overruled),
        redactions=dict(taken),
        source_session=material.source_session,
        provenance=None,
        created_at=int(time.time() * 1000) if now is None else now,
        content_hash=hash_seed(seed),
    )


def read_actions(calls: Iterable[Mapping[str, Any]]) -> Vector:
    """The words of what was done: tools and their arguments."""
    functions = (call["function"] for call in calls)
    text = " ".join(f"{function['name']} {function['arguments']}" for function in functions)
    words = read_words(text)
    return {word: round(weight, 3) for word, weight in words.items()}


def propose_name(store: Store, title: str) -> str:
    """A name from the words of the task, not taken yet."""
    short = slug(" ".join(title.split()[:8]), limit=50) or "template"
    taken = {name for (name,) in store.query("select name from template")}
    number, name = 1, short
    while name in taken:
        number += 1
        name = f"{short}-{number}"
    return name


def refuse_duplicate(store: Store, template: Template) -> None:
    """Refuse what is live already: the same seed, or a task and actions all but the same."""
    task = read_words(template.task)
    with store.reading() as database:
        near = [found for found, _ in catalogue.find_alike(database, task, limit=COMPARED)]
    same = store.query(
        "select template.id from template join template_version on template_id = template.id"
        " where retired_at is null and content_hash = ?",
        (template.content_hash,),
    )
    ids = [*near, *(found for (found,) in same)]
    for other in read_by_id(store, ids).values() if ids else ():
        if other.content_hash == template.content_hash:
            raise RelightError(f"{other.name} holds the same already")
        if other.name == template.name:
            continue  # a new version may be like the old one
        alike = min(cosine(task, read_words(other.task)), cosine(template.actions, other.actions))
        if alike >= DUPLICATE and other.project == template.project:
            raise RelightError(
                f"it is nearly the same as {other.name}: {alike:.0%} alike in task and actions",
                f"give it that name to make it a new version: --name {other.name}",
            )


def hash_seed(seed: Sequence[Mapping[str, Any]]) -> str:
    return blake2b(msgspec.json.encode(seed), digest_size=8).hexdigest()


def retire_weakest(store: Store, added: Template, *, now: int | None = None) -> list[Template]:
    """Keep to the number of live templates that a project's category may have."""
    most = store.config.max_live_per_category
    others = [
        one
        for one in read_templates(store, with_retired=False)
        if (one.project, one.category) == (added.project, added.category) and one.id != added.id
    ]
    if not most or len(others) < most:
        return []
    achieved = record.read_posteriors(store, others, now=now)
    ranked = sorted(
        zip(others, achieved, strict=True),
        key=lambda pair: (
            round(pair[1].a / (pair[1].a + pair[1].b), 6),
            pair[0].score or 0.0,
            pair[0].created_at,
        ),
    )
    gone = [one for one, _ in ranked[: len(others) + 1 - most]]
    for one in gone:
        why = f"the weakest of more than {most} in {added.category} when {added.name} came"
        retire_template(store, one.name, why=why, now=now)
    return gone


def _first(evidence: Sequence[str]) -> str:
    return evidence[0] if evidence else "no evidence was kept"
