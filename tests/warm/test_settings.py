"""Adding Relight to an agent changes what is shown and nothing else, and can be undone."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any
from venv import EnvBuilder

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.warm.agents.hermes_package import find_python, plan_addition, plan_removal, run_step
from relight.warm.agents.settings import (
    AGENTS,
    STATUS_LINES,
    apply_change,
    find_command,
    plan_change,
)

COMMAND = "/opt/relight/bin/relight warm --hook claude-code"


def change(
    agent: str,
    home: Path,
    *,
    remove: bool = False,
    keep: Path | None = None,
    command: str = COMMAND,
) -> None:
    """Add Relight or remove it; `keep` is the home that keeps the original."""
    environment = {"HOME": str(home)}
    apply_change(
        plan_change(agent, remove=remove, environment=environment, command=command, home=keep)
    )


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{ broken", "Expecting"), ("[]", "it has"), ('{"hooks": {"SessionStart": [5]}}', "it has")],
)
def test_settings_that_cannot_be_read_are_not_touched(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RelightError, match=f"cannot be read as settings: {reason}"):
        change("claude-code", tmp_path)
    assert path.read_text() == text


def test_a_hook_that_shares_its_group_is_taken_out_alone(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    ours, theirs = ({"type": "command", "command": one} for one in (COMMAND, "echo hi"))
    group = {"matcher": "x", "hooks": [theirs, ours]}
    path.write_text(json.dumps({"hooks": {"UserPromptSubmit": [group], "Stop": None}}))
    change("claude-code", tmp_path, remove=True)
    assert settings_of(tmp_path)["hooks"] == {
        "UserPromptSubmit": [{"matcher": "x", "hooks": [theirs]}],
        "Stop": None,
    }


@pytest.mark.parametrize("hooks", [None, {}, {"UserPromptSubmit": None}])
def test_hooks_that_are_empty_in_any_way_are_no_trouble(tmp_path: Path, hooks: Any) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": hooks}))
    change("claude-code", tmp_path)
    assert len(settings_of(tmp_path)["hooks"]["UserPromptSubmit"]) == 1


def test_the_hook_gets_a_home_that_is_not_the_usual(tmp_path: Path) -> None:
    assert "--home" not in find_command(Path.home() / ".relight")
    command = find_command(tmp_path / "my home")
    assert shlex.split(command)[-4:-2] == ["--home", str(tmp_path / "my home")]
    for home in (tmp_path / "a", tmp_path / "b"):
        planned = plan_change("claude-code", environment={"HOME": str(tmp_path)}, home=home)
        apply_change(planned)
    (group,) = settings_of(tmp_path)["hooks"]["UserPromptSubmit"]
    assert str(tmp_path / "b") in group["hooks"][0]["command"]


HOOKS = '"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "hi"}]}]}'
SHAPES = {
    "missing": None,
    "empty": "",
    "empty object": "{}",
    "two spaces": '{\n  "model": "opus"\n}\n',
    "four spaces": '{\n    "model": "opus",\n    "env": {\n        "A": "1"\n    }\n}\n',
    "tabs": '{\n\t"model": "opus"\n}\n',
    "compact": '{"model":"opus","env":{"A":"1"}}',
    "one line": '{"model": "opus", "env": {"A": "1"}}\n',
    "no final newline": '{\n  "model": "opus"\n}',
    "carriage returns": '{\r\n  "model": "opus",\r\n  "env": {}\r\n}\r\n',
    "escapes": '{\n  "name": "M\\u00fcller \\/ \\ud83d\\ude00"\n}\n',
    "numbers": '{\n  "a": 1e3,\n  "b": 1.0,\n  "c": 12345678901234567890.10\n}\n',
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "no hooks": '{\n  "hooks": null\n}\n',
    "empty list": '{\n  "hooks": {\n    "UserPromptSubmit": [\n    ]\n  }\n}\n',
    "a duplicate key": '{\n  "model": "opus",\n  "model": "sonnet"\n}\n',
    "hooks twice": f'{{"hooks": {{}}, "model": "opus", {HOOKS}}}',
    "other hooks": f'{{\n  {HOOKS},\n  "model": "opus"\n}}\n',
    "odd spaces": '  { "model" :"opus" ,\n\n "env":{ } }\n\n',
    "comma first": '{ "model": "opus"\n, "env": {}\n}\n',
}


def write_settings(home: Path, text: str | None, agent: str = "claude-code") -> Path:
    path = home / (".codex/hooks.json" if agent == "codex" else ".claude/settings.json")
    path.parent.mkdir(exist_ok=True)
    if text is not None:
        path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
@pytest.mark.parametrize("shape", SHAPES)
def test_removing_restores_every_byte_of_settings_that_nothing_else_changed(
    tmp_path: Path, shape: str, agent: str
) -> None:
    path = write_settings(tmp_path, SHAPES[shape], agent)
    keep, command = tmp_path / "relight", COMMAND.replace("claude-code", agent)
    change(agent, tmp_path, keep=keep, command=command)
    commands = [
        hook["command"]
        for group in json.loads(path.read_text())["hooks"]["UserPromptSubmit"]
        for hook in group["hooks"]
    ]
    assert commands[-1] == command
    (kept,) = (keep / "originals").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    # again with another command: the original is still the one before Relight
    change(agent, tmp_path, keep=keep, command=f"{command} --home /x")
    change(agent, tmp_path, keep=keep, remove=True)
    found = path.read_bytes().decode() if path.exists() else None
    assert found == SHAPES[shape]
    assert not keep.exists()


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("shape", [name for name in SHAPES if SHAPES[name]])
def test_settings_that_something_else_changed_are_edited_in_place(
    tmp_path: Path, shape: str, is_kept: bool
) -> None:
    before = SHAPES[shape] or ""
    path = write_settings(tmp_path, before)
    keep = tmp_path / "relight" if is_kept else None
    change("claude-code", tmp_path, keep=keep)
    path.write_bytes(path.read_bytes() + b"\n")
    change("claude-code", tmp_path, keep=keep, remove=True)
    after = path.read_bytes().decode()
    if shape in ("no hooks", "empty hooks", "empty list", "empty object"):
        hooks = json.loads(after).get("hooks") or {}
        assert not any(hooks.values())
    else:
        assert after == before + "\n"


def test_what_was_added_since_stays_when_relight_is_removed(tmp_path: Path) -> None:
    path = write_settings(tmp_path, '{\n    "a": 1e3,\n    "hooks": {}\n}')
    change("claude-code", tmp_path, keep=tmp_path / "relight")
    path.write_text(path.read_text().replace("1e3,", '1e3,\n    "b": [1,2],'))
    change("claude-code", tmp_path, keep=tmp_path / "relight", remove=True)
    assert path.read_text() == '{\n    "a": 1e3,\n    "b": [1,2],\n    "hooks": {}\n}'


def test_settings_that_change_after_they_were_shown_are_not_overwritten(tmp_path: Path) -> None:
    path = write_settings(tmp_path, "{}")
    planned = plan_change("claude-code", environment={"HOME": str(tmp_path)}, command=COMMAND)
    path.write_text('{"model": "opus"}')
    with pytest.raises(RelightError, match="was changed meanwhile"):
        apply_change(planned)
    assert path.read_text() == '{"model": "opus"}'


def test_a_hook_among_others_is_not_moved_by_installing_it_again(tmp_path: Path) -> None:
    ours, theirs = ({"hooks": [{"type": "command", "command": one}]} for one in (COMMAND, "hi"))
    text = json.dumps({"hooks": {"UserPromptSubmit": [ours, theirs], "SessionStart": [ours]}})
    path = write_settings(tmp_path, text)
    change("claude-code", tmp_path)
    assert path.read_text() == text


def test_installing_again_adds_the_hook_on_forks_that_an_earlier_relight_lacked(
    tmp_path: Path,
) -> None:
    ours = {"hooks": [{"type": "command", "command": COMMAND}]}
    write_settings(tmp_path, json.dumps({"hooks": {"UserPromptSubmit": [ours]}}))
    change("claude-code", tmp_path)
    hooks = settings_of(tmp_path)["hooks"]
    assert [len(hooks[event]) for event in ("UserPromptSubmit", "SessionStart")] == [1, 1]
    (group,) = hooks["SessionStart"]
    assert (group["matcher"], group["hooks"][0]["command"]) == ("fork|resume", COMMAND)


def make_environment(folder: Path) -> Path:
    """A separate Python, with nothing installed."""
    EnvBuilder(with_pip=False).create(folder)
    return folder / "bin"


def make_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("kind", ["beside", "link", "wrapper", "shebang"])
def test_hermes_python_is_found_from_its_command(tmp_path: Path, kind: str) -> None:
    there = make_environment(tmp_path / "hermes")
    own = make_script(there / "hermes", f"#!{there}/python\n")
    found = tmp_path / "bin" / "hermes"
    match kind:
        case "beside":
            found = own
        case "link":
            found.parent.mkdir()
            found.symlink_to(own)
        case "wrapper":
            make_script(found, f'#!/usr/bin/env bash\nexec "{own}" "$@"\n')
        case "shebang":
            make_script(found, f"#!{there}/python\n")
    python = find_python({"PATH": str(found.parent)})
    assert python == there / "python"


def test_where_hermes_is_not_found_it_is_said_what_is_missing(tmp_path: Path) -> None:
    step = plan_addition({"PATH": str(tmp_path)})
    assert step.command == []
    assert "hermes is not on the PATH; its own Python needs relight" in str(step.why_not)
    make_script(tmp_path / "hermes", "#!/bin/sh\nexec hermes-elsewhere\n")
    assert find_python({"PATH": str(tmp_path)}) is None
    assert plan_removal(["msgspec"], {"PATH": str(tmp_path / "none")}).command == []


def test_a_hermes_that_has_relight_needs_nothing(tmp_path: Path) -> None:
    """Both may live in one environment: then there is nothing to add, and nothing to take out."""
    make_script(tmp_path / "hermes", f"#!{sys.executable}\n")
    python = find_python({"PATH": str(tmp_path)})
    assert python == Path(sys.executable)
    assert plan_addition({"PATH": str(tmp_path)}).command == []
    assert plan_removal([], {"PATH": str(tmp_path)}).command == []


def test_an_install_that_fails_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    there = make_environment(tmp_path / "hermes")
    make_script(there / "hermes", "")
    broken = make_script(tmp_path / "bin" / "uv", "#!/bin/sh\necho no such package >&2\nexit 2\n")
    step = plan_addition({"PATH": f"{there}:{broken.parent}:/usr/bin:/bin"})
    assert step.command[0] == str(broken)
    with pytest.raises(RelightError, match="no such package"):
        run_step(step)


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
        "model: x\r\nplugins:\r\n  enabled:\r\n    - other\r\n",
    ],
)
def test_hermes_plugin_is_enabled_and_disabled_again(tmp_path: Path, before: str) -> None:
    path = tmp_path / ".hermes" / "config.yaml"
    path.parent.mkdir()
    path.write_bytes(before.encode())
    change("hermes", tmp_path)
    added = path.read_bytes().decode()
    assert added != before
    assert "relight" in added
    change("hermes", tmp_path)
    assert path.read_bytes().decode() == added
    change("hermes", tmp_path, remove=True)
    assert path.read_bytes().decode() in (before, f"{before}\n")
    path.write_bytes(before.encode())
    change("hermes", tmp_path, keep=tmp_path / "relight")
    change("hermes", tmp_path, keep=tmp_path / "relight", remove=True)
    assert path.read_bytes().decode() == before


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


STATUS_COMMAND = "/opt/relight/bin/relight statusline"
THEIRS = '{"type": "command",  "command": "~/mine.sh", "padding": 0}'
STATUS_SHAPES = SHAPES | {
    "their line": f'{{\n  "statusLine": {THEIRS},\n  "model": "opus"\n}}\n',
    "no line": '{\n  "statusLine": null,\n  "model": "opus"\n}\n',
}


def change_status(home: Path, *, remove: bool = False) -> None:
    planned = plan_change(
        "claude-code",
        remove=remove,
        environment={"HOME": str(home)},
        command=STATUS_COMMAND,
        home=home / "relight",
        agents=STATUS_LINES,
    )
    apply_change(planned)


@pytest.mark.parametrize("shape", STATUS_SHAPES)
def test_removing_the_status_line_restores_every_byte(tmp_path: Path, shape: str) -> None:
    path = write_settings(tmp_path, STATUS_SHAPES[shape])
    for _ in range(2):
        change_status(tmp_path)
        assert settings_of(tmp_path)["statusLine"] == {
            "type": "command",
            "command": STATUS_COMMAND,
        }
    change_status(tmp_path, remove=True)
    found = path.read_bytes().decode() if path.exists() else None
    assert found == STATUS_SHAPES[shape]


@pytest.mark.parametrize(
    "shape", ["two spaces", "compact", "tabs", "carriage returns", "their line"]
)
@pytest.mark.parametrize("is_warm_first", [True, False])
def test_warm_starts_and_the_status_line_are_removed_one_by_one(
    tmp_path: Path, shape: str, is_warm_first: bool
) -> None:
    path = write_settings(tmp_path, STATUS_SHAPES[shape])
    keep = tmp_path / "relight"
    change("claude-code", tmp_path, keep=keep)
    change_status(tmp_path)
    if is_warm_first:
        change("claude-code", tmp_path, keep=keep, remove=True)
        assert settings_of(tmp_path)["statusLine"]["command"] == STATUS_COMMAND
        assert "hooks" not in settings_of(tmp_path)
        change_status(tmp_path, remove=True)
    else:
        change_status(tmp_path, remove=True)
        assert "hooks" in settings_of(tmp_path)
        change("claude-code", tmp_path, keep=keep, remove=True)
    assert path.read_bytes().decode() == STATUS_SHAPES[shape]
    assert AGENTS["claude-code"].part != STATUS_LINES["claude-code"].part


def test_a_status_line_of_another_program_is_not_removed(tmp_path: Path) -> None:
    text = STATUS_SHAPES["their line"] or ""
    path = write_settings(tmp_path, text)
    change_status(tmp_path, remove=True)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["{ broken", '{"statusLine": []}', '{"statusLine": "x"}', "[]"])
def test_settings_with_a_strange_status_line_are_not_touched(tmp_path: Path, text: str) -> None:
    path = write_settings(tmp_path, text)
    with pytest.raises(RelightError, match="cannot be read as settings"):
        change_status(tmp_path)
    assert path.read_text() == text
