"""What is new appears by itself, and nothing that a person is doing is lost to it."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from build_dashboard import import_chat, write_chat
from visiting import visiting


def test_a_new_session_appears_without_reloading(
    browser: Browser, own_address: str, own_home: Path, tmp_path: Path
) -> None:
    with visiting(browser, own_address) as visit:
        page = visit.open("/sessions")
        page.evaluate("window.isTheSamePage = true")
        title = "Where do we keep the notes?"
        expect(page.get_by_role("link", name=title)).to_have_count(0)
        page.keyboard.press("j")
        held = page.locator("main [data-row]").first.get_attribute("href")
        import_chat(own_home, write_chat(tmp_path / "runs.jsonl", key="live-1", title=title))
        expect(page.get_by_role("link", name=title)).to_be_visible(timeout=20_000)
        assert page.evaluate("window.isTheSamePage") is True
        expect(page.locator(f'main a[data-row][href="{held}"]')).to_be_focused()
        visit.check()


def test_what_is_being_typed_is_not_taken_away(
    browser: Browser, own_address: str, own_home: Path, tmp_path: Path
) -> None:
    with visiting(browser, own_address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        page.locator("tbody a[data-row]").first.click()
        why = page.get_by_label("Why")
        why.fill("half a sen")
        import_chat(own_home, write_chat(tmp_path / "runs.jsonl", key="live-2", title="New"))
        page.wait_for_timeout(4500)  # two looks at the store
        assert why.input_value() == "half a sen"
        expect(why).to_be_focused()


def test_a_dashboard_that_is_gone_is_seen_to_be(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        expect(page.locator("#live.on")).to_be_visible()
        page.context.set_offline(True)
        expect(page.locator("#live.off")).to_be_visible(timeout=20_000)
        expect(page.locator("#live")).to_have_text("no answer")
