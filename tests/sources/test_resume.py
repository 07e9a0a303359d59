import shutil
import subprocess
from pathlib import Path

import pytest

from relight.sources import SOURCES
from relight.sources.resume import quote_word, resume_line

HOSTILE = [
    "/tmp/a b", "/tmp/it's", "/tmp/a\\'; echo broken #", "/tmp/$(echo broken)", "/tmp/`echo hi`",
    "/tmp/a;echo broken", "/tmp/a\\", "/tmp/\\\\'\\", "/tmp/!!", "/tmp/~root", "/tmp/{a,b}*?[c]",
    '/tmp/"; echo broken; "', "/tmp/'; echo broken; '", "/tmp/\\' ; echo broken ; \\'", "/tmp/=ls",
    "/tmp/naïve-日本", "/tmp/&& echo broken", "/tmp/#x", "/tmp/%1", "/tmp/-rf",
]  # fmt: skip
SHELLS = [name for name in ("sh", "bash", "zsh", "fish") if shutil.which(name)]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("claude-code", "cd /home/dev/shop && claude --resume s1"),
        ("codex", "cd /home/dev/shop && codex resume s1"),
        ("hermes", "cd /home/dev/shop && hermes --resume s1"),
        ("chat", None),
        ("relight", None),
        ("gone", None),
    ],
)
def test_an_agent_that_can_continue_a_session_has_a_line(source: str, line: str | None) -> None:
    assert resume_line(source, "s1", "/home/dev/shop") == line


def test_a_session_without_a_folder_continues_where_its_agent_needs_none() -> None:
    assert resume_line("hermes", "s1", None) == "hermes --resume s1"
    assert resume_line("codex", "s1", "not/absolute") == "codex resume s1"
    assert resume_line("claude-code", "s1", None) is None
    assert resume_line("claude-code", "s1", "not/absolute") is None


def test_a_sub_agent_has_no_line() -> None:
    assert resume_line("codex", "s1", "/home/dev", is_part=True) is None


@pytest.mark.parametrize("key", ["", "-c", "--dangerously-skip-permissions", "a\nb", "a\x1b[201~b"])
def test_an_id_that_is_an_option_or_hides_something_has_no_line(key: str) -> None:
    for source in SOURCES:
        assert resume_line(source, key, "/home/dev") is None


@pytest.mark.parametrize("folder", ["/a\nb", "/a\x1b[201~\nb", "/a\u202eb", "/a\tb", "/a\x00b"])
def test_a_folder_that_hides_something_is_not_named(folder: str) -> None:
    assert resume_line("claude-code", "s1", folder) is None
    assert resume_line("codex", "s1", folder) == "codex resume s1"


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_text_is_one_word_of_every_shell(shell: str, tmp_path: Path) -> None:
    for text in HOSTILE:
        line = f"printf %s {quote_word(text)}"
        words = [shell, "-c", line]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, text), (shell, line, done.stderr)
