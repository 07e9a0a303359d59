"""Words of the glossary, explained where they stand."""

from playwright.sync_api import Browser

from visiting import visiting


def test_a_heading_shows_its_meaning_to_the_mouse_and_to_the_keyboard(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/templates")
        word = page.locator("th .term", has_text="held out").first
        word.hover()
        tip = page.locator("#tip")
        assert "left cold on purpose" in tip.inner_text()
        page.mouse.move(5, 5)
        assert tip.is_hidden()
        word.evaluate("one => one.closest('th').previousElementSibling.querySelector('a').focus()")
        page.keyboard.press("Tab")
        assert "left cold on purpose" in tip.inner_text()
        page.keyboard.press("Enter")
        page.wait_for_url("**/glossary#held-out")
        assert page.locator("dt:target").inner_text() == "held out"
        visit.check()
