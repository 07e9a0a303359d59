"""The pages of jobs: one judgement of each job, and whatever run an address asks for."""

import re
from pathlib import Path

from msgspec.structs import replace
from starlette.testclient import TestClient

import build
import serving
from build_dashboard import HOSTILE
from build_jobs import DONE, make_job
from build_runs import write_runs
from relight.reports.alarm_watch import refresh_alarms
from relight.reports.runs import RECENT_RUNS, find_trouble, read_jobs
from relight.store import Store
from relight.store.queries.runs import read_runs
from relight.work.jobs.canary_plan import CanaryOrder, plan_canary, start_canary
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobResult
from relight.work.jobs.registry import add_job, find_job

FAILED = JobResult(status="failed", outcome="failure", evidence=["it was not done"])


def run_job(store: Store, name: str, *results: JobResult) -> None:
    """A job of this name with these runs, the oldest first, a second apart."""
    add_job(store, make_job(name), now=build.START)
    for at, result in enumerate(results):
        run_now(
            store,
            name,
            holder="host/1",
            execute=lambda *_, found=result, **__: found,
            clock=lambda at=at: build.START / 1000 + at,  # type: ignore[misc]
        )


def test_a_job_needs_attention_by_its_last_runs_on_every_page(store: Store, tmp_path: Path) -> None:
    run_job(store, "well", DONE, DONE, FAILED, *[DONE] * 4)
    run_job(store, "often", *[FAILED, DONE] * 4)
    run_job(store, "now", *[DONE] * 9, FAILED)
    build.write_claude(tmp_path, build.claude_session())
    build.import_home(store, tmp_path)
    troubles = {job.name: job.trouble for job in read_jobs(store)}
    often, now = "4 of the last 8 runs failed", "the last run failed"
    assert troubles == {"well": None, "often": often, "now": now}
    with serving.make_client(store.config.home) as client:
        for path in ("/?since=all", "/jobs"):
            text = client.get(path).text
            # between tags, and not in the hover text of a line that is cut
            assert (text.count(f">{often}<"), text.count(f">{now}<")) == (1, 1), path
        assert "2 need attention" in client.get("/jobs").text


def test_a_job_counts_all_of_its_runs_and_is_judged_by_the_last_ones(store: Store) -> None:
    run_job(store, "long", *[FAILED] * 9, *[DONE] * RECENT_RUNS, FAILED)
    run_job(store, "other", DONE)
    long, other = read_jobs(store)
    assert (long.runs, long.successes, long.failures, long.unknown) == (40, RECENT_RUNS, 10, 0)
    assert (long.last_outcome, long.trouble) == ("failure", "the last run failed")
    assert long.last_run_at == read_runs(store, "long", limit=1)[0].started_at
    assert (other.runs, other.last_outcome, other.trouble) == (1, "success", None)


def test_a_schedule_is_shown_in_words(client: TestClient) -> None:
    found = {job["name"]: job for job in client.get("/api/jobs").json()["jobs"]}
    assert found["ticket-triage"]["schedule_words"].startswith("every ")
    for job in found.values():
        for path in ("/jobs", f"/jobs/{job['job']}"):
            assert job["schedule_words"] in client.get(path).text, path
    assert "* * *" not in client.get("/jobs").text


def test_trouble_is_found_by_what_is_known_of_the_last_runs() -> None:
    good, bad, lost = ("completed", "success"), ("failed", "failure"), ("unknown", "unknown")
    told = [
        find_trouble(runs, is_own=True)
        for runs in (
            [],
            [good],
            [bad] * 3,
            [bad] * (RECENT_RUNS + 1),
            [lost, good],
            [good] * 3 + [bad],
        )
    ]
    assert told == [
        None,
        None,
        "the last 3 runs failed",
        "the last 30 runs or more failed",
        "the outcome of the last run is unknown",
        "1 of the last 4 runs failed",
    ]
    assert find_trouble([lost, good], is_own=False) is None


def test_a_run_is_shown_that_is_older_than_those_listed(store: Store) -> None:
    run_job(store, "nightly", FAILED, *[DONE] * 101)
    oldest = read_runs(store, "nightly")[-1].run_id
    with serving.make_client(store.config.home) as client:
        page = client.get(f"/jobs/nightly?run={oldest}").text
        gone = client.get("/jobs/nightly?run=run-of-nobody").text
    assert "it was not done" in page
    assert "The last run" not in page
    assert re.search(r"no run <bdi>run-of-nobody</bdi>: the last one is shown", gone)


def test_a_failed_run_is_listed_however_many_followed(store: Store) -> None:
    run_job(store, "nightly", FAILED, *[DONE] * 101)
    with serving.make_client(store.config.home) as client:
        page = client.get("/jobs/nightly?outcome=failure").text
        (found,) = client.get("/api/jobs/history?job=nightly&failed=true").json()["runs"]
        later = client.get("/api/jobs/history?failed=true&since=2999-01-01").json()
    table = page.partition('id="runs-title"')[2]
    assert table.count("it was not done") == 1
    assert "of the newest" not in table
    assert found["outcome"] == "failure"
    assert later == {"runs": []}


