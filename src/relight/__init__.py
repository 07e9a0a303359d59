"""Relight: the flight recorder and warm start for AI agents.

Names are loaded when they are used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relight.chat.messages import shorten_tool_results as shorten_tool_results
    from relight.chat.validity import validate_messages as validate_messages
    from relight.errors import ModelContextError as ModelContextError
    from relight.errors import RelightError as RelightError
    from relight.intake.importing import import_all as import_all
    from relight.intake.recorder import SessionTracker as SessionTracker
    from relight.intake.recorder import record as record
    from relight.judging.failures import classify_error as classify_error
    from relight.judging.kinds import classify_session as classify_session
    from relight.judging.scoring import score_session as score_session
    from relight.judging.verdicts import judge_call as judge_call
    from relight.models.retrying import execute_with_retry as execute_with_retry
    from relight.models.retrying import execute_with_retry_async as execute_with_retry_async
    from relight.reports.budgets import read_budgets as read_budgets
    from relight.reports.cache_rebuilds import read_cache_report as read_cache_report
    from relight.reports.comparison.models import compare_job as compare_job
    from relight.reports.comparison.models import compare_models as compare_models
    from relight.reports.doctor import examine as examine
    from relight.reports.export_files import export_sessions as export_sessions
    from relight.reports.failures import read_failures as read_failures
    from relight.reports.filters import read_filter as read_filter
    from relight.reports.git_costs import read_cost as read_cost
    from relight.reports.labels import label_session as label_session
    from relight.reports.lessons import find_lessons as find_lessons
    from relight.reports.limits import read_limits_report as read_limits_report
    from relight.reports.listing import list_sessions as list_sessions
    from relight.reports.search import Hit as Hit
    from relight.reports.search import search as search
    from relight.reports.sessions import find_session as find_session
    from relight.reports.sessions import read_session as read_session
    from relight.reports.skills.averages import SkillEma as SkillEma
    from relight.reports.skills.averages import query_skill_ema as query_skill_ema
    from relight.reports.skills.uses import record_skill_invocation as record_skill_invocation
    from relight.reports.totals import report as report
    from relight.reports.trace import read_trace as read_trace
    from relight.store import open_store as open_store
    from relight.store.misses import record_safely as record_safely
    from relight.store.queries.filters import Filter as Filter
    from relight.store.queries.listing import Listing as Listing
    from relight.store.queries.runs import read_runs as read_runs
    from relight.warm.candidates import capture_candidates as capture_candidates
    from relight.warm.capture import capture_template as capture_template
    from relight.warm.choice import choose_template as choose_template
    from relight.warm.choice import rank_templates as rank_templates
    from relight.warm.injection import inject as inject
    from relight.warm.listing import list_provisions as list_provisions
    from relight.warm.listing import list_templates as list_templates
    from relight.warm.listing import load_template as load_template
    from relight.warm.provision import provision_session as provision_session
    from relight.warm.results import read_template_stats as read_template_stats
    from relight.warm.seeds import extract_seed as extract_seed
    from relight.warm.sharing import export_template as export_template
    from relight.warm.sharing import import_template as import_template
    from relight.warm.sharing import read_template_file as read_template_file
    from relight.work.agent.limits import Budget as Budget
    from relight.work.agent.session import run_prompt as run_prompt
    from relight.work.experiments.holdout import read_holdout as read_holdout
    from relight.work.experiments.pairs import read_paired_report as read_paired_report
    from relight.work.experiments.register import find_experiment as find_experiment
    from relight.work.jobs.registry import list_jobs as list_jobs
    from relight.work.moa.openai_client import AsyncMoA as AsyncMoA
    from relight.work.moa.openai_client import MoA as MoA
    from relight.work.run_spec import RunSpec as RunSpec

# the public names, and the modules that hold them
NAMES = {
    "AsyncMoA": "work.moa.openai_client",
    "Budget": "work.agent.limits",
    "Filter": "store.queries.filters",
    "Hit": "reports.search",
    "Listing": "store.queries.listing",
    "MoA": "work.moa.openai_client",
    "ModelContextError": "errors",
    "RelightError": "errors",
    "RunSpec": "work.run_spec",
    "SessionTracker": "intake.recorder",
    "SkillEma": "reports.skills.averages",
    "capture_candidates": "warm.candidates",
    "capture_template": "warm.capture",
    "choose_template": "warm.choice",
    "classify_error": "judging.failures",
    "classify_session": "judging.kinds",
    "compare_job": "reports.comparison.models",
    "compare_models": "reports.comparison.models",
    "examine": "reports.doctor",
    "execute_with_retry": "models.retrying",
    "execute_with_retry_async": "models.retrying",
    "export_sessions": "reports.export_files",
    "export_template": "warm.sharing",
    "extract_seed": "warm.seeds",
    "find_experiment": "work.experiments.register",
    "find_lessons": "reports.lessons",
    "find_session": "reports.sessions",
    "import_all": "intake.importing",
    "import_template": "warm.sharing",
    "inject": "warm.injection",
    "judge_call": "judging.verdicts",
    "label_session": "reports.labels",
    "list_jobs": "work.jobs.registry",
    "list_provisions": "warm.listing",
    "list_sessions": "reports.listing",
    "list_templates": "warm.listing",
    "load_template": "warm.listing",
    "open_store": "store",
    "provision_session": "warm.provision",
    "query_skill_ema": "reports.skills.averages",
    "rank_templates": "warm.choice",
    "read_budgets": "reports.budgets",
    "read_cache_report": "reports.cache_rebuilds",
    "read_cost": "reports.git_costs",
    "read_failures": "reports.failures",
    "read_filter": "reports.filters",
    "read_holdout": "work.experiments.holdout",
    "read_limits_report": "reports.limits",
    "read_paired_report": "work.experiments.pairs",
    "read_runs": "store.queries.runs",
    "read_session": "reports.sessions",
    "read_template_file": "warm.sharing",
    "read_template_stats": "warm.results",
    "read_trace": "reports.trace",
    "record": "intake.recorder",
    "record_safely": "store.misses",
    "record_skill_invocation": "reports.skills.uses",
    "report": "reports.totals",
    "run_prompt": "work.agent.session",
    "score_session": "judging.scoring",
    "search": "reports.search",
    "shorten_tool_results": "chat.messages",
    "validate_messages": "chat.validity",
}


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(import_module(f"relight.{NAMES[name]}"), name)
    raise AttributeError(f"module 'relight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*NAMES, "__version__"]
