"""Run the benchmarks named, or all: python -m bench [NAME …] [options of the one named]."""

import sys
from importlib import import_module
from itertools import takewhile

from bench.measure import compile_sources

BENCHES = {
    "campaign": "kills, growing files, hostile input, secrets, strangers: lost, hung, leaked",
    "agent": "running agents: what recording, tracing and the loop add to the models' time",
    "admissions": "failures that answers admit: cross-validation, speed, fit of the weights",
    "auto": "recording a program's model calls: what it adds to a call beyond one write",
    "jobs": "jobs: a thousand due at once among killed schedulers, and ten thousand that wait",
    "decisions": "verdicts looked at again and again: how often wrong, and how soon",
    "import": "reading logs, against agentsview and ccusage on the same trees",
    "limits": "windows of plans: status line and limits, and blocks against ccusage's own",
    "modules": "how many modules a command runs through",
    "otlp": "telemetry: spans acknowledged in a second, and how far the index is behind",
    "outcomes": "signs of how a session went: how often each kind is right on labelled sessions",
    "profile": "where the CPU time of an import goes, by stage",
    "search": "full-text search: size of its index, cost for an import, time to the first hit",
    "startup": "how long a command takes to start, against an empty Python",
    "skills": "averages over a million uses of skills, against a plain sum",
    "team": "machines that push: speed against a floor, kills, trouble, many machines, jobs",
    "top": "the sessions that run now: the share of a core while twenty of them grow",
    "warm": "warm starts: scores, seeds, choices, false alarms, and how long a choice takes",
    "web": "the dashboard on a million turns: every page, alone, with twenty users, and an import",
    "verdicts": "judging tool calls: speed, and agreement with labelled sessions",
}
MODULES = {"import": "importing"}
# benchmarks whose own words may be names of others
WITH_PARTS = ("campaign", "team")


def main(words: list[str]) -> int:
    names = list(takewhile(BENCHES.__contains__, words))
    rest = words[len(names) :]
    if words and words[0] in WITH_PARTS:
        names, rest = words[:1], words[1:]
    if not names and rest and not rest[0].startswith("-"):
        print(f"there is no benchmark {rest[0]!r}; there are:", file=sys.stderr)
        for name, line in BENCHES.items():
            print(f"  {name:10} {line}", file=sys.stderr)
        return 2
    compile_sources()
    codes: list[int] = []
    for name in names or BENCHES:
        print(f"\n── {name}: {BENCHES[name]}", flush=True)
        codes.append(import_module(f"bench.{MODULES.get(name, name)}").main(rest))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
