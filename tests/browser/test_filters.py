"""Filters by hand: suggestions, dates, legends, and forms that fail; with and without script."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from build_dashboard import import_chat, write_chat
from relight.store import open_store
from relight.warm.capture import capture_template
from visiting import Scheme, visiting


def find_failed_session(home: Path) -> str:
    with open_store(home) as store:
        ((name,),) = store.query(
            "select source || ':' || key from session where outcome = 'failure' and id = root_id"
            " order by started_at desc limit 1"
        )
    return str(name)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_panel_of_dates_is_opened_and_used_by_keyboard(
    browser: Browser, address: str, width: int, scheme: Scheme
) -> None:
    with visiting(browser, address, width=width, scheme=scheme) as visit:
        page = visit.open("/sessions?since=2w&source=codex")
        page.locator("#days summary").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_label("From", exact=True)).to_be_visible()
        visit.check()
        visit.check_access()
        page.get_by_label("From", exact=True).fill("2026-01-05")
        page.wait_for_timeout(300)
        assert "since=2w" in page.url, "a date waits for the button"
        page.get_by_role("button", name="Show", exact=True).press("Enter")
        page.wait_for_url("**since=2026-01-05**")
        assert page.url.count("since=") == 1
        assert "source=codex" in page.url
        # the word of one end stays if the other is picked
        page = visit.open("/sessions?since=month")
        page.locator("#days summary").click()
        page.get_by_label("To", exact=True).fill("2026-12-31")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_url("**since=month&until=2026-12-31")
        page.locator("#days summary").click()
        page.locator("#days").get_by_role("link", name="yesterday").click()
        page.wait_for_url(lambda url: url.endswith("/sessions?since=yesterday"))
        # it closes like a menu
        panel = page.locator("#days[open]")
        for key in ("Escape", None):
            page.locator("#days summary").click()
            expect(panel).to_have_count(1)
            if key:
                page.keyboard.press(key)
            else:
                page.mouse.click(3, 700)
            expect(panel).to_have_count(0)
        visit.check()


def test_dates_are_picked_without_script(browser: Browser, address: str) -> None:
    with visiting(browser, address, with_script=False) as visit:
        page = visit.open("/failures?since=2w")
        page.locator("#days summary").click()
        page.get_by_label("To", exact=True).fill("2026-12-31")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_url("**until=2026-12-31**")
        expect(page.get_by_role("link", name="Take the dates out")).to_have_text(
            re.compile("2w to 2026-12-31")
        )
        page.get_by_role("combobox", name="Project").fill("shop-api")
        page.get_by_role("combobox", name="Project").press("Enter")
        page.wait_for_url("**project=shop-api**")
        visit.check()


def test_a_name_is_suggested_and_chosen_by_keyboard(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions")
        field = page.get_by_role("combobox", name="Skill")
        offered = page.locator("#known-skill option").evaluate_all("all => all.map((o) => o.value)")
        assert "ticket-triage" in offered
        field.fill("ticket-triage")
        field.press("Enter")
        page.wait_for_url("**skill=ticket-triage**")
        assert page.locator("tbody tr").count() > 0
        visit.check()
        visit.check_access()


def find_legend(page: Page) -> str:
    return page.locator(".legend a").first.inner_text()


@pytest.mark.parametrize("with_script", [True, False])
@pytest.mark.parametrize("path", ["/", "/failures", "/skills/ticket-triage"])
def test_a_legend_filters_and_the_second_click_shows_all(
    browser: Browser, address: str, path: str, with_script: bool
) -> None:
    with visiting(browser, address, with_script=with_script) as visit:
        page = visit.open(path)
        name = find_legend(page)
        page.locator(".legend a").first.focus()
        page.keyboard.press("Enter")
        chosen = page.locator(".legend a[aria-current=true]").first
        expect(chosen).to_have_text(f"{name} ×")
        visit.check()
        if with_script:
            visit.check_access()
        chosen.click()
        # a page that is just being loaded has no legend either
        page.wait_for_url(f"{address}{path}")
        expect(page.locator(".legend a[aria-current=true]")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_filter_that_matches_nothing_leads_to_what_does(
    browser: Browser, address: str, width: int
) -> None:
    with visiting(browser, address, width=width, scheme="dark") as visit:
        page = visit.open("/sessions?project=shop-appi")
        expect(page.locator(".empty")).to_contain_text("No session in project 'shop-appi'")
        visit.check()
        visit.check_access()
        page.get_by_role("link", name="did you mean 'shop-api'?").click()
        page.wait_for_url("**project=shop-api")
        assert page.locator("tbody tr").count() > 0


@pytest.mark.parametrize("with_script", [True, False])
def test_a_form_that_fails_keeps_the_page_and_what_was_typed(
    browser: Browser, own_address: str, own_home: Path, with_script: bool
) -> None:
    with open_store(own_home) as store:
        names = [
            name
            for (name,) in store.query(
                "select source || ':' || key from session where id = root_id"
                " and outcome = 'success' order by started_at desc"
            )
        ]
    with visiting(browser, own_address, with_script=with_script, width=390) as visit:
        for name in names:
            page = visit.open(f"/sessions/{name}")
            if page.get_by_role("button", name="Make template", exact=True).count():
                break
        with open_store(own_home) as store:  # meanwhile, in a terminal
            capture_template(store, name, name="made-elsewhere")
        page.get_by_label("Name", exact=True).fill('mine "too"')
        page.get_by_role("button", name="Make template", exact=True).click()
        alert = page.locator("#make-template [role=alert]")
        expect(alert).to_have_text("made-elsewhere has the same content")
        expect(alert).to_be_in_viewport()
        expect(page.get_by_label("Name", exact=True)).to_have_value('mine "too"')
        assert page.get_by_text("has the same content").count() == 1
        assert page.url.startswith(f"{own_address}/sessions/{name}")
        if with_script:
            visit.check_access()
        visit.troubles = [one for one in visit.troubles if "status of 400" not in one]
        visit.check()


def test_a_session_that_makes_no_template_says_why_and_offers_nothing(
    browser: Browser, address: str, demo_home: Path
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open(f"/sessions/{find_failed_session(demo_home)}")
        expect(page.locator("#no-template")).to_contain_text("does not make a template: ")
        assert page.get_by_role("button", name="Make template").count() == 0
        visit.check()
        visit.check_access()


def test_signs_are_said_in_words_in_lists_and_hits(
    browser: Browser, own_address: str, own_home: Path, tmp_path: Path
) -> None:
    path = write_chat(tmp_path / "runs.jsonl", key="signs", title="Paint the shed")
    import_chat(own_home, path)
    with open_store(own_home) as store, store.transaction() as database:
        database.execute(
            "update session set outcome = null, points_to = 'failure' where key = 'signs'"
        )
    with visiting(browser, own_address) as visit:
        page = visit.open("/sessions?search=Paint")
        expect(page.locator("tbody tr")).to_contain_text("signs of failure")
        visit.check_access()
        page = visit.open("/search?q=shed")
        expect(page.locator(".hits").first).to_contain_text("signs of failure")
        visit.check_access()
        page = visit.open("/")
        latest = page.locator("section:has(#latest-title) li").filter(has_text="Paint the shed")
        expect(latest).to_contain_text("signs of failure")
        visit.check_access()
        visit.check()
