"""Session text made readable: Markdown, code, diffs and lists of tasks, all of it harmless."""

import json
import random
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from relight.judging.edits import compare_texts, count_changes, find_edits
from relight.text import HIDDEN
from relight.web.reading import markdown
from relight.web.reading.arguments import (
    MOST_LINES,
    count_done,
    draw_call,
    draw_diff,
    draw_tasks,
    find_tasks,
)
from relight.web.reading.highlight import MOST_CHARACTERS, highlight
from relight.web.reading.markdown import render_markdown

TAGS = {
    *("p", "strong", "em", "s", "code", "pre", "span", "a", "ul", "ol", "li", "table", "thead"),
    *(
        "tbody",
        "tr",
        "th",
        "td",
        "blockquote",
        "hr",
        "br",
        "div",
        "b",
        "i",
        "dl",
        "dt",
        "dd",
        "bdi",
    ),
}
ATTRIBUTES = {"class", "href", "rel", "target", "start"}
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></template></details></main><style>*{display:none}</style>",
    "[a](javascript:alert(1)) [b](JAVA&#x73;cript:alert(1)) [c](data:text/html,x) <javascript:x>",
    "[a](http://x' onmouseover='alert(1)) [b](http://x\"onclick=\"y) [c](//evil.example/x)",
    "![x](http://evil.example/p.png) [![x](http://evil.example/p.png)](http://evil.example)",
    "&#x202e;&#0;&#x1b;[31m \u202egnp.exe\u2066 \x1b[2J\x00 \ud800",
    '```"><script>alert(1)</script>\n</code></pre><script>alert(2)</script>\n```',
    "[r]\n\n[r]: javascript:alert(1) 'title\" onload=\"x'",
    "| a |\n|:-:|\n| <b>x</b> |\n\n| r |\n|--:|\n| 1 |",
    '# <h1>x</h1>\n\n<div style="position:fixed">\n\n> <iframe src=//evil.example>',
    "*" * 9000 + "_" * 9000,
    "[" * 15_000,
    ">" * 15_000,
    "![](" * 3000,
    "- " * 7000,
)


class Harmless(HTMLParser):
    """Checks that HTML has only known tags, classes and links, each tag closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        if tag not in ("br", "hr"):
            self.open.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name == "href":
                assert re.match(r"(https?://|mailto:)", value or "", re.IGNORECASE)
                assert ("rel", "noopener noreferrer") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("br", "hr") or self.open.pop() == tag

    @classmethod
    def check(cls, html: str) -> None:
        assert not HIDDEN.search(html)
        parser = cls()
        parser.feed(html)
        parser.close()
        assert parser.open == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_harmless_in_every_form(text: str) -> None:
    Harmless.check(render_markdown(text))
    Harmless.check(render_markdown(f"- x\n\n  > {text}\n\n```py\n{text}\n```\n"))
    for language in ("python", "html", "sh", "diff", "sql", text, None):
        Harmless.check(highlight(text, language))
    for tool, fields in (
        ("Edit", {"file_path": text, "old_string": text, "new_string": f"{text}\nmore"}),
        (
            "MultiEdit",
            {"file_path": text, "edits": [{"old_string": "a", "new_string": text}, text]},
        ),
        ("Write", {"file_path": text, "content": text}),
        ("NotebookEdit", {"notebook_path": text, "cell_id": text, "new_source": text}),
        ("shell", {"command": ["bash", "-lc", f"*** Begin Patch\n*** Add File: {text}\n+{text}"]}),
        ("TodoWrite", {"todos": [{"content": text, "status": text}, text, None, [text]]}),
        ("Bash", {"command": text, text: text, "list": [text, {text: 2**80}]}),
        (text, {"query": text, "code": text}),
    ):
        Harmless.check(draw_call(tool, json.dumps(fields)).html)
        Harmless.check(draw_call(tool, json.dumps(fields)).note)
        Harmless.check(draw_call(tool, text).html)


def test_markdown_is_rendered() -> None:
    shown = render_markdown(
        "# Done\n\nIt is **fixed**: `a_b`.\n\n- one\n- two\n\n```py\nif x: return 'y'\n```\n\n"
        "See [the docs](https://docs.example/a?b=1&c=2) and [app.py](src/app.py#L3)."
    )
    assert '<p class="title h1">Done</p>' in shown
    assert "<strong>fixed</strong>: <code>a_b</code>" in shown
    assert "<li>one</li>" in shown
    assert '<span class="hk">if</span> x: <span class="hk">return</span>' in shown
    assert '<a href="https://docs.example/a?b=1&amp;c=2" rel="noopener noreferrer"' in shown
    # a link that leads nowhere is text
    assert "app.py (src/app.py#L3)" in shown


def test_a_long_text_is_not_parsed() -> None:
    text = "**x** " * 5000
    assert len(text) > markdown.MOST_CHARACTERS
    assert render_markdown(text).startswith('<div class="words">**x** **x**')
    assert "<span" not in highlight("if x" * MOST_CHARACTERS, "python")


def test_images_and_addresses_are_shown_and_never_loaded() -> None:
    shown = render_markdown("![a plot](https://evil.example/p.png?s=secret)")
    assert shown == "<p>[image: a plot] (https://evil.example/p.png?s=secret)</p>\n"


@pytest.mark.parametrize(
    ("language", "code", "coloured"),
    [
        ("py", 'x = """a\nb"""  # no', [('"""a\nb"""', "hs"), ("# no", "hc")]),
        ("ts", "const a = `b` // c", [("const", "hk"), ("`b`", "hs"), ("// c", "hc")]),
        ("bash", "echo 'a' a#b # c", [("echo", "hk"), ("'a'", "hs"), ("# c", "hc")]),
        ("SQL", "SELECT 1 -- x", [("SELECT", "hk"), ("1", "hn"), ("-- x", "hc")]),
        ("diff", "+a\n-b\n c", [("+a", "hi"), ("-b", "hd")]),
        ("json", '{"a": null}', [('"a"', "hs"), ("null", "hk")]),
        ("nobody", "if x", []),
    ],
)
def test_words_of_code_are_coloured(
    language: str, code: str, coloured: list[tuple[str, str]]
) -> None:
    shown = highlight(code, language)
    found = re.findall(r'<span class="(h\w)">(.*?)</span>', shown, re.DOTALL)
    assert [(text.replace("&#34;", '"').replace("&#39;", "'"), kind) for kind, text in found] == (
        coloured
    )


def counts(tool: str, arguments: object) -> list[tuple[str, str, int, int]]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [(one.path, one.change, one.added, one.removed) for one in find_edits(tool, text)]


PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ def total
 x = 1
-y = 2
+y = 3
+z = 4
*** Add File: new.md
+one
+two
*** Delete File: old.md
*** End Patch"""
PATCHED = [("src/a.py", "edit", 2, 1), ("new.md", "write", 2, 0), ("old.md", "delete", 0, 0)]


