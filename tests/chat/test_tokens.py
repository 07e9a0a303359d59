"""The token estimate: near enough to a real tokenizer, and additive enough for budgets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.chat.tokens import estimate_messages, estimate_tokens

# Counted with o200k_base.
COUNTED = {
    "prose": ("The estimate is for budgets only; what a provider reports is the truth.", 15),
    "json": ('{"order_id": "#W2378156", "items": [{"price": 12.5, "name": "Desk Lamp"}]}', 29),
    "python": ("def read_text(content: object) -> str:\n    return content.strip()\n", 15),
    "shell": ("cd /testbed && grep -rn 'def total' src | head -20", 17),
    "german": ("Die Rechnung wurde gestern an den Kunden verschickt.", 10),
    "chinese": ("请把昨天的报告发给我，然后检查数据库的连接。", 14),
    "russian": ("Пожалуйста, проверьте подключение к базе данных.", 13),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_estimates_are_within_a_quarter_of_the_count(kind: str) -> None:
    text, count = COUNTED[kind]
    assert estimate_tokens(text) == pytest.approx(count, rel=0.25)


@given(st.text(), st.text())
def test_parts_are_never_fewer_tokens_than_the_whole_by_more_than_two(one: str, two: str) -> None:
    assert estimate_tokens(one + two) <= estimate_tokens(one) + estimate_tokens(two) + 2


@given(st.text())
def test_an_estimate_is_never_negative(text: str) -> None:
    assert estimate_tokens(text) >= 0


def test_messages_are_counted_as_the_json_that_is_sent() -> None:
    messages = [{"role": "user", "content": 'Say "hello"'}]
    assert estimate_messages(messages) == estimate_tokens(json.dumps(messages))
    assert estimate_messages([]) == 0
