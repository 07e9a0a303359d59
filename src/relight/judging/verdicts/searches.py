"""What a search was for, as far as it can be told whether its output holds any of it."""

import re

from relight.judging.shell import Stage
from relight.judging.verdicts.outputs import Output

_PROGRAMS = frozenset(("grep", "egrep", "fgrep", "rg"))
_VALUED = frozenset(
    [
        *["-A", "-B", "-C", "-m", "-f", "-g", "-t", "-T", "-d", "-D", "--context", "--max-count"],
        *["--include", "--exclude", "--exclude-dir", "--glob", "--type", "--replace"],
    ]
)
_SHORT = re.compile(r"-[A-Za-z]+")
_LONG = re.compile(r"--(?:invert|files|count|quiet|silent|null|file=)")
_MUTE = frozenset("qLfz")
_OTHERWISE = frozenset("vlcho")  # with these the lines shown are not, or not all of, what matches
_NUMBERED = re.compile(r"(?:\S[^\n]*?[:-])?\d+[:-]")
_UNCERTAIN = re.compile(r"\$[\w({]|`|\\[AC-Zac-z0-9]")
_LITERAL = re.compile(r"[\w \"'=:,/@%&<>!~;-]+")
_ANYWHERE = re.compile(r"[*?$~{]|^\.\.?$")  # paths that are shown in other words than given
_SHORTEST = 3
_PARTS_LIMIT = 50


def finds_nothing(stage: Stage, output: Output) -> bool:
    """Whether a grep that decides a command found nothing, though others may have written.

    In `sed -n 1,9p a.py; grep -n spam b.py` it is the grep's exit code that counts. What it
    finds stands last, with the line's number or the file's name if it was asked for them, and
    holds the words of the pattern.
    """
    words = stage.words[1:]
    if stage.program == "git" and stage.action == "grep":
        words = words[words.index("grep") + 1 :]
    elif stage.program not in _PROGRAMS:
        return False
    patterns, paths, options = _read_words(words)
    if "xargs" in stage.wrappers:
        paths = []  # more of them came from elsewhere
    short = {letter for option in options if _SHORT.fullmatch(option) for letter in option[1:]}
    if not patterns or stage.hides_output or short & _MUTE or any(map(_LONG.match, options)):
        return False
    if not output.text.strip():
        return "c" not in short
    if "inary file " in output.text:
        return False
    if stage is output.deciders[-1] and _ends_otherwise(output, short, paths):
        return True
    if short & _OTHERWISE:
        return False
    return _lacks_words(output, patterns, is_folded=bool(short & {"i", "S"})) or (
        bool(short & {"r", "R"}) and _lacks_paths(output, paths)
    )


def _ends_otherwise(output: Output, short: set[str], paths: list[str]) -> bool:
    """Whether others wrote too, and the last line is not as this grep would have written it."""
    others = [stage for stage in output.stages[:-1] if stage.joint != "|" and stage.program != "cd"]
    if not others or "c" in short:
        return False
    last = output.text.rstrip().rpartition("\n")[2]
    if "l" in short:
        return last not in paths if _is_one_file(paths) else _lacks_paths(output, paths)
    return "n" in short and not _NUMBERED.match(last)


def _lacks_words(output: Output, patterns: list[str], *, is_folded: bool) -> bool:
    """Whether the words that every match holds are nowhere in the output.

    A pattern is taken apart into the plain words it needs: no pattern of a stranger's is run.
    """
    text = output.text.lower() if is_folded else output.text
    parts = [part for each in patterns for part in re.split(r"\\?\||\n", each)]
    if len(parts) > _PARTS_LIMIT:
        return False
    literals = [_find_literal(part) for part in parts]
    return all(each and (each.lower() if is_folded else each) not in text for each in literals)


def _lacks_paths(output: Output, paths: list[str]) -> bool:
    """Whether no line begins with one of the folders that were searched."""
    if not paths or any(_ANYWHERE.search(path) for path in paths) or _is_one_file(paths):
        return False  # a single file is not named before its lines
    return not any(f"\n{path.rstrip('/')}" in output.text for path in paths)


def _is_one_file(paths: list[str]) -> bool:
    is_plain = len(paths) == 1 and not _ANYWHERE.search(paths[0])
    return is_plain and "." in paths[0].rpartition("/")[2]


def _read_words(words: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """The patterns, the paths and the options among the words of a grep."""
    patterns: list[str] = []
    options: list[str] = []
    free: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            free.extend(rest)
        elif word in ("-e", "--regexp"):
            patterns.append(next(rest, ""))
        elif word[:1] == "-" and len(word) > 1:
            options.append(word)
            if word in _VALUED:
                next(rest, None)
        else:
            free.append(word)
    if not patterns:
        patterns, free = free[:1], free[1:]
    return patterns, free, options


def _find_literal(pattern: str) -> str | None:
    """The longest run of plain characters that every match of a pattern holds."""
    if _UNCERTAIN.search(pattern) or set("?*{[").intersection(pattern.replace(".*", "")):
        return None
    plain = pattern.replace(".*", "\0").replace("\\b", "\0").replace("\\.", ".")
    longest: str = max(_LITERAL.findall(plain), key=len, default="")
    return longest if len(longest.strip()) >= _SHORTEST else None
