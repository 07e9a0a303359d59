"""Provisions: decided once, on record first, and what is given is in no count."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
import build_messages as say
import build_warm
import relight
from relight.chat.blocks import TAG, skip_injected, strip_block, wrap_block
from relight.chat.tokens import estimate_messages, estimate_tokens
from relight.errors import RelightError
from relight.store import Store
from relight.store.provisions import JOINED
from relight.warm.agents.hermes_plugin import Plugin
from relight.warm.agents.prompt_hook import answer_event
from relight.warm.library import show_template
from relight.warm.listing import list_provisions, list_templates
from relight.warm.provision import is_held_out
from relight.work.experiments.holdout import read_holdout

TASK = "Fix the rounding in the invoices module"
LIKE = "invoice totals are rounded wrongly"


def test_a_provision_is_on_record_with_arm_version_and_likeness(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
        given_ = relight.provision_session(store, LIKE, session_id="s-1", project="/a")
        rows = store.query("select session_key, arm, version, similarity, tokens from provision")
    assert given_.template is not None
    assert given_.text is not None
    assert given_.arm == "warm"
    assert rows == [("s-1", "warm", 1, given_.similarity, estimate_tokens(given_.text))]
    begins = (
        f'<{TAG} name="rounding" version="1">\nHow a similar task was done in an earlier session.'
    )
    assert given_.text.startswith(begins)


def test_a_session_that_asks_again_gets_the_same_bytes(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
        first = relight.provision_session(store, LIKE, session_id="s-1")
        build_warm.capture(store, f"{LIKE} again", ("make", "cargo"), name="newer")
        again = relight.provision_session(store, f"{LIKE} again", session_id="s-1")
        (count,) = store.query("select count(*) from provision")[0]
    assert (again.id, again.text, again.messages) == (first.id, first.text, first.messages)
    assert count == 1


@pytest.mark.parametrize("less", [{"budget": 130}, {"tools": ["none"]}])
def test_a_session_for_which_nothing_fits_gets_no_empty_example(
    tmp_path: Path, less: dict[str, Any]
) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK)
        assert relight.provision_session(store, TASK, session_id="s1").text
        again = relight.provision_session(store, TASK, session_id="s1", **less)
        assert (again.arm, again.text, again.messages) == ("warm", None, None)
        other = relight.provision_session(store, TASK, session_id="s2", **less)
        assert (other.arm, other.text, other.template) == ("cold", None, None)


def test_a_held_out_session_gets_nothing_and_keeps_what_it_would_have_had(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.999) as store:
        made = build_warm.capture(store, TASK)
        held = relight.provision_session(store, LIKE, session_id="s-1")
        rows = store.query("select arm, template_id from provision")
    assert (held.arm, held.template, held.text, held.messages) == ("cold", None, None, None)
    assert rows == [("cold", made.id)]


def test_nothing_similar_is_a_cold_start_outside_of_both_arms(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK)
        cold = relight.provision_session(store, "write a poem about the sea")
        rows = store.query("select id, session_key, arm, template_id from provision")
    assert (cold.arm, cold.reason) == ("cold", "no template is like this task")
    assert rows == [(cold.id, cold.id, "cold", None)]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tools": ["get_user"]}, "it calls bash, which the session lacks"),
        ({"tools": []}, "it calls bash, which the session lacks"),
        ({"category": "ops"}, "its category is coding, not ops"),
        ({"tags": ["tax"]}, "it has no tag tax"),
    ],
)
def test_a_template_that_may_not_be_given_is_reported_with_what_keeps_it_out(
    tmp_path: Path, asked: dict[str, Any], why: str
) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
        cold = relight.provision_session(store, LIKE, **asked)
        poem = relight.provision_session(store, "write a poem about the sea", **asked)
    assert (cold.arm, cold.reason) == ("cold", f"rounding is like this task, but {why}")
    assert poem.reason == "no template is like this task"


def test_the_share_held_out_is_the_share_asked_for() -> None:
    held = sum(is_held_out(f"session {n}", 0.2) for n in range(5000))
    assert 900 < held < 1100
    assert not any(is_held_out(f"session {n}", 0.0) for n in range(100))


@pytest.mark.parametrize("budget", [300, 600, 2000])
def test_what_is_given_keeps_to_the_budget_and_is_valid(tmp_path: Path, budget: int) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK)
        given_ = relight.provision_session(store, LIKE, budget=budget)
    assert given_.text is not None
    assert given_.messages is not None
    assert estimate_tokens(given_.text) <= budget
    assert estimate_messages(given_.messages) <= budget
    task = {"role": "user", "content": LIKE}
    for rules in ("openai", "anthropic"):
        assert relight.validate_messages([*given_.messages, task], rules=rules) == []


def test_a_session_gets_the_tokens_that_the_list_shows_and_they_fill_the_budget(
    tmp_path: Path,
) -> None:
    messages = say.run(*((f"cat src/part{n}.py", "x = sum(y)\n" * 60) for n in range(40)))
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, messages=messages, force=True)
        (listed,) = list_templates(store)
        task = listed.task
        as_text = relight.provision_session(store, task, session_id="text")
        as_messages = relight.provision_session(
            store, task, session_id="messages", style="messages"
        )
        recorded = [one.tokens for one in list_provisions(store).provisions]
    assert as_text.text is not None
    assert as_messages.messages is not None
    sent = [estimate_messages(as_messages.messages), estimate_tokens(as_text.text)]
    assert show_template(listed).tokens == sent[1]
    assert {*recorded} == {*sent}
    assert all(0.85 < tokens / 2000 <= 1 for tokens in sent)
    assert as_messages.messages == as_text.messages


@pytest.mark.parametrize("style", ["text", "messages"])
def test_what_is_injected_is_within_its_budget_too(tmp_path: Path, style: str) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(
            store, TASK, messages=say.coding_session(1, actions=60), force=True
        )
    for budget in (400, 2000):
        sent = relight.inject(made, [], style=style, budget=budget)
        is_text = style == "text"
        tokens = estimate_tokens(sent[0]["content"]) if is_text else estimate_messages(sent)
        assert tokens <= budget
    with pytest.raises(relight.RelightError, match=r"no call of .* fits in 20 tokens"):
        relight.inject(made, [], style=style, budget=20)


def test_text_goes_before_the_first_user_message_and_the_list_stays(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, TASK, name="rounding")
    messages = [{"role": "system", "content": "Be brief."}, say.user(LIKE)]
    before = deepcopy(messages)
    injected = relight.inject(made, messages)
    assert messages == before
    assert injected[0] == messages[0]
    assert injected[1]["content"].endswith(f"</{TAG}>\n\n{LIKE}")
    assert strip_block(injected[1]["content"]) == LIKE
    assert relight.inject(made, messages) == injected


@pytest.mark.parametrize("style", ["text", "messages"])
def test_what_is_injected_shares_nothing_with_what_was_given(tmp_path: Path, style: str) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        made = build_warm.capture(store, TASK, name="rounding")
        given_ = relight.provision_session(store, TASK)
    parts: list[Any] = [{"type": "text", "text": LIKE}]
    own = [{"role": "user", "content": parts}, *say.act("q1", "read", "x", path="a")]
    before = deepcopy((own, made, given_.template))
    for message in [*relight.inject(made, own, style=style), *(given_.messages or ())]:
        for call in message.get("tool_calls", ()):
            call["function"]["name"] = "changed"
        if isinstance(message["content"], list):
            message["content"][-1]["text"] = "changed"
        message["content"] = "changed"
    assert (own, made, given_.template) == before


def test_messages_go_behind_the_system_messages_and_are_valid(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, TASK, name="rounding")
    messages = [{"role": "system", "content": "Be brief."}, say.user(LIKE)]
    injected = relight.inject(made, messages, style="messages")
    assert (injected[0], injected[-1]) == (messages[0], messages[-1])
    assert "named rounding" in injected[1]["content"]
    assert relight.validate_messages(injected) == []
    assert relight.validate_messages(injected, rules="anthropic") == []
    with pytest.raises(RelightError, match="style cannot be"):
        relight.inject(made, messages, style="song")


@given(st.text(max_size=200))
def test_a_block_cannot_be_closed_from_inside(text: str) -> None:
    block = wrap_block(f"{text}</{TAG}>{text}", name=text, version=1)
    assert block.count(f"</{TAG}>") == 1
    assert strip_block(f"{block}\n\nThe task.") == "The task."


@pytest.mark.parametrize("style", ["text", "messages"])
def test_what_was_injected_is_in_no_count(tmp_path: Path, style: str) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, TASK)
        own = build_warm.session(LIKE)
        lines = [
            {"id": "plain", "messages": own},
            {"id": "warm", "messages": relight.inject(made, own, style=style)},
        ]
        (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines))
        build.import_home(store, tmp_path, sources=["chat"], folder=tmp_path / "chats.jsonl")
        plain, warm = (
            store.query(
                "select title, task_type, category, score,"
                " (select sum(tool_calls) from session_day where session_id = session.id),"
                " (select sum(turns) from session_day where session_id = session.id)"
                " from session where key = ?",
                (key,),
            )
            for key in ("plain", "warm")
        )
    assert plain == warm
    assert plain[0][4] == 12


@pytest.mark.parametrize("style", ["text", "messages"])
def test_what_was_injected_into_a_list_of_parts_is_found_again(tmp_path: Path, style: str) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, TASK)
    parts = [{"type": "text", "text": LIKE}, {"type": "image_url", "image_url": {"url": "x"}}]
    own = [{"role": "user", "content": parts}]
    assert list(skip_injected(relight.inject(made, own, style=style))) == own
    as_parts = [
        {**one, "content": [{"type": "text", "text": one["content"]}]} if one["content"] else one
        for one in relight.inject(made, [say.user(LIKE)], style="messages")
    ]
    assert len(list(skip_injected(as_parts))) == 1


def hook_input(**changes: object) -> bytes:
    known = {"session_id": "s-9", "prompt": LIKE, "cwd": "/a", "hook_event_name": "x"}
    return json.dumps(known | changes).encode()


def test_claude_codes_hook_answers_a_sessions_first_prompt_alone(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    answer = answer_event(hook_input(), home=home)
    assert answer is not None
    told = json.loads(answer)["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert told["additionalContext"].startswith(f'<{TAG} name="rounding"')
    assert answer_event(hook_input(), home=home) is None
    transcript = build.write_claude(tmp_path, build.claude_session())
    later = hook_input(session_id="s-10", transcript_path=str(transcript))
    assert answer_event(later, home=home) is None


def start_input(source: str, **changes: object) -> bytes:
    """What Claude Code says when a session begins; a fork's own file does not exist yet."""
    path = "/home/dev/.claude/projects/-a/s-9.jsonl"
    return hook_input(
        hook_event_name="SessionStart", source=source, transcript_path=path, prompt="", **changes
    )


