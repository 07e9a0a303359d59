"""A session is read: rendered, folded, searched and walked through, by everybody."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from build_dashboard import (
    HOSTILE,
    Message,
    import_chat,
    make_call,
    make_long_messages,
    write_messages,
)
from relight.store import open_store
from visiting import Scheme, visiting

ANSWER = "# Done\n\nIt **rounds** once: see `price.py` and [the docs](https://docs.example/x).\n\n"
CODE = "```python\ndef total(rows):\n    return round(sum(rows), 2)  # once\n```\n\n- a\n- b\n"
MORE = "\n| a | n |\n|---|--:|\n| x | 1 |\n\n[x](javascript:document.title='owned') ![p](http://evil.example/p)"
EVIL = f"{HOSTILE}</template></style></pre><svg/onload=alert(1)> &#x202e;{ANSWER}{CODE}{MORE}"
PATCH = "*** Begin Patch\n*** Update File: src/{0}.py\n@@\n-{0}\n+{0} new\n*** End Patch"


def make_messages(text: str) -> list[Message]:
    """A session with everything that is rendered: Markdown, edits of all shapes, a plan."""
    edit = {"file_path": f"/src/{text}", "old_string": f"a\n{text}\nc", "new_string": "a\nB\nc\nd"}
    return [
        {"role": "user", "content": f"{text}\n```sh\nls # {text}\n```"},
        {"role": "assistant", "content": f"{text}\n\n```html\n{text}\n```"},
        *make_call(1, "Edit", edit),
        *make_call(2, "MultiEdit", {"file_path": "/b.py", "edits": [edit, edit]}),
        *make_call(3, "Write", {"file_path": "/c.py", "content": text}),
        *make_call(4, "NotebookEdit", {"notebook_path": "/n.ipynb", "new_source": text}),
        *make_call(5, "shell", {"command": ["bash", "-lc", PATCH.format(text)]}),
        *make_call(6, "TodoWrite", {"todos": [{"content": text, "status": "in_progress"}]}),
        *make_call(7, text[:60], {"query": text, text[:40]: [text]}, text),
        {"role": "assistant", "content": text},
    ]


# the heights that the main part of the page had, each time that it changed
WATCH_HEIGHT = """() => {
    const main = document.querySelector("main");
    window.heights = [main.scrollHeight];
    new MutationObserver(() => window.heights.push(main.scrollHeight))
        .observe(main, { childList: true, subtree: true });
    return window.heights;
}"""


READ: list[Message] = [
    {"role": "user", "content": "Mend the *rounding*"},
    *make_call(1, "Edit", {"file_path": "/p.py", "old_string": "x = 1\ny", "new_string": "x = 2"}),
    *make_call(2, "apply_patch", PATCH.format("q")),
    *make_call(3, "update_plan", {"plan": [{"step": "look", "status": "completed"}]}),
    {"role": "assistant", "content": ANSWER + CODE},
]


@pytest.fixture(scope="module")
def filled_address(
    shared_address: str, shared_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The address of the demo with the sessions that these tests read."""
    folder = tmp_path_factory.mktemp("sessions")
    sessions = {"evil": make_messages(EVIL), "read": READ, "long": make_long_messages(22)}
    for key, messages in sessions.items():
        import_chat(
            shared_home, write_messages(folder / f"{key}.jsonl", key=key, messages=messages)
        )
    return shared_address


def open_all(page: Page) -> None:
    page.evaluate(
        "document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (1280, "dark")])
def test_hostile_text_is_harmless_wherever_it_is_rendered(
    browser: Browser, filled_address: str, width: int, scheme: Scheme
) -> None:
    with visiting(browser, filled_address, width=width, scheme=scheme) as visit:
        for query in ("", "?find=docs", "?kind=call"):
            page = visit.open(f"/sessions/chat:evil{query}")
            open_all(page)
            visit.check()
            visit.check_access()
            assert page.locator("main script, main img, main style, main template").count() == 0
            assert "owned" not in page.title().replace("'owned'", "")
        links = page.locator("main .step a[href^=http]")
        assert {links.nth(n).get_attribute("rel") for n in range(links.count())} <= {
            "noopener noreferrer"
        }


def test_edits_are_diffs_plans_are_lists_and_answers_are_markdown(
    browser: Browser, filled_address: str
) -> None:
    with visiting(browser, filled_address) as visit:
        page = visit.open("/sessions/chat:read")
        steps = page.locator(".steps > .step")
        expect(steps.nth(0).locator(".words")).to_have_text("Mend the *rounding*")
        expect(steps.nth(1).locator("summary .note")).to_have_text("+1 −2")
        steps.nth(1).locator("summary").click()
        expect(steps.nth(1).locator(".dl.add")).to_contain_text("x = 2")
        expect(steps.nth(1).locator(".dl.add b")).to_have_text("2")
        expect(steps.nth(2).locator("summary .note")).to_have_text("+1 −1")
        expect(steps.nth(3).locator("summary .note")).to_have_text("1 of 1 done")
        steps.nth(3).locator("summary").click()
        task = steps.nth(3).locator(".tasks .done")
        expect(task).to_have_text("done: look")
        expect(task).to_have_css("border-top-width", "0px")
        expect(task).to_have_css("background-color", "rgba(0, 0, 0, 0)")
        answer = page.locator(".step.answer .md").last
        expect(answer.locator("strong")).to_have_text("rounds")
        expect(answer.locator("pre.code .hk").first).to_have_text("def")
        expect(answer.get_by_role("link", name="the docs")).to_be_visible()
        visit.check()


def test_keys_jump_to_prompts_and_errors_across_parts(
    browser: Browser, filled_address: str
) -> None:
    with visiting(browser, filled_address) as visit:
        page = visit.open("/sessions/chat:long")
        page.keyboard.press("n")
        expect(page.locator("#step-1")).to_be_focused()
        page.keyboard.press("n")
        expect(page.locator("#step-12")).to_be_focused()
        page.keyboard.press("e")
        expect(page.locator("#step-21")).to_be_focused()
        assert page.url.endswith("#step-21")
        page.keyboard.press("p")
        expect(page.locator("#step-12")).to_be_focused()
        for _ in range(9):
            page.keyboard.press("n")
        page.wait_for_url("**step=111#step-111")
        expect(page.locator("#step-111")).to_be_in_viewport()
        page.keyboard.press("p")
        page.wait_for_url("**step=100#step-100")
        expect(page.locator("#step-100")).to_be_in_viewport()
        page.keyboard.press("f")
        expect(page.get_by_label("Find in this session")).to_be_focused()
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_text("next and previous error")).to_be_visible()
        visit.check()


