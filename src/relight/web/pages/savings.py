"""Savings by cheaper models in jobs and skills, and the runs it takes to know."""

from relight.reports.savings import describe_need, read_savings
from relight.web.page import Context, View


def show(view: View) -> Context:
    """Return every job and skill that ran in the last 30 days, the largest saving first."""
    items = read_savings(view.store).items
    return {
        "items": [one for one in items if one.candidates],
        "others": [one for one in items if not one.candidates],
        "describe_need": describe_need,
    }
