"""The limits of the layout, so that rooms stay few, modules small, and SQL in one place."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from msgspec import Struct

from relight import config

SOURCE = Path(__file__).parents[1] / "src" / "relight"
MODULES = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
SQL = re.compile(
    r"\b(select\s.+?\sfrom|insert\s+(or\s+\w+\s+)?into|update\s+\w+\s+set|delete\s+from"
    r"|create\s+(temp\s+)?table|(alter|drop)\s+table|pragma\s+\w+)\s",
    re.IGNORECASE | re.DOTALL,
)
# other agents' databases
FOREIGN = "sources/"


def texts(tree: ast.Module) -> Iterator[str]:
    """Every text of a module that is not a docstring; a value in an f-string is an `x`."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "x" for one in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_there_are_twelve_rooms_and_few_modules_at_the_root() -> None:
    rooms = {name.split("/")[0] for name in MODULES if "/" in name} - {"data"}
    assert len(rooms) <= 12, rooms
    assert len([name for name in MODULES if "/" not in name]) <= 14


def test_the_tests_have_the_same_rooms() -> None:
    rooms = {name.split("/")[0] for name in MODULES if "/" in name} - {"data"}
    tests = {path.parent.name for path in Path(__file__).parent.glob("*/test_*.py")}
    assert rooms <= tests
    assert tests - rooms <= {"real", "browser"}


def test_no_module_has_more_than_400_lines() -> None:
    long = {name: text.count("\n") for name, text in MODULES.items() if text.count("\n") > 400}
    assert not long


# modules below 40 lines, and why each is a module
SHORT = {
    "__init__.py": "the map of a room, or the beginning of a package",
    "cli/": "one command is one module",
    "web/pages/": "one page is one module",
    "__main__.py": "a status line is printed without loading the command line",
    "auto.py": "`import relight.auto` is a public name",
    "intake/auto/startup/sitecustomize.py": "Python gives the name",
    "reports/sharing.py": "a session redacted again, for a file and for a page",
    "sources/hermes/tables.py": "the shape of Hermes' own tables, which the demo writes",
    "store/keep/redaction.py": "loaded by `rebuild --redact` alone",
    "store/warm_plans.py": "one table",
    "web/glossary.py": "loaded by pages and by docs/",
    "work/kernel.py": "calls of the Linux kernel",
}


def test_a_module_below_40_lines_has_a_reason() -> None:
    short = {name for name, text in MODULES.items() if text.count("\n") < 40}
    reasons = {why for why in SHORT for name in short if name.startswith(why) or name.endswith(why)}
    assert reasons == set(SHORT), "a reason without a module"
    assert not [one for one in short if not one.startswith(tuple(SHORT)) and "__" not in one]


def test_every_package_that_is_imported_is_declared() -> None:
    """The development tools bring more packages than `./dev run`, which would hide a gap."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    named = [*project["project"]["dependencies"], *(words for extra in extras for words in extra)]
    declared = {re.split(r"[^\w.-]", words)[0].lower() for words in named}
    packages = packages_distributions()
    imported = defaultdict(set)
    for name, text in MODULES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                found = [node.module or ""]
            else:
                continue
            for one in found:
                for owner in packages.get(one.partition(".")[0], []):
                    imported[owner.lower()].add(name)
    assert set(imported) <= declared | {"relight"}, imported


def test_no_class_name_is_defined_twice() -> None:
    defined = defaultdict(list)
    for name, text in MODULES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(name)
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


# names of functions that repeat for the same noun in another room, or for the same role in a table
SAME_NOUN = """
    acknowledge_alarm begin_run check_schema count_sessions decode_line draw_days examine
    export_template find_interpreter find_prompt find_task find_trouble
    find_written finish_run forget join join_parts label_session leave list_alarms list_experiments
    list_jobs list_lessons list_members list_provisions list_sessions list_templates list_traces
    make_cookie make_environment make_figures match_listing migrate pause_job prune read_cost
    read_document read_failures read_figures read_job read_limits read_number read_part read_secret
    read_session read_status read_template read_template_stats read_text read_trace read_usage
    read_words record_call remove_parts restore_template resume_job retire_template search
    stop_canary write_match
"""
SAME_ROLE = """
    add answer_event canary clear command compare connect delete export main postpone read_table
    record refresh remove report restore run settle show stats
