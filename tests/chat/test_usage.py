"""Token counts in every shape that APIs and SDKs have, as mapping, dataclass and object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types import CompletionUsage
from openai.types.responses import ResponseUsage

from relight.chat.usage import exclusive_usage, read_usage
from relight.model import Usage
from relight.prices import find_price, price_usage

# what each API or SDK reports, and the same in disjoint buckets
SHAPES: dict[str, tuple[dict[str, Any], Usage]] = {
    "OpenAI chat completions": (
        {
            "prompt_tokens": 1200,
            "completion_tokens": 80,
            "total_tokens": 1280,
            "prompt_tokens_details": {"cached_tokens": 1000, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 30, "audio_tokens": 0},
        },
        Usage(input=200, cache_read=1000, cache_write=0, output=80, reasoning=30),
    ),
    "DeepSeek": (
        {"prompt_tokens": 50, "completion_tokens": 5, "prompt_cache_hit_tokens": 40},
        Usage(input=10, cache_read=40, cache_write=0, output=5),
    ),
    "OpenAI Responses": (
        {
            "input_tokens": 1200,
            "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 100},
            "output_tokens": 80,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 1280,
        },
        Usage(input=100, cache_read=1000, cache_write=100, output=80, reasoning=30),
    ),
    "OpenAI Agents": (
        {
            "requests": 1,
            "input_tokens": 1200,
            "input_tokens_details": {"cached_tokens": 1000},
            "output_tokens": 80,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1280,
            "request_usage_entries": [],
        },
        Usage(input=200, cache_read=1000, cache_write=0, output=80, reasoning=0),
    ),
    "Anthropic": (
        {
            "input_tokens": 10,
            "output_tokens": 300,
            "cache_read_input_tokens": 100_000,
            "cache_creation_input_tokens": 5000,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 2000,
                "ephemeral_1h_input_tokens": 3000,
            },
            "output_tokens_details": {"thinking_tokens": 120},
            "server_tool_use": None,
            "service_tier": "standard",
        },
        Usage(10, 100_000, 5000, 300, cache_write_1h=3000, reasoning=120),
    ),
    "Anthropic without a cache": (
        {
            "input_tokens": 10,
            "output_tokens": 300,
            "cache_read_input_tokens": None,
            "cache_creation_input_tokens": None,
            "cache_creation": None,
        },
        Usage(10, 0, 0, 300),
    ),
    "LangChain": (
        {
            "input_tokens": 8010,
            "output_tokens": 90,
            "total_tokens": 8100,
            "input_token_details": {"cache_read": 7295, "cache_creation": 0, "audio": 0},
            "output_token_details": {"reasoning": 40},
        },
        Usage(input=715, cache_read=7295, cache_write=0, output=90, reasoning=40),
    ),
    "LangChain's Anthropic, with the parts of the cache instead of their sum": (
        {
            "input_tokens": 8010,
            "output_tokens": 90,
            "total_tokens": 8100,
            "input_token_details": {
                "cache_read": 7000,
                "cache_creation": 0,
                "ephemeral_5m_input_tokens": 600,
                "ephemeral_1h_input_tokens": 400,
            },
        },
        Usage(input=10, cache_read=7000, cache_write=1000, output=90, cache_write_1h=400),
    ),
    "LiteLLM's Anthropic": (
        {
            "prompt_tokens": 105_010,
            "completion_tokens": 300,
            "total_tokens": 105_310,
            "prompt_tokens_details": {
                "cached_tokens": 100_000,
                "cache_creation_tokens": 5000,
                "cache_creation_token_details": {
                    "ephemeral_5m_input_tokens": 2000,
                    "ephemeral_1h_input_tokens": 3000,
                },
            },
            "completion_tokens_details": {"reasoning_tokens": 120, "text_tokens": 180},
            "cache_creation_input_tokens": 5000,
            "cache_read_input_tokens": 100_000,
        },
        Usage(10, 100_000, 5000, 300, cache_write_1h=3000, reasoning=120),
    ),
    "Gemini": (
        {
            "prompt_token_count": 900,
            "cached_content_token_count": 600,
            "candidates_token_count": 50,
            "thoughts_token_count": 70,
            "tool_use_prompt_token_count": None,
            "total_token_count": 1020,
        },
        Usage(input=300, cache_read=600, cache_write=0, output=120, reasoning=70),
    ),
    "Gemini's JSON": (
        {
            "promptTokenCount": 900,
            "toolUsePromptTokenCount": 100,
            "candidatesTokenCount": 50,
            "totalTokenCount": 1050,
        },
        Usage(input=1000, cache_read=0, cache_write=0, output=50),
    ),
    "Bedrock Converse": (
        {
            "inputTokens": 10,
            "outputTokens": 300,
            "totalTokens": 105_310,
            "cacheReadInputTokens": 100_000,
            "cacheWriteInputTokens": 5000,
        },
        Usage(10, 100_000, 5000, 300),
    ),
    "Pydantic AI": (
        {
            "input_tokens": 1200,
            "cache_write_tokens": 100,
            "cache_read_tokens": 1000,
            "output_tokens": 80,
            "input_audio_tokens": 0,
            "cache_audio_read_tokens": 0,
            "output_audio_tokens": 0,
            "details": {},
        },
        Usage(input=100, cache_read=1000, cache_write=100, output=80),
    ),
    "the parameters of rec.turn": (
        {"input_tokens": 100, "cache_read_tokens": 1000, "output_tokens": 80},
        Usage(input=100, cache_read=1000, cache_write=0, output=80),
    ),
}


class Dumped:
    """An object as pydantic's: attributes, and `model_dump` of all of them."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.__dict__ = {
            name: Dumped(value) if isinstance(value, dict) else value
            for name, value in fields.items()
        }

    def model_dump(self, **_: object) -> dict[str, Any]:
        raise AssertionError("the attributes are enough")