def test_a_step_has_an_address_wherever_it_stands(browser: Browser, filled_address: str) -> None:
    with visiting(browser, filled_address) as visit:
        page = visit.open("/sessions/chat:long#step-150")
        page.wait_for_url("**step=150#step-150")
        expect(page.locator("#step-150")).to_be_in_viewport()
        page.locator("#step-152 .no").click()
        page.wait_for_url("**step=152#step-152")
        page.get_by_role("navigation", name="Prompts").get_by_role("link").last.click()
        page.wait_for_url("**#step-232")
        expect(page.locator("#step-232")).to_be_in_viewport()
        visit.check()
    with visiting(browser, filled_address, with_script=False) as visit:
        page = visit.open("/sessions/chat:long?step=150#step-150")
        expect(page.locator("#step-150")).to_be_in_viewport()
        page.get_by_role("link", name="Next steps").click()
        expect(page.locator("#step-201")).to_be_visible()
        page.get_by_role("link", name="Steps before").click()
        expect(page.locator("#step-101")).to_be_visible()


@pytest.mark.parametrize("with_script", [True, False])
def test_steps_are_filtered_and_found_also_in_folded_results(
    browser: Browser, filled_address: str, with_script: bool
) -> None:
    with visiting(browser, filled_address, with_script=with_script) as visit:
        page = visit.open("/sessions/chat:long")
        kinds = page.get_by_role("group", name="Kinds of steps")
        kinds.get_by_role("link", name="errors 22").click()
        page.wait_for_url("**kind=error**")
        assert page.locator(".steps > .step").count() == 22
        assert page.locator(".steps > .step.broken").count() == 22
        page.get_by_label("Find in this session").fill("SecretWord17")
        page.keyboard.press("Enter")
        page.wait_for_url("**find=SecretWord17**")
        marks = page.locator(".steps mark")
        assert marks.all_inner_texts() == ["secretword17"] * marks.count()
        assert page.locator(".steps > .step").count() == 3  # 17, 170, 179
        page.locator(".steps > .step .no").first.click()
        expect(page.locator("#step-21")).to_be_in_viewport()
        assert page.locator(".steps > .step").count() == 100
        visit.check()


def test_a_subagent_is_read_where_it_was_called(
    browser: Browser, address: str, demo_home: Path
) -> None:
    with open_store(demo_home) as store:
        ((parent,),) = store.query(
            "select source || ':' || key from session where source = 'claude-code' and id in"
            " (select parent_id from session where parent_kind = 'subagent') limit 1"
        )
    with visiting(browser, address) as visit:
        page = visit.open(f"/sessions/{parent}")
        child = page.locator("details.child").first
        child.locator("summary").first.click()
        expect(child.locator(".steps .step.prompt").first).to_be_visible()
        expect(child.get_by_role("link", name="Its own page")).to_be_visible()
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        visit.check()
        visit.check_access()
    with visiting(browser, address, with_script=False) as visit:
        page = visit.open(f"/sessions/{parent}")
        page.locator("details.child summary").first.click()
        page.get_by_role("link", name="Open its session").first.click()
        page.wait_for_url(lambda url: parent not in url)
        assert page.locator("h1").count() == 1