@pytest.mark.parametrize(("source", "is_given"), [("fork", False), ("startup", True)])
def test_a_fork_gets_no_second_seed_and_no_arm_of_its_own(
    tmp_path: Path, source: str, is_given: bool
) -> None:
    home = tmp_path / "relight"
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    assert answer_event(start_input(source, session_id="new"), home=home) is None
    answer = answer_event(hook_input(session_id="new"), home=home)
    assert (answer is not None) == is_given
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        ((arm, template),) = store.query("select arm, template_id from provision")
        report = read_holdout(store)
    assert (arm, template is not None) == (("warm", True) if is_given else ("continued", False))
    assert report.provisions == {"warm": int(is_given), "cold": 0, "abstained": 0}


def codex_event(transcript: Path | None = None, **changes: object) -> bytes:
    path = None if transcript is None else str(transcript)
    return hook_input(transcript_path=path, turn_id="t", permission_mode="default", **changes)


def test_codex_gets_a_seed_on_a_sessions_first_prompt_and_none_on_a_fork_or_resume(
    tmp_path: Path,
) -> None:
    ask = partial(answer_event, source="codex", home=tmp_path / "relight")
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    fresh = build.write_codex(tmp_path, [build.codex_meta("fresh")], name="fresh")
    fork = build.write_codex(
        tmp_path, [build.codex_meta("fork", forked_from_id="fresh")], name="fork"
    )
    said = build.codex_line("response_item", 1, type="message", role="assistant", content=[])
    old = build.write_codex(tmp_path, [build.codex_meta("old"), said], name="old")
    answer = ask(codex_event(fresh, session_id="fresh"))
    assert answer is not None
    given = json.loads(answer)["hookSpecificOutput"]
    assert given["hookEventName"] == "UserPromptSubmit"
    assert given["additionalContext"].startswith(f'<{TAG} name="rounding"')
    assert ask(codex_event(fresh, session_id="fresh")) is None
    assert ask(codex_event(fork, session_id="fork")) is None
    assert ask(codex_event(old, session_id="old")) is None
    assert ask(codex_event(None, session_id="sub", agent_id="a1")) is None
    resumed = codex_event(None, session_id="r", hook_event_name="SessionStart", source="resume")
    assert ask(resumed) is None
    assert ask(codex_event(None, session_id="r")) is None
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        rows = store.query("select session_key, source, arm from provision")
    assert sorted(rows) == [
        ("fork", "codex", "continued"),
        ("fresh", "codex", "warm"),
        ("r", "codex", "continued"),
    ]


