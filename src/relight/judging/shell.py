"""Shell command lines, split into stages.

The meaning of a command's output and exit code depends on the program that wrote last, so a line
is split the way a shell does it: here-document bodies dropped, quotes respected, wrappers such as
`bash -lc`, `sudo` and `timeout` removed. An incomplete line is read as far as it goes; nothing
here raises.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Joint = Literal["|", "&&", "||", ";", "&", ""]


class Stage(Struct, frozen=True):
    """One program of a command line, and what joins it to the next one.

    `words` begins with the program as written; redirections are left out of it. `action` is the
    first word after the program that is not an option: `grep` in `git -P grep x`.
    """

    program: str
    words: tuple[str, ...]
    action: str = ""
    joint: Joint = ""
    wrappers: tuple[str, ...] = ()
    is_piped: bool = False
    hides_output: bool = False
    hides_errors: bool = False


# No backtracking: a line of ten thousand quotes must not be tried in every division.
_INNERMOST = r"(?>(?:[^()]++|\([^()]*+\))*)"
_INNER = rf"(?>(?:[^()]++|\({_INNERMOST}\))*)"
_SUBSTITUTION = rf"\$\((?>(?:[^()]++|\({_INNER}\))*)\)"
_TOKEN = re.compile(
    rf"""(?>(?:[ \t\r]|\\\n)*)(?:
    (?P<plain>[^\s;&|<>()'"`\\$\#][^\s;&|<>()'"`\\$]*+(?=[\s;&|()]|\Z))
  | (?P<comment>\#[^\n]*+)
  | (?P<newline>\n)
  | \d*<<-?[ \t]*+(?!<)['"\\]?(?P<heredoc>[\w.+!-]++)['"]?
  | (?P<redirect>\d*(?:<<<|>>|>\||<>|[<>]&(?:\d+-?|-)?|[<>](?!\())|&>>?)
  | (?P<joint>&&|\|\||\|&|;;?&?|[&|])
  | (?P<paren>[()])
  | (?P<word>(?>(?:[^\s;&|<>()'"`\\$]++|'[^']*+(?:'|\Z)|{_SUBSTITUTION}
      |"(?>(?:[^"\\$]++|\\.|{_SUBSTITUTION}|\$)*)(?:"|\Z)|`[^`]*+`|\\[^\n]|\$|[<>]\([^()]*+\))+))
  | (?P<other>[^\s])
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*+)(?:'|\Z)|"((?>(?:[^"\\]++|\\.)*))(?:"|\Z)|\\(.)""", re.DOTALL)
_DOCUMENT = re.compile(r"<<-?[ \t]*['\"\\]?([\w.+!-]+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_PYTHON = re.compile(r"(?:python|pypy|py)[\d.]*t?\Z")

_OPENERS = frozenset(("if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"))
_CLOSERS = frozenset(("done", "fi", "esac", "}"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "fish", "ash", "su"))
_BUILTINS = frozenset(("test", "open", "edit", "create", "set", "source", "type", "exit"))
_NESTING_LIMIT = 5
_WRAPPING_LIMIT = 20  # each one scans all remaining words
# Of a longer line nothing is known but its first word: the last stages decide, and who writes so
# many tokens hides them. Here-documents are no tokens.
TOKEN_LIMIT = 20_000


class _TooLong(Exception):
    """A command line with more tokens than are read."""


_PLAIN_WRAPPERS = (
    *("nohup", "setsid", "unbuffer", "command", "builtin", "xvfb-run", "catchsegv", "caffeinate"),
    *("npx", "bunx", "pnpx"),
    *(f"{name} run" for name in ("poetry", "pipenv", "pdm", "hatch", "rye", "micromamba")),
    *(f"{name} exec" for name in ("bundle", "npm", "pnpm", "yarn")),
    *(f"{name} dlx" for name in ("pnpm", "yarn")),
)
# Programs that run another: the options that take a value, and the number of arguments.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (frozenset(["-u", "-g", "-h", "-p", "-C", "-U", "-r", "-t"]), 0),
    "doas": (frozenset(("-u",)), 0),
    "env": (frozenset(("-u", "-C", "--unset", "--chdir")), 0),
    "timeout": (frozenset(("-s", "-k", "--signal", "--kill-after")), 1),
    "gtimeout": (frozenset(("-s", "-k")), 1),
    "time": (frozenset(("-f", "-o")), 0),
    "nice": (frozenset(("-n",)), 0),
    "ionice": (frozenset(("-c", "-n")), 0),
    "stdbuf": (frozenset(("-i", "-o", "-e")), 0),
    "exec": (frozenset(("-a",)), 0),
    "xargs": (
        frozenset(["-n", "-I", "-P", "-L", "-d", "-s", "-a", "-E", "--max-args", "--max-procs"]),
        0,
    ),
    "conda run": (frozenset(("-n", "-p", "--name", "--prefix")), 0),
    "docker exec": (frozenset(["-u", "-w", "-e", "--user", "--workdir", "--env", "--env-file"]), 1),
    "uv run": (frozenset(["-p", "--python", "--with", "--extra", "--group", "--project"]), 0),
    "coverage run": (frozenset(("--source", "--rcfile", "--omit", "--include")), 0),
    **dict.fromkeys(_PLAIN_WRAPPERS, (frozenset[str](), 0)),
}


def split_stages(command: str | Sequence[str]) -> tuple[Stage, ...]:
    """Return every program that a command line runs, in order, without wrappers.

    >>> [(s.program, s.joint) for s in split_stages("cd x && timeout 9 grep -r 'a|b' . | head")]
    [('cd', '&&'), ('grep', '|'), ('head', '')]
    """
    if isinstance(command, str):
        return _split_line(command)
    return _split_words(tuple(map(str, command)))


# several rules read the same command in a row
@lru_cache(maxsize=16)
def _split_words(words: tuple[str, ...]) -> tuple[Stage, ...]:
    return _limit(lambda steps: _unwrap(Stage("", words), 0, steps), words[:1])


@lru_cache(maxsize=16)
def _split_line(command: str) -> tuple[Stage, ...]:
    return _limit(lambda steps: _split(command, 0, steps), command[:100].split(maxsplit=1)[:1])


def _limit(
    read: Callable[[Iterator[int]], Iterable[Stage]], first: Sequence[str]
) -> tuple[Stage, ...]:
    """Return the stages; one unknown program if the line has too many tokens."""
    try:
        return tuple(read(iter(range(TOKEN_LIMIT))))
    except _TooLong:
        return (Stage("", tuple(first) or ("…",)),)


def drop_documents(command: str) -> str:
    """Return a command line without the bodies of its here-documents.

    >>> drop_documents("cat > a <<'EOF'\\nx > y\\nEOF\\npython a")
    "cat > a <<'EOF'\\npython a"
    """
    kept: list[str] = []
    end = None
    for line in command.split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        kept.append(line)
        begun = _DOCUMENT.search(line)
        end = begun[1] if begun else None
    return "\n".join(kept)


def find_deciders(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages whose exit code can be the exit code of the whole line.

    >>> [s.program for s in find_deciders(split_stages("make; cd x && pytest | tail"))]
    ['cd', 'tail']
    """
    options = [word for stage in stages if stage.program == "set" for word in stage.words[1:]]
    is_strict = any(word[0] == "-" and "e" in word for word in options if word)
    sees_pipes = "pipefail" in options
    deciders: list[Stage] = []
    leaving: list[Stage] = []  # stages before `|| exit` may end the line as well
    before = ""
    for stage in stages:
        if before == "||" and stage.program in ("exit", "return"):
            leaving.extend(deciders)
        if before == "||" or (before in (";", "&") and not is_strict):
            deciders.clear()
        if stage.joint != "|" or sees_pipes:
            deciders.append(stage)
        before = stage.joint
    return () if before == "&" else (*leaving, *deciders)


def _split(text: str, depth: int, steps: Iterator[int]) -> Iterable[Stage]:
    stages: list[Stage] = []
    words: list[str] = []
    bodies: list[str] = []
    outputs: dict[str, str] = {}
    redirect = ""
    match = _TOKEN.match
    position, end = 0, len(text)
    while position < end and (found := match(text, position)):
        if next(steps, None) is None:
            raise _TooLong
        position = found.end()
        kind = found.lastgroup
        token = found[kind or 0]
        if kind == "plain" and not redirect:  # most words are
            words.append(token)
        elif kind == "plain" or kind == "word" or kind == "other":
            word = _unquote(token)
            if redirect:
                _redirect(outputs, redirect, word)
                redirect = ""
            else:
                words.append(word)
        elif kind == "redirect":
            redirect = "" if token[-1] in "0123456789-" else token
            if not redirect:
                _redirect(outputs, token, "")
        elif kind == "heredoc":
            bodies.append(token)
        elif kind == "joint" or kind == "newline":
            if kind == "newline" and bodies:
                position = _skip_bodies(text, position, bodies)
                bodies.clear()
            if words:
                _add_stage(stages, words, outputs, _JOINTS[token], depth, steps)
                words, outputs = [], {}
            redirect = ""
    if words:
        _add_stage(stages, words, outputs, "", depth, steps)
    return stages


_JOINTS: dict[str, Joint] = {"&&": "&&", "||": "||", "|": "|", "|&": "|", "&": "&", "\n": ";"}
_JOINTS |= {";": ";", ";;": ";", ";&": ";", ";;&": ";"}


def _add_stage(
    stages: list[Stage],
    words: list[str],
    outputs: dict[str, str],
    joint: Joint,
    depth: int,
    steps: Iterator[int],
) -> None:
    if words[0] in _CLOSERS:
        if stages:  # the joint after a loop belongs to its last stage
            stages[-1] = replace(stages[-1], joint=joint)
        return
    if words[0] in _OPENERS:
        words = words[_count_first(words, _OPENERS.__contains__) :]
    if not words or words[0] in ("for", "case", "select", "function"):
        return
    is_piped = bool(stages) and stages[-1].joint == "|"
    is_mute = outputs.get("2") == "/dev/null"
    stage = Stage("", tuple(words), "", joint, (), is_piped, "1" in outputs, is_mute)
    stages.extend(_unwrap(stage, depth, steps))


def _redirect(outputs: dict[str, str], operator: str, target: str) -> None:
    if operator.startswith("&>") or (operator == ">&" and target):
        outputs["1"] = outputs["2"] = target
    elif operator == "2>&1":
        outputs["2"] = outputs.get("1", "")
    elif operator[0] == "2" and ">" in operator:
        outputs["2"] = target
    elif operator in (">", ">>", ">|", "1>", "1>>"):
        outputs["1"] = target


def _unquote(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", word)


def _skip_bodies(text: str, position: int, marks: list[str]) -> int:
    for mark in marks:
        line = ""
        while line != mark:
            if position >= len(text):
                return len(text)
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            line = text[position:end].lstrip("\t").rstrip(" \t\r")
            position = end + 1
    return min(position, len(text))


def _unwrap(stage: Stage, depth: int, steps: Iterator[int]) -> Iterable[Stage]:
    """The programs in a stage, from its words alone."""
    words, wrappers = stage.words, stage.wrappers
    if words and "=" in words[0]:
        words = words[_count_first(words, _ASSIGNMENT.match) :]
    while words and len(wrappers) < _WRAPPING_LIMIT:
        name = words[0].rpartition("/")[2] or words[0]
        pair = f"{name} {words[1]}" if len(words) > 1 else name
        wrapper = _WRAPPERS.get(pair) or _WRAPPERS.get(name)
        if wrapper is None or (name == "command" and words[1:2] in (("-v",), ("-V",))):
            break
        stop = "-m" if name == "coverage" else ""
        valued, own = wrapper
        inner = _skip_options(words[2 if pair in _WRAPPERS else 1 :], valued, own=own, stop=stop)
        if not inner:
            break
        if stop:
            inner = ("python", *inner)
        words, wrappers = inner, (*wrappers, name)
    if not words:
        return ()
    name = words[0].rpartition("/")[2] or words[0]
    if name in _BUILTINS and not words[0].startswith(("/bin/", "/usr/bin/")):
        name = words[0]  # `bin/test` is a script of the project
    script = _find_script(name, words) if depth < _NESTING_LIMIT else None
    if script is not None:
        inside = list(_split(script, depth + 1, steps))
        if inside:
            inside[0] = replace(inside[0], is_piped=stage.is_piped)
            inside[-1] = replace(inside[-1], joint=stage.joint)
            return [replace(each, wrappers=(*wrappers, *each.wrappers)) for each in inside]
    if _PYTHON.match(name):
        name, module = "python", _skip_options(words[1:], frozenset(("-W", "-X")), stop="-m")
        if module[:1] == ("-m",) and len(module) > 1:
            words, wrappers = module[1:], (*wrappers, "python")
            name = words[0]
    action = next((word for word in words[1:] if word[:1] != "-"), "")
    hides = (stage.hides_output, stage.hides_errors)
    return (Stage(name, words, action, stage.joint, wrappers, stage.is_piped, *hides),)


def _count_first(words: Sequence[str], is_such: Callable[[str], object]) -> int:
    """The number of words before the first that does not fit."""
    return next((at for at, word in enumerate(words) if not is_such(word)), len(words))


def _skip_options(
    words: tuple[str, ...], valued: frozenset[str], *, own: int = 0, stop: str = ""
) -> tuple[str, ...]:
    at = 0
    while at < len(words) and words[at] != stop:
        if words[at] == "--":
            at += 1
            break
        if words[at].startswith("-"):
            at += 2 if words[at] in valued else 1
        elif _ASSIGNMENT.match(words[at]):
            at += 1
        else:
            break
    return words[at + own :]


def _find_script(name: str, words: tuple[str, ...]) -> str | None:
    if name == "eval":
        return " ".join(words[1:])
    if name not in _SHELLS:
        return None
    for at, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and word[1:2] != "-" and word.endswith("c"):
            return words[at + 1]
        if not word.startswith("-") and name != "su":
            return None
    return None