def test_edits_of_every_agent_are_diffs() -> None:
    edit = {"file_path": "/a.py", "old_string": "a\nb\nc", "new_string": "a\nB\nc\nd"}
    assert counts("Edit", edit) == [("/a.py", "edit", 2, 1)]
    many = {"file_path": "/a.py", "edits": [edit, {"old_string": "x\ny", "new_string": "x"}]}
    assert counts("MultiEdit", many) == [("/a.py", "edit", 2, 2)]
    assert counts("Write", {"file_path": "/a", "content": "1\n2\n"}) == [("/a", "write", 2, 0)]
    cell = {"notebook_path": "/n.ipynb", "cell_id": "c1", "new_source": "print()\nx"}
    assert counts("NotebookEdit", cell) == [("/n.ipynb", "write", 2, 0)]
    assert find_edits("NotebookEdit", json.dumps(cell))[0].note == "cell c1"
    # Hermes: both modes of its patch, and its write
    replaced = {"mode": "replace", "path": "a.py", "old_string": "x", "new_string": "y"}
    assert counts("patch", replaced) == [("a.py", "edit", 1, 1)]
    assert counts("patch", {"mode": "patch", "patch": PATCH}) == PATCHED
    assert counts("write_file", {"path": "a.py", "content": "x"}) == [("a.py", "write", 1, 0)]
    # Relight's own agent, OpenCode, an editor with commands
    assert counts("patch", {"path": "a", "old": "x", "new": ""}) == [("a", "edit", 0, 1)]
    assert counts("edit", {"filePath": "a", "oldString": "x", "newString": "y"})[0][2:] == (1, 1)
    created = {"command": "create", "path": "a", "file_text": "x\ny"}
    assert counts("str_replace_editor", created) == [("a", "write", 2, 0)]


def test_patches_are_found_wherever_codex_writes_them() -> None:
    assert counts("apply_patch", PATCH) == PATCHED
    assert counts("apply_patch", {"input": PATCH}) == PATCHED
    heredoc = f"cd src && apply_patch <<'EOF'\n{PATCH}\nEOF\n && git diff"
    assert counts("exec_command", {"cmd": heredoc}) == PATCHED
    assert counts("shell", {"command": ["bash", "-lc", heredoc]}) == PATCHED
    assert counts("shell", {"command": ["apply_patch", f"{PATCH}\n"]}) == PATCHED
    unfinished = PATCH.removesuffix("*** Delete File: old.md\n*** End Patch")
    assert counts("apply_patch", unfinished) == PATCHED[:2]
    assert "moved to src/b.py" in draw_call("apply_patch", PATCH).html


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "ls"}),
        ("Edit", {"file_path": "/a"}),
        ("Edit", {"file_path": 3, "old_string": "a", "new_string": "b"}),
        ("Edit", {"file_path": "/a", "old_string": ["a"], "new_string": {"b": 1}}),
        ("MultiEdit", {"file_path": "/a", "edits": [3, None, {"old_string": 3}]}),
        ("Write", {"content": "no path"}),
        ("Edit", "no JSON at all"),
        ("Edit", [1, 2]),
        ("apply_patch", "*** Begin Patch\nnothing here"),
    ],
)
def test_what_is_no_edit_is_shown_as_it_is(tool: str, arguments: object) -> None:
    assert counts(tool, arguments) == []
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    assert draw_call(tool, text).html