def test_a_seed_for_codex_is_short_enough_that_codex_shows_it_whole(tmp_path: Path) -> None:
    """Codex counts four bytes as a token: long words are more tokens to it than to a model."""
    words = ["incomprehensibilities", "überempfindlichkeiten", "characteristically"]
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        messages = [
            one | ({"content": " ".join(words * 12)} if one["role"] == "tool" else {})
            for one in build_warm.session(TASK)
        ]
        build_warm.capture(store, TASK, name="long", messages=messages)
    answer = answer_event(codex_event(), source="codex", home=tmp_path / "relight")
    assert answer is not None
    text = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    assert len(text.encode()) <= 10_000
    assert text.endswith(f"</{TAG}>")


def test_a_session_that_is_resumed_keeps_the_arm_it_was_dealt(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    assert answer_event(hook_input(), home=home) is not None
    assert answer_event(start_input("resume"), home=home) is None
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        assert store.query("select arm from provision") == [("warm",)]


def test_agents_start_as_if_relight_were_not_there_when_it_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "relight"
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, TASK, name="rounding")
    monkeypatch.setenv("RELIGHT_WARM", "off")
    first = {"session_id": "s", "user_message": LIKE, "is_first_turn": True}
    assert answer_event(hook_input(), home=home) is None
    assert Plugin(str(home)).pre_llm_call(first) is None
    with build_warm.open_warm(tmp_path) as store:
        assert store.query("select * from provision") == []


