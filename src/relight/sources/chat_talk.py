"""Lines of chat files as the messages they are, without an example put before them."""

from collections.abc import Iterable

import msgspec

from relight.injections import skip_injected
from relight.sources import chat
from relight.sources.reading import BAD_LINE
from relight.sources.talk import Talk


def read_talk(lines: Iterable[bytes], key: str) -> Talk:
    """The messages of the session of this key, as written, and what its line knows of calls."""
    talk = Talk([])
    for data in lines:
        try:
            if chat.name_line(data) != key:
                continue
            line = msgspec.json.decode(data)
        except BAD_LINE:
            continue  # counted when it was recorded
        listed = line["messages"] if isinstance(line, dict) else line
        known = line.get("calls") if isinstance(line, dict) else None
        messages = [one for one in listed if isinstance(one, dict)]
        talk = Talk(list(skip_injected(messages)), known or [])
    return talk