def test_a_spiral_is_one_row_that_opens(browser: Browser, address: str, demo_home: Path) -> None:
    with open_store(demo_home) as store:
        ((spiral,),) = store.query(
            "select source || ':' || key from session where id in (select session_id from tool_call"
            " where label = 'error' group by session_id, fingerprint having count(*) > 9)"
        )
    with visiting(browser, address) as visit:
        page = visit.open(f"/sessions/{spiral}")
        row = page.locator(".step.spiral")
        expect(row.locator("summary").first).to_contain_text("times")
        assert page.locator(".step.spiral > .cost").inner_text().startswith("$")
        inner = row.locator(".steps .step.broken")
        expect(inner.first).to_be_hidden()
        # the address of a folded step unfolds it
        name = inner.nth(2).get_attribute("id") or ""
        page.goto(f"{visit.address}/sessions/{spiral}#{name}")
        expect(page.locator(f"#{name}")).to_be_in_viewport()
        visit.check()


def test_the_list_of_sessions_stands_beside_a_session_on_a_wide_screen(
    browser: Browser, address: str, demo_home: Path
) -> None:
    with visiting(browser, address, width=1920) as visit:
        visit.open("/sessions").locator("tbody a[data-row]").nth(3).click()
        page = visit.page
        beside = page.get_by_role("complementary", name="Sessions")
        expect(beside).to_be_visible()
        expect(beside.locator("[aria-current]")).to_have_count(1)
        # also one that is not among the newest, with those around it
        with open_store(demo_home) as store:
            ((old,),) = store.query(
                "select source || ':' || key from session where id = root_id and started_at >"
                " (select max(started_at) from session) - 25 * 86400000 order by started_at limit 1"
            )
        visit.open(f"/sessions/{old}")
        expect(beside.locator("[aria-current]")).to_be_in_viewport()
        times = beside.locator("time").evaluate_all("all => all.map((one) => one.dateTime)")
        assert times == sorted(times, reverse=True)
        assert beside.get_by_role("link").count() > 20
        before = page.url
        beside.get_by_role("link").nth(2).click()
        page.wait_for_url(lambda url: url != before)
        visit.check()
        visit.check_access()
    with visiting(browser, address) as visit:
        page = visit.open(before.removeprefix(address))
        expect(page.locator(".beside")).to_be_hidden()
        resume = page.locator("#resume")
        if resume.count():
            copied = page.get_by_role("button", name="Copy resume line")
            assert copied.get_attribute("data-copy") == resume.inner_text()


def test_what_narrows_the_steps_is_wide_enough_on_a_phone(
    browser: Browser, filled_address: str
) -> None:
    with visiting(browser, filled_address, width=390) as visit:
        page = visit.open("/sessions/chat:long")
        field = page.get_by_label("Find in this session")
        for one in (field, page.locator("select[name=tool]")):
            box = one.bounding_box()
            assert box is not None
            assert box["width"] > 120
        field.fill("secretword17")
        page.keyboard.press("Enter")
        page.wait_for_url("**find=secretword17**")
        visit.check()


def test_a_session_that_grows_takes_neither_the_focus_nor_an_open_subagent(
    browser: Browser, own_address: str, own_home: Path, tmp_path: Path
) -> None:
    with open_store(own_home) as store:
        ((parent,),) = store.query(
            "select source || ':' || key from session where source = 'claude-code' and id in"
            " (select parent_id from session where parent_kind = 'subagent') limit 1"
        )
    with visiting(browser, own_address) as visit:
        page = visit.open(f"/sessions/{parent}")
        child = page.locator("details.child").first
        child.locator("summary").first.click()
        prompt = child.locator(".steps .step.prompt").first
        expect(prompt).to_be_visible()
        page.evaluate(WATCH_HEIGHT)
        page.keyboard.press("n")
        focused = page.evaluate("document.activeElement.id")
        assert focused.startswith("step-")
        page.evaluate("document.querySelector('main .head').dataset.old = ''")
        import_chat(own_home, write_messages(tmp_path / "a.jsonl", key="new", messages=READ))
        expect(page.locator("main [data-old]")).to_have_count(0, timeout=20_000)
        expect(page.locator(f"#{focused}")).to_be_focused()
        expect(page.locator(f"#{focused}.at")).to_have_count(1)
        expect(prompt).to_be_visible()
        page.wait_for_timeout(500)
        heights: list[float] = page.evaluate("window.heights")
        assert min(heights) > 0.9 * max(heights), "nothing moved meanwhile"
        visit.check()


def test_an_open_session_grows_and_what_is_open_stays_open(
    browser: Browser, shared_address: str, shared_home: Path, tmp_path: Path
) -> None:
    messages = make_messages("plain")
    path = write_messages(tmp_path / "a.jsonl", key="live", messages=messages[:-1])
    import_chat(shared_home, path)
    with visiting(browser, shared_address) as visit:
        page = visit.open("/sessions/chat:live")
        page.locator("details.made summary").first.click()
        expect(page.locator(".diff").first).to_be_visible()
        added = [*messages, {"role": "assistant", "content": "It grew."}]
        import_chat(shared_home, write_messages(path, key="live", messages=added))
        expect(page.get_by_text("It grew.")).to_be_visible(timeout=20_000)
        expect(page.locator(".diff").first).to_be_visible()
        visit.check()
