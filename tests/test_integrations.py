"""Adding Relight to an agent changes what is shown and nothing else, and can be undone."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.integrations import apply_change, plan_change

COMMAND = "/opt/relight/bin/relight warm --hook claude-code"


def change(agent: str, home: Path, *, remove: bool = False) -> None:
    environment = {"HOME": str(home)}
    planned = plan_change(agent, remove=remove, environment=environment, command=COMMAND)
    apply_change(planned)


def settings_of(home: Path) -> Any:
    return json.loads((home / ".claude" / "settings.json").read_text())


def test_claude_codes_hook_is_added_once_and_removed_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    theirs = {"type": "command", "command": "echo hi"}
    before = {"model": "opus", "hooks": {"UserPromptSubmit": [{"hooks": [theirs]}]}}
    path.write_text(json.dumps(before))
    change("claude-code", tmp_path)
    change("claude-code", tmp_path)
    groups = settings_of(tmp_path)["hooks"]["UserPromptSubmit"]
    assert [group["hooks"][0]["command"] for group in groups] == ["echo hi", COMMAND]
    change("claude-code", tmp_path, remove=True)
    assert settings_of(tmp_path) == before


def test_a_home_without_settings_is_as_it_was_after_removal(tmp_path: Path) -> None:
    change("claude-code", tmp_path)
    change("claude-code", tmp_path, remove=True)
    assert settings_of(tmp_path) == {}
    assert not plan_change(
        "claude-code", remove=True, environment={"HOME": str(tmp_path / "none")}
    ).is_needed


def test_settings_that_cannot_be_read_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{ broken")
    with pytest.raises(RelightError, match="not as Claude Code writes it"):
        change("claude-code", tmp_path)
    assert path.read_text() == "{ broken"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "model: {provider: custom}\n",
        "plugins:\n  enabled:\n    - other\n",
        "plugins:\n  enabled: [other, third]\nmodel: x\n",
        "plugins:\n  enabled: []\n",
        "# mine\nplugins:  # these\n  disabled:\n    - old\n\nmodel: x\n",
        "plugins:\n  enabled:\n  - other\n  - third\nmodel: x\n",
        "model: x",
    ],
)
def test_hermes_plugin_is_enabled_and_disabled_again(tmp_path: Path, before: str) -> None:
    path = tmp_path / ".hermes" / "config.yaml"
    path.parent.mkdir()
    path.write_text(before)
    change("hermes", tmp_path)
    added = path.read_text()
    assert added != before
    assert "relight" in added
    change("hermes", tmp_path)
    assert path.read_text() == added
    change("hermes", tmp_path, remove=True)
    assert path.read_text() == before or path.read_text() == f"{before}\n"


def test_an_agent_that_is_not_known_is_refused() -> None:
    with pytest.raises(RelightError, match="cannot be added to 'vim'"):
        plan_change("vim")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "hooks"), json_values))
def test_whatever_else_is_set_stays(settings: dict[str, Any]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / ".claude").mkdir()
        (home / ".claude" / "settings.json").write_text(json.dumps(settings))
        change("claude-code", home)
        after = settings_of(home)
        assert {name: value for name, value in after.items() if name != "hooks"} == settings
        change("claude-code", home, remove=True)
        assert settings_of(home) == settings
