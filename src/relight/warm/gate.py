"""The quality gate: which sessions make a template, and why others do not.

A page and a command ask the index, which answers at once, and so give the same reasons. Messages
that a program passes are measured.
"""

from msgspec import Struct

from relight.chat.messages import list_own
from relight.errors import RelightError, as_typed
from relight.judging import scoring
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.candidates import read_gate_counts
from relight.text import plural

# a session that recovered may have failed this often in all
RECOVERED_RATE = 0.5


class GateFigures(Struct, frozen=True, kw_only=True):
    """The figures of a session that the gate is about; rates are None if no call was judged.

    `late_error_rate` is that of the later half of the calls.
    """

    messages: int
    calls: int
    error_rate: float | None
    late_error_rate: float | None = None
    outcome: str
    evidence: list[str]


def read_figures(store: Store, session_id: int, *, outcome: str | None = None) -> GateFigures:
    """Return the figures of a recorded session; `outcome` is what a person says of it."""
    found = read_gate_counts(store, session_id)
    messages = found.messages
    if messages < scoring.PROFICIENT_MESSAGES:
        # the index leaves out answers without words; so short a session is counted in no time
        messages = len(list_own(read_transcript(store, session_id).messages))
    return GateFigures(
        messages=messages,
        calls=found.calls,
        error_rate=found.errors / found.judged if found.judged else None,
        late_error_rate=found.late_errors / found.late if found.late else None,
        outcome=outcome or found.outcome,
        evidence=found.evidence,
    )


def make_figures(score: scoring.Score, outcome: str, evidence: list[str]) -> GateFigures:
    """Return the figures of messages that were scored."""
    return GateFigures(
        messages=score.total_messages,
        calls=score.tool_calls,
        error_rate=score.error_rate,
        late_error_rate=score.late_error_rate,
        outcome=outcome,
        evidence=evidence,
    )


def is_recovered(figures: GateFigures, *, most: float = scoring.SUCCESSFUL_FAILURE_RATE) -> bool:
    """True if a session failed early and worked then: what cured it teaches most."""
    early, late = figures.error_rate, figures.late_error_rate
    return early is not None and late is not None and early <= RECOVERED_RATE and late <= most


def find_failed_rules(
    figures: GateFigures, *, most: float = scoring.SUCCESSFUL_FAILURE_RATE
) -> list[str]:
    """Return the rules of the quality gate that a session fails, each with its figure.

    At most the share `most` of its calls may have failed, or of the later half of them.
    """
    failed = []
    calls = plural(figures.calls, "call")
    if not scoring.is_proficient(figures.messages, figures.calls):
        failed.append(
            f"too short: {plural(figures.messages, 'message')} and {calls},"
            " at least 20 and 5 are needed"
        )
    if figures.error_rate is None and figures.calls:
        failed.append(f"nothing shows whether its {calls} failed")
    elif (figures.error_rate or 0.0) > most and not is_recovered(figures, most=most):
        failed.append(
            f"too many failures: {figures.error_rate:.1%} of {calls} failed, at most {most:.0%} may"
        )
    if figures.outcome == "failure":
        why = figures.evidence[0] if figures.evidence else "no evidence is recorded"
        failed.append(f"it failed: {why}")
    elif figures.outcome != "success":
        hint = as_typed("`relight label` sets it")
        failed.append(f"its outcome is unknown: nothing shows that it succeeded ({hint})")
    return failed


def refuse_session(name: str, failed: list[str]) -> RelightError:
    """Return the error about a session that fails these rules."""
    return RelightError(
        f"{name} does not make a template: {failed[0]}",
        "`relight template create --force`, in Python `force=True`, overrules this, and the"
        " template records it"
        if len(failed) == 1
        else f"also: {'; '.join(failed[1:])}",
    )


def find_refusal(
    store: Store, session_id: int, name: str, *, outcome: str | None = None
) -> RelightError | None:
    """Return why a recorded session fails the gate, or cannot be read; None if it passes."""
    try:
        failed = find_failed_rules(read_figures(store, session_id, outcome=outcome))
    except RelightError as error:
        return error
    return refuse_session(name, failed) if failed else None


def refuse_repetition(template: str) -> RelightError:
    """Return the error about a session of which this live template was made."""
    return RelightError(f"{template} has the same content")
