"""Forms of pages: what fails keeps its page, what was typed, and says why once."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import serving
from relight.errors import RelightError
from relight.store import Store, open_store
from relight.warm.capture import capture_template
from relight.warm.library import read_templates

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def session(home: Path) -> str:
    """A session that makes no template: it failed."""
    with open_store(home) as store:
        ((name,),) = store.query(
            "select source || ':' || key from session where outcome = 'failure' and id = root_id"
            " order by started_at desc limit 1"
        )
    return str(name)


def send(client: TestClient, page: str, action: str, **fields: str) -> tuple[int, str]:
    form = {"secret": serving.read_secret(client), "act": action, "next": "/", **fields}
    sent = client.post(page, data=form)
    return sent.status_code, sent.text


def find_template_name(home: Path) -> str:
    with open_store(home) as store:
        return read_templates(store)[0].name


def test_each_action_that_fails_keeps_its_page(
    client: TestClient, home: Path, session: str
) -> None:
    template = find_template_name(home)
    label, capture = (f"/api/sessions/{quote(session)}/{name}" for name in ("label", "template"))
    for page, action, fields, status, why in (
        (f"/sessions/{session}", label, {"outcome": "odd", "why": EVIL}, 400, "outcome"),
        (f"/sessions/{session}", capture, {"name": "mine"}, 400, "does not make a template"),
        (f"/templates/{template}", f"/api/templates/{template}/restore", {"x": "1"}, 400, "x"),
        ("/templates", "/api/templates/none/restore", {}, 404, "none"),
        ("/jobs", "/api/jobs/none/run", {}, 404, "none"),
        ("/jobs/release-watch", "/api/jobs/none/pause", {}, 404, "none"),
        ("/jobs/release-watch", "/api/jobs/none/resume", {}, 404, "none"),
        ("/jobs", "/api/nothing", {}, 404, "there is no such action"),
    ):
        found, text = send(client, page, action, **fields)
        assert found == status, (page, action, text[:300])
        title = re.search("<h1>.*?</h1>", client.get(page).text, re.DOTALL)
        assert title is not None
        assert title[0] in text
        (alert,) = re.findall(r'<p class="problem" role="alert"[^>]*>(.*?)</p>', text, re.DOTALL)
        assert why in unescape(alert)
        assert EVIL not in text


def test_what_was_typed_stays_in_the_field_where_it_stands(
    client: TestClient, session: str
) -> None:
    action = f"/api/sessions/{quote(session)}/label"
    status, text = send(client, f"/sessions/{session}", action, outcome="odd", why='so "it" is')
    assert status == 400
    (form,) = re.findall(r'<form[^>]* id="label".*?</form>', text, re.DOTALL)
    assert 'name="why" value="so &#34;it&#34; is"' in form
    assert 'role="alert"' in form


def test_a_secret_of_an_earlier_server_costs_nothing_that_was_typed(
    client: TestClient, session: str
) -> None:
    form = {"secret": "old", "act": f"/api/sessions/{quote(session)}/label", "why": "tests pass"}
    sent = client.post(f"/sessions/{session}", data=form | {"outcome": "success"})
    assert sent.status_code == 403
    assert 'value="tests pass"' in sent.text
    assert serving.read_secret(client) in sent.text


def test_a_page_takes_no_other_body_than_a_form(client: TestClient) -> None:
    headers = {"X-Relight-Secret": serving.read_secret(client)}
    sent = client.post("/jobs", json={"act": "/api/jobs/x/run"}, headers=headers)
    assert sent.status_code == 415


def read_reason(text: str) -> str:
    (found,) = re.findall(r'<p class="small" id="no-template">(.*?)</p>', text, re.DOTALL)
    return unescape(re.sub("<[^>]*>", "", found.replace("<br>", " "))).strip()


def try_to_capture(store: Store, name: str) -> str | None:
    """Make a template of a session; return why not, as the command prints it, in one line."""
    try:
        capture_template(store, name)
    except RelightError as error:
        # a page shows commands as code
        return f"{error.message} {error.hint or ''}".strip().replace("`", "")
    return None


def list_sessions(store: Store) -> list[str]:
    return [
        name
        for (name,) in store.query(
            "select source || ':' || key from session where id = root_id and (id % 8 = 0 or"
            " outcome = 'success' and 9 <= (select count(*) from tool_call"
            " where tool_call.session_id = session.id)) order by id"
        )
    ]


def test_a_template_is_offered_where_it_can_be_made_and_else_the_page_says_why(
    tmp_path: Path,
) -> None:
    """The page and the command agree on each session of the demo, word for word."""
    home = serving.make_home(tmp_path)
    seen = {"offered": 0, "refused": 0, "unknown": 0}
    with serving.make_client(home) as client, open_store(home) as store:
        for name in list_sessions(store):
            text = client.get(f"/sessions/{name}").text
            said = try_to_capture(store, name)
            if '<button class="button main">Make template' not in text:
                assert said is not None
                assert read_reason(text).removesuffix(" Open it") == " ".join(said.split())
                seen["refused"] += 1
                seen["unknown"] += "It succeeded: make template" in text
            elif said is None:
                seen["offered"] += 1
                text = client.get(f"/sessions/{name}", headers={"Cache-Control": "no-cache"}).text
                again = read_reason(text).removesuffix(" Open it")
                assert again.endswith(" has the same content")
                assert try_to_capture(store, name) == again
            else:  # this shows only when it is made
                assert re.search("nearly the same|the weakest|same content", said)
    assert all(seen.values()), seen


def test_a_session_of_unknown_outcome_becomes_a_template_in_one_step(tmp_path: Path) -> None:
    home = serving.make_home(tmp_path)
    with serving.make_client(home) as client:
        with open_store(home) as store:
            names = [
                name
                for (name,) in store.query(
                    "select source || ':' || key from session where outcome is null or"
                    " outcome = 'unknown'"
                )
            ]
        for name in names:
            text = client.get(f"/sessions/{name}").text
            if "It succeeded: make template" in text:
                break
        status, _ = send(
            client, f"/sessions/{name}", f"/api/sessions/{name}/template", outcome="success"
        )
        assert status == 303
        with open_store(home) as store:
            assert name in {one.source_session for one in read_templates(store)}
