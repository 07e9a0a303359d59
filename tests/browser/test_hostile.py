"""Text from sessions is shown, and does nothing."""

from pathlib import Path

from playwright.sync_api import Browser

from build_dashboard import HOSTILE, LONG_LINE, import_chat, write_chat
from visiting import visiting


def test_a_hostile_result_is_shown_harmlessly(
    browser: Browser, own_address: str, own_home: Path, tmp_path: Path
) -> None:
    result = f"{HOSTILE}\n{LONG_LINE}"
    path = write_chat(tmp_path / "runs.jsonl", key="hostile", title=HOSTILE, result=result)
    import_chat(own_home, path)
    with visiting(browser, own_address) as visit:
        visit.open("/")
        visit.check()
        visit.open("/sessions?search=hostile")
        visit.check()
        page = visit.open("/sessions/chat:hostile")
        assert "owned" not in page.title().replace("'owned'", "")
        page.locator("details[id^=call-] summary").click()
        shown = page.locator("details[id^=call-] pre").last.inner_text()
        assert shown.startswith("<script>document.title = 'owned'</script><img src=x onerror=")
        for told in ("␛[31mred␛[2J␇", "‹202E›gnp.exe‹2066›", "‹200B›hid‹E0041›den␀"):
            assert told in shown
        assert len(shown) < 10_000
        # the bulk of it is a file to keep, not something to look at
        more = page.get_by_role("link", name="the whole text as a file")
        assert "characters more" in more.locator("xpath=..").inner_text()
        with page.expect_download() as download:
            more.click()
        kept = Path(download.value.path()).read_bytes()
        assert kept == result.encode()
        assert page.locator("main script, main img").count() == 0
        visit.check()
