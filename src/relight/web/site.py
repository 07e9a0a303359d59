"""What all requests share: the store's readers, the templates, what is kept and what is secret."""

import secrets
from pathlib import Path
from typing import Any

from relight.config import find_home, read_config
from relight.store import open_store
from relight.web.cache import Kept
from relight.web.filters import Filters
from relight.web.live import Watcher
from relight.web.pages import PAGES
from relight.web.readers import Readers
from relight.web.rendering import make_environment
from relight.web.static import Statics


class Site:
    """The dashboard of one home folder."""

    def __init__(self, home: str | Path | None, *, token: str | None = None) -> None:
        # made or brought to this version's schema first: readers can do neither
        with open_store(home) as store:
            timezone = store.timezone
        self.config = read_config(find_home(home))
        self.token = token
        self.readers = Readers(self.config)
        self.watcher = Watcher(self.config)
        self.kept = Kept()
        self.statics = Statics()
        self.templates = make_environment(timezone)
        self.templates.globals |= {"pages": PAGES, "static": self.statics.address}
        # pages know it and other sites do not: it must come with whatever changes something
        self.secret = secrets.token_urlsafe(24)

    def close(self) -> None:
        self.readers.close()
        self.watcher.close()

    def render(self, template: str, *, version: str, filters: Filters, **context: Any) -> str:
        """A page; `context` is what its template names beside the words common to all."""
        return self.templates.get_template(template).render(
            link=filters.link, filters=filters, secret=self.secret, version=version, **context
        )
