import json
from pathlib import Path
from typing import Any

import build
from build import claude_answer, claude_line, claude_prompt, claude_result, claude_usage, tool_use
from relight.intake.rebuild import rebuild
from relight.reports.totals import ReportFigures, report


def total(tmp_path: Path) -> ReportFigures:
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        return report(store, ("model",)).total


def test_lines_of_one_response_count_once_with_the_largest_output(tmp_path: Path) -> None:
    first = claude_answer("msg_1", at=1, usage=claude_usage(output=1), stop=None)
    last = claude_answer("msg_1", at=2, usage=claude_usage(output=90))
    build.write_claude(tmp_path, [claude_prompt("go"), first, last])
    found = total(tmp_path)
    assert (found.turns, found.output_tokens, found.partial_turns) == (1, 90, 0)


def test_a_tool_result_between_two_lines_of_a_response_does_not_split_it(tmp_path: Path) -> None:
    lines = [
        claude_answer("msg_1", tool_use("toolu_1", command="ls"), at=1),
        claude_result("toolu_1", "a.txt", at=2),
        claude_answer("msg_1", tool_use("toolu_2", command="pwd"), at=3),
        claude_result("toolu_2", "/home", at=4),
    ]
    build.write_claude(tmp_path, lines)
    found = total(tmp_path)
    assert (found.turns, found.tool_calls) == (1, 2)


def test_a_response_without_a_stop_reason_is_a_lower_bound(tmp_path: Path) -> None:
    build.write_claude(tmp_path, [claude_answer("msg_1", usage=claude_usage(output=1), stop=None)])
    assert total(tmp_path).partial_turns == 1


