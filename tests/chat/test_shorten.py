"""Tool results are shortened in a copy, to the limit that the user has set."""

from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import RelightError

LONG = "0123456789" * 2000


def shorten(content: Any, **options: Any) -> Any:
    messages = [{"role": "user", "content": LONG}, {"role": "tool", "content": content}]
    short = relight.shorten_tool_results(messages, **options)
    assert messages[1]["content"] is content
    assert short[0] == messages[0]
    return short[1]["content"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELIGHT_HOME", str(tmp_path))
    monkeypatch.delenv("RELIGHT_MAX_TOOL_CHARS", raising=False)
    return tmp_path


def test_a_long_result_keeps_head_and_tail_and_says_its_length() -> None:
    short = shorten(LONG)
    assert short.startswith("0123")
    assert short.endswith("6789")
    assert "[truncated, 20000 chars total]" in short
    assert 8000 <= len(short) < 8100
    assert shorten("short") == "short"


def test_parts_of_text_are_shortened_and_pictures_stay() -> None:
    picture = {"type": "image_url", "image_url": {"url": LONG}}
    short = shorten([{"type": "text", "text": LONG}, picture, None], max_chars=200)
    assert len(short[0]["text"]) < 300
    assert short[1:] == [picture, None]


def test_the_limit_is_the_given_one_else_the_variables_else_the_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.toml").write_text("max_tool_chars = 500\n")
    assert len(shorten(LONG)) < 600
    monkeypatch.setenv("RELIGHT_MAX_TOOL_CHARS", "1000")
    assert 1000 <= len(shorten(LONG)) < 1100
    assert len(shorten(LONG, max_chars=300)) < 400


@pytest.mark.parametrize("value", ["-5", "many", "10"])
def test_a_variable_that_is_no_limit_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_MAX_TOOL_CHARS", value)
    with pytest.raises(RelightError, match="must be a whole number from 200 up"):
        shorten(LONG)
