"""Relight: the flight recorder and warm start for AI agents.

Names are loaded when they are used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relight.chat.shorten import shorten_tool_results as shorten_tool_results
    from relight.chat.validity import validate_messages as validate_messages
    from relight.errors import ModelContextError as ModelContextError
    from relight.errors import RelightError as RelightError
    from relight.intake.recorder import SessionTracker as SessionTracker
    from relight.intake.recorder import record as record
    from relight.judging.failures import classify_error as classify_error
    from relight.judging.kinds import classify_session as classify_session
    from relight.judging.scoring import score_session as score_session
    from relight.judging.verdicts import judge_call as judge_call
    from relight.models.retrying import execute_with_retry as execute_with_retry
    from relight.models.retrying import execute_with_retry_async as execute_with_retry_async
    from relight.reports.comparison.models import compare_models as compare_models
    from relight.reports.search import Hit as Hit
    from relight.reports.search import search as search
    from relight.reports.skills.averages import SkillEma as SkillEma
    from relight.reports.skills.averages import query_skill_ema as query_skill_ema
    from relight.reports.skills.uses import record_skill_invocation as record_skill_invocation
    from relight.store import open_store as open_store
    from relight.store.misses import record_safely as record_safely
    from relight.warm.capture import capture_template as capture_template
    from relight.warm.choice import choose_template as choose_template
    from relight.warm.choice import rank_templates as rank_templates
    from relight.warm.injection import inject as inject
    from relight.warm.provision import provision_session as provision_session
    from relight.warm.seeds import extract_seed as extract_seed
    from relight.work.moa.openai_client import AsyncMoA as AsyncMoA
    from relight.work.moa.openai_client import MoA as MoA

# the public names, and the modules that hold them
NAMES = {
    "AsyncMoA": "work.moa.openai_client",
    "Hit": "reports.search",
    "MoA": "work.moa.openai_client",
    "ModelContextError": "errors",
    "RelightError": "errors",
    "SessionTracker": "intake.recorder",
    "SkillEma": "reports.skills.averages",
    "capture_template": "warm.capture",
    "choose_template": "warm.choice",
    "classify_error": "judging.failures",
    "classify_session": "judging.kinds",
    "compare_models": "reports.comparison.models",
    "execute_with_retry": "models.retrying",
    "execute_with_retry_async": "models.retrying",
    "extract_seed": "warm.seeds",
    "inject": "warm.injection",
    "judge_call": "judging.verdicts",
    "open_store": "store",
    "provision_session": "warm.provision",
    "query_skill_ema": "reports.skills.averages",
    "rank_templates": "warm.choice",
    "record": "intake.recorder",
    "record_safely": "store.misses",
    "record_skill_invocation": "reports.skills.uses",
    "score_session": "judging.scoring",
    "search": "reports.search",
    "shorten_tool_results": "chat.shorten",
    "validate_messages": "chat.validity",
}


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(import_module(f"relight.{NAMES[name]}"), name)
    raise AttributeError(f"module 'relight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*NAMES, "__version__"]
