"""Secrets are taken out, everything else stays, in whatever escaping."""

import hmac
import json
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relight import redact as redaction
from relight.names import hash_with_key
from relight.redact import (
    Secret,
    find_secrets,
    read_known_secrets,
    redact,
    redact_cell,
    redact_text,
)
from relight.secret_shapes import Lookalike, Rule, Shapes, read_secret_table, read_shapes

_parser: Any = import_module("re._parser")

KEY = b"a key of this store"
RULES = read_secret_table().rule
SHAPES = [hit for rule in RULES for hit in rule.hit if "{" in hit]
ALPHABETS = {
    "a": "abcdefghijkmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWYZ",
    "x": "abcdef",
    "d": "123456789",
    "u": "ABCDEFGHIJKLMNOPQRSTUVW",
}


def fill(example: str, *, seed: int = 0) -> str:
    """Write a row's example out: {a20} becomes twenty letters and digits."""
    rng = random.Random(f"{seed}{example}")

    def draw(match: re.Match[str]) -> str:
        letters = ALPHABETS[match[1]]
        # Every third is a digit, so that no draw happens to look like a word.
        return "".join(rng.choice(letters if i % 3 else "234567") for i in range(int(match[2])))

    return re.sub(r"\{([axdu])(\d+)\}", draw, example)


def escape(text: str, depth: int) -> str:
    """The text as it stands inside of a JSON string inside of a JSON string …"""
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=depth % 2 == 1)[1:-1]
    return text


def cut(text: str, head: str, tail: str) -> str:
    assert text.startswith(head)
    assert text.endswith(tail)
    return text[len(head) : len(text) - len(tail)]


def list_rules(text: str) -> list[str]:
    return [secret.rule for secret in find_secrets(text.encode())]


def collect_leaves(value: object) -> list[object]:
    """What a JSON document holds besides text, and where text stands."""
    if isinstance(value, dict):
        return ["{", *(leaf for item in value.values() for leaf in ["k", *collect_leaves(item)])]
    if isinstance(value, list):
        return ["[", *(leaf for item in value for leaf in collect_leaves(item))]
    return [str] if isinstance(value, str) else [value]


every_rule = pytest.mark.parametrize(
    "rule", RULES, ids=lambda rule: f"{rule.name}-{[*rule.prefixes, *rule.near][0]}"
)
depths = st.integers(0, 3)
secrets = st.builds(fill, st.sampled_from(SHAPES), seed=st.integers(0, 1000))
noise = st.lists(
    st.sampled_from(
        [
            *"\"'`\\\n ,:={}[](-_.@/$%>é…1",
            *['\\"', "\\n", "\\u0022", "abcd", "a1b2c3d4e5"],
            *["password", "token", "api_key", "SECRET", "Authorization: Bearer ", "--password "],
            *["https://u:", "sk-", "sk-ant-api03-", "ghp_", "AKIA", "eyJ", "r8_", "npm_", "tvly-"],
            *[
                "curl ",
                "-u ",
                "me:",
                " -p",
                "mysql ",
                "Cookie: sid=",
                "; auth=",
                " | ",
                "\\\n",
                "X_",
            ],
            *["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "[redacted:x:0a1b2c3d]"],
            *["example", "xxxxxx", "call_", "T7" * 30, "0a" * 32, "1e308", "\x1b[32m", "\ud800"],
        ]
    )
    | secrets
    | st.text(max_size=5)
).map("".join)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | noise,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(noise, inner, max_size=5),
    max_leaves=12,
)


@every_rule
def test_a_row_of_the_table_finds_what_it_says_at_every_depth_of_escaping(rule: Rule) -> None:
    assert rule.hit
    for hit in map(fill, rule.hit):
        for depth in range(4):
            names = list_rules(escape(hit, depth))
            # a value behind a certain name is named after the first row that takes it
            assert names == [rule.name] or names == ["certain"], (hit, depth)


@every_rule
def test_what_a_row_finds_is_removed_from_plain_text_and_from_every_escaping(rule: Rule) -> None:
    for hit in map(fill, rule.hit):
        for depth in range(4):
            text = f"first\n{escape(hit, depth)}\nlast".encode()
            clean = redact(text, key=KEY, known=())
            assert b"[redacted:" in clean, (hit, depth)
            assert not find_secrets(clean), (hit, depth)


