"""Steps of a session for the terminal: one line for a call, texts below prompts and answers."""

from collections.abc import Iterator, Sequence
from itertools import islice

from relight.cli.screen import (
    Printer,
    clean,
    clean_lines,
    count,
    count_cells,
    dollars,
    fit_text,
    seconds,
)
from relight.reports.call_subjects import describe_call
from relight.reports.trace import Step
from relight.text import make_line

TEXT_LINES, TEXT_CHARACTERS = 15, 1500
RESULT_LINES, RESULT_CHARACTERS = 12, 1200
FOLLOWING = 2  # steps after a failure
STYLES = {"error": "red", "negative": "yellow", "ok": "green"}


class StepPrinter:
    """Prints steps in order; text of sessions is hostile and never reaches a terminal raw."""

    def __init__(self, *, is_full: bool, project: str | None = None) -> None:
        self._is_full = is_full
        # paths inside the project are shown as from there
        self._folder = f"{project}/" if project else None
        self._target = Printer()

    def print(self, step: Step) -> None:
        """Print a step: a call on one line, other steps with their texts."""
        if step.cache_rebuild is not None:
            self._target.print(f"    {step.cache_rebuild.sentence}", "yellow")
        if step.kind == "call":
            self._print_call(step)
            if self._is_full:
                self._print_text(step.arguments, indent=4, style="dim")
                self._print_text(step.result, indent=4)
            return
        if step.kind == "prompt":
            self._target.print()
        style = "bold red" if step.label == "error" else "bold" if step.kind == "prompt" else "dim"
        self._print_line(_head(step), _facts(step), style=style)
        if self._is_full or step.kind in ("prompt", "answer"):
            self._print_text(step.text, indent=4)
        elif step.text:  # a summary of what is above
            self._print_brief(step.text)
        if step.injected and self._is_full:
            self._print_text(step.injected, indent=4, style="dim")
        elif step.injected and not step.text:
            self._print_brief(step.injected)
        if step.label == "error":
            self._print_reason(step)

    def print_errors(self, steps: Sequence[Step]) -> int:
        """Print the failed steps, each under its prompt and with what followed; return how many."""
        prompt: Step | None = None
        shown = failed = 0
        for place, step in enumerate(steps):
            if step.kind == "prompt" and step.text:
                prompt = step
            if step.label != "error":
                continue
            failed += 1
            if prompt is not None and prompt.step > shown:
                self.print(prompt)
            self._target.print()
            self.print(step)
            if step.kind == "call" and not self._is_full:
                # the end of a result, where programs say what went wrong
                lines = (step.result or "")[-RESULT_CHARACTERS:].split("\n")
                result = "\n".join(lines[-RESULT_LINES:])
                if result.strip() not in (step.evidence or ""):
                    self._print_text(result, indent=4)
            later = islice(steps, place + 1, place + 1 + FOLLOWING)
            for one in later:
                if one.label == "error":
                    break
                self._print_line(f"  then {_head(one)}", _facts(one), style="dim")
                if one.kind != "call" and one.text:
                    self._print_text(clean(one.text)[:160], indent=4, style="dim")
            shown = step.step
        return failed

    def print_whole(self, step: Step) -> None:
        """Print everything about a step; what its line cuts off stands below it."""
        self._print_line(_head(step), _facts(step), style="bold")
        for name, value in _list_facts(step):
            self._target.print(f"  {name}: {clean(value)}", "dim")
        for name in ("text", "injected", "arguments", "result"):
            text = getattr(step, name)
            if text:
                self._target.print(f"\n{name}:", "bold")
                self._target.print(clean_lines(text))

    def _print_call(self, step: Step) -> None:
        self._print_line(_head(step), _facts(step), style=STYLES.get(step.label or "", ""))
        if step.label in ("error", "negative"):
            self._print_reason(step)

    def _print_reason(self, step: Step) -> None:
        said = [step.failure_kind, step.reason, step.evidence]
        words = list(dict.fromkeys(clean(one) for one in said if one))
        if words:
            limit = None if self._is_full else 300
            self._print_text(" · ".join(words)[:limit], indent=4, style="dim")

    def _print_line(self, head: str, facts: str, *, style: str) -> None:
        """Print one line that fits the window: the facts stay whole, the rest is cut."""
        head = clean(head)
        if self._folder and not self._is_full:
            head = head.replace(self._folder, "")
        room = self._target.width - count_cells(facts) - 3
        if count_cells(head) > room and not self._is_full:
            head = fit_text(head, max(room, 20) - 1).rstrip() + "…"
        if facts:
            head += self._target.paint(f" · {facts}", style or "dim")
        self._target.print(head)

    def _print_text(self, text: str | None, *, indent: int, style: str = "") -> None:
        if not text or not text.strip():
            return
        shown, rest = (text, 0) if self._is_full else cut_shown_text(text)
        self._target.print_words(shown.strip("\n"), style, indent=indent)
        if rest:
            self._target.print(f"{' ' * indent}… {rest:,} characters more: --full", "dim")

    def _print_brief(self, text: str) -> None:
        self._target.print(f"    {make_line(text, self._target.width - 4)}", "dim")


