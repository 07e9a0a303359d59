"""A watch imports what changed soon after it was written, and says the truth about itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.intake import watching
from relight.intake.importing import Imported, hold_import
from relight.intake.watching import Watcher, WatchReport, open_watched
from relight.store import Store, open_store
from relight.warm.automatic import import_and_propose

OTHER = "22222222-aaaa-4aaa-8aaa-222222222222"


class Watch:
    """A watcher over the agents in a folder, with what it reported and imported."""

    def __init__(
        self, folder: Path, take: Callable[..., list[Imported]] = import_and_propose
    ) -> None:
        self.home = folder / "relight"
        self.reports: list[WatchReport] = []
        self.imports: list[dict[str, Any]] = []

        def import_noted(store: Store, **options: Any) -> list[Imported]:
            self.imports.append(options)
            return take(store, workers=1, **options)

        self.watcher = Watcher(
            lambda: open_watched(self.home),
            import_noted,
            report=self.reports.append,
            environment={"HOME": str(folder)},
        )

    def look(self) -> str:
        """Look until a look was not too early; return the last state."""
        before = len(self.reports)

        def has_looked() -> bool:
            self.watcher.look()
            return len(self.reports) > before

        build.wait_for(has_looked)
        return self.reports[-1].state

    def count(self) -> tuple[int, int]:
        with open_store(self.home) as store:
            ((sessions, turns),) = store.query(
                "select (select count(*) from session), (select count(*) from turn)"
            )
            return sessions, turns


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    build.write_claude(tmp_path, build.claude_session())
    build.open_home(tmp_path).close()
    return Watch(tmp_path)


def append(path: Path, *records: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(build.as_lines(records))


def test_the_first_look_reads_everything_and_the_next_ones_only_what_changed(
    watch: Watch, tmp_path: Path
) -> None:
    path = build.write_codex(tmp_path, [build.codex_meta()])
    assert watch.look() == "live"
    assert watch.count() == (2, 3)
    assert watch.imports[0]["found"] is None
    for _ in range(3):
        assert watch.look() == "live"
    assert len(watch.imports) == 1
    append(path, build.codex_line("turn_context", 5, model="gpt-5.1", turn_id="t1"))
    build.wait_for(lambda: (watch.look(), len(watch.imports) == 2)[1])
    found = watch.imports[1]["found"]
    assert {name: [one.path for one in files] for name, files in found.items()} == {
        "codex": [str(path)]
    }


def test_new_turns_new_files_and_new_folders_are_read(watch: Watch, tmp_path: Path) -> None:
    watch.look()
    path = build.write_claude(tmp_path, build.claude_session())
    append(path, build.claude_answer("m9", at=9))
    build.wait_for(lambda: (watch.look(), watch.count() == (1, 4))[1])
    build.write_claude(tmp_path, [build.claude_answer("m1", sessionId=OTHER)], name=OTHER)
    build.wait_for(lambda: (watch.look(), watch.count() == (2, 5))[1])
    build.hermes_session(build.open_hermes(tmp_path))
    build.wait_for(lambda: (watch.look(), watch.count()[0] == 3)[1])


def test_rows_of_a_database_that_is_open_elsewhere_are_read(watch: Watch, tmp_path: Path) -> None:
    database = build.open_hermes(tmp_path)
    build.hermes_session(database)
    watch.look()
    assert watch.count()[0] == 2
    build.hermes_session(database, "20261115_000001_def456")
    build.wait_for(lambda: (watch.look(), watch.count()[0] == 3)[1])


def test_a_change_of_a_recent_file_does_not_wait_for_a_look_at_all(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_SHARE", 1e-9)  # the next look at all is never due
    watch.look()
    assert watch.look() == "live"
    path = build.write_claude(tmp_path, build.claude_session())
    append(path, build.claude_answer("m9", at=9))
    watch.look()
    assert watch.count() == (1, 4)
    build.write_claude(tmp_path, [build.claude_answer("m1", sessionId=OTHER)], name=OTHER)
    watch.look()
    assert watch.count() == (2, 5)


def test_while_another_import_runs_it_says_so_and_reads_on_afterwards(watch: Watch) -> None:
    with open_store(watch.home) as store, hold_import(store):
        assert watch.look() == "waiting"
    assert watch.look() == "live"
    assert watch.count() == (1, 3)


def test_an_import_that_fails_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    build.open_home(tmp_path).close()
    errors: list[Exception] = [RelightError("the disk is full"), OSError(5, "broken")]

    def take(store: Store, **options: Any) -> list[Imported]:
        if errors:
            raise errors.pop(0)
        return import_and_propose(store, **options)

    monkeypatch.setattr(watching, "RETRY_SECONDS", 0.05)
    watch = Watch(tmp_path, take)
    found = [(watch.look(), watch.reports[-1].note) for _ in range(3)]
    assert found == [("failing", "the disk is full"), ("failing", "broken"), ("live", None)]
    assert watch.count() == (1, 3)


def test_a_store_that_went_away_is_reported_and_not_made_again(watch: Watch) -> None:
    watch.home.rename(watch.home.with_name("away"))
    assert watch.look() == "failing"
    assert "is gone" in (watch.reports[-1].note or "")
    assert not watch.home.exists()
