"""Starting a session warm, or cold to compare: decided once, recorded before anything is given."""

import os
import random
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Literal

import msgspec
from msgspec import Struct

from relight.chat.shorten import clean_text
from relight.errors import RelightError
from relight.redact import find_secrets
from relight.store import Store
from relight.warm.choice import Choice, check_task, choose_template, explain_nothing
from relight.warm.examples import wrap_messages
from relight.warm.injection import count_text_tokens, fit_seed, render_template
from relight.warm.library import Template, find_template
from relight.warm.units import Message

Arm = Literal["warm", "cold"]

BUDGET = 2000
# set to `off`, agents that Relight was added to start as if it were not there
SWITCH = "RELIGHT_WARM"
COLUMNS = (
    "id, session_key, source, arm, template_id, version, similarity, reason, project, category,"
    " tokens, created_at"
)


class Provision(Struct, frozen=True, kw_only=True):
    """What a session was given to begin with; `text` and `messages` are the same in two forms."""

    id: str
    arm: str
    template: Template | None
    similarity: float | None
    reason: str
    text: str | None = None
    messages: list[Message] | None = None
    session_id: str = ""


class _Decision(Struct, frozen=True, kw_only=True):
    """A row of the table: also of a cold session, with the template it would have had."""

    id: str
    session_key: str
    source: str | None
    arm: str
    template_id: int | None
    version: int | None
    similarity: float | None
    reason: str
    project: str | None
    category: str | None
    tokens: int | None
    created_at: int


def provision_session(
    store: Store,
    task: str,
    *,
    session_id: str | None = None,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
    project: str | None = None,
    budget: int = BUDGET,
    source: str | None = None,
    now: int | None = None,
) -> Provision:
    """What a new session should begin with, on record before it is given.

    A share of sessions is held out, by a hash of the session's id. A session that asks again gets
    the same again, so that the beginning of its conversation stays as it was.
    """
    if budget < 0:
        raise RelightError(f"a budget of {budget} tokens is none", "give 0 or more")
    task = check_task(task)
    own_id = f"p{token_hex(8)}"
    session_id = None if session_id is None else clean_text(str(session_id))
    if session_id is not None and ":" in session_id and source is None:
        source, session_id = _split_name(session_id)
    key = session_id or own_id
    if kept := _find_decision(store, key):
        return _give_again(store, kept, budget=budget, tools=tools)
    choice = choose_template(
        store,
        task,
        category=category,
        tags=tags,
        tools=tools,
        project=project,
        agent=source,
        rng=random.Random(f"choice {key}"),
    )
    template, arm, reason = (
        _deal(store, choice, key, budget=budget, tools=tools)
        if choice
        else (None, "cold", explain_nothing(store, task, category=category, tags=tags, tools=tools))
    )
    decision = _Decision(
        id=own_id,
        session_key=key,
        source=source,
        arm=arm,
        template_id=template.id if template else None,
        version=template.version if template else None,
        similarity=choice.similarity if choice else None,
        reason=reason,
        project=project,
        category=category or (template.category if template else None),
        tokens=count_text_tokens(template) if template and arm == "warm" else None,
        created_at=int(time.time() * 1000) if now is None else now,
    )
    _record(store, decision)
    kept = _find_decision(store, key) or decision
    if kept.id != decision.id:  # another process was asked for the same session meanwhile
        return _give_again(store, kept, budget=budget, tools=tools)
    return _make(decision, template)


def _deal(
    store: Store,
    choice: Choice,
    session_key: str,
    *,
    budget: int,
    tools: Sequence[object] | None,
) -> tuple[Template | None, Arm, str]:
    """What there is to give of a choice, the arm and why; also of what is held out."""
    seed = fit_seed(choice.template, budget=budget, tools=tools)
    if not seed:
        among = "" if tools is None else " with these tools"
        return None, "cold", f"no call of {choice.template.name} fits in {budget} tokens{among}"
    if find_secrets(msgspec.json.encode(seed)):
        return None, "cold", f"{choice.template.name} holds a secret"
    fitted = msgspec.structs.replace(choice.template, seed=seed)
    share = store.config.templates.hold_out
    if is_held_out(session_key, share):
        return fitted, "cold", f"held out, as {share:.0%} of sessions are"
    return fitted, "warm", "; ".join(choice.reasons)


