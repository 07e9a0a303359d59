"""The tokens of an invented conversation as a provider counts them, and its prices.

A conversation's context grows with every call. What the provider's cache still holds is read from
there. After a long pause all of it is written again, which makes pauses expensive.
"""

from dataclasses import astuple, dataclass

from relight.cli.demo.dice import Clock, Dice

CHARACTERS_PER_TOKEN = 4
CONTEXT_LIMIT = 160_000
# US dollars per million tokens: fresh input, cache read, cache write, one-hour write, output
RATES = {
    "claude-opus-4-6": (5.0, 0.5, 6.25, 10.0, 25.0),
    "claude-sonnet-4-5": (3.0, 0.3, 3.75, 6.0, 15.0),
    "claude-haiku-4-5": (1.0, 0.1, 1.25, 2.0, 5.0),
    "gpt-5.1-codex-mini": (0.25, 0.025, 0.25, 0.25, 2.0),
}


@dataclass(frozen=True)
class TokenUse:
    """Tokens of one call, or of several; `thinking` is a part of `output`."""

    fresh: int = 0
    read: int = 0
    write: int = 0
    write_1h: int = 0
    output: int = 0
    thinking: int = 0

    def __add__(self, other: "TokenUse") -> "TokenUse":
        return TokenUse(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.write


@dataclass(frozen=True)
class MeteredCall:
    """One model call as its transcript shows it: the time, the model, the tokens."""

    at: str
    model: str
    usage: TokenUse


def estimate_usd(usage: TokenUse, model: str) -> float:
    """Return the cost that a client shows; 0.0 for a model without a price."""
    rates = next((rates for name, rates in RATES.items() if model.startswith(name)), (0.0,) * 5)
    short = usage.write - usage.write_1h
    tokens = (usage.fresh, usage.read, short, usage.write_1h, usage.output)
    return sum(count * rate for count, rate in zip(tokens, rates, strict=True)) / 1e6


class Meter:
    """The context of one conversation and how much of it the provider has cached."""

    def __init__(
        self, dice: Dice, clock: Clock, *, start_tokens: int, growth: int, cache_seconds: float
    ) -> None:
        self.dice = dice
        self.clock = clock
        self.growth = growth
        self.cache_seconds = cache_seconds
        # system prompt and tools: mostly cached by the sessions before
        self.shared = start_tokens * 3 // 4
        self.context = start_tokens
        self.cached = self.shared
        self.last_at = clock.seconds

    def read_call(self, heard: int, said: int) -> TokenUse:
        """Return the tokens of a call with `heard` new characters of input and `said` of output."""
        hidden = self.dice.randint(self.growth // 4, self.growth)  # reminders, tool lists, thinking
        if self.context > CONTEXT_LIMIT:
            hidden //= 8
        self.context += heard // CHARACTERS_PER_TOKEN + hidden
        if self.clock.seconds - self.last_at > self.cache_seconds:
            self.cached = self.shared
        fresh = self.dice.randint(3, 12)
        thinking = round(self.dice.lognormvariate(6.0, 0.9))
        usage = TokenUse(
            fresh=fresh,
            read=self.cached,
            write=self.context - self.cached - fresh,
            output=thinking + said // CHARACTERS_PER_TOKEN + self.dice.randint(20, 60),
            thinking=thinking,
        )
        self.cached = self.context
        self.context += usage.output - thinking
        self.clock.wait(self.dice.uniform(1.2, 3.6) + usage.output / 70)
        self.last_at = self.clock.seconds
        return usage
