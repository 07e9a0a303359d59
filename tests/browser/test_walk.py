"""Every page, at both widths and in both schemes: nothing breaks, and everybody can use it."""

from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Browser

import serving
from build_dashboard import import_chat, write_messages
from relight.store import open_store
from relight.warm.library import read_templates
from relight.web.pages import PAGES
from relight.work.moa.trace_report import find_traces
from visiting import Scheme, Visit, visiting


def list_pages(home: Path) -> list[str]:
    """An address of every page there is, with something on it."""
    with open_store(home) as store:
        ((parent,),) = store.query(
            "select source || ':' || key from session"
            " where id in (select root_id from session where id <> root_id) limit 1"
        )
        ((spiral,),) = store.query(
            "select source || ':' || key from session where id in (select session_id from tool_call"
            " where label = 'error' group by session_id, fingerprint having count(*) > 9)"
        )
        template = read_templates(store)[0].name
        trace = next(find_traces(store)).session_id
    return [
        "/",
        "/sessions",
        f"/sessions/{parent}",
        f"/sessions/{spiral}",
        "/skills",
        "/skills/ticket-triage",
        "/jobs",
        "/jobs/hermes:b20e94d7c5a1",
        "/jobs/release-watch",
        "/savings",
        "/templates",
        f"/templates/{template}",
        "/templates?category=coding&task_type=code&sort=best",
        "/provisions",
        "/experiments",
        "/experiments/warm-or-cold",
        "/moa",
        f"/moa/{trace}",
        "/failures",
        "/lessons",
        "/limits",
        "/glossary",
        # filters that narrow, that do not, and that leave nothing
        "/jobs?since=7d&project=shop&model=gpt",
        "/jobs/release-watch?outcome=failure",
        "/sessions?failure=timeout&tool=%22%22",
        "/skills?model=nobody",
    ]


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_is_sound_and_open_to_everybody(
    browser: Browser, address: str, demo_home: Path, width: int
) -> None:
    with visiting(browser, address, width=width) as visit:
        for path in list_pages(demo_home):
            page = visit.open(path)
            assert page.locator("h1").count() == 1
            assert page.locator(".empty").filter(has_text="relight import").count() == 0, path
            check_schemes(visit)
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        check_schemes(visit)


def test_names_in_lists_are_readable_in_a_small_window(browser: Browser, address: str) -> None:
    # a card of a third of the window has short names only
    narrow = """[...document.querySelectorAll(".clip:first-child")]
        .filter((one) => one.clientWidth < 150 && !one.closest(".w4"))
        .map((one) => one.innerText)"""
    with visiting(browser, address) as visit:
        visit.page.set_viewport_size({"width": 1024, "height": 800})
        for path in ("/", "/sessions", "/templates", "/failures", "/jobs", "/skills"):
            assert visit.open(path).evaluate(narrow) == [], path
            visit.check()


def test_no_row_of_a_list_is_mostly_blank_on_a_phone(
    browser: Browser, address: str, demo_home: Path
) -> None:
    # a narrow column at the right, which is not in sight, would make its row as high as a screen
    tall = """[...document.querySelectorAll("main tbody tr")]
        .filter((one) => one.getBoundingClientRect().height > 150).map((one) => one.innerText)"""
    with visiting(browser, address, width=390) as visit:
        for path in list_pages(demo_home):
            assert visit.open(path).evaluate(tall) == [], path


def test_a_name_with_dots_between_slashes_has_an_address(browser: Browser, tmp_path: Path) -> None:
    key = "a/../b"
    about = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]
    import_chat(tmp_path / "home", write_messages(tmp_path / "a.jsonl", key=key, messages=about))
    with (
        serving.serve(tmp_path / "home", "--no-watch") as (found, _),
        visiting(browser, found.rstrip("/")) as visit,
    ):
        page = visit.open("/sessions")
        page.locator("main [data-row]").first.click()
        page.wait_for_url(lambda url: "/sessions/chat:a" in url)
        assert page.locator(".ids code").first.inner_text() == f"chat:{key}"
        visit.check()


def check_schemes(visit: Visit) -> None:
    """Check a page in the light and in the dark; the style sheet alone knows the difference."""
    for scheme in get_args(Scheme):
        visit.page.emulate_media(color_scheme=scheme)
        visit.check()
        visit.check_access()
    visit.page.emulate_media(color_scheme="light")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_with_nothing_to_show_are_sound_too(
    browser: Browser, tmp_path: Path, width: int, scheme: Scheme
) -> None:
    with (
        serving.serve(tmp_path / "new") as (found, _),
        visiting(browser, found.rstrip("/"), width=width, scheme=scheme) as visit,
    ):
        for path in (page.path for page in PAGES if page.is_in_navigation):
            assert visit.open(path).locator(".empty").count() >= 1, path
            visit.check()
            visit.check_access()


def test_the_token_is_asked_for_by_a_sound_page(browser: Browser, tmp_path: Path) -> None:
    home, token = tmp_path / "new", "as-long-as-it-must-be"
    with (
        serving.serve(home, RELIGHT_TOKEN=token) as (found, _),
        visiting(browser, found.rstrip("/"), width=390, scheme="dark") as visit,
    ):
        page = visit.open("/skills?since=7d")
        visit.check()
        visit.check_access()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/skills?since=7d")
        visit.check()


def test_a_page_that_is_not_there_says_so(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        response = visit.page.goto(f"{address}/sessions/nobody")
        assert response is not None
        assert response.status == 404
        assert "there is no session 'nobody'" in visit.page.locator("h1").inner_text()
        visit.troubles.clear()  # the browser itself complains of the status
        visit.check_access()


@pytest.mark.parametrize("with_script", [True, False])
def test_on_a_phone_every_page_is_two_taps_away(
    browser: Browser, address: str, with_script: bool
) -> None:
    with visiting(browser, address, width=390, with_script=with_script) as visit:
        page = visit.open("/")
        pages = page.get_by_role("navigation", name="Pages")
        assert pages.count() == 0, "the list is closed, and does not cover the page"
        for one in (one for one in PAGES if one.is_in_navigation):
            page.get_by_role("button", name="Pages").click()
            link = pages.get_by_role("link", name=one.title, exact=True)
            box = link.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert 24 <= box["height"] <= box["y"] + box["height"] <= 844
            if one.path == "/":
                visit.check()
                if with_script:
                    visit.check_access()
            link.click()
            page.wait_for_url(f"{address}{one.path}*")
            assert pages.count() == 0
        visit.check()


def test_pages_work_without_any_script(browser: Browser, address: str) -> None:
    with visiting(browser, address, with_script=False) as visit:
        page = visit.open("/")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Sessions").click()
        page.wait_for_url("**/sessions**")
        page.get_by_role("searchbox", name="Search sessions").fill("daily-report")
        page.keyboard.press("Enter")
        page.wait_for_url("**search=daily-report**")
        names = page.locator("tbody a[data-row]").all_inner_texts()
        assert names
        assert all("daily-report" in name for name in names)
        page.get_by_role("link", name="7 days").click()
        page.wait_for_url("**since=7d**")
        assert "since=7d" in page.url
        assert "search=daily-report" in page.url
