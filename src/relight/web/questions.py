"""The parameters of the API: what may be asked, and within what bounds.

`UNSET` is what is not there, which is not the same as `null` or nothing between two commas.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Text = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Words = Annotated[str, Meta(max_length=2000)]
Page = Annotated[int, Meta(ge=1, le=500)]


class Nothing(Struct, frozen=True):
    """No parameters."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Which part of the record; the names of `relight.web.filters`, so that both read alike."""

    since: Name = "30d"
    until: Name | UnsetType = UNSET
    source: Name | UnsetType = UNSET
    model: Text = ""
    project: Text = ""


class Report(Chosen, frozen=True, kw_only=True):
    by: Name = "day"


class Sessions(Chosen, frozen=True, kw_only=True):
    search: Text = ""
    outcome: Literal["success", "failure", "unknown"] | UnsetType = UNSET
    category: Text | UnsetType = UNSET
    failure: Text | UnsetType = UNSET
    tool: Text | UnsetType = UNSET
    skill: Text | UnsetType = UNSET
    job: Text | UnsetType = UNSET
    template: Text | UnsetType = UNSET
    version: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    arm: Literal["warm", "cold"] | UnsetType = UNSET
    experiment: Text | UnsetType = UNSET
    sort: Literal["started", "cost", "duration", "turns", "tokens", "failures"] = "started"
    order: Literal["asc", "desc"] = "desc"
    after: Text | UnsetType = UNSET
    limit: Page = 50


class Steps(Struct, frozen=True, kw_only=True):
    after: Text | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class SkillStats(Struct, frozen=True, kw_only=True):
    since: Name = "30d"
    until: Name | UnsetType = UNSET
    skill: Text | UnsetType = UNSET


class SkillEma(Struct, frozen=True, kw_only=True):
    window_days: Annotated[int, Meta(ge=1, le=3650)] = 14
    alpha: Annotated[float, Meta(ge=0.001, le=0.999)] | UnsetType = UNSET
    half_life_days: Annotated[float, Meta(ge=0.01, le=3650)] | UnsetType = UNSET


class SkillCompare(Struct, frozen=True, kw_only=True):
    skill: Name
    models: Words | UnsetType = UNSET
    margin: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class Runs(Struct, frozen=True, kw_only=True):
    job: Text | UnsetType = UNSET
    limit: Page = 100


class Templates(Struct, frozen=True, kw_only=True):
    state: Literal["live", "candidate", "retired"] | UnsetType = UNSET


class Template(Struct, frozen=True, kw_only=True):
    version: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET


class Experiment(Struct, frozen=True, kw_only=True):
    template: Text | UnsetType = UNSET
    effect: Annotated[float, Meta(ge=0.01, le=0.99)] = 0.1


class Trace(Struct, frozen=True, kw_only=True):
    turn: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET


class Label(Struct, frozen=True, kw_only=True):
    """What a person says of a session."""

    outcome: Literal["success", "failure", "unknown"]
    why: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET


class Capture(Struct, frozen=True, kw_only=True):
    """A template to be made of a session."""

    name: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    description: Words = ""
    tags: Words = ""
    project: Text | UnsetType = UNSET
    outcome: Literal["success", "failure", "unknown"] | UnsetType = UNSET
    force: bool = False


class CaptureOf(Capture, frozen=True, kw_only=True):
    session: Name


class Retire(Struct, frozen=True, kw_only=True):
    why: Annotated[str, Meta(max_length=300)] = "a person said so"
