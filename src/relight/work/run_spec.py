"""The settings of one run of Relight's own agent.

`relight run`, jobs and experiments pass the same settings to the agent. They are one Struct, so
that a new setting is one new field.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from relight.models.retrying import RetryBudget
    from relight.work.agent.limits import Budget


class RunSpec(Struct, frozen=True, kw_only=True):
    """Model, start, tools, folder and limits of one run."""

    # a model's name, or moa:PRESET
    model: str
    base_url: str | None = None
    key_variable: str | None = None
    # the person's own words, if the prompt holds more than these; a template is chosen by them
    task: str | None = None
    # a template's name, auto or none
    template: str = "none"
    # False: the run is part of a comparison, and begins without the lessons of its project
    has_lessons: bool = True
    # None: all tools
    tools: Sequence[str] | None = None
    folder: str | Path = "."
    budget: "Budget | None" = None
    # None: as the user has set it
    max_tool_chars: int | None = None
    tool_seconds: float = 120.0
    allow_private_fetch: bool = False
    # variables that the agent's commands get although they are named like secrets
    pass_variables: Sequence[str] = ()
    # None: a new name
    session_id: str | None = None
    # the attempts of the run, if it shares them with others; None: each call has its own
    retries: "RetryBudget | None" = None
