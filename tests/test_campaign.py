"""A slice of each part of `./dev bench campaign`, and what the campaign itself must notice."""

import json
import random
from pathlib import Path

import pytest
from bench.__main__ import BENCHES
from bench.campaign import (
    PARTS,
    fuzz,
    growth,
    hostile,
    kills,
    main,
    secrets,
    show,
    speed,
    tools,
    web,
)
from bench.campaign.examples import (
    Example,
    is_aside,
    is_taken,
    list_forms,
    measure,
    read_lookalikes,
    read_secrets,
)
from bench.campaign.score import Clock, Score, format_table
from bench.campaign.stores import compare, make_home

from relight.intake.recorder import record
from relight.reports.sessions import find_session
from relight.store import open_store
from relight.work.jobs.schedules import read_schedule

ONCE = Clock(0)
COLUMNS = ("lost", "twice", "hung", "leaked")


def dice(seed: int = 1) -> random.Random:
    return random.Random(seed)


@pytest.fixture
def score() -> Score:
    return Score("slice", *COLUMNS)


def test_the_table_has_a_dash_where_a_column_has_no_meaning_and_problems_end_in_exit_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good, bad = Score("tools", "hung", "leaked"), Score("kills", "lost", "twice", "hung")
    good.check(True, "leaked", "nothing")
    bad.add("lost", "a turn is not there", 2)
    assert [line.split() for line in format_table([good, bad])] == [
        ["part", "tried", "lost", "twice", "hung", "leaked"],
        ["tools", "1", "-", "-", "0", "0"],
        ["kills", "0", "2", "0", "0", "-"],
    ]
    assert show([good]) == 0
    assert show([good, bad]) == 1
    assert "kills: lost: a turn is not there" in capsys.readouterr().out


def test_an_unknown_part_is_refused_and_the_benchmark_is_listed() -> None:
    assert "campaign" in BENCHES
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    assert set(PARTS) == {"kills", "growth", "fuzz", "secrets", "web", "tools"}


def test_missing_and_repeated_rows_and_records_are_counted(score: Score) -> None:
    whole = {"turn": [(1, "a"), (2, "b")], "tape": [(1, b"x\ny\n")]}
    compare(score, whole, {"turn": [(1, "a"), (1, "a")], "tape": [(1, b"x\n")]}, what="import")
    assert score.counts["lost"] == 2
    assert score.counts["twice"] == 1


def test_killed_migrations_leave_a_store_that_migrates_to_the_same(
    score: Score, tmp_path: Path
) -> None:
    kills.kill_migrations(score, tmp_path, dice(), ONCE)
    assert score.problems == []
    assert not score.notes[0].startswith("0 ")


def test_a_killed_recorder_loses_nothing_acknowledged(score: Score, tmp_path: Path) -> None:
    kills.kill_recorders(score, tmp_path, dice(), ONCE)
    assert score.problems == []
    assert score.counts["tried"] == 2


def test_files_read_in_pieces_give_the_record_of_one_read(score: Score, tmp_path: Path) -> None:
    assert growth.cut_files(score, tmp_path, dice(), most=10) > 5
    assert score.problems == []


def test_pieces_of_a_file_are_its_bytes() -> None:
    files = {Path("a"): b"one\ntwo\n" * 100, Path("b"): b"x" * 3000}
    found = dict.fromkeys(files, b"")
    for path, piece in growth.write_pieces(files, dice(), most=10):
        assert piece
        found[path] += piece
    assert found == files


def test_mutated_input_raises_and_loses_nothing(
    score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "HANG_SECONDS", 0)  # 0 sets no alarm
    some = dice()
    for _ in range(20):
        fuzz.fuzz_texts(score, some, ONCE)
        fuzz.fuzz_schedules(score, some, ONCE)
    fuzz.fuzz_settings(score, tmp_path, some, ONCE)
    fuzz.fuzz_records(score, tmp_path, some, ONCE)
    assert score.problems == []
    assert score.counts["tried"] == 20 + 20 + 1 + fuzz.FILES


