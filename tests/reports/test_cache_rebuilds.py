"""Rebuilds of the prompt cache, against sessions whose rebuilds a simulated cache knows."""

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from bench.cache_tree import write_cache_tree
from click.testing import CliRunner

import build
from relight import record
from relight.cli import relight
from relight.intake.rebuild import rebuild
from relight.reports.cache_rebuilds import describe_rebuilds, read_cache_report
from relight.reports.trace import read_trace
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.times import write_time

ALL = Filter()
# the rules were written with the first seeds; the others were kept aside
SEEDS = (1, 2, 3, 4, 5, 6)
KEPT_ASIDE = (301, 302, 303, 304)


def use(read: int, written: int, *, hour: int = 0) -> dict[str, Any]:
    creation = {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour}
    return build.claude_usage(
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
        cache_creation=creation,
    )


def answer(number: int, at: float, usage: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return build.claude_answer(f"msg_{number}", at=at, usage=usage, **fields)


def write_turns(home: Path, *turns: tuple[float, int, int], **fields: Any) -> None:
    lines = [build.claude_prompt("Fix it")]
    lines += [answer(n, at, use(read, new), **fields) for n, (at, read, new) in enumerate(turns)]
    build.write_claude(home, lines)


def list_causes(store: Store) -> list[tuple[str, int]]:
    found = read_cache_report(store, ALL).rebuilds
    return sorted((one.cause, one.tokens) for one in found)


@pytest.mark.parametrize("seed", [*SEEDS, *KEPT_ASIDE])
def test_every_planted_rebuild_is_found_with_its_cause_and_its_cost(
    seed: int, store: Store, tmp_path: Path
) -> None:
    planted = write_cache_tree(tmp_path, seed=seed)
    assert {one.cause for one in planted} == {
        "pause",
        "model_switch",
        "compaction",
        "prefix_changed",
    }
    build.import_home(store, tmp_path)
    found = read_cache_report(store, ALL)
    wanted: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for one in planted:
        for place, value in enumerate((1, one.usd, one.avoidable_usd)):
            wanted[one.cause][place] += value
    for cause in found.causes:
        turns, usd, avoidable = wanted[cause.cause]
        assert cause.turns == turns, cause.cause
        assert cause.usd == pytest.approx(usd, rel=0.01), cause.cause
        if cause.cause == "pause":
            assert cause.avoidable_usd == pytest.approx(avoidable, rel=0.01)
    assert found.rebuilt_usd == pytest.approx(sum(one.usd for one in planted), rel=0.01)
    assert found.avoidable_usd == pytest.approx(sum(one.avoidable_usd for one in planted), rel=0.01)
    assert {one.at for one in found.rebuilds} == {write_time(one.at_ms) for one in planted}
    assert all(one.step for one in found.rebuilds)


def test_a_pause_longer_than_the_cache_lives_is_the_cause(store: Store, tmp_path: Path) -> None:
    write_turns(tmp_path, (0, 0, 9000), (299, 9000, 500), (600, 0, 9900))
    build.import_home(store, tmp_path)
    (one,) = read_cache_report(store, ALL).rebuilds
    assert (one.cause, one.tokens, one.pause_seconds, one.step) == ("pause", 9500, 301.0, 4)
    assert one.usd == pytest.approx(9500 * 6.25e-6)
    assert one.avoidable_usd == pytest.approx(9500 * (6.25e-6 - 0.5e-6))


def test_what_was_written_for_an_hour_outlives_a_pause_of_half_an_hour(
    store: Store, tmp_path: Path
) -> None:
    lines = [build.claude_prompt("Fix it"), answer(1, 0, use(0, 9000, hour=9000))]
    lines += [answer(2, 10, use(9000, 0)), answer(3, 1800, use(2000, 7500, hour=7500))]
    lines += [answer(4, 6000, use(0, 9600, hour=9600))]
    build.write_claude(tmp_path, lines)
    build.import_home(store, tmp_path)
    found = read_cache_report(store, ALL)
    assert sorted((one.cause, one.tokens) for one in found.rebuilds) == [
        ("pause", 9500),
        ("prefix_changed", 7000),
    ]
    # no pause under an hour lost anything, so there is nothing that a 1-hour cache could save
    assert found.avoidable_usd == 0.0
    assert {one.avoidable_usd for one in found.causes} == {0.0}
    assert {one.avoidable_usd for one in found.rebuilds} == {0.0}
    assert found.one_hour.turns == 0
    assert found.rebuilds[0].usd == pytest.approx(9500 * 10e-6)


def test_without_rebuilds_their_cost_is_zero_and_without_prices_unknown(
    store: Store, tmp_path: Path
) -> None:
    empty = read_cache_report(store, ALL)
    assert (empty.turns, empty.rebuilt_usd, empty.avoidable_usd) == (0, 0.0, 0.0)
    priced = [
        answer(1, 0, use(0, 9000)),
        answer(2, 10, use(9000, 500)),
        answer(3, 720, use(0, 9600)),
    ]
    build.write_claude(tmp_path, [build.claude_prompt("Fix it"), *priced])
    build.import_home(store, tmp_path)
    with store.transaction() as database:
        database.execute("update cache_rebuild set write_nanos = null, read_nanos = null")
    found = read_cache_report(store, ALL)
    assert (found.turns, found.rebuilt_usd, found.avoidable_usd) == (1, None, None)
    assert describe_rebuilds(found) == ["1 turn rebuilt the cache; no price of a model is known"]


def test_a_sum_with_rebuilds_without_a_price_is_a_lower_bound(store: Store, tmp_path: Path) -> None:
    write_turns(tmp_path, (0, 0, 9000), (720, 0, 9600), (1500, 0, 9700))
    build.import_home(store, tmp_path)
    with store.transaction() as database:
        database.execute(
            "update cache_rebuild set write_nanos = null, read_nanos = null"
            " where at = (select max(at) from cache_rebuild)"
        )
    lines = describe_rebuilds(read_cache_report(store, ALL))
    assert lines[0].startswith("2 turns rebuilt the cache for ≥$0.06")
    assert lines[1].startswith("pauses cost ≥$0.06")


def test_only_what_is_written_again_counts(store: Store, tmp_path: Path) -> None:
    # a person went back in the conversation: most of what was cached is not needed any more
    write_turns(tmp_path, (0, 0, 50_000), (10, 20_000, 700))
    build.import_home(store, tmp_path)
    assert list_causes(store) == [("prefix_changed", 700)]


def test_sub_agents_and_advisers_have_their_own_prefix(store: Store, tmp_path: Path) -> None:
    path = build.write_claude(
        tmp_path,
        [
            build.claude_prompt("Fix it"),
            answer(1, 1, use(0, 9000)),
            answer(2, 30, use(9000, 100)),
        ],
    )
    build.write_agent(path, [answer(3, 10, use(0, 400)), answer(4, 12, use(400, 50))])
    with record(store, session_id="mixed", provider="anthropic") as own:
        for role, model in (("reference", "a"), ("reference", "b"), (None, "c")) * 2:
            own.turn(role=role, model=model, usage={"input_tokens": 1, **use(0, 300)})
    build.import_home(store, tmp_path)
    # each adviser reads nothing the second time; none is a switch of the model
    causes = {cause for cause, _ in list_causes(store)}
    assert causes == {"prefix_changed"}
    assert len(list_causes(store)) == 3


def test_a_cache_that_the_provider_keeps_by_itself_rebuilds_nothing(
    store: Store, tmp_path: Path
) -> None:
    first, second = build.codex_usage(5000, cached=4000), build.codex_usage(6000, cached=0)
    total = {name: first[name] + second[name] for name in first}
    lines = [
        build.codex_meta(),
        build.codex_line("turn_context", 1, model="gpt-5.1", cwd="/home/dev/shop"),
        build.codex_count(2, first, first),
        build.codex_count(4000, total, second),
    ]
    build.write_codex(tmp_path, lines)
    build.import_home(store, tmp_path)
    assert store.query("select count(*) from turn where cache_read_tokens is not null") == [(2,)]
    assert read_cache_report(store, ALL).turns == 0


def test_a_model_without_a_price_counts_turns_and_no_dollars(store: Store, tmp_path: Path) -> None:
    write_turns(tmp_path, (0, 0, 9000), (1000, 0, 9000), model="own-model")
    build.import_home(store, tmp_path)
    found = read_cache_report(store, ALL)
    assert (found.turns, found.rebuilt_usd, found.one_hour.saved_usd) == (1, None, None)
    assert [one.unpriced_turns for one in found.causes if one.turns] == [1]


def test_a_one_hour_cache_saves_the_pauses_less_its_dearer_writes(
    store: Store, tmp_path: Path
) -> None:
    write_turns(tmp_path, (0, 0, 90_000), (10, 90_000, 1000), (730, 0, 92_000))
    build.import_home(store, tmp_path)
    found = read_cache_report(store, ALL)
    # 91,000 tokens would have been read; the other 92,000 would have been written for an hour
    saved = 91_000 * (6.25e-6 - 0.5e-6) - 92_000 * (10e-6 - 6.25e-6)
    assert found.one_hour.saved_usd == pytest.approx(saved)
    assert describe_rebuilds(found) == [
        f"1 turn rebuilt the cache for $0.57 of ${found.spent_usd:.2f}",
        f"pauses cost $0.57 of ${found.spent_usd:.2f}",
        f"1 of 1 were pauses of 12 to 13 minutes: a 1-hour cache would have saved ${saved:.2f}",
    ]


def test_a_one_hour_cache_may_be_dearer(store: Store, tmp_path: Path) -> None:
    write_turns(tmp_path, (0, 0, 9000), (10, 9000, 300_000), (400, 308_900, 200))
    build.import_home(store, tmp_path)
    assert describe_rebuilds(read_cache_report(store, ALL))[-1].endswith("cost $1.16 more")


def test_days_and_lengths_of_pauses_add_up(store: Store, tmp_path: Path) -> None:
    day = 86_400
    turns = [(0, 0, 9000), (720, 0, 9000), (day, 0, 9000), (day + 360, 0, 9000)]
    write_turns(tmp_path, *turns)
    build.import_home(store, tmp_path)
    found = read_cache_report(store, ALL)
    assert [(one.day, one.turns) for one in found.days] == [("2026-11-15", 1), ("2026-11-16", 2)]
    lengths = [(one.from_seconds, one.to_seconds, one.turns) for one in found.pauses]
    assert lengths == [(300, 900, 2), (14_400, None, 1)]
    assert sum(one.usd or 0 for one in found.pauses) == pytest.approx(found.rebuilt_usd)
    assert sum(one.pauses_usd for one in found.days) == pytest.approx(found.rebuilt_usd)
    only = read_cache_report(store, Filter(since="2026-11-16"))
    assert only.turns == 2
    assert read_cache_report(store, Filter(project="nowhere")).turns == 0
    assert read_cache_report(store, Filter(model="opus")).turns == 3


def test_a_session_read_piece_by_piece_and_a_rebuild_give_the_same_rebuilds(
    store: Store, tmp_path: Path
) -> None:
    turns = [(0, 0, 9000), (720, 0, 9000), (730, 8000, 1200), (2000, 100, 10_000)]
    for end in range(1, len(turns) + 1):
        write_turns(tmp_path, *turns[:end])
        build.import_home(store, tmp_path)
    rows = store.query("select * from cache_rebuild order by at")
    assert len(rows) == 3
    rebuild(store)
    assert store.query("select * from cache_rebuild order by at") == rows


def test_a_live_session_notes_a_rebuild_with_the_turn_that_made_it(store: Store) -> None:
    with record(store, session_id="own", model="claude-opus-4-6", provider="anthropic") as own:
        began = time.time()  # nothing in a live session is older than its beginning
        own.turn(usage=use(0, 9000), at=began + 1)
        own.turn(usage=use(9000, 100), at=began + 11)
        own.turn(usage=use(0, 9200), at=began + 720)
    assert list_causes(store) == [("pause", 9100)]


def test_steps_and_show_name_the_rebuild(store: Store, tmp_path: Path) -> None:
    write_turns(tmp_path, (0, 0, 9000), (10, 9000, 500), (720, 0, 9900))
    build.import_home(store, tmp_path)
    ((session_id,),) = store.query("select id from session")
    marked = [one for one in read_trace(store, session_id).steps if one.cache_rebuild]
    assert [one.cache_rebuild.cause for one in marked if one.cache_rebuild] == ["pause"]
    words = "cache rebuilt after a pause of 11m 50s: 9,500 tokens, $0.06"
    run = CliRunner()
    home = ["--home", str(tmp_path / "relight"), "--no-import"]
    shown = run.invoke(relight, [*home, "show", "last"]).output
    assert words in shown
    assert "cache rebuilt 1 time, $0.06" in shown
    text = run.invoke(relight, [*home, "cache", "--since", "all"]).output
    assert "pauses cost $0.06 of" in text
    assert "5 to 15 min" in text
    shown = json.loads(run.invoke(relight, [*home, "cache", "--since", "all", "--json"]).output)
    assert shown["rebuilds"][0]["session_id"] == f"claude-code:{build.CLAUDE_SESSION}"
    assert shown["causes"][0]["cause"] == "pause"
    assert shown["spent_usd"] > shown["rebuilt_usd"] > shown["avoidable_usd"] > 0


def test_what_rebuilds_cost_on_a_day_without_one_is_zero_dollars(
    store: Store, tmp_path: Path
) -> None:
    write_turns(tmp_path, (0, 0, 9000))
    build.import_home(store, tmp_path)
    (day,) = read_cache_report(store, ALL).days
    assert (day.turns, repr(day.usd), repr(day.pauses_usd)) == (0, "0.0", "0.0")
