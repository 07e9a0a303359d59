"""Templates as files, with care: none leaves with a secret in it, and a foreign one is data."""

import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight import __version__
from relight.errors import RelightError
from relight.names import file_name
from relight.redact import find_secrets
from relight.relevance import LIMIT
from relight.seeds import extract_seed
from relight.store import Store
from relight.templates.capture import hash_seed, read_actions, redact_messages, refuse_duplicate
from relight.templates.library import NAME_LIMIT, Template, add_version, check_name
from relight.times import write_time
from relight.tokens import estimate_messages
from relight.validity import validate_messages

FORMAT = "relight-template/1"
FILE_LIMIT_BYTES = 1_000_000
TOKENS_LIMIT = 4000
CATEGORIES = ("coding", "research", "ops", "general")
TASK_TYPES = ("code", "file", "research", "mixed")


class _File(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a template's file holds: data, and nothing that is ever run."""

    format: str
    name: str
    version: int
    description: str = ""
    category: str
    task_type: str
    tags: list[str] = []
    task: str
    seed: list[dict[str, Any]]
    score: float | None = None
    outcome: str = "unknown"
    evidence: list[str] = []
    overruled: list[str] = []
    provenance: dict[str, Any] = {}


def export_template(template: Template, folder: Path, *, now: int | None = None) -> Path:
    """Write a template as a JSON file; refused if redaction still finds anything in it.

    Where it was made is told without the session's id, which is nobody else's business.
    """
    at = int(time.time() * 1000) if now is None else now
    provenance = template.provenance or {
        "made_by": f"relight {__version__}",
        "source": (template.source_session or "").partition(":")[0] or None,
        "captured_at": write_time(template.created_at),
    }
    content = _File(
        format=FORMAT,
        name=template.name,
        version=template.version,
        description=template.description,
        category=template.category,
        task_type=template.task_type,
        tags=template.tags,
        task=template.task,
        seed=template.seed,
        score=template.score,
        outcome=template.outcome,
        evidence=template.evidence,
        overruled=template.overruled,
        provenance={**provenance, "exported_at": write_time(at)},
    )
    data = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    if secrets := find_secrets(data):
        rules = ", ".join(sorted({secret.rule for secret in secrets}))
        raise RelightError(
            f"{template.name} is not written: redaction finds {rules} in it",
            "capture it again: what is found today is taken out then",
        )
    path = folder / file_name(template.name, ending=".json")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(data)
    except OSError as error:
        raise RelightError(f"cannot write {path}: {error.strerror}") from error
    return path


def read_foreign(store: Store, path: Path, *, name: str | None = None) -> Template:
    """The template that a file holds, checked and redacted, not yet kept."""
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise RelightError(f"{path} is too large for a template")
        content = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise RelightError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RelightError(f"{path} is no template: {error}") from error
    if content.format != FORMAT:
        raise RelightError(f"{path} is no template of this kind: {content.format[:40]!r}")
    if content.category not in CATEGORIES or content.task_type not in TASK_TYPES:
        raise RelightError(f"{path} names a kind of work that there is not")
    # made anew from its own messages: whatever else a message might hold is left behind
    seed = redact_messages(store, extract_seed(content.seed, max_tokens=TOKENS_LIMIT))
    if not seed or validate_messages(seed):
        raise RelightError(f"{path} holds no messages that a session could begin with")
    check_name(chosen := name or " ".join(content.name.split())[:NAME_LIMIT])
    calls = [call for message in seed for call in message.get("tool_calls", ())]
    text = redact_messages(store, [{"task": content.task[:LIMIT], "told": content.description}])[0]
    return Template(
        id=0,
        name=chosen,
        version=0,
        description=str(text["told"])[:500],
        project=None,
        category=content.category,
        task_type=content.task_type,
        tags=sorted({*content.tags, "imported"}),
        tools=sorted({call["function"]["name"] for call in calls}),
        task=str(text["task"]),
        actions=read_actions(calls),
        seed=seed,
        tokens=estimate_messages(seed),
        score=content.score,
        outcome=content.outcome,
        evidence=[f"as its file says: {one}" for one in content.evidence],
        overruled=content.overruled,
        redactions={},
        source_session=None,
        provenance={**content.provenance, "file": path.name, "name": content.name[:NAME_LIMIT]},
        created_at=int(time.time() * 1000),
        content_hash=hash_seed(seed),
    )


def import_template(store: Store, template: Template) -> Template:
    """Keep a foreign template, once a person has seen it."""
    refuse_duplicate(store, template)
    taken = store.query("select 1 from template where name = ?", (template.name,))
    if taken:
        raise RelightError(
            f"there is a template {template.name!r} already", "give it another name with --name"
        )
    return add_version(store, template)
