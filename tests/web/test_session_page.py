"""The page of a session: what stands on it, how large it is, and which steps it holds."""

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

import serving
from build_dashboard import import_chat, make_call, make_long_messages, write_messages
from relight.reports.trace import Step
from relight.web.charts.context_size import draw_context
from relight.web.charts.timeline import ShortenedTime, draw_timeline, has_short_waits
from relight.web.reading.outline import find_spans, make_outline
from relight.web.reading.shown_steps import StepChoice, choose_steps, cut_chosen, mark_hits
from relight.web.reading.step_rows import make_rows

KILOBYTE = 1000


def find_steps(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="step-(\d+)"', text)]


@pytest.fixture(scope="module")
def long_client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A session of 2,000 steps with long texts."""
    folder = tmp_path_factory.mktemp("long")
    messages = make_long_messages(182)
    for number, message in enumerate(messages):
        if message["role"] == "tool" and number % 3:
            message["content"] = "\n".join(f"{number} line {line} <b>&" for line in range(300))
        if message["role"] == "assistant" and message["content"]:
            message["content"] += "\n\n```py\nif x: return 'y'\n```\n" * 40
    import_chat(
        folder / "relight", write_messages(folder / "a.jsonl", key="long", messages=messages)
    )
    return serving.make_client(folder / "relight")


def test_no_part_of_a_long_session_is_larger_than_300_kilobytes(long_client: TestClient) -> None:
    with long_client as client:
        for part in (1, 2, 11, 21):
            page = client.get(f"/sessions/chat:long?part={part}")
            first = (part - 1) * 100 + 1
            assert find_steps(page.text) == list(range(first, min(first + 100, 2004)))
            assert len(page.content) < 300 * KILOBYTE, part
        # what did not fit is loaded when it is opened
        page = client.get("/sessions/chat:long")
        thin = re.findall(r'id="call-\d+" data-load="([^"]+)"', page.text)
        assert thin
        address = thin[-1]
        loaded = client.get(address.replace("&amp;", "&"))
        assert loaded.text.strip().startswith('<div id="fragment">')
        assert "line 20 &lt;b&gt;&amp;" in loaded.text
        assert find_steps(client.get("/sessions/chat:long?step=1500").text)[0] == 1401
        assert find_steps(client.get("/sessions/chat:long?step=99999").text)[-1] == 2003
        assert client.get("/sessions/chat:long?part=0&step=no").status_code == 200


def test_tokens_that_nobody_recorded_are_unknown_and_not_zero(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]
    file = write_messages(tmp_path / "a.jsonl", key="bare", messages=talk, usage=None)
    import_chat(tmp_path / "relight", file)
    with serving.make_client(tmp_path / "relight") as client:
        text = client.get("/sessions/chat:bare").text
    assert serving.read_tile(text, "Tokens") == ("–", "– cached, – out")
    assert serving.read_tile(text, "Turns") == ("1", "1 is a lower bound")
    assert "– in, – out" in text


def test_lists_are_smaller_than_100_kilobytes(client: TestClient) -> None:
    for path in ("/sessions?since=all", "/failures?since=all", "/jobs", "/skills", "/"):
        assert len(client.get(path).content) < 100 * KILOBYTE, path


def test_a_session_has_an_outline_a_timeline_and_its_context(client: TestClient) -> None:
    found = client.get("/api/sessions?since=all&limit=500&source=claude-code").json()["sessions"]
    longest = max(found, key=lambda one: one["turns"])
    text = client.get(f"/sessions/{longest['session_id']}").text
    outline = text.partition('aria-label="Prompts"')[2].partition("</nav>")[0]
    assert outline.count("<li>") > 1
    assert re.search(r"\$\d", outline)
    assert "tests passed" in outline or "tests failed" in outline
    assert re.search(r'aria-label="Time: model [^"]+, tools [^"]+, waiting', text)
    assert "Context by turn" in text
    assert re.search(r'<code id="resume">cd .* &amp;&amp; claude --resume', text)
    assert not re.search(r"<[^>]*\s(style|on\w+)\s*=", text)


def test_what_a_prompt_led_to_is_said_only_where_it_is_proven() -> None:
    steps = [
        Step(step=1, kind="prompt", text="a", running_cost_usd=0.0),
        Step(step=2, kind="call", tool="Bash", label="ok", running_cost_usd=1.0),
        Step(step=3, kind="prompt", text="b", running_cost_usd=1.0),
        Step(step=4, kind="call", tool="Bash", label="error", running_cost_usd=1.5),
        Step(step=5, kind="prompt", text="c", running_cost_usd=1.5),
        Step(step=6, kind="answer", text="done", running_cost_usd=1.5, running_unpriced_turns=1),
        Step(step=7, kind="prompt", text="d", running_cost_usd=1.5, running_unpriced_turns=1),
    ]
    found = make_outline(steps, {2: "passed"})
    assert [(one.outcome, one.evidence) for one in found] == [
        ("success", "tests passed"),
        ("failure", "last call failed"),
        (None, ""),
        (None, ""),
    ]
    assert [(one.cost_usd, one.unpriced) for one in found] == [(1, 0), (0.5, 0), (None, 1), (0, 0)]
    assert make_outline([], {}) == []


def test_a_sum_of_the_whole_session_belongs_to_no_prompt_and_to_no_moment() -> None:
    at = "2026-11-05T08:00:{:02}Z"
    steps = [
        Step(step=1, kind="prompt", at=at.format(10), text="a", running_cost_usd=0.0),
        Step(step=2, kind="call", tool="x", at=at.format(11), duration_ms=1000),
        Step(step=3, kind="prompt", at=at.format(14), injected="go on", running_cost_usd=0.0),
        Step(step=4, kind="call", tool="x", at=at.format(15), duration_ms=1000),
        Step(step=5, kind="answer", at=at.format(11), turns=9, model_ms=6000, cost_usd=2.0),
    ]
    outline = make_outline(steps, {})
    assert [(one.name, one.cost_usd, one.unpriced) for one in outline] == [
        ("a", None, 0),
        ("go on", None, 0),
    ]
    spans = find_spans(steps)
    assert (spans.model, spans.summed_ms) == ([], 6000)
    chart = draw_timeline(spans, outline, link=str)
    assert chart is not None
    assert "model 6.0s (60.0%), all of it at unknown times, tools 2.0s (20.0%)" in chart.svg
    assert [row[1].text for row in chart.rows] == ["–", "–"]
    # calls that are recorded one by one have their prompt, and a remainder of tokens has none
    rest = Step(step=6, kind="answer", turns=0, usage_status="reconciled", cost_usd=0.5)
    priced = replace(steps[3], turns=1, cost_usd=1.0)
    assert [one.cost_usd for one in make_outline([*steps[:3], priced, rest], {})] == [None, 1.0]
    assert [one.unpriced for one in make_outline([*steps[:3], priced, rest], {})] == [0, 0]
    assert [one.unpriced for one in make_outline([*steps[:3], priced, steps[4]], {})] == [0, 1]
    # a single prompt has all of it
    alone = [step for step in steps if step.step != 3]
    paid = [replace(step, running_cost_usd=2.0 * (step.step == 5)) for step in alone]
    assert [one.cost_usd for one in make_outline(paid, {})] == [2.0]


def test_the_axis_of_a_short_session_has_parts_of_a_second() -> None:
    at = "2026-11-05T08:00:00.{}Z"
    steps = [
        Step(step=n, kind="call", tool="x", at=at.format(n * 100), duration_ms=100)
        for n in (1, 2, 3)
    ]
    spans = find_spans(steps)
    chart = draw_timeline(spans, make_outline(steps, {}), link=str)
    assert chart is not None
    labels = re.findall(r'<text class="label[^"]*"[^>]*>([^<]+)<', chart.svg)
    assert labels == ["0.00s", "0.05s", "0.10s", "0.15s", "0.20s", "0.25s", "0.30s"]
    assert not has_short_waits(spans)
    assert has_short_waits(find_spans(make_times()))


def make_times() -> list[Step]:
    at = "2026-11-05T08:0{}:00Z"
    return [
        Step(step=1, kind="prompt", at=at.format(0), text="a"),
        Step(step=2, kind="call", tool="x", at=at.format(1), model_ms=60_000, duration_ms=30_000),
        Step(step=3, kind="answer", at=at.format(2), model_ms=20_000),
        Step(step=4, kind="prompt", at="2026-11-05T18:00:00Z", text="b"),
        Step(step=5, kind="answer", at="2026-11-05T18:01:00Z", model_ms=60_000),
    ]


def test_time_is_told_apart_and_waits_are_drawn_shorter() -> None:
    steps = make_times()
    spans = find_spans(steps)
    chart = draw_timeline(spans, make_outline(steps, {}), link=lambda step: f"#step-{step}")
    assert chart is not None
    assert "Time: model 2m 20s (0.4%), tools 30.0s (&lt;0.1%), waiting 9h 58m (99.5%)" in chart.svg
    assert [[cell.text for cell in row] for row in chart.rows] == [
        ["step 1", "1m 20s", "30.0s", "0.0s"],
        ["step 4", "1m 00s", "0.0s", "9h 58m"],
    ]
    scale = ShortenedTime([(0, 1000), (500_000, 501_000)])
    assert scale.share(0) == 0
    assert scale.share(501_000) == 1
    assert 0.48 < scale.share(1000) < scale.share(250_000) < scale.share(500_000) < 0.52
    assert scale.find_time(scale.share(250_000)) == pytest.approx(250_000)
    assert draw_timeline(find_spans([]), [], link=str) is None


def test_the_time_of_a_model_that_no_record_has_is_unknown_not_zero() -> None:
    steps = [replace(step, model_ms=None) for step in make_times()]
    chart = draw_timeline(find_spans(steps), make_outline(steps, {}), link=str)
    assert chart is not None
    assert "Time: model: time unknown, tools 30.0s, waiting" in chart.svg
    assert "model 0.0s" not in chart.svg
    assert [row[1].text for row in chart.rows] == ["–", "–"]


def test_context_is_drawn_against_the_window_and_compactions_are_marked() -> None:
    steps = [
        Step(
            step=number,
            kind="answer",
            model="claude-sonnet-4-5",
            turns=1,
            usage_status="final",
            input_tokens=10,
            cache_read_tokens=size,
        )
        for number, size in enumerate((50_000, 150_000, 30_000), start=1)
    ]
    steps.insert(2, Step(step=9, kind="compaction"))
    found = draw_context(steps)
    assert found is not None
    chart, words = found
    assert words == "peak 150k, 75.0% of the model's 200k · compacted 1 time"
    assert chart.svg.count('class="cut"') == 1
    assert chart.head == ["", "context", "window"]
    unknown = draw_context([replace(one, model="nobody") for one in steps])
    assert unknown is not None
    assert unknown[1] == "peak 150k · compacted 1 time"
    assert unknown[0].head == ["", "context"]


@pytest.mark.parametrize(
    ("arguments", "path", "subject"),
    [
        ({"pattern": "def total", "path": "/src"}, "/src", "def total in /src"),
        ({"message": "Look at the tests", "model": "small"}, None, "Look at the tests"),
        ({"plan": [{"step": "one", "status": "pending"}]}, None, ""),
        ({"file_path": "/src/a.py", "content": "x" * 30_000}, "/src/a.py", "/src/a.py"),
    ],
)
def test_a_call_is_named_by_what_it_is_about(
    arguments: dict[str, object], path: str | None, subject: str
) -> None:
    step = Step(step=1, kind="call", tool="t", path=path, arguments=json.dumps(arguments))
    (row,) = make_rows([step], begin=None, children={})
    assert row.subject == subject


@pytest.mark.parametrize(
    ("project", "subject"), [("/srv/shop", "src/a.py"), ("/srv", "shop/src/a.py"), ("/", None)]
)
def test_a_path_inside_the_project_is_named_as_from_there(
    project: str, subject: str | None
) -> None:
    path = "/srv/shop/src/a.py"
    step = Step(step=1, kind="call", tool="Read", path=path, arguments=json.dumps({"path": path}))
    (row,) = make_rows([step], begin=None, children={}, project=project)
    assert row.subject == (subject or path)
    (found,) = make_rows([step], begin=None, children={}, project=project, find="/srv/shop")
    assert "<mark>/srv/shop</mark>" in f"{found.subject}{found.snippet}"


def test_steps_are_chosen_by_kind_tool_and_words_in_any_text() -> None:
    steps = [
        Step(step=1, kind="prompt", text="Look"),
        Step(step=2, kind="call", tool="Bash", arguments='{"command": "ls"}', result="Needle"),
        Step(step=3, kind="call", tool="Read", label="error", evidence="no needle"),
        Step(step=4, kind="answer", text="None"),
    ]

    def chosen(**wanted: str) -> list[int]:
        return [one.step for one in choose_steps(steps, StepChoice(**wanted))]

    assert chosen() == [1, 2, 3, 4]
    assert chosen(kind="error") == [3]
    assert chosen(kind="call", tool="Bash") == [2]
    assert chosen(find="NEEDLE") == [2, 3]
    assert chosen(find="x\x00'\"%") == []
    assert cut_chosen([], step=5, part=None).steps == []
    assert mark_hits("a<b>c", "<B>") == "a<mark>&lt;b&gt;</mark>c"


@pytest.mark.parametrize("query", ["find=" + "x" * 3000, "find=%00%F0%9F&tool=%27", "kind=nobody"])
def test_any_words_may_be_looked_for(client: TestClient, query: str) -> None:
    name = client.get("/api/sessions?since=all").json()["sessions"][0]
    page = client.get(f"/sessions/{name['session_id']}?{query}")
    assert page.status_code == 200
    assert "No step fits." in page.text


def test_a_text_is_saved_by_its_step(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "go"}, *make_call(1, "x", {"a": 1}, "r" * 9000)]
    import_chat(
        tmp_path / "relight", write_messages(tmp_path / "a.jsonl", key="w", messages=messages)
    )
    with serving.make_client(tmp_path / "relight") as client:
        assert client.get("/words/2.result/chat:w").text == "r" * 9000
        assert json.loads(client.get("/words/2.arguments/chat:w").text) == {"a": 1}
        for name in ("0.text", "99.text", "2.model", "2", "x.result", "9" * 40 + ".text"):
            assert client.get(f"/words/{name}/chat:w").status_code == 404
