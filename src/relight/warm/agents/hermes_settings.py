"""Hermes' settings: the plugin named in `plugins.enabled`, edited as text that keeps the rest."""

import re
from pathlib import Path

from relight.errors import RelightError

PLUGIN = "relight"


def has_plugin(_: Path, text: str, __: str) -> bool:
    return bool(_ENTRY.search(text) or _INLINE_ENTRY.search(text))


def add_plugin(path: Path, text: str, _: str) -> str:
    """Name the plugin in `plugins.enabled`; the rest of the file does not change."""
    return _with_ends_of(text, _enable(text.replace("\r\n", "\n"), path))


def _with_ends_of(before: str, after: str) -> str:
    """Return a text with the ends of lines that it had before."""
    return after.replace("\n", "\r\n") if "\r\n" in before else after


def _enable(text: str, path: Path) -> str:
    plugins = re.search(r"^plugins:[ \t]*(?:#.*)?$", text, re.MULTILINE)
    if plugins is None:
        if re.search(r"^plugins:", text, re.MULTILINE):
            raise RelightError(
                f"{path} has plugins written in a way Relight does not edit",
                f"run: hermes plugins enable {PLUGIN}",
            )
        ending = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{ending}plugins:\n  enabled:\n    - {PLUGIN}\n"
    start = plugins.end()
    block = re.match(r"(?:\n(?:[ \t]+[^\n]*|[ \t]*(?:#[^\n]*)?))*", text[start:])
    body = block[0] if block else ""
    inline = re.search(r"^([ \t]+)enabled:[ \t]*\[([^\]\n]*)\]", body, re.MULTILINE)
    if inline:
        listed = ", ".join(filter(None, [inline[2].strip(), PLUGIN]))
        new = f"{inline[1]}enabled: [{listed}]"
        body = body[: inline.start()] + new + body[inline.end() :]
    elif listed_block := re.search(r"^([ \t]+)enabled:[ \t]*(?:#.*)?$", body, re.MULTILINE):
        following = re.match(r"\n([ \t]*)- ", body[listed_block.end() :])
        indent = following[1] if following else listed_block[1] + "  "
        at = listed_block.end()
        body = f"{body[:at]}\n{indent}- {PLUGIN}{body[at:]}"
    elif re.search(r"^[ \t]+enabled:", body, re.MULTILINE):
        raise RelightError(
            f"{path} has plugins.enabled written in a way Relight does not edit",
            f"run: hermes plugins enable {PLUGIN}",
        )
    else:
        body = f"\n  enabled:\n    - {PLUGIN}{body}"
    return text[:start] + body + text[start + len(block[0] if block else "") :]


_ENTRY = re.compile(rf"^[ \t]+-[ \t]+['\"]?{PLUGIN}['\"]?[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_INLINE_ENTRY = re.compile(
    rf"(^[ \t]+enabled:[ \t]*\[)([^\]\n]*?)(?:,[ \t]*)?(?<![\w-])['\"]?{PLUGIN}['\"]?(?![\w-])"
    r"(?:[ \t]*,[ \t]*)?",
    re.MULTILINE,
)


def remove_plugin(_: Path, text: str, __: str) -> str:
    """Return the settings without the plugin, and without the lines that adding it wrote."""
    plain = text.replace("\r\n", "\n")
    left = re.sub(rf"^plugins:\n  enabled:\n    - {PLUGIN}\n\Z", "", plain, flags=re.MULTILINE)
    if left == plain:
        left = re.sub(rf"^  enabled:\n    - {PLUGIN}\n(?!    - )", "", plain, flags=re.MULTILINE)
        left = _INLINE_ENTRY.sub(r"\1\2", _ENTRY.sub("", left))
    return _with_ends_of(text, left)
