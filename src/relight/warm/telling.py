"""A template as JSON, as the command line and the dashboard's API give it."""

from typing import Any

from relight.times import write_time
from relight.warm.injection import render_template
from relight.warm.library import Template

WARNINGS = {
    "unknown": "no outcome is known: a score alone ranks a success above a failure"
    " in 6 cases of 10",
    "failure": "the session failed: what it shows did not lead to success",
}


def show_template(template: Template, *, with_seed: bool = True) -> dict[str, Any]:
    left_out = ("id", "actions", "seed", "created_at", "retired_at", "proposed_at", "content_hash")
    names = [name for name in template.__struct_fields__ if name not in left_out]
    shown: dict[str, Any] = {name: getattr(template, name) for name in names}
    shown["state"] = template.state
    shown["created_at"] = write_time(template.created_at)
    shown["retired_at"] = write_time(template.retired_at)
    if warning := WARNINGS.get(template.outcome):
        shown["warning"] = warning
    if with_seed:
        shown |= {"seed": template.seed, "text": render_template(template)}
    return shown
