"""Calls at local endpoints: one setting makes them free, wherever a record says that they are."""

from pathlib import Path
from typing import Any

import build
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.models.endpoints import Endpoint
from relight.reports.doctor import examine
from relight.reports.needs import find_needs
from relight.reports.totals import ReportFigures, report
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

LOCAL = "http://127.0.0.1:11434/v1"


def open_free(home: Path) -> Store:
    folder = home / "relight"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text('timezone = "UTC"\nlocal_models_are_free = true\n')
    return open_store(folder)


def total(store: Store) -> ReportFigures:
    return report(store, ("model",)).total


def write_hermes(home: Path, *, provider: str, address: str) -> None:
    figures = {"input_tokens": 100, "output_tokens": 10, "api_call_count": 1}
    with build.open_hermes(home) as database:
        row = {"id": "s", "source": "cli", "model": "at-home"}
        build.insert(database, "sessions", started_at=build.START / 1000, **row, **figures)
        build.insert(
            database,
            "session_model_usage",
            session_id="s",
            model="at-home",
            billing_provider=provider,
            billing_base_url=address,
            cost_status="unknown",
            estimated_cost_usd=0.0,
            **figures,
        )
    database.close()


def write_codex(home: Path, *more: dict[str, Any]) -> None:
    lines = [build.codex_meta(model_provider="ollama")]
    lines += [build.codex_line("turn_context", 1, model="gpt-oss:20b", cwd="/w")]
    used = build.codex_usage(1000)
    lines += [build.codex_line("token_usage_record", 2, response_id="r", usage=used)]
    build.write_codex(home, [*lines, *more])


def test_hermes_at_a_local_address_costs_nothing_if_local_models_are_free(tmp_path: Path) -> None:
    write_hermes(tmp_path, provider="custom", address=LOCAL)
    with open_free(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = total(store)
        assert (found.turns, found.cost_usd, found.unpriced_turns) == (1, 0.0, 0)
        assert store.query("select distinct provider from turn") == [("local",)]


def test_hermes_at_another_address_has_an_unknown_cost(tmp_path: Path) -> None:
    write_hermes(tmp_path, provider="custom", address="https://llm.example.org/v1")
    with open_free(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = total(store)
        assert (found.cost_usd, found.unpriced_turns) == (None, 1)
        assert store.query("select distinct provider from turn") == [("custom",)]


def test_codex_with_a_local_provider_costs_nothing_if_local_models_are_free(
    tmp_path: Path,
) -> None:
    write_codex(tmp_path)
    with open_free(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert (total(store).cost_usd, total(store).unpriced_turns) == (0.0, 0)


def test_a_call_of_a_free_model_that_was_cut_off_costs_nothing_either(tmp_path: Path) -> None:
    content = [{"type": "input_text", "text": "Bake"}]
    asked = {"type": "message", "role": "user", "content": content}
    write_codex(tmp_path, build.codex_line("response_item", 3, **asked))
    with open_free(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert store.query("select 1 from turn where usage_status = 'unanswered'")
        assert (total(store).cost_usd, total(store).unpriced_turns) == (0.0, 0)


def test_the_setting_holds_for_earlier_sessions_after_a_rebuild_of_prices(tmp_path: Path) -> None:
    write_codex(tmp_path)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert total(store).cost_usd is None
        advice = examine(store, environment={"HOME": str(tmp_path)}, depth="quick").advice
        assert [one for one in advice if "set local_models_are_free = true" in one]
        (need,) = [
            one for one in find_needs(store, Filter(), [], spirals=[]) if one.kind == "price"
        ]
        assert need.reason.endswith("; local_models_are_free = true makes local models free")
    with open_free(tmp_path) as store:
        advice = examine(store, environment={"HOME": str(tmp_path)}, depth="quick").advice
        assert [one for one in advice if "recorded before they were free: run" in one]
        rebuild(store, reprice=True, workers=1)
        assert (total(store).cost_usd, total(store).unpriced_turns) == (0.0, 0)
        advice = examine(store, environment={"HOME": str(tmp_path)}, depth="quick").advice
        assert not [one for one in advice if "price" in one]


def test_advice_about_prices_stays_short_whatever_models_are_called(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        for model in (None, "x" * 5000):
            with record(store, model=model, provider="ollama") as rec:
                rec.turn(input_tokens=100, output_tokens=10)
        advice = examine(store, environment={"HOME": str(tmp_path)}, depth="quick").advice
    (line,) = [one for one in advice if "no price is known" in one]
    assert ("unknown" in line, "None" in line, len(line) < 400) == (True, False, True)


def test_a_program_that_names_a_local_provider_costs_nothing(tmp_path: Path) -> None:
    with open_free(tmp_path) as store:
        with record(store, model="qwen3:8b", provider="ollama") as rec:
            rec.turn(input_tokens=100, output_tokens=10)
        assert total(store).cost_usd == 0.0


def test_an_endpoint_is_local_by_its_address() -> None:
    sellers = {
        "http://localhost:11434/v1": "local",
        "http://192.168.1.7:8000/v1": "local",
        "http://[::1]:8080/v1": "local",
        "http://workstation.local:1234/v1": "local",
        "http://8.8.8.8/v1": "8.8.8.8",
        "https://api.groq.com/openai/v1": "groq",
    }
    assert {url: Endpoint(model="m", base_url=url).seller for url in sellers} == sellers
