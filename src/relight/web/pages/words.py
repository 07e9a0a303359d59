"""A text of a session, whole, as a file: too long to be shown, or not to be trusted in a page."""

from starlette.responses import PlainTextResponse

from relight.names import file_name
from relight.reports.sessions import find_session
from relight.reports.transcript import read_words
from relight.web.page import View


def show(view: View) -> PlainTextResponse:
    """The text as it is on the tape; browsers keep it as a file and never show it."""
    name, text = view.path["name"], view.path["text"]
    words = read_words(view.store, find_session(view.store, name), text)
    kept = file_name(f"{name} {text}", ending=".txt")
    return PlainTextResponse(
        words.encode("utf-8", "replace"),
        headers={"Content-Disposition": f"attachment; filename*=utf-8''{kept}"},
    )