@every_rule
def test_a_row_of_the_table_leaves_alone_what_it_says_at_every_depth(rule: Rule) -> None:
    assert rule.miss
    for miss in map(fill, rule.miss):
        for depth in range(4):
            text = escape(miss, depth)
            assert redact_text(text, key=KEY) is text, (miss, depth)


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=6))
def test_a_new_row_needs_nothing_but_itself(prefix: str) -> None:
    row = Rule("new", "[A-Za-z0-9]{40,99}", [], [], prefixes=[f"{prefix}Q"])
    secret = f"{prefix}Q{fill('{a48}')}"
    found = find_secrets(f"key {secret} end".encode(), Shapes([*RULES, row]))
    assert [(one.start, one.end) for one in found] == [(4, 4 + len(secret))]


def test_a_row_without_a_prefix_or_a_text_near_it_is_refused() -> None:
    with pytest.raises(ValueError, match="needs `prefixes` or `near`"):
        Rule("new", "[a-z]{9}", [], [])


@pytest.mark.parametrize("row", read_secret_table().lookalike, ids=lambda row: row.name)
def test_a_lookalike_is_what_its_row_says(row: Lookalike) -> None:
    for value in row.like:
        flags = re.VERBOSE | re.IGNORECASE | re.DOTALL
        assert re.fullmatch(row.regex.encode(), value.encode(), flags), value


@pytest.mark.parametrize(
    "text",
    [
        '"uuid":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"',
        '"id":"msg_01XFDUDYJgAACzvnptvVoYEL"',
        '"requestId":"req_011CSHoEeqs5C35K2UUqR7Fy"',
        '"tool_use_id":"toolu_01D7FLrfh4GYq7yT1ULFeyMV"',
        '"call_id":"call_Ab12Cd34Ef56Gh78Ij90Kl12"',
        '"id":"resp_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"',
        '"id":"chatcmpl-9sk1Ab12Cd34Ef56Gh78Ij90Kl12"',
        "commit 3f2a9c1b7d8e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        '"signature":"EqQBCkgIARABGAIiQL+AIza/AKIA' + "Ab1/" * 60 + '=="',
        '"encrypted_content":"gAAAAABo_-sk-hf_ghp_' + "Ab1_-" * 60 + '=="',
        '"usage":{"input_tokens":123,"cache_read_input_tokens":456,"max_tokens":4096}',
        '"data":"iVBORw0KGgoAAAANSUhEUgAA' + "A" * 400 + '"',
    ],
)
def test_ids_hashes_signatures_and_counts_are_never_touched(text: str) -> None:
    for depth in range(4):
        assert find_secrets(escape(text, depth).encode()) == []


def test_clean_data_is_returned_as_the_same_object() -> None:
    data = b'{"text":"nothing to see","input_tokens":12}\n' * 100
    assert redact(data, key=KEY) is data


@pytest.mark.parametrize(
    "text",
    [
        'password="{}"',
        "export API_KEY={}; ls",
        '{"token": "{}", "n": 1}',
        "curl -H 'Authorization: Bearer {}' https://example.org",
        "git clone https://me:{}@example.org/repo.git",
        "-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----",
        "curl -u me:{} https://example.org",
        '$(curl --user "me:{}" https://example.org)',
        "git clone https://{}@example.org/repo.git",
        "sshpass -p {} ssh me@host",
        "docker login -u me -p '{}' ghcr.io",
        "mysql -uroot -p{}; ls",
        "Cookie: theme=dark; sessionid={}; lang=en",
    ],
)
def test_only_the_bytes_of_the_secret_are_replaced(text: str) -> None:
    head, tail = text.split("{}")
    redacted = redact_text(head + fill("{a60}") + tail, key=KEY)
    assert re.fullmatch(r"\[redacted:[a-z]+:[0-9a-f]{8}\]", cut(redacted, head, tail))


@pytest.mark.parametrize("before", ["x -p ", "curl -u me:${X}", "cookie: sid=<a>; x=", " -u a:"])
def test_what_only_looks_like_a_secret_hides_none(before: str) -> None:
    assert list_rules(fill(before + "sk-ant-api03-{a93}AA")) == ["anthropic"]
    assert list_rules(fill(before + "api_key={a20}")) == ["assigned"]


def test_a_header_given_twice_is_found() -> None:
    text = "Authorization: Bearer Authorization: Bearer {a24}"
    assert list_rules(fill(text)) == ["header"]


def test_every_session_of_a_cookie_is_taken_out() -> None:
    text = fill("Cookie: sid={a20}; theme=dark; auth_ticket={a20}")
    redacted = redact_text(text, key=KEY)
    assert re.sub(r"\[redacted:cookie:\w+\]", "…", redacted) == (
        "Cookie: sid=…; theme=dark; auth_ticket=…"
    )


