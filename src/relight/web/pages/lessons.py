"""Lessons: what sessions of a project stumble over again and again, and what worked."""

from itertools import groupby

from relight.reports.lessons import list_lessons
from relight.store.queries.filters import Filter
from relight.web.page import Context, View


def show(view: View) -> Context:
    """Return the lessons of the chosen project or of all, each project's together."""
    chosen = Filter(project=view.chosen.project, folders=view.chosen.folders)
    found = list_lessons(view.store, chosen)
    projects = groupby(found.lessons, lambda one: (one.project, one.machine))
    return {
        "projects": [(project, machine, list(some)) for (project, machine), some in projects],
        "found": found,
    }
