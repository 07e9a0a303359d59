"""What is looked at before a run spends anything: model, window, tools by place, budgets."""

import re
import time
from pathlib import Path

import msgspec
import pytest

import build
from build_runs import execute, make_job, run_job
from relight.config import Config, JobSettings, MoaSettings, read_config
from relight.errors import ModelContextError, RefusedError, RelightError
from relight.intake.recorder import record
from relight.reports.retries import judge_retry
from relight.store import Store
from relight.store.queries.runs import read_runs
from relight.work.jobs.job import JobDefinition, JobRun
from relight.work.jobs.preparation import (
    Route,
    check_context,
    check_drift,
    choose_job_tools,
    choose_route,
    is_local,
    settle_job,
)
from relight.work.jobs.registry import add_job
from relight.work.jobs.slots import start_now
from relight.work.jobs.spending import DaySpending, count_left, read_spending
from scripted import Reply, Server

FAR = "https://203.0.114.9/v1"
NEAR = "http://127.0.0.1:9/v1"
ALL = [
    "execute_code",
    "terminal",
    "read_file",
    "write_file",
    "patch",
    "search_files",
    "web_fetch",
]


def make_config(home: Path, **jobs: object) -> Config:
    return Config(home=home, jobs=msgspec.convert(jobs, JobSettings))


def route(job: JobDefinition, config: Config, **environment: str) -> Route:
    return choose_route(job, config=config, environment=environment)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://172.16.0.9/v1", True),
        ("http://192.168.1.7:1234", True),
        ("http://[fd00::1]/v1", True),
        ("http://8.8.8.8/v1", False),
        ("http://172.32.0.9/v1", False),
        ("http://[2001:4860:4860::8888]/v1", False),
        ("http://[::ffff:8.8.8.8]/v1", False),
        ("http://127.0.0.1@8.8.8.8/v1", False),
        ("http://localhost.no-such-host.invalid/v1", False),
        ("http:///v1", False),
        ("nonsense", False),
    ],
)
def test_local_is_what_lies_on_this_machine_or_its_own_network(address: str, local: bool) -> None:
    assert is_local(address) is local


def test_a_jobs_own_model_comes_first_then_routes_then_the_default(tmp_path: Path) -> None:
    rows = [
        {"pattern": "(?i)summar", "model": "small", "base_url": NEAR, "key_variable": "SMALL_KEY"},
        {"pattern": "house", "model": "middle"},
    ]
    config = make_config(
        tmp_path, model="large", base_url=FAR, key_variable="LARGE_KEY", routes=rows
    )
    own = route(make_job(model="own", base_url=NEAR), config)
    assert (own.model, own.base_url, own.key_variable) == ("own", NEAR, None)
    summary = route(make_job(prompt="Summarise the news"), config)
    assert (summary.model, summary.base_url, summary.key_variable) == ("small", NEAR, "SMALL_KEY")
    middle = route(make_job(prompt="Look after the house"), config)
    assert (middle.model, middle.base_url, middle.key_variable) == ("middle", FAR, "LARGE_KEY")
    rest = route(make_job(prompt="Anything else"), config)
    assert (rest.model, rest.base_url, rest.key_variable) == ("large", FAR, "LARGE_KEY")


def test_a_route_is_chosen_by_the_raw_prompt_alone(tmp_path: Path) -> None:
    rows = [{"pattern": "SCHEDULED JOB|tidy", "model": "wrong"}]
    config = make_config(tmp_path, model="right", routes=rows)
    assert route(make_job(skills=["tidy"]), config).model == "right"


