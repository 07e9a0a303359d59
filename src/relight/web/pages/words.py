"""A whole text of a session as a file, for texts too long or too risky to show."""

from starlette.responses import PlainTextResponse

from relight.errors import MissingError
from relight.names import file_name
from relight.reports.sessions import find_session
from relight.reports.trace import read_trace
from relight.web.page import View
from relight.web.reading.shown_steps import TEXTS


def show(view: View) -> PlainTextResponse:
    """Return the text as recorded; browsers save it as a file and never render it.

    Its name is the number of its step and which of the step's texts it is: `12.result`.
    """
    name, text = view.path["name"], view.path["text"]
    session_id = find_session(view.store, name)
    number, _, field = text.partition(".")
    steps = read_trace(view.store, session_id).steps
    is_step = number.isdecimal() and 0 < int(number[:9]) <= len(steps)
    words = getattr(steps[int(number) - 1], field) if is_step and field in TEXTS else None
    if words is None:
        raise MissingError(f"there is no text {text!r} in that session")
    saved_as = file_name(f"{name} {text}", ending=".txt")
    return PlainTextResponse(
        words.encode("utf-8", "replace"),
        headers={"Content-Disposition": f"attachment; filename*=utf-8''{saved_as}"},
    )
