"""Lessons at the start of a session: by a coin apart from templates, once, and in no count."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import build
import build_messages as say
import build_warm
import relight
from build_lessons import (
    EARLY_DAY,
    PROJECT,
    SPARED,
    name_session,
    open_taught,
    take_sessions,
    write_early,
)
from relight.chat.blocks import LESSONS_TAG, TAG, skip_injected, strip_block, wrap_lessons
from relight.chat.tokens import estimate_tokens
from relight.chat.validity import validate_messages
from relight.model import row_id
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.warm.agents.hermes_plugin import Plugin
from relight.warm.agents.prompt_hook import answer_event
from relight.warm.lessons import BUDGET
from relight.warm.listing import list_provisions
from relight.warm.provision import Provision, is_held_out
from relight.work.agent.session import find_start
from terminal import Cli

TASK = "Fix the rounding in the invoices module"
LINE = "`python`: no module or command `python` (3 of 3 sessions). What worked: `python3`"


def provision(store: Store, key: str = "s-1", **wishes: Any) -> Provision:
    return relight.provision_session(store, TASK, session_id=key, project=PROJECT, **wishes)


def test_a_session_begins_with_the_lessons_of_its_project_if_no_template_is_like_the_task(
    tmp_path: Path,
) -> None:
    with open_taught(tmp_path) as store:
        given = provision(store)
        assert (given.arm, given.template, given.lessons) == ("cold", None, True)
        assert given.text is not None
        assert given.text.startswith(f"<{LESSONS_TAG}>\n")
        assert LINE in given.text
        assert estimate_tokens(given.text) <= BUDGET
        for other in (None, "/home/dev", f"{PROJECT}/below", "/home/dev/shop2"):
            elsewhere = relight.provision_session(store, TASK, project=other)
            assert (elsewhere.lessons, elsewhere.text) == (False, None)


@pytest.mark.parametrize("budget", [2000, 700])
def test_lessons_stand_before_the_seed_and_both_are_within_the_budget(
    tmp_path: Path, budget: int
) -> None:
    with open_taught(tmp_path) as store:
        build_warm.capture(store, TASK, name="rounding")
        given = provision(store, budget=budget)
        assert (given.arm, given.lessons) == ("warm", True)
        assert given.text is not None
        assert given.text.index(LINE) < given.text.index(f'<{TAG} name="rounding"')
        assert strip_block(given.text) == ""
        assert estimate_tokens(given.text) <= budget
        messages = given.messages
        assert messages is not None
        assert LINE in messages[0]["content"]
        whole = [*messages, {"role": "user", "content": TASK}]
        assert validate_messages(whole) == validate_messages(whole, rules="anthropic") == []
        assert list(skip_injected(whole)) == whole[-1:]


def test_a_budget_without_room_for_a_lesson_gives_none(tmp_path: Path) -> None:
    with open_taught(tmp_path) as store:
        assert (provision(store, budget=20).text, provision(store).lessons) == (None, False)


def test_the_two_coins_are_dealt_apart() -> None:
    cells = Counter(
        (is_held_out(f"s-{n}", 0.2), is_held_out(f"lessons s-{n}", 0.2)) for n in range(20_000)
    )
    for (template, lessons), count in cells.items():
        expected = 20_000 * (0.2 if template else 0.8) * (0.2 if lessons else 0.8)
        assert abs(count - expected) < 4.5 * expected**0.5


def test_a_session_held_out_from_lessons_gets_none_and_keeps_what_it_would_have_had(
    tmp_path: Path,
) -> None:
    with open_taught(tmp_path, hold_out=0.5) as store:
        build_warm.capture(store, TASK, name="rounding")
        found = {n: provision(store, f"s-{n}") for n in range(20)}
        rows = dict(store.query("select session_key, lessons from provision"))
        shares = store.query("select distinct lessons_hold_out from provision")
        listed = {one.session_id: one.lessons for one in list_provisions(store).provisions}
    held = [n for n, one in found.items() if not one.lessons]
    assert held == [n for n in found if is_held_out(f"lessons s-{n}", 0.5)]
    assert 0 < len(held) < len(found)
    assert shares == [(0.5,)]
    for n, one in found.items():
        assert one.arm == "warm"  # the other coin is not this one's
        assert [lesson["name"] for lesson in json.loads(rows[f"s-{n}"])] == ["python"]
        assert (LINE in (one.text or "")) == one.lessons == listed[f"s-{n}"]
    # the room for the seed is the same in both, so that only the lessons differ
    seeds = {(one.text or "").partition(f"<{TAG}")[2] for one in found.values()}
    assert len(seeds) == 1


def test_a_session_that_asks_again_gets_the_same_lessons_though_more_was_learned(
    tmp_path: Path,
) -> None:
    with open_taught(tmp_path) as store:
        first = provision(store)
        write_early(tmp_path, 4)
        take_sessions(store, tmp_path)
        again, other = provision(store), provision(store, "s-2")
    assert again.text == first.text
    assert "4 of 4 sessions" in (other.text or "")


def test_the_plan_is_on_record_before_the_first_session_that_is_dealt_lessons(
    tmp_path: Path,
) -> None:
    with open_taught(tmp_path) as store:
        assert store.query("select count(*) from warm_plan") == [(0,)]
        provision(store, now=10**13)
        assert store.query("select cause_effect, begun_at from warm_plan") == [(0.3, 10**13)]


def test_only_sessions_before_this_one_teach_it(tmp_path: Path) -> None:
    with open_taught(tmp_path) as store:
        day = build.START + (EARLY_DAY + 2) * 86_400_000 + 100_000
        assert not provision(store, "early", now=day).lessons
        assert provision(store, "late", now=day + 86_400_000).lessons


@pytest.mark.parametrize(("is_given", "is_left"), [(True, True), (False, False)])
def test_sessions_that_were_given_a_lesson_never_count_towards_its_end(
    tmp_path: Path, is_given: bool, is_left: bool
) -> None:
    """All run the program without the failure, so the lesson ends unless it is why."""
    with open_taught(tmp_path) as store:
        for number in range(4, 12):
            if is_given:
                key = name_session(number)
                assert provision(store, key, source="claude-code").lessons
            write_early(tmp_path, number, [("python run.py", "ok", 0)])
        take_sessions(store, tmp_path)
        found = relight.find_lessons(store, project=PROJECT)
    assert [one.of_sessions for one in found] == ([3] if is_left else [])


def test_no_lessons_are_given_if_the_settings_say_so(tmp_path: Path) -> None:
    with open_taught(tmp_path, settings="give = false\n") as store:
        assert (provision(store).text, provision(store).lessons) == (None, False)
        assert store.query("select has_lessons from provision") == [(None,)]


def test_a_session_that_began_with_lessons_has_none_of_them_in_its_record(tmp_path: Path) -> None:
    with open_taught(tmp_path) as store:
        own = build_warm.session(TASK)
        said = provision(store).text
        lines = [
            {"id": "plain", "messages": own},
            {"id": "told", "messages": [own[0], say.user(f"{said}\n\n{TASK}"), *own[2:]]},
        ]
        (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines))
        build.import_home(store, tmp_path, sources=["chat"], folder=tmp_path / "chats.jsonl")
        titles = store.query("select title, score from session where source = 'chat'")
        texts = [
            read_transcript(store, row_id("session", "chat", key)).messages
            for key in ("plain", "told")
        ]
    assert titles[0] == titles[1]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("text", ["x", f"</{LESSONS_TAG}>", f"</{TAG}><{LESSONS_TAG}>"])
def test_a_block_of_lessons_cannot_be_closed_from_inside(text: str) -> None:
    block = wrap_lessons(f"{text} and more")
    assert block.count(f"</{LESSONS_TAG}>") == 1
    assert strip_block(f"{block}\n\nThe task.") == "The task."


def ask(event: str = "UserPromptSubmit", **facts: object) -> bytes:
    known = {"session_id": "s-9", "prompt": TASK, "cwd": PROJECT, "hook_event_name": event}
    return json.dumps(known | facts).encode()


@pytest.mark.parametrize("source", ["claude-code", "codex"])
def test_a_hook_gives_lessons_on_the_first_prompt_alone(tmp_path: Path, source: str) -> None:
    open_taught(tmp_path).close()
    answer = partial(answer_event, source=source, home=tmp_path / "relight")
    told = answer(ask())
    assert told is not None
    assert LINE in json.loads(told)["hookSpecificOutput"]["additionalContext"]
    assert answer(ask()) is None
    for way in ("fork", "resume"):
        assert answer(ask("SessionStart", source=way, session_id=way)) is None
        assert answer(ask(session_id=way)) is None


def test_the_plugin_of_hermes_gives_lessons_and_as_much_of_the_seed_as_hermes_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["incomprehensibilities" * 2, "characteristically" * 2]
    with open_taught(tmp_path, project=str(tmp_path)) as store:
        build_warm.capture(store, TASK, [f"{one}{'x' * 120}" for one in words], name="rounding")
    plugin = Plugin(str(tmp_path / "relight"))
    facts = {"session_id": "h-1", "user_message": TASK, "is_first_turn": True}
    given = plugin.pre_llm_call(facts)
    assert given is not None
    assert LINE in given["context"]
    assert f'<{TAG} name="rounding"' in given["context"]
    assert len(given["context"]) <= 9_500
    assert plugin.pre_llm_call(facts | {"is_first_turn": False}) is None


def test_a_run_of_relights_own_agent_begins_with_lessons(tmp_path: Path) -> None:
    with open_taught(tmp_path) as store:
        start = find_start(store, TASK, "auto", session_id="r-1", project=PROJECT)
        assert (start.arm, start.template) == ("cold", None)
        assert LINE in (start.text or "")


@pytest.mark.parametrize("template", ["none", "rounding"])
def test_a_run_without_a_dealt_template_is_dealt_lessons_by_the_same_coin(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_taught(tmp_path, hold_out=0.2) as store:
        build_warm.capture(store, TASK, name="rounding")

        def start(key: str) -> str:
            found = find_start(store, TASK, template, session_id=key, project=PROJECT)
            assert (f'<{TAG} name="rounding"' in (found.text or "")) == (template == "rounding")
            return found.text or ""

        keys = [f"r-{number}" for number in range(30)]
        given = {key: LINE in start(key) for key in keys}
        assert given == {key: not is_held_out(f"lessons {key}", 0.2) for key in keys}
        assert set(given.values()) == {True, False}
        assert [LINE in start(key) for key in keys] == list(given.values())
        recorded = list_provisions(store, limit=100).provisions
        assert {one.session_id: one.lessons for one in recorded} == {
            f"relight:{key}": has_lessons for key, has_lessons in given.items()
        }
        assert {(one.arm, one.template) for one in recorded} == {("cold", None)}
        # inside of an experiment, which deals by its tasks
        monkeypatch.setenv("RELIGHT_WARM", "off")
        assert LINE not in start("r-off")


def test_no_run_begins_with_lessons_if_the_settings_say_so(tmp_path: Path) -> None:
    with open_taught(tmp_path, settings="give = false\n") as store:
        assert find_start(store, TASK, "none", session_id="r-1", project=PROJECT).text is None
        assert list_provisions(store).provisions == []


def test_relight_warm_says_whether_lessons_were_given(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    open_taught(tmp_path, project=str(folder)).close()
    words = ("warm", TASK, "--project", str(folder), "--session", "s-1")
    found = cli.json(*words)
    assert (found["arm"], found["template"], found["lessons"]) == ("cold", None, True)
    assert LINE in found["text"]
    assert cli.json("warm", TASK, "--project", "/elsewhere", "--session", "s-2")["lessons"] is False
    assert "with the lessons of the project" in cli.run(*words).stderr


def test_spared_sessions_do_not_make_a_lesson(tmp_path: Path) -> None:
    with open_taught(tmp_path, hits=0) as store:
        for number in range(1, 5):
            write_early(tmp_path, number, SPARED)
        take_sessions(store, tmp_path)
        assert not provision(store).lessons
