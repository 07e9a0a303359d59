"""The words of Relight; headings that are among them lead here."""

from relight.web.glossary import read_terms
from relight.web.page import Context, View


def show(view: View) -> Context:
    return {"terms": read_terms()}
