"""A recorded session as chat messages, and its words beside the steps that the index has."""

from collections.abc import Sequence

from msgspec import Struct

from relight.chat.messages import Call, Entry, read_entries, read_text
from relight.errors import MissingError, RelightError
from relight.sources import find_source, is_source
from relight.sources.events import Transcript
from relight.store import Store
from relight.store.derive.scores import fingerprint_call, read_object
from relight.store.queries import sessions, steps
from relight.store.queries.sessions import SessionFacts
from relight.store.queries.steps import CallPlace, TurnPlace
from relight.store.write.tape import read_tape

StepKey = tuple[str, int]  # "turn" or "call", and its row


class Text(Struct, frozen=True):
    """A text of a session; `read_words` finds it by its name."""

    text: str
    name: str
    role: str = "user"


class CallText(Struct, frozen=True):
    """The arguments and the result of a call; None where the tape has nothing."""

    arguments: Text
    result: Text | None
    said: Text | None = None


class Wording(Struct, frozen=True):
    """Texts by the rows of the steps they belong to; `rest` was said after the last of them."""

    before: dict[StepKey, list[Text]]
    turns: dict[int, list[Text]]
    calls: dict[int, CallText]
    rest: list[Text]


def read_transcript(store: Store, session_id: int) -> Transcript:
    """Return the messages of a session, redacted as on the tape, without what Relight injected."""
    found = find_facts(store, session_id)
    return find_source(found.source).read_messages(read_lines(store, session_id, found), found.id)


def find_facts(store: Store, session_id: int) -> SessionFacts:
    """Return the facts of a session; raise if it is not recorded."""
    found = sessions.read_facts(store, session_id)
    if found is None:
        raise MissingError("that session is not in the store", "`relight report --by session`")
    return found


def read_lines(store: Store, session_id: int, found: SessionFacts) -> list[bytes]:
    """Return the records of a session; raise if they are gone or nothing can read them.

    An early sub-agent's records are on its parent's tape.
    """
    if not is_source(found.source):
        raise RelightError(
            f"there is no source {found.source!r} any more",
            "install the package that reads its sessions",
        )
    lines = [line for part in read_tape(store, session_id) for line in part.lines()]
    if not lines and found.root_id != session_id:
        lines = [line for part in read_tape(store, found.root_id) for line in part.lines()]
    if not lines:
        raise RelightError(
            f"the records of {found.session} are gone",
            "its tape was pruned: only figures are left",
        )
    return lines


def read_wording(store: Store, session_id: int) -> Wording:
    """Return the texts of a session by the steps before, in and after which they were said.

    The tape has no rows. Calls are matched by their fingerprints, in the order of their times, and
    texts between two calls belong to the turns between them.
    """
    entries = read_entries(read_transcript(store, session_id).messages)
    waiting: dict[int, list[CallPlace]] = {}
    for call in steps.place_calls(store, session_id):
        waiting.setdefault(call.fingerprint, []).append(call)
    known = [[_match(call, waiting) for call in entry.calls] for entry in entries]
    return _place(entries, known, steps.place_turns(store, session_id))


def _match(call: Call, waiting: dict[int, list[CallPlace]]) -> CallPlace | None:
    """Return the first call in the index that asks the same and has no match yet."""
    places = waiting.get(fingerprint_call(call.tool, read_object(read_text(call.arguments))))
    return places.pop(0) if places else None


def _place(
    entries: Sequence[Entry],
    known: Sequence[Sequence[CallPlace | None]],
    turns: Sequence[TurnPlace],
) -> Wording:
    found = Wording({}, {}, {}, [])
    at = {turn.row: number for number, turn in enumerate(turns)}
    # for each entry the turn that made its calls, and the next such turn after it
    owns = [next((one.turn for one in own if one and one.turn in at), None) for own in known]
    taken = {one.turn for own in known for one in own if one and one.turn is not None}
    ahead, limits = len(turns), [0] * len(entries)
    for number in range(len(entries) - 1, -1, -1):
        limits[number] = ahead
        own = owns[number]
        ahead = ahead if own is None else at[own]
    waiting: list[Text] = []
    following = 0
    for number, entry in enumerate(entries):
        text = Text(entry.text, str(number), entry.role)
        own = owns[number]
        if own is None and entry.role == "assistant" and not any(known[number]):
            free = (turns[place] for place in range(following, limits[number]))
            own = next((one.row for one in free if one.is_spoken and one.row not in taken), None)
        first = next((one.row for one in known[number] if one), None)
        if own is not None or first is not None:
            key = ("turn", own) if own is not None else ("call", first or 0)
            if waiting:
                found.before.setdefault(key, []).extend(waiting)
                waiting = []
            if own is not None:
                following = max(following, at[own] + 1)
                if entry.text:
                    found.turns.setdefault(own, []).append(text)
        elif entry.text:
            waiting.append(text)
        _add_calls(found, entry, known[number], number, None if own is not None else text)
    found.rest.extend(waiting)
    return found


def _add_calls(
    found: Wording,
    entry: Entry,
    places: Sequence[CallPlace | None],
    number: int,
    said: Text | None,
) -> None:
    for position, (call, place) in enumerate(zip(entry.calls, places, strict=True)):
        if place is not None:
            name = f"{number}.{position}"
            result = Text(read_text(call.result), f"{name}.result") if call.has_result else None
            arguments = Text(read_text(call.arguments), f"{name}.arguments")
            spoken = said if said and said.text else None
            found.calls[place.row] = CallText(arguments, result, spoken)
            said = None


def read_words(store: Store, session_id: int, name: str) -> str:
    """Return one text of a session in full, by its name in a `Text`."""
    entries = read_entries(read_transcript(store, session_id).messages)
    number, *rest = name.split(".")
    try:
        entry = entries[int(number)]
        if not rest:
            return entry.text
        call = entry.calls[int(rest[0])]
        return read_text({"arguments": call.arguments, "result": call.result}[rest[1]])
    except (ValueError, LookupError):
        raise MissingError(f"there is no text {name!r} in that session") from None