def test_cache_writes_are_told_apart_by_their_hour(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    found = total(tmp_path)
    assert found.cache_write_tokens == 900
    assert found.cache_write_1h_tokens == 300


def test_a_sub_agent_in_its_own_file_counts_in_its_parents_session(tmp_path: Path) -> None:
    main = build.write_claude(tmp_path, build.claude_session())
    agent = main.parent / build.CLAUDE_SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    lines = [
        claude_prompt("Look around", at=2, isSidechain=True, agentId="a1"),
        claude_answer("msg_sub", at=3, isSidechain=True, agentId="a1"),
    ]
    agent.write_bytes(build.as_lines(lines))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (row,) = report(store, ("session",)).rows
        assert (row.session, row.turns) == (f"claude-code:{build.CLAUDE_SESSION}", 4)
        keys = store.query("select key, parent_kind from session order by key")
        assert keys[1] == (f"{build.CLAUDE_SESSION}/a1", "subagent")


def test_old_sidechains_in_the_main_file_are_sub_agents_of_their_own(tmp_path: Path) -> None:
    lines = [
        *build.claude_session(),
        claude_prompt("Sub one", at=6, isSidechain=True, parentUuid=None, uuid="aaaaaaaa-1"),
        claude_answer("m_a", at=7, isSidechain=True, parentUuid="aaaaaaaa-1", uuid="aaaaaaaa-2"),
        claude_prompt("Sub two", at=8, isSidechain=True, parentUuid=None, uuid="bbbbbbbb-1"),
        claude_answer("m_b", at=9, isSidechain=True, parentUuid="bbbbbbbb-1", uuid="bbbbbbbb-2"),
        claude_answer("m_c", at=10, isSidechain=True, parentUuid="aaaaaaaa-2", uuid="aaaaaaaa-3"),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query(
            "select title, (select count(*) from turn where session_id = session.id)"
            " from session where parent_kind = 'subagent' order by title"
        )
        assert rows == [("Sub one", 2), ("Sub two", 1)]
        assert report(store, ("session",)).total.sessions == 1


def test_a_quoted_transcript_in_a_tool_result_is_only_text(tmp_path: Path) -> None:
    quoted = json.dumps(claude_answer("msg_quoted", usage=claude_usage(output=999_999)))
    lines = [
        claude_answer("msg_1", tool_use("toolu_1", command="cat log.jsonl"), at=1),
        claude_result("toolu_1", quoted, at=2, toolUseResult={"stdout": quoted}),
    ]
    build.write_claude(tmp_path, lines)
    found = total(tmp_path)
    assert (found.turns, found.output_tokens) == (1, 50)


def test_usage_on_the_result_of_a_finished_sub_agent_is_not_a_turn(tmp_path: Path) -> None:
    result = claude_result("toolu_1", "ok", toolUseResult={"usage": claude_usage(output=777)})
    build.write_claude(tmp_path, [claude_answer("msg_1", tool_use("toolu_1", "Task")), result])
    assert total(tmp_path).output_tokens == 50


def test_an_api_error_is_a_failure_and_not_a_turn(tmp_path: Path) -> None:
    error = claude_answer(
        "uuid-1",
        {"type": "text", "text": "API Error: 529 Overloaded"},
        model="<synthetic>",
        usage={"input_tokens": 0, "output_tokens": 0},
        isApiErrorMessage=True,
        apiErrorStatus=529,
        at=9,
    )
    build.write_claude(tmp_path, [*build.claude_session(), error])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = report(store, ("model",))
        assert [row.model for row in found.rows] == ["claude-opus-4-6"]
        assert found.total.turns == 3
        assert store.query("select failure from turn where calls = 0") == [("overloaded",)]


def test_what_only_the_cost_state_shows_becomes_one_reconciled_turn(tmp_path: Path) -> None:
    state = {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {
            "claude-opus-4-6": {
                "inputTokens": 30 + 43,
                "outputTokens": 150 + 123,
                "cacheReadInputTokens": 12_000,
                "cacheCreationInputTokens": 900,
                "cacheCreationEphemeral1hInputTokens": 300,
            }
        },
    }
    build.write_claude(tmp_path, [*build.claude_session(), state])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query(
            "select input_tokens, output_tokens, calls from turn where usage_status = 'reconciled'"
        )
        assert rows == [(43, 123, 1)]
        assert report(store, ("model",)).total.output_tokens == 273


def test_partial_turns_are_reconciled_by_the_clients_own_total(tmp_path: Path) -> None:
    partial = claude_answer("msg_1", usage=claude_usage(output=1), stop=None)
    used = {"inputTokens": 10, "outputTokens": 80, "cacheReadInputTokens": 4000}
    used["cacheCreationInputTokens"] = 300
    state = {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {"claude-opus-4-6[1m]": used},
    }
    build.write_claude(tmp_path, [partial, state])
    found = total(tmp_path)
    assert (found.turns, found.output_tokens, found.partial_turns) == (1, 80, 0)


def cost_state(**used: int) -> dict[str, Any]:
    usage = {"inputTokens": 10, "outputTokens": 50, "cacheReadInputTokens": 4000}
    usage["cacheCreationInputTokens"] = 300
    return {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {"claude-opus-4-6": usage | used},
    }


def test_a_compaction_without_a_total_makes_the_cost_a_lower_bound(tmp_path: Path) -> None:
    summary = claude_prompt("Summary of it all", 3, isCompactSummary=True)
    build.write_claude(tmp_path, [claude_prompt("go"), claude_answer("msg_1", at=2), summary])
    found = total(tmp_path)
    assert (found.turns, found.unpriced_turns) == (2, 1)
    assert found.cost_usd is not None
    assert found.output_tokens == 50


def test_a_compaction_is_counted_by_the_clients_total(tmp_path: Path) -> None:
    summary = claude_prompt("Summary of it all", 3, isCompactSummary=True)
    lines = [claude_prompt("go"), claude_answer("msg_1", at=2), summary]
    path = build.write_claude(tmp_path, lines)
    assert total(tmp_path).unpriced_turns == 1
    with path.open("ab") as file:
        file.write(build.as_lines([cost_state(inputTokens=53, outputTokens=173)]))
    for _ in range(2):
        found = total(tmp_path)
        assert (found.turns, found.unpriced_turns, found.output_tokens) == (2, 0, 173)
        with build.open_home(tmp_path) as store:
            rebuild(store, workers=1)


def test_a_compaction_after_the_last_total_is_not_in_it(tmp_path: Path) -> None:
    summary = claude_prompt("Summary of it all", 3, isCompactSummary=True)
    lines = [claude_prompt("go"), claude_answer("msg_1", at=2), cost_state(), summary]
    build.write_claude(tmp_path, lines)
    assert total(tmp_path).unpriced_turns == 1


def test_a_compaction_that_a_fork_copied_is_counted_once(tmp_path: Path) -> None:
    fork = "00000000-bbbb-4bbb-8bbb-222222222222"
    summary = claude_prompt("Summary of it all", 3, isCompactSummary=True)
    lines = [claude_prompt("go"), claude_answer("msg_1", at=2), summary]
    build.write_claude(tmp_path, lines)
    build.write_claude(tmp_path, [line | {"sessionId": fork} for line in lines], name=fork)
    found = total(tmp_path)
    assert (found.turns, found.unpriced_turns) == (2, 1)


def test_a_total_that_is_read_later_settles_the_turns_of_sub_agents_too(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, [claude_answer("msg_1")])
    build.write_agent(path, [claude_answer("msg_2", usage=claude_usage(output=1), stop=None)])
    used = {"inputTokens": 20, "outputTokens": 130, "cacheReadInputTokens": 8000}
    used["cacheCreationInputTokens"] = 600
    state = {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {"claude-opus-4-6": used},
    }
    assert total(tmp_path).partial_turns == 1
    with path.open("ab") as file:
        file.write(build.as_lines([state]))
    found = total(tmp_path)
    assert (found.turns, found.output_tokens, found.partial_turns) == (2, 130, 0)


def test_a_total_that_a_fork_inherits_is_not_added_again(tmp_path: Path) -> None:
    fork = "00000000-bbbb-4bbb-8bbb-222222222222"
    used = {"inputTokens": 30 + 5, "outputTokens": 150 + 7, "cacheReadInputTokens": 12_000}
    used["cacheCreationInputTokens"] = 900
    state = {
        "type": "cost-state",
        "sessionId": build.CLAUDE_SESSION,
        "modelUsage": {"claude-opus-4-6": used},
    }
    build.write_claude(tmp_path, [*build.claude_session(), state])
    copied = [line | {"sessionId": fork} for line in [*build.claude_session(), state]]
    build.write_claude(tmp_path, copied, name=fork)
    assert total(tmp_path).output_tokens == 157


def test_the_title_is_the_first_thing_a_person_said(tmp_path: Path) -> None:
    lines = [
        claude_prompt("<command-name>/clear</command-name>"),
        claude_prompt("Caveat", isMeta=True),
        claude_prompt("Make the\n  invoice round", at=1),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert store.query("select title from session") == [("Make the invoice round",)]


def test_record_types_of_later_clients_are_passed_over(tmp_path: Path) -> None:
    news = [{"type": "something-new", "payload": [1, 2]}, claude_line("mode", 1, mode="x")]
    build.write_claude(tmp_path, [*news, *build.claude_session()])
    with build.open_home(tmp_path) as store:
        (claude, *_) = build.import_home(store, tmp_path)
        assert claude.unreadable == 0


def test_several_config_folders_are_read(tmp_path: Path) -> None:
    from relight.intake.importing import import_all

    other = "22222222-aaaa-4aaa-8aaa-222222222222"
    build.write_claude(tmp_path / "one", build.claude_session())
    lines = [claude_answer("msg_7", sessionId=other)]
    build.write_claude(tmp_path / "two", lines, name=other)
    folders = f"{tmp_path / 'one' / '.claude'}, {tmp_path / 'two' / '.claude'}"
    with build.open_home(tmp_path) as store:
        environment = {"CLAUDE_CONFIG_DIR": folders, "HOME": "/nowhere"}
        found = import_all(store, environment=environment).sources
        assert found[0].sessions_new == 2