def is_switched_off(environment: Mapping[str, str] | None = None) -> bool:
    """Whether agents are to start without being asked, as they are in an experiment."""
    environment = os.environ if environment is None else environment
    return environment.get(SWITCH) == "off"


def is_held_out(session_key: str, share: float) -> bool:
    """Whether a session is held out cold: the same session always, and the share of all."""
    digest = blake2b(f"hold out {session_key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _split_name(name: str) -> tuple[str | None, str]:
    """A session's source and id from `source:id`; ids of some agents have colons themselves."""
    from relight.sources import is_source

    source, _, key = name.partition(":")
    return (source, key) if key and is_source(source) else (None, name)


def _record(store: Store, decision: _Decision, *, experiment_id: int | None = None) -> None:
    values = (*msgspec.structs.astuple(decision), experiment_id)
    marks = ", ".join("?" * len(values))
    with store.transaction() as database:
        database.execute(
            f"insert or ignore into provision ({COLUMNS}, experiment_id) values ({marks})", values
        )


def _find_decision(store: Store, session_key: str) -> _Decision | None:
    rows = store.query(f"select {COLUMNS} from provision where session_key = ?", (session_key,))
    names = [name.strip() for name in COLUMNS.split(",")]
    return _Decision(**dict(zip(names, rows[0], strict=True))) if rows else None


def _give_again(
    store: Store, decision: _Decision, *, budget: int, tools: Sequence[object] | None
) -> Provision:
    fitted = None
    if decision.arm == "warm":
        rows = store.query("select name from template where id = ?", (decision.template_id,))
        if rows:
            try:
                template = find_template(store, rows[0][0], version=decision.version)
            except RelightError:
                return _make(decision, None)
            if seed := fit_seed(template, budget=budget, tools=tools):
                fitted = msgspec.structs.replace(template, seed=seed)
    return _make(decision, fitted)


def _make(decision: _Decision, template: Template | None) -> Provision:
    if decision.arm != "warm":
        template = None
    given: dict[str, Any] = {}
    if template is not None:
        given["text"] = render_template(template)
        given["messages"] = wrap_messages(template.seed, template.name)
    return Provision(
        id=decision.id,
        arm=decision.arm,
        template=template,
        similarity=decision.similarity,
        reason=decision.reason,
        session_id=decision.session_key,
        **given,
    )


def record_start(
    store: Store,
    *,
    session_key: str,
    source: str | None,
    arm: str,
    template: Template | None,
    similarity: float | None,
    reason: str,
    experiment_id: int,
    project: str | None = None,
    tokens: int | None = None,
    now: int | None = None,
) -> str:
    """Put on record how a session of an experiment begins; gives the provision's id."""
    own_id = f"p{token_hex(8)}"
    decision = _Decision(
        id=own_id,
        session_key=session_key,
        source=source,
        arm=arm,
        template_id=template.id if template else None,
        version=template.version if template else None,
        similarity=similarity,
        reason=reason,
        project=project,
        category=template.category if template else None,
        tokens=tokens,
        created_at=int(time.time() * 1000) if now is None else now,
    )
    _record(store, decision, experiment_id=experiment_id)
    return own_id


def rename_session(store: Store, provision_id: str, session: str) -> None:
    """Join a provision to the session that followed, where its id was not known before."""
    source, key = _split_name(session)
    with store.transaction() as database:
        database.execute(
            "update or ignore provision set session_key = ?, source = ? where id = ?",
            (key, source, provision_id),
        )
