"""Rebuilds of the prompt cache, on their page and in the context of a session."""

from playwright.sync_api import Browser, expect

from visiting import visiting


def test_a_rebuild_is_found_by_its_cost_and_marked_in_its_session(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/cache?since=all")
        expect(page.get_by_text("pauses cost $")).to_be_visible()
        expect(page.get_by_text("a 1-hour cache would have saved $")).to_be_visible()
        row = page.locator("section[aria-labelledby=costliest] tbody tr").first
        expect(row).to_contain_text("pause")
        row.locator("a").click()
        expect(page.locator("section[aria-labelledby=context-title]")).to_contain_text(
            "cache rebuilt"
        )
        mark = page.locator(".step .tag", has_text="cache rebuilt").first
        assert "after a pause of" in (mark.get_attribute("data-tip") or "")
        visit.check()
        visit.check_access()


def test_the_page_is_read_on_a_phone_without_scripts(browser: Browser, address: str) -> None:
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 800}, color_scheme="dark"
    )
    page = context.new_page()
    page.goto(f"{address}/cache?since=all")
    expect(page.locator("h1")).to_have_text("Cache")
    expect(page.locator("section[aria-labelledby=causes]")).to_contain_text("pause")
    context.close()
