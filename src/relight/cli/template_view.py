"""A template in words."""

from relight.warm.library import Template
from relight.warm.telling import WARNINGS
from relight.warm.telling import show_template as show_template


def tell_template(template: Template) -> str:
    score = "no score" if template.score is None else f"score {template.score:.2f}"
    told = f"{template.category}, {template.tokens} tokens, {score}, outcome {template.outcome}"
    warning = WARNINGS.get(template.outcome)
    return f"{told}\n{warning}" if warning else told


def tell_redactions(template: Template) -> str:
    if not template.redactions:
        return "redaction took nothing out"
    parts = ", ".join(f"{count} {rule}" for rule, count in sorted(template.redactions.items()))
    return f"redaction took out: {parts}"


def tell_origin(template: Template) -> list[str]:
    """Where a template comes from, what speaks for it, and whether it is used."""
    lines = []
    if template.source_session:
        lines.append(f"made of {template.source_session}")
    if template.provenance:
        known = ", ".join(f"{name} {value}" for name, value in template.provenance.items())
        lines.append(f"foreign: {known}")
    lines += [f"evidence: {one}" for one in template.evidence]
    lines += [f"overruled by --force: {rule}" for rule in template.overruled]
    match template.state:
        case "retired":
            lines.append(f"retired: {template.retired_why}")
        case "candidate":
            lines.append("a candidate, not used until `relight template accept` takes it")
    return lines
