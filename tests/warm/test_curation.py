"""Few and good: what is the same is kept once, what is weaker makes no stronger one go."""

import json
from pathlib import Path
from typing import Any

import pytest

import build_warm
from relight.errors import RelightError
from relight.names import slug
from relight.store import Store
from relight.warm.capture import capture_template
from relight.warm.curation import take_into_use
from relight.warm.library import Template, find_template, read_templates, retire_template
from relight.warm.naming import propose_name
from relight.warm.sharing import export_template, import_template, read_template_file

TASK = "Fix the rounding in the invoices module"
INSTRUCTIONS = """
You are a software engineer who works in a shell. Your task is to change source files in the
current directory so that the issue above is resolved in a way that is general and consistent with
the code. Issue one command, see its result, think, then issue the next. Recommended steps: analyse
the code by finding and reading relevant files; write a script that reproduces the issue; edit the
source; verify that the fix works by running the script again; test edge cases; then submit.
"""
ISSUES = (
    "separability matrix of nested compound models is wrong",
    "reading a table of fixed width loses its header",
    "units of a cutout are dropped when it is resampled",
    "the time axis is shifted by one leap second",
    "masked columns cannot be joined by an index",
    "coordinates turn to the wrong frame near the pole",
)
ROUTINE = [
    ("ls", "-la"),
    ("git", "status"),
    ("git", "log"),
    ("find", "src"),
    ("cat", "setup.py"),
    ("grep", "-rn TODO src"),
    ("python", "repro.py"),
    ("python", "-m pytest -q"),
    ("git", "diff"),
    ("rm", "repro.py"),
    ("git", "add -A"),
    ("git", "commit -m done"),
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build_warm.open_warm(tmp_path, hold_out=0.0, live=0) as opened:
        yield opened


def routine(task: str) -> list[Any]:
    """A session that does what all do, in a shell."""
    messages = build_warm.session(task)
    asked = [one for one in messages if one.get("tool_calls")]
    for message, (program, rest) in zip(asked, ROUTINE, strict=True):
        arguments = json.dumps({"command": f"{program} {rest}"})
        message["tool_calls"][0]["function"]["arguments"] = arguments
    return messages


def capture(store: Store, task: str, **facts: Any) -> Template:
    told = {"outcome": "success", "messages": routine(task), "project": "/a", **facts}
    return capture_template(store, "told:1", **told)


def test_tasks_with_the_same_instructions_around_them_are_different_tasks(store: Store) -> None:
    for issue in ISSUES:
        capture(store, f"{issue}\n{INSTRUCTIONS}")
    assert len(read_templates(store)) == len(ISSUES)


@pytest.mark.parametrize("others", [0, len(ISSUES) - 1])
def test_a_run_of_the_same_task_is_the_same_template_again(store: Store, others: int) -> None:
    """Whatever number the run has; and whether or not the store knows what is common."""
    issue, *rest = ISSUES
    capture(store, f"Run 1 of 2026-11-10\n{issue}\n{INSTRUCTIONS}", name="first")
    for other in rest[:others]:
        capture(store, f"{other}\n{INSTRUCTIONS}")
    with pytest.raises(RelightError, match="nearly the same as first"):
        capture(store, f"Run 2 of 2026-11-12\n{issue}\n{INSTRUCTIONS}", name="second")


def test_a_forced_near_duplicate_is_kept_and_its_record_says_so(store: Store) -> None:
    capture(store, TASK, name="first")
    made = capture(store, f"{TASK}!", name="second", force=True)
    assert ["nearly the same as first" in one for one in made.overruled] == [True]
    assert find_template(store, "second").overruled == made.overruled
    with pytest.raises(RelightError, match="has the same content"):
        capture(store, TASK, name="third", force=True)


def test_each_refusal_of_a_near_duplicate_names_ways_that_exist(
    store: Store, tmp_path: Path
) -> None:
    capture(store, TASK, name="first", project=None)
    made = capture(store, f"{TASK}!", name="second", project=None, force=True)
    path = export_template(made, tmp_path / "out")
    retire_template(store, "second", why="a test")
    with pytest.raises(RelightError, match="nearly the same as first") as asked:
        capture(store, f"{TASK}!", name="third", project=None)
    assert "the name first makes it a new version" in str(asked.value.hint)
    assert "`relight template create --force`, in Python `force=True`" in str(asked.value.hint)
    with pytest.raises(RelightError, match="nearly the same as first") as asked:
        take_into_use(store, find_template(store, "second"))
    assert asked.value.hint == "retire that one first: relight template retire first"
    foreign = read_template_file(store, path, name="foreign")
    with pytest.raises(RelightError, match="nearly the same as first") as asked:
        import_template(store, foreign)
    assert "`relight template import --force`, in Python `force=True`" in str(asked.value.hint)
    assert "--name" not in str(asked.value.hint)
    added = import_template(store, foreign, force=True)
    assert ["nearly the same as first" in one for one in added.overruled] == [True]
    assert find_template(store, "foreign").state == "live"


def test_the_same_may_be_kept_in_another_project(store: Store) -> None:
    capture(store, TASK, name="first")
    capture(store, TASK, name="second", project="/b")
    capture(store, TASK, project="/c")
    assert len(read_templates(store)) == 3
    with pytest.raises(RelightError, match="second has the same content"):
        capture(store, TASK, name="fourth", project="/b")


def fill(store: Store, outcomes: str) -> list[str]:
    """Templates of one category by the first letters of their outcomes; gives their names."""
    names = []
    for number, letter in enumerate(outcomes):
        outcome = {"s": "success", "u": "unknown", "f": "failure"}[letter]
        tools = [f"{word}{number}" for word in build_warm.TOOLS]
        topic = f"topic{number} " + " ".join(f"word{number}x{n}" for n in range(5))
        facts = {"outcome": outcome, "force": True, "now": 1000 + number}
        names.append(build_warm.capture(store, topic, tools, name=f"t{number}", **facts).name)
    return names


def live(store: Store) -> list[str]:
    return [one.name for one in read_templates(store, with_retired=False)]


@pytest.mark.parametrize(
    ("outcomes", "gone"), [("sus", "t1"), ("ufu", "t1"), ("ssf", "t2"), ("sss", "t0")]
)
def test_the_one_with_the_least_to_show_makes_room(
    tmp_path: Path, outcomes: str, gone: str
) -> None:
    with build_warm.open_warm(tmp_path, live=3) as store:
        names = fill(store, outcomes)
        build_warm.capture(store, TASK, name="new", now=2000)
        assert sorted([*live(store), gone]) == sorted([*names, "new"])


def test_a_failure_that_is_forced_in_says_that_it_is_the_weakest(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, live=3) as store:
        fill(store, "sss")
        made = build_warm.capture(store, TASK, outcome="failure", force=True, name="new")
        assert "new" in live(store)
    assert made.overruled[-1] == (
        "coding has its 3 templates in use, and it is the weakest:"
        " its outcome is failure, that of t0 is success"
    )


def test_no_success_goes_for_a_failure_that_nobody_forces(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, live=3) as store:
        made = build_warm.capture(store, TASK, outcome="failure", force=True, name="poor")
        retire_template(store, "poor", why="a test")
        names = fill(store, "sss")
        with pytest.raises(RelightError, match="it is the weakest: its outcome is failure"):
            take_into_use(store, find_template(store, "poor"))
        foreign = read_template_file(store, export_template(made, tmp_path / "out"), name="foreign")
        with pytest.raises(RelightError, match="it is the weakest"):
            import_template(store, foreign)
        assert live(store) == names


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (TASK, slug(TASK)),
        (
            "Hi, my name is Yusuf and my zip is 19122. I want to exchange a lamp",
            "zip-exchange-lamp",
        ),
        ("Hello there! I'm Mia Garcia. Return it.", "return-it"),
        ("Fix the rounding of the totals in the invoices", "fix-rounding-totals-invoices"),
        (
            "Now add a CSV export to the customers report",
            "add-a-csv-export-to-the-customers-report",
        ),
        ("I'd like to change my upcoming flight", "change-my-upcoming-flight"),
        ("my name is yusuf", "coding-shop"),
        ("请修复发票", "coding-shop"),
        ("", "coding-shop"),
    ],
)
def test_a_name_is_made_of_what_is_asked_and_not_of_who_asks(
    store: Store, task: str, name: str
) -> None:
    assert propose_name(store, task, category="coding", project="/srv/shop") == name


