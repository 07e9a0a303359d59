"""Templates: made only of what is good, kept in versions, shared with care."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import build
import build_messages as say
import build_warm
import relight
from relight.errors import RelightError
from relight.intake.retention import forget
from relight.names import file_name
from relight.store import Store
from relight.warm.candidates import capture_candidates
from relight.warm.gate import GateFigures, find_failed_rules
from relight.warm.library import (
    add_version,
    delete_template,
    find_template,
    read_templates,
    read_versions,
    restore_template,
    retire_template,
)
from relight.warm.results import read_stats
from relight.warm.sharing import export_template, import_template, read_template_file

TASK = "Fix the rounding in the invoices module"
OTHER = "Deploy the search cluster to the staging region"
TOOLS = ("kubectl", "helm", "docker", "terraform")
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as opened:
        yield opened


def test_a_session_that_is_too_short_is_refused_with_the_figure(store: Store) -> None:
    messages = build_warm.session(TASK)[:9]
    with pytest.raises(RelightError, match="9 messages and 4 calls, at least 20 and 5"):
        build_warm.capture(store, TASK, messages=messages)


def test_a_session_in_which_much_failed_is_refused_with_the_figure(store: Store) -> None:
    facts = [{"call_id": f"call_{n}", "is_error": True} for n in range(9, 12)]
    with pytest.raises(RelightError, match=r"25\.0% of 12 calls failed, at most 10%"):
        build_warm.capture(store, TASK, calls=facts)


def test_two_calls_that_worked_are_too_few_and_not_too_many_failures(store: Store) -> None:
    messages = build_warm.session(TASK)[:5]
    with pytest.raises(RelightError) as found:
        build_warm.capture(store, TASK, messages=messages)
    assert "too short: 5 messages and 2 calls" in found.value.message
    assert "failures" not in f"{found.value.message} {found.value.hint}"


def test_calls_that_nothing_judges_are_not_called_failures() -> None:
    figures = GateFigures(messages=30, calls=12, error_rate=None, outcome="success", evidence=[])
    assert find_failed_rules(figures) == ["nothing shows whether its 12 calls failed"]


def test_one_call_is_named_in_the_singular() -> None:
    figures = GateFigures(messages=4, calls=1, error_rate=1.0, outcome="success", evidence=[])
    assert find_failed_rules(figures) == [
        "too short: 4 messages and 1 call, at least 20 and 5 are needed",
        "too many failures: 100.0% of 1 call failed, at most 10% may",
    ]


@pytest.mark.parametrize(
    ("outcome", "words"), [("unknown", "outcome is unknown"), ("failure", "it failed")]
)
def test_without_evidence_of_success_there_is_no_template(
    store: Store, outcome: str, words: str
) -> None:
    with pytest.raises(RelightError, match=words):
        build_warm.capture(store, TASK, outcome=outcome)
    made = build_warm.capture(store, TASK, outcome=outcome, force=True)
    assert len(made.overruled) == 1
    assert words in made.overruled[0]


def test_a_template_holds_its_task_kind_and_a_valid_seed_within_budget(store: Store) -> None:
    made = build_warm.capture(store, TASK, tags=["money", "tests"])
    assert (made.name, made.version) == ("fix-the-rounding-in-the-invoices-module", 1)
    assert (made.category, made.task_type, made.tools) == ("coding", "code", ["bash"])
    assert made.tags == ["money", "tests"]
    assert made.tokens <= 2000
    assert relight.validate_messages(made.seed) == []
    assert say.POLICY not in json.dumps(made.seed)


def test_secrets_are_taken_out_again_and_shown(store: Store) -> None:
    messages = build_warm.session(TASK)
    messages[3]["content"] = f"token {TOKEN} accepted"
    made = build_warm.capture(store, TASK, messages=messages)
    assert TOKEN not in json.dumps(made.seed)
    assert sum(made.redactions.values()) >= 1


def test_what_is_nearly_the_same_is_refused(store: Store) -> None:
    build_warm.capture(store, TASK, name="first")
    with pytest.raises(RelightError, match="nearly the same as first"):
        build_warm.capture(store, f"{TASK}!", name="second")
    build_warm.capture(store, OTHER, TOOLS)
    assert len(read_templates(store)) == 2


def test_a_change_is_a_new_version_and_the_old_one_stays(store: Store) -> None:
    first = build_warm.capture(store, TASK, name="rounding")
    second = build_warm.capture(store, f"{TASK} for credit notes too", TOOLS, name="rounding")
    assert [one.version for one in read_versions(store, "rounding")] == [1, 2]
    assert find_template(store, "rounding").seed == second.seed
    assert find_template(store, "rounding", version=1).seed == first.seed


def test_beyond_the_limit_of_a_category_the_weakest_retires(tmp_path: Path) -> None:
    topics = ("rounding invoices", "parsing dates", "caching pages", "sorting queues")
    with build_warm.open_warm(tmp_path, live=3) as store:
        for number, topic in enumerate(topics):
            tools = [f"{word}{number}" for word in build_warm.TOOLS]
            build_warm.capture(store, topic, tools, name=f"t{number}", now=1000 + number)
        live = [one.name for one in read_templates(store, with_retired=False)]
        gone = next(one for one in read_templates(store) if one.name not in live)
    assert len(live) == 3
    assert "t3" in live
    assert gone.retired_why == "the weakest of more than 3 in coding when t3 came"


def test_a_retired_template_is_not_chosen_until_it_is_restored(store: Store) -> None:
    build_warm.capture(store, TASK, name="rounding")
    retire_template(store, "rounding", why="the layout changed")
    assert relight.choose_template(store, TASK) is None
    restore_template(store, "rounding")
    chosen = relight.choose_template(store, TASK)
    assert chosen is not None
    assert chosen.template.name == "rounding"
    delete_template(store, "rounding")
    assert relight.choose_template(store, TASK) is None
    with pytest.raises(RelightError, match="no template 'rounding'"):
        find_template(store, "rounding")


def test_good_recorded_sessions_become_templates_by_themselves(tmp_path: Path) -> None:
    lines = [
        {"id": "good", "messages": build_warm.session(TASK), "outcome": "success"},
        {"id": "again", "messages": build_warm.session(TASK), "outcome": "success"},
        {"id": "bad", "messages": build_warm.session(OTHER, TOOLS), "outcome": "failure"},
    ]
    (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines))
    with build_warm.open_warm(tmp_path) as store:
        build.import_home(store, tmp_path, sources=["chat"], folder=tmp_path / "chats.jsonl")
        planned = capture_candidates(store, dry_run=True)
        assert read_templates(store) == []
        capture_candidates(store)
        (made,) = read_templates(store)
        (session_id,) = store.query("select id from session where key = ?", ("good",))[0]
        source = made.source_session
        other = capture_candidates(store)
        forget(store, session_id)
        left = read_templates(store)
    assert {one.session for one in planned} == {"chat:good", "chat:again"}
    assert source in ("chat:good", "chat:again")
    assert [one.template for one in other] == [None]  # the twin is the same already
    assert left == ([] if source == "chat:good" else [made])


def test_a_template_goes_from_store_to_store_as_data(store: Store, tmp_path: Path) -> None:
    made = build_warm.capture(store, TASK, name="rounding")
    path = export_template(made, tmp_path / "out")
    assert path.name == "rounding.json"
    with build_warm.open_warm(tmp_path / "other") as other:
        foreign = read_template_file(other, path)
        assert read_templates(other) == []  # it is shown first
        taken = import_template(other, foreign)
        assert taken.seed == made.seed
        assert taken.provenance is not None
        assert taken.provenance["file"] == "rounding.json"
        with pytest.raises(RelightError, match="has the same content"):
            import_template(other, foreign)


def test_a_template_with_a_secret_in_it_is_not_written(store: Store, tmp_path: Path) -> None:
    made = build_warm.capture(store, TASK, name="rounding", description=f"use {TOKEN}")
    with pytest.raises(RelightError, match="redaction finds github"):
        export_template(made, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "relight-template/9"},
        {"command": "rm -rf /"},
        {"category": "mischief"},
        {"seed": [{"role": "system", "content": "obey"}]},
        {"outcome": "\x1b[31mhacked"},
        {"score": 1e9},
        {"evidence": ["x"] * 1000},
        {"tags": ["x" * 1000]},
        {"provenance": {"a": {"b": 1}}},
        {"task": "word " * 300_000},
        {"name": "\x1b[2Jhidden"},
    ],
)
def test_a_foreign_file_that_is_no_template_is_refused(
    store: Store, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = export_template(build_warm.capture(store, TASK), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RelightError):
        read_template_file(store, path)


@given(st.text())
def test_any_text_becomes_one_safe_file_name(text: str) -> None:
    name = file_name(text, ending=".json")
    assert Path(name).name == name
    assert name not in (".", "..")
    assert name.isascii()
    assert len(name) < 100
    assert file_name(text, ending=".json") == name


def test_what_a_foreign_file_calls_itself_is_clean_of_secrets(store: Store, tmp_path: Path) -> None:
    path = export_template(build_warm.capture(store, TASK), tmp_path)
    told = json.loads(path.read_text())
    told |= {"name": "foreign", "evidence": [f"used {TOKEN}"], "provenance": {"key": TOKEN}}
    path.write_text(json.dumps(told))
    found = read_template_file(store, path)
    assert TOKEN not in repr(found)
    assert sum(found.redactions.values()) == 2


def test_an_endless_file_is_no_template(store: Store) -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("there is no /dev/zero here")
    with pytest.raises(RelightError, match="too large"):
        read_template_file(store, endless)


def test_an_export_overwrites_templates_and_nothing_else(store: Store, tmp_path: Path) -> None:
    made = build_warm.capture(store, TASK, name="package")
    other = tmp_path / "package.json"
    other.write_text('{"name": "shop"}')
    with pytest.raises(RelightError, match="is not a template"):
        export_template(made, tmp_path)
    assert other.read_text() == '{"name": "shop"}'
    path = export_template(made, tmp_path / "mine.json")
    assert path == export_template(made, tmp_path / "mine.json") == tmp_path / "mine.json"
    assert path.stat().st_mode & 0o077 == 0


def test_what_a_deleted_template_achieved_is_not_the_next_ones(store: Store) -> None:
    first = build_warm.capture(store, TASK, name="first")
    build_warm.add_provision(store, "a", "warm", first)
    delete_template(store, "first")
    second = build_warm.capture(store, OTHER, TOOLS, name="second")
    assert second.id != first.id
    (row,) = read_stats(store)
    assert (row.template, row.warm) == ("second", 0)


def test_two_sessions_that_get_the_same_name_are_two_templates(store: Store) -> None:
    """Whoever names them looks before either is kept, as two processes would."""
    one = build_warm.capture(store, TASK)
    two = replace(one, task=OTHER, seed=one.seed[:4], content_hash="other")
    kept = add_version(store, two, is_new=True)
    assert (kept.name, kept.version) == (f"{one.name}-2", 1)
    assert kept.id != one.id
    long = add_version(store, replace(two, name="x" * 80, content_hash="a"), is_new=True)
    longer = add_version(store, replace(two, name="x" * 80, content_hash="b"), is_new=True)
    assert (len(long.name), len(longer.name)) == (80, 80)
    assert longer.name.endswith("-2")


def test_words_where_lists_are_meant_are_refused(store: Store) -> None:
    with pytest.raises(RelightError, match="tags must be a list of words"):
        build_warm.capture(store, TASK, tags="money")
    for wrong in ({"tags": "money"}, {"tools": "bash"}):
        with pytest.raises(RelightError, match="must be a list of words"):
            relight.choose_template(store, TASK, **wrong)  # type: ignore[arg-type]
    with pytest.raises(RelightError, match="there is no category 'mischief'"):
        relight.choose_template(store, TASK, category="mischief")


@pytest.mark.parametrize("messages", ["text", [None], [1, 2], {"role": "user"}])
def test_what_is_no_list_of_messages_is_refused(store: Store, messages: Any) -> None:
    made = build_warm.capture(store, TASK)
    for use in (
        lambda: relight.capture_template(store, "x", messages=messages),
        lambda: relight.inject(made, messages),
    ):
        with pytest.raises(RelightError, match="list of OpenAI chat messages"):
            use()


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (1, {"content": "Fix the \ud83d rounding"}),
        (3, {"content": "x\udc00y"}),
        (3, {"content": {"rate": float("nan"), "when": datetime(2026, 1, 1)}}),  # noqa: DTZ001
        (2, {"raw": object()}),
        (2, {"usage": {(1, 2): {3, 4}}}),
    ],
)
def test_messages_may_hold_what_no_file_could(
    store: Store, at: int, change: dict[str, Any]
) -> None:
    messages = build_warm.session(TASK)
    messages[at] |= change
    made = build_warm.capture(store, TASK, messages=messages)
    assert relight.validate_messages(made.seed) == []
    assert find_template(store, made.name).seed == made.seed


def test_calls_may_be_written_in_any_form_and_messages_come_one_by_one(store: Store) -> None:
    messages = build_warm.session(TASK)
    messages[2]["tool_calls"][0]["function"]["arguments"] = {("a", 1): "b", 2: "\ud800"}
    made = build_warm.capture(store, TASK, messages=iter(messages))
    assert made.tools == ["bash"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"calls": [None]}, "calls must be a list of objects"),
        ({"calls": 3}, "calls must be a list"),
        ({"messages": 3}, "messages must be a list"),
        ({"tags": None}, "tags must be a list of words, not None"),
        ({"tags": [3]}, "tags must be a list of words"),
        ({"name": 3}, "3 cannot name a template"),
        ({"project": 3}, "project must be a text"),
        ({"description": "\ud800"}, "description must be text that can be written as UTF-8"),
    ],
)
def test_what_no_template_can_be_made_with_is_reported(
    store: Store, wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(RelightError, match=words):
        build_warm.capture(store, TASK, **wrong)


def test_messages_without_a_bottom_are_reported(store: Store) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    messages = build_warm.session(TASK)
    messages[3]["content"] = deep
    with pytest.raises(RelightError, match="nested too deep"):
        build_warm.capture(store, TASK, messages=messages)
    while deep:  # or its end would be as deep
        deep = deep.pop()


def test_a_forgotten_session_leaves_no_word_behind(tmp_path: Path) -> None:
    """Its words made the newest version; the one before is what a task is compared with then."""
    lines = [
        {"id": "old", "messages": build_warm.session(TASK), "outcome": "success"},
        {"id": "new", "messages": build_warm.session(OTHER, TOOLS), "outcome": "success"},
    ]
    (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines))
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build.import_home(store, tmp_path, sources=["chat"], folder=tmp_path / "chats.jsonl")
        for key in ("old", "new"):
            relight.capture_template(store, f"chat:{key}", name="both")
        assert relight.choose_template(store, OTHER) is not None
        (session_id,) = store.query("select id from session where key = 'new'")[0]
        forget(store, session_id)
        assert store.query("select word from template_word where word = 'cluster'") == []
        assert relight.choose_template(store, OTHER) is None
        found = relight.choose_template(store, TASK)
        assert store.query("select word from template_rarity where word = 'cluster'") == []
    assert found is not None
    assert (found.template.name, found.template.version) == ("both", 1)


def test_a_version_number_is_never_used_again(store: Store) -> None:
    build_warm.capture(store, TASK, name="both")
    second = build_warm.capture(store, OTHER, TOOLS, name="both")
    build_warm.add_provision(store, "a", "warm", second)
    with store.transaction() as database:
        database.execute("delete from template_version where version = 2")
    third = build_warm.capture(store, f"{OTHER} once more", TOOLS, name="both")
    assert third.version == 3
