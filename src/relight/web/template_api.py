"""Queries of the API about templates, their provisions, and the experiments that judge them."""

from msgspec import UNSET
from msgspec.structs import replace

from relight.store import Store
from relight.warm import library, listing, plans, results
from relight.warm.sharing import TemplateFile, make_file
from relight.web import parameters as given
from relight.web.parameters import Path
from relight.web.request import list_words
from relight.work.experiments import holdout, pairs, register


def list_templates(
    store: Store, asked: given.TemplateListParameters, _: Path
) -> library.TemplateList:
    """Templates, each in its newest version: those in use, and the number of candidates."""
    shown = listing.list_templates(
        store,
        state=asked.state,
        category=asked.category or None,
        task_type=asked.task_type or None,
        tags=list_words(asked.tags),
        max_examples=None if asked.max_examples is UNSET else asked.max_examples,
        project=asked.project or None,
        sort=asked.sort,
    )
    views = [library.show_template(one, with_seed=False) for one in shown]
    return library.TemplateList(views, candidates=len(library.read_candidates(store)))


def list_provisions(
    store: Store, asked: given.ProvisionListParameters, _: Path
) -> listing.ProvisionList:
    """Latest decisions how sessions begin, newest first, and the outcomes of these sessions."""
    template, arm = asked.template or None, asked.arm or None
    return listing.list_provisions(store, template=template, arm=arm, limit=asked.limit)


def export_template(store: Store, _: given.NoParameters, path: Path) -> TemplateFile:
    """One template as its file has it, unless redaction finds a secret in it."""
    return make_file(library.find_template(store, path["template"]))


def read_template_stats(store: Store, _: given.NoParameters, __: Path) -> results.TemplateStats:
    """Results of every version of every template, and totals by task type."""
    return results.read_template_stats(store)


def read_template(
    store: Store, asked: given.TemplateParameters, path: Path
) -> library.TemplateView:
    """One template with its seed."""
    found = library.find_template(store, path["template"], version=asked.version or None)
    versions = [one.version for one in library.read_versions(store, found.name)]
    return replace(library.show_template(found), versions=versions)


def read_experiment(store: Store, asked: given.HoldoutParameters, _: Path) -> holdout.HoldoutReport:
    """Warm starts compared with those held out cold, with a verdict."""
    template, plan = asked.template or None, asked.plan or None
    return holdout.read_holdout(store, template=template, plan=plan, may_retire=False)


def list_plans(store: Store, _: given.NoParameters, __: Path) -> plans.WarmPlanList:
    """Plans of the comparison of warm starts: the present one, then the earlier ones."""
    return plans.WarmPlanList(plans.read_warm_plans(store))


def list_experiments(store: Store, _: given.NoParameters, __: Path) -> register.ExperimentList:
    """Experiments that were run task by task, newest first."""
    return register.ExperimentList(register.summarise_experiments(store))


def read_pairs(store: Store, _: given.NoParameters, path: Path) -> pairs.PairedReport:
    """One experiment: the same tasks in both arms, with a verdict."""
    experiment = register.find_experiment(store, path["experiment"])
    return pairs.read_paired_report(store, experiment)
