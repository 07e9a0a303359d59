"""Relight: the flight recorder and warm start for AI agents.

Names are loaded when they are used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relight.averages import SkillEma as SkillEma
    from relight.averages import query_skill_ema as query_skill_ema
    from relight.comparing import compare_models as compare_models
    from relight.errors import RelightError as RelightError
    from relight.failures import classify_error as classify_error
    from relight.misses import record_safely as record_safely
    from relight.moa import AsyncMoA as AsyncMoA
    from relight.moa import MoA as MoA
    from relight.recording import SessionTracker as SessionTracker
    from relight.recording import record as record
    from relight.retrying import execute_with_retry as execute_with_retry
    from relight.retrying import execute_with_retry_async as execute_with_retry_async
    from relight.scoring import score_session as score_session
    from relight.seeds import extract_seed as extract_seed
    from relight.skills import record_skill_invocation as record_skill_invocation
    from relight.store import open_store as open_store
    from relight.taxonomy import classify_session as classify_session
    from relight.templates.capture import capture_template as capture_template
    from relight.templates.choice import choose_template as choose_template
    from relight.templates.choice import rank_templates as rank_templates
    from relight.templates.injection import inject as inject
    from relight.templates.provision import provision_session as provision_session
    from relight.validity import validate_messages as validate_messages
    from relight.verdicts import judge_call as judge_call

# the public names, and the modules that hold them
NAMES = {
    "AsyncMoA": "moa",
    "MoA": "moa",
    "RelightError": "errors",
    "SessionTracker": "recording",
    "SkillEma": "averages",
    "capture_template": "templates.capture",
    "choose_template": "templates.choice",
    "classify_error": "failures",
    "classify_session": "taxonomy",
    "compare_models": "comparing",
    "execute_with_retry": "retrying",
    "execute_with_retry_async": "retrying",
    "extract_seed": "seeds",
    "inject": "templates.injection",
    "judge_call": "verdicts",
    "open_store": "store",
    "provision_session": "templates.provision",
    "query_skill_ema": "averages",
    "rank_templates": "templates.choice",
    "record": "recording",
    "record_safely": "misses",
    "record_skill_invocation": "skills",
    "score_session": "scoring",
    "validate_messages": "validity",
}


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(import_module(f"relight.{NAMES[name]}"), name)
    raise AttributeError(f"module 'relight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*NAMES, "__version__"]
