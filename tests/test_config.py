"""Settings are checked by name: an error names the file, the setting and the nearest known one."""

from pathlib import Path

import pytest

from relight.config import Config, read_config
from relight.errors import RelightError


def write(folder: Path, text: str) -> Path:
    (folder / "config.toml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "name", "near"),
    [
        ("timezon = 'UTC'", "timezon", "timezone"),
        ("[templates]\nholdout = 0.1", "templates.holdout", "hold_out"),
        ("[jobs]\nmodell = 'm'", "jobs.modell", "model"),
        ("[moa]\ntraces = true", "moa.traces", "save_traces"),
        ("[serve]\ntokn = 'x'", "serve.tokn", "token"),
        ("[prices.'a.b']\ninput_usd = 1", 'prices."a.b".input_usd', "input_usd_per_mtok"),
        ("[moa.presets.x]\nagregator = 1", 'moa.presets."x".agregator', "aggregator"),
        ("[[jobs.routes]]\npatern = 'x'\nmodel = 'm'", "jobs.routes[0].patern", "pattern"),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest_known_one(
    tmp_path: Path, text: str, name: str, near: str
) -> None:
    with pytest.raises(RelightError) as caught:
        read_config(write(tmp_path, text))
    assert caught.value.message == f"{tmp_path / 'config.toml'} has an unknown setting: {name}"
    assert (caught.value.hint or "").startswith(f"did you mean {near}? the settings here are ")


@pytest.mark.parametrize(
    ("text", "setting", "hint"),
    [
        (
            "[prices.m]\ninput_usd_per_mtok = -1",
            'prices."m".input_usd_per_mtok = -1',
            "dollars per",
        ),
        ("[prices.m]\ninput_usd_per_mtok = 'x'", "input_usd_per_mtok = 'x'", "from 0 to 1,000,000"),
        ("prices = 1", "prices = 1", "dollars per million tokens"),
        ("[templates]\nhold_out = 1", "templates.hold_out = 1", "a share from 0 to below 1"),
        ("[templates]\nauto = 'yes'", "templates.auto = 'yes'", "candidates, use or off"),
        ("[templates]\nmax_live_per_category = true", "max_live_per_category = True", "a whole"),
        ("[jobs]\nmax_parallel = 0", "jobs.max_parallel = 0", "a whole number above 0"),
    ],
)
def test_a_bad_value_is_named_with_its_setting_and_what_it_must_be(
    tmp_path: Path, text: str, setting: str, hint: str
) -> None:
    with pytest.raises(RelightError) as caught:
        read_config(write(tmp_path, text))
    assert f"{setting} is not valid" in caught.value.message
    assert str(tmp_path / "config.toml") in caught.value.message
    assert "it must be " in (caught.value.hint or "")
    assert hint in (caught.value.hint or "")


def test_an_unknown_time_zone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RelightError, match="timezone 'Mars/Olympus' is not known"):
        read_config(write(tmp_path, "timezone = 'Mars/Olympus'"))


def test_a_secret_in_a_bad_setting_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(RelightError, match=r"serve\.token is not valid") as caught:
        read_config(write(tmp_path, "[serve]\ntoken = ['hunter2']"))
    assert "hunter2" not in str(caught.value)


def test_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
    text = "[prices.m]\ninput_usd_per_mtok = 1\n[jobs]\nbudget_usd_per_day = 5\n"
    config = read_config(write(tmp_path, text))
    assert repr(config.prices) == "{'m': {'input_usd_per_mtok': 1}}"
    assert repr(config.jobs.budget_usd_per_day) == "5"


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    assert read_config(tmp_path) == Config(home=tmp_path)
    assert Config(home=tmp_path).trace_folder == tmp_path / "moa-traces"


def test_a_folder_may_name_a_variable_and_one_that_is_not_set_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_config(write(tmp_path, "[moa]\ntrace_dir = '${TRD}/x-$KIND'"))
    monkeypatch.setenv("TRD", "~/traces")
    monkeypatch.delenv("KIND", raising=False)
    with pytest.raises(RelightError, match=r"moa\.trace_dir = .*: the variable KIND is not set"):
        _ = config.trace_folder
    monkeypatch.setenv("KIND", "all")
    assert config.trace_folder == Path.home() / "traces" / "x-all"


def test_settings_whose_brackets_never_close_are_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(RelightError, match="nested too deeply"):
        read_config(tmp_path)
