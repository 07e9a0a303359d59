"""Advisers across sessions: cost, time, differences, and their worth by muted sessions alone."""

import time
from pathlib import Path

import pytest

import build_moa as moa
from relight.errors import RelightError
from relight.intake.recorder import record
from relight.store import Store, open_store
from relight.store.advisers import AdviserDealRow, add_adviser_deals, find_deals
from relight.work.moa.advisers import AdviserReport, report_advisers
from relight.work.moa.openai_client import MoA
from scripted import Reply, Server

HOME = 'timezone = "UTC"\n[moa]\nsave_traces = true\n'
PRICES = """
[prices."adviser-0"]
input_usd_per_mtok = 10.0
output_usd_per_mtok = 10.0
[prices."actor"]
input_usd_per_mtok = 1.0
output_usd_per_mtok = 1.0
"""


def open_home(folder: Path, more: str = "") -> Store:
    (folder / "config.toml").write_text(HOME + more)
    return open_store(folder)


def ask(store: Store, server: Server, session: str, *, turns: int = 1) -> None:
    with MoA(moa.preset(server.base_url), store=store, session_id=session) as client:
        for number in range(turns):
            messages = [{"role": "user", "content": f"Question {number}"}]
            client.chat.completions.create(messages=messages)


def find(store: Store, name: str) -> AdviserReport:
    return next(one for one in report_advisers(store).advisers if one.adviser == name)


def test_an_adviser_is_muted_for_whole_sessions_and_its_deal_is_stored_first(
    tmp_path: Path,
) -> None:
    with Server(moa.script) as server, open_home(tmp_path, "mute_share = 0.5\n") as store:
        for number in range(14):
            before = len(server.requests)
            ask(store, server, f"s{number}", turns=2)
            asked = [one.body["model"] for one in server.requests[before:] if one.raw]
            deals = {row.adviser: row.is_muted for row in find_deals(store, f"s{number}")}
            assert set(deals) == {"adviser-0", "adviser-1"}
            for adviser, is_muted in deals.items():
                assert asked.count(adviser) == (0 if is_muted else 2)
            assert asked.count("actor") == 2
        muted = [row.is_muted for n in range(14) for row in find_deals(store, f"s{n}")]
        assert 4 <= sum(muted) <= 24
        # a session that goes on keeps what it was dealt
        kept = find_deals(store, "s0")
        ask(store, server, "s0")
        assert find_deals(store, "s0") == kept


def test_without_any_adviser_the_acting_model_gets_the_conversation_as_it_is(
    tmp_path: Path,
) -> None:
    with Server(moa.script) as server, open_home(tmp_path, "mute_share = 0.5\n") as store:
        rows = [AdviserDealRow("alone", f"adviser-{n}", "review", 1, 0.5, 1) for n in range(2)]
        add_adviser_deals(store, rows)
        ask(store, server, "alone")
        (asked,) = [one.body for one in server.requests if one.raw]
        assert asked["messages"] == [{"role": "user", "content": "Question 0"}]


def test_nothing_is_muted_unless_it_is_set(tmp_path: Path) -> None:
    with Server(moa.script) as server, open_home(tmp_path) as store:
        ask(store, server, "s")
        assert find_deals(store, "s") == []
    with pytest.raises(RelightError, match="mute_share"):
        open_home(tmp_path, "mute_share = 1.5\n")


def test_cost_time_and_differences_are_summed_over_sessions(tmp_path: Path) -> None:
    def reply(body: dict[str, object]) -> Reply:
        said = {"adviser-0": "Look at the log first", "adviser-1": "Restart everything tonight"}
        return Reply(said.get(str(body["model"]), "Done."))

    with Server(reply) as server, open_home(tmp_path, PRICES) as store:
        for number in range(3):
            ask(store, server, f"s{number}")
        one, other = find(store, "adviser-0"), find(store, "adviser-1")
        assert (one.sessions, one.calls, one.failures) == (3, 3, 0)
        assert one.cost_usd == pytest.approx(3 * 120 * 10e-6)
        assert one.month_usd == one.cost_usd
        assert (one.compared, one.differed) == (3, 3)
        assert one.mean_ms is not None
        assert (one.verdict, one.low, one.muted_sessions) == ("not known yet", None, 0)
        # no price is no cost of zero
        assert (other.cost_usd, other.unpriced_turns) == (None, 3)
        assert "has no price." in other.sentence
        # what it takes is said before anything is muted
        assert (
            "with [moa] mute_share = 0.2 show that it is worth less than 5 points" in one.sentence
        )
        assert one.more_sessions is not None
        assert 2500 < one.more_sessions < 3000


