"""All names of one model have one name in reports; a date that is another model stays."""

import pytest

from relight.config import Amount, PriceKey, Settings
from relight.names import find_model_name, read_model_rules
from relight.prices import find_own_price, find_price


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("gpt-5.1-2025-11-13", "gpt-5.1"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("amazon.nova-pro-v1:0", "nova-pro"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        # another model, price or maker
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("claude-3-5-sonnet-20240620", "claude-3-5-sonnet-20240620"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("my-org/llama-3", "my-org/llama-3"),
        ("deepseek-r1:8b", "deepseek-r1:8b"),
        ("qwen2.5-coder", "qwen2.5-coder"),
        ("ft:gpt-4o-2024-08-06:acme::x", "ft:gpt-4o-2024-08-06:acme::x"),
        ("moa:review", "moa:review"),
        ("<synthetic>", "<synthetic>"),
        ("-latest", "-latest"),
        ("", ""),
    ],
)
def test_a_model_is_known_by(model: str, name: str) -> None:
    assert find_model_name(model) == name
    assert find_model_name(name) == name


def test_the_users_aliases_come_first_and_apply_to_every_name() -> None:
    own = {"gpt-4o-2024-05-13": "gpt-4o", "claude-sonnet-4-5": "sonnet"}
    names = ("gpt-4o-2024-05-13", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5")
    assert [find_model_name(one, own) for one in names] == ["gpt-4o", "sonnet", "sonnet"]


def test_an_alias_leads_to_a_name_that_stays() -> None:
    rules = read_model_rules()
    assert [name for name in rules.aliases.values() if find_model_name(name) != name] == []
    assert [name for name in rules.keep if find_model_name(name) != name] == []


def test_prices_go_by_the_full_name() -> None:
    old, new = find_price("gpt-4o-2024-05-13", "openai"), find_price("gpt-4o", "openai")
    assert old
    assert new
    assert old[0].tiers[0].input == 2 * (new[0].tiers[0].input or 0)


def test_the_users_price_of_a_model_holds_for_its_dated_names() -> None:
    one: dict[PriceKey, Amount] = {"input_usd_per_mtok": 1}
    two: dict[PriceKey, Amount] = {"input_usd_per_mtok": 2}
    config = Settings(prices={"my-model": one, "my-model-20260101": two})
    found = [
        find_own_price(name, None, config)
        for name in ("my-model", "my-model-20260101", "my-model-20260202", "other")
    ]
    rates = [prices and prices[0].tiers[0].input for prices in found]
    assert rates == [10**9, 2 * 10**9, 10**9, None]