"""


def test_a_function_name_repeats_only_for_the_same_noun_or_role() -> None:
    defined = defaultdict(set)
    for name, text in MODULES.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                defined[node.name].add(name)
    repeated = {name for name, places in defined.items() if len(places) > 1 and name[0] != "_"}
    assert repeated == {*SAME_NOUN.split(), *SAME_ROLE.split()}


# names of modules that repeat for the same noun in another room
SAME_MODULE = """
    advisers alarms brief budgets cache_rebuilds canaries candidates comparison config
    cron doctor experiment experiments export exported failed_work failures filters git_costs
    glossary history importing job jobs labels lessons limits listing machines messages
    metrics migrate mixture models names notices outcomes overview provisions push rebuild
    restore resume retention run running runs savings scheduler search session sessions sharing
    skills spirals status stumbles team template templates totals uses windows words
"""
# and those of the same role in a room: the lines and the reader of an agent's files, a command
SAME_PART = "command lines reader tools"


def test_a_module_name_repeats_only_for_the_same_noun_or_role() -> None:
    defined = defaultdict(set)
    for name in MODULES:
        if not name.endswith("__init__.py"):
            defined[Path(name).stem].add(name)
    repeated = {name for name, places in defined.items() if len(places) > 1}
    assert repeated == {*SAME_MODULE.split(), *SAME_PART.split()}


# fields that hold what other programs wrote as JSON, or a chat message; the rest are Structs
JSON_FIELDS = {
    *("attributes", "calls", "message", "messages", "metadata", "moa", "modelUsage", "provenance"),
    *("raw_usage", "seed", "turns", "usage"),
    "input_schema",
}
# a key of a report may be of any type; `figures` are those of a public result
ANY_FIELDS = {("store/queries/failure_sums.py", "keys"), ("work/agent/loop.py", "figures")}


def test_a_field_is_plain_data_only_where_it_holds_foreign_json() -> None:
    plain = {
        (name, field.target.id)
        for name, text in MODULES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if "dict[str, Any]" in ast.unparse(field.annotation)
    }
    assert {one for one in plain if one[1] not in JSON_FIELDS} == ANY_FIELDS
    assert {field for _, field in plain} >= JSON_FIELDS


PRINTERS = {"print_json", "JSON", "JSONResponse", "encode", "dumps"}
PLAIN_DATA = {"asdict", "to_builtins", "dict"}


def is_plain_data(node: ast.AST | None) -> bool:
    """True for a dictionary in the making: a literal, a union of two, a Struct turned into one."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in PLAIN_DATA
    if isinstance(node, ast.BinOp):
        return is_plain_data(node.left) or is_plain_data(node.right)
    return isinstance(node, ast.Dict | ast.DictComp)