def test_the_break_even_is_its_cost_in_failed_sessions_and_unknown_without_a_price(
    tmp_path: Path,
) -> None:
    prices = PRICES + PRICES.split('[prices."actor"]')[0].replace("adviser-0", "adviser-1")
    for place, more in enumerate((PRICES, prices)):
        folder = tmp_path / str(place)
        folder.mkdir()
        with Server(lambda body: Reply("Done.")) as server, open_home(folder, more) as store:
            for number in range(3):
                ask(store, server, f"s{number}")
            one = find(store, "adviser-0")
        if more is PRICES:  # nobody knows what a session costs
            assert one.break_even_sessions is None
            assert "It pays" not in one.sentence
        else:
            # 120 tokens a call: three of its calls against a session of two advisers and the actor
            assert one.break_even_sessions == pytest.approx(3 * 10 / (10 + 10 + 1))
            assert "It pays if it saves 1.4 failed sessions a month." in one.sentence


def deal_sessions(store: Store, *, is_muted: int, number: int, successes: int) -> None:
    """Sessions that were dealt with or without an adviser, of which some succeed."""
    now = round(time.time() * 1000)
    for place in range(number):
        name = f"{is_muted}-{number}-{place}"
        add_adviser_deals(store, [AdviserDealRow(name, "wise", "review", now, 0.2, is_muted)])
        with record(store, name, model="moa:review") as rec:
            rec.finish(outcome="success" if place < successes else "failure")


def test_worth_is_claimed_only_after_a_verdict_from_muted_sessions(tmp_path: Path) -> None:
    with open_home(tmp_path, "mute_share = 0.2\n") as store:
        deal_sessions(store, is_muted=0, number=30, successes=30)
        deal_sessions(store, is_muted=1, number=5, successes=4)
        one = find(store, "wise")
        assert one.verdict == "not known yet"
        assert (one.muted_sessions, one.muted_successes, one.with_successes) == (5, 4, 30)
        assert one.high is not None
        assert 0 < one.high <= 0.6
        assert "worth at most" in one.sentence
        assert "more sessions show that it is worth less than 5 points" in one.sentence
        assert "It is worth" not in one.sentence
        deal_sessions(store, is_muted=1, number=8, successes=0)
        assert find(store, "wise").verdict == "worth something"
        assert "It is worth something" in find(store, "wise").sentence


def test_sessions_of_unknown_outcome_count_among_those_that_were_dealt(tmp_path: Path) -> None:
    now = round(time.time() * 1000)
    with open_home(tmp_path, "mute_share = 0.2\n") as store:
        for place in range(4):
            row = AdviserDealRow(f"s{place}", "wise", "review", now, 0.2, int(place == 0))
            add_adviser_deals(store, [row])
            with record(store, f"s{place}", model="moa:review") as rec:
                rec.finish(outcome="unknown")
        sentence = find(store, "wise").sentence
        assert "Muted in 1 of 4 sessions: 0 of 0 succeeded, 0 of 0 with it." in sentence


def test_an_adviser_that_changes_no_outcome_is_worth_less_than_5_points(tmp_path: Path) -> None:
    with open_home(tmp_path, "mute_share = 0.2\n") as store:
        deal_sessions(store, is_muted=0, number=100, successes=100)
        deal_sessions(store, is_muted=1, number=70, successes=70)
        one = find(store, "wise")
        assert one.verdict == "worth less than 5 points"
        assert one.sentence.endswith("It is worth less than 5 points.")
        assert one.more_sessions == 0
