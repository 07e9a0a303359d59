"""Examples of secrets and of look-alikes, and how many of them redaction takes.

The lists are templates (`data/*.txt`): values are random and differ with each seed. A third of the
lines, chosen by their hash, is kept aside: rules are changed for what the other two thirds show.
"""

import hashlib
import json
import random
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from relight.redact import redact

DATA = Path(__file__).parent / "data"
KEY = b"k" * 32
KINDS = {
    "own": "own shape, bare",
    "form": "in the form that shows it",
    "assigned": "behind a name",
    "disguise": "in disguise",
}
LETTERS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "l": string.ascii_lowercase,
    "u": string.ascii_uppercase + "234567",
    "x": "0123456789abcdef",
}
_BLANK = re.compile(r"\{([abdlux])(\d+)\}")
_ESCAPE = re.compile(r"\\(\\|n|t|x1b)")
_ESCAPED = {"\\": "\\", "n": "\n", "t": "\t", "x1b": "\x1b"}
_CORE = re.compile("‹([^‹›]*)›")


class Example(Struct, frozen=True):
    """A text and what of it must go; a look-alike has nothing that must go."""

    kind: str
    line: str
    text: str
    cores: tuple[str, ...] = ()

    @property
    def is_aside(self) -> bool:
        return is_aside(self.line)


class Share(Struct, frozen=True):
    """How many of the examples of one kind were taken, and the lines of those that were not."""

    tried: int
    taken: int
    missed: dict[str, int]

    @property
    def percent(self) -> float:
        return 100 * self.taken / self.tried if self.tried else 0.0


def is_aside(line: str) -> bool:
    return int(hashlib.sha256(line.encode()).hexdigest(), 16) % 3 == 0


def fill(template: str, rng: random.Random) -> str:
    """Return the template with random values; each has small letters, capitals and digits."""

    def make(blank: re.Match[str]) -> str:
        letters, count = LETTERS[blank[1]], int(blank[2])
        while True:
            text = "".join(rng.choices(letters, k=count))
            # a random value of letters only is rare, and would be another case
            if blank[1] not in "ab" or count < 8 or re.search(r"\d.*[a-z]|[a-z].*\d", text):
                return text

    plain = _ESCAPE.sub(lambda found: _ESCAPED[found[1]], template)
    return _BLANK.sub(make, plain)


def read_lookalikes(*, seed: int, fills: int = 1) -> Iterator[Example]:
    rng = random.Random(seed)
    for line in _read_lines("lookalikes.txt"):
        for _ in range(fills):
            yield Example("lookalike", line, fill(line, rng))


def read_secrets(*, seed: int, fills: int = 1) -> Iterator[Example]:
    rng = random.Random(seed)
    for line in _read_lines("secrets.txt"):
        kind, _, template = line.partition(" | ")
        for _ in range(fills):
            text = fill(template, rng)
            first = (_CORE.search(text) or ["", ""])[1]
            text = text.replace("‹@1›", f"‹{first}›")
            cores = tuple(_CORE.findall(text))
            yield Example(kind, line, _CORE.sub(lambda core: core[1], text), cores)


def _read_lines(name: str) -> list[str]:
    lines = (DATA / name).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def list_forms(text: str) -> list[str]:
    """The text by itself, as a record has it, and as a record that a tool printed has it."""
    once = json.dumps({"content": text}, ensure_ascii=False)
    return [text, once, json.dumps({"content": once}, ensure_ascii=False)]


def is_taken(example: Example) -> bool:
    """True if no form of a secret stays; for a look-alike, if any of its forms is changed."""
    if example.kind == "lookalike":
        return any(clean(form) != form for form in list_forms(example.text))
    sentence = f"see {example.text} here" if example.kind == "own" else example.text
    return not any(leaks(clean(form), example.cores) for form in list_forms(sentence))


def clean(text: str) -> str:
    return redact(text.encode(), key=KEY, known=()).decode()


def leaks(text: str, cores: tuple[str, ...]) -> bool:
    """True if one of the secrets can be read in the text, with or without escapes."""
    plain = undo(text)
    return any(undo(core) in plain for core in cores)


def undo(text: str) -> str:
    """Return the text with its JSON escapes undone, however many levels deep."""
    shown = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text)
    return re.sub(r"\\+(.)", r"\1", re.sub(r"\\+n", "\n", shown))


def measure(examples: Iterator[Example], *, aside: bool | None = None) -> dict[str, Share]:
    """Return the share taken by kind, of all lines, or only of those aside or not."""
    tried: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    missed: dict[str, Counter[str]] = {}
    for example in examples:
        if aside is not None and example.is_aside != aside:
            continue
        tried[example.kind] += 1
        if is_taken(example):
            taken[example.kind] += 1
        if is_taken(example) == (example.kind == "lookalike"):
            missed.setdefault(example.kind, Counter())[example.line] += 1
    return {kind: Share(tried[kind], taken[kind], dict(missed.get(kind, {}))) for kind in tried}


def main(words: list[str]) -> int:
    """Print the shares: python -m bench.campaign.examples [tuning|aside|all] [SEED]."""
    part = words[0] if words else "all"
    seed = int(words[1]) if len(words) > 1 else 1
    aside = {"tuning": False, "aside": True}.get(part)
    found = measure(read_secrets(seed=seed, fills=3), aside=aside)
    found |= measure(read_lookalikes(seed=seed, fills=3), aside=aside)
    for kind, share in found.items():
        print(f"{kind:10} {share.taken:5} of {share.tried:5} taken, {share.percent:5.1f} %")
    if part != "aside" or "--show" in words:
        for kind, share in found.items():
            for line, count in share.missed.items():
                print(f"  {kind} {count}: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
