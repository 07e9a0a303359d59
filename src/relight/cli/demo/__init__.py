"""A month of an invented developer, in the files that real agents write.

Everything in it is invented. The real importers read it, so it shows what Relight does with real
sessions. It has every feature on purpose: a job whose script fails unnoticed, a spiral, a fork, a
secret in a tool's result, an unreadable line.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from relight.cli.demo import claude_code, codex, cron, hermes
from relight.cli.demo.dice import Dice
from relight.cli.demo.story import PLANTED_SECRET, Stories

__all__ = ["PLANTED_SECRET", "write_demo"]

DAYS = 35
SHARES = {"claude": 6, "codex": 2, "hermes": 1}
QUIET_HOURS = 3  # no session starts so late that it would end after now


def write_demo(folder: Path, *, now: datetime, seed: int = 7) -> dict[str, str]:
    """Write the agents' homes below `folder`; return the environment to import them with.

    The same `now` and `seed` write the same bytes. Local times are those of `now`'s time zone.
    """
    dice = Dice(seed)
    stories = Stories(dice.branch("stories"))
    homes = {name: folder / f".{name}" for name in SHARES}
    moments = plan_sessions(dice.branch("plan"), now=now)
    begun = share_out(dice.branch("share"), moments)
    claude_code.write_transcripts(
        homes["claude"], dice.branch("claude"), stories, begun["claude"], now=now
    )
    codex.write_rollouts(homes["codex"], dice.branch("codex"), stories, begun["codex"])
    night = cron.run_jobs(dice.branch("cron"), now=now, days=DAYS)
    chats = hermes.hold_chats(dice.branch("hermes"), stories, begun["hermes"])
    hermes.write_database(homes["hermes"] / "state.db", [*night.conversations, *chats])
    cron.write_night(homes["hermes"], night, now=now)
    return {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(homes["claude"]),
        "CODEX_HOME": str(homes["codex"]),
        "HERMES_HOME": str(homes["hermes"]),
    }


def plan_sessions(dice: Dice, *, now: datetime) -> list[datetime]:
    """Return when sessions start: on most working days, rarely at weekends."""
    moments = []
    for age in range(DAYS, -1, -1):
        day = now - timedelta(days=age)
        is_weekend = day.weekday() > 4
        many, first, last = ((0, 0, 1), 10, 21) if is_weekend else ((2, 2, 3, 3), 8, 17)
        for _ in range(dice.choice(many)):
            at = day.replace(hour=dice.randint(first, last), minute=dice.randint(0, 59))
            at = at.replace(second=dice.randint(0, 59), microsecond=0)
            if at < now - timedelta(hours=QUIET_HOURS):
                moments.append(at)
    return sorted(moments)


def share_out(dice: Dice, moments: Sequence[datetime]) -> dict[str, list[datetime]]:
    """Return the sessions of each agent: a fixed share of every nine, in random order."""
    hand: list[str] = []
    begun: dict[str, list[datetime]] = {name: [] for name in SHARES}
    for at in moments:
        if not hand:
            hand = [name for name, share in SHARES.items() for _ in range(share)]
            dice.shuffle(hand)
        begun[hand.pop()].append(at)
    return begun