def test_a_name_begins_with_what_is_to_be_done_however_usual_that_is(store: Store) -> None:
    for number, thing in enumerate(("a discount", "the stock report", "an address book")):
        build_warm.capture(store, f"Add {thing} to the shop", name=f"t{number}")
    task = "Add a nullable `note` column (500 characters) to dunning, with a migration beside it"
    name = propose_name(store, task, category="coding", project=None)
    assert name == "add-nullable-note-column-characters"


@pytest.mark.parametrize(
    ("lead_in", "name"),
    [
        (
            "<pr_description>\nConsider the following PR description:\n",
            "units-cutout-dropped-resampled",
        ),
        ("<task>\n", "units-cutout-dropped-resampled"),
        ("Solve this issue:\r\n\r\n", "units-cutout-dropped-resampled"),
        ("", "units-cutout-dropped-resampled"),
        ("Fix the reader:\n", "fix-reader-units-cutout-dropped"),
    ],
)
def test_the_first_template_of_a_harness_is_not_named_after_its_lead_in(
    store: Store, lead_in: str, name: str
) -> None:
    assert capture(store, f"{lead_in}{ISSUES[2]}\n{INSTRUCTIONS}").name == name


def test_a_name_is_made_of_the_words_that_distinguish_a_task(store: Store) -> None:
    names = [capture(store, f"Consider this:\n{one}\n{INSTRUCTIONS}").name for one in ISSUES]
    assert names[2:] == [
        "units-cutout-dropped-resampled",
        "time-axis-shifted-leap-second",
        "masked-columns-cannot-joined-index",
        "coordinates-turn-frame-near-pole",
    ]
