"""Advisers muted at random for whole sessions, so that their worth can be measured.

`[moa] mute_share` is the share of sessions that each adviser is muted in, each dealt by itself. The
deal is written before the session's first call, and holds for all of it.
"""

import random
import time

from msgspec.structs import replace

from relight.names import find_model_name
from relight.store import Store
from relight.store.advisers import AdviserDealRow, add_adviser_deals, find_deals
from relight.work.moa.mixture import Preset

_dice = random.SystemRandom()


def mute_advisers(store: Store | None, preset: Preset, session_id: str) -> Preset:
    """Return the preset without the advisers that this session is dealt to go without.

    Without a store nothing can be recorded, so nothing is muted.
    """
    share = 0.0 if store is None else store.config.moa.mute_share
    if store is None or not share or not store.can_write:
        return preset
    aliases = store.config.models.aliases
    names = {find_model_name(one.model, aliases) for one in preset.references}
    known = {row.adviser for row in find_deals(store, session_id)}
    now = round(time.time() * 1000)
    add_adviser_deals(
        store,
        [
            AdviserDealRow(session_id, name, preset.name, now, share, int(_dice.random() < share))
            for name in sorted(names - known)
        ],
    )
    muted = {row.adviser for row in find_deals(store, session_id) if row.is_muted}
    kept = [one for one in preset.references if find_model_name(one.model, aliases) not in muted]
    return replace(preset, references=kept)