def as_dataclass(fields: Mapping[str, Any]) -> Any:
    values = {k: as_dataclass(v) if isinstance(v, dict) else v for k, v in fields.items()}
    return make_dataclass("Reported", list(values), slots=True)(**values)


def as_object(fields: Mapping[str, Any]) -> SimpleNamespace:
    values = {k: as_object(v) if isinstance(v, dict) else v for k, v in fields.items()}
    return SimpleNamespace(**values)


@pytest.mark.parametrize("make", [dict, as_dataclass, as_object, Dumped])
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_understood_as_mapping_dataclass_and_object(
    name: str, make: Callable[[Mapping[str, Any]], Any]
) -> None:
    given, expected = SHAPES[name]
    found = read_usage(make(given))
    assert (found.usage, found.problems, found.status) == (expected, (), "final")


def test_types_of_openais_sdk_are_understood() -> None:
    chat, responses = SHAPES["OpenAI chat completions"], SHAPES["OpenAI Responses"]
    assert read_usage(CompletionUsage.model_validate(chat[0])).usage == chat[1]
    assert read_usage(ResponseUsage.model_validate(responses[0])).usage == responses[1]


def test_anthropics_cache_is_charged() -> None:
    prices = find_price("claude-sonnet-4-5", "anthropic")
    given = {**SHAPES["Anthropic"][0], "cache_creation": None}
    cost = price_usage(read_usage(given).usage, prices, at=1_794_700_000_000)
    # 10 × $3 + 100,000 × $0.30 + 5,000 × $3.75 + 300 × $15, each for a million
    assert cost.nanos == 53_280_000


@pytest.mark.parametrize(
    ("given", "usage"),
    [
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(None, 9, 0)),
        (
            {
                "input_tokens": 5,
                "output_tokens": 1,
                "input_token_details": {"cache_read": 3, "cache_creation": 4},
            },
            Usage(None, 3, 4, 1),
        ),
        ({"prompt_token_count": 5, "cached_content_token_count": 9}, Usage(None, 9, 0)),
    ],
)
def test_more_cached_than_there_was_is_unknown_and_not_negative(
    given: dict[str, Any], usage: Usage
) -> None:
    found = read_usage(given)
    assert (found.usage, found.status) == (usage, "partial")
    assert found.problems == ("usage has more cached tokens than input tokens",)


@pytest.mark.parametrize(
    ("given", "usage"),
    [
        ({"prompt_tokens": -1, "completion_tokens": 3}, Usage(output=3)),
        (
            {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": "many"},
            Usage(input=5, cache_write=0, output=3),
        ),
        (
            {"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 1.5}},
            Usage(cache_write=0, output=3),
        ),
        (
            {
                "input_tokens": 5,
                "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 4},
            },
            Usage(5, 0, 0, 3, reasoning=4),
        ),
        ({"prompt_token_count": 5, "candidates_token_count": 10**30}, Usage(5, 0, 0)),
        ({"total_tokens": 9}, Usage()),
        ({}, Usage()),
        (12, Usage()),
        ("10 tokens", Usage()),
        ([{"input_tokens": 5}], Usage()),
    ],
)
def test_what_is_not_understood_is_unknown_and_says_why(given: object, usage: Usage) -> None:
    found = read_usage(given)
    assert (found.usage, found.status, len(found.problems)) == (usage, "partial", 1)


def test_a_missing_half_is_partial_without_a_complaint() -> None:
    for given in ({"prompt_tokens": 5}, {"completion_tokens": 5}):
        found = read_usage(given)
        assert (found.status, found.problems) == ("partial", ())


def test_integers_of_other_libraries_and_whole_floats_are_counts() -> None:
    @dataclass
    class Int64:
        value: int

        def __index__(self) -> int:
            return self.value

    @dataclass
    class Reported:
        inputTokens: float = 7.0
        outputTokens: Int64 = field(default_factory=lambda: Int64(3))

    assert read_usage(Reported()).usage == Usage(7, 0, 0, 3)


def test_a_running_total_that_contradicts_itself_is_unknown() -> None:
    assert exclusive_usage(5, 9, 1) == Usage(None, 9, 0, 1)
