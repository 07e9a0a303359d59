"""Search finds what was typed, safely, and each hit leads to its step."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import build
import relight
from build import claude_answer, claude_prompt, claude_result, tool_use
from relight.errors import RelightError
from relight.reports.search import find_hits, rank_sessions, search
from relight.reports.search_query import Matcher, SearchText, parse_query
from relight.reports.trace import read_trace
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.search_index import FoundTexts, write_match

ROOT = f"claude-code:{build.CLAUDE_SESSION}"


def talk(home: Path, store: Store, *records: dict[str, Any]) -> None:
    build.write_claude(home, records)
    build.import_home(store, home)


@pytest.fixture
def filled(tmp_path: Path, store: Store) -> Store:
    """A session with prompts, answers and calls, one of which failed."""
    said = {"type": "text", "text": "I will read the retry table of foo_bar first."}
    read = tool_use("toolu_1", "Read", file_path="/srv/src/app/main.py")
    run = tool_use("toolu_2", "Bash", command="git commit --no-verify -m 'naïve' && cat docs/a.md")
    talk(
        tmp_path,
        store,
        claude_prompt("Mend the Retry-After header 検索機能を追加", at=1),
        claude_answer("m1", said, read, at=2),
        claude_result("toolu_1", "class Zebra: pass\n" + "x " * 400 + "unicorn", at=3),
        claude_answer("m2", run, at=4),
        claude_result("toolu_2", "fatal: not a git repository", at=5, is_error=True),
        claude_answer("m3", {"type": "text", "text": "Done: the header is mended."}, at=6),
    )
    return store


def find(store: Store, query: str, **options: Any) -> list[tuple[str, int]]:
    return [(hit.kind, hit.step) for hit in search(store, query, **options)]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("header", ["prompt", "answer"]),
        ("HEADER mend*", ["prompt", "answer"]),
        ("retry -foo_bar", ["prompt"]),
        ('"retry after"', ["prompt"]),
        ('"after retry"', []),
        ("retry-after", ["prompt"]),
        ("foo_bar", ["answer"]),
        ("bar", ["answer"]),
        ("src/app/main.py", ["call"]),
        ("path:app/main.py", ["call"]),
        ("path:docs", ["call"]),
        ("path:retry", []),
        ("--no-verify", ["call"]),
        ("naive", ["call"]),
        ("検索", ["prompt"]),
        ("機能", ["prompt"]),
        ("索検", []),
        ("zebra", ["result"]),
        ("unicorn", []),
        ("tool:bash", ["call", "result"]),
        ("tool:read zebra", ["result"]),
        ("tool:bash zebra", []),
        ("-tool:bash git", []),
        ("bash", []),
    ],
)
def test_a_query_finds(filled: Store, query: str, kinds: list[str]) -> None:
    result = find_hits(filled, query, Filter())
    assert sorted(hit.kind for hit in result.hits) == sorted(kinds)
    assert result.total == len(kinds)
    assert (result.note is None) == bool(kinds)


def test_a_hit_leads_to_the_step_of_the_trace(filled: Store) -> None:
    from relight.reports.sessions import find_session

    steps = read_trace(filled, find_session(filled, ROOT)).steps
    hits = search(filled, "header") + search(filled, "zebra") + search(filled, "path:docs")
    for hit in hits:
        step = steps[hit.step - 1]
        text = {"prompt": step.text, "answer": step.text, "call": step.arguments}
        shown = hit.snippet.replace("⟦", "").replace("⟧", "").strip("…")
        assert shown[:20] in " ".join((text.get(hit.kind) or step.result or "").split())
        assert (hit.at, hit.tool) == (step.at, step.tool)
    assert [hit.session_id for hit in hits] == [ROOT] * 4


def test_the_same_hits_come_in_json_and_marks_stand_around_what_matched(filled: Store) -> None:
    (hit,) = relight.search(filled, "zebra")
    assert hit.snippet.startswith("class ⟦Zebra⟧: pass x x")
    assert (hit.tool, hit.title) == ("Read", "Mend the Retry-After header 検索機能を追加")


def test_only_failed_calls_are_found_with_failed(filled: Store) -> None:
    assert find(filled, "git", failed=True) == [("call", 4), ("result", 4)]
    result = find_hits(filled, "zebra", Filter(), failed=True)
    assert (result.hits, result.total, result.note) == (
        [],
        0,
        "none of the calls that match failed",
    )


def test_filters_and_the_limit_narrow_the_hits(filled: Store) -> None:
    assert find(filled, "git", tool="Bash", limit=1) == [("call", 4)]
    assert find(filled, "git", tool="Read") == []
    assert find(filled, "git", source="codex") == []
    assert find(filled, "git", project="nowhere") == []
    assert find(filled, "git", model="opus") != []
    note = find_hits(filled, "git", Filter(since="2030-01-01")).note
    assert note == "no matching text since 2030-01-01; on all days 2"
    with pytest.raises(RelightError, match="limit must be 1 to 200, got 0"):
        search(filled, "git", limit=0)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "the query is empty"),
        ("  ", "the query is empty"),
        ("-foo", r"only excludes \(-foo\)"),
        ("-foo -path:x", "only excludes"),
        ('"" --- * :', "no letters or digits"),
        ("foo -FOO", "'FOO' is both wanted and excluded"),
        (" ".join(f"w{number}" for number in range(65)), "has 65 words, at most 64"),
        ('"' + "the " * 2500, "has 2,500 words, at most 256"),
        ("path:" + "a/" * 5000, "has 5,000 words, at most 256"),
        ("x" * 20_001, "20,001 characters"),
    ],
)
def test_a_query_that_cannot_match_says_why(filled: Store, query: str, reason: str) -> None:
    with pytest.raises(RelightError, match=reason) as caught:
        search(filled, query)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("giraffe", "no text has giraffe"),
        ("giraffe header okapi", "no text has giraffe or okapi"),
        ("zebra header", "each of these is found, but no single text has all of them"),
        ("zebra -class", "every text that matches has a word that the query excludes"),
    ],
)
def test_a_search_without_hits_says_why(filled: Store, query: str, note: str) -> None:
    assert find_hits(filled, query, Filter()).note == note


HOSTILE = [
    '"',
    'a"b',
    "a OR b",
    "NOT a",
    "NEAR(a b, 3)",
    "words:a",
    "{words} : a",
    "a\0b",
    "^a",
    "a AND",
    "(",
    "'; drop table session; --",
    "\ud800 a",
    "⟦a⟧",
    "a " + '"' * 4000,
    '"' + "word " * 2000,
    "検" * 3000,
    "path:",
    "tool:",
    "path:*",
    "-path:",
    "\u202e a",
    "İıſßﬁ",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_any_text_is_a_safe_query(filled: Store, query: str) -> None:
    trouble = None
    try:
        find_hits(filled, query, Filter())
    except RelightError as error:
        trouble = error
    # a reason, and never an error of the database
    assert trouble is None or (trouble.hint and "database" not in trouble.message)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_every_text_makes_a_query_that_the_index_can_parse(query: str) -> None:
    import sqlite3

    try:
        terms = parse_query(query)
    except RelightError:
        return
    with sqlite3.connect(":memory:") as database:
        database.execute("create virtual table f using fts5 (words, path, tool)")
        database.execute("select * from f where f match ?", (write_match(terms),)).fetchall()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Foo", "bar", "ba", "é", "検", "索", "_", "/", " ", "9"]), max_size=9
    ),
    st.lists(
        st.sampled_from(["foo", "bar", "ba", "e", "検", "索", "/", "9"]), min_size=1, max_size=3
    ),
    st.booleans(),
)
def test_the_index_and_the_marks_agree(text: list[str], words: list[str], is_prefix: bool) -> None:
    import sqlite3

    from relight.store.derive.search_text import clean_for_index

    query = "".join(words) + ("*" if is_prefix else "")
    try:
        terms = parse_query(query)
    except RelightError:
        return
    whole = "".join(text)
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "create virtual table f using fts5 (words, path, tool,"
            " tokenize = 'unicode61 remove_diacritics 2')"
        )
        database.execute("insert into f (words) values (?)", (clean_for_index(whole),))
        rows = database.execute("select 1 from f where f match ?", (write_match(terms),)).fetchall()
    assert Matcher(terms).matches(SearchText(whole)) == bool(rows)


def test_a_prompt_stands_before_a_result_and_a_recent_session_before_an_old_one() -> None:
    day = 86_400_000
    found = [
        FoundTexts(1, 3, 9, 100 * day),
        FoundTexts(2, 0, 1, 100 * day),
        FoundTexts(3, 0, 1, 10 * day),
        FoundTexts(4, 1, 1, 99 * day),
        FoundTexts(5, 3, 1, None),
    ]
    assert [one.id for one in rank_sessions(found)] == [2, 4, 1, 3, 5]


def test_hits_of_one_session_leave_room_for_those_of_others(tmp_path: Path, store: Store) -> None:
    for name in "12":
        key = f"{name * 8}-0000-4000-8000-000000000000"
        lines = [claude_prompt(f"zebra {n}", at=n, sessionId=key) for n in range(6)]
        build.write_claude(tmp_path, lines, name=key)
    build.import_home(store, tmp_path)
    few = [hit.session_id[-1] + hit.session_id[12] for hit in search(store, "zebra", limit=6)]
    assert [one[1] for one in few].count("1") == 3
    assert len(search(store, "zebra", limit=20)) == 12
    assert find_hits(store, "zebra", Filter(), limit=5).total == 12


def test_the_words_of_a_sub_agent_lead_to_its_own_session(tmp_path: Path, store: Store) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    build.write_agent(path, [claude_prompt("count the zebras", at=2), claude_answer("s1", at=3)])
    build.import_home(store, tmp_path)
    (hit,) = search(store, "zebras")
    assert (hit.session_id, hit.kind, hit.step) == (f"{ROOT}/a1", "prompt", 1)


def test_a_secret_is_found_nowhere(tmp_path: Path, store: Store) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    talk(tmp_path, store, claude_prompt(f"zebra uses {secret} now"), claude_answer("m1", at=2))
    (hit,) = search(store, "zebra")
    assert secret not in hit.snippet
    assert search(store, secret) == []
    assert not any(secret.lower() in word for *_, ws in build.dump_search(store) for word in ws)


def test_a_snippet_shows_hidden_characters_and_keeps_its_marks_apart() -> None:
    matcher = Matcher(parse_query("zebra"))
    assert matcher.write_snippet("⟦a⟧ \x1b[31m\u202e zebra\n <b>") == "[a] ␛[31m‹202E› ⟦zebra⟧ <b>"
    long = "lead " * 40 + "zebra" + " tail" * 80
    assert matcher.write_snippet(long).startswith("…lead lead")
    assert matcher.write_snippet(long).endswith("…")
    assert matcher.write_snippet("nothing here") == "nothing here"
