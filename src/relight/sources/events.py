"""The events of a session, as readers yield them: the one reading of every source.

A reader yields nouns of `relight.model` (sessions, turns, totals, skills, jobs, …) and the events
below. `reading.Collector` turns them into index rows, `messages.MessageWriter` into chat messages.
"""

from typing import Literal

from msgspec import Struct

from relight.model import Job, Latency, Run, Session, SkillEntry, Timing, ToolCall, Total, Turn


class Said(Struct, frozen=True):
    """Words of a person or a model.

    `answer` names the response that the words are part of; without it they belong to the response
    before them. `is_new` is False if the message they are part of has been counted.
    """

    session: str
    role: Literal["user", "assistant"]
    text: str | None = None
    answer: str | None = None
    is_new: bool = True


class Called(Struct, frozen=True):
    """A tool call; its result comes later, unless it is finished.

    `id` is the model's own name for the call, if that is not the key; a call whose `id` is empty
    cannot be named in a message, and stands in none.
    """

    call: ToolCall
    id: str | None = None
    answer: str | None = None


class Returned(Struct, frozen=True):
    """The result of a call; `name` is the call's `name`, else its key, `id` as in `Called`.

    A result without a name is counted as a message and belongs to no call.
    """

    session: str
    name: str | None = None
    at: int | None = None
    text: str | None = None
    is_error: bool | None = None
    exit_code: int | None = None
    timed_out: bool | None = None
    id: str | None = None


class Measured(Struct, frozen=True):
    """The exit code and duration of a call, known before its result."""

    session: str
    name: str
    exit_code: int | None = None
    duration_ms: int | None = None


class Attributed(Struct, frozen=True):
    """The turn that made these calls, for agents that record it after them."""

    names: list[str]
    turn: str


Noun = Session | Turn | ToolCall | Total | SkillEntry | Job | Run | Latency | Timing
Event = Said | Called | Returned | Measured | Attributed | Noun
