"""What was said in a session, beside the steps that the index knows: from its tape."""

from collections.abc import Sequence

from msgspec import Struct

from relight.chat.messages import Call, Entry, read_entries, read_text
from relight.errors import MissingError
from relight.reports.steps import OWN_CALLS, OWN_TURNS
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.derive.words import fingerprint_call, read_object

# Rows in the order of their times, as `steps` gives them. A turn that stands for many calls, or
# that was made beside the conversation, said nothing in it.
CALLS = f"""
    select tool_call.place, fingerprint, turn.place from tool_call
    left join turn on turn.id = turn_id
    where {OWN_CALLS.replace("session_id", "tool_call.session_id", 1)}
    order by tool_call.at is null, tool_call.at, tool_call.place
"""
TURNS = f"""
    select place, calls = 1 and usage_status <> 'reconciled'
        and coalesce(role, 'aggregator') = 'aggregator'
    from turn where {OWN_TURNS} order by at is null, at, place
"""
Place = tuple[str, int]  # "turn" or "call", and its row


class Text(Struct, frozen=True):
    """Something said, and by what name `read_words` finds it again."""

    text: str
    name: str
    role: str = "user"


class CallText(Struct, frozen=True):
    """What a call was asked with and what came back; None where nothing is on the tape."""

    arguments: Text
    result: Text | None
    said: Text | None = None


class Wording(Struct, frozen=True):
    """Words by the rows of the steps they belong to; `rest` was said after the last of them."""

    before: dict[Place, list[Text]]
    turns: dict[int, list[Text]]
    calls: dict[int, CallText]
    rest: list[Text]


def read_wording(store: Store, session_id: int) -> Wording:
    """Who said what before, in and after which step.

    The tape tells no rows: calls are known by what they ask, in the order of their times, and what
    was said between two calls belongs to the turns between them.
    """
    entries = read_entries(read_transcript(store, session_id).messages)
    values = {"session": session_id}
    waiting: dict[int, list[tuple[int, int | None]]] = {}
    for row, asked, turn in store.query(CALLS, values):
        waiting.setdefault(asked, []).append((row, turn))
    known = [[_match(call, waiting) for call in entry.calls] for entry in entries]
    return _place(entries, known, store.query(TURNS, values))


def _match(
    call: Call, waiting: dict[int, list[tuple[int, int | None]]]
) -> tuple[int, int | None] | None:
    """The row of a call and of its turn: the first that asks the same and is not taken yet."""
    rows = waiting.get(fingerprint_call(call.tool, read_object(read_text(call.arguments))))
    return rows.pop(0) if rows else None


def _place(
    entries: Sequence[Entry],
    known: Sequence[Sequence[tuple[int, int | None] | None]],
    turns: Sequence[tuple[int, int]],
) -> Wording:
    found = Wording({}, {}, {}, [])
    at = {row: number for number, (row, _) in enumerate(turns)}
    # for each entry the turn whose calls it holds, and the next such turn after it
    owns = [next((one[1] for one in rows if one and one[1] in at), None) for rows in known]
    taken = {turn for rows in known for one in rows if one and (turn := one[1]) is not None}
    ahead, limits = len(turns), [0] * len(entries)
    for number in range(len(entries) - 1, -1, -1):
        limits[number] = ahead
        own = owns[number]
        ahead = ahead if own is None else at[own]
    waiting: list[Text] = []
    following = 0
    for number, entry in enumerate(entries):
        words = Text(entry.text, str(number), entry.role)
        own = owns[number]
        if own is None and entry.role == "assistant" and not any(known[number]):
            free = range(following, limits[number])
            own = next(
                (turns[n][0] for n in free if turns[n][1] and turns[n][0] not in taken), None
            )
        first = next((one[0] for one in known[number] if one), None)
        place = ("turn", own) if own is not None else ("call", first)
        if own is None and first is None:
            waiting += [words] if entry.text else []
        elif isinstance(place[1], int):
            if waiting:
                found.before.setdefault((place[0], place[1]), []).extend(waiting)
                waiting = []
            if own is not None:
                following = max(following, at[own] + 1)
                if entry.text:
                    found.turns.setdefault(own, []).append(words)
        _keep_calls(found, entry, known[number], number, None if own is not None else words)
    found.rest.extend(waiting)
    return found


def _keep_calls(
    found: Wording,
    entry: Entry,
    rows: Sequence[tuple[int, int | None] | None],
    number: int,
    said: Text | None,
) -> None:
    for place, (call, row) in enumerate(zip(entry.calls, rows, strict=True)):
        if row is not None:
            name = f"{number}.{place}"
            result = Text(read_text(call.result), f"{name}.result") if call.has_result else None
            asked = Text(read_text(call.arguments), f"{name}.arguments")
            found.calls[row[0]] = CallText(asked, result, said if said and said.text else None)
            said = None


def read_words(store: Store, session_id: int, name: str) -> str:
    """One text of a session, whole."""
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
