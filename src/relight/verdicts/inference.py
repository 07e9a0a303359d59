"""The exit code that a command makes certain, where none was recorded."""

from relight.commands import Stage
from relight.verdicts.outputs import Output
from relight.verdicts.rules import read_rules

# Asked for a file with errors hidden, and silent: there is no such file.
_SHOWERS = frozenset(("ls", "cat", "head", "tail", "stat"))


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
    zero, piped = rules.programs.zero, rules.programs.zero_piped
    if len(deciders) > 1 and last.program == "echo" and not last.hides_output:
        said = " ".join(word for word in last.words[1:] if not word.startswith("-"))
        if said and not set("$`*?\\").intersection(said):
            return 0 if said in output.text else 1
    rest = [
        stage
        for stage in deciders
        if stage.program not in zero
        and stage.program != "cd"
        and not (stage.is_piped and stage.program in piped)
        and (stage.hides_errors or not rules.is_plain_reader(stage))
    ]
    if not rest:
        return 0
    if len(rest) > 1 or rest[0] is not last:
        return None
    return _infer_from_output(last, output)


def _infer_from_output(stage: Stage, output: Output) -> int | None:
    rules = read_rules()
    if not output.has_output and stage.hides_errors and stage.program in _SHOWERS:
        return 1
    row = rules.find_row(rules.answers, stage)
    if row is None or 1 not in row.codes or is_silent(stage):
        return None
    if row.pattern:
        return 1 if rules.patterns[row].search(output.text) else None
    if stage.program == "find":
        runs_grep = "grep" in stage.words and stage.words[-1] == "+"
        return 1 if runs_grep and not output.has_output else None
    if row.kind == "no_match":
        if output.has_output and "_" in stage.program:  # SWE-agent's search_dir, find_file
            return 1 if rules.nothing_found.match(output.text.strip()) else 0
        counted = [line.rpartition(":")[2] for line in output.text.split()]
        if "-c" in stage.words and counted and set(counted) == {"0"}:
            return 1
        return 0 if output.has_output else 1
    if row.kind == "difference":
        is_git = stage.program == "git"
        if is_git and not {"--no-index", "--exit-code"}.intersection(stage.words):
            return 0
        return 1 if output.has_output else 0
    return None


def is_silent(stage: Stage) -> bool:
    """Whether a stage was told to write nothing."""
    options = [word for word in stage.words[1:] if word.startswith("-")]
    return stage.hides_output or any(
        word in ("--quiet", "--silent") or (word[1:2] != "-" and "q" in word) for word in options
    )
