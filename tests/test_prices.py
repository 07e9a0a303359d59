"""Prices: who is asked, in what order, and to the last nano-dollar."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec
import pytest
from genai_prices import Usage as ListedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from relight.config import Amount, PriceKey, Settings
from relight.model import Cost, Turn, Usage
from relight.prices import (
    UNKNOWN,
    Price,
    PriceList,
    Rates,
    _read_sheet,
    context_window,
    find_price,
    price_usage,
    read_lists,
    reported_cost,
)
from relight.store import open_store
from relight.store.derive.pricing import Pricing


def moment(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOVEMBER = moment("2026-11-15T12:00:00+00:00")


def cost_usd(usage: Usage, model: str, provider: str | None = None, at: int = NOVEMBER) -> str:
    nanos = price_usage(usage, find_price(model, provider), at=at).nanos
    return "unknown" if nanos is None else str((Decimal(nanos) / 10**9).normalize())


@cache
def listed_models() -> list[tuple[str, str]]:
    return [(p.id, model.id) for p in get_snapshot().providers for model in p.models]


tokens = st.integers(0, 400_000)
usages = st.builds(Usage, tokens, tokens, tokens, tokens)
times = st.integers(moment("2024-01-01T00:00:00+00:00"), moment("2027-12-31T00:00:00+00:00"))


# Who is asked


def test_an_unknown_model_has_no_price_rather_than_zero() -> None:
    for model in (
        "qwen3.6-27b",
        "hermes-4-405b",
        "claude-nonesuch-9",
        "gpt-99",
        "ref-one",
        "",
        None,
    ):
        for provider in (None, "", "anthropic", "openai", "custom", "https://api.openai.com/v1"):
            assert find_price(model, provider) is None
    assert price_usage(Usage(10, 0, 0, 5), None, at=NOVEMBER) == UNKNOWN


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-6", "anthropic"),
        ("claude-opus-4-6", "firstParty"),
        ("claude-opus-4-6", "custom"),
        ("claude-opus-4-6", "openrouter"),
        ("claude-opus-4-6", "https://api.anthropic.com/v1"),
        ("claude-opus-4-6", "http://localhost:4000"),
        ("claude-opus-4-6[1m]", ""),
        ("Claude-Opus-4-6", None),
        ("claude-opus-4-6-latest", None),
        ("claude-opus-4.6", None),
        ("anthropic/claude-opus-4-6", "openrouter"),
        ("anthropic/claude-opus-4-6", None),
    ],
)
def test_a_model_has_one_price_however_agents_write_it(model: str, provider: str | None) -> None:
    assert find_price(model, provider) == find_price("claude-opus-4-6")


@pytest.mark.parametrize(
    ("model", "provider", "usd_per_mtok"),
    [
        ("claude-sonnet-4-5-20250929", None, "3"),
        ("claude-haiku-4-5-20251001", "anthropic", "1"),
        ("gpt-5.2-codex", "openai-codex", "1.75"),
        ("openai/gpt-5.2-codex", "openrouter", "1.75"),
        ("gpt-5-latest", None, "1.25"),
        ("models/gemini-2.5-pro", "google", "1.25"),
        ("nousresearch/hermes-4-405b", "openrouter", "1"),
        ("us.anthropic.claude-opus-4-6-v1:0", None, "5.5"),
        ("us.anthropic.claude-opus-4-6-v1:0", "bedrock", "5.5"),
        (
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1:0",
            "",
            "5.5",
        ),
        ("claude-opus-4-6@20260205", "vertex", "5"),
    ],
)
def test_names_of_every_shape_find_their_list(model: str, provider: str, usd_per_mtok: str) -> None:
    assert cost_usd(Usage(100_000, 0, 0, 0), model, provider) == str(
        (Decimal(usd_per_mtok) / 10).normalize()
    )


def test_an_open_model_on_ones_own_machine_is_not_billed_by_its_maker() -> None:
    assert find_price("deepseek-r1:8b", "ollama") is None
    assert find_price("deepseek-r1:8b") is None
    assert find_price("deepseek-r1-distill-qwen-7b", "http://localhost:8080/v1") is None
    assert find_price("kimi-k2", "custom") is None
    assert find_price("kimi-k2", "moonshot") is not None


def test_the_users_config_comes_before_every_list() -> None:
    rates: dict[PriceKey, Amount] = {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.7}
    config = Settings(prices={"Claude-Opus-4-6": rates})
    for model in ("claude-opus-4-6", "anthropic/claude-opus-4-6[1m]"):
        prices = find_price(model, "openrouter", config=config)
        cost = price_usage(Usage(1, 1, 1, 1), prices, at=NOVEMBER)
        assert cost == Cost(1_000, "estimated", "config")
    assert find_price("other-model", config=config) is None


def test_a_price_of_the_users_own_holds_as_it_is_now_however_it_is_spelled(tmp_path: Path) -> None:
    usage = Usage(1_000_000, 0, 0, 0)
    turn = Turn(key="t", session="s", at=NOVEMBER, model="acme/My-Model", usage=usage)
    costs = []
    for text in ("", "input = 2.0\noutput = 1", "input = 3.0\noutput = 1"):
        lines = text.replace(" =", "_usd_per_mtok =")
        (tmp_path / "config.toml").write_text(f"[prices.my-model]\n{lines}\n" if text else "")
        with open_store(tmp_path) as store:
            pricing = Pricing(store)
            costs.append(pricing.price(1, turn).nanos)
            with store.transaction() as database:
                pricing.write_found(database)
    assert costs == [None, 2 * 10**9, 3 * 10**9]


def test_a_model_that_the_user_calls_free_costs_nothing() -> None:
    config = Settings(prices={"my-model": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}})
    prices = find_price("my-model", "custom", config=config)
    assert price_usage(Usage(9, 9, 9, 9), prices, at=NOVEMBER) == Cost(0, "estimated", "config")


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("qwen3:8b", "ollama"),
        ("qwen3:8b", "LMStudio"),
        ("gpt-4o", "local"),
        ("my-model", "http://127.0.0.1:8080/v1"),
        ("my-model", "http://10.0.0.7/v1"),
        ("my-model", "http://[::1]:8080/v1"),
        ("my-model", "http://workstation.local:1234/v1"),
        ("my-model", "http://host.docker.internal:11434"),
    ],
)
def test_one_setting_makes_local_models_free(model: str, provider: str) -> None:
    free = find_price(model, provider, config=Settings(local_models_are_free=True))
    assert price_usage(Usage(9, 9, 9, 9), free, at=NOVEMBER) == Cost(0, "estimated", "config")
    assert price_usage(Usage(), free, at=NOVEMBER) == Cost(0, "estimated", "config")
    assert find_price(model, provider, config=Settings()) != free


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("my-model", None),
        ("my-model", "custom"),
        ("my-model", "http://8.8.8.8/v1"),
        ("my-model", "https://llm.example.org/v1"),
        ("my-model", "http://127.0.0.1@example.org/v1"),
        ("qwen3-coder:480b-cloud", "ollama"),
        ("my-model", "ollama-cloud"),
    ],
)
def test_a_model_that_is_not_known_to_be_local_is_not_free(
    model: str, provider: str | None
) -> None:
    assert find_price(model, provider, config=Settings(local_models_are_free=True)) is None


def test_a_price_of_the_users_own_comes_before_the_local_one() -> None:
    rates: dict[PriceKey, Amount] = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
    config = Settings(prices={"my-model": rates}, local_models_are_free=True)
    prices = find_price("my-model", "ollama", config=config)
    assert price_usage(Usage(1_000_000, 0, 0, 0), prices, at=NOVEMBER).nanos == 10**9


def test_our_own_sheet_continues_the_list_of_genai_prices_from_its_dates() -> None:
    usage = Usage(1_000_000, 1_000_000, 0, 1_000_000)
    by_day = {
        "2025-08-01T12:00:00+00:00": "1.44",
        "2025-08-01T20:00:00+00:00": "0.72",
        "2025-09-05T16:00:00+00:00": "2.31",
        "2025-12-01T12:00:00+00:00": "0.728",
        "2026-04-25T12:00:00+00:00": "0.448",
        "2026-06-01T12:00:00+00:00": "0.4228",
    }
    for day, usd in by_day.items():
        assert cost_usd(usage, "deepseek-chat", "deepseek", at=moment(day)) == usd
    prices = find_price("deepseek/deepseek-chat", "openrouter")
    assert prices is not None
    assert {price.source for price in prices} == {"genai-prices"}


def test_a_free_variant_costs_nothing_and_says_who_says_so() -> None:
    prices = find_price("meta-llama/llama-3.3-70b-instruct:free", "openrouter")
    assert price_usage(Usage(9, 9, 9, 9), prices, at=NOVEMBER) == Cost(
        0, "estimated", "prices.toml"
    )


def test_an_alias_that_has_moved_on_has_no_price_since() -> None:
    usage = Usage(1_000_000, 0, 0, 0)
    assert cost_usd(usage, "mistral-large-latest", at=moment("2025-06-01T00:00:00+00:00")) == "2"
    assert cost_usd(usage, "mistral-large-latest", at=NOVEMBER) == "unknown"


def test_a_model_that_is_also_billed_by_the_search_has_no_price() -> None:
    assert find_price("sonar-pro", "perplexity") is None
    assert find_price("sonar-deep-research", "perplexity") is None


def test_every_row_of_our_own_sheet_says_only_what_is_read() -> None:
    rates = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
    known = {"models", "provider", "since", *(f"{rate}_usd_per_mtok" for rate in rates)}
    sheet = _read_sheet()
    names = {"one_price_vendors", "local", "one_hour_cache_write_times_input", "price"}
    assert set(sheet) == names
    assert set(sheet["one_price_vendors"]) <= {provider.id for provider in get_snapshot().providers}
    for row in sheet["price"]:
        assert {"models", "provider"} <= set(row) <= known
        assert all(model == model.lower() for model in row["models"])
        assert "since" not in row or row["since"].tzinfo
    dates = [row["since"] for row in sheet["price"] if "deepseek-chat" in row["models"]]
    assert dates == sorted(dates)


# What it comes to


def test_88_000_cached_tokens_of_opus_cost_what_the_list_says() -> None:
    usage = Usage(input=1_200, cache_read=88_000, cache_write=800, output=640)
    assert cost_usd(usage, "claude-opus-4-6") == "0.071"
    prices = find_price("claude-opus-4-6")
    assert price_usage(usage, prices, at=NOVEMBER) == Cost(71_000_000, "estimated", "genai-prices")


def test_a_synthetic_message_of_no_tokens_costs_nothing() -> None:
    assert find_price("<synthetic>", "anthropic") is None
    assert price_usage(Usage(0, 0, 0, 0), None, at=NOVEMBER) == Cost(0, "estimated", None)


def test_a_turn_whose_tokens_are_unknown_has_no_cost() -> None:
    prices = find_price("claude-opus-5-5")
    assert price_usage(Usage(), prices, at=NOVEMBER) == UNKNOWN
    assert price_usage(Usage(input=5), prices, at=NOVEMBER) == UNKNOWN
    assert price_usage(Usage(output=5), prices, at=NOVEMBER) == UNKNOWN
    assert price_usage(Usage(input=5, output=5), prices, at=NOVEMBER).nanos == 120_000


def test_tokens_that_the_list_does_not_price_make_the_cost_unknown() -> None:
    config = Settings(prices={"half": {"input_usd_per_mtok": 2.0}})
    prices = find_price("half", config=config)
    assert price_usage(Usage(5, 0, 0, 1), prices, at=NOVEMBER) == UNKNOWN
    assert price_usage(Usage(5, 0, 0, 0), prices, at=NOVEMBER).nanos == 10_000


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-5-5", "anthropic"),
        ("anthropic/claude-sonnet-4.5", "openrouter"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock"),
        ("claude-sonnet-4-5", "vertex"),
    ],
)
def test_an_hour_in_claudes_cache_costs_twice_the_input(model: str, provider: str) -> None:
    fresh = Decimal(cost_usd(Usage(100_000, 0, 0, 0), model, provider))
    kept = Usage(0, 0, cache_write=100_000, output=0, cache_write_1h=100_000)
    half = Usage(0, 0, cache_write=100_000, output=0, cache_write_1h=50_000)
    assert Decimal(cost_usd(kept, model, provider)) == 2 * fresh
    assert Decimal(cost_usd(half, model, provider)) == (2 + Decimal("1.25")) / 2 * fresh


def test_a_long_prompt_pays_the_long_rate_for_every_token() -> None:
    assert cost_usd(Usage(100_000, 100_000, 0, 1_000), "claude-sonnet-4-5") == "0.345"
    assert cost_usd(Usage(100_001, 100_000, 0, 1_000), "claude-sonnet-4-5") == "0.682506"


def test_the_total_of_many_calls_is_not_taken_for_one_long_prompt() -> None:
    prices = find_price("claude-sonnet-4-5")
    call, total = Usage(20_000, 60_000, 0, 1_000), Usage(200_000, 600_000, 0, 10_000)
    one = price_usage(call, prices, at=NOVEMBER).nanos
    assert one is not None
    assert price_usage(total, prices, at=NOVEMBER, calls=10).nanos == 10 * one


def test_a_price_changes_on_its_day_in_utc() -> None:
    usage = Usage(300_000, 0, 0, 0)
    before, after = moment("2026-03-12T23:59:59.999+00:00"), moment("2026-03-13T00:00:00+00:00")
    assert cost_usd(usage, "claude-opus-4-6", at=before) == "3"
    assert cost_usd(usage, "claude-opus-4-6", at=after) == "1.5"


def test_a_price_that_goes_by_the_hour_follows_the_clock_in_utc() -> None:
    usage = Usage(1_000_000, 0, 0, 0)
    for hour, usd in (("00:59", "0.15"), ("01:00", "0.3"), ("03:59", "0.3"), ("04:00", "0.15")):
        at = moment(f"2026-11-16T{hour}:59.999+00:00")
        assert cost_usd(usage, "deepseek-flash", "deepseek", at=at) == usd


def test_hours_may_reach_over_midnight() -> None:
    day, night = Rates(input=2), Rates(input=1)
    prices = (Price("config", (day,)), Price("config", (night,), day_minutes=(1380, 60)))
    for hour, nanos in ((22, 2), (23, 1), (0, 1), (1, 2)):
        at = moment(f"2026-11-16T{hour:02}:00:00+00:00")
        assert price_usage(Usage(1_000_000, 0, 0, 0), prices, at=at).nanos == nanos


rates = st.integers(0, 10**11)


@given(usages, st.builds(Rates, rates, rates, rates, rates, rates), tokens)
def test_a_cost_is_the_exact_sum_rounded_once_and_half_to_even(
    usage: Usage, rate: Rates, hour: int
) -> None:
    usage = msgspec.structs.replace(usage, cache_write_1h=hour)
    fresh, read, write, output = (
        usage.input or 0,
        usage.cache_read or 0,
        usage.cache_write or 0,
        usage.output or 0,
    )
    kept = min(hour, write)
    exact = fresh * (rate.input or 0) + read * rate.cache_read + output * (rate.output or 0)
    exact += (write - kept) * rate.cache_write + kept * rate.cache_write_1h
    prices = (Price("config", (rate,)),)
    assert price_usage(usage, prices, at=0).nanos == round(Fraction(exact, 10**6))


def check_agreement(provider: str, model: str, usage: Usage, hour: int, at: int) -> bool:
    """Whether genai-prices names a price we use; if so it has been found to be the same."""
    prices = find_price(model, provider)
    if prices is None or any(price.source != "genai-prices" for price in prices):
        return False
    try:
        text = repr(get_snapshot().find_provider_model(model, None, provider, None)[1].prices)
    except LookupError:
        return False  # some names are only headings, which genai-prices itself does not find
    if "claude" in model and text.count("cache_write_1h_mtok") < text.count("cache_write_mtok"):
        hour = 0  # genai-prices has the five-minute rate for it; we know better
    hour = min(hour, usage.cache_write or 0)
    usage = msgspec.structs.replace(usage, cache_write_1h=hour)
    listed = ListedUsage(
        input_tokens=(usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0),
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        cache_write_1h_tokens=hour,
        output_tokens=usage.output,
    )
    when = datetime.fromtimestamp(at / 1000, UTC)
    theirs = calc_price(listed, model, provider_id=provider, genai_request_timestamp=when)
    ours = price_usage(usage, prices, at=at)
    if ours.nanos is None:
        assert theirs.model_price.input_mtok is None or theirs.model_price.output_mtok is None
        return False
    # A few rates are fractions cut off at the 16th digit; we keep them to the nano-dollar.
    rates = vars(theirs.model_price).values()
    is_cut = any(isinstance(rate, Decimal) and rate * 10**9 % 1 for rate in rates)
    assert abs(ours.nanos - round(theirs.total_price * 10**9)) <= (1 if is_cut else 0)
    return True


def test_costs_agree_with_genai_prices_on_every_tenth_model() -> None:
    usages = (Usage(1_234, 88_001, 507, 911), Usage(150_003, 140_007, 11, 7_013))
    agreed = {
        (provider, model)
        for provider, model in listed_models()[::10]
        for usage in usages
        if check_agreement(provider, model, usage, 301, NOVEMBER)
    }
    assert len(agreed) > 180


def list_words(rule: object) -> list[str]:
    """The names in a rule of the library by which it finds a model."""
    (value,) = vars(rule).values()
    return (
        [value] if isinstance(value, str) else [word for one in value for word in list_words(one)]
    )


def find_in_library(name: str, provider: str) -> tuple[str, str] | None:
    identity, address = (None, provider) if "://" in provider else (provider or None, None)
    try:
        found, model = get_snapshot().find_provider_model(name, None, identity, address)
    except LookupError:
        return None
    return found.id, model.id


def test_the_table_finds_every_name_that_the_library_knows_as_the_library_does() -> None:
    """Each model by its id and by all names in its rule, at its seller, at others and at none."""
    lists = read_lists()
    assert [one.id for one in lists.sellers] == [one.id for one in get_snapshot().providers]
    compared = 0
    for provider in get_snapshot().providers:
        for number, model in enumerate(provider.models):
            words = {model.id.lower(), *map(str.lower, list_words(model.match))}
            others = ("", "litellm", "azure", "google", "https://api.openai.com/v1")
            asked = {(word, provider.id) for word in words}
            asked |= {(word, others[number % len(others)]) for word in words}
            asked |= {(f"{provider.id}/{model.id}".lower(), "litellm")}
            asked |= {(f"{model.id}-20251101".lower(), provider.id)}
            for name, seller in asked:
                found = lists.find_model(name, seller)
                ids = found and (found[0].id, found[1].id)
                assert ids == find_in_library(name, seller), (name, seller)
                compared += 1
    assert compared > 8000


@settings(max_examples=300, deadline=None)
@given(st.data(), usages, tokens, times)
def test_costs_agree_with_genai_prices_for_any_usage_at_any_time(
    data: st.DataObject, usage: Usage, hour: int, at: int
) -> None:
    provider, model = data.draw(st.sampled_from(listed_models()))
    check_agreement(provider, model, usage, hour, at)


# What the source says, and what the store keeps


def test_a_reported_figure_is_kept_to_the_nano_dollar() -> None:
    for usd in (0.071860001, "0.071860001", Decimal("0.071860001")):
        assert reported_cost(usd) == Cost(71_860_001, "reported", "source")
    assert reported_cost(0.1 + 0.2).nanos == 300_000_000
    assert reported_cost(0).nanos == 0
    assert reported_cost(3, status="estimated") == Cost(3 * 10**9, "estimated", "source")


@pytest.mark.parametrize(
    "usd", ["", "free", float("nan"), float("inf"), "-inf", -0.5, 1e300, "1e900000", 1_000_001]
)
def test_a_figure_that_is_no_amount_of_money_is_unknown(usd: float | str) -> None:
    assert reported_cost(usd) == UNKNOWN


def test_what_a_subscription_covers_is_shown_at_list_price() -> None:
    cost = price_usage(Usage(5, 0, 0, 5), find_price("gpt-5.2-codex"), at=NOVEMBER, included=True)
    assert cost == Cost(78_750, "included", "genai-prices")


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_a_price_list_comes_back_from_json_as_it_was(data: st.DataObject) -> None:
    provider, model = data.draw(st.sampled_from(listed_models()))
    prices = find_price(model, provider)
    kept = msgspec.json.encode(prices)
    assert msgspec.json.decode(kept, type=PriceList | None) == prices


def test_prices_need_no_price_library() -> None:
    kept = msgspec.json.encode(find_price("claude-opus-5-5")).decode()
    script = (
        "import msgspec, sys\n"
        "from relight.config import Settings\nfrom relight.model import Usage\n"
        "from relight.prices import PriceList, find_price, price_usage\n"
        "prices = msgspec.json.decode(sys.argv[1], type=PriceList)\n"
        "assert price_usage(Usage(5, 0, 0, 5), prices, at=0).nanos == 120_000\n"
        "config = Settings(prices={'mine': {'input_usd_per_mtok': 1}})\n"
        "assert find_price('mine', config=config) and not find_price('<synthetic>')\n"
        "assert find_price('gpt-5.2-codex') and not find_price('qwen3.6-27b')\n"
        "sys.exit(any(name.startswith(('genai_prices', 'pydantic')) for name in sys.modules))\n"
    )
    subprocess.run([sys.executable, "-c", script, kept], check=True, timeout=60)


def test_the_context_window_is_known_for_listed_models() -> None:
    assert context_window("claude-haiku-4-5-20251001", "anthropic") == 200_000
    assert context_window("gpt-5.2-codex") == 400_000
    assert context_window("claude-sonnet-4-5[1m]") == 1_000_000
    assert context_window("hermes-4-405b") is None
    assert context_window(None) is None
