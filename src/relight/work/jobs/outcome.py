"""What came of a run, by the evidence: a failure is never dressed up as a success.

Elsewhere a script that failed was shown as "ok" for 24 days, because the agent had told of it
politely.
"""

import re

from relight.judging.failures import find_failure_phrase
from relight.judging.outcomes import SCRIPT_FAILED, SILENT
from relight.model import Outcome
from relight.work.jobs.runners import Ran
from relight.work.jobs.scripts import ScriptResult

_SILENT = re.compile(rf"[\s`*_]*{re.escape(SILENT)}[\s`*_.]*")
_REASON = re.compile(rf"{re.escape(SCRIPT_FAILED)}:?[ \t]*([^\n]*)")


def judge_run(ran: Ran | None, script: ScriptResult | None = None) -> Outcome:
    """Success or failure of a run, with all the evidence, the deciding piece first.

    Without `ran` the agent never began: the script let it sleep, or no time was left for it.

    >>> judge_run(Ran(answer="[SCRIPT_FAILED]: no disk")).outcome
    'failure'
    >>> judge_run(Ran(answer="[SILENT]")).evidence
    ['the answer is [SILENT]: nothing to report']
    """
    failures = []
    if script is not None and script.failure:
        failures.append(f"the job's script failed: {script.failure}")
    if ran is not None:
        failures = [*find_failures(ran), *failures]
    elif script is None or script.wakes_agent:
        failures.append("its time was over before the agent could begin")
    others = list(ran.evidence) if ran else []
    if failures:
        return Outcome("failure", [*failures, *others])
    if ran is None:
        return Outcome("success", ["the job's script said that the agent need not be woken"])
    if is_silent(ran.answer):
        return Outcome("success", [f"the answer is {SILENT}: nothing to report", *others])
    return Outcome("success", others or ["it ended with an answer"])


def find_failures(ran: Ran) -> list[str]:
    """What says that the agent failed; what it answered counts only if it came to an end."""
    if ran.ended_by:
        return [ran.ended_by]
    answer = (ran.answer or "").strip()
    if SCRIPT_FAILED in answer:
        found = _REASON.search(answer)
        reason = found[1].strip()[:300] if found else ""
        return [f"the answer says {SCRIPT_FAILED}{f': {reason}' if reason else ''}"]
    if not answer:
        return ["the answer is empty"]
    if phrase := find_failure_phrase(answer):
        return [f"the answer says: {phrase}"]
    return []


def is_silent(answer: str | None) -> bool:
    """Whether an answer says that there is nothing to report, and says nothing else.

    >>> is_silent(" `[SILENT]` "), is_silent("[SILENT] but the disk is full")
    (True, False)
    """
    return bool(_SILENT.fullmatch(answer or ""))
