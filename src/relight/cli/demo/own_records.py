"""Records of the demo that no agent writes: templates, warm starts, a mixture of models."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from relight.cli.demo.dice import Clock
from relight.cli.demo.experiment import run_chores, run_trial
from relight.cli.demo.metering import TokenUse, estimate_usd
from relight.cli.demo.story import make_call, read_demo_table
from relight.errors import RelightError
from relight.intake.recorder import SessionTracker, record
from relight.locks import make_folder, write_private
from relight.reports.budgets import set_limit
from relight.reports.labels import label_session
from relight.reports.lessons import read_new
from relight.store import Store
from relight.store.labels import find_unlabelled
from relight.store.queries.filters import Filter
from relight.store.queries.sessions import list_titled
from relight.times import write_time
from relight.warm.capture import capture_template
from relight.warm.choice import choose_template
from relight.warm.library import retire_template
from relight.warm.provision import provision_session
from relight.work.moa.mixture import attach_guidance, make_guidance, make_view
from relight.work.moa.traces import write_trace

TEMPLATES = 11
# so many of the newest sessions wait for a label
UNLABELLED = 12
# what the developer sees at the end of a session, and how it went then
SEEN = {
    "the tests run last passed": "success",
    "the last test run failed": "failure",
    "it ended in a spiral": "failure",
    "the answer says": "failure",
    "the last call failed": "failure",
}
# a session as like a template as this shows the same work again
ALIKE = 0.2
CHARACTERS_PER_TOKEN = 4


def write_settings(home: Path) -> None:
    """Write the settings of the invented developer, before the store is first opened.

    The real one's sessions stay out of the demo.
    """
    make_folder(home)
    write_private(home / "config.toml", Path(__file__).with_name("settings.toml").read_bytes())


def record_facts(store: Store, *, now: datetime) -> None:
    """Record what the invented developer did with Relight itself."""
    label_sessions(store, now=now)
    read_new(store, Filter())
    start_warm(store)
    run_trial(store, at=now - timedelta(days=2, hours=5))
    run_chores(store, now=now)
    ask_mixture(store, at=now - timedelta(days=1, hours=3))
    set_limit(store, "all", "300/month", stops=False)
    read_new(store, Filter())


def label_sessions(store: Store, *, now: datetime) -> None:
    """Label the sessions that show how they went, apart from the newest ones."""
    for one in find_unlabelled(store, limit=1000)[UNLABELLED:]:
        evidence = one.evidence or ""
        outcome = next((said for sign, said in SEEN.items() if sign in evidence), None)
        if outcome is not None:
            label_session(store, one.id, outcome, now=int(now.timestamp() * 1000))


def start_warm(store: Store) -> None:
    """Add templates of good sessions, and provide the sessions after them.

    One gets a second version from a similar session, and one is retired.
    """
    made: list[str] = []
    improved: str | None = None
    for session, task, project, began_at, ended_at, outcome in list_titled(store):
        if made:
            provision_session(store, task, session_id=session, project=project, now=began_at - 1000)
        choice = None if improved or outcome != "success" else choose_template(store, task)
        name = choice.template.name if choice and choice.similarity > ALIKE else None
        if outcome == "success" and (name or len(made) < TEMPLATES):
            try:
                kept = capture_template(store, session, name=name, now=ended_at)
            except RelightError:
                continue  # it does not pass the gate, or is like one that there is
            improved = improved or name
            made += [] if name else [kept.name]
    unneeded = [name for name in made if name != improved]
    if len(unneeded) > 2:
        retire_template(store, unneeded[2], why="the layout it describes is gone since the move")


def ask_mixture(store: Store, *, at: datetime) -> None:
    """Record a session in which three models advise and one acts, with its trace."""
    table = read_demo_table("mixture.toml")
    name = f"{at.astimezone(UTC):%Y%m%d-%H%M%S}-{table['preset']}"
    clock = Clock(at)
    acting = table["acting"]
    messages: list[dict[str, Any]] = []
    with record(
        store,
        name,
        model=acting["model"],
        provider=acting["provider"],
        project=table["project"],
        title=table["title"],
        clock=lambda: clock.seconds,
    ) as rec:
        for number, turn in enumerate(table["turn"]):
            if "prompt" in turn:
                messages.append({"role": "user", "content": turn["prompt"].strip()})
                rec.message("user", turn["prompt"].strip())
            _take_turn(store, rec, table, turn, messages, clock, number)
        rec.finish("success", why="the migration went through the next morning")


def _take_turn(
    store: Store,
    rec: SessionTracker,
    table: dict[str, Any],
    turn: dict[str, Any],
    messages: list[dict[str, Any]],
    clock: Clock,
    number: int,
) -> None:
    view, began = make_view(messages), clock.milliseconds
    traced, advice = [], []
    for adviser, said in zip(table["advising"], turn["advice"], strict=True):
        call = _describe_call(adviser, view, said)
        traced.append(call)
        advice.append((call["label"], call["output"]))
        _record_call(rec, call, "reference")
    clock.wait(max(said["seconds"] for said in turn["advice"]))
    given = attach_guidance(messages, make_guidance(table["preset"], advice))
    acted = _describe_call(table["acting"], list(given), {"text": turn["say"], **turn})
    answer: dict[str, Any] = {"role": "assistant", "content": turn["say"].strip()}
    if "tool" in turn:
        call = make_call(f"call_{number}", turn["tool"], turn["command"])
        answer["tool_calls"] = acted["tool_calls"] = [call]
    clock.wait(turn["seconds"])
    _record_call(rec, acted, "aggregator", answer)
    messages.append(answer)
    if "tool" in turn:
        rec.tool_call(
            turn["tool"],
            call["function"]["arguments"],
            {"output": turn["result"], "exit_code": 0, "error": None},
            call_id=f"call_{number}",
            exit_code=0,
            duration_ms=740,
        )
        messages.append(
            {"role": "tool", "tool_call_id": f"call_{number}", "content": turn["result"]}
        )
    write_trace(
        store.config.trace_folder,
        rec.session_id,
        {
            "ts": write_time(began),
            "session_id": rec.session_id,
            "preset": table["preset"],
            "references": traced,
            "aggregator": {**acted, "streamed": False, "output_location": "inline"},
        },
    )


def _describe_call(
    model: dict[str, Any], messages: list[Any], said: dict[str, Any]
) -> dict[str, Any]:
    """Return a call as a trace has it: request, response, cost."""
    is_failed = "failure" in said
    heard = sum(len(str(one.get("content"))) for one in messages) // CHARACTERS_PER_TOKEN
    text = said["text"].strip()
    usage = TokenUse(fresh=heard + 420, output=len(text) // CHARACTERS_PER_TOKEN + 60)
    cost = estimate_usd(usage, model["model"])
    is_priced = bool(cost) and not is_failed
    return {
        "label": f"{model['provider']}:{model['model']}",
        "model": model["model"],
        "provider": model["provider"],
        "temperature": model.get("temperature"),
        "input_messages": messages,
        "output": None if is_failed else text,
        "tool_calls": None,
        "usage": {
            "input_tokens": None if is_failed else usage.fresh,
            "output_tokens": None if is_failed else usage.output,
        },
        "cost_usd": cost if is_priced else None,
        "cost_status": "estimated" if is_priced else "unknown",
        "cost_source": "prices.toml" if is_priced else None,
        "duration_ms": round(said["seconds"] * 1000),
        "failure": {"kind": said["failure"], "reason": text} if is_failed else None,
        "cached": False,
    }


def _record_call(
    rec: SessionTracker, call: dict[str, Any], role: str, message: dict[str, Any] | None = None
) -> None:
    is_failed = call["failure"] is not None
    rec.turn(
        model=call["model"],
        provider=call["provider"],
        role=role,
        input_tokens=call["usage"]["input_tokens"],
        output_tokens=call["usage"]["output_tokens"],
        message=message
        or (None if is_failed else {"role": "assistant", "content": call["output"]}),
        duration_ms=call["duration_ms"],
        failure=TimeoutError(call["failure"]["reason"]) if is_failed else None,
    )
