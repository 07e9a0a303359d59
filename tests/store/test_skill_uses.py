"""From what agents leave on disk to rows in `skill_invocations`."""

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import build
import build_jobs
import build_skills
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget, prune
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.reports.skills.uses import record_skill_invocation
from relight.reports.totals import report
from relight.sources.claude_code.skills import BUILT_IN
from relight.store import Store
from relight.store.derive.skills import charges
from relight.work.jobs.registry import add_jobs, find_job
from relight.work.jobs.slots import finish, start_now

CHAT = "20261115_000000_abc123"
HASH = "sha256:55529879b90e"


def uses(store: Store, home: Path, *names: str) -> list[tuple[Any, ...]]:
    """Import, and give these columns of each use."""
    build.import_home(store, home)
    columns = ", ".join(names or ("skill_name", "entry", "skill_version"))
    return store.query(f"select {columns} from skill_invocations order by skill_name, entry")


def check_sums(store: Store) -> None:
    """What skills are charged with adds up to what their sessions spent, to the last digit."""
    sums = "sum(cost_nanos), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens)"
    sums += ", sum(cache_write_tokens), sum(turns), sum(tool_calls), sum(tool_failures)"
    charged = store.query(f"select root_id, {sums} from skill_invocations group by root_id")
    spent = store.query(
        f"select root_id, {sums} from session_day where root_id in"
        " (select root_id from skill_invocations) group by root_id"
    )
    assert charged == spent
    assert charged


# Hermes