def test_a_job_without_any_model_is_refused_with_a_hint_how_to_get_one(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    assert route(make_job(), config, RELIGHT_MODEL="m").model == "m"
    with pytest.raises(RelightError, match="names no model") as caught:
        route(make_job(), config)
    assert "--model" in (caught.value.hint or "")


def test_a_command_has_a_model_only_if_it_can_be_given_one(tmp_path: Path) -> None:
    config = make_config(tmp_path, model="default")
    told = make_job(runner="command", command=["hermes", "-z"], model="m")
    assert route(told, config).model == "m"
    deaf = make_job(runner="command", command=["mine"], model="m")
    assert route(deaf, config).model is None


def test_a_mixture_is_local_only_if_all_its_models_are(tmp_path: Path) -> None:
    near, far = {"model": "a", "base_url": NEAR}, {"model": "b", "base_url": FAR}
    presets = {
        "near": {"references": [near], "aggregator": near},
        "far": {"references": [far], "aggregator": near},
    }
    config = Config(home=tmp_path, moa=msgspec.convert({"presets": presets}, MoaSettings))
    assert route(make_job(model="moa:near"), config).is_local
    assert not route(make_job(model="moa:far"), config).is_local


def test_the_terminal_stays_at_home(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    near, far = (route(make_job(model="m", base_url=url), config) for url in (NEAR, FAR))
    assert choose_job_tools(make_job(), near) == (ALL, [])
    assert choose_job_tools(make_job(), far) == (ALL[2:], ALL[:2])
    assert choose_job_tools(make_job(allow_terminal=True), far) == (ALL, [])
    chosen = make_job(tools=["terminal", "read_file"])
    assert choose_job_tools(chosen, far) == (["read_file"], ["terminal"])


def test_a_job_that_names_the_terminal_for_a_model_far_away_is_refused(tmp_path: Path) -> None:
    named = {"model": "m", "tools": ["terminal", "read_file"]}
    with build.open_home(tmp_path) as store:
        settle_job(store, make_job(**named, base_url=NEAR))
        settle_job(store, make_job(**named, base_url=FAR, allow_terminal=True))
        settle_job(store, make_job(model="m", base_url=FAR))
        with pytest.raises(RelightError, match="cannot have terminal: m is outside") as caught:
            settle_job(store, make_job(**named, base_url=FAR))
    assert "--allow-terminal" in (caught.value.hint or "")


def test_no_job_gets_tools_that_ask_or_send(tmp_path: Path) -> None:
    near = route(make_job(model="m", base_url=NEAR), make_config(tmp_path))
    asking = make_job(tools=["clarify", "send_message", "read_file"])
    assert choose_job_tools(asking, near) == (["read_file"], [])
    with pytest.raises(RelightError, match="there is no tool 'magic'"):
        choose_job_tools(make_job(tools=["magic"]), near)


def check(job: JobDefinition, config: Config) -> None:
    check_context(job, route=route(job, config), config=config)


def test_a_model_that_is_known_to_be_too_small_is_refused(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    models = [{"id": "tiny", "context_length": 32768}, {"id": "big", "max_model_len": 64000}]
    with Server([], models=models) as server:
        here = {"base_url": server.base_url}
        with pytest.raises(ModelContextError) as caught:
            check(make_job(model="tiny", **here), config)
        assert caught.value.message == "tiny takes 32,768 tokens, and a job needs at least 64,000"
        assert f"relight job edit {make_job().name} --context-tokens N" in (caught.value.hint or "")
        check(make_job(model="big", **here), config)
        check(make_job(model="of unknown size", **here), config)
        check(make_job(model="tiny", context_tokens=32768, **here), config)
        check(make_job(model="tiny", **here), make_config(tmp_path, context_tokens=32768))


def test_price_lists_show_the_size_where_the_endpoint_does_not(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    small = make_job(runner="command", command=["hermes"], model="gpt-4", provider="openai")
    with pytest.raises(ModelContextError, match="gpt-4 takes 8,192 tokens"):
        check(small, config)
    check(make_job(runner="command", command=["hermes"], model="gpt-5.1"), config)
    check(make_job(runner="command", command=["hermes"]), config)


def test_a_default_that_has_changed_is_refused_until_someone_agrees() -> None:
    job = make_job(default_model="cheap")
    check_drift(job, Route(model="cheap"))
    check_drift(make_job(), Route(model="dear"))
    check_drift(make_job(model="dear", default_model="cheap"), Route(model="dear"))
    with pytest.raises(RefusedError, match="was cheap when house was added and is dear now") as it:
        check_drift(job, Route(model="dear"))
    assert "--model dear" in (it.value.hint or "")


def test_the_smallest_of_what_is_left_is_what_a_run_may_cost(tmp_path: Path) -> None:
    config = make_config(tmp_path, budget_usd_per_day=10.0)
    spent = DaySpending(by_job=1.0, by_all=9.5)
    assert count_left(make_job(), config=make_config(tmp_path), spent=spent) == (None, [])
    left, warnings = count_left(make_job(budget_usd=2.0), config=config, spent=spent)
    assert (left, warnings) == (0.5, ["$9.5000 of the budget of $10 for all jobs a day is spent"])
    job = make_job(budget_usd=2.0, budget_usd_per_day=1.25)
    left, warnings = count_left(job, config=config, spent=spent)
    assert left == 0.25
    assert warnings[0] == "$1.0000 of the budget of $1.25 for house a day is spent"


@pytest.mark.parametrize(
    ("spent", "whose"),
    [
        (DaySpending(by_job=1.0), "for house a day"),
        (DaySpending(by_all=10.0), "for all jobs a day"),
    ],
)
def test_a_budget_that_is_used_up_refuses_the_run(
    tmp_path: Path, spent: DaySpending, whose: str
) -> None:
    config = make_config(tmp_path, budget_usd_per_day=10.0)
    with pytest.raises(RefusedError, match=f"{whose} is used up"):
        count_left(make_job(budget_usd_per_day=1.0), config=config, spent=spent)


def test_runs_that_nobody_can_price_are_warned_of(tmp_path: Path) -> None:
    config = make_config(tmp_path, budget_usd_per_day=10.0)
    _, warnings = count_left(make_job(), config=config, spent=DaySpending(unpriced=2))
    assert warnings == ["2 runs today have no known price: no budget counts them"]


def test_what_a_command_never_hears_of_is_warned_of(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        job = make_job(
            runner="command",
            command=["/bin/echo", "done"],
            model="m",
            base_url=NEAR,
            tools=["read_file"],
        )
        assert execute(store, job, home=tmp_path).warnings == [
            "the command does not receive the job's model and base_url and tools, and uses its own"
        ]
        job = make_job(runner="command", command=["/bin/echo", "{model}"], model="m")
        assert execute(store, job, home=tmp_path).warnings == []


PRICED = {
    "id": "m",
    "context_length": 131072,
    "pricing": {"prompt": "0.001", "completion": "0.01"},
}
COST = 0.3  # of one answer of the scripted model: 100 tokens in, 20 out


def spend(store: Store, home: Path, url: str, **fields: object) -> str:
    job = make_job(model="m", base_url=url, **fields)
    return run_job(store, job, home=home).status


def test_what_a_day_has_cost_is_counted_by_job_and_over_all(tmp_path: Path) -> None:
    with (
        build.open_home(tmp_path) as store,
        Server(lambda _: Reply("Done."), models=[PRICED]) as server,
    ):
        assert spend(store, tmp_path, server.base_url) == "completed"
        assert spend(store, tmp_path, server.base_url, name="garden") == "completed"
        spent = read_spending(store, make_job(), run_id=0, now=time.time())
        assert spent == DaySpending(by_job=COST, by_all=2 * COST)
        yesterday = read_spending(store, make_job(), run_id=0, now=time.time() + 86400)
        assert yesterday == DaySpending()


def test_a_run_beyond_the_days_budget_is_refused_recorded_and_costs_nothing(
    tmp_path: Path,
) -> None:
    with (
        build.open_home(tmp_path) as store,
        Server(lambda _: Reply("Done."), models=[PRICED]) as server,
    ):
        limit = {"budget_usd_per_day": COST}
        assert spend(store, tmp_path, server.base_url, **limit) == "completed"
        assert spend(store, tmp_path, server.base_url, **limit) == "refused"
        assert len(server.chats) == 1
        rows = store.query("select status, outcome, outcome_evidence from run order by started_at")
        assert [row[:2] for row in rows] == [("completed", "success"), ("refused", "failure")]
        assert "is used up" in rows[1][2]
        assert [run.cost_usd for run in read_runs(store)] == [0, COST]


def test_runs_that_go_on_are_counted_by_what_they_spent_or_may(tmp_path: Path) -> None:
    now = round(time.time() * 1000)
    with build.open_home(tmp_path) as store:
        limits = {"frugal": 2.0, "spent-more": 0.5, "unlimited": None, "last": 9.0}
        runs: dict[str, JobRun] = {}
        for name, limit in limits.items():
            job = make_job(name=name, model="m", budget_usd=limit)
            add_job(store, job, now=now)
            runs[name] = start_now(store, job, "me", now=now + len(runs))
        for name, cost in (("frugal", 0.25), ("spent-more", 0.75), ("unlimited", 0.25)):
            with record(store, f"{runs[name].key}-1", model="m") as rec:
                rec.turn(input_tokens=1, cost_usd=cost)

        def read(name: str) -> DaySpending:
            return read_spending(store, make_job(), run_id=runs[name].id, now=now / 1000)

        assert read("last") == DaySpending(set_aside=2.0 + 0.75 + 0.25)
        # the first does not give way to a later one
        assert read("frugal") == DaySpending()
        config = make_config(tmp_path, budget_usd_per_day=3.0)
        with pytest.raises(RefusedError, match=r"\$3.0000 of it set aside for runs that go on"):
            count_left(make_job(), config=config, spent=read("last"))


def test_a_model_that_is_too_small_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    models = [{"id": "tiny", "context_length": 8192}]
    with (
        build.open_home(tmp_path) as store,
        Server(lambda _: Reply("Done."), models=models) as server,
    ):
        job = make_job(model="tiny", base_url=server.base_url)
        result = execute(store, job, home=tmp_path)
        assert (result.status, result.outcome) == ("refused", "failure")
        assert result.evidence[0] == "tiny takes 8,192 tokens, and a job needs at least 64,000"
        assert server.chats == []
    advice = judge_retry(result.failure_kind, retry_at=None, next_run_at=None, timezone="UTC")
    assert advice.can_retry is False
    assert "will fail too until the job names a larger model" in advice.words


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("warn_at = 0", "jobs.warn_at = 0 is not valid"),
        ("context_tokens = true", "jobs.context_tokens = True is not valid"),
        ("surprise = 1", "unknown setting: jobs.surprise"),
        ('routes = [{pattern = "("}]', "missing required field `model`"),
        ('routes = [{pattern = "(", model = "m"}]', "is not a regular expression"),
        (
            'routes = [{pattern = "a", model = "m", budget = 1}]',
            "unknown setting: jobs.routes[0].budget",
        ),
        ('routes = ["a"]', "Expected `object`, got `str`"),
    ],
)
def test_settings_that_do_not_fit_are_errors(tmp_path: Path, text: str, told: str) -> None:
    build.write_settings(tmp_path, f"[jobs]\n{text}\n")
    with pytest.raises(RelightError, match=re.escape(told)):
        read_config(tmp_path)
