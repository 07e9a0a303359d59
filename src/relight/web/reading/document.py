"""A session as one HTML file to share: no script, no request, all texts redacted."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from markupsafe import Markup

from relight.reports.call_subjects import describe_call
from relight.reports.sharing import SharedSession
from relight.reports.trace import Step
from relight.text import dollars, format_cost, make_line, make_visible, seconds
from relight.web.reading.arguments import draw_call
from relight.web.reading.markdown import is_marked, render_markdown

# beside it `document.html`, and `document.css`: the page's style, but for what only the page has
HERE = Path(__file__)
STYLES = (HERE.parent.parent / "static" / "relight.css", HERE.with_suffix(".css"))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STEP = Markup("""<li class="step {kind}" id="step-{number}"><div class="line">
<a class="when" href="#step-{number}">{number}</a> <span class="soft small">{time}</span>
<strong>{name}</strong>{words}<span class="n small soft">{facts}</span></div>{body}</li>
""")
BODY = Markup('<div class="body">{}</div>')
FOLD = Markup('<details class="body"><summary class="small soft">{}</summary>{}</details>')
PRE = Markup('<pre class="words">{}{}</pre>')
MORE = Markup('<span class="soft">\n… {:,} characters more</span>')
FACT = Markup("<dt>{}</dt><dd><bdi>{}</bdi></dd>")
MOST_CHARACTERS = 20_000


def write_document(session: SharedSession) -> str:
    """Return the file's text."""
    page = Markup(HERE.with_suffix(".html").read_text("utf-8")).format(
        policy=POLICY,
        title=make_line(session.head.title or session.head.session, 160),
        style=_read_style(),
        facts=_draw_facts(session),
        steps=Markup("").join(map(_draw_step, session.trace.steps)),
    )
    return str(page)


@cache
def _read_style() -> Markup:
    # ours, not a session's: a style has no other way to end than this tag
    styles = "\n".join(path.read_text("utf-8") for path in STYLES)
    return Markup(styles.replace("</", "<\\/"))


def _draw_facts(session: SharedSession) -> Markup:
    head = session.head
    figures = head.figures
    facts = {
        "session": head.session,
        "project": head.project,
        "model": head.model,
        "started": head.started_at,
        "time": seconds(figures.wall_seconds),
        "cost": format_cost(figures),
        "tool calls": f"{figures.tool_calls}, {figures.tool_failures} failed",
        "outcome": "; ".join([head.outcome, *head.evidence]),
        "texts": session.trace.silence,
    }
    rows = [FACT.format(name, make_line(value, 500)) for name, value in facts.items() if value]
    return Markup('<dl class="facts card">{}</dl>').format(Markup("").join(rows))


def _draw_step(step: Step) -> Markup:
    is_failed = step.label == "error"
    words = make_line(describe_call(step), 200) if step.kind == "call" else ""
    return STEP.format(
        kind=f"{step.kind}{' broken' if is_failed else ''}",
        number=step.step,
        time=(step.at or "")[11:19],
        name=_name(step),
        words=Markup(' <span class="asked"><bdi>{}</bdi></span>').format(words) if words else "",
        facts=Markup(" · ").join(_list_facts(step)),
        body=Markup("").join(_draw_body(step)),
    )


def _name(step: Step) -> str:
    match step.kind:
        case "call":
            return make_line(step.tool or "", 80)
        case "prompt":
            return "prompt" if step.text else "not typed"
        case "pause":
            return f"pause of {seconds((step.duration_ms or 0) / 1000)}"
    return step.kind if step.text else "model call"


def _list_facts(step: Step) -> Iterator[str]:
    if step.label is not None:
        yield Markup('<span class="mark {0}">{0}</span>').format(step.label)
    if step.kind != "pause" and step.duration_ms is not None:
        yield seconds(step.duration_ms / 1000)
    if step.turns is not None:
        yield dollars(step.cost_usd, included=step.included_usd)


def _draw_body(step: Step) -> Iterator[Markup]:
    reason = " · ".join(filter(None, [step.failure_kind, step.reason, step.evidence]))
    if reason and step.label in ("error", "negative"):
        yield BODY.format(Markup('<p class="small">{}</p>').format(make_line(reason, 500)))
    if step.kind == "call":
        if step.arguments:
            drawn = draw_call(step.tool or "", step.arguments, step.result)
            yield FOLD.format(Markup("asked {}").format(drawn.note), drawn.html)
        if step.result:
            yield FOLD.format("result", _draw_plain(step.result))
    elif step.text and step.kind == "compaction":
        yield FOLD.format("summary", render_markdown(step.text))
    elif step.text:
        is_plain = step.kind == "prompt" and not is_marked(step.text)
        # a prompt as it was typed: `#` and `*` in it need not mean anything
        typed = Markup('<div class="words">{}</div>').format(make_visible(step.text))
        words = typed if is_plain else render_markdown(step.text)
        yield BODY.format(Markup('<div class="md">{}</div>').format(words))
    if step.injected:
        yield FOLD.format("put in by the agent", _draw_plain(step.injected))


def _draw_plain(text: str) -> Markup:
    rest = len(text) - MOST_CHARACTERS
    more = MORE.format(rest) if rest > 0 else ""
    return PRE.format(make_visible(text[:MOST_CHARACTERS]), more)