def test_commands_and_addresses_print_structs_as_json_and_no_dictionary() -> None:
    """Shapes of JSON have names, so that the API's document and its readers know them."""
    printed = [
        (f"{name}:{node.lineno}", value)
        for name, text in MODULES.items()
        if name.startswith(("cli/", "web/")) and not name.startswith("cli/demo/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Yield)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PRINTERS)
        for value in ([node.value] if isinstance(node, ast.Yield) else node.args)
    ]
    assert len(printed) > 50
    assert [place for place, value in printed if is_plain_data(value)] == []


def test_settings_refuse_keys_that_they_do_not_know() -> None:
    found = [one for one in vars(config).values() if isinstance(one, type) and one is not Struct]
    settings = [one for one in found if issubclass(one, Struct) and one is not config.Config]
    assert len(settings) > 10
    assert [one for one in settings if not one.__struct_config__.forbid_unknown_fields] == []


def test_one_set_of_hidden_characters_serves_terminal_pages_and_templates() -> None:
    """A second set would let through what the first one hides."""
    hidden = re.compile("[\u200b\u2060\u202e]|200b|2060|202e", re.IGNORECASE)
    found = {
        name
        for name, text in MODULES.items()
        for one in texts(ast.parse(text))
        if hidden.search(one)
    }
    assert found == {"text.py"}


def test_each_migration_has_a_number_that_no_other_has() -> None:
    """Two with one number would pass for one."""
    numbers = [path.name[:4] for path in (SOURCE / "store" / "migrations").glob("*.sql")]
    assert sorted(numbers) == sorted(set(numbers))


ARCHAIC = re.compile(r"\b(anew|whoever|whereof|thereof|whatsoever|hereby|wherein)\b", re.IGNORECASE)


@pytest.mark.parametrize("name", MODULES)
def test_no_text_needs_an_archaic_word(name: str) -> None:
    assert ARCHAIC.findall(MODULES[name]) == []


def test_the_layers_are_ten_rows() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    assert contract["exhaustive"]
    assert len(contract["layers"]) <= 10


@pytest.mark.parametrize("name", MODULES)
def test_rows_are_written_by_the_names_of_their_columns(name: str) -> None:
    unnamed = re.compile(r"insert\s+(or\s+\w+\s+)?into\s+\S+\s+values\b", re.IGNORECASE)
    assert [text for text in texts(ast.parse(MODULES[name])) if unnamed.search(text)] == []


MODULE = re.compile(r"relight(\.\w+)+(:\w+)?")


def test_no_module_imports_upwards_even_inside_a_function_or_outside_of_packages() -> None:
    """The contract of import-linter does not see files of folders that are no packages."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    height = {
        name: number
        for number, row in enumerate(reversed(contract["layers"]))
        for name in re.split(r" [|:] ", row)
    }
    upwards = []
    for name, text in MODULES.items():
        room = name.split("/")[0].removesuffix(".py")
        for node in ast.walk(ast.parse(text)):
            found = []
            if isinstance(node, ast.Import):
                found = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                found = [f"{node.module}.{one.name}" for one in node.names]
            elif isinstance(node, ast.Constant) and MODULE.fullmatch(str(node.value)):
                found = [str(node.value)]  # a name that is imported when it is needed
            for parts in (one.split(".") for one in found):
                is_ours = parts[0] == "relight" and parts[1] in height and room in height
                if is_ours and height[parts[1]] > height[room]:
                    upwards.append((name, parts))
    assert upwards == []


@pytest.mark.parametrize("name", MODULES)
def test_a_docstring_begins_with_what_the_caller_gets(name: str) -> None:
    """A noun phrase, "Return …", "True if …": a relative clause needs a second reading."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(MODULES[name])) if isinstance(node, documented)]
    begins = re.compile(r"(What|How|Whether|Where|Who|Whoever|Why) ")
    assert [text for one in nodes if begins.match(text := ast.get_docstring(one) or "")] == []


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("store/")])
def test_sql_stands_only_in_the_store(name: str) -> None:
    tree = ast.parse(MODULES[name])
    imported = {
        found
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for found in [getattr(node, "module", None), *(one.name for one in node.names)]
    }
    if not name.startswith(FOREIGN):
        assert "sqlite3" not in imported
        assert [text for text in texts(tree) if SQL.search(f"{text} ")] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_broad_except_has_its_reason_beside_it(name: str) -> None:
    broad = re.compile(r"except (Base)?Exception\b.*|except:.*")
    lines = [found[0] for found in broad.finditer(MODULES[name])]
    assert [line for line in lines if "  # " not in line] == []


MENTION = re.compile(r"(?<![\w./-])relight (?:[a-z]|--)")
# their value is the hint of an error, or passes through `as_typed` where it is used
HINTS = {"hint", "HINT", "advice", "RESTORE", "CHANGED", "PRIVATE_HINT", "example", "epilog"}


def is_typed(parents: list[ast.AST]) -> bool:
    """True if one of a constant's parents shows that its commands are named as they were typed."""
    for node in parents:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == "as_typed" or name.endswith("Error"):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in HINTS:
                return True
            case ast.keyword(arg=name) if name in HINTS:
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) if name in HINTS:
                return True
    return False


def find_untyped(node: ast.AST, parents: list[ast.AST]) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Constant()):
            return  # a docstring
        case ast.Constant(value=str(text)) if MENTION.search(text) and not is_typed(parents):
            yield text
    for child in ast.iter_child_nodes(node):
        yield from find_untyped(child, [*parents, node])


# texts for other programs, which name the command whatever was typed
FOR_PROGRAMS = ("web/openapi.py", "chat/messages.py", "web/guard.py", "web/connections.py")


@pytest.mark.parametrize("name", [name for name in MODULES if name not in FOR_PROGRAMS])
def test_hints_name_the_command_as_it_was_typed(name: str) -> None:
    assert list(find_untyped(ast.parse(MODULES[name]), [])) == []


@pytest.mark.parametrize("page", sorted((SOURCE / "web" / "templates").glob("*.html")), ids=str)
def test_pages_name_the_command_as_it_was_typed(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        for found in MENTION.finditer(line):
            after = line[found.start() :]
            assert "| typed" in after or "parts.empty(" in line[: found.start()], line