def test_a_run_of_another_scheduler_is_found_by_the_name_that_it_is_listed_with(
    client: TestClient,
) -> None:
    runs = client.get("/api/jobs/history?job=price-watch").json()["runs"]
    text = client.get("/jobs/price-watch", params={"run": runs[-1]["run_id"]}).text
    assert "the last one is shown" not in text


def test_the_runs_of_a_job_are_narrowed_only_where_that_is_asked(client: TestClient) -> None:
    chip = re.compile(r'class="chip"[^>]*>outcome: <bdi>([^<]*)</bdi>')
    assert chip.findall(client.get("/jobs/price-watch").text) == []
    assert chip.findall(client.get("/jobs/price-watch?outcome=failure").text) == ["failure"]


def test_a_job_whose_model_has_no_price_has_no_cost_of_a_run(client: TestClient) -> None:
    text = client.get("/jobs/backup-check").text
    tile = text.partition("Cost of a run")[2].partition("</a>")[0]
    assert "≥" not in tile
    assert "no price" in tile
    assert "$" not in tile


def test_an_alarm_is_shown_and_acknowledged_on_its_page(store: Store) -> None:
    name = "<b>\u202etriage"
    day_ms = 86_400_000
    write_runs(
        store, "triage", [True] * 45 + [False] * 6, first_at=1_788_220_800_000, every_ms=day_ms
    )
    refresh_alarms(store)
    with store.transaction() as database:
        database.execute("update alarm set scope = ?", (f"job:{name}",))
    with serving.make_client(store.config.home) as client:
        (one,) = client.get("/api/alarms").json()["alarms"]
        overview = client.get("/").text
        page = client.get("/jobs").text.partition('id="alarms"')[2].partition("</section>")[0]
        action = f"/api/alarms/{one['id']}/acknowledge"
        form = {"secret": serving.read_secret(client), "act": action, "next": "/jobs"}
        sent = client.post("/jobs", data=form, follow_redirects=False)
        assert client.get("/api/alarms").json()["alarms"] == []
        assert len(client.get("/api/alarms?all=true").json()["alarms"]) == 1
        for wrong in ("77", "x", "99999999999999999999"):
            head = {"X-Relight-Secret": form["secret"]}
            wrong_action = f"/api/alarms/{wrong}/acknowledge"
            assert client.post(wrong_action, json={}, headers=head).status_code == 404
    assert sent.status_code == 303
    assert "fails more: 6 of" in page
    assert action in page
    assert "fails more: 6 of" in overview
    assert "/jobs#alarms" in overview
    assert "<b>" not in page + overview.partition('id="needs"')[2].partition("</section>")[0]


def test_a_model_on_trial_is_shown_with_its_switches_and_answered_on_the_page_of_its_job(
    store: Store,
) -> None:
    run_job(store, "triage", *[replace(DONE, model="m", cost_nanos=10**8)] * 40)
    order = CanaryOrder(model="small<b>", anyway=True)
    start_canary(store, plan_canary(store, "triage", order, now=build.START + 60_000))
    with serving.make_client(store.config.home) as client:
        page = client.get("/jobs/triage").text
        assert "small&lt;b&gt; is on trial in triage with 20% of the runs" in page
        assert "Switch to small" in page
        (one,) = client.get("/api/canaries").json()["canaries"]
        assert (one["state"], one["against"], one["against_successes"]) == ("running", "m", 40)
        secret = serving.read_secret(client)
        done = client.post("/api/jobs/triage/canary/promote", headers={"x-relight-secret": secret})
        assert done.status_code == 200, done.text
        assert done.json()["state"] == "promoted"
        found = client.get("/api/jobs/triage/canary").json()
        assert [(row["to_model"], row["made_by"]) for row in found["switches"]] == [
            ("small<b>", "dashboard")
        ]
        page = client.get("/jobs/triage").text
        assert "Go back to m<" in page
        assert "<b>" not in page.partition("Models on trial")[2].partition("</section>")[0]
        assert find_job(store, "triage").model == "small<b>"
        form = {"secret": secret, "act": "/api/jobs/triage/canary/back", "next": "/jobs/triage"}
        assert client.post("/jobs/triage", data=form).status_code == 303
        assert "asked for" in client.get("/jobs/triage").text
        assert find_job(store, "triage").model == "m"
        assert client.post("/jobs/triage", data=form).status_code == 404


def test_the_answer_of_a_run_is_read_as_markdown_and_does_nothing(store: Store) -> None:
    answer = (
        f"**Two** of three:\n\n- one\n- [two](javascript:alert)\n\n{HOSTILE}\n\n{'more ' * 1000}"
    )
    (store.config.home / "answer.md").write_text(f"---\njob: night\n---\n{answer}")
    run_job(store, "night", replace(DONE, answer_file="answer.md"))
    with serving.make_client(store.config.home) as client:
        page = (
            client.get("/jobs/night")
            .text.partition("<h3>Answer</h3>")[2]
            .partition("</section>")[0]
        )
    assert "<strong>Two</strong> of three:" in page
    assert "<li>two (javascript:alert)</li>" in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"<script|<img|onerror=\"|href=|\x1b|\u202e", page)
    assert "characters more in <code>" in page
