"""What people come for: from a figure to what is behind it, and the few things they change."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from relight.reports.runs import read_jobs
from relight.store import open_store
from visiting import visiting


def test_a_bar_opens_the_sessions_it_is_made_of(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        bar = page.locator("svg.chart a").nth(20)
        bar.hover()
        expect(page.locator("#tip")).not_to_be_empty()
        tip = page.locator("#tip").inner_text()
        bar.click()
        page.wait_for_url("**/sessions?since=**")
        assert re.search(r"since=(\d{4}-\d\d-\d\d)&until=\1$", page.url)
        assert tip.startswith(f"{int(page.url[-2:])} ")
        assert page.locator("tbody tr").count() > 0
        visit.check()


def test_a_failure_leads_to_its_session_and_its_call(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/failures")
        page.locator("tbody a[data-row]", has_text="bad arguments").first.click()
        page.wait_for_url("**/sessions?failure=bad_arguments**")
        page.locator("tbody a[data-row]").first.click()
        page.wait_for_url("**/sessions/**")
        broken = page.locator("li.call.broken").first
        broken.locator("summary").first.click()
        assert "tickets label" in broken.locator("pre").first.inner_text()
        visit.check()


def test_sessions_are_searched_sorted_and_paged(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions")
        page.get_by_role("link", name="cost").click()
        page.wait_for_url("**sort=cost**")
        costs = page.locator("tbody tr td:nth-child(3)").all_inner_texts()
        amounts = [float(re.sub(r"[^\d.]", "", cost) or 0) for cost in costs]
        assert amounts == sorted(amounts, reverse=True)
        first = page.locator("tbody a[data-row]").first.get_attribute("href")
        page.get_by_role("link", name=re.compile("Next")).click()
        page.wait_for_url("**after=**")
        assert page.locator("tbody a[data-row]").first.get_attribute("href") != first
        page.locator("select[name=outcome]").select_option("failure")
        page.wait_for_url("**outcome=failure**")
        assert "after=" not in page.url
        assert set(page.locator("tbody .mark").all_inner_texts()) == {"failure"}
        visit.check()


def test_filters_stay_in_the_address_from_page_to_page(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/?since=7d")
        page.get_by_role("combobox", name="Source").select_option("codex")
        page.wait_for_url("**source=codex**")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Failures").click()
        page.wait_for_url("**/failures?**")
        assert "since=7d" in page.url
        assert "source=codex" in page.url
        page.get_by_role("link", name="clear").click()
        page.wait_for_url(lambda url: "source" not in url)


def test_a_person_can_say_how_a_session_went(
    browser: Browser, shared_address: str, shared_home: Path
) -> None:
    with visiting(browser, shared_address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        page.locator("tbody a[data-row]").first.click()
        page.get_by_label("Why").fill("I merged it")
        page.get_by_role("button", name="success", exact=True).click()
        evidence = page.get_by_text("a person said success: I merged it")
        expect(evidence).to_be_visible()
        visit.check()
    with open_store(shared_home) as store:
        assert ("success", "I merged it") in store.query("select outcome, why from label")


def test_a_template_is_made_retired_and_restored(browser: Browser, shared_address: str) -> None:
    with visiting(browser, shared_address) as visit:
        page = visit.open("/templates")
        page.locator("tbody a[data-row]").first.click()
        page.get_by_label("Why").fill("old layout")
        page.get_by_role("button", name="Retire").click()
        expect(page.locator(".problem")).to_contain_text("old layout")
        page.get_by_role("button", name="Restore").click()
        expect(page.get_by_role("button", name="Retire")).to_be_visible()
        visit.check()


def test_a_job_is_paused_and_resumed_and_its_runs_are_opened(
    browser: Browser, shared_address: str, shared_home: Path
) -> None:
    with visiting(browser, shared_address) as visit:
        page = visit.open("/jobs")
        page.locator("tbody a[data-row]", has_text="release-watch").click()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        with open_store(shared_home) as store:
            (state,) = [job.state for job in read_jobs(store) if job.job == "release-watch"]
        assert state == "paused"
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        page.locator("svg.strip a:has(.failure)").first.click()
        page.wait_for_url("**run=**")
        expect(page.get_by_text("[SCRIPT_FAILED]: the list of releases")).to_be_visible()
        visit.check()


def test_a_skill_says_whether_the_cheaper_model_would_do(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/skills")
        page.get_by_role("link", name="ticket-triage", exact=True).click()
        page.wait_for_url("**/skills/ticket-triage**")
        assert "gpt-5.1-codex-mini is good enough" in page.locator(".verdict").inner_text()
        before = page.locator("polyline").first.get_attribute("points")
        page.get_by_role("link", name="14 days").click()
        page.wait_for_url("**half_life=14**")
        assert page.locator("polyline").first.get_attribute("points") != before
        page.locator("#success-table summary").click()
        assert page.locator("#success-table tbody tr").count() == 30
        visit.check()


def test_a_mixture_shows_what_each_adviser_saw_and_said(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/moa")
        page.locator("tbody a[data-row]").first.click()
        page.wait_for_url("**/moa/**")
        page.get_by_role("link", name="Turn 1").click()
        page.wait_for_url("**turn=1**")
        advice = page.get_by_text("Use create index concurrently").locator("visible=true")
        assert advice.count() == 2
        page.get_by_text("what it saw").first.click()
        expect(page.get_by_text("You are one of several advisers").first).to_be_visible()
        visit.check()
