"""Signs of how a session went: how often each kind is right on labelled sessions.

`--data DIR` names a folder of labelled sessions; `bench/labelled.py` says under which names their
fields are looked for. The figures stand in `data/outcomes.toml`, by which a kind decides or not.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from bench.labelled import read_sessions
from bench.measure import print_rows
from relight.intake.importing import import_all
from relight.judging.outcomes import find_signs, read_sign_table
from relight.stats.rates import wilson
from relight.store import open_store
from relight.store.derive.outcomes import read_evidence


def main(words: list[str]) -> int:
    """Print how often each kind of sign is right; exit 1 if the table has other figures."""
    parser = argparse.ArgumentParser(prog="bench outcomes")
    parser.add_argument("--data", type=Path, help="folder of labelled sessions")
    data = parser.parse_args(words).data
    if data is None:
        print("how often signs are right needs labelled sessions: --data DIR")
        return 0
    files = sorted(data.glob("*.jsonl*"))
    truths = {
        f"{file.name}-{number}": (one, one.is_success)
        for file in files
        for number, one in enumerate(read_sessions(file))
        if one.is_success is not None
    }
    seen, right = Counter[str](), Counter[str]()
    table = read_sign_table()
    with tempfile.TemporaryDirectory() as folder:
        chats = Path(folder) / "chats.jsonl"
        with chats.open("w") as out:
            for key, (one, _) in truths.items():
                session = {"id": key, "messages": one.messages, "calls": one.calls}
                out.write(json.dumps(session) + "\n")
        with open_store(Path(folder) / "home") as store:
            import_all(store, sources=["chat"], folder=chats)
            with store.reading() as database:
                for session_id, key in store.query("select id, key from session"):
                    evidence = read_evidence(database, session_id)
                    outcome = "success" if truths[key][1] else "failure"
                    signs = find_signs(evidence) if evidence else ()
                    for name in {one.kind for one in signs if one.kind is not None}:
                        seen[name] += 1
                        right[name] += table.kinds[name].points_to == outcome
    successes = sum(bool(success) for _, success in truths.values())
    print(f"{len(truths):,} sessions, {successes:,} of them successes")
    rows = [("sign", "right", "interval", "in the table")]
    for name, kind in table.kinds.items():
        interval = wilson(right[name], seen[name])
        is_same = (kind.sessions, kind.right) == (seen[name], right[name])
        rows.append(
            (
                f"{name}: {kind.points_to}",
                f"{right[name]} of {seen[name]}",
                f"{interval.low:.2f} – {interval.high:.2f}",
                "the same" if is_same else f"{kind.right} of {kind.sessions}",
            )
        )
    print_rows(rows)
    return int(any(row[3] != "the same" for row in rows[1:]))
