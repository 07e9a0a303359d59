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
    from relight.retrying import execute_with_retry as execute_with_retry
    from relight.retrying import execute_with_retry_async as execute_with_retry_async
    from relight.skills import record_skill_invocation as record_skill_invocation
    from relight.store import open_store as open_store
    from relight.verdicts import judge_call as judge_call

# the public names, and the modules that hold them
NAMES = {
    "RelightError": "errors",
    "SkillEma": "averages",
    "classify_error": "failures",
    "compare_models": "comparing",
    "execute_with_retry": "retrying",
    "execute_with_retry_async": "retrying",
    "judge_call": "verdicts",
    "open_store": "store",
    "query_skill_ema": "averages",
    "record_safely": "misses",
    "record_skill_invocation": "skills",
}


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(import_module(f"relight.{NAMES[name]}"), name)
    raise AttributeError(f"module 'relight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*NAMES, "__version__"]
