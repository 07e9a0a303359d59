"""What words alone tell of how a session went: corrections, refusals to go on, unusable turns.

The patterns are those of `data/scoring.toml`. They are slow, and nearly no text has any: so each
text is first searched for the plain words without which no pattern can match.
"""

import re

from relight.judging.features import read_pattern

CHARACTERS = 10_000
# For each row of patterns, words of which every match holds one.
HINTS = {
    "user_corrections": (
        "wrong", "incorrect", "not right",
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
# and words that correct only where a line begins
_INTERRUPTION = re.compile(r"\W*(?:wait|stop|hold on|no|nope)\b").match


def says(name: str, text: str) -> bool:
    """Whether a text says what these patterns look for.

    >>> says("user_corrections", "No, I meant the other file."), says("give_ups", "All done.")
    (True, False)
    """
    lowered = text[:CHARACTERS].lower()
    for hint in HINTS[name]:
        if hint in lowered:
            break
    else:
        if name != "user_corrections" or not any(map(_INTERRUPTION, lowered.split("\n"))):
            return False
    return bool(read_pattern(name).search(text, 0, CHARACTERS))
