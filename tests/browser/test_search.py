"""Search by keyboard, by phone, without script, and with hostile text."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from build_dashboard import HOSTILE, import_chat, write_chat
from visiting import Scheme, visiting


@pytest.fixture(scope="module")
def hostile_address(
    shared_address: str, shared_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A dashboard with a session whose every text is hostile."""
    text = f"zebra {HOSTILE} ⟦zebra⟧"
    path = tmp_path_factory.mktemp("wild") / "runs.jsonl"
    import_chat(shared_home, write_chat(path, key="wild", title=text, result=text))
    return shared_address


def test_ctrl_k_opens_a_box_whose_first_hit_enter_opens(
    browser: Browser, hostile_address: str
) -> None:
    with visiting(browser, hostile_address) as visit:
        page = visit.open("/jobs")
        page.keyboard.press("Control+k")
        field = page.get_by_role("combobox", name="Search everything said and done")
        expect(field).to_be_focused()
        page.keyboard.type("zebra")
        options = page.locator("#find-hits").get_by_role("option")
        expect(options).to_have_count(2)
        expect(page.locator("#find-note")).to_have_text("2 of 2 hits")
        expect(options.nth(0)).to_have_attribute("aria-selected", "true")
        assert options.nth(0).locator("mark").all_inner_texts() == ["zebra", "zebra"]
        visit.check_access()
        page.keyboard.press("ArrowDown")
        expect(options.nth(1)).to_have_attribute("aria-selected", "true")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.address}/sessions/chat*wild?step=1#step-1")
        assert visit.troubles == []
        assert "owned" not in page.title().replace("'owned'", "")


def test_the_box_says_why_nothing_is_found_and_closes(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        page.keyboard.press("Control+k")
        page.keyboard.type("zzzz")
        expect(page.locator("#find-note")).to_have_text("no text has zzzz")
        expect(page.locator("#find-hits")).to_be_hidden()
        page.keyboard.press("Escape")
        expect(page.locator("#find")).to_be_hidden()
        page.keyboard.press("Control+k")
        expect(page.locator("#find-query")).to_be_focused()
        page.keyboard.press("Control+k")
        expect(page.locator("#find")).to_be_hidden()
        assert visit.troubles == []


def test_the_box_and_the_page_lead_to_more_hits(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        page.keyboard.press("Control+k")
        page.keyboard.type("alembic")
        note = page.locator("#find-note")
        expect(note).to_contain_text("12 of ")
        note.get_by_role("link", name="more on a page").click()
        page.wait_for_url("**/search?q=alembic")
        shown = page.locator("main .hits [data-row]")
        expect(shown).to_have_count(50)
        page.get_by_role("link", name="50 more").click()
        page.wait_for_url("**all=hits**")
        expect(shown).to_have_count(100)
        assert len(page.content()) < 100_000
        visit.check()
        visit.check_access()


def test_enter_opens_no_hit_of_an_earlier_query(browser: Browser, hostile_address: str) -> None:
    with visiting(browser, hostile_address) as visit:
        page = visit.open("/")
        page.keyboard.press("Control+k")
        page.keyboard.type("zebra")
        expect(page.locator("#find-hits [role=option]")).to_have_count(2)
        # the answer does not come before Enter
        page.route("**/api/search?*", lambda route: None)
        with page.expect_request("**/api/search?*"):
            page.keyboard.type(" okapi")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search?q=zebra+okapi")


@pytest.mark.parametrize("with_script", [True, False])
def test_the_search_page_is_a_plain_form(
    browser: Browser, hostile_address: str, with_script: bool
) -> None:
    with visiting(browser, hostile_address, with_script=with_script) as visit:
        page = visit.open("/search")
        field = page.get_by_role("searchbox", name="Search everything said and done")
        field.fill("zebra -okapi")
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_url("**/search?q=*")
        marks = page.locator("main mark")
        assert marks.all_inner_texts() == ["zebra"] * 4
        assert page.locator("main script, main img").count() == 0
        assert "<script>document.title" in page.locator(".snippet").first.inner_text()
        page.get_by_role("link", name="step 1", exact=True).click()
        page.wait_for_url("**/sessions/chat:wild?step=1#step-1")
        visit.check()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_hits_are_sound_and_open_to_everybody(
    browser: Browser, hostile_address: str, width: int, scheme: Scheme
) -> None:
    with visiting(browser, hostile_address, width=width, scheme=scheme) as visit:
        for path in ("/search", "/search?q=zebra", "/search?q=zzzz", "/search?q=-zebra"):
            visit.open(path)
            visit.check()
            visit.check_access()


def test_the_box_opens_on_the_page_of_a_session_which_has_a_search_of_its_own(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions")
        page = visit.open(page.locator("main [data-row]").nth(0).get_attribute("href") or "")
        page.keyboard.press("f")
        expect(page.get_by_role("searchbox", name="Find in this session")).to_be_focused()
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        expect(page.locator("#find-query")).to_be_focused()
        assert visit.troubles == []
