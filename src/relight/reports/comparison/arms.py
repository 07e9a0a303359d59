"""The models that ran a skill or a job, each with all of its runs, and notes on them."""

from collections.abc import Sequence

from msgspec import Struct

from relight.errors import MissingError, RelightError, as_typed
from relight.names import find_model_name
from relight.reports.comparison.sentences import name_model
from relight.stats.rates import wilson
from relight.store.queries.comparison import RunCell
from relight.text import join_words


class ModelArm(Struct, frozen=True, kw_only=True):
    """The runs of one model; rates are over known outcomes, costs over known costs.

    These sums are of all jobs. Only the pairs compare models on the same work.
    """

    model: str | None
    runs: int
    successes: int
    failures: int
    unknown: int
    success_rate: float | None
    low: float
    high: float
    unpriced_runs: int
    cost_per_call_usd: float | None
    cost_per_success_usd: float | None
    versions: list[str]


def make_arms(cells: Sequence[RunCell]) -> list[ModelArm]:
    """Return the models, the costliest first; those without a known cost may be free."""
    models: dict[str | None, list[RunCell]] = {}
    for cell in cells:
        models.setdefault(cell.model, []).append(cell)
    arms = [_make_arm(model, own) for model, own in models.items()]
    return sorted(
        arms,
        key=lambda arm: (
            arm.cost_per_call_usd is None,
            -(arm.cost_per_call_usd or 0),
            -(arm.successes + arm.failures),
            arm.model or "",
        ),
    )


def _make_arm(model: str | None, cells: Sequence[RunCell]) -> ModelArm:
    runs, known, successes, priced, nanos = (
        sum(getattr(cell, name) for cell in cells)
        for name in ("runs", "known", "successes", "priced", "nanos")
    )
    rate = successes / known if known else None
    cost = nanos / 1e9 / priced if priced else None
    interval = wilson(successes, known)
    return ModelArm(
        model=model,
        runs=runs,
        successes=successes,
        failures=known - successes,
        unknown=runs - known,
        success_rate=rate,
        low=interval.low,
        high=interval.high,
        unpriced_runs=runs - priced,
        cost_per_call_usd=cost,
        cost_per_success_usd=cost / rate if cost is not None and rate else None,
        versions=[],
    )


def choose_arms(arms: Sequence[ModelArm], models: Sequence[str], what: str) -> list[ModelArm]:
    """Return the models that are named, each by its name or a part that only one has."""
    by_name = {arm.model or "unknown": arm for arm in arms}
    chosen = {}
    for name in models:
        short = find_model_name(name)
        whole = [one for one in (name, short) if one in by_name][:1]
        found = whole or [full for full in by_name if name in full]
        if len(found) != 1:
            reason = f"ran on several models like {name!r}" if found else f"never ran on {name!r}"
            raise MissingError(f"{what} {reason}", f"it ran on {', '.join(found or by_name)}")
        chosen[found[0]] = by_name[found[0]]
    if len(chosen) < 2:
        raise RelightError("models must name two or more to compare", "leave it out for all")
    return [arm for arm in arms if arm in chosen.values()]


def find_notes(arms: Sequence[ModelArm]) -> list[str]:
    """Return notes on unknown costs and outcomes."""
    notes = []
    unpriced = [arm.model for arm in arms if arm.cost_per_call_usd is None]
    if named := [model for model in unpriced if model is not None]:
        hint = as_typed("then run `relight rebuild --prices`")
        notes.append(
            f'the cost of {", ".join(named)} is unknown: add [prices."{named[0]}"] to config.toml,'
            f" or local_models_are_free = true for models on this machine, {hint}"
        )
    if None in unpriced:
        notes.append("the cost of runs on an unknown model is unknown")
    if lost := sum(arm.runs for arm in arms if arm.model is None):
        notes.append(f"{_leave_out(lost, 'an unknown model')} of the comparison")
    if partly := sum(arm.unpriced_runs for arm in arms if arm.cost_per_call_usd is not None):
        notes.append(f"{_leave_out(partly, 'unknown or partly known cost')} of the costs")
    if unknown := sum(arm.unknown for arm in arms):
        notes.append(_leave_out(unknown, "unknown outcome"))
    return notes


def note_versions(arms: Sequence[ModelArm]) -> list[str]:
    """Return a note if the models ran other versions of the skill."""
    if not _differ(arms):
        return []
    known = [arm for arm in arms if arm.versions]
    each = "; ".join(f"{name_model(arm.model)}: {', '.join(arm.versions[:3])}" for arm in known)
    return [
        f"the skill's versions differ between models ({each}), so part of a difference may be"
        " the skill's own"
    ]


def note_places(cells: Sequence[RunCell]) -> list[str]:
    """Return notes on runs outside of jobs: compared by project, or with not even that known."""
    loose = sum(cell.runs for cell in cells if cell.job is None and cell.project is None)
    projects = {cell.project for cell in cells if cell.project is not None}
    notes = []
    if projects:
        shown = join_words(sorted(one.rstrip("/").rpartition("/")[2] for one in projects)[:4])
        notes.append(f"runs outside of jobs are compared by project ({shown})")
    if loose:
        notes.append(
            "1 run has neither a job nor a project"
            if loose == 1
            else f"{loose:,} runs have neither a job nor a project: they are compared as one kind"
            " of work"
        )
    return notes


def _differ(arms: Sequence[ModelArm]) -> bool:
    """True if models ran other versions; a declared version and a hash may be of one text."""
    for is_hash in (False, True):
        own = [{v for v in arm.versions if v.startswith("sha256:") is is_hash} for arm in arms]
        if len({frozenset(versions) for versions in own if versions}) > 1:
            return True
    return False


def _leave_out(number: int, what: str) -> str:
    runs = "1 run" if number == 1 else f"{number:,} runs"
    return f"{runs} of {what} {'is' if number == 1 else 'are'} left out"
