"""A session as a Markdown document."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from relight.cli.screen import seconds
from relight.reports.call_subjects import MOST_ARGUMENTS, describe_call
from relight.text import make_line, make_visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from relight.reports.sharing import SharedSession
    from relight.reports.trace import Step

CODE = re.compile(r"(`[^`\n]*`)")
# tags and images would act where the document is shown
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")
CODE_TOKENS = ("fence", "code_block")
ACTIVE_TOKENS = ("html_block", "html_inline", "image")
MOST_RESULT = 4000
# longer texts are shown as code: the parser needs quadratic time for some hostile texts
MOST_PARSED = 16_000
END = "End."


def write_markdown(session: "SharedSession") -> str:
    """Return the document; session text in it has no tags and no images."""
    return "\n".join([*_write_head(session), *map(_write_step, session.trace.steps), ""])


def _write_head(session: "SharedSession") -> Iterator[str]:
    from relight.cli.show import format_cost

    head, trace = session.head, session.trace
    yield f"# {_escape(make_line(head.title or 'Session', 160))}\n"
    facts = {
        "session": f"`{head.session}`",
        "project": head.project and f"`{make_line(head.project)}`",
        "model": head.model and make_line(head.model),
        "started": head.started_at,
        "time": seconds(head.figures.wall_seconds),
        "cost": format_cost(head.figures),
        "outcome": "; ".join([head.outcome, *(make_line(one, 300) for one in head.evidence)]),
        "texts": trace.silence,
    }
    for name, value in facts.items():
        if value:
            yield f"- {name}: {_escape(value)}"
    yield ""


def _write_step(step: "Step") -> str:
    number = f"## {step.step}."
    match step.kind:
        case "prompt":
            words = "\n".join(f"> {line}" for line in _write_words(step.text or "").split("\n"))
            put = f"\n{_fence(step.injected)}" if step.injected else ""
            return f"{number} {'Prompt' if step.text else 'Not typed'}\n\n{words}\n{put}"
        case "answer":
            said = _write_words(step.text) if step.text else "(no text)"
            failed = f"\n**failed: {_line(step.failure_kind)}** {_line(step.reason)}\n"
            return f"{number} Answer\n\n{said}\n{failed if step.label == 'error' else ''}"
        case "compaction":
            return f"{number} Compaction\n\n{_fence(step.text or '')}"
        case "pause":
            return f"{number} Pause of {seconds((step.duration_ms or 0) / 1000)}\n"
    verdict = " · ".join(filter(None, [_line(step.label), _line(step.reason)]))
    subject = describe_call(step) or (step.arguments or "")[:MOST_ARGUMENTS]
    result = (step.result or "")[:MOST_RESULT]
    rest = len(step.result or "") - len(result)
    more = f"\n… {rest:,} characters more\n" if rest else ""
    return (
        f"{number} {_line(step.tool)}{' · ' if verdict else ''}{verdict}\n\n"
        f"{_fence(subject)}\n{_fence(result)}{more}"
    )


def _line(text: str | None) -> str:
    return _escape(make_line(text or "", 200))


def _write_words(text: str) -> str:
    """A text as the Markdown that it is; as a block of code if it could act or not end."""
    words = _escape_words(make_visible(text)) if len(text) <= MOST_PARSED else ""
    return words if words and _is_passive(words) else _fence(text)


def _escape_words(text: str) -> str:
    """Text with its tags and images made plain; blocks of code in it stay as they are."""
    blocks = (one for one in _make_parser(is_html=False).parse(text) if one.type in CODE_TOKENS)
    code = {line for block in blocks for line in range(*(block.map or (0, 0)))}
    lines = enumerate(text.split("\n"))
    return "\n".join(line if number in code else _escape(line) for number, line in lines)


def _escape(text: str) -> str:
    """Text with its tags and images made plain; short code in it stays as it is.

    >>> _escape("see <b> and `<b>`, ![x](y)")
    'see \\\\<b> and `<b>`, \\\\![x](y)'
    """
    parts = CODE.split(text)
    parts[::2] = [ACTIVE.sub(lambda one: "\\" + one[0], part) for part in parts[::2]]
    return "".join(parts)


def _is_passive(text: str) -> bool:
    """True if a text has no tags and images, and what follows is no part of it."""
    tokens = _make_parser(is_html=True).parse(f"{text}\n\n{END}")
    inside = [one for token in tokens for one in token.children or ()]
    if any(one.type in ACTIVE_TOKENS for one in (*tokens, *inside)):
        return False
    last = [(one.type, one.level, one.content) for one in tokens[-3:-1]]
    return last == [("paragraph_open", 0, ""), ("inline", 1, END)]


@cache
def _make_parser(*, is_html: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": is_html})


def _fence(text: str) -> str:
    """A text as a block of code that it cannot close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}\n{make_visible(text)}\n{marks}\n" if text else ""
