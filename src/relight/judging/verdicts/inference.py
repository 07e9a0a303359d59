"""The exit code that a command makes certain, where none was recorded."""

import re

from relight.judging.shell import Stage
from relight.judging.verdicts.outputs import Output, find_bad_line, find_last_line, find_literal
from relight.judging.verdicts.rules import read_rules
from relight.judging.verdicts.scripts import find_told_exit
from relight.judging.verdicts.searches import finds_nothing

# Asked for a file with errors hidden, and silent: there is no such file.
_SHOWERS = frozenset(("ls", "cat", "head", "tail", "stat", "nl"))
_STATUS = "%{http_code}"
_FOLLOWS = re.compile(r"-[a-zA-Z0-9]*f[0-9]*")
_COMMITTED = re.compile(r"\n\[[^\]\n]+ [0-9a-f]+\] ")
_UNCOMMITTED = re.compile(r"nothing (?:added )?to commit|no changes added")


def infer_code(output: Output) -> int | None:
    """The exit code that the command itself makes certain, seen what it wrote.

    `… | tail`, `…; echo done` and `… || true` end in 0. In `… && echo done` it is the word
    `done` that tells. grep, which and diff show their exit code by whether they wrote anything.
    """
    rules, deciders = read_rules(), output.deciders
    if not output.stages:
        return None
    if not deciders:
        return 0
    last = deciders[-1]
    if last.program in ("exit", "return", "false"):
        code = "1" if last.program == "false" else last.action
        return int(code) if code.isdecimal() and len(code) < 4 else None
    if "timeout" in last.wrappers and (_follows(last) or rules.serving.search(output.text)):
        return 124  # a server ends only when it is told to, as does what waits for more
    if last.program == "python":
        return find_told_exit(output.command, output.text)
    zero, piped = rules.programs.zero, rules.programs.zero_piped
    if len(deciders) > 1 and last.program == "echo" and (said := find_literal(last)):
        return 0 if said in output.text else 1
    rest = [
        stage
        for stage in deciders
        if stage.program not in zero
        and stage.program != "cd"
        and not (stage.is_piped and stage.program in piped)
        and not _is_plain_diff(stage)
        and (stage.hides_errors or not rules.is_plain_reader(stage) or _is_fetch(stage))
    ]
    if not rest:
        return 0
    if output.is_reader and (
        _counts_none(last, output) or any(finds_nothing(stage, output) for stage in rest)
    ):
        return 1
    if len(rest) > 1 or rest[0] is not last:
        return None
    return _infer_from_output(last, output)


def _infer_from_output(stage: Stage, output: Output) -> int | None:
    rules = read_rules()
    if _is_fetch(stage):
        return 7 if not output.has_output or _has_no_reply(stage, output) else 0
    shows = stage.program in _SHOWERS or (stage.program == "sed" and "-n" in stage.words)
    if not output.has_output and stage.hides_errors and shows:
        return 1
    if stage.program == "git" and stage.action in ("commit", "config"):
        return _infer_git(stage, output)
    row = rules.find_row(rules.answers, stage)
    if row is None or 1 not in row.codes or (row.is_quiet and not output.has_output):
        return None
    if row.pattern:
        return 1 if rules.patterns[row].search(output.text) else None
    if is_silent(stage):
        return None
    if stage.program == "jq":
        said = output.text.rstrip().rpartition("\n")[2].strip()
        return 1 if "-e" in stage.words and said in ("null", "false") else None
    if stage.program == "find":
        runs_grep = "grep" in stage.words and stage.words[-1] == "+"
        return 1 if runs_grep and not output.has_output else None
    if row.kind == "no_match":
        return _infer_match(stage, output)
    if row.kind == "difference":
        return 1 if output.has_output else 0
    return None


def _follows(stage: Stage) -> bool:
    """Whether a stage shows what is written to a log for as long as it runs."""
    is_log = stage.program in ("tail", "journalctl") or stage.action == "logs"
    return is_log and any(
        word in ("--follow", "-F") or _FOLLOWS.fullmatch(word) for word in stage.words[1:]
    )


