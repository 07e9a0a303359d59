"""Bulk trees of invented sessions; that imports equal their truth is tested with the importer."""

import json
from pathlib import Path

import pytest
from bench.trees import generate_tree, grow_tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bulk")
    generate_tree(folder, claude_mb=3, codex_mb=2)
    return folder


def read_files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_small_tree_has_every_hard_case(tree: Path) -> None:
    truth = json.loads((tree / "truth.json").read_text())
    claude, codex = truth["claude"]["counts"], truth["codex"]["counts"]
    for name in ("repeated_lines", "partial_lines", "forked_lines", "subagent_files"):
        assert claude[name] > 0
    for name in ("api_error_lines", "truncated_files", "quoted_results"):
        assert claude[name] > 0
    for name in ("total_resets", "replayed_lines", "forks"):
        assert codex[name] > 0
    assert truth["claude"]["totals"]["cache_write_5m"] > 0
    assert truth["claude"]["totals"]["cache_write_1h"] > 0


def test_old_rollouts_repeat_each_total_and_new_ones_record_usage(tree: Path) -> None:
    kinds: dict[str, list[str]] = {}
    for path in (tree / ".codex").rglob("*.jsonl"):
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        version = records[0]["payload"]["cli_version"]
        kinds.setdefault(version, []).extend(
            str(one["payload"].get("type", one["type"])) for one in records
        )
    assert kinds.keys() == {"0.53.0", "0.117.0", "0.166.0"}
    assert "token_usage_record" in kinds["0.166.0"]
    for version in ("0.53.0", "0.117.0"):
        assert "token_usage_record" not in kinds[version]
        assert kinds[version].count("token_count") > kinds[version].count("function_call")


def test_the_same_seed_and_size_write_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    generate_tree(tmp_path / "same", claude_mb=3, codex_mb=2)
    assert read_files(tmp_path / "same") == read_files(tree)
    generate_tree(tmp_path / "other", claude_mb=0.5, codex_mb=0.5, seed=2)
    assert not read_files(tmp_path / "other").keys() - {"truth.json"} & read_files(tree).keys()


def test_growth_adds_to_one_file_of_each_tool_and_to_the_truth(tmp_path: Path) -> None:
    generate_tree(tmp_path, claude_mb=0.5, codex_mb=1)
    before = read_files(tmp_path)
    requests = json.loads(before["truth.json"])["codex"]["totals"]["requests"]
    grown = grow_tree(tmp_path, turns=2)
    after = read_files(tmp_path)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"truth.json", *(str(path.relative_to(tmp_path)) for path in grown)}
    assert json.loads(after["truth.json"])["codex"]["totals"]["requests"] == requests + 2
