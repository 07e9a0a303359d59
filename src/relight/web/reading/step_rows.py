"""Steps as rows of a page, within a size; the rest of a row is loaded when it is opened."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from relight.reports.call_subjects import describe_call
from relight.reports.spirals import SessionSpiral
from relight.reports.trace import Step
from relight.store.queries.sessions import ChildSession
from relight.text import make_visible
from relight.times import read_time
from relight.web.reading.arguments import CallBody, draw_call
from relight.web.reading.markdown import is_marked, render_markdown
from relight.web.reading.shown_steps import TextName, find_snippet, mark_hits

# of a part, in characters of HTML: with the rest of a page it stays below 300 KB
BUDGET = 170_000
ROW_SIZE = 600  # of a row without its texts
SAID, RESULT, ARGUMENTS, THIN = 6000, 3000, 4000, 400


class CutText(Struct, frozen=True):
    """A text as HTML, and how many of its characters are left out."""

    html: Markup
    name: TextName
    more: int = 0

    @property
    def size(self) -> int:
        return len(self.html)


class StepRow(Struct, frozen=True, kw_only=True):
    """A step as a page shows it; `is_thin` if its texts are loaded when it is opened."""

    step: Step
    offset: float | None
    said: CutText | None = None
    call: CallBody | None = None
    result: CutText | None = None
    injected: CutText | None = None
    subject: Markup = Markup("")
    snippet: Markup | None = None
    child: ChildSession | None = None
    is_thin: bool = False
    is_other_model: bool = False

    @property
    def size(self) -> int:
        texts = (self.said, self.result, self.injected)
        return sum(one.size for one in texts if one) + (len(self.call.html) if self.call else 0)

    @property
    def tokens_in(self) -> int | None:
        step = self.step
        parts = (step.input_tokens, step.cache_read_tokens, step.cache_write_tokens)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None


class SpiralRow(Struct, frozen=True):
    """The steps of a spiral, folded into one row."""

    rows: list[StepRow]
    spiral: SessionSpiral

    @property
    def calls(self) -> int:
        """The number of its calls in this part of the session."""
        return sum(row.step.spiral is not None for row in self.rows)


def make_rows(
    steps: Sequence[Step],
    *,
    begin: int | None,
    children: Mapping[str, ChildSession],
    project: str | None = None,
    find: str = "",
    budget: int = BUDGET,
) -> Iterator[StepRow]:
    """Yield the rows of steps; beyond the budget only their first words.

    Calls name paths inside of the project as from there.
    """
    folder = f"{project.rstrip('/')}/" if project and project.strip("/") else None
    spent, model = 0, None
    for step in steps:
        at = read_time(step.at)
        subject = describe_call(step) if step.kind == "call" else ""
        if folder:
            subject = subject.replace(folder, "")
        row = StepRow(
            step=step,
            offset=None if at is None or begin is None else (at - begin) / 1000,
            subject=mark_hits(subject, find),
            snippet=None if is_shown(subject, find) else find_snippet(step, find),
            child=children.get(step.child_session_id or ""),
            is_thin=spent > budget,
            is_other_model=step.model is not None and step.model != model,
        )
        model = step.model or model
        row = _add_texts(row)
        spent += row.size + ROW_SIZE
        yield row


def is_shown(subject: str, find: str) -> bool:
    """True if a row shows by itself why it was found."""
    return not find or find.lower() in subject[:300].lower()


def _add_texts(row: StepRow) -> StepRow:
    step = row.step
    if row.is_thin:
        return replace(row, said=_draw_said(step, THIN))
    if step.kind != "call":
        injected = _cut(step.injected, "injected", RESULT)
        return replace(row, said=_draw_said(step, SAID), injected=injected)
    return replace(
        row,
        said=_draw_said(step, SAID),
        call=draw_call(step.tool or "", step.arguments or "", step.result, limit=ARGUMENTS),
        result=_cut(step.result, "result", RESULT),
    )


def _draw_said(step: Step, limit: int) -> CutText | None:
    """Return what was said: an answer as Markdown, a prompt as it was typed."""
    if not step.text:
        return None
    if step.kind in ("answer", "call") or is_marked(step.text):
        html = Markup('<div class="md">{}</div>').format(render_markdown(step.text[:limit]))
        return CutText(html, "text", max(len(step.text) - limit, 0))
    return _cut(step.text, "text", limit)


def _cut(text: str | None, name: TextName, limit: int) -> CutText | None:
    if not text:
        return None
    html = Markup('<div class="words">{}</div>').format(make_visible(text[:limit]))
    if name == "result":
        html = Markup('<pre class="words" tabindex="0">{}</pre>').format(make_visible(text[:limit]))
    return CutText(html, name, max(len(text) - limit, 0))


def fold_spirals(
    rows: Sequence[StepRow], spirals: Sequence[SessionSpiral]
) -> Iterator[StepRow | SpiralRow]:
    """Yield the rows, those of one spiral together; steps between its calls belong to it."""
    places: dict[int, tuple[int, int]] = {}
    for at, row in enumerate(rows):
        number = row.step.spiral
        if number is not None and number <= len(spirals):
            first, _ = places.get(number, (at, at))
            places[number] = (first, at)
    owner: dict[int, int] = {}
    for number, (first, last) in places.items():
        if last > first:
            owner |= {at: number for at in range(first, last + 1) if at not in owner}
    for found, some in groupby(enumerate(rows), key=lambda one: owner.get(one[0])):
        inside = [row for _, row in some]
        if found is None:
            yield from inside
        else:
            yield SpiralRow(inside, spirals[found - 1])
