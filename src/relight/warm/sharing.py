"""Templates as files: none is exported with a secret in it, and an imported one is only data."""

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from relight import __version__
from relight.chat.similarity import LIMIT
from relight.chat.validity import validate_messages
from relight.errors import RelightError
from relight.judging.kinds import Category, TaskType
from relight.locks import make_folder, write_private
from relight.model import OutcomeName
from relight.names import file_name
from relight.redact import find_secrets
from relight.store import Store
from relight.store.templates import has_name
from relight.text import strip_hidden
from relight.times import write_time
from relight.warm.capture import count_redactions, describe_seed
from relight.warm.curation import find_objections, offer_force, retire_weakest
from relight.warm.injection import SEED_TOKENS
from relight.warm.library import NAME_LIMIT, Template, add_version, check_name
from relight.warm.material import redact_messages
from relight.warm.seeds import extract_seed
from relight.warm.words import read_words

FORMAT = "relight-template/1"
FILE_LIMIT_BYTES = 1_000_000
DESCRIPTION_CHARACTERS = 500
ITEMS_LIMIT, ITEM_CHARACTERS = 20, 300

Words = Annotated[str, Meta(max_length=ITEM_CHARACTERS)]
Items = Annotated[list[Words], Meta(max_length=ITEMS_LIMIT)]


class TemplateFile(Struct, forbid_unknown_fields=True, kw_only=True):
    """The content of a template's file: data, and nothing that is ever run."""

    format: str
    name: str
    version: int
    description: str = ""
    category: Category
    task_type: TaskType
    tags: Items = []
    task: str
    seed: list[dict[str, Any]]
    score: Annotated[float, Meta(ge=0, le=1)] | None = None
    outcome: OutcomeName = "unknown"
    evidence: Items = []
    overruled: Items = []
    provenance: Annotated[dict[Words, Words | None], Meta(max_length=ITEMS_LIMIT)] = {}


def export_template(template: Template, place: str | Path, *, now: int | None = None) -> Path:
    """Write a template as a JSON file, and return its path; raise if redaction finds a secret.

    `place` is a folder, or a file that ends in `.json`; only another template is overwritten.
    The file names the source of the session, but not its id, which is private.
    """
    data = msgspec.json.format(msgspec.json.encode(make_file(template, now=now)), indent=2) + b"\n"
    place = Path(place)
    is_file = place.suffix == ".json" and not place.is_dir()
    path = place if is_file else place / file_name(template.name, ending=".json")
    try:
        make_folder(path.parent)
        if path.exists() and FORMAT.encode() not in path.read_bytes()[:200]:
            raise RelightError(f"{path} exists and is not a template", "name another place")
        write_private(path, data)
    except OSError as error:
        raise RelightError(f"cannot write {path}: {error.strerror}") from error
    return path


def make_file(template: Template, *, now: int | None = None) -> TemplateFile:
    """Return the content of a template's file; raise if redaction finds a secret in it."""
    at = int(time.time() * 1000) if now is None else now
    provenance = template.provenance or {
        "made_by": f"relight {__version__}",
        "source": (template.source_session or "").partition(":")[0] or None,
        "captured_at": write_time(template.created_at),
    }
    content = asdict(template) | {
        "format": FORMAT,
        "tags": _limit(template.tags),
        "evidence": _limit(template.evidence),
        "overruled": _limit(template.overruled),
        "provenance": {**provenance, "exported_at": write_time(at)},
    }
    names = TemplateFile.__struct_fields__
    # what could not be imported again is not written
    made = msgspec.convert({name: content[name] for name in names}, TemplateFile)
    if secrets := find_secrets(msgspec.json.encode(made)):
        rules = ", ".join(sorted({secret.rule for secret in secrets}))
        raise RelightError(
            f"{template.name} is not written: redaction finds {rules} in it",
            "capture it again: that removes what redaction finds today",
        )
    return made


def _limit(items: list[str]) -> list[str]:
    return [item[:ITEM_CHARACTERS] for item in items[:ITEMS_LIMIT]]


def read_template_file(store: Store, path: str | Path, *, name: str | None = None) -> Template:
    """Return the template in a file, validated and redacted, not yet in the library."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
        if len(data) > FILE_LIMIT_BYTES:
            raise RelightError(f"{path} is too large for a template")
        content = msgspec.json.decode(data, type=TemplateFile)
    except OSError as error:
        raise RelightError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RelightError(f"{path} is not a template: {error}") from error
    if content.format != FORMAT:
        raise RelightError(f"{path} is not a template of this kind: {content.format[:40]!r}")
    # extracted again from the messages: anything else a message might hold is left out
    seed = redact_messages(store, extract_seed(content.seed, max_tokens=SEED_TOKENS, style="text"))
    if not seed or validate_messages(seed):
        raise RelightError(f"{path} holds no messages that a session could begin with")
    check_name(chosen := name or " ".join(content.name.split())[:NAME_LIMIT])
    texts = {
        "task": strip_hidden(content.task[:LIMIT]),
        "description": strip_hidden(content.description[:DESCRIPTION_CHARACTERS]),
        "tags": [*content.tags, "imported"],
        "evidence": [f"as its file says: {one}" for one in content.evidence],
        "overruled": content.overruled,
        "provenance": content.provenance,
    }
    clean = redact_messages(store, [texts])[0]
    return Template(
        **describe_seed(seed),
        name=chosen,
        description=clean["description"],
        project=None,
        category=content.category,
        task_type=content.task_type,
        tags=sorted({*clean["tags"]}),
        task=clean["task"],
        score=content.score,
        outcome=content.outcome,
        evidence=clean["evidence"],
        overruled=clean["overruled"],
        redactions=count_redactions(msgspec.json.encode([seed, clean]).decode()),
        source_session=None,
        provenance={**clean["provenance"], "file": path.name, "name": content.name[:NAME_LIMIT]},
        created_at=int(time.time() * 1000),
        words=read_words(seed, task=clean["task"]),
    )


def import_template(store: Store, template: Template, *, force: bool = False) -> Template:
    """Add an imported template to the library, once a person has seen it.

    It must not be nearly the same as another, nor weaker than those it would replace. `force`
    overrules that, and the template records it.
    """
    objections = find_objections(store, template)
    if objections and not force:
        raise offer_force(objections[0], "import")
    if has_name(store, template.name):
        raise RelightError(
            f"there is a template {template.name!r} already", "give it another name with --name"
        )
    overruled = [*dict.fromkeys([*template.overruled, *(one.message for one in objections)])]
    added = add_version(store, replace(template, overruled=overruled))
    retire_weakest(store, added)
    return added
