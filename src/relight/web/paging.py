"""Long lists in pages, so that no page is too large."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from relight.web.page import View

T = TypeVar("T")


class ListPage(Struct, Generic[T], frozen=True):
    """A page of a list: its rows, the number of the first and of all, and its neighbours.

    `name` is the parameter of the address that chooses the page, from 1.
    """

    rows: list[T]
    first: int
    total: int
    name: str
    before: int | None
    after: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def cut_page(view: View, rows: Sequence[T], size: int, *, name: str = "page") -> ListPage[T]:
    """Return the page of a list that the address asks for; the last if there are fewer."""
    text = view.query.get(name, "")
    pages = max(-(-len(rows) // size), 1)
    number = min(max(int(text), 1), pages) if text.isascii() and text.isdigit() else 1
    start = (number - 1) * size
    return ListPage(
        list(rows[start : start + size]),
        start + 1,
        len(rows),
        name,
        number - 1 if number > 1 else None,
        number + 1 if number < pages else None,
    )
