"""Provisions: the latest decisions how sessions begin, with their reasons and outcomes."""

from relight.warm.listing import ARMS, list_provisions
from relight.web.page import Context, View

SHOWN = 100


def show(view: View) -> Context:
    """Return the latest provisions, of all templates or of the one in the address."""
    template = view.query.get("template") or None
    arm = view.query.get("arm")
    arm = arm if arm in ARMS else None
    found = list_provisions(view.store, template=template, arm=arm, limit=SHOWN)
    return {
        "provisions": found.provisions,
        "total": found.total,
        "within": {"template": template, "arm": arm},
        "arms": ARMS,
    }
