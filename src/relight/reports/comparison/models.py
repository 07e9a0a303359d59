"""Comparisons of the models that ran a skill or a job: all runs of each, notes, and one verdict."""

import time
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError, RelightError, as_typed, check_number, check_text, refuse
from relight.names import find_model_name
from relight.reports.comparison import pairing
from relight.reports.comparison.pairing import RECENT_DAYS, Pairing, Place
from relight.reports.comparison.sentences import describe_pair, is_long, name_model
from relight.stats.odds import MARGIN
from relight.stats.rates import wilson
from relight.store import Store
from relight.store.canaries import count_trial_runs
from relight.store.queries import comparison as queries
from relight.store.queries import group_rows
from relight.store.queries.comparison import RunCell
from relight.store.queries.runs import find_job_names
from relight.store.queries.skills import list_skills, list_skills_of_job, read_versions_used
from relight.text import join_words, plural
from relight.times import take_time

Judge = Callable[[dict[Place, RunCell], dict[Place, RunCell]], Pairing]


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
    models = group_rows(cells, lambda cell: cell.model)
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
    return f"{plural(number, 'run')} of {what} {'is' if number == 1 else 'are'} left out"


class Comparison(Struct, frozen=True, kw_only=True):
    """The models of a skill or job, the costliest first, and whether a cheaper one will do.

    Each pair is a model and a more expensive one. `verdict` has the sentences of the pair that
    matters most: the cheapest model that is good enough, else one that may be.
    """

    skill_name: str | None
    job: str | None
    margin: float
    models: list[ModelArm]
    pairs: list[Pairing]
    verdict: str
    notes: list[str]


class JobComparisons(Struct, frozen=True):
    """Every job that ran on two models or more."""

    jobs: list[Comparison]


class SkillVerdict(Struct, frozen=True):
    """The verdict on the models of a skill in a few words."""

    model: str | None
    against: str | None
    verdict: str


def compare_models(
    store: Store,
    skill: str,
    *,
    models: Sequence[str] | None = None,
    margin: float = MARGIN,
    job: str | None = None,
    now: object = None,
) -> Comparison:
    """Compare a skill's models, each with the costliest, on the jobs that both ran.

    Good enough is a success rate within `margin` of the costlier model's. The verdict may be
    looked at after every run: a wrong one stays rare. `models` are names, or parts that only one
    has. Outside of jobs, the runs of a project are compared with each other.
    """
    check_text("skill", skill)
    at = _find_moment(store, now)
    cells = queries.read_skill_cells(store, skill, since=_since(at))
    if not cells:
        raise _refuse_skill(store, skill)
    if job is not None:
        cells = _choose_job(cells, skill, check_text("job", job))
    what = skill if job is None else f"{skill} in {job}"
    found = _compare(store, cells, what, models=models, margin=margin, now=at)
    versions = read_versions_used(store, skill)
    arms = [replace(arm, versions=versions.get(arm.model, [])) for arm in found.models]
    notes = [*note_versions(arms), *note_places(cells), *found.notes]
    return replace(found, skill_name=skill, job=job, models=arms, notes=notes)


def compare_job(
    store: Store,
    name: str,
    *,
    models: Sequence[str] | None = None,
    margin: float = MARGIN,
    now: object = None,
) -> Comparison:
    """Compare the models that ran a job, also one of another scheduler, whatever its skills."""
    names = find_job_names(store, check_text("job", name))
    if not names:
        raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
    if len(names) > 1:
        raise RelightError(f"several jobs are named {name!r}", f"name one of {', '.join(names)}")
    at = _find_moment(store, now)
    cells = queries.read_job_cells(store, names[0], since=_since(at))
    if not cells:
        raise MissingError(f"the job {name!r} has not run yet", "`relight job run` runs it now")
    found = _compare(store, cells, name, models=models, margin=margin, now=at)
    notes = found.notes
    if any(map(is_long, found.pairs)):
        notes = [
            *notes,
            *(
                as_typed(f"`relight skills compare {skill}` judges all jobs of {skill} together")
                for skill in list_skills_of_job(store, names[0])
            ),
        ]
    return replace(found, job=names[0], notes=notes)


def compare_jobs(store: Store, *, margin: float = MARGIN, now: object = None) -> JobComparisons:
    """Compare the models of every job that ran on two or more."""
    at = _find_moment(store, now)
    every = queries.read_job_cells(store, None, since=_since(at))
    found = []
    for job, cells in group_rows(every, lambda cell: cell.job or "").items():
        one = _compare(store, cells, cells[0].name or job, models=None, margin=margin, now=at)
        found.append(replace(one, job=job))
    return JobComparisons([one for one in found if one.pairs])


