"""What words alone tell of how a session went: corrections, refusals to go on, unusable turns.

The patterns are those of `data/scoring.toml`. They are slow, and nearly no text has any: so each
text is first searched for the plain words without which no pattern can match.
"""

import re
from functools import cache

from relight.measures import read_table

CHARACTERS = 10_000
# For each row of patterns, words of which every match holds one.
HINTS = {
    "user_corrections": (
        "wait", "stop", "hold on", "no ", "no, ", "nope", "wrong", "incorrect", "not right",
        "not correct", "not what i", "not the", "that isn", "that wasn", "i said", "i already ",
        "i just ", "i told", "i asked", "i meant", "you forgot", "you missed", "you misunderstood",
        "you ignored", "you broke", "you did", "you were supposed", "you should", "undo ",
        "revert ", "still ", "actually", "try again",
    ),
    "malformed": (
        "formatted ", "format error", "exactly one ", "tool call", "function call", "could not ",
        "invalid ", "found",
    ),
    "give_ups": (
        "unable", "not able", "sorry", "i can", "i could", "i was ", "unfortunately", "i apologi",
        "give up", "giving up", "ran out of", "not possible", "as far as i c",
    ),
}  # fmt: skip


def says(name: str, text: str) -> bool:
    """Whether a text says what these patterns look for.

    >>> says("user_corrections", "No, I meant the other file."), says("give_ups", "All done.")
    (True, False)
    """
    lowered = text[:CHARACTERS].lower()
    if not any(hint in lowered for hint in HINTS[name]):
        return False
    return bool(_read_pattern(name).search(text, 0, CHARACTERS))


@cache
def _read_pattern(name: str) -> re.Pattern[str]:
    return re.compile("|".join(read_table().patterns[name]), re.IGNORECASE | re.MULTILINE)
