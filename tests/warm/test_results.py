"""What templates achieved, and when one of them must go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import build_warm
from relight.store import Store
from relight.warm.library import Template
from relight.warm.results import find_harm


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build_warm.open_warm(tmp_path) as opened:
        yield opened


def deal(store: Store, template: Template, arm: str, outcomes: str) -> None:
    """Sessions that followed, `+` a success and `-` a failure."""
    for number, sign in enumerate(outcomes):
        key = f"{template.name}-{arm}-{number}"
        build_warm.add_session(store, key, "success" if sign == "+" else "failure")
        build_warm.add_provision(store, key, arm, template)


def test_a_run_of_bad_luck_is_no_harm(store: Store) -> None:
    """By then its posterior says 0.98, as it does at some time of every fourth harmless one."""
    made = build_warm.capture(store, "Rotate the signing keys", name="keys")
    deal(store, made, "warm", "---+-")
    deal(store, made, "cold", "+++")
    assert find_harm(store, made) is None


def test_harm_is_reported_with_its_probability(store: Store) -> None:
    made = build_warm.capture(store, "Rotate the signing keys", name="keys")
    deal(store, made, "warm", "-" * 10)
    deal(store, made, "cold", "++++")
    told = find_harm(store, made) or ""
    assert told.startswith("worse than starting cold with a probability of 1.00: 0 of 10")
    assert told.endswith("4 of 4 without")


def test_sessions_held_out_from_others_say_nothing_of_a_template(store: Store) -> None:
    hard = build_warm.capture(store, "Rotate the signing keys", name="keys")
    easy = build_warm.capture(store, "Fix the rounding in invoices", name="fix")
    deal(store, easy, "cold", "+" * 40)
    deal(store, hard, "warm", "-" * 20)
    assert find_harm(store, hard) is None