def judge_skills(store: Store, only: Container[str]) -> dict[str, SkillVerdict]:
    """Return the verdict on each of these skills that ran on two models, without estimates."""
    every = queries.read_skill_cells(store, None, since=0)
    verdicts = {}
    for skill, cells in group_rows(every, lambda cell: cell.skill).items():
        if skill is None or skill not in only:
            continue
        pairs = _pair(cells, make_arms(cells), lambda a, b: pairing.judge_pair(a, b, margin=MARGIN))
        if pair := _choose_pair(pairs):
            verdicts[skill] = SkillVerdict(pair.model, pair.against, pair.verdict)
    return verdicts


def _find_moment(store: Store, now: object) -> datetime:
    at = int(time.time() * 1000) if now is None else take_time("now", now)
    return datetime.fromtimestamp(at / 1000, UTC).astimezone(store.zone)


def _since(at: datetime) -> int:
    return int((at - timedelta(days=RECENT_DAYS)).timestamp() * 1000)


def _refuse_skill(store: Store, skill: str) -> MissingError:
    # people often type a part of the name
    known = sorted(list_skills(store), key=lambda name: (skill not in name, name))
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    hint = f"there are {', '.join(known[:8])}{more}" if known else "run `relight import` first"
    return MissingError(f"no use of a skill {skill!r} is recorded", hint)


def _choose_job(cells: Sequence[RunCell], skill: str, job: str) -> list[RunCell]:
    found = [cell for cell in cells if cell.job is not None and job in (cell.job, cell.name)]
    if not found:
        names = sorted({cell.name or cell.job for cell in cells if cell.job is not None})
        hint = f"it ran in {', '.join(names[:8])}" if names else "it ran in no job"
        raise MissingError(f"{skill} never ran in a job {job!r}", hint)
    return found


def _compare(
    store: Store,
    cells: Sequence[RunCell],
    what: str,
    *,
    models: Sequence[str] | None,
    margin: float,
    now: datetime,
) -> Comparison:
    check_number("margin", margin, least=0, below=1)
    if margin == 0:
        raise refuse("margin", "must be above 0: no number of runs shows that two are equal")
    arms = make_arms(cells)
    if models is not None:
        arms = choose_arms(arms, models, what)

    dealt = count_trial_runs(store)

    def judge(a: dict[Place, RunCell], b: dict[Place, RunCell]) -> Pairing:
        pair = pairing.mark_dealt(pairing.estimate_pair(a, b, margin=margin, now=now), dealt)
        return replace(pair, sentence=describe_pair(pair, what, margin=margin))

    pairs = _pair(cells, arms, judge)
    return Comparison(
        skill_name=None,
        job=None,
        margin=margin,
        models=arms,
        pairs=pairs,
        verdict=_find_verdict(what, arms, pairs),
        notes=find_notes(arms),
    )


def _pair(cells: Sequence[RunCell], arms: Sequence[ModelArm], judge: Judge) -> list[Pairing]:
    """Pair the costliest model that has known outcomes with each of the cheaper ones."""
    named = [arm for arm in arms if arm.model is not None]
    first = next((n for n, arm in enumerate(named) if arm.success_rate is not None), len(named))
    work = pairing.split_models(cells)
    pairs = []
    for arm in named[first + 1 :]:
        dear, cheap = work[named[first].model], work[arm.model]
        pair = judge(dear, cheap)
        if pair.is_cheaper is False and (turned := judge(cheap, dear)).is_cheaper:
            pair = turned  # on the work both did, the costs are the other way round
        pairs.append(pair)
    return pairs


def _find_verdict(what: str, arms: Sequence[ModelArm], pairs: Sequence[Pairing]) -> str:
    known = [arm for arm in arms if arm.success_rate is not None and arm.model is not None]
    if len(known) < 2:
        which = f"only {known[0].model} has" if known else "no model has"
        return f"Cannot tell yet: {which} runs of {what} with a known outcome."
    pair = _choose_pair(pairs)
    if pair is None:
        against = name_model(pairs[0].against)
        return f"No model is cheaper than {against}: a run costs the same on each."
    return pair.sentence


def _choose_pair(pairs: Sequence[Pairing]) -> Pairing | None:
    """Return the cheapest good model, else one that may be good, else the cheapest worse one."""
    asked = [pair for pair in pairs if pair.is_cheaper is not False]
    good = [pair for pair in asked if pair.verdict == "good enough"]
    if good:
        return next((pair for pair in reversed(good) if pair.is_cheaper), good[-1])
    if unsettled := [pair for pair in asked if not pair.is_settled]:
        return min(unsettled, key=lambda one: (one.reason != "few runs", one.more_runs or 1e9))
    return asked[-1] if asked else None
