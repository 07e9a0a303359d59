"""Lines of chat files as the messages they are, without an example put before them."""

from collections.abc import Iterable

import msgspec

from relight.chat.broken_json import decode_mended
from relight.chat.injected import skip_injected
from relight.sources.chat.lines import decode_session
from relight.sources.chat.reader import name_session
from relight.sources.files import BOM
from relight.sources.reading import BAD_LINE
from relight.sources.talk import Talk


def read_talk(lines: Iterable[bytes], key: str) -> Talk:
    """The messages of the session of this key, as written, and what its line knows of calls."""
    talk = Talk([])
    for data in lines:
        try:
            if name_session(decode_session(data)) != key:
                continue
            line = decode_mended(msgspec.json.decode, data.removeprefix(BOM))
        except BAD_LINE:
            continue  # counted when it was recorded
        listed = line["messages"] if isinstance(line, dict) else line
        known = line.get("calls") if isinstance(line, dict) else None
        messages = [one for one in listed if isinstance(one, dict)]
        talk = Talk(list(skip_injected(messages)), known or [])
    return talk
