"""What is new appears by itself, and nothing that a person is doing is lost to it."""

import re
import shutil
from pathlib import Path

from playwright.sync_api import Browser, expect

import build
import serving
from build_dashboard import import_chat, write_chat
from visiting import visiting


def test_a_new_session_appears_without_reloading(
    browser: Browser, shared_address: str, shared_home: Path, tmp_path: Path
) -> None:
    with visiting(browser, shared_address) as visit:
        page = visit.open("/sessions")
        page.evaluate("window.isTheSamePage = true")
        title = "Where do we keep the notes?"
        expect(page.get_by_role("link", name=title)).to_have_count(0)
        page.keyboard.press("j")
        held = page.locator("main [data-row]").first.get_attribute("href")
        import_chat(shared_home, write_chat(tmp_path / "runs.jsonl", key="live-1", title=title))
        expect(page.get_by_role("link", name=title)).to_be_visible(timeout=20_000)
        assert page.evaluate("window.isTheSamePage") is True
        expect(page.locator(f'main a[data-row][href="{held}"]')).to_be_focused()
        visit.check()


def test_what_is_being_typed_is_not_taken_away(
    browser: Browser, shared_address: str, shared_home: Path, tmp_path: Path
) -> None:
    with visiting(browser, shared_address) as visit:
        page = visit.open("/sessions?outcome=unknown")
        page.locator("tbody a[data-row]").first.click()
        why = page.get_by_label("Why")
        why.fill("half a sen")
        import_chat(shared_home, write_chat(tmp_path / "runs.jsonl", key="live-2", title="New"))
        page.wait_for_timeout(4500)  # two looks at the store
        assert why.input_value() == "half a sen"
        expect(why).to_be_focused()


def test_a_dashboard_that_is_gone_is_seen_to_be(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        expect(page.locator("#live")).to_have_text(re.compile("^not watching"))
        page.context.set_offline(True)
        expect(page.locator("#live.off")).to_be_visible(timeout=20_000)
        expect(page.locator("#live")).to_have_text("no answer")


def test_the_state_of_the_watch_is_legible_at_the_side(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        words = page.locator("#live .words")
        expect(words).to_have_text(re.compile("reads what is new$"))
        assert words.evaluate("one => one.scrollWidth <= one.clientWidth")
        visit.check()


def test_a_turn_that_an_agent_writes_appears_by_itself(browser: Browser, tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    path = build.write_claude(tmp_path, build.claude_session())
    with (
        serving.serve(tmp_path / "relight", HOME=str(tmp_path)) as (address, _),
        visiting(browser, address.rstrip("/")) as visit,
    ):
        page = visit.open("/sessions?since=all")
        row = page.get_by_role("link", name="Fix the rounding in the invoice")
        expect(row).to_be_visible(timeout=20_000)
        expect(page.locator("#live.on")).to_have_text(re.compile(r"^live, read \d+ s ago$"))
        other = "22222222-aaaa-4aaa-8aaa-222222222222"
        new = [build.claude_prompt("Count the zebras", at=50, sessionId=other)]
        new.append(build.claude_answer("m1", at=51, sessionId=other))
        page.evaluate("window.isTheSamePage = true")
        build.write_claude(tmp_path, new, name=other)
        expect(page.get_by_role("link", name="Count the zebras")).to_be_visible(timeout=20_000)
        assert page.evaluate("window.isTheSamePage") is True
        row.click()
        page.wait_for_url("**/sessions/claude-code*")
        words = page.locator("main").get_by_text("The rounding is right now.")
        expect(words).to_have_count(0)
        page.evaluate("window.isTheSamePage = true")
        text = {"type": "text", "text": "The rounding is right now."}
        with path.open("ab") as file:
            file.write(build.as_lines([build.claude_answer("m9", text, at=9)]))
        expect(words.first).to_be_attached(timeout=20_000)
        assert page.evaluate("window.isTheSamePage") is True
        visit.check()


def test_a_long_command_is_legible_at_the_side_to_its_end(
    browser: Browser, demo_home: Path, tmp_path: Path
) -> None:
    """It is named as it was typed, with its folder."""
    home = tmp_path / ("a folder with a long name " * 4) / "relight"
    shutil.copytree(demo_home, home)
    with (
        serving.serve(home, "--no-watch", "--home", str(home)) as (address, _),
        visiting(browser, address.rstrip("/")) as visit,
    ):
        words = visit.open("/").locator("#live .words")
        expect(words).to_have_text(re.compile("long name .* reads what is new$"))
        assert words.evaluate("one => one.scrollHeight <= one.clientHeight")
        visit.check()
