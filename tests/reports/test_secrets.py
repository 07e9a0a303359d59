"""Secrets that an older Relight left in the record are found and removed."""

from pathlib import Path

import pytest

import relight
from relight import redact as redaction
from relight.intake.rebuild import rebuild
from relight.reports.secrets import find_stored_secrets
from relight.store import open_store

TOKEN = "ghp_" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"


def test_secrets_recorded_under_older_rules_are_found_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path) as store:
        with monkeypatch.context() as older:
            older.setattr(redaction, "find_secrets", lambda *_, **__: [])
            with relight.record(store, "one", model="m") as rec:
                rec.message("user", f"Use {TOKEN} here.")
                rec.turn(input_tokens=1, output_tokens=1)
        (found,) = {(one.session_id, one.rule) for one in find_stored_secrets(store)}
        assert found == ("relight:one", "github")
        rebuild(store, again_redact=True)
        assert find_stored_secrets(store) == []
        if store.engine == "sqlite":
            assert TOKEN.encode() not in (tmp_path / "relight.db").read_bytes()


def test_a_session_is_redacted_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "Zk7-vial-Mq3-crow"
    with open_store(tmp_path) as store:
        with monkeypatch.context() as older:
            older.setattr(redaction, "find_secrets", lambda *_, **__: [])
            with relight.record(store, "one", model="m") as rec:
                rec.message("user", f"Say {secret}.")
                rec.turn(input_tokens=1, output_tokens=1)
                rec.message("user", f"DB_PASSWORD={secret}")
        rebuild(store, again_redact=True)
        title = store.query("select title from session")[0][0]
        assert secret not in title
        assert "[redacted:value:" in title
