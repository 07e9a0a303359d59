"""The overview by keyboard, on a phone and a wide screen, in the dark, without script."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import serving
from build_dashboard import HOSTILE
from relight.intake.recorder import record
from relight.store import open_store
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobDefinition, JobResult
from relight.work.jobs.registry import add_job
from visiting import Scheme, visiting

# the empty space below the last thing of each card, and beside the last card of the page
BLANK = """() => {
  const rest = (card) => {
    const last = [...card.children].filter((one) => one.getBoundingClientRect().height).at(-1);
    return card.getBoundingClientRect().bottom - last.getBoundingClientRect().bottom;
  };
  const cards = [...document.querySelectorAll("main .card, main .tiles")];
  return {
    below: Math.max(...[...document.querySelectorAll("main .card")].map(rest)),
    beside: innerWidth - Math.max(...cards.map((one) => one.getBoundingClientRect().right)),
    columns: [...document.querySelectorAll(".halves > div")]
      .map((one) => one.lastElementChild.getBoundingClientRect().bottom),
    first: cards[0].getBoundingClientRect().left,
  };
}"""


@pytest.mark.parametrize("path", ["/", "/?by=project&chart=tokens", "/?by=source&chart=outcomes"])
def test_a_wide_screen_is_filled(browser: Browser, address: str, path: str) -> None:
    with visiting(browser, address, width=1920) as visit:
        page = visit.open(path)
        found = page.evaluate(BLANK)
        assert found["beside"] < 60, "no blank half"
        assert found["first"] < 260
        assert found["below"] < 100, "no card is mostly empty"
        left, right = found["columns"]
        assert abs(left - right) < 2
        visit.check()
        visit.check_access()


@pytest.mark.parametrize("path", ["/sessions", "/failures", "/search?q=alembic"])
def test_lists_fill_a_wide_screen_too(browser: Browser, address: str, path: str) -> None:
    with visiting(browser, address, width=1920) as visit:
        page = visit.open(path)
        right = page.locator(".card").first.evaluate("one => one.getBoundingClientRect().right")
        assert 1920 - right < 60
        visit.check()


def test_needs_and_figures_are_on_the_first_screen(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        expect(page.get_by_role("heading", name="Needs you")).to_be_in_viewport()
        for name in ("Today", "This month", "Cost per success"):
            expect(page.locator(".tile", has_text=name).first).to_be_in_viewport()
        expect(page.get_by_role("heading", name="Cost by day and model")).to_be_in_viewport()


PAINT = """() => {
    const fill = (one) => getComputedStyle(one).fill;
    const legend = [...document.querySelectorAll(".legend i")];
    const paths = [...document.querySelectorAll("svg.chart path")];
    return {
        legend: legend.map((one) => [one.className, getComputedStyle(one).backgroundColor]),
        drawn: paths.map((one) => [one.getAttribute("class"), fill(one)]),
    };
}"""


@pytest.mark.parametrize("path", ["/", "/?chart=tokens&by=project", "/?chart=outcomes"])
def test_bars_have_the_colours_of_their_legend(browser: Browser, address: str, path: str) -> None:
    with visiting(browser, address) as visit:
        found = visit.open(path).evaluate(PAINT)
        legend, drawn = dict(found["legend"]), dict(found["drawn"])
        assert len(drawn) > 2
        assert drawn == {name: legend[name] for name in drawn}


def test_a_need_is_reached_and_opened_by_keys(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        first = page.locator(".needs [data-row]").first
        page.keyboard.press("j")
        expect(first).to_be_focused()
        wanted = first.get_attribute("href") or ""
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.address}{wanted}")
        expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_the_chart_is_switched_by_keys(browser: Browser, address: str) -> None:
    with visiting(browser, address) as visit:
        page = visit.open("/")
        figures = page.get_by_role("group", name="Figure")
        figures.get_by_role("link", name="cost").focus()
        page.keyboard.press("Tab")
        expect(figures.get_by_role("link", name="tokens")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url("**chart=tokens**")
        expect(page.get_by_role("heading", name="Tokens by day and model")).to_be_in_viewport()
        assert figures.locator("[aria-current]").inner_text() == "tokens"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_is_open_to_everybody(
    browser: Browser, address: str, width: int, scheme: Scheme
) -> None:
    with visiting(browser, address, width=width, scheme=scheme) as visit:
        for path in (
            "/?chart=tokens&by=project",
            "/?chart=outcomes&by=model",
            "/?since=1d&by=source",
        ):
            visit.open(path)
            visit.check()
            visit.check_access()


def test_the_whole_page_works_without_script(browser: Browser, address: str) -> None:
    with visiting(browser, address, width=390, with_script=False) as visit:
        page = visit.open("/")
        page.get_by_role("group", name="Figure").get_by_role("link", name="outcomes").click()
        page.wait_for_url("**chart=outcomes**")
        page.get_by_role("group", name="By").get_by_role("link", name="project").click()
        expect(page.get_by_role("heading", name="Outcomes by day and project")).to_be_in_viewport()
        page.get_by_text("set its price").first.click()
        expect(page.get_by_text("input_usd_per_mtok").first).to_be_visible()
        page.get_by_role("link", name="label them").click()
        page.wait_for_url("**outcome=unknown**")
        assert page.locator("main [data-row]").count() > 0
        visit.check()


def test_a_session_found_by_a_need_is_labelled_and_needs_nobody(
    browser: Browser, tmp_path: Path
) -> None:
    with open_store(tmp_path) as store, record(store, "one", model="claude-haiku-4-5") as rec:
        rec.turn(input_tokens=5, output_tokens=5)
        rec.finish("unknown")
    with (
        serving.serve(tmp_path, "--no-watch") as (found, _),
        visiting(browser, found.rstrip("/")) as visit,
    ):
        page = visit.open("/")
        page.get_by_role("link", name="label them").click()
        # a key pressed before the page is there would be lost
        page.wait_for_url("**/sessions?**")
        page.keyboard.press("j")
        page.keyboard.press("y")
        expect(page.locator("#said")).not_to_be_empty()
        expect(visit.open("/").locator(".needs")).to_contain_text("Nothing does")
        visit.check()


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    job = JobDefinition(name="job", schedule="0 7 * * *", prompt=HOSTILE, model=HOSTILE)
    with open_store(tmp_path) as store:
        for outcome in ("unknown", "failure"):
            about = {"model": HOSTILE, "project": f"/src/{HOSTILE}", "title": HOSTILE}
            with record(store, outcome, **about) as rec:  # type: ignore[arg-type]
                rec.turn(input_tokens=5, output_tokens=5)
                for _ in range(4):
                    rec.tool_call(HOSTILE, {"command": HOSTILE}, HOSTILE, is_error=True)
                rec.finish(outcome)
        add_job(store, job, now=0)
        failed = JobResult(status="failed", outcome="failure", evidence=[HOSTILE])
        run_now(store, "job", holder="test", execute=lambda *_, **__: failed)
        with store.transaction() as database:
            # another scheduler's job may have any name
            database.execute("update job set name = ?", (HOSTILE,))
    with (
        serving.serve(tmp_path, "--no-watch") as (found, _),
        visiting(browser, found.rstrip("/"), width=390, scheme="dark") as visit,
    ):
        for path in (
            "/",
            "/?by=project&chart=tokens",
            "/?chart=outcomes",
            "/?chart=outcomes&by=project",
        ):
            page = visit.open(path)
            assert "owned" not in page.title()
            assert page.locator("main script, main img").count() == 0
            shown = page.locator("main").inner_text()
            assert "‹202E›gnp.exe" in shown
            assert page.locator(".need.job").count() == 1
            assert page.locator(".need.spiral").count() >= 1
            visit.check()
            visit.check_access()


def test_a_large_figure_stays_in_its_tile(browser: Browser, tmp_path: Path) -> None:
    home = tmp_path / "relight"
    with open_store(home) as store, record(store, "one", model="claude-opus-4-6") as rec:
        rec.turn(input_tokens=50_000_000_000, output_tokens=1)
        rec.finish("success")
    with (
        serving.serve(home) as (address, _),
        visiting(browser, address.rstrip("/"), width=1280) as visit,
    ):
        values = visit.open("/").locator(".tile .value")
        expect(values.filter(has_text="$250,000.00").first).to_be_visible()
        wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
        assert values.evaluate_all(wide) == 0
        visit.check()