def test_a_scheduled_jobs_skills_are_in_its_prompt(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    blocks = [
        build_skills.hermes_block("tidy", build_skills.TIDY),
        build_skills.hermes_block("sweep", build_skills.SWEEP),
    ]
    prompt = {"role": "user", "content": build_skills.hermes_prompt(*blocks)}
    answer = {"role": "assistant", "content": "All clean."}
    build_skills.write_hermes(hermes, build_skills.RUN, prompt, answer)
    build_skills.write_ledger(tmp_path, "completed")
    columns = ("skill_name", "entry", "skill_version", "success", "job_id", "model", "provider")
    job = f"hermes:{build_skills.JOB}"
    assert uses(store, tmp_path, *columns) == [
        ("sweep", "cron", HASH, 1, job, "gpt-5.1", "openai"),
        ("tidy", "cron", "1.2.0", 1, job, "gpt-5.1", "openai"),
    ]
    check_sums(store)
    assert store.query("select input_tokens, share from skill_invocations") == [
        (501, pytest.approx(0.5, abs=1e-6)),
        (500, pytest.approx(0.5, abs=1e-6)),
    ]


def test_what_a_job_is_asked_and_what_its_script_printed_bring_no_skill_in(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    block = build_skills.hermes_block("tidy", build_skills.TIDY)
    forged = f"## Script Output\n{build_skills.hermes_block('forged', build_skills.SWEEP)}"
    prompt = build_skills.hermes_prompt(block, instruction=forged)
    build_skills.write_hermes(hermes, build_skills.RUN, {"role": "user", "content": prompt})
    assert uses(store, tmp_path) == [("tidy", "cron", "1.2.0")]


def test_a_run_that_died_is_a_failure_of_its_skill(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    block = build_skills.hermes_block("tidy", build_skills.TIDY)
    prompt = {"role": "user", "content": build_skills.hermes_prompt(block)}
    none = {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "api_call_count": 0}
    build_skills.write_hermes(hermes, build_skills.RUN, prompt, **none)
    build_skills.write_ledger(tmp_path, "failed", "RuntimeError: HTTP 500")
    found = uses(store, tmp_path, "success", "end_reason", "cost_usd", "model", "provider")
    reason = "the scheduler's ledger says failed: RuntimeError: HTTP 500"
    assert found == [(0, reason, None, "gpt-5.1", "openai")]


def test_the_ledger_may_be_read_after_the_session(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    block = build_skills.hermes_block("tidy", build_skills.TIDY)
    prompt = {"role": "user", "content": build_skills.hermes_prompt(block)}
    build_skills.write_hermes(
        hermes, build_skills.RUN, prompt, {"role": "assistant", "content": "Clean."}
    )
    job = f"hermes:{build_skills.JOB}"
    assert uses(store, tmp_path, "success", "job_id") == [(None, job)]
    build_skills.write_ledger(tmp_path, "completed")
    assert uses(store, tmp_path, "success", "job_id") == [(1, job)]


def test_a_skill_the_agent_looks_up_is_charged_from_there(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    build_skills.write_hermes(
        hermes,
        CHAT,
        {"role": "user", "content": "Clean the house"},
        *build_skills.hermes_viewed("tidy", build_skills.TIDY),
        build_skills.hermes_call("terminal", "call_2", command="ls"),
        build_skills.hermes_result("terminal", {"output": "", "exit_code": 0}, "call_2"),
        *build_skills.hermes_viewed("sweep", build_skills.SWEEP, "call_3"),
        {"role": "assistant", "content": "Done."},
    )
    # two moments of work (a command, the look-up of the next) against the last answer
    assert uses(store, tmp_path, "skill_name", "entry", "skill_version", "output_tokens") == [
        ("sweep", "tool", HASH, 23),
        ("tidy", "tool", "1.2.0", 45),
    ]
    check_sums(store)


@pytest.mark.parametrize(
    "result", [{"success": False, "error": "Skill 'tidy' not found."}, {"success": True}]
)
def test_a_look_up_counts_only_if_it_found_a_skill(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection, result: dict[str, Any]
) -> None:
    arguments = {} if result["success"] else {"name": "tidy"}
    call = build_skills.hermes_call("skill_view", **arguments)
    result_row = build_skills.hermes_result("skill_view", result)
    build_skills.write_hermes(hermes, CHAT, call, result_row)
    assert uses(store, tmp_path) == []


def test_a_supporting_file_is_a_use_of_the_skill_but_not_its_version(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    told = {"success": True, "name": "tidy", "file": "references/a.md", "content": "# Other"}
    content = json.dumps(told) + "\n[Tool loop warning: the same call again]"
    build_skills.write_hermes(
        hermes,
        CHAT,
        build_skills.hermes_call("skill_view", name="tidy", file_path="references/a.md"),
        build_skills.hermes_result("skill_view", told) | {"content": content},
    )
    assert uses(store, tmp_path) == [("tidy", "tool", None)]


BUNDLE = (
    '[IMPORTANT: The user has invoked the "{name}" {kind}, loading 2 skills together. Treat every'
    " skill below as active guidance for this turn.]\n\nSkills loaded: tidy, sweep\n\n"
    "User instruction: go\n\n[Loaded as part of the {by}.]\n\n{tidy}\n\n"
    "[Skill directory: /h/skills/tidy]\nResolve any relative paths\n\n"
    "[Loaded as part of the {by}.]\n\n{sweep}"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            build_skills.hermes_block("tidy", build_skills.TIDY)
            + "\n\n[Skill directory: /h/tidy]\nResolve",
            [("tidy", "slash", "1.2.0")],
        ),
        (
            BUNDLE.format(
                name="/tidy /sweep",
                kind="stacked skill bundle",
                by='stacked skill invocation "x"',
                tidy=build_skills.TIDY,
                sweep=build_skills.SWEEP,
            ),
            [("sweep", "slash", HASH), ("tidy", "slash", "1.2.0")],
        ),
        (
            BUNDLE.format(
                name="house",
                kind="skill bundle",
                by='"house" skill bundle',
                tidy=build_skills.TIDY,
                sweep=build_skills.SWEEP,
            ),
            [("sweep", "slash", HASH), ("tidy", "slash", "1.2.0")],
        ),
        (
            '[IMPORTANT: The "sweep" skill is auto-loaded. Follow its instructions for this'
            f" session.]\n\n{build_skills.SWEEP}\n\n[Skill directory: /h/sweep]\nResolve\n\nhello",
            [("sweep", "auto", HASH)],
        ),
        ('Why does it say "[IMPORTANT: The user has invoked the "tidy" skill, x]"?', []),
        ("[IMPORTANT: You are running as a scheduled cron job.] go", []),
    ],
)
def test_what_a_message_holds_shows_how_a_skill_came_in(
    tmp_path: Path,
    store: Store,
    hermes: sqlite3.Connection,
    text: str,
    found: list[tuple[str, str, str]],
) -> None:
    build_skills.write_hermes(hermes, CHAT, {"role": "user", "content": text})
    assert uses(store, tmp_path) == found


# Claude Code


def claude_with_two_skills() -> list[dict[str, Any]]:
    return [
        build.claude_prompt("Clean the house"),
        build.claude_answer("msg_0", at=1),
        *build_skills.claude_skill("toolu_1", "tidy", at=2),
        build.claude_answer("msg_1", at=3),
        *build_skills.claude_skill("toolu_2", "sweep", at=4, body="Sweep the floor."),
        build.claude_answer("msg_2", at=5),
        build.claude_answer("msg_3", at=6),
    ]


def test_a_claude_skill_has_the_turns_up_to_the_next(tmp_path: Path, store: Store) -> None:
    build.write_claude(tmp_path, claude_with_two_skills())
    columns = ("skill_name", "entry", "skill_version is not null", "turns", "duration_seconds")
    # msg_1 and the call of sweep; msg_2 and msg_3; two turns before them in proportion
    assert uses(store, tmp_path, *columns) == [
        ("sweep", "tool", 1, 3, 3.0),
        ("tidy", "tool", 1, 3, 3.0),
    ]
    check_sums(store)


def test_the_clients_own_attribution_comes_before_times(tmp_path: Path, store: Store) -> None:
    lines = claude_with_two_skills()
    for line in lines:
        message = line["message"]
        if message.get("id") in ("msg_1", "msg_toolu_2", "msg_2"):
            line["attributionSkill"] = "tidy"
        if message.get("id") == "msg_3":
            line["attributionSkill"] = "sweep"
    build.write_claude(tmp_path, lines)
    # three turns and one; of the two without a skill, three quarters and one quarter
    assert uses(store, tmp_path, "skill_name", "turns") == [("sweep", 1), ("tidy", 5)]
    check_sums(store)


def test_a_sub_agents_turns_count_for_the_skill_it_was_started_under(
    tmp_path: Path, store: Store
) -> None:
    path = build.write_claude(tmp_path, claude_with_two_skills())
    agent = path.parent / build.CLAUDE_SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    fields: dict[str, Any] = {"agentId": "a1", "isSidechain": True, "model": "claude-haiku-4-5"}
    answers = [build.claude_answer(f"m_{at}", at=at, **fields) for at in (3.1, 3.2, 3.3, 3.4)]
    agent.write_bytes(build.as_lines(answers))
    assert uses(store, tmp_path, "skill_name", "turns", "model") == [
        ("sweep", 2, "claude-opus-4-6"),
        ("tidy", 8, "claude-opus-4-6"),
    ]
    check_sums(store)


def test_a_skill_that_could_not_be_loaded_is_not_used(tmp_path: Path, store: Store) -> None:
    lines = build_skills.claude_skill("toolu_1", "nothing", at=2, is_error=True)
    build.write_claude(tmp_path, [build.claude_prompt("go"), *lines])
    assert uses(store, tmp_path) == []


def test_the_same_text_is_the_same_version_wherever_it_lies(tmp_path: Path, store: Store) -> None:
    body = "# Sweep\nSweep the floor."
    lines = [
        *build_skills.claude_skill("toolu_1", "sweep", at=2, body=body),
        *build_skills.claude_command("sweep", at=3, body=f"{body}\n\nARGUMENTS: fast",
                                     arguments="fast"),
        build.claude_answer("msg_9", at=5),
    ]  # fmt: skip
    build.write_claude(tmp_path, [build.claude_prompt("go"), *lines])
    assert uses(store, tmp_path) == [("sweep", "slash", HASH), ("sweep", "tool", HASH)]


def test_arguments_inside_of_a_skills_text_leave_its_version_unknown(
    tmp_path: Path, store: Store
) -> None:
    lines = build_skills.claude_command("sweep", at=1, body="Sweep the hall.", arguments="hall")
    build.write_claude(tmp_path, [*lines, build.claude_answer("msg_1", at=2)])
    assert uses(store, tmp_path) == [("sweep", "slash", None)]


@pytest.mark.parametrize("command", ["clear", "compact", "model", "cost", "help", "review"])
def test_the_clients_own_commands_are_no_skills(tmp_path: Path, store: Store, command: str) -> None:
    assert command in BUILT_IN
    lines = build_skills.claude_command(command, at=1, body="Do as the client says.")
    build.write_claude(tmp_path, [*lines, build.claude_answer("msg_1", at=2)])
    assert uses(store, tmp_path) == []


def test_a_new_command_that_the_client_answers_by_itself_is_no_skill(
    tmp_path: Path, store: Store
) -> None:
    lines = build_skills.claude_command("just-invented", at=1, answer="Here you are.")
    build.write_claude(tmp_path, [*lines, build.claude_answer("msg_1", at=2)])
    assert uses(store, tmp_path) == []


def test_a_fork_does_not_use_a_skill_again(tmp_path: Path, store: Store) -> None:
    fork = "00000000-bbbb-4bbb-8bbb-222222222222"
    build.write_claude(tmp_path, claude_with_two_skills())
    before = uses(store, tmp_path, "session_id", "skill_name", "cost_nanos")
    copied = [line | {"sessionId": fork} for line in claude_with_two_skills()]
    own = build.claude_answer("msg_own", at=90, sessionId=fork)
    build.write_claude(tmp_path, [*copied, own], name=fork)
    assert uses(store, tmp_path, "session_id", "skill_name", "cost_nanos") == before


# Codex


def codex_session(*records: dict[str, Any]) -> list[dict[str, Any]]:
    context = build.codex_line("turn_context", 0.5, model="gpt-5.2-codex")
    return [build.codex_meta(), context, *records]


def test_a_codex_skill_that_a_person_named_is_in_a_message_of_its_own(
    tmp_path: Path, store: Store
) -> None:
    records = codex_session(
        build_skills.codex_message("$tidy and $sweep please", 1),
        build_skills.codex_skill("tidy", build_skills.TIDY, 1.1),
        build_skills.codex_skill("sweep", build_skills.SWEEP, 1.1),
        build_skills.codex_turn("r1", 2),
        build_skills.codex_turn("r2", 3),
    )
    build.write_codex(tmp_path, records)
    assert uses(store, tmp_path) == [("sweep", "slash", HASH), ("tidy", "slash", "1.2.0")]
    assert store.query("select turns, share from skill_invocations") == [(1, 0.5), (1, 0.5)]
    check_sums(store)


@pytest.mark.parametrize(
    ("command", "output", "found"),
    [
        ("cat ~/.codex/skills/tidy/SKILL.md", build_skills.TIDY, [("tidy", "tool", "1.2.0")]),
        (
            "sed -n '1,80p' /repo/.agents/skills/sweep/SKILL.md",
            json.dumps({"output": build_skills.SWEEP, "metadata": {"exit_code": 0}}),
            [("sweep", "tool", None)],
        ),
        (
            "cat ~/.codex/skills/tidy/SKILL.md && cat ~/.codex/skills/sweep/SKILL.md",
            f"{build_skills.TIDY}\n---\nDone.\n{build_skills.SWEEP}",
            [("sweep", "tool", None), ("tidy", "tool", "1.2.0")],
        ),
        (
            "cat ~/.codex/skills/gone/SKILL.md ~/.codex/skills/tidy/SKILL.md",
            f"cat: no such file\n{build_skills.TIDY}",
            [("tidy", "tool", "1.2.0")],
        ),
        (
            r"Get-Content C:\Users\dev\.codex\skills\tidy\SKILL.md",
            build_skills.TIDY.replace("name: tidy", "name: Tidy up"),
            [("tidy", "tool", "1.2.0")],
        ),
        ("cat ~/.codex/skills/tidy/SKILL.md", "cat: no such file", []),
        ("ls ~/.codex/skills/tidy/SKILL.md", "SKILL.md", []),
        ("cat README.md", build_skills.TIDY, []),
    ],
)
def test_a_codex_skill_that_the_agent_chose_is_read_from_its_file(
    tmp_path: Path, store: Store, command: str, output: str, found: list[tuple[str, str, str]]
) -> None:
    calls = build_skills.codex_shell(command, output, 2)
    build.write_codex(tmp_path, codex_session(*calls, build_skills.codex_turn("r1", 2.2)))
    assert uses(store, tmp_path) == found


# The store


def test_one_skill_added_up_by_sql_is_charged_like_one_of_several(
    tmp_path: Path, store: Store
) -> None:
    lines = [
        build.claude_prompt("go"),
        *build_skills.claude_skill("toolu_1", "tidy", at=2),
        build.claude_answer("msg_1", at=3, model="claude-haiku-4-5"),
        build.claude_answer("msg_2", at=4, model="no-price"),
    ]
    build.write_claude(tmp_path, [*lines, *build.claude_session()[1:]])
    build.import_home(store, tmp_path)
    ((root_id, *times),) = store.query("select id, started_at, ended_at from session")
    span = charges.Span(*times)
    with store.transaction() as database:
        entries = charges.read_skill_entries(database, root_id)
        (bill,) = charges.read_bills(database, root_id, entries, (), span)
        turns = list(charges._read_turns(database, charges.TURNS, root_id))
        (slow,) = charges._charge_several(database, root_id, entries, (), turns, span)
    for name in ("name", "entry", "version", "invoked_at", "completed_at", "weight", "amounts"):
        assert getattr(bill.charge, name) == getattr(slow, name)
    assert bill.charge.milliseconds == slow.milliseconds


@pytest.fixture
def filled(tmp_path: Path, store: Store, hermes: sqlite3.Connection) -> Store:
    """A store with skills of every source."""
    build.write_claude(tmp_path, claude_with_two_skills())
    build.write_codex(
        tmp_path,
        codex_session(
            build_skills.codex_skill("tidy", build_skills.TIDY, 1),
            build_skills.codex_turn("r1", 2),
        ),
    )
    build_skills.write_hermes(
        hermes,
        CHAT,
        *build_skills.hermes_viewed("sweep", build_skills.SWEEP),
        {"role": "assistant", "content": "Done."},
    )
    build.import_home(store, tmp_path)
    return store


def test_reading_again_and_rebuilding_give_the_same_uses(tmp_path: Path, filled: Store) -> None:
    before = build.dump(filled)
    assert len(before["skill_invocations"]) == 4
    build.import_home(filled, tmp_path)
    assert build.dump(filled) == before
    rebuild(filled)
    assert build.dump(filled) == before


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_file_read_in_two_halves_gives_the_same_uses(tmp_path: Path, cut: int) -> None:
    lines = claude_with_two_skills() + build_skills.claude_command("dust", at=7, body="Dust.")
    lines.append(build.claude_answer("msg_9", at=8))
    found = []
    for place, halves in (("whole", [lines]), ("halves", [lines[:cut], lines])):
        with build.open_home(tmp_path / place) as store:
            for half in halves:
                build.write_claude(tmp_path / place, half)
                build.import_home(store, tmp_path / place)
            found.append(build.dump(store)["skill_invocations"])
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_persons_word_on_a_session_is_its_skills_outcome(filled: Store) -> None:
    label_session(filled, find_session(filled, CHAT), "failure")
    rows = filled.query("select success from skill_invocations where session_id like 'hermes:%'")
    assert rows == [(0,)]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", [CHAT, f"hermes:{CHAT}"])
def test_what_is_recorded_of_a_sessions_skill_stands_before_what_is_derived(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection, name: str, is_first: bool
) -> None:
    build_skills.write_hermes(hermes, CHAT, *build_skills.hermes_viewed("tidy", build_skills.TIDY))
    told: dict[str, Any] = {"skill_name": "tidy", "entry": "tool", "invoked_at": 0, "success": True}
    if not is_first:
        build.import_home(store, tmp_path)
    record_skill_invocation(store, session_id=name, **told)
    rows = uses(store, tmp_path, "session_id", "success", "is_told", "root_id is null")
    assert rows == [(f"hermes:{CHAT}", 1, 1, 0)]
    record_skill_invocation(store, session_id=name, cost_usd=0.5, **told)
    rebuild(store)
    assert uses(store, tmp_path, "success", "cost_usd") == [(1, 0.5)]


def test_a_skill_in_an_earlier_attempt_is_the_same_jobs_and_has_its_own_outcome(
    tmp_path: Path, store: Store
) -> None:
    names = ["first", "second"]
    for name in names:
        lines = build_skills.claude_skill(f"toolu_{name}", "tidy", at=1)
        build.write_claude(tmp_path, [line | {"sessionId": name} for line in lines], name=name)
    build.import_home(store, tmp_path)
    add_jobs(store, [build_jobs.make_job("house")], now=build.START)
    run = start_now(store, find_job(store, "house"), "me", now=build.START)
    sessions = [f"claude-code:{name}" for name in names]
    result = replace(build_jobs.DONE, attempts=2, session=sessions[1], earlier=sessions[:1])
    finish(store, run.id, result, holder="me")
    assert build_skills.read(store, "session_id, job_id, success") == [
        ("claude-code:first", "house", None),
        ("claude-code:second", "house", 1),
    ]
    (by_skill,), (by_job,) = report(store, ("job", "skill")).rows, report(store, ("job",)).rows
    assert by_skill == replace(by_job, skill="tidy")


def test_a_forgotten_session_takes_its_uses_along(filled: Store) -> None:
    record_skill_invocation(filled, skill_name="told", invoked_at=0, session_id=CHAT)
    forget(filled, find_session(filled, CHAT))
    rows = filled.query("select 1 from skill_invocations where session_id like 'hermes:%'")
    assert rows == []


def test_a_pruned_index_takes_derived_uses_and_leaves_recorded_ones(filled: Store) -> None:
    record_skill_invocation(filled, skill_name="told", invoked_at=0, session_id=CHAT)
    now = build.START + 500 * 86_400_000
    prune(filled, now=now, tape_days=90, index_days=400, dry_run=False)
    assert filled.query("select skill_name from skill_invocations") == [("told",)]
    assert filled.query("select 1 from skill_entry") == []


def test_pruned_tapes_leave_uses_that_no_rebuild_touches(filled: Store) -> None:
    before = build.dump(filled)["skill_invocations"]
    now = build.START + 200 * 86_400_000
    prune(filled, now=now, tape_days=90, index_days=None, dry_run=False)
    rebuild(filled)
    assert build.dump(filled)["skill_invocations"] == before


def test_a_report_by_skill_adds_up_like_any_other(tmp_path: Path, filled: Store) -> None:
    build.write_claude(
        tmp_path,
        [line | {"sessionId": "plain"} for line in build.claude_session()[:1]]
        + [build.claude_answer("msg_p", sessionId="plain")],
        name="plain",
    )
    build.import_home(filled, tmp_path)
    found, by_day = report(filled, ("skill",)), report(filled, ("day",))
    assert [row.skill for row in found.rows] == ["sweep", "tidy", None]
    assert found.total == by_day.total
    for name in ("turns", "output_tokens", "tool_calls", "wall_seconds"):
        assert sum(getattr(row, name) or 0 for row in found.rows) == getattr(found.total, name)
    assert found.rows[2].sessions == 1
    weeks = report(filled, ("week", "skill", "session", "job"))
    assert sum(row.turns or 0 for row in weeks.rows) == found.total.turns


def test_a_recorded_use_without_a_session_is_in_the_report(store: Store) -> None:
    record_skill_invocation(store, skill_name="tidy", invoked_at=0, cost_usd=0.25)
    record_skill_invocation(store, skill_name="sweep", invoked_at=0)
    rows = {row.skill: row for row in report(store, ("skill", "session")).rows}
    assert (rows["tidy"].cost_usd, rows["tidy"].session) == (0.25, None)
    assert (rows["sweep"].cost_usd, rows["sweep"].unpriced_turns) == (None, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_runs_of_skills_are_those_of_their_uses_after_any_changes(
    store: Store, seed: int
) -> None:
    dice = random.Random(seed)
    columns = "use_id, skill_name, job_id, project, model, success, nanos, last_at"
    with store.transaction() as database:
        for key in range(4):
            database.execute(
                "insert into session (id, source, key, root_id, project)"
                " values (?, 'hermes', ?, ?, 'a')",
                (key, str(key), key),
            )
        for _ in range(150):
            root = dice.choice((None, 0, 1, 2, 3))
            use = {
                "id": dice.randrange(20),
                "session_id": dice.choice((None, "told")) if root is None else f"hermes:{root}",
                "root_id": root,
                "skill_name": dice.choice("xy"),
                "entry": dice.choice((None, "tool", "slash")),
                "job_id": dice.choice((None, "night")),
                "model": dice.choice((None, "m", "n")),
                "cost_nanos": dice.choice((None, 5, 7)),
                "cost_status": dice.choice(("partial", "estimated")),
                "success": dice.choice((None, 0, 1)),
                "invoked_at": dice.randrange(9),
            }
            same = (
                "session_id = :session_id and skill_name = :skill_name"
                " and coalesce(entry, '') = coalesce(:entry, '')"
            )
            match dice.randrange(4):
                case 0:
                    database.execute("delete from skill_invocations where id = :id", use)
                case 1:
                    values = (dice.choice((None, "a", "b")), dice.randrange(4))
                    database.execute("update session set project = ? where id = ?", values)
                case 2:
                    changes = ", ".join(f"{name} = :{name}" for name in use if name != "id")
                    database.execute(
                        f"update skill_invocations set {changes} where id = :id and not exists"
                        f" (select 1 from skill_invocations where {same})",
                        use,
                    )
                case _:
                    names, marks = ", ".join(use), ", ".join(f":{name}" for name in use)
                    database.execute(
                        f"insert into skill_invocations ({names}, day)"
                        f" values ({marks}, 'unknown') on conflict do nothing",
                        use,
                    )
            found, wanted = (
                database.execute(f"select {columns} from {table} order by use_id").fetchall()
                for table in ("skill_run", "skill_run_now")
            )
            assert found == wanted
    assert len(found) > 4