def test_a_diff_keeps_what_both_have_and_marks_what_differs_in_a_line() -> None:
    lines = compare_texts("a\nprice = round(x)\nz", "a\nprice = floor(x)\nz")
    assert [(one.kind, one.text[one.begin : one.end]) for one in lines] == [
        ("same", ""),
        ("del", "round"),
        ("add", "floor"),
        ("same", ""),
    ]
    assert "round(x)" in "".join(one.text for one in lines)


def test_the_work_for_a_large_edit_is_bounded() -> None:
    old = "\n".join(f"line {number}" for number in range(3000))
    new = "\n".join(f"line {number + number % 2}" for number in range(3000))
    lines = compare_texts(old, new)
    assert sum(one.kind == "add" for one in lines) == sum(one.kind == "del" for one in lines)
    edit = {"file_path": "/a", "old_string": old, "new_string": new}
    (diff,) = find_edits("Edit", json.dumps(edit))
    shown = draw_diff(diff)
    assert shown.count('class="dl') == MOST_LINES + 1
    assert "lines more" in shown
    assert f"+{diff.added:,}" in shown
    # one changed line in a long text shows the lines around it
    (diff,) = find_edits("Edit", json.dumps(edit | {"new_string": old.replace("line 1500", "x")}))
    assert draw_diff(diff).count('class="dl') == 2 + 2 * 3 + 2
    assert "1,497 lines unchanged" in draw_diff(diff)
    long_line = draw_call("Write", json.dumps({"path": "/a", "content": "y" * 100_000})).html
    assert len(long_line) < 2000
    assert "99,500 characters more" in long_line


def test_lists_of_tasks_are_lists() -> None:
    claude = {
        "todos": [
            {"content": "Read", "status": "completed", "activeForm": "Reading"},
            {"content": "Mend", "status": "in_progress", "activeForm": "Mending"},
            {"content": "Test", "status": "pending", "activeForm": "Testing"},
        ]
    }
    tasks = find_tasks("TodoWrite", json.dumps(claude))
    assert [(one.text, one.state) for one in tasks] == [
        ("Read", "done"),
        ("Mend", "now"),
        ("Test", "open"),
    ]
    assert count_done(tasks) == "1 of 3 done"
    assert '<li class="now"><span class="sr">in progress: </span><bdi>Mend</bdi></li>' in (
        draw_tasks(tasks)
    )
    codex = {"explanation": "so", "plan": [{"step": "Look", "status": "completed"}]}
    assert find_tasks("update_plan", json.dumps(codex))[0].state == "done"
    hermes = {"todos": [{"id": "1", "content": "Look", "status": "cancelled"}]}
    assert find_tasks("todo", json.dumps(hermes))[0].state == "dropped"
    # a call without tasks reads the list
    assert find_tasks("todo", "{}", json.dumps(hermes))[0].text == "Look"
    assert find_tasks("Bash", json.dumps(hermes)) == []
    assert "1 more" in draw_tasks([tasks[0]] * 101)


def test_a_command_is_code_and_other_arguments_have_their_names() -> None:
    shown = draw_call("Bash", json.dumps({"command": "ls # x", "timeout": 5})).html
    assert '<pre class="code">ls <span class="hc"># x</span></pre>' in shown
    assert "<dt>timeout</dt><dd>5</dd>" in shown
    many = draw_call("shell", json.dumps({"command": ["bash", "-lc", "ls -l"]})).html
    assert "bash -lc ls -l" in many
    assert "96,000 characters more" in draw_call("x", "y" * 100_000).html


def test_lines_are_counted_as_the_diff_shows_them() -> None:
    dice = random.Random(7)
    for _ in range(400):
        old = [dice.choice("abcde") for _ in range(dice.randrange(12))]
        new = [one for one in old if dice.random() < 0.7]
        new.insert(dice.randrange(len(new) + 1), dice.choice("abcdefgh"))
        texts = "\n".join(old), "\n".join(new)
        counted = Counter(line.kind for line in count_changes(*texts))
        shown = Counter(line.kind for line in compare_texts(*texts))
        assert (counted["add"], counted["del"]) == (shown["add"], shown["del"]), texts
    many = "\n".join(map(str, range(3000))), "\n".join(map(str, range(3000, 0, -1)))
    assert len(count_changes(*many)) == sum(one.kind != "same" for one in compare_texts(*many))
