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
from relight.excerpts import strip_hidden
from relight.injections import skip_injected
from relight.names import slug
from relight.redact import redact
from relight.relevance import LIMIT, Vector, read_words
from relight.scores import read_weights
from relight.scoring import Score, score_session
from relight.seeds import extract_seed
from relight.sessions import find_session
from relight.store import Store
from relight.templates.curation import drop_candidates, refuse_duplicate, retire_weakest
from relight.templates.library import Template, add_version, check_name, check_words
from relight.tokens import estimate_messages
from relight.transcripts import read_transcript
from relight.validity import check_messages, validate_messages

OUTCOMES = ("success", "failure", "unknown")
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
    check_words(tags=tags)
    if messages is None:
        material = read_material(store, session_id)
    else:
        clean = redact_messages(store, list(skip_injected(check_messages(messages))))
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
    kept = add_version(store, template, is_new=name is None)
    drop_candidates(store, kept)
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
    asked = (strip_hidden(one.text) for one in entries if one.role == "user")
    task = next((text for text in asked if text.strip()), "")
    calls = [call for message in seed for call in message.get("tool_calls", ())]
    text = msgspec.json.encode(seed).decode()
    return Template(
        id=0,
        name=name or propose_name(material.title or task),
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


def propose_name(title: str) -> str:
    """A name from the words of the task; one that is taken gets a number when it is kept."""
    return slug(" ".join(title.split()[:8]), limit=40) or "template"


def hash_seed(seed: Sequence[Mapping[str, Any]]) -> str:
    return blake2b(msgspec.json.encode(seed), digest_size=8).hexdigest()


def _first(evidence: Sequence[str]) -> str:
    return evidence[0] if evidence else "no evidence was kept"
