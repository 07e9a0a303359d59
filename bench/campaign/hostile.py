"""Inputs that are wrong, strange or meant to do harm: values, texts, and changes to good inputs."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e-308, 0.1),
    *("", " ", "null", "NaN", "-5", "1e999", "\x00", "\ud800", "\u202e", "a\nb", "A" * 5000),
    *("💥" * 300, [], {}, [[]], [None], {"": ""}, {"a": {"b": [{}]}}, -62135596800000, 2.5e14),
    *("2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"),
    *("../../../../etc/passwd", "/dev/zero", "'; drop table turn; --", "%s%n%d", "{{7*7}}"),
)
BYTES = (
    *(b"\x00", b"\xff", b'"', b"\\", b"{", b"[" * 2000, b"\\ud800", b"\xed\xa0\x80", b"1e999"),
    *(b"-", b"\\u0000", b"\r", b"\xef\xbb\xbf", b",", b"9" * 400, b"\n\n", b"=", b"'''"),
)
# what a page would run, load or show wrongly if it were not escaped
MARKUP = (
    "<script>window.ran=1</script>",
    '"><img src=x onerror=window.ran=1>',
    "</title></textarea></script><script>window.ran=1</script>",
    "<svg/onload=window.ran=1>",
    "' onmouseover='window.ran=1",
    "<base href=//strange.invalid>",
    "<a href=javascript:window.ran=1>x</a>",
    "{{7*7}}{% raw %}",
    "\u202e\x1b[31m<b>bold</b>",
)
# repeated, they make a careless expression or parser slow
REPEATED = (
    *("a", " ", "\n", "(", "{", "[", '"', "'", "`", "\\", "$(", "${", "&&", "|", ";", "<<EOF\n"),
    *("<", "#", "=", ":", "-", "0", "1 ", "error: ", "FAILED ", "1 passed, 1 failed ", "exit 1 "),
    *("Traceback (most recent call last):\n", '  File "a", line 1\n', "a:1:1: error: ", "\x1b["),
    *('{"error":', "[[", "<a", "<!--", "</", "&#", "a=b ", "cd /a && ", "sudo ", "bash -c '"),
    *("find . -exec ", "for i in a; do ", "2>&1 ", "rate limit ", "I could not ", "a! ", "\x00"),
    *("curl -u a:b", "curl -u 'a:bcd", "mysql -pab", "cookie=k", "cookie: a=b;", "://a:bcd@"),
    *(
        "password=a1b2c3d4password=",
        'password="\\\\',
        "-----BEGIN PRIVATE KEY-----\n",
        "eyJa.",
        "hf_",
    ),
    *(
        "<relight-example ",
        "</relight-example>",
        "machine a login b password ",
        "- name: PASSWORD\n",
    ),
)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Return a record or a file with a few changes, of its structure or of its bytes."""
    if dice.random() < 0.6:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            pass
        else:
            return mutate_value(value, dice)
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << dice.randrange(8)
            case 1:
                changed[at:at] = dice.choice(BYTES)
            case 2:
                del changed[at : at + dice.randrange(1, 40)]
            case 3:
                changed[at:at] = changed[at : at + dice.randrange(1, 200)]
            case 4:
                del changed[at:]
            case _ if changed:
                changed[at % len(changed)] = dice.randrange(256)
    return bytes(changed)


def mutate_value(value: Any, dice: random.Random) -> bytes:
    """Return a JSON value with strange, missing, nested or repeated parts."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        path = dice.choice(list(list_paths(value)))
        match dice.randrange(5):
            case 0 | 1:
                new = copy.deepcopy(dice.choice(STRANGE))
            case 2:
                new = dice.choice(MARKUP)
            case 3:
                new = "x"
                for _ in range(dice.choice((10, 100, 400))):
                    new = [new] if dice.random() < 0.5 else {"content": new}
            case _:
                new = copy.deepcopy(find(value, dice.choice(list(list_paths(value)))))
        value = replace(value, path, new, removes=dice.random() < 0.2)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return b"{}"


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if len(path) > 30:
        return
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value[:30])  # type: ignore[assignment]
    for key, one in items:
        yield from list_paths(one, (*path, key))


def find(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def replace(value: Any, path: tuple[Any, ...], new: Any, *, removes: bool) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    holder = find(value, path[:-1])
    if removes:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return value


def mutate_lines(text: str, dice: random.Random) -> bytes:
    """Return settings with strange values, unknown names and missing lines; or changed bytes."""
    if dice.random() < 0.3:
        return mutate(text.encode(), dice)
    lines = text.split("\n")
    for _ in range(dice.choice((1, 1, 2, 3))):
        at = dice.randrange(len(lines))
        name, _, value = lines[at].partition(" = ")
        if value and dice.random() < 0.6:
            lines[at] = f"{name} = {dice.choice(VALUES)}"
        elif dice.random() < 0.5:
            lines.insert(
                at, dice.choice(("unknown = 1", "[unknown]", "[[jobs]]", "x", "[", "\x00"))
            )
        else:
            del lines[at]
            lines = lines or [""]
    return "\n".join(lines).encode()


VALUES = (
    *('""', "-1", "0", "1e400", "nan", "-inf", "true", "[]", "{}", '"x"', "99999999999999999999"),
    *("1.5", '["a", 1]', "{ a = 1 }", "2026-11-15", '"../../etc"', '"\\u0000"', '"(a+)+$"', "'''"),
    *('"Mars/Olympus"', "0x10", '"${HOME}"', '"~nobody/x"', '"' + "A" * 3000 + '"', "[[]]"),
)


def repeat(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]
