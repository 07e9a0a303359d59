"""Writes large trees of Claude Code and Codex sessions with exact ground truth.

    python -m bench.gen_sessions generate --out TREE --mb 100   # 70 MB Claude Code, 30 MB Codex
    python -m bench.gen_sessions generate --out TREE --claude-mb 700 --codex-mb 300 --seed 7
    python -m bench.gen_sessions append --out TREE --turns 1    # grow one file of each tool

Set HOME to the tree to import it. `bench.trees` says what makes the trees hard.
"""

import argparse
from pathlib import Path

from bench.trees import generate_tree, grow_tree


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("generate", help="write a new tree")
    new.add_argument("--out", type=Path, required=True, help="the folder of the tree")
    new.add_argument("--mb", type=float, default=100, help="total size: 70 %% Claude Code")
    new.add_argument("--claude-mb", type=float, help="size of Claude Code's part")
    new.add_argument("--codex-mb", type=float, help="size of Codex' part")
    new.add_argument("--seed", type=int, default=1)
    new.add_argument("--days", type=int, default=45, help="days that the sessions spread over")
    new.add_argument("--end", default="2026-11-01", help="the day after the last (UTC)")
    more = commands.add_parser("append", help="grow one session of each tool")
    more.add_argument("--out", type=Path, required=True)
    more.add_argument("--turns", type=int, default=1, help="responses to add")
    given = parser.parse_args()
    if given.command == "append":
        print("appended to", *grow_tree(given.out, turns=given.turns))
        return
    generate_tree(
        given.out,
        claude_mb=given.mb * 0.7 if given.claude_mb is None else given.claude_mb,
        codex_mb=given.mb * 0.3 if given.codex_mb is None else given.codex_mb,
        seed=given.seed,
        days=given.days,
        end=given.end,
    )


if __name__ == "__main__":
    main()
