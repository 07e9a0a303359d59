"""Sums of sessions that workers add up, and that the database would."""

import random
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from relight.config import Settings
from relight.model import Cost, Mark, Parsed, Session, ToolCall, Turn, Usage
from relight.store import Store, open_store
from relight.store.write.record import Recorder
from relight.store.write.seal import prepare_piece, seal_parsed
from relight.store.write.sealed import Sealed

TABLES = (
    "session_day",
    "usage_day",
    "session_hour",
    "call_day",
    "position_day",
    "cache_rebuild",
    "listing",
)
NOON = 1_795_000_000_000
MODELS = (None, "gpt-5-mini", "gpt-5-mini-2025-08-07", "anthropic/claude-sonnet-4-5", "nobody-1")
ZONE = "Europe/Berlin"


def read_rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(store.query(f"select * from {name}"), key=repr) for name in TABLES}


class Work:
    """Records of some sessions by chance: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.choose = self.chance.choice

    def at(self) -> int | None:
        """A moment in one of three days; often the same as another's."""
        step = self.chance.randrange(40)
        return None if step == 0 else NOON + step * 5_400_000

    def count(self) -> int | None:
        return self.choose([None, 0, 7, 500, 20_000])

    def turn(self, session: str, number: int) -> Turn:
        calls, cost = self.choose([1, 1, 1, 0]), None
        if self.chance.random() < 0.2:
            cost = Cost(self.choose([0, 90]), self.choose(["reported", "included"]), "source")
        return Turn(
            key=f"{session}-{number}",
            session=session,
            at=self.at(),
            model=self.choose(MODELS),
            provider=self.choose([None, "openai"]),
            role=self.choose([None, None, "reference", "reviewer"]),
            calls=calls,
            usage=Usage(*(self.count() for _ in Usage.__struct_fields__)),
            usage_status=self.choose(["final", "partial"]),
            cost=cost,
            failure=None if calls else self.choose(["rate_limit", "timeout"]),
            branch=self.choose([None, "main", "fix"]),
        )

    def call(self, session: str, number: int, turns: list[Turn]) -> ToolCall:
        made: Turn | None = self.choose([None, *turns])
        return ToolCall(
            key=f"{session}-call-{number}",
            session=session,
            tool=self.choose(["Bash", "Read"]),
            turn=None if made is None else made.key,
            at=self.at(),
            finished_at=NOON,
            arguments='{"command": "ls"}',
            result=self.choose(["a.py", "ls: cannot access 'b': No such file or directory"]),
            exit_code=self.choose([0, 1, None]),
        )

    def parse(self, name: str, parent: str | None) -> Parsed:
        turns = [self.turn(name, number) for number in range(self.chance.randrange(12))]
        calls = [self.call(name, number, turns) for number in range(self.choose([0, 3, 25]))]
        session = Session(
            key=name,
            parent=parent,
            parent_kind=None if parent is None else "subagent",
            project=self.choose([None, "/work/app"]),
            branch=self.choose([None, "main"]),
            model=self.choose(MODELS),
            started_at=NOON,
            ended_at=self.choose([None, NOON + 86_400_000]),
            ending=self.choose([None, "answer", "prompt"]),
        )
        return Parsed(state=b"", owner=name, sessions=[session], turns=turns, calls=calls)

    def seal(self, name: str, parent: str | None) -> Sealed:
        sealed = seal_parsed("claude-code", self.parse(name, parent), key=b"key", timezone=ZONE)
        place = Mark(path=f"/{name}.jsonl")
        return replace(sealed, before=place, after=replace(place, offset=1, size=1), raw_bytes=1)


def import_all(folder: Path, pieces: list[Sealed], *, aliases: str = "") -> tuple[Any, int]:
    folder.mkdir()
    (folder / "config.toml").write_text(f'timezone = "{ZONE}"\n[models.aliases]\n{aliases}')
    with open_store(folder) as store:
        for some in (pieces[:3], pieces[3:]):
            Recorder(store).record(some)
        return read_rows(store), sum(len(one.sums) for one in pieces)


def test_sums_of_workers_are_the_rows_that_the_database_adds_up(tmp_path: Path) -> None:
    summed = 0
    for seed in range(12):
        work = Work(seed)
        parents = [None, None, "s0", "s1", None, "s9"]
        pieces = [work.seal(f"s{number}", parent) for number, parent in enumerate(parents)]
        plain, none = import_all(tmp_path / f"plain-{seed}", list(map(prepare_piece, pieces)))
        prepared = [prepare_piece(one, Settings()) for one in pieces]
        found, count = import_all(tmp_path / f"summed-{seed}", prepared)
        assert none == 0
        for name in TABLES:
            assert found[name] == plain[name], name
        summed += count
    assert summed > 40


def test_a_session_that_another_piece_goes_on_with_is_summed_as_a_whole(tmp_path: Path) -> None:
    work = Work(1)
    pieces = [work.seal("s0", None), work.seal("s1", None)]
    more = seal_parsed("claude-code", work.parse("s0", None), key=b"key", timezone=ZONE)
    mark = Mark(path="/other.jsonl")
    pieces.append(replace(more, before=mark, after=replace(mark, offset=1, size=1), raw_bytes=1))
    plain, _ = import_all(tmp_path / "plain", list(map(prepare_piece, pieces)))
    summed, _ = import_all(tmp_path / "summed", [prepare_piece(one, Settings()) for one in pieces])
    assert summed == plain