def test_a_budget_below_nothing_is_refused(tmp_path: Path) -> None:
    with (
        build_warm.open_warm(tmp_path) as store,
        pytest.raises(RelightError, match="budget must be at least 0 tokens, got -1"),
    ):
        relight.provision_session(store, LIKE, budget=-1)


def test_processes_that_ask_for_one_session_at_once_get_the_same(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.5) as store:
        build_warm.capture(store, TASK, name="rounding")
    script = (
        "import sys, relight\n"
        "with relight.open_store(sys.argv[1]) as store:\n"
        "    given = relight.provision_session(store, sys.argv[2], session_id='one')\n"
        "    print(given.id, given.arm, hash(given.text) if given.text else None)\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "relight"), LIKE]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    children = [
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    told = {child.communicate()[0] for child in children}
    assert {child.returncode for child in children} == {0}
    assert len(told) == 1


@pytest.mark.parametrize("given_", [b"", b"no json", b"[]", b'{"session_id": 4}', b"{}"])
def test_a_hook_that_gets_nonsense_is_silent(tmp_path: Path, given_: bytes) -> None:
    assert answer_event(given_, home=tmp_path / "relight") is None


def test_a_hook_without_a_working_store_is_silent_and_counted(tmp_path: Path) -> None:
    (tmp_path / "relight.db").write_bytes(b"no database at all" * 50)
    assert answer_event(hook_input(), home=tmp_path) is None
    assert (tmp_path / "missed.log").read_text().count("\n") == 1


def test_the_sessions_of_provisions_are_looked_up_without_reading_all(store: Store) -> None:
    if store.engine == "postgres":
        pytest.skip("its plans depend on the number of rows")
    plan = store.query(f"explain query plan select arm, count(*) {JOINED} group by arm")
    assert [step for *_, step in plan if step.startswith("SCAN session")] == []
    assert any("session_by_own_key" in step for *_, step in plan)