def _infer_git(stage: Stage, output: Output) -> int | None:
    """What git says of itself: each commit has a line, each value that was asked for is shown."""
    words = set(stage.words)
    if stage.action == "config":
        is_asked = not words.isdisjoint(("--get", "--get-all", "--get-regexp"))
        return 1 if is_asked and not output.has_output else None
    if _UNCOMMITTED.search(output.text):
        return 1
    if is_silent(stage) or "--dry-run" in words or stage.hides_errors:
        return None
    return None if _COMMITTED.search(output.text) else 1


def _is_plain_diff(stage: Stage) -> bool:
    """Whether a stage is a `git diff` that ends in 0 whatever it shows."""
    if stage.program != "git" or stage.action not in ("diff", "diff-index", "diff-files"):
        return False
    return not {"--no-index", "--exit-code", "--quiet", "--check"}.intersection(stage.words)


def _infer_match(stage: Stage, output: Output) -> int:
    text = output.text
    if output.has_output and "_" in stage.program:  # SWE-agent's search_dir, find_file
        if read_rules().nothing_found.match(text.strip()):
            return 1
        return 2 if find_bad_line(output) else 0
    if "inary file " in text and " match" in text:
        return 0
    if _counts_none(stage, output):
        return 1
    if any(_is_absent(name, text) for name in stage.words[1:]):
        return 1
    if stage.program == "which" or stage.words[:2] == ("command", "-v"):
        return 0 if _shows_programs(stage, text) else 1
    return 0 if output.has_output else 1


def _is_absent(name: str, text: str) -> bool:
    """Whether a shell's own `which` or `type` says that it does not know a program."""
    return f"\n{name} not found" in text or f"\n{name}: not found" in text


def _shows_programs(stage: Stage, text: str) -> bool:
    """Whether the last lines are the paths of the programs that were asked for."""
    names = [word for word in stage.words[1:] if not word.startswith("-")]
    lines = text.split("\n")
    if any(set("$`*{").intersection(name) for name in names):
        return bool(text.strip())
    return all(
        any(line == name or line.endswith(f"/{name}") or f"{name}=" in line for line in lines)
        or f"\n{name}: " in text  # an alias
        for name in (name.rpartition("/")[2] for name in names)
    )


def _counts_none(stage: Stage, output: Output) -> bool:
    """Whether a grep that counts, in one file or in several, counted nothing at all."""
    row = read_rules().find_row(read_rules().answers, stage)
    counts = output.text.split() if "-c" in stage.words and row and row.kind == "no_match" else []
    return bool(counts) and (counts[-1] == "0" or all(count.endswith(":0") for count in counts))


def is_silent(stage: Stage) -> bool:
    """Whether a stage was told to write nothing."""
    if stage.hides_output or stage.program == "diff":  # whose -q says less, not nothing
        return stage.hides_output
    options = [word for word in stage.words[1:] if word.startswith("-")]
    return any(
        word in ("--quiet", "--silent") or (word[1:2] != "-" and "q" in word) for word in options
    )


def _has_no_reply(stage: Stage, output: Output) -> bool:
    """Whether curl told the status 000 of a server that never answered, where it tells it first."""
    for word in stage.words:
        before, mark, _ = word.partition(_STATUS)
        if mark and "%{" not in before:
            before = before.removeprefix("-w").rpartition("\\n")[2]
            return bool(re.match(rf"{re.escape(before)}000(?!\d)", find_last_line(output)))
    return False


def _is_fetch(stage: Stage) -> bool:
    """Whether a stage shows a page, or its status, and no word of its own if there is none."""
    if stage.hides_output:
        return False
    if stage.program == "wget":
        return any(re.fullmatch(r"-\w*q\w*O-|-O-", word) for word in stage.words) and is_silent(
            stage
        )
    if stage.program != "curl":
        return False
    short = "".join(word[1:] for word in stage.words[1:] if re.fullmatch(r"-[A-Za-z]+", word))
    if "s" not in short and "--silent" not in stage.words:
        return False
    if any("http_code" in word for word in stage.words):
        return True
    return not set("SXdIoOTF").intersection(short) and not any(
        word.startswith(("--show-error", "--request", "--data", "--head", "--output"))
        for word in stage.words
    )
