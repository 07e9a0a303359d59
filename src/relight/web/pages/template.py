"""One template: its content, its source, and the results of each version."""

from typing import Any

from relight.chat.messages import read_calls, read_text
from relight.errors import MissingError, RelightError
from relight.stats.rates import Estimate, wilson
from relight.store.provisions import count_arm_outcomes
from relight.text import cut_visible, share
from relight.warm.injection import render_template
from relight.warm.library import find_template, read_versions
from relight.warm.results import read_stats
from relight.web.charts.intervals import IntervalRow, draw_intervals
from relight.web.measuring import ARM_COLOURS
from relight.web.page import Context, View, find_view_number
from relight.web.pages.templates import COUNTED


def show(view: View) -> Context:
    """Return the template in the address, in its newest version or the one given."""
    store, name = view.store, view.path["name"]
    try:
        found = find_template(store, name, version=find_view_number(view, "version"))
    except RelightError as error:
        raise MissingError(error.message, error.hint) from error
    arms = []
    for arm, title in (("cold", "held out cold"), ("warm", "started warm")):
        counts = count_arm_outcomes(store, arm, template_id=found.id)
        known = sum(counts)
        interval = wilson(counts[0], known) if known else None
        arms.append(
            IntervalRow(
                name=title,
                estimate=Estimate(counts[0] / known, interval.low, interval.high)
                if interval
                else None,
                note=f"{counts[0]:.0f} of {known:.0f} sessions of known outcome",
                colour=ARM_COLOURS[arm],
            )
        )
    return {
        "one": found,
        "versions": read_versions(store, name),
        "nothing": dict.fromkeys(COUNTED, 0),
        "stats": {row.version: row for row in read_stats(store) if row.template == name},
        "arms": draw_intervals(
            "Success with and without it", arms, formatter=share, bounds=(0.0, 1.0)
        ),
        "has_outcomes": any(arm.estimate for arm in arms),
        "seed": [show_message(message) for message in found.seed],
        "text": render_template(found),
        "cut": cut_visible,
    }


def show_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the seed: role, text and calls."""
    return {
        "role": message.get("role"),
        "text": read_text(message.get("content")),
        "calls": [(call.tool, read_text(call.arguments)) for call in read_calls(message)],
    }
