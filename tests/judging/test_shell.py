"""Shell command lines are read the way a shell reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.judging import shell
from relight.judging.shell import TOKEN_LIMIT, Stage, find_deciders, split_stages

TOKEN = shell._TOKEN


def read_programs(command: str | list[str]) -> list[str]:
    return [stage.program for stage in split_stages(command)]


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("ls -la", ["ls"]),
        ("cd src && grep -rn x . | head -5", ["cd", "grep", "head"]),
        ("make; make test || true", ["make", "make", "true"]),
        ("ls\n\n# a comment; rm -rf x\npwd", ["ls", "pwd"]),
        ("grep 'a|b;c' f", ["grep"]),
        ('echo "a && b" | wc', ["echo", "wc"]),
        ("echo it\\'s; ls", ["echo", "ls"]),
        ('git commit -m "it\'s; done" && git push', ["git", "git"]),
        ("for f in *.py; do grep x $f; done | sort", ["grep", "sort"]),
        ("if [ -f a ]; then cat a; else ls; fi", ["[", "cat", "ls"]),
        ("(cd a; make) | tail", ["cd", "make", "tail"]),
        ("diff <(sort a) <(sort b)", ["diff"]),
        ("x=$(foo | bar) && echo $x", ["echo"]),
        ('echo "$(ls | wc -l) files" && pwd', ["echo", "pwd"]),
        ("long \\\n  --option \\\n  value | cat", ["long", "cat"]),
        ("", []),
    ],
)
def test_a_line_is_split_at_what_joins_its_programs(command: str, programs: list[str]) -> None:
    assert read_programs(command) == programs


@pytest.mark.parametrize(
    ("command", "program", "words"),
    [
        ("bash -lc 'pytest -q'", "pytest", ("pytest", "-q")),
        ("timeout 10 pytest", "pytest", ("pytest",)),
        ("timeout -k 5 10 pytest", "pytest", ("pytest",)),
        ("sudo -u joe env A=b nice -n 5 make", "make", ("make",)),
        ("A=1 B='x y' make all", "make", ("make", "all")),
        ("nohup time ./run.sh", "run.sh", ("./run.sh",)),
        ("python3.11 -m pytest -x", "pytest", ("pytest", "-x")),
        ("python -W ignore -m unittest a", "unittest", ("unittest", "a")),
        ("python -u app.py", "python", ("python", "-u", "app.py")),
        ("uv run pytest", "pytest", ("pytest",)),
        ("poetry run python -m mypy src", "mypy", ("mypy", "src")),
        ("npx jest a", "jest", ("jest", "a")),
        ("bundle exec rspec", "rspec", ("rspec",)),
        ("coverage run -m pytest", "pytest", ("pytest",)),
        ("docker exec -it box bash -c 'npm test'", "npm", ("npm", "test")),
        ("/usr/bin/grep x", "grep", ("/usr/bin/grep", "x")),
        ("command -v gcc", "command", ("command", "-v", "gcc")),
        ("eval 'ls -l'", "ls", ("ls", "-l")),
        ("su - joe -c 'ls -l'", "ls", ("ls", "-l")),
        ("bin/test core", "bin/test", ("bin/test", "core")),
    ],
)
def test_a_wrapper_is_looked_through(command: str, program: str, words: tuple[str, ...]) -> None:
    (stage,) = split_stages(command)
    assert (stage.program, stage.words) == (program, words)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo a#b # c", ("echo", "a#b")),
        ("echo a2>f b", ("echo", "a2", "b")),
        ("echo a 2>f b", ("echo", "a", "b")),
        ("echo a'b c'd $x`y`", ("echo", "ab cd", "$x`y`")),
        ("echo >f a", ("echo", "a")),
        ("echo\ta\\\n b", ("echo", "a", "b")),
    ],
)
def test_a_word_ends_where_a_shell_ends_it(command: str, words: tuple[str, ...]) -> None:
    (stage,) = split_stages(command)
    assert stage.words == words


def test_xargs_shows_the_program_it_runs() -> None:
    assert read_programs("find . -name '*.c' | xargs -n 1 grep -l main") == ["find", "grep"]


def test_an_argument_list_is_a_command_too() -> None:
    assert read_programs(["/bin/bash", "-lc", "cd x && ls | wc"]) == ["cd", "ls", "wc"]
    assert split_stages(["grep", "a; b", "f"])[0].words == ("grep", "a; b", "f")


def test_the_body_of_a_here_document_is_no_command() -> None:
    command = "cat > a.py <<'EOF'\nimport os; x | y\nrm -rf z\nEOF\npython a.py 2>&1 | tail -3"
    assert read_programs(command) == ["cat", "python", "tail"]


def test_two_here_documents_on_a_line_are_both_dropped() -> None:
    command = "cat <<A && cat <<-B\none | two\nA\n\tthree; four\n\tB\nls"
    assert read_programs(command) == ["cat", "cat", "ls"]


def test_a_here_document_without_end_takes_the_rest() -> None:
    assert read_programs("python - <<EOF\nprint(1); ls") == ["python"]


def test_redirections_are_noted_and_left_out_of_the_words() -> None:
    stage = Stage("ls", ("ls", "x"), "x", hides_errors=True)
    assert split_stages("ls x 2>/dev/null") == (stage,)
    (both,) = split_stages("make &> build.log")
    assert both.words == ("make",)
    assert both.hides_output
    assert not both.hides_errors
    (silent,) = split_stages("make >/dev/null 2>&1")
    assert (silent.hides_output, silent.hides_errors) == (True, True)


def test_a_stage_knows_that_it_reads_from_a_pipe() -> None:
    assert [stage.is_piped for stage in split_stages("cat a | head && tail b")] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("command", "deciders"),
    [
        ("make && pytest", ["make", "pytest"]),
        ("make; pytest", ["pytest"]),
        ("make || pytest", ["pytest"]),
        ("pytest | tail", ["tail"]),
        ("cd x && pytest | tail", ["cd", "tail"]),
        ("pytest || true", ["true"]),
        ("set -e; make; pytest", ["set", "make", "pytest"]),
        ("set -o pipefail; pytest | tail", ["pytest", "tail"]),
        ("python server.py &", []),
        ("python server.py & sleep 1", ["sleep"]),
        ("cd x || exit 1; ls", ["cd", "ls"]),
    ],
)
def test_the_exit_code_is_that_of_the_deciding_stages(command: str, deciders: list[str]) -> None:
    found = [stage.program for stage in find_deciders(split_stages(command))]
    assert found == deciders


@given(st.text(alphabet=st.sampled_from("ab'\"\\$()`<>|&;\n#-= {}!EOF"), max_size=80))
def test_no_text_is_too_broken_to_read(command: str) -> None:
    for stage in split_stages(command):
        assert stage.words
    find_deciders(split_stages(command))


HOSTILE = ["'", '"', "$(", "((", "`", "\\", "<<E\n", "bash -c '", "sudo ", "A=1 ", "env A=1 "]
HOSTILE += ["timeout 5 ", "! ", "eval ", "a | "]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_line_is_read_in_no_time(piece: str) -> None:
    # with work that grows as the square, a single one of these takes minutes
    stages = split_stages(piece * 200_000)
    assert sum(len(stage.words) + len(stage.wrappers) for stage in stages) <= 1_000_000
    find_deciders(stages)


def test_what_is_wrapped_beyond_all_sense_is_read_so_far() -> None:
    (stage,) = split_stages("sudo " * 1000 + "bash -c 'make; make'")
    assert stage.program == "sudo"
    assert len(stage.wrappers) + len(stage.words) == 1003
    assert len(stage.wrappers) < 100
    assert read_programs("sudo " * 10 + "bash -c 'make; ls'") == ["make", "ls"]


def count_tokens(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of tokens that were matched while a command was split."""
    count = 0

    class Counting:
        def match(self, text: str, position: int) -> object:
            nonlocal count
            count += 1
            return TOKEN.match(text, position)

    monkeypatch.setattr(shell, "_TOKEN", Counting())
    split_stages(command)
    return count


@pytest.mark.parametrize("piece", ["a\n", "a;", "bash -c 'a;a;a'\n", "cat <<E\nE\n", "x y "])
def test_a_line_without_end_is_read_no_further_than_its_limit(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = piece * (1_000_000 // len(piece))
    assert count_tokens(command, monkeypatch) <= TOKEN_LIMIT + 10
    (stage,) = split_stages(command)
    assert (stage.program, len(stage.words)) == ("", 1)


def test_the_body_of_a_here_document_does_not_count() -> None:
    body = "a b; c\n" * 100_000
    assert read_programs(f"cat > x <<END\n{body}END\npython x") == ["cat", "python"]


def test_a_list_of_words_may_be_too_long_as_well() -> None:
    (stage,) = split_stages(["bash", "-c", "a\n" * 500_000])
    assert (stage.program, stage.words) == ("", ("bash",))