def test_a_command_over_several_lines_is_one_command() -> None:
    text = fill("ls\ncurl -u me:{a12} \\\n  https://x.org \\\n  --proxy-user me:{a9}\n-u me:fish\n")
    redacted = redact_text(text, key=KEY)
    assert re.sub(r"\[redacted:curl:\w+\]", "…", redacted) == (
        "ls\ncurl -u me:… \\\n  https://x.org \\\n  --proxy-user me:…\n-u me:fish\n"
    )


def test_a_key_begins_behind_the_underscore_of_a_name_but_not_of_a_blob() -> None:
    token = fill("ghp_{a36}")
    assert redact_text(f"X_{token}", key=KEY).startswith("X_[redacted:github:")
    for blob in ["9fQ2xY7a_", "Zm9v-YmFy_", "a1b2c3d4" * 20 + "_"]:
        assert list_rules(blob + token) == []


def test_the_same_secret_has_the_same_placeholder_in_every_escaping() -> None:
    plain = 'DB_PASSWORD="p\\"é/\\\\w0rd-x"'
    placeholders = {
        re.findall(r"\[redacted:[^]]+\]", redact_text(escape(plain, depth), key=KEY))[0]
        for depth in range(4)
    }
    assert len(placeholders) == 1


def test_the_placeholder_shows_rule_and_keyed_hash() -> None:
    token = fill("ghp_{a36}")
    one, other = (redact_text(f"use {token}.", key=key) for key in (KEY, b"another"))
    assert re.fullmatch(r"use \[redacted:github:[0-9a-f]{8}\]\.", one)
    assert one != other
    assert one == redact_text(f"use {token}.", key=KEY)


@every_rule
def test_no_placeholder_is_taken_for_a_secret(rule: Rule) -> None:
    for announced in ["", "password=", '"token": "', "https://u:", "Authorization: Bearer "]:
        text = f'{announced}[redacted:{rule.name}:0a1b2c3d]"@host'
        assert find_secrets(text.encode()) == []


def test_where_two_rules_see_the_same_bytes_the_vendor_names_them() -> None:
    assert list_rules(fill('OPENAI_API_KEY="sk-proj-{a60}"')) == ["openai"]
    assert list_rules(fill("https://x:ghp_{a36}@github.com")) == ["github"]


def test_a_line_break_between_records_is_never_taken() -> None:
    half = '{"text":"-----BEGIN PRIVATE KEY-----\\n' + "Ab3/" * 16
    data = f'{half}"}}\n{half}\\n"}}\n{{"password":"hunter2!"}}\n12345678\n'.encode()
    lines = redact(data, key=KEY).splitlines()
    assert [type(json.loads(line)) for line in lines] == [dict, dict, dict, int]
    assert len(find_secrets(data)) == 3


def test_text_that_is_not_quite_unicode_is_kept() -> None:
    assert redact_text("\ud800 password=hunter2abc \udfff", key=KEY).startswith("\ud800 password=[")


def test_the_table_holds_nothing_that_other_scanners_would_take_for_a_secret() -> None:
    text = resources.files("relight.data").joinpath("redact.toml").read_text("utf-8")
    # words that anybody would take for examples, behind a name or a command
    plain = {"assigned", "certain", "url", "sql", "manifest", "mnemonic", "nuget", "postgres"}
    assert set(list_rules(text)) <= {*plain, "netrc", "dockerfile", "login", "curl", "service"}


@given(noise, st.integers(1001, 2000), st.sampled_from(SHAPES), noise, depths)
def test_a_planted_secret_never_survives(
    before: str, seed: int, shape: str, after: str, depth: int
) -> None:
    secret = escape(f" {fill(shape, seed=seed)} ", depth).encode()
    core = [secret[found.start : found.end] for found in find_secrets(secret)]
    data = escape(f"{before} {fill(shape, seed=seed)} {after}", depth)
    clean = redact(data.encode("utf-8", "surrogatepass"), key=KEY)
    assert len(core) == 1
    assert core[0] not in clean


@given(noise, depths)
@example(
    fill("sk-or-v1-{x64}-----BEGIN PRIVATE KEY-----\n{a64}\n{a64}\n-----END PRIVATE KEY-----"), 0
)
@example(fill("token=example/ghp_{a36}/api_key={a20}"), 1)
@example(f"{fill('AKIA{u16}')}{fill('sk-ant-api03-{a93}AA')} {fill('sk-ant-api03-{a93}AA')}", 0)
def test_redacting_twice_changes_nothing(text: str, depth: int) -> None:
    once = redact_text(escape(text, depth), key=KEY)
    assert find_secrets(once.encode("utf-8", "surrogatepass")) == []
    assert redact_text(once, key=KEY) is once


