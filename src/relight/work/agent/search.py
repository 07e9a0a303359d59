"""A program that searches files, which can be ended if a pattern takes forever."""

import json
import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# lines as editors and compilers count them: a form feed does not end one
LINES = re.compile(r"[^\n]*\n|[^\n]+")
FILE_BYTES = 2_000_000
LINE_CHARS = 500
SKIPPED = {".git", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache"}


def find_matches(
    root: Path, pattern: "re.Pattern[str]", *, start: Path, glob: str, kind: str
) -> Iterator[dict[str, object]]:
    """Yield the matches below `start`, named relative to the root; links are not followed."""
    for path in _walk(start):
        name = os.path.relpath(path, root)
        if not fnmatch(path.name, glob) and not fnmatch(name, glob):
            continue
        if kind == "name":
            if pattern.search(name):
                yield {"path": name}
            continue
        for number, line in _lines(path):
            if pattern.search(line):
                yield {"path": name, "line": number, "text": line[:LINE_CHARS]}


def _walk(start: Path) -> Iterator[Path]:
    if start.is_file():
        yield start
        return
    for folder, folders, files in os.walk(start):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        yield from (Path(folder) / name for name in sorted(files))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES:
            return
        data = path.read_bytes()
    except OSError:
        return
    if b"\0" not in data[:4096]:
        lines = LINES.findall(data.decode("utf-8", "replace"))
        yield from enumerate((line.rstrip("\r\n") for line in lines), start=1)


def main(words: list[str]) -> int:
    root, pattern, start, glob, kind, limit = words
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        sys.stdout.write(f"the pattern is not a regular expression: {error}")
        return 2
    matches: list[dict[str, object]] = []
    truncated = False
    for match in find_matches(Path(root), compiled, start=Path(start), glob=glob, kind=kind):
        if len(matches) >= max(int(limit), 1):
            truncated = True
            break
        matches.append(match)
    found = {"matches": matches, "total_count": len(matches), "truncated": truncated}
    sys.stdout.buffer.write(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
