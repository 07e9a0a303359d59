"""Lists of templates, and of the sessions for which one was chosen."""

from collections.abc import Sequence

from msgspec import Struct

from relight.errors import MissingError, check_choice, check_count, check_text, refuse
from relight.reports.filters import is_in_project
from relight.store import Store
from relight.store.provisions import ProvisionRow, count_provisions, read_provisions
from relight.store.queries import take_fields
from relight.times import write_time
from relight.warm import library
from relight.warm.curation import sort_by_worth
from relight.warm.library import Template

STATES = ("live", "candidate", "retired", "all")
SORTS = ("newest", "best")
ARMS = ("warm", "cold", "continued")


class ListedProvision(Struct, frozen=True, kw_only=True):
    """The decision how a session begins, and the session's outcome.

    A cold one names the template that was held out; without one, `reason` says why.
    `outcome` is None if no recorded session followed.
    """

    provision: str
    at: str | None
    session_id: str
    is_followed: bool
    outcome: str | None
    arm: str
    template: str | None
    template_version: int | None
    similarity: float | None
    reason: str
    project: str | None
    category: str | None
    tokens: int | None
    # None if the project had no lessons to give
    lessons: bool | None
    experiment: str | None


class ProvisionList(Struct, frozen=True):
    """Provisions, newest first, and how many there are."""

    provisions: list[ListedProvision]
    total: int


def list_templates(
    store: Store,
    *,
    state: str = "live",
    category: str | None = None,
    task_type: str | None = None,
    tags: Sequence[str] = (),
    max_examples: int | None = None,
    project: str | None = None,
    sort: str = "newest",
) -> list[Template]:
    """Return templates in their newest versions: those in use, or of another state, or "all".

    A template must have all the `tags`. `project` is a part of its folder, or in quotes the whole.
    The best of a category have the best outcome, then the best results, then the highest score.
    """
    check_choice("state", state, STATES)
    check_choice("sort", sort, SORTS)
    library.check_kind(category=category, task_type=task_type)
    library.check_words(tags=tags)
    if max_examples is not None:
        check_count("max_examples", max_examples)
    found = [
        one
        for one in (*library.read_templates(store), *library.read_candidates(store))
        if state in ("all", one.state)
        and category in (None, one.category)
        and task_type in (None, one.task_type)
        and set(tags) <= set(one.tags)
        and (max_examples is None or library.count_examples(one) <= max_examples)
        and is_in_project(one.project, project or "")
    ]
    if sort == "best":
        return sort_by_worth(store, found)[::-1]
    return sorted(found, key=lambda one: (-one.created_at, one.name))


def load_template(
    store: Store,
    name: str | None = None,
    *,
    version: int | None = None,
    category: str | None = None,
    project: str | None = None,
) -> Template:
    """Return a template by name, or the best one in use of a category; raise if there is none."""
    if name is not None:
        return library.find_template(store, name, version=version)
    if category is None:
        raise refuse("name", "must be given", "or the category of which the best one is meant")
    if found := list_templates(store, category=category, project=project, sort="best"):
        return found[0]
    where = f" of {project}" if project else ""
    raise MissingError(
        f"no template of category {category}{where} is in use", "`relight template list` shows them"
    )


def list_provisions(
    store: Store, *, template: str | None = None, arm: str | None = None, limit: int = 20
) -> ProvisionList:
    """Return the latest decisions how sessions begin, of all templates or of one."""
    if template is not None:
        template = library.find_template(store, check_text("template", template)).name
    if arm is not None:
        check_choice("arm", arm, ARMS)
    check_count("limit", limit, least=1)
    rows = read_provisions(store, template=template, arm=arm, limit=limit)
    total = count_provisions(store, template=template, arm=arm)
    return ProvisionList([_show_provision(row) for row in rows], total)


def _show_provision(row: ProvisionRow) -> ListedProvision:
    return ListedProvision(
        **take_fields(row, ListedProvision, but=["outcome"]),
        provision=row.id,
        at=write_time(row.created_at),
        session_id=row.session or ":".join(filter(None, (row.source, row.session_key))),
        is_followed=row.session is not None,
        outcome=None if row.session is None else row.outcome or "unknown",
        template_version=row.version,
        lessons=None if row.has_lessons is None else bool(row.has_lessons),
    )
