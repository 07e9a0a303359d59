"""Words of the glossary, explained where they stand."""

from playwright.sync_api import Browser, expect

from visiting import visiting


def test_a_heading_shows_its_meaning_to_the_mouse_and_to_the_keyboard(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/templates")
        word = page.locator("th .term", has_text="held out").first
        word.hover()
        tip = page.locator("#tip")
        expect(tip).to_contain_text("left cold on purpose")
        page.mouse.move(5, 5)
        expect(tip).to_be_hidden()
        word.evaluate("one => one.closest('th').previousElementSibling.querySelector('a').focus()")
        page.keyboard.press("Tab")
        expect(tip).to_contain_text("left cold on purpose")
        page.keyboard.press("Enter")
        page.wait_for_url("**/glossary#held-out")
        assert page.locator("dt:target").inner_text() == "held out"
        visit.check()
