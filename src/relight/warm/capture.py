"""From a good session to a template: judged, extracted, redacted, compared, stored."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.chat.messages import read_entries
from relight.chat.shorten import clean_text
from relight.chat.similarity import LIMIT, Vector, weigh_words
from relight.chat.validity import validate_messages
from relight.errors import RelightError, check_count, check_text
from relight.judging.scoring import Score, score_session
from relight.model import OUTCOMES
from relight.names import blake2b
from relight.reports.labels import read_fitted_weights
from relight.reports.sessions import find_session
from relight.store import Store
from relight.store.candidates import find_own_template
from relight.store.derive.outcomes import read_proven
from relight.store.queries.sessions import read_name
from relight.text import strip_hidden
from relight.warm import gate
from relight.warm.curation import drop_candidates, find_objections, offer_force, retire_weakest
from relight.warm.injection import SEED_TOKENS
from relight.warm.library import Template, add_version, check_kind, check_name, check_words
from relight.warm.material import Material, cut_tasks, read_material, redact_messages, take_material
from relight.warm.naming import propose_name
from relight.warm.seeds import count_text, extract_seed
from relight.warm.words import read_words

_PLACEHOLDER = re.compile(r"\[redacted:([\w-]+):")


def capture_template(
    store: Store,
    session_id: str,
    *,
    name: str | None = None,
    description: str = "",
    tags: Sequence[str] = (),
    project: str | None = None,
    category: str | None = None,
    task_type: str | None = None,
    max_examples: int | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    calls: Iterable[Mapping[str, Any]] | None = None,
    outcome: str | None = None,
    task: int | None = None,
    force: bool = False,
    now: int | None = None,
) -> Template:
    """Add the most instructive part of a session to the library, if it is good enough.

    The session must pass the quality gate and must be known to have succeeded, and the template
    must not be nearly the same as another. `force` overrules all that, and the template records
    it. With `messages` the session need not be in the store. A name that is taken gets a new
    version. If the project's category then has too many live templates, the weakest retires.

    `category` and `task_type` replace what the calls say. `max_examples` limits the calls in the
    seed, which otherwise fills its tokens. A session of several tasks makes a template of each task
    that is good enough, and the first is returned; `task` is the number of one task, from 1 on, and
    makes that alone, also of a session that fails the gate as a whole. A name is that of the first,
    and those after it get a number: `name-2`.
    """
    if messages is None and task is None and not force:
        row = find_session(store, clean_text(str(session_id)))
        if refusal := gate.find_refusal(store, row, read_name(store, row).session, outcome=outcome):
            raise refusal
        # others of its tasks may have been retired since: `task` makes one of them again
        if name is None and (own := find_own_template(store, row)):
            raise gate.refuse_repetition(own)
    made = capture_tasks(
        store,
        session_id,
        name=name,
        description=description,
        tags=tags,
        project=project,
        category=category,
        task_type=task_type,
        max_examples=max_examples,
        messages=messages,
        calls=calls,
        outcome=outcome,
        task=task,
        force=force,
        now=now,
    )
    return made[0]


class Wish(Struct, frozen=True, kw_only=True):
    """The parameters of `capture_template`."""

    name: str | None = None
    description: str = ""
    tags: Sequence[str] = ()
    project: str | None = None
    category: str | None = None
    task_type: str | None = None
    max_examples: int | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    calls: Iterable[Mapping[str, Any]] | None = None
    outcome: str | None = None
    task: int | None = None
    force: bool = False
    now: int | None = None


def capture_tasks(store: Store, session_id: str, **options: Any) -> list[Template]:
    """Add one template for each task of a session that is good enough; raise if none is.

    `options` are those of `capture_template`.
    """
    wish = _check(Wish(**options))
    made: list[Template] = []
    refused: list[RelightError] = []
    tasks, refusal = _read_tasks(store, session_id, wish)
    for material in tasks:
        number = f"-{len(made) + 1}" if made else ""
        try:
            named = replace(wish, name=wish.name and f"{wish.name}{number}")
            made.append(_capture(store, material, _check(named)))
        except RelightError as error:
            refused.append(error)
    if not made:
        raise refusal or refused[0]
    return made


def _check(wish: Wish) -> Wish:
    if wish.outcome is not None and wish.outcome not in OUTCOMES:
        hint = f"use one of {', '.join(OUTCOMES)}"
        raise RelightError(f"{wish.outcome!r} is not an outcome", hint)
    check_kind(category=wish.category, task_type=wish.task_type)
    if wish.max_examples is not None:
        check_count("max_examples", wish.max_examples, least=1)
    if wish.name is not None:
        check_name(wish.name)
    check_words(tags=wish.tags)
    return replace(
        wish,
        project=check_text("project", wish.project) if wish.project else None,
        description=check_text("description", wish.description) if wish.description else "",
    )


def _read_tasks(
    store: Store, session_id: str, wish: Wish
) -> tuple[list[Material], RelightError | None]:
    """Return the tasks that are asked for, and why their session as a whole is refused, if it is.

    Raise that if the session is one task.
    """
    refusal = None
    if wish.messages is not None:
        material = take_material(store, session_id, messages=wish.messages, calls=wish.calls)
    else:
        row = find_session(store, clean_text(str(session_id)))
        name = read_name(store, row).session
        refusal = gate.find_refusal(store, row, name, outcome=wish.outcome)
        try:
            material = read_material(store, row)
        except RelightError as error:
            raise refusal or error from None
    tasks = list_tasks(store, material)
    if wish.task is None:
        if refusal is not None and len(tasks) < 2 and not wish.force:
            raise refusal
        return tasks, refusal
    if not 1 <= check_count("task", wish.task, least=1) <= len(tasks):
        has = "one task" if len(tasks) == 1 else f"{len(tasks)} tasks"
        raise RelightError(f"there is no task {wish.task}: the session has {has}")
    return [tasks[wish.task - 1]], None


def _capture(store: Store, material: Material, wish: Wish) -> Template:
    if wish.outcome is not None:
        given = [f"given at capture: {wish.outcome}"]
        material = replace(material, outcome=wish.outcome, evidence=given + material.evidence)
    score = score_session(
        material.messages, calls=material.calls, weights=read_fitted_weights(store)
    )
    failed = gate.find_failed_rules(gate.make_figures(score, material.outcome, material.evidence))
    if failed and not wish.force:
        raise gate.refuse_session(material.source_session or "it", failed)
    template = make_template(store, material, score, wish)
    objections = find_objections(store, template)
    if objections and not wish.force:
        raise offer_force(objections[0], "create")
    failed += [one.message for one in objections]
    added = add_version(store, replace(template, overruled=failed), is_new=wish.name is None)
    drop_candidates(store, added)
    retire_weakest(store, added, now=wish.now)
    return added


def list_tasks(store: Store, material: Material) -> list[Material]:
    """Return the material of each task of a session, judged as this store judges sessions."""
    with store.reading() as database:
        proven = read_proven(database)
    return cut_tasks(material, proven)


def make_template(store: Store, material: Material, score: Score, wish: Wish) -> Template:
    """Return the template of a session, not yet in the library."""
    seed = redact_messages(
        store,
        extract_seed(
            material.messages,
            calls=material.calls,
            max_tokens=SEED_TOKENS,
            max_calls=wish.max_examples,
            style="text",
        ),
    )
    if not any(message.get("tool_calls") for message in seed):
        raise RelightError("there is no working call in it to learn from")
    if problems := validate_messages(seed):
        raise RelightError(f"the seed is not valid: {problems[0]}", "please report this")
    entries = read_entries(material.messages)
    texts = (strip_hidden(one.text) for one in entries if one.role == "user")
    task = next((text for text in texts if text.strip()), "")
    title = material.title or task
    flat = " ".join(task.split())
    if flat.startswith(title.rstrip("… ")):  # its first words, as most agents title a session
        title = task
    category = wish.category or score.category
    place = wish.project or material.project
    text = msgspec.json.encode(seed).decode()
    return Template(
        **describe_seed(seed),
        name=wish.name or propose_name(store, title, category=category, project=place),
        description=wish.description or " ".join(title.split())[:200],
        project=place,
        category=category,
        task_type=wish.task_type or score.task_type,
        tags=sorted({clean_text(tag.strip()) for tag in wish.tags if tag.strip()}),
        task=task[:LIMIT],
        score=score.score,
        outcome=material.outcome,
        evidence=material.evidence,
        overruled=[],
        redactions=count_redactions(text + task[:LIMIT]),
        source_session=material.source_session,
        provenance=None,
        created_at=int(time.time() * 1000) if wish.now is None else wish.now,
        words=read_words(material.messages, calls=material.calls),
    )


def count_redactions(text: str) -> dict[str, int]:
    """Return how many secrets each rule of redaction removed from a text."""
    return dict(Counter(_PLACEHOLDER.findall(text)))


class SeedFields(TypedDict):
    """The fields of a template that follow from its seed."""

    id: int
    version: int
    tools: list[str]
    actions: Vector
    seed: list[dict[str, Any]]
    tokens: int
    content_hash: str


def describe_seed(seed: list[dict[str, Any]]) -> SeedFields:
    """Return the fields of a template, not yet in the library, that follow from its seed."""
    calls = [call["function"] for message in seed for call in message.get("tool_calls", ())]
    words = weigh_words(" ".join(f"{one['name']} {one['arguments']}" for one in calls))
    return {
        "id": 0,
        "version": 0,
        "tools": sorted({one["name"] for one in calls}),
        "actions": {word: round(weight, 3) for word, weight in words.items()},
        "seed": seed,
        "tokens": count_text(seed),
        # by which equal seeds are recognised
        "content_hash": blake2b(msgspec.json.encode(seed), digest_size=8).hexdigest(),
    }