def cut_shown_text(text: str) -> tuple[str, int]:
    """Return the beginning of a text, and the number of characters left out.

    >>> cut_shown_text("short")
    ('short', 0)
    """
    shown = "\n".join(text[:TEXT_CHARACTERS].split("\n")[:TEXT_LINES])
    return shown, len(text) - len(shown)


def _head(step: Step) -> str:
    """The number, the time and the subject of a step."""
    start = f"{step.step:>3} {(step.at or '')[11:19] or '--:--:--'}"
    if step.kind == "call":
        return f"{start} {step.tool} {describe_call(step)}".rstrip()
    if step.kind == "pause":
        return f"{start} pause of {seconds((step.duration_ms or 0) / 1000)}"
    who: str = step.kind
    if step.kind == "prompt" and not step.text:
        who = "prompt that nobody typed"
    elif step.kind == "answer" and not step.text:
        who = "model call" if (step.turns or 0) <= 1 else f"{step.turns} model calls"
    role = f" ({step.role})" if step.role else ""
    model = f" {step.model}" if step.kind == "answer" and step.model and not step.text else ""
    return f"{start} {who}{role}{model}"


def _facts(step: Step) -> str:
    """Verdict, duration, and the cost so far where a model call adds to it."""
    facts: list[str] = []
    if step.label is not None:
        code = f" {step.exit_code}" if step.exit_code not in (None, 0) else ""
        facts.append(f"{step.label}{code}")
    if step.kind != "pause" and step.duration_ms is not None:
        facts.append(seconds(step.duration_ms / 1000))
    if step.turns is not None:
        if step.is_shared:
            facts.append("shared")
        elif step.included_usd:
            facts.append(dollars(step.cost_usd, included=step.included_usd))
        else:
            so_far = dollars(step.running_cost_usd, unpriced=step.running_unpriced_turns)
            facts.append(f"{so_far} so far")
        if step.usage_status not in (None, "final"):
            facts.append(str(step.usage_status))
    if step.spiral is not None:
        facts.append("spiral")
    if step.child_session_id is not None:
        facts.append("sub-agent")
    return " · ".join(facts)


def _list_facts(step: Step) -> Iterator[tuple[str, str]]:
    """The short facts of a step, without those that its line has."""
    tokens = ("input", "cache_read", "cache_write", "output", "reasoning")
    used = [(name, getattr(step, f"{name}_tokens")) for name in tokens]
    facts = {
        "at": step.at,
        "ended": step.ended_at,
        "model": step.model,
        "path": step.path,
        "failure": step.failure_kind,
        "reason": step.reason,
        "evidence": step.evidence,
        "cost": None if step.turns is None else dollars(step.cost_usd, included=step.included_usd),
        "tokens": ", ".join(f"{count(n)} {name}" for name, n in used if n is not None),
        "sub-agent": step.child_session_id,
        "note": None if step.cache_rebuild is None else step.cache_rebuild.sentence,
    }
    for name, value in facts.items():
        if value:
            yield name, value
