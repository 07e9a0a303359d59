"""Whole use by keyboard, and what is remembered."""

from playwright.sync_api import Browser, expect

from visiting import visiting


def test_every_page_is_two_keys_away(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        for letter, path in (("s", "/sessions"), ("j", "/jobs"), ("m", "/moa"), ("o", "/")):
            page.keyboard.press("g")
            page.keyboard.press(letter)
            page.wait_for_url(visit.address + path)
        assert visit.troubles == []


def test_lists_are_walked_and_opened_by_keys(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions")
        rows = page.locator("main [data-row]")
        for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
            page.keyboard.press(key)
            expect(rows.nth(place)).to_be_focused()
        wanted = rows.nth(1).get_attribute("href")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.address}{wanted}")


def test_a_slash_searches_and_escape_leaves(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/jobs")
        page.keyboard.press("/")
        search = page.get_by_role("searchbox", name="Search sessions")
        expect(search).to_be_focused()
        page.keyboard.type("gj")  # words, not shortcuts
        assert page.url.endswith("/jobs")
        page.keyboard.press("Escape")
        expect(search).not_to_be_focused()


def test_the_first_tab_skips_to_the_content(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/failures")
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()


def test_the_help_opens_and_closes(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()


def test_the_scheme_that_was_chosen_is_remembered(browser: Browser, address: str) -> None:
    with visiting(browser, address, scheme="light") as visit:
        page = visit.open("/")
        colour = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(colour)
        page.get_by_role("button", name="Light or dark").click()
        dark = page.evaluate(colour)
        assert dark != light
        page = visit.open("/skills")
        assert page.evaluate(colour) == dark
        page.keyboard.press("d")
        assert page.evaluate(colour) == light


def test_a_session_is_labelled_by_one_key_in_a_list_and_the_label_is_taken_back(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        rows = page.locator("main [data-row]")
        name = rows.nth(0).get_attribute("href") or ""
        page.keyboard.press("j")
        expect(rows.nth(0)).to_be_focused()
        page.keyboard.press("y")
        expect(page.locator("#said")).to_have_text("Labelled success. z takes it back.")
        expect(page.locator(f'main [data-row][href="{name}"]')).to_have_count(0)
        page.keyboard.press("z")
        expect(page.locator("#said")).to_have_text("The label is removed.")
        expect(page.locator(f'main [data-row][href="{name}"]')).to_have_count(1)
        assert visit.troubles == []


def test_labels_go_down_a_list_that_gets_shorter_with_each_and_are_taken_back_one_by_one(
    browser: Browser, own_address: str
) -> None:
    with visiting(browser, own_address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        rows = page.locator("main [data-row]")
        names = [row.get_attribute("href") for row in rows.all()]
        for _ in range(3):
            page.keyboard.press("j")
        # faster than any answer
        for key in "yn":
            page.keyboard.press(key)
        for place in (2, 3):
            expect(page.locator(f'main [data-row][href="{names[place]}"]')).to_have_count(0)
        expect(page.locator(f'main [data-row][href="{names[4]}"]')).to_be_focused()
        for place in (3, 2):
            page.keyboard.press("z")
            expect(page.locator(f'main [data-row][href="{names[place]}"]')).to_be_focused()
        assert [row.get_attribute("href") for row in rows.all()] == names
        assert visit.troubles == []


def test_a_session_is_labelled_on_its_page_by_shift_and_a_key(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        name = page.locator("main [data-row]").nth(0).get_attribute("href") or ""
        page = visit.open(name)
        page.keyboard.press("Shift+N")
        expect(page.locator("#said")).to_have_text("Labelled failure. z takes it back.")
        expect(page.get_by_text("a person said failure", exact=True)).to_be_visible()
        page.keyboard.press("z")
        expect(page.get_by_text("a person said failure", exact=True)).to_have_count(0)
