"""Sources of other packages: the example of the guide, and what a broken one costs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import build

GUIDE = Path(__file__).parents[2] / "docs" / "adding.md"
LINES = [
    {"session": "one", "id": "1", "at": build.START, "role": "user", "text": "List the files"},
    {
        "session": "one", "id": "2", "at": build.START + 1000, "role": "assistant",
        "text": "I look.", "model": "gpt-5.2", "tokens_in": 120, "tokens_out": 30,
        "tool": "shell", "call": "c1",
    },
    {
        "session": "one", "id": "3", "at": build.START + 2000, "role": "tool",
        "text": "ls: cannot access 'x': No such file or directory", "call": "c1", "exit_code": 2,
    },
    {
        "session": "one", "id": "4", "at": build.START + 3000, "role": "assistant",
        "text": "There are none.", "model": "gpt-5.2", "tokens_in": 200, "tokens_out": 10,
    },
]  # fmt: skip


def install(folder: Path, name: str, code: str, entries: str) -> None:
    """Install a package of one module: its code, and the metadata that pip writes."""
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name.replace('_', '-')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[relight.sources]\n{entries}\n")


def install_example(folder: Path) -> None:
    found = re.search(r"```python\n# tiny_source\.py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    install(folder, "tiny_source", found[1], "tiny = tiny_source:SOURCE")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    sessions = tmp_path / ".tiny" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return folder


def relight(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "RELIGHT_HOME": str(tmp_path / "relight"),
        "PYTHONPATH": str(tmp_path / "packages"),
    }
    command = [sys.executable, *(words if words[0] == "-c" else ("-m", "relight", *words))]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_guides_example_is_imported_reported_and_shown(tmp_path: Path, packages: Path) -> None:
    install_example(packages)
    done = relight(tmp_path, "import", "--source", "tiny")
    assert done.stdout.startswith("tiny: 1 new"), done.stderr
    assert done.stderr == ""
    report = relight(tmp_path, "report", "--source", "tiny", "--since", "all", "--json")
    totals = json.loads(report.stdout)["total"]
    assert (totals["sessions"], totals["input_tokens"], totals["tool_failures"]) == (1, 320, 1)
    shown = relight(tmp_path, "show", "tiny:one")
    assert "List the files" in shown.stdout
    doctor = json.loads(relight(tmp_path, "doctor", "--json").stdout)
    row = next(one for one in doctor["sources"] if one["source"] == "tiny")
    assert (row["files"], row["sessions"]) == (1, 1)


def test_the_guides_example_is_read_as_messages(tmp_path: Path, packages: Path) -> None:
    install_example(packages)
    relight(tmp_path, "import")
    code = (
        "import json; from relight.model import row_id; from relight.store import open_store\n"
        "from relight.reports.transcript import read_transcript\n"
        "with open_store(None) as store:\n"
        "    found = read_transcript(store, row_id('session', 'tiny', 'one'))\n"
        "print(json.dumps(found.messages))\n"
    )
    messages = json.loads(relight(tmp_path, "-c", code).stdout)
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "shell", "arguments": "{}"}
    assert messages[2]["tool_call_id"] == "c1"


def test_a_broken_source_costs_itself_alone(tmp_path: Path, packages: Path) -> None:
    install_example(packages)
    code = "from tiny_source import SOURCE\nimport msgspec\n"
    code += "CLASH = msgspec.structs.replace(SOURCE, name='codex')\n"
    code += "GONE = msgspec.structs.replace(SOURCE, name='gone', reader='nowhere:Reader')\n"
    entries = ["clash = bad:CLASH", "gone = bad:GONE", "none = bad:NONE", "other = json:dumps"]
    install(packages, "bad", code, "\n".join(entries))
    done = relight(tmp_path, "import")
    assert "tiny: 1 new" in done.stdout
    warnings = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in warnings] == ["warning"] * 4
    assert "'clash' of bad is not used: there is already a source 'codex'" in warnings[0]
    assert "No module named 'nowhere'" in warnings[1]
    assert "AttributeError" in warnings[2]
    assert "not relight.sources.Source" in warnings[3]
    advice = json.loads(relight(tmp_path, "doctor", "--json").stdout)["advice"]
    assert [line.removeprefix("warning: ") for line in warnings] == advice[-4:]


def test_a_source_that_fails_while_it_looks_for_files_is_reported(
    tmp_path: Path, packages: Path
) -> None:
    code = (
        "from relight.sources import Source\nfrom relight.sources.reading import Reader\n"
        "class Failing(Reader):\n"
        "    @staticmethod\n    def find(folder):\n        raise ZeroDivisionError('oh')\n"
        "SOURCE = Source(name='failing', title='F', reader='failing:Failing', homes=('.f',))\n"
    )
    install(packages, "failing", code, "failing = failing:SOURCE")
    install_example(packages)
    (tmp_path / ".f").mkdir()
    done = relight(tmp_path, "import", "--json")
    counts = {one["source"]: one for one in json.loads(done.stdout)["sources"]}
    assert counts["failing"]["unreadable"] == 1
    assert counts["tiny"]["sessions_new"] == 1


@pytest.mark.parametrize("words", [["--help"], ["report", "--no-import"]])
def test_other_packages_are_not_searched_where_no_source_is_unknown(
    tmp_path: Path, packages: Path, words: list[str]
) -> None:
    install(packages, "loud", "print('loaded')", "loud = loud:SOURCE")
    assert "loaded" not in relight(tmp_path, *words).stdout
    assert "loaded" in relight(tmp_path, "import").stdout


def test_the_table_of_sources_imports_no_reader() -> None:
    code = "import sys, relight.sources; print(*(n for n in sys.modules if 'sources.' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_sessions_of_a_removed_package_stay_as_they_are_when_the_rest_is_rebuilt(
    tmp_path: Path, packages: Path
) -> None:
    install_example(packages)
    build.write_claude(tmp_path, build.claude_session())
    relight(tmp_path, "import")
    words = ("report", "--by", "session,model", "--since", "all", "--json")
    before = json.loads(relight(tmp_path, *words).stdout)
    (packages / "tiny_source.py").unlink()
    done = relight(tmp_path, "rebuild", "--prices")
    assert "sessions of tiny stay as they are: its package is not installed" in done.stderr
    assert json.loads(relight(tmp_path, *words).stdout) == before
