"""Query parameters and request bodies of the API, with their bounds and descriptions.

A text that is absent from a query is empty; `UNSET` is what else may be absent.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from relight.judging.kinds import Category, TaskType
from relight.model import OutcomeName
from relight.reports.filters import DAY_FORMS, DAY_WORDS, DEFAULT_SINCE
from relight.reports.series import SeriesKey
from relight.reports.totals import KEYS, MOST_KEYS, SORTS
from relight.sources import SOURCES
from relight.store.queries.failures import FAILURE_KEYS

Path = Mapping[str, str]  # the names in an address
Text = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Version = Annotated[int, Meta(ge=1, le=1_000_000)]
PageSize = Annotated[int, Meta(ge=1, le=500)]
DAYS = [
    {"type": "string", "pattern": "^[0-9]{1,4}[dw]$"},
    {"type": "string", "format": "date"},
    {"enum": list(DAY_WORDS)},
]
# reports count skills apart from single calls
KEY_LISTS = [
    [key for key in KEYS if key not in ("tool", "failure")],
    [key for key in KEYS if key != "skill"],
]


def described(text: str, **schema: Any) -> Meta:
    """A description for the document, and what its schema says beyond the bounds checked here."""
    return Meta(description=text, extra_json_schema=schema or None)


Since = Annotated[
    Name,
    described(
        f"The first day: {DAY_FORMS}.",
        anyOf=[{"const": "all"}, *DAYS],
    ),
]
Until = Annotated[Name, described("The last day, written as the first.", anyOf=DAYS)]


class LimitParameters(Struct, frozen=True, kw_only=True):
    """The windows of plans to show."""

    history: Annotated[bool, described("Also the windows that are over.")] = False
    since: Since = DEFAULT_SINCE


class SavingParameters(Struct, frozen=True, kw_only=True):
    """Further candidates, and the acceptable loss of success."""

    models: Annotated[Text, described("Further models, comma-separated.")] = ""
    margin: Annotated[float, Meta(gt=0, lt=1), described("As a share.")] = 0.05


class BriefParameters(Struct, frozen=True, kw_only=True):
    """The first day of the brief, by default last evening."""

    since: Since = ""


class AlarmParameters(Struct, frozen=True, kw_only=True):
    """The alarms to list."""

    all: Annotated[bool, described("Also those that are over or acknowledged.")] = False


class NoParameters(Struct, frozen=True):
    """No parameters."""


class FilterParameters(Struct, frozen=True, kw_only=True):
    """The part of the record; the names are those of `relight.web.filters`."""

    since: Since = DEFAULT_SINCE
    until: Until = ""
    source: Annotated[Name, described("Only sessions of this agent.", enum=list(SOURCES))] = ""
    model: Annotated[
        Text,
        described('Only models with this in their name; in quotes the whole name, `""` for none.'),
    ] = ""
    project: Annotated[
        Text,
        described(
            "Only projects with this in their folder; from a slash on, this folder and those below"
            ' it; in quotes this folder alone, `""` for none.'
        ),
    ] = ""
    machine: Annotated[
        Text, described("Only sessions of machines with this in their name; in quotes the whole.")
    ] = ""
    person: Annotated[
        Text, described("Only sessions of people with this in their name; in quotes the whole.")
    ] = ""


class OverviewParameters(FilterParameters, frozen=True, kw_only=True):
    by: Annotated[SeriesKey, described("What the figures over time are split by.")] = "model"


class FailureParameters(FilterParameters, frozen=True, kw_only=True):
    by: Annotated[
        Text,
        described(
            "Comma-separated keys of failed calls: position is that of the call in its session,"
            " length the number of the session's tool calls, category its kind of work.",
            style="form",
            items={"enum": list(FAILURE_KEYS)},
            maxItems=len(FAILURE_KEYS),
        ),
    ] = "kind,tool"
    job: Annotated[Text, described("Only runs of this job, and their sessions.")] = ""


class LessonParameters(Struct, frozen=True, kw_only=True):
    """The project whose lessons are shown."""

    project: Annotated[Text, described("Only this project: its folder, or a part of its name.")] = (
        ""
    )


class CacheParameters(FilterParameters, frozen=True, kw_only=True):
    limit: Annotated[PageSize, described("List at most so many rebuilds, the costliest first.")] = (
        50
    )


class ReportParameters(FilterParameters, frozen=True, kw_only=True):
    by: Annotated[
        str,
        Meta(max_length=200),
        described(
            "Comma-separated keys; skill cannot be combined with tool or failure.",
            style="form",
            anyOf=[
                {"type": "array", "items": {"enum": keys}, "minItems": 1, "maxItems": MOST_KEYS}
                for keys in KEY_LISTS
            ],
        ),
    ] = "day"
    sort: Annotated[
        Text, described("A figure, the largest first; or a key of `by`.", enum=[*SORTS])
    ] = ""
    top: Annotated[Version, described("Only so many rows; the rest is `other`.")] | UnsetType = (
        UNSET
    )


class SearchParameters(FilterParameters, frozen=True, kw_only=True):
    q: Annotated[
        str,
        Meta(min_length=1),
        described('Words (all), "a phrase", prefix*, -without, path:… and tool:….'),
    ]
    since: Since = "all"
    tool: Annotated[Text, described("Only calls of this tool, and their results.")] = ""
    failed: Annotated[bool, described("Only calls that failed, and their results.")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class SessionListParameters(FilterParameters, frozen=True, kw_only=True):
    search: Annotated[
        Text, described("Beginnings of words in title, project or id; all of them must match.")
    ] = ""
    outcome: OutcomeName | UnsetType = UNSET
    label: (
        Annotated[
            Literal["success", "failure", "unknown", '""'],
            described('With this label of a person; `""` without one.'),
        ]
        | UnsetType
    ) = UNSET
    category: Text = ""
    failure: Annotated[Text, described("With a failure of this kind.")] = ""
    tool: Annotated[
        Text,
        described('Which called this tool; with `failure`, failed: `""` for the model itself.'),
    ] = ""
    skill: Annotated[Text, described("Which used this skill.")] = ""
    job: Annotated[Text, described("Runs of this job.")] = ""
    template: Annotated[Text, described("For which this template was chosen.")] = ""
    version: (
        Annotated[Version, described("For which this version of a template was chosen.")]
        | UnsetType
    ) = UNSET
    arm: (
        Annotated[
            Literal["warm", "cold"],
            described("Which began with a template, or were held out from one."),
        ]
        | UnsetType
    ) = UNSET
    experiment: Annotated[
        Text, described('Runs of this experiment; `""` for sessions of none.')
    ] = ""
    subagents: Annotated[
        bool, described("Sub-agents as rows, every row with its own figures alone.")
    ] = False
    sort: Literal["started", "cost", "duration", "turns", "tokens", "failures"] = "started"
    order: Literal["asc", "desc"] = "desc"
    after: Annotated[
        Text,
        described(
            "`next` of the page before; empty for the first page.",
            pattern="^([0-9]{1,19}_-?[0-9]{1,19})?$",
        ),
    ] = ""
    limit: PageSize = 50


class StepListParameters(Struct, frozen=True, kw_only=True):
    step: Annotated[
        int,
        Meta(ge=1, le=10**9, description="The first step: 1, or `next` of the part before."),
    ] = 1
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class SkillDayParameters(Struct, frozen=True, kw_only=True):
    since: Since = DEFAULT_SINCE
    until: Until = ""
    skill: Text = ""


class SkillAverageParameters(Struct, frozen=True, kw_only=True):
    window_days: Annotated[int, Meta(ge=1, le=3650)] = 14
    alpha: (
        Annotated[
            float,
            Meta(ge=0.001, le=0.999),
            described("The newest day's weight, 0.3 by default; not with half_life_days."),
        ]
        | UnsetType
    ) = UNSET
    half_life_days: (
        Annotated[
            float, Meta(ge=0.01, le=3650), described("After how many days a use counts half.")
        ]
        | UnsetType
    ) = UNSET


class ComparisonParameters(Struct, frozen=True, kw_only=True):
    models: Annotated[
        str,
        Meta(max_length=2000),
        described(
            "Only these models, comma-separated.",
            style="form",
            items={"type": "string", "minLength": 1, "pattern": "^[^,]*$"},
            minItems=2,
            maxItems=20,
        ),
    ] = ""
    margin: Annotated[float, Meta(gt=0, lt=1), described("The loss that is acceptable.")] = 0.05


class SkillComparisonParameters(ComparisonParameters, frozen=True, kw_only=True):
    skill: Name
    job: Annotated[Text, described("Only runs in this job.")] = ""


class RunListParameters(Struct, frozen=True, kw_only=True):
    job: Annotated[Text, described("Only runs of this job.")] = ""
    failed: Annotated[bool, described("Only runs that failed.")] = False
    since: Since = "all"
    limit: PageSize = 100


class HealthParameters(Struct, frozen=True, kw_only=True):
    depth: Annotated[
        Literal["quick", "usual", "deep"],
        described("quick: some milliseconds; usual: the whole database; deep: also all tapes."),
    ] = "quick"


class TemplateListParameters(Struct, frozen=True, kw_only=True):
    state: Annotated[
        Literal["live", "candidate", "retired", "all"], described("By default those in use.")
    ] = "live"
    category: Category | UnsetType = UNSET
    task_type: TaskType | UnsetType = UNSET
    tags: Annotated[Text, described("Comma-separated words; a template has all of them.")] = ""
    max_examples: (
        Annotated[int, Meta(ge=0, le=10**6), described("With at most so many calls.")] | UnsetType
    ) = UNSET
    project: Annotated[
        Text, described("Only projects with this in their folder; in quotes the whole folder.")
    ] = ""
    sort: Annotated[
        Literal["newest", "best"],
        described("best: by outcome, then results, then score."),
    ] = "newest"


class ProvisionListParameters(Struct, frozen=True, kw_only=True):
    template: Annotated[Name, described("Only those for which this template was chosen.")] = ""
    arm: (
        Annotated[
            Literal["warm", "cold", "continued"],
            described("Given a template, not given one, or going on from an earlier session."),
        ]
        | UnsetType
    ) = UNSET
    limit: PageSize = 50


class TemplateParameters(Struct, frozen=True, kw_only=True):
    version: Annotated[Version, described("By default the newest.")] | UnsetType = UNSET


class HoldoutParameters(Struct, frozen=True, kw_only=True):
    template: Annotated[Text, described("Only sessions for which this template was chosen.")] = ""
    plan: Annotated[Version, described("The number of an earlier plan.")] | UnsetType = UNSET


class TraceParameters(Struct, frozen=True, kw_only=True):
    turn: Annotated[Version, described("Only this turn, from 1.")] | UnsetType = UNSET


class LabelBody(Struct, frozen=True, kw_only=True):
    """A person's label for a session; `clear` takes it back."""

    outcome: OutcomeName | Literal["clear"]
    why: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET


class CaptureBody(Struct, frozen=True, kw_only=True):
    """A template to be captured from a session that passes the quality gate."""

    name: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    description: Annotated[str, Meta(max_length=2000)] = ""
    tags: Annotated[str, Meta(max_length=2000), described("Comma-separated words.")] = ""
    category: Category | UnsetType = UNSET
    task_type: TaskType | UnsetType = UNSET
    max_examples: Annotated[int, Meta(ge=1, le=10**6), described("Calls at most.")] | UnsetType = (
        UNSET
    )
    project: Text | UnsetType = UNSET
    outcome: OutcomeName | UnsetType = UNSET
    force: Annotated[bool, described("Capture it whatever the gate says; this is recorded.")] = (
        False
    )


class CaptureSessionBody(CaptureBody, frozen=True, kw_only=True):
    """A template to be captured from the session named."""

    session_id: Name


class RetireBody(Struct, frozen=True, kw_only=True):
    """The reason for which a template is retired."""

    why: Annotated[str, Meta(max_length=300)] = "a person said so"
