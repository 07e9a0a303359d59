"""Text from sessions is harmless in a terminal, on a page and in a template."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.text import (
    HIDDEN,
    clean,
    clean_lines,
    cut_visible,
    make_line,
    make_visible,
    strip_hidden,
)

texts = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    "hidden",
    [
        *["\x00", "\x1b", "\x7f", "\x9b", "\u00ad", "\u061c", "\u200b", "\u200f", "\u202e"],
        *["\u2028", "\u2060", "\u2065", "\u2066", "\ufe00", "\ufeff", "\U000e0041", "\ud800"],
    ],
    ids=lambda hidden: f"{ord(hidden):04X}",
)
def test_no_face_lets_a_hidden_character_through(hidden: str) -> None:
    text = f"a{hidden}b"
    assert clean(text) == clean_lines(text) == "a\N{REPLACEMENT CHARACTER}b"
    assert hidden not in make_visible(text)
    assert strip_hidden(text) == "ab"


@given(texts)
def test_nothing_hidden_is_left_in_what_is_shown(text: str) -> None:
    shown = make_visible(text)
    assert not HIDDEN.search(shown)
    assert make_visible(shown) == shown
    shown.encode()
    assert not HIDDEN.search(clean_lines(text))


def test_text_in_another_script_is_left_as_it_is() -> None:
    for text in ("naïve “quotes” – 日本語", "שלום עולם", "👩\u200d💻", "می\u200cخواهم", "a\tb\nc"):
        assert make_visible(text) == strip_hidden(text) == text


def test_a_line_of_megabytes_is_cut_before_it_is_searched() -> None:
    huge = "x" * 5_000_000
    assert make_line(huge, 20) == "x" * 19 + "…"
    assert cut_visible(huge, 100) == ("x" * 100, 4_999_900)
