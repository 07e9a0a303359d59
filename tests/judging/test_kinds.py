"""What tools mean in every agent, and the kind of work a session full of them is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_messages import act, coding_session, merge_calls, service_session, user
from relight.judging.kinds import WorkKind, classify_calls, classify_session, find_meaning

CODING = WorkKind("code", "coding")
COMMANDS = ["ls -la", "cat src/app.py", "sed -i s/a/b/ src/app.py", "pytest -q", "git diff"]

# The same work under each agent's own names: read a file, change it, look for text, run a command,
# look something up in the web, plan.
AGENTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "hermes": [
        ("read_file", {"path": "src/app.py"}),
        ("patch", {"path": "src/app.py", "old_string": "a", "new_string": "b"}),
        ("search_files", {"pattern": "total"}),
        ("terminal", {"command": "pytest -q"}),
        ("web_extract", {"urls": ["https://example.org"]}),
        ("todo", {"todos": []}),
    ],
    "claude-code": [
        ("Read", {"file_path": "src/app.py"}),
        ("Edit", {"file_path": "src/app.py", "old_string": "a", "new_string": "b"}),
        ("Grep", {"pattern": "total"}),
        ("Bash", {"command": "pytest -q"}),
        ("WebFetch", {"url": "https://example.org", "prompt": "?"}),
        ("TodoWrite", {"todos": []}),
    ],
    "codex": [
        ("shell", {"command": ["bash", "-lc", "cat src/app.py"]}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/app.py\n"}),
        ("exec_command", {"cmd": "rg total"}),
        ("exec_command", {"cmd": "pytest -q"}),
        ("web_search", {"query": "pytest"}),
        ("update_plan", {"plan": []}),
    ],
    "gemini": [
        ("read_file", {"absolute_path": "/src/app.py"}),
        ("replace", {"file_path": "src/app.py", "old_string": "a", "new_string": "b"}),
        ("search_file_content", {"pattern": "total"}),
        ("run_shell_command", {"command": "pytest -q"}),
        ("google_web_search", {"query": "pytest"}),
        ("think", {"thought": "x"}),
    ],
    "opencode": [
        ("read", {"filePath": "src/app.py"}),
        ("edit", {"filePath": "src/app.py", "oldString": "a", "newString": "b"}),
        ("grep", {"pattern": "total"}),
        ("bash", {"command": "pytest -q"}),
        ("webfetch", {"url": "https://example.org"}),
        ("todowrite", {"todos": []}),
    ],
    "openhands": [
        ("str_replace_editor", {"command": "view", "path": "/src/app.py"}),
        ("str_replace_editor", {"command": "str_replace", "path": "/src/app.py", "old_str": "a"}),
        ("execute_bash", {"command": "grep -rn total ."}),
        ("execute_ipython_cell", {"code": "import pytest; pytest.main()"}),
        ("browser", {"code": "goto('https://example.org')"}),
        ("think", {"thought": "x"}),
    ],
    "swe-agent": [
        ("open", {"path": "src/app.py"}),
        ("edit", {"search": "a", "replace": "b"}),
        ("search_dir", {"search_term": "total"}),
        ("bash", {"command": "pytest -q"}),
        ("fetch", {"url": "https://example.org"}),
        ("submit", {}),
    ],
    "cursor": [
        ("read_file", {"target_file": "src/app.py"}),
        ("edit_file", {"target_file": "src/app.py", "code_edit": "b"}),
        ("codebase_search", {"query": "total"}),
        ("run_terminal_cmd", {"command": "pytest -q"}),
        ("web_search", {"search_term": "pytest"}),
        ("todo_write", {"todos": []}),
    ],
    "mcp": [
        ("mcp__filesystem__read_text_file", {"path": "src/app.py"}),
        ("mcp__filesystem__edit_file", {"path": "src/app.py", "edits": []}),
        ("mcp__filesystem__search_files", {"pattern": "total", "path": "."}),
        ("mcp__box__run", {"command": "pytest -q"}),
        ("mcp__playwright__browser_navigate", {"url": "https://example.org"}),
        ("mcp__thinking__think", {}),
    ],
    "unknown": [
        ("zig", {"file": "src/app.py"}),
        ("zag", {"file": "src/app.py", "new_text": "b"}),
        ("zog", {"command": "grep -rn total ."}),
        ("zug", {"cmd": "pytest -q"}),
        ("zing", {"url": "https://example.org"}),
        ("think", {}),
    ],
}


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_work_means_the_same_in_every_agent(agent: str) -> None:
    meanings = [find_meaning(tool, arguments) for tool, arguments in AGENTS[agent]]
    assert meanings == ["read", "write", "read", "run", "web", "plan"]
    as_json = [find_meaning(tool, json.dumps(arguments)) for tool, arguments in AGENTS[agent]]
    assert as_json == meanings


@pytest.mark.parametrize("agent", AGENTS)
@given(places=st.lists(st.integers(0, 5), max_size=12))
def test_a_session_has_the_same_category_in_every_agent(agent: str, places: list[int]) -> None:
    kinds = {classify_calls(AGENTS[name][at] for at in places) for name in (agent, "hermes")}
    assert len({kind.category for kind in kinds}) == 1


# Arguments, and the names of tools that take such.
NAMES: list[tuple[dict[str, Any], list[str]]] = [
    ({"path": "src/app.py"}, ["read_file", "Read", "view", "open", "mcp__fs__read_file", "zig"]),
    (
        {"path": "src/app.py", "content": "x"},
        ["write_file", "Write", "create", "mcp__fs__w", "zag"],
    ),
    (
        {"command": "cat notes.md | wc -l"},
        ["bash", "Bash", "terminal", "shell", "exec", "run", "zug"],
    ),
    ({"query": "pytest"}, ["web_search", "WebSearch", "google_web_search", "mcp__exa__search"]),
    ({"order_id": "#W1"}, ["get_order", "getOrder", "mcp__shop__get_order", "shop.get_order"]),
    ({"order_id": "#W1", "status": "x"}, ["update_order", "UpdateOrder", "mcp__shop__set_order"]),
]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=12))
def test_renaming_tools_does_not_change_the_kind_of_a_session(
    places: list[tuple[int, int]],
) -> None:
    calls = [(NAMES[at][1], name, NAMES[at][0]) for at, name in places]
    renamed = classify_calls((names[name % len(names)], fields) for names, name, fields in calls)
    assert renamed == classify_calls((names[0], fields) for names, _, fields in calls)


@pytest.mark.parametrize("tool", ["bash", "Bash", "terminal", "shell", "mcp__box__bash", "cmd_run"])
def test_a_bash_only_session_is_coding_whatever_its_tool_is_called(tool: str) -> None:
    assert classify_calls((tool, {"command": line}) for line in COMMANDS) == CODING
    assert classify_session(coding_session(1)) == CODING


@pytest.mark.parametrize(
    ("tool", "meaning"),
    [
        ("get_order_details", "lookup"),
        ("find_user_id_by_email", "lookup"),
        ("list_all_product_types", "lookup"),
        ("search_direct_flight", "lookup"),
        ("exchange_delivered_order_items", "update"),
        ("modify_pending_order_items", "update"),
        ("cancel_reservation", "update"),
        ("book_reservation", "update"),
        ("toggle_airplane_mode", "update"),
        ("send_certificate", "comm"),
        ("transfer_to_human_agents", "comm"),
        ("think", "plan"),
        ("calculate", "plan"),
        ("skill_view", "plan"),
        ("save_memory", "plan"),
        ("delegate_task", "plan"),
        ("mcp__github__create_pull_request", "vcs"),
        ("mcp__github__create_issue", "update"),
        ("mcp__gitlab__add_issue_comment", "update"),
        ("mcp__github__list_issues", "lookup"),
        ("mcp__slack__post_message", "comm"),
        ("mcp__linear__list_issues", "lookup"),
        ("cronjob", "ops"),
        ("frobnicate", "other"),
        ("", "other"),
        ("authenticate_user", "lookup"),
        ("increment_counter", "update"),
        ("write_todos", "plan"),
        ("browser.open", "web"),
        ("browser.find", "web"),
        ("shop.orders.get_order", "lookup"),
        ("functions.open", "read"),
        ("ha_call_service", "update"),
        ("text_to_speech", "comm"),
    ],
)
def test_a_tool_is_understood_by_the_words_in_its_name(tool: str, meaning: str) -> None:
    assert find_meaning(tool, {"some_id": "7"}) == meaning


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("cat > a.py <<'EOF'\nrm -rf /\nEOF", "write"),
        ("sed -n 1,20p a.py | head", "read"),
        ("cd /x && sed -i s/a/b/ a.py", "write"),
        ("git add -A && git commit -m x", "vcs"),
        ("apt-get install -y nginx && systemctl restart nginx", "ops"),
        ("curl -s https://example.org | jq .", "web"),
        ("curl localhost:8000/health", "run"),
        ("timeout 60 python solve.py", "run"),
        ("./configure && make", "run"),
        ("cd /x; echo hi", "shell"),
        ("submit", "plan"),
    ],
)
def test_a_command_means_what_its_programs_do(command: str, meaning: str) -> None:
    assert find_meaning("bash", {"command": command}) == meaning


def test_keystrokes_and_raw_lines_are_commands_too() -> None:
    typed = {"commands": [{"keystrokes": "make\n", "duration": 1.0}]}
    assert find_meaning("terminal", typed) == "run"
    assert find_meaning("bash", "grep -rn x .") == "read"


def test_sql_is_judged_by_what_it_asks() -> None:
    assert find_meaning("execute", {"sql": "select * from orders"}) == "lookup"
    assert find_meaning("execute", {"sql": "delete from orders"}) == "update"


@pytest.mark.parametrize("number", range(5))
def test_service_sessions_are_research_or_ops(number: int) -> None:
    kind = classify_session(service_session(number)[0])
    assert kind.task_type == "research"
    assert kind.category in ("research", "ops")


def test_a_session_without_tools_is_mixed_and_general() -> None:
    nothing = WorkKind("mixed", "general")
    assert classify_session([user("Hi")]) == nothing
    assert classify_calls([("think", {}), ("todo", {})]) == nothing


@pytest.mark.parametrize(
    ("reads", "searches", "task_type"),
    [(7, 3, "file"), (6, 4, "mixed"), (4, 6, "mixed"), (3, 7, "research")],
)
def test_a_task_type_must_have_more_than_60_percent(
    reads: int, searches: int, task_type: str
) -> None:
    calls = [("read_file", {"path": "a.txt"})] * reads + [("web_search", {"query": "x"})] * searches
    assert classify_calls(calls).task_type == task_type


@pytest.mark.parametrize(("known", "category"), [(5, "research"), (4, "general")])
def test_a_category_must_have_more_than_40_percent(known: int, category: str) -> None:
    calls = [("web_search", {"query": "x"})] * known + [("frobnicate", {})] * (10 - known)
    assert classify_calls(calls).category == category


def test_work_on_source_files_is_code_once_something_is_run() -> None:
    files = [("Read", {"file_path": "src/app.py"}), ("Edit", {"file_path": "src/app.py"})]
    assert classify_calls(files).task_type == "file"
    assert classify_calls([*files, ("Bash", {"command": "pytest"})]).task_type == "code"
    papers = [("Read", {"file_path": "notes.md"})] * 2
    assert classify_calls([*papers, ("Bash", {"command": "make"})]).task_type == "file"


def test_a_repair_with_open_edit_and_scroll_is_coding() -> None:
    lines = ["open src/Foo.java 12", "scroll_down", "edit 12:14\nreturn x;\nend_of_edit", "ls"]
    assert classify_calls(("run", {"command": line}) for line in lines) == CODING
    tools = [("open", {"path": "Foo.java"}), ("scroll_down", {}), ("edit", {"path": "Foo.java"})]
    assert classify_calls([*tools, ("bash", {"command": "mvn test"})]) == CODING


def test_keeping_the_issues_of_a_code_server_is_ops() -> None:
    call = ("mcp__github__create_issue", {"owner": "oven", "repo": "bread", "title": "Too dark"})
    assert classify_calls([call]).category == "ops"


def test_keeping_servers_is_ops() -> None:
    lines = ["apt-get update", "systemctl restart nginx", "docker ps", "cat /etc/nginx.conf"]
    assert classify_calls(("bash", {"command": line}) for line in lines) == WorkKind("code", "ops")


def test_parallel_calls_count_one_by_one() -> None:
    messages = coding_session(2)
    assert classify_session(merge_calls(messages, 4)) == classify_session(messages)
    assert classify_session(act("a", "Bash", "", command="make")) == CODING
