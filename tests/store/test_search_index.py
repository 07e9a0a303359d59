"""The search index holds what the tape has, in every way that records come and go."""

from pathlib import Path
from typing import Any

import pytest

import build
import relight
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.intake.retention import fill_index, forget, prune
from relight.reports.search import find_hits, search
from relight.reports.sessions import find_session
from relight.sources.claude_code.reader import ClaudeCodeReader
from relight.store import Store, search_index
from relight.store.derive.search_text import find_path_words, make_texts, split_call
from relight.store.queries.filters import Filter

DAY_MS = 86_400_000


def write_session(home: Path, name: str, *texts: str, at: float = 0) -> None:
    """A session in which a person says each of these texts, and a model answers."""
    key = f"{name}-0000-4000-8000-000000000000"
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        lines.append(build.claude_prompt(text, at=at + number * 2))
        lines.append(build.claude_answer(f"{name}-{number}", at=at + number * 2 + 1))
    build.write_claude(home, [{**line, "sessionId": key} for line in lines], name=key)


def read_files(store: Store) -> bytes:
    return b"".join(path.read_bytes() for path in store.path.parent.glob("relight.db*"))


def find_names(store: Store, query: str) -> set[str]:
    return {hit.session_id.split(":")[1][:8] for hit in search(store, query)}


def test_a_forgotten_session_leaves_no_word_in_the_index_and_no_other_changes(
    tmp_path: Path, store: Store
) -> None:
    write_session(tmp_path, "11111111", "the zebra is blue")
    write_session(tmp_path, "22222222", "the giraffe is blue")
    build.import_home(store, tmp_path)
    assert find_names(store, "blue") == {"11111111", "22222222"}
    kept = [one for one in build.dump_search(store) if "words:giraffe" in one[2]]
    forget(store, find_session(store, "11111111"))
    assert find_names(store, "blue") == {"22222222"}
    assert [one for one in build.dump_search(store) if "words:giraffe" in one[2]] == kept
    assert b"zebra" not in read_files(store)


def test_a_pruned_tape_takes_its_entries_along(tmp_path: Path, store: Store) -> None:
    write_session(tmp_path, "11111111", "the zebra is blue")
    write_session(tmp_path, "22222222", "the giraffe is blue", at=200 * 86_400)
    build.import_home(store, tmp_path)
    now = build.START + 210 * DAY_MS
    prune(store, now=now, tape_days=100, index_days=None, dry_run=False)
    assert find_names(store, "blue") == {"22222222"}
    assert store.query("select count(*) from session") == [(2,)]
    assert b"zebra" not in b"".join(term for *_, term in _raw_terms(store))


def _raw_terms(store: Store) -> list[tuple[int, bytes]]:
    return [(0, word.encode()) for *_, words in build.dump_search(store) for word in words]


@pytest.mark.sqlite("PostgreSQL deletes entries by their number")
def test_texts_that_a_reader_gives_otherwise_today_are_deleted_with_the_whole_index(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, "11111111", "the zebra is blue")
    write_session(tmp_path, "22222222", "the giraffe is blue")
    build.import_home(store, tmp_path)
    before = build.dump_search(store)
    original = ClaudeCodeReader.read_line

    def read_otherwise(self: ClaudeCodeReader, line: bytes) -> Any:
        return original(self, line.replace(b"zebra", b"horse"))

    monkeypatch.setattr(ClaudeCodeReader, "read_line", read_otherwise)
    forget(store, find_session(store, "11111111"))
    assert b"zebra" not in read_files(store)
    assert build.dump_search(store) == []
    assert "not in the search index yet" in (find_hits(store, "giraffe", Filter()).note or "")
    import_all(store, folder=tmp_path / "nothing", sources=["claude-code"], environment={})
    giraffes = find_session(store, "22222222")
    assert build.dump_search(store) == [one for one in before if one[0] == giraffes]
    assert search_index.read_below(store) is None


def test_an_older_store_is_filled_in_portions_the_newest_tapes_first(
    tmp_path: Path, store: Store
) -> None:
    for number in range(4):
        write_session(tmp_path, f"{number}1111111", f"the zebra{number} is blue")
        build.import_home(store, tmp_path)
    before = build.dump_search(store)
    with store.transaction() as database:
        search_index.clear(database)
    assert find_hits(store, "zebra3", Filter()).note == (
        "no text has zebra3 · 100% of the records are not in the search index yet:"
        " each import adds more, `relight rebuild` adds all"
    )
    fill_index(store, most_bytes=1)
    assert find_names(store, "zebra*") == {"31111111"}
    assert "75% of the records" in (find_hits(store, "zebra*", Filter()).note or "")
    fill_index(store)
    assert build.dump_search(store) == before
    assert find_hits(store, "blue", Filter()).note is None


def test_a_rebuild_makes_the_same_index(tmp_path: Path, store: Store) -> None:
    build.write_claude(tmp_path, build.claude_session())
    write_session(tmp_path, "22222222", "the giraffe is blue")
    build.import_home(store, tmp_path)
    before = build.dump_search(store)
    assert before
    rebuild(store, workers=1)
    assert build.dump_search(store) == before


def test_a_live_session_is_found_at_once_and_can_be_forgotten_after_its_parts_are_joined(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store:
        with relight.record(store, "mine") as rec:
            rec.message("user", "the zebra is blue")
            rec.turn(input_tokens=10, output_tokens=5, message={"content": "a striped answer"})
            assert [hit.kind for hit in search(store, "zebra")] == ["prompt"]
            rec.tool_call("bash", {"command": "cat src/zoo.py"}, "stripes", call_id="c1")
        before = build.dump_search(store)
        assert [hit.kind for hit in search(store, "path:src/zoo.py")] == ["call"]
        rebuild(store, workers=1)
        assert build.dump_search(store) == before
        forget(store, find_session(store, "mine"))
        assert build.dump_search(store) == []


def test_a_session_with_more_texts_than_a_part_has_numbers_is_indexed_whole(
    tmp_path: Path, store: Store
) -> None:
    count = search_index.MOST_TEXTS * 2 + 3
    write_session(tmp_path, "11111111", *(f"zebra{number}" for number in range(count)))
    build.import_home(store, tmp_path)
    assert find_hits(store, "zebra*", Filter()).total == count
    forget(store, find_session(store, "11111111"))
    assert build.dump_search(store) == []


def test_a_calls_command_paths_and_short_arguments_are_indexed_and_no_content_of_files() -> None:
    arguments = {
        "file_path": "src/app/main.py",
        "old_string": "x" * 301,
        "limit": 3,
        "pattern": "def main",
        "cwd": "/home/me/project",
    }
    assert split_call(arguments) == (["def main"], ["src/app/main.py"])
    assert split_call({"cmd": ["sed", "-n", "1p", "a/b.py"]}) == (["sed -n 1p a/b.py"], ["a/b.py"])
    patch = "*** Begin Patch\n*** Update File: src/a b.py\n-old\n+new\n*** End Patch"
    assert split_call(patch) == ([], ["src/a b.py"])
    assert split_call(None) == ([], [])
    assert find_path_words("git diff -- 'docs/x y' C:\\work\\a.txt > out.log / ...") == [
        "docs/x",
        "\\work\\a.txt",
        "out.log",
    ]


def test_half_a_pair_and_nul_in_a_text_are_indexed() -> None:
    from relight.model import Passage

    (row,) = make_texts("chat", [Passage("one", "prompt", "a\ud800b\0c 検索")])
    assert row.words == "a?b c  検  索 "