def test_an_exception_is_counted_and_an_error_in_words_is_not(
    score: Score, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "HANG_SECONDS", 0)
    with fuzz.guarded(score, "a division"):
        _ = 1 / (score.counts["tried"] - 1)
    with fuzz.guarded(score, "a schedule"):
        read_schedule("every nothing", timezone="UTC", made_at=0)
    assert [problem.split(" at ")[0] for problem in score.problems] == [
        "lost: a division: ZeroDivisionError: division by zero"
    ]


def test_a_mutation_depends_on_the_seed_alone() -> None:
    line = json.dumps({"a": [1, {"b": "c"}]}).encode()
    first, again = ([hostile.mutate(line, some) for _ in range(50)] for some in (dice(), dice()))
    assert first == again
    assert len(set(first)) > 20


def test_the_cost_by_byte_is_shown_for_redaction_and_blocks() -> None:
    lines = speed.measure_growth(ONCE)
    assert [line.split(":")[0] for line in lines] == ["redact", "strip_block"]


def test_the_lists_have_enough_examples_and_a_third_aside() -> None:
    alike = [one.line for one in read_lookalikes(seed=1)]
    known = [one.line for one in read_secrets(seed=1)]
    assert len(set(alike)) == len(alike) >= 200
    assert len(set(known)) == len(known) >= 200
    for lines in (alike, known):
        assert 0.25 < sum(map(is_aside, lines)) / len(lines) < 0.42


def test_redaction_reaches_its_goals_on_the_lists(score: Score) -> None:
    secrets.check_shares(score, dice())
    assert score.problems == []
    assert len(score.notes) == len(secrets.GOALS) + 1


def test_a_secret_that_stays_in_one_form_counts_as_missed() -> None:
    kept = Example("own", "own | x", "no secret at all", ("secret",))
    assert not is_taken(kept)
    assert measure(iter([kept]))["own"].missed == {"own | x": 1}
    assert len(list_forms("x")) == 3


def test_planted_secrets_do_not_reach_the_disk(score: Score, tmp_path: Path) -> None:
    some = dice()
    examples = some.sample([one for one in read_secrets(seed=1) if is_taken(one)], 24)
    secrets.import_planted(score, tmp_path / "import", examples, some)
    secrets.record_planted(score, tmp_path / "record", examples[:8], some)
    assert score.problems == []


def test_a_secret_on_the_disk_is_noticed_in_any_escaping(score: Score, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "notes.txt").write_text(r"it is gh\\u0070_1234")
    secrets.search(score, home, [(Example("own", "x", "ghp_1234", ("ghp_1234",)), "prompt")])
    assert score.problems == ["leaked: 'x' as prompt is in notes.txt"]


def test_a_recorders_id_is_redacted_wherever_it_is_kept(tmp_path: Path) -> None:
    home, token = make_home(tmp_path / "home"), f"ghp_{'a1B2c3' * 6}"
    with open_store(home) as store:
        with record(store, f"run-{token}") as rec:
            rec.child(f"child-{token}").finish("success")
        assert token not in rec.name
        find_session(store, rec.name)
        store.keep_up("shrink")
    found = [name for name, data in secrets.read_home(home) if token.encode() in data]
    assert found == []


def test_strangers_get_nothing_and_hostile_text_does_nothing(score: Score, tmp_path: Path) -> None:
    home = web.make_hostile_home(tmp_path / "home")
    with web.serving(home) as port:
        web.check_strangers(score, port)
        for seed in range(5):
            web.check_pages(score, port, dice(seed), ONCE)
    with web.serving(home, RELIGHT_TOKEN=web.TOKEN) as port:
        web.check_tokens(score, port)
    assert score.problems == []


@pytest.mark.parametrize(
    "markup", [text for text in hostile.MARKUP if "ran=1" in text or "//" in text]
)
def test_markup_that_is_not_escaped_is_noticed(markup: str) -> None:
    assert web.find_active(f"<p title='{markup}'>{markup}</p>")


def test_tools_leave_nothing_running_and_show_no_secret(score: Score, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    context = tools.make_tool_context(tmp_path / "in", allows_private=False)
    tools.check_environment(score, context)
    tools.check_files(score, tmp_path, context)
    tools.check_addresses(score, context)
    tools.leave_children(score, context, dice())
    assert [problem for problem in score.problems if " took " not in problem] == []
