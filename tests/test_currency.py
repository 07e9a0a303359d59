"""Money in the user's currency: in texts and on pages, never in JSON."""

import json
import re
from pathlib import Path

import pytest

import build
import serving
from relight.config import read_config
from relight.errors import RelightError
from relight.store import open_store
from terminal import Cli

EURO = '\n[display]\ncurrency = "EUR"\nrate = 0.5\n'


def write_settings(home: Path, more: str) -> None:
    (home / "relight").mkdir(parents=True, exist_ok=True)
    (home / "relight" / "config.toml").write_text(f'timezone = "UTC"{more}')


def find_amounts(text: str, sign: str) -> list[float]:
    return [float(one) for one in re.findall(rf"{re.escape(sign)}(\d+\.\d+)", text)]


@pytest.mark.parametrize(
    "words",
    [["report", "--since", "all"], [], ["sessions", "--since", "all"], ["show", "last"]],
    ids=["report", "overview", "sessions", "show"],
)
def test_texts_show_the_currency_that_was_chosen(tmp_path: Path, words: list[str]) -> None:
    cli = Cli(tmp_path)
    build.write_claude(tmp_path, build.claude_session())
    before = cli.run(*words).stdout
    write_settings(tmp_path, EURO)
    after = cli.run(*words).stdout
    dollars, euros = find_amounts(before, "$"), find_amounts(after, "€")
    assert dollars
    assert len(euros) == len(dollars)
    assert euros == pytest.approx([one / 2 for one in dollars], abs=0.006)
    assert "$" not in after


def test_json_and_csv_stay_in_dollars(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_claude(tmp_path, build.claude_session())
    words = ("report", "--since", "all")
    before = cli.json(*words), cli.run(*words, "--csv").stdout
    write_settings(tmp_path, EURO)
    assert (cli.json(*words), cli.run(*words, "--csv").stdout) == before


def test_pages_show_the_currency_and_the_api_does_not(tmp_path: Path) -> None:
    write_settings(tmp_path, EURO.replace("EUR", "CHF"))
    build.write_claude(tmp_path, build.claude_session())
    with open_store(tmp_path / "relight") as store:
        build.import_home(store, tmp_path)
    with serving.make_client(tmp_path / "relight") as client:
        total = client.get("/api/report?since=all").json()["total"]["cost_usd"]
        for path in ("/?since=all", "/sessions?since=all", "/limits?since=all"):
            page = client.get(path).text
            assert find_amounts(page, "CHF "), path
            assert not find_amounts(page, "$"), path
        assert client.get("/api/report?since=all").json()["total"]["cost_usd"] == total
        assert "CHF" not in json.dumps(client.get("/api/limits?history=true&since=all").json())


@pytest.mark.parametrize(
    "settings",
    [
        '[display]\ncurrency = "EUR"\n',
        "[display]\nrate = 0.9\n",
        '[display]\ncurrency = "euro"\nrate = 0.9\n',
        '[display]\ncurrency = "EUR"\nrate = 0\n',
        '[display]\ncurrency = "EUR"\nrate = inf\n',
        '[display]\ncurency = "EUR"\nrate = 1\n',
    ],
)
def test_a_wrong_currency_is_refused_by_name(tmp_path: Path, settings: str) -> None:
    (tmp_path / "config.toml").write_text(settings)
    with pytest.raises(RelightError, match="display"):
        read_config(tmp_path)
