"""The beginning of a session, decided once and recorded first.

Two coins are dealt apart: one for the template, one for the lessons of the project. So each effect
is measured in all sessions that it could show in.
"""

import os
import random
import time
from collections.abc import Sequence
from hashlib import blake2b
from secrets import token_hex
from typing import Literal

import msgspec
from msgspec import Struct

from relight.chat.shorten import clean_text
from relight.chat.tokens import estimate_tokens
from relight.errors import RelightError, check_choice
from relight.redact import find_secrets
from relight.store import Store, provisions, templates
from relight.store.provisions import DealtLesson, Decision, read_lessons
from relight.warm import injection
from relight.warm.choice import Choice, check_task, explain_absence, find_choice, make_wanted
from relight.warm.lessons import prepare_lessons, render_dealt
from relight.warm.library import Template
from relight.warm.plans import begin_first_plan
from relight.warm.seeds import STYLES
from relight.warm.units import Message

Arm = Literal["warm", "cold"]
# if this variable is `off`, agents with Relight installed start cold
SWITCH = "RELIGHT_WARM"


class _Form(Struct, frozen=True):
    """The room for a template in a session, the session's tools, and the style that is sent."""

    budget: int
    tools: Sequence[object] | None
    style: str

    def fit(self, template: Template, style: str | None = None) -> Template | None:
        """Return a template with what fits of its seed; None if that is no call."""
        seed = injection.fit_seed(
            template, budget=self.budget, tools=self.tools, style=style or self.style
        )
        return msgspec.structs.replace(template, seed=seed) if seed else None

    def without(self, lessons: str) -> "_Form":
        """Return the room that is left beside lessons, also where they are held out."""
        used = estimate_tokens(f"{lessons}\n\n") if lessons else 0
        return msgspec.structs.replace(self, budget=max(self.budget - used, 0))


class Provision(Struct, frozen=True, kw_only=True):
    """The beginning of a session; `text` and `messages` are two forms of the same.

    That is the lessons of the project, then the template, or one of them alone. Each form is within
    the budget, and None if it would hold nothing.
    """

    id: str
    arm: str
    template: Template | None
    similarity: float | None
    reason: str
    text: str | None = None
    session_id: str = ""
    # the lessons as text, if the session has any
    lessons_text: str | None = None
    # the stored template and the room for it, if the session is warm
    stored: Template | None = None
    form: _Form

    @property
    def lessons(self) -> bool:
        """True if the session begins with the lessons of its project."""
        return self.lessons_text is not None

    @property
    def messages(self) -> list[Message] | None:
        """The same as messages; they are fitted here, since most sessions get text."""
        fitted = self.form.fit(self.stored, "messages") if self.stored else None
        found = injection.wrap_messages(fitted.seed, fitted.name) if fitted else []
        if self.lessons_text is None:
            return found or None
        if not found:
            return [{"role": "user", "content": self.lessons_text}]
        task, *rest = found
        return [{**task, "content": f"{self.lessons_text}\n\n{task['content']}"}, *rest]


def provision_session(
    store: Store,
    task: str,
    *,
    session_id: str | None = None,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
    project: str | None = None,
    budget: int = injection.BUDGET,
    style: str = "text",
    source: str | None = None,
    now: int | None = None,
) -> Provision:
    """Return what a new session should begin with, and record it first.

    A share of sessions is held out from templates and a share from lessons, each by a hash of the
    session's id. A second request for the same session gets the same result, so that the beginning
    of its conversation does not change. `style` is the form that will be sent, "text" or
    "messages": its tokens are recorded.
    """
    if budget < 0:
        raise RelightError(f"budget must be at least 0 tokens, got {budget}")
    whole = _Form(budget, tools, check_choice("style", style, tuple(STYLES)))
    at = int(time.time() * 1000) if now is None else now
    task = check_task(task)
    own_id = make_decision_id()
    session_id = None if session_id is None else clean_text(str(session_id))
    if session_id is not None and ":" in session_id and source is None:
        source, session_id = _split_name(session_id)
    key = session_id or own_id
    if earlier := provisions.find_decision(store, key):
        return _repeat(store, earlier, whole)
    lessons = prepare_lessons(store, project, budget=budget, now=at)
    form = whole.without(render_dealt(lessons))
    wanted = make_wanted(category=category, tags=tags, tools=tools, project=project, agent=source)
    choice = find_choice(store, task, wanted, rng=random.Random(f"choice {key}"))
    template, arm, reason = (
        _deal(store, choice, key, form)
        if choice
        else (None, "cold", explain_absence(store, task, wanted))
    )
    if template is not None or lessons:
        begin_first_plan(store, now=at)
    decision = Decision(
        id=own_id,
        session_key=key,
        source=source,
        arm=arm,
        similarity=choice.similarity if choice else None,
        reason=reason,
        project=project,
        category=category,
        tokens=injection.count_tokens(template, style) if template and arm == "warm" else None,
        created_at=at,
        hold_out=float(store.config.templates.hold_out) if template else None,
    )
    decision = _deal_lessons(store, name_template(decision, template), lessons)
    provisions.insert_decision(store, decision)
    recorded = provisions.find_decision(store, key) or decision
    if recorded.id != decision.id:  # another process decided for the same session meanwhile
        return _repeat(store, recorded, whole)
    return _make(decision, choice.template if choice and template else None, form)