@given(st.lists(documents, max_size=4), st.booleans())
@example([{"a password:": 12345678}, ["enter password:", 1234567, "x"]], False)
@example([{"text": "one\r8_" + "a1" * 20}], True)
def test_json_stays_json_and_only_strings_change(records: list[object], ascii_only: bool) -> None:
    for dump in make_dumps(ascii_only=ascii_only):
        lines = [dump(record) for record in records]
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
        clean = redact(data, key=KEY).decode("utf-8", "surrogatepass")
        assert clean.count("\n") == "\n".join(lines).count("\n")
        for line, record in zip(clean.split("\n"), records, strict=bool(records)):
            assert collect_leaves(unwrap(line)) == collect_leaves(unwrap(dump(record)))


def unwrap(line: str) -> object:
    """The innermost document of a line that `make_dumps` wrote, each level being valid JSON."""
    value = json.loads(line)
    while isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("outer", "inner"):
        value = json.loads(next(iter(value.values())))
    return value


def make_dumps(*, ascii_only: bool) -> list[Callable[[object], str]]:
    """Ways to write a record as one line: loose, compact, and as JSON within JSON."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))

    def loose(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    return [loose, compact, lambda value: compact({"outer": loose({"inner": compact(value)})})]


HOSTILE = [
    *["a", "-", "_", "A", "\\", "password=", 'password="', 'token=\\"', "sk-", "eyJ", "://a:"],
    *["-----BEGIN PRIVATE KEY-----", "secret=example/", "aaaaaa.", "X_ghp_", "a=b; sid=;"],
    *["curl -u a:b ", "mysql -pabc ", "cookie: a=b; ", "a -u b:cde ", "://aaaaaaaaaaaaaaaaaaaaa"],
    *["curl -u a:b", "curl -u 'a:bcd", "curl --user a:bcd", "cookie=k", "token=", "eyJaaaaaaaa_"],
    *["X_ghp_{a36}", "hf_{a34}_", "glsa_{a32}_{x8}", "docker login -p abc", "curl curl -u a:bcd"],
]


@every_rule
def test_the_expressions_of_a_row_have_a_greatest_width(rule: Rule) -> None:
    # each try at a place then costs at most a constant, and a search is linear whatever the text
    for place in rule.prefixes or rule.near:
        _, most = _parser.parse(rule.write_pattern(place), re.VERBOSE).getwidth()
        assert most < 2_000_000, rule.name


@given(noise, depths)
def test_hyperscan_and_python_name_the_same_places(text: str, depth: int) -> None:
    data = escape(text, depth).encode("utf-8", "surrogatepass")
    shapes = read_shapes()
    assert shapes.find_places(data) == sorted(set(shapes.find_slowly(data)))


@pytest.mark.parametrize("fast", [True, False])
def test_a_disguise_is_noticed_by_the_scan_for_places(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = Shapes(read_secret_table().rule)
    if not fast:
        monkeypatch.setattr(shapes, "_fast", None)
    hidden = ["gh\\u0070_", "a\\/b", "%5Fx", "a\u200bb", "\x1b[32m", "\\u001b[0m", "\\\\u200b"]
    assert [text for text in hidden if not shapes.scan(f"x {text} y".encode())[1]] == []
    assert shapes.scan('50 % of é, \\n and a\\"b'.encode())[1] is False


def test_a_compiled_scan_is_taken_from_its_file_and_a_file_that_does_not_fit_is_replaced(
    tmp_path: Path,
) -> None:
    pytest.importorskip("hyperscan")
    rules, path = read_secret_table().rule, tmp_path / "secrets.scan"
    data = b"password=hunter2abc and a token"
    places = read_shapes().scan(data)
    Shapes(rules).start_scan(path).join()
    whole = path.read_bytes()
    for damaged in (whole, whole[:-10], b"another version", b""):
        path.write_bytes(damaged)
        shapes = Shapes(rules)
        assert shapes.load_scan(path) == (damaged is whole)
        if damaged is not whole:
            shapes.start_scan(path).join()
        assert (path.read_bytes(), shapes.scan(data)) == (whole, places)


def test_two_threads_look_for_secrets_at_once() -> None:
    scan = read_shapes()._fast
    if scan is None:
        pytest.skip("Hyperscan is not installed")
    both = threading.Barrier(2)

    def look() -> set[int]:
        found: set[int] = set()

        def note(_number: int, _start: int, end: int, *_: object) -> None:
            if not found:
                both.wait(60)
            found.add(end)

        scan(b"the password: ", note)
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(look) for _ in range(2)]
        assert first.result() == second.result() != set()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_bytes_searched_grow_as_the_text_does(
    hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def count(data: bytes, **options: Any) -> list[Secret]:
        searched.append(len(data))
        return find_secrets(data, **options)

    monkeypatch.setattr(redaction, "find_secrets", count)
    for opening in ["", 'password="', "token=1a", "-----BEGIN PRIVATE KEY-----\n"]:
        totals = []
        for size in (10_000, 20_000):
            text = opening + fill(hostile) * (size // len(fill(hostile)))
            searched.clear()
            clean = redact(text.encode(), key=KEY)
            assert find_secrets(clean) == []
            # ten passes, over notes that can be longer than what they replace
            assert sum(searched) < 40 * len(text)
            totals.append(sum(searched))
        assert totals[1] < 2.5 * totals[0]


@pytest.mark.parametrize("record", [{"a": "{}", "n": 1}, ["x", {"b": "{}"}]])
def test_secrets_that_hide_one_another_cost_their_string_and_no_other(record: object) -> None:
    line = json.dumps(record).replace("{}", fill("X_ghp_{a36}") * 50)
    clean = redact(line.encode(), key=KEY).decode()
    note = r"\[redacted:dense:[0-9a-f]{8}\]"
    assert re.sub(note, "{}", clean) == json.dumps(record)


def test_the_rest_of_a_very_long_secret_goes_with_it() -> None:
    assert redact_text(fill("use sk-proj-{a9000} now"), key=KEY).startswith("use [redacted:openai:")
    assert redact_text(fill("use sk-proj-{a9000} now"), key=KEY).endswith("] now")


def test_a_secret_found_once_is_removed_everywhere_in_the_piece() -> None:
    secret = fill("{a24}")
    lines = f'{{"a":"API_KEY={secret}"}}\n{{"b":"he said {secret}, twice: {secret}"}}'
    clean = redact(lines.encode(), key=KEY, known=()).decode()
    assert secret not in clean
    assert clean.count("[redacted:value:") == 2


def test_the_secrets_of_the_process_are_removed_by_value() -> None:
    environment = {"MY_API_KEY": "plain-words-no-shape", "KEYBOARD": "qwertyuiop-qwertyuiop"}
    known = read_known_secrets(
        {**environment, "DB_PASSWORD": "short", "X_TOKEN": "/run/token-file"}
    )
    assert known == {b"plain-words-no-shape"}
    text = b'{"said":"plain-words-no-shape and qwertyuiop-qwertyuiop"}'
    clean = redact(text, key=KEY, known=known)
    assert re.fullmatch(rb'{"said":"\[redacted:value:\w{8}\] and qwertyuiop-qwertyuiop"}', clean)


@pytest.mark.parametrize(
    "written",
    [
        r"gh\u0070_{a36}",
        r"ghp\u005f{a36}",
        r"password\u003d{a16}",
        r"x\u0026password\u003d{a16}",
        r"password=\u0027{a16}\u0027",
        r"https:\/\/me:{a12}@h.io",
        "ghp%5F{a36}",
        r"ghp_\u200b{a36}",
        r"ghp_\u001b[0m{a36}",
    ],
)
def test_a_secret_in_needless_escapes_is_found(written: str) -> None:
    line = '{"text":"' + fill(written) + '","n":1}'
    clean = redact(line.encode(), key=KEY, known=())
    assert b"[redacted:" in clean
    assert json.loads(clean)["n"] == 1
    for core in re.findall("[A-Za-z0-9]{10,}", fill(written)):
        assert core.encode() not in clean


def test_needless_escapes_without_a_secret_stay_as_they_are() -> None:
    data = rb'{"path":"a\/b","text":"\u0041 plain \u0022quote\u0022"}'
    assert redact(data, key=KEY, known=()) is data


def test_a_cell_is_redacted_for_what_only_parsing_shows() -> None:
    token = fill("ghp_{a36}")
    assert redact_cell(f"use {token}", key=KEY).startswith("use [redacted:github:")
    joined = fill("the token: {a20}")
    assert redact_cell(joined, key=KEY) is joined


@given(st.binary(max_size=150), st.binary(max_size=150))
def test_a_mark_has_the_hmac_that_openssl_makes(key: bytes, secret: bytes) -> None:
    assert hash_with_key(key, secret) == hmac.digest(key, secret, "sha256")
