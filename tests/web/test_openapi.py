"""The API's document is true: every address is in it, and every answer is as it says."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from starlette.testclient import TestClient

from relight.reports.totals import KEYS
from relight.web.actions import ACTIONS
from relight.web.api import QUERIES
from relight.web.app import create_app
from relight.web.openapi import format_document
from relight.web.parameters import NoParameters
from relight.web.routes import DOCUMENT, SERVER_QUERIES
from relight.web.team import TEAM_ACTIONS

EXAMPLES = 20
PHASES = [Phase.generate]


@pytest.fixture(scope="module")
def schema(home: Path) -> Any:
    config = SchemathesisConfig.from_dict(
        {
            "seed": 11,
            "generation": {
                "max-examples": EXAMPLES,
                "deterministic": True,
                "no-shrink": True,
                "database": "none",
            },
        }
    )
    return schemathesis.openapi.from_asgi(
        "/api/openapi.json", create_app(home, hosts=["testserver"]), config=config
    )


PATHS: dict[str, Any] = json.loads(DOCUMENT.read_bytes())["paths"]
OPERATIONS = [(path, method) for path, methods in PATHS.items() for method in methods]


def may_be_wrong(path: str, method: str) -> bool:
    """True if a request can be invalid: in a path or header any text is valid."""
    operation = PATHS[path][method]
    parameters = operation.get("parameters", ())
    return "requestBody" in operation or any(one["in"] == "query" for one in parameters)


# addresses for machines are those of `serve --team`, in MessagePack: `tests/intake/test_team.py`
CASES = [
    (*operation, mode)
    for operation in OPERATIONS
    if not operation[0].startswith("/api/v1/")
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or may_be_wrong(*operation)
]


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_the_api_keeps_to_its_document(
    schema: Any, path: str, method: str, mode: GenerationMode
) -> None:
    """Whatever the document allows is answered as it says, and whatever else is refused."""

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), phases=PHASES)
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def keep(case: Any) -> None:
        # either, and not both: a document cannot say that
        assume(not {"alpha", "half_life_days"} <= set(case.query or ()))
        case.call_and_validate()

    keep()


def test_the_document_is_the_one_that_the_program_generates() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == format_document(), "run `./dev docs`"


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/api/openapi.json"])
def test_every_response_has_a_named_schema(path: str) -> None:
    for operation in PATHS[path].values():
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(schema) == {"$ref"}


def test_every_address_of_the_api_is_in_the_document_and_no_other() -> None:
    served = {(plain(one.path), "get") for one in QUERIES}
    served |= {(plain(one.path), "post") for one in ACTIONS}
    served |= {(path, "get") for path in SERVER_QUERIES}
    served |= {(one.path, one.method.lower()) for one in TEAM_ACTIONS}
    assert set(OPERATIONS) == served


@pytest.mark.parametrize("query", QUERIES, ids=lambda one: one.path)
def test_the_document_has_the_parameters_that_are_read(query: Any) -> None:
    parameters = PATHS[plain(query.path)]["get"].get("parameters", ())
    in_query = {one["name"] for one in parameters if one["in"] == "query"}
    assert in_query == set(query.parameters.__struct_fields__)
    in_path = {one["name"] for one in parameters if one["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", plain(query.path)))


@pytest.mark.parametrize("action", ACTIONS, ids=lambda one: one.path)
def test_the_document_has_the_fields_that_are_sent(client: TestClient, action: Any) -> None:
    document = client.get("/api/openapi.json").json()
    body = PATHS[plain(action.path)]["post"].get("requestBody")
    if body is None:
        assert action.body is NoParameters
        return
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    fields = document["components"]["schemas"][name]
    assert set(fields["properties"]) == set(action.body.__struct_fields__)
    needed = {one.name for one in msgspec.structs.fields(action.body) if one.required}
    assert set(fields.get("required", ())) == needed


def plain(path: str) -> str:
    return path.replace(":path", "")


def test_what_is_there_is_shown_as_the_document_says(schema: Any, client: TestClient) -> None:
    """The names that a machine makes up are not there: these are."""
    sessions = client.get("/api/sessions?since=all&limit=500").json()["sessions"]
    jobs = client.get("/api/jobs").json()["jobs"]
    templates = client.get("/api/templates").json()["templates"]
    traces = client.get("/api/moa/traces").json()["traces"]
    skills = {row["skill_name"] for row in client.get("/api/skills/ema").json()["rows"]}
    assert sessions
    assert jobs
    assert templates
    assert traces
    assert skills
    asked = [
        *(("/api/sessions/{session}", {"session": one["session_id"]}, {}) for one in sessions),
        *(
            ("/api/sessions/{session}/steps", {"session": one["session_id"]}, {})
            for one in sessions
        ),
        *(("/api/jobs/{job}", {"job": one["job"]}, {}) for one in jobs),
        *(("/api/jobs/history", {}, {"job": one["job"]}) for one in jobs),
        *(("/api/templates/{template}", {"template": one["name"]}, {}) for one in templates),
        *(("/api/templates/{template}/export", {"template": one["name"]}, {}) for one in templates),
        *(("/api/provisions", {}, {"template": one["name"]}) for one in templates),
        *(("/api/moa/traces/{session}", {"session": one["session_id"]}, {}) for one in traces),
        *(("/api/skills/compare", {}, {"skill": skill}) for skill in sorted(skills)),
        *(("/api/report", {}, {"by": [key], "since": "all"}) for key in KEYS),
    ]
    for path, named, query in asked:
        case = schema[path]["get"].Case(path_parameters=named, query=query)
        assert case.call_and_validate().status_code == 200