def provision_lessons(
    store: Store, *, session_id: str, project: str | None, source: str, reason: str
) -> str | None:
    """Return the lessons that a session without a dealt template begins with, and record them.

    `reason` says why no template is dealt. Without lessons nothing is recorded.
    """
    at = int(time.time() * 1000)
    decision = provisions.find_decision(store, session_id)
    if decision is None:
        lessons = prepare_lessons(store, project, budget=injection.BUDGET, now=at)
        if not lessons:
            return None
        begin_first_plan(store, now=at)
        decision = Decision(
            id=make_decision_id(),
            session_key=session_id,
            source=source,
            arm="cold",
            reason=reason,
            project=project,
            created_at=at,
        )
        provisions.insert_decision(store, _deal_lessons(store, decision, lessons))
        decision = provisions.find_decision(store, session_id) or decision
    given = read_lessons(decision.lessons) if decision.has_lessons else []
    return render_dealt(given) or None


def _deal_lessons(store: Store, decision: Decision, lessons: list[DealtLesson]) -> Decision:
    """Return a decision with the lessons of its project, given or held out."""
    if not lessons:
        return decision
    share = float(store.config.lessons.hold_out)
    return msgspec.structs.replace(
        decision,
        lessons=msgspec.json.encode(lessons).decode(),
        has_lessons=int(not is_held_out(f"lessons {decision.session_key}", share)),
        lessons_hold_out=share,
    )


def _deal(
    store: Store, choice: Choice, session_key: str, form: _Form
) -> tuple[Template | None, Arm, str]:
    """Return the fitted template, also of a session that is held out, the arm and the reason."""
    name, fitted = choice.template.name, form.fit(choice.template)
    if fitted is None:
        among = "" if form.tools is None else " with these tools"
        return None, "cold", f"no call of {name} fits in {form.budget} tokens{among}"
    if find_secrets(msgspec.json.encode(choice.template.seed)):
        return None, "cold", f"{name} holds a secret"
    share = store.config.templates.hold_out
    if is_held_out(session_key, share):
        return fitted, "cold", f"held out, as {share:.0%} of sessions are"
    return fitted, "warm", "; ".join(choice.reasons)


def is_switched_off() -> bool:
    """True if agents must start cold, as inside an experiment."""
    return os.environ.get(SWITCH) == "off"


def is_held_out(session_key: str, share: float) -> bool:
    """True if a session is held out: always for the same session, and for a share of all."""
    digest = blake2b(f"hold out {session_key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _split_name(name: str) -> tuple[str | None, str]:
    """Return a session's source and id from `source:id`; ids of some agents contain colons."""
    from relight.sources import is_source

    source, _, key = name.partition(":")
    return (source, key) if key and is_source(source) else (None, name)


def _repeat(store: Store, decision: Decision, form: _Form) -> Provision:
    template = None
    if decision.arm == "warm" and (name := templates.find_name(store, decision.template_id)):
        template = templates.read_template(store, name, version=decision.version)
    return _make(decision, template, form.without(render_dealt(read_lessons(decision.lessons))))


def _make(decision: Decision, template: Template | None, form: _Form) -> Provision:
    stored = template if decision.arm == "warm" else None
    fitted = form.fit(stored) if stored else None
    text = form.fit(stored, "text") if stored and form.style != "text" else fitted
    lessons = render_dealt(read_lessons(decision.lessons)) if decision.has_lessons else ""
    parts = [one for one in (lessons, injection.render_template(text) if text else "") if one]
    return Provision(
        id=decision.id,
        arm=decision.arm,
        template=fitted,
        similarity=decision.similarity,
        reason=decision.reason,
        text="\n\n".join(parts) or None,
        session_id=decision.session_key,
        lessons_text=lessons or None,
        stored=stored,
        form=form,
    )


def record_decision(store: Store, decision: Decision, template: Template | None = None) -> str:
    """Record how a session begins, unless that is decided; return the id of this decision."""
    provisions.insert_decision(store, name_template(decision, template))
    return decision.id


def name_template(decision: Decision, template: Template | None) -> Decision:
    """Return a decision with the template that it is about, if there is one."""
    if template is None:
        return decision
    return msgspec.structs.replace(
        decision,
        template_id=template.id,
        version=template.version,
        category=decision.category or template.category,
    )


def make_decision_id() -> str:
    return f"p{token_hex(8)}"


def rename_session(store: Store, provision_id: str, session: str) -> None:
    """Join a provision to the session that followed, whose id was not known before."""
    source, key = _split_name(session)
    provisions.move_decision(store, provision_id, key, source)
