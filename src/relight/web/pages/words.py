"""A whole text of a session as a file, for texts too long or too risky to show."""

from starlette.responses import PlainTextResponse

from relight.names import file_name
from relight.reports.sessions import find_session
from relight.reports.transcript import read_words
from relight.web.page import View


def show(view: View) -> PlainTextResponse:
    """Return the text as recorded; browsers save it as a file and never render it."""
    name, text = view.path["name"], view.path["text"]
    words = read_words(view.store, find_session(view.store, name), text)
    saved_as = file_name(f"{name} {text}", ending=".txt")
    return PlainTextResponse(
        words.encode("utf-8", "replace"),
        headers={"Content-Disposition": f"attachment; filename*=utf-8''{saved_as}"},
    )
