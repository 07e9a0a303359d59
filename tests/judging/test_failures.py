"""Errors are classified by status, then by type, then by anchored text."""

import asyncio
import errno
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.judging.failures import (
    classify_error,
    find_retry_after,
    read_kinds,
)


class Response:
    def __init__(self, status_code: int, headers: Mapping[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class ApiStatusError(Exception):
    """The shape of openai's and anthropic's errors."""

    def __init__(
        self,
        status_code: int,
        message: str = "",
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body
        self.response = Response(status_code, headers or {})


@pytest.mark.parametrize(
    ("status", "kind", "category"),
    [
        (400, "bad_request", "permanent"),
        (401, "auth", "permanent"),
        (402, "billing", "permanent"),
        (403, "auth", "permanent"),
        (404, "not_found", "permanent"),
        (405, "bad_request", "permanent"),
        (408, "timeout", "retryable"),
        (409, "bad_request", "permanent"),
        (413, "payload_too_large", "permanent"),
        (418, "bad_request", "permanent"),
        (422, "bad_request", "permanent"),
        (429, "rate_limit", "retryable"),
        (500, "server_error", "retryable"),
        (502, "server_error", "retryable"),
        (503, "overloaded", "retryable"),
        (504, "server_error", "retryable"),
        (529, "overloaded", "retryable"),
        (599, "server_error", "retryable"),
    ],
)
def test_a_status_decides_first(status: int, kind: str, category: str) -> None:
    for failure in (
        classify_error(ApiStatusError(status)),
        classify_error("something", status=status),
        classify_error(f"HTTP {status}: something"),
        classify_error(RuntimeError(f"Error code: {status} - {{'error': 'something'}}")),
    ):
        assert (failure.kind, failure.category, failure.code) == (kind, category, status)
        assert failure.should_retry == (category == "retryable")


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (429, "You exceeded your current quota, please check your plan and billing", "billing"),
        (429, "{'error': {'code': 'insufficient_quota'}}", "billing"),
        (400, "Your credit balance is too low to use this model", "billing"),
        (429, "Quota exceeded for requests per minute", "rate_limit"),
        (429, "Claude usage limit reached, your limit resets at 3pm", "usage_limit"),
        (429, "5-hour limit reached ∙ resets 2am", "usage_limit"),
        (429, "You've hit your Opus limit · resets Nov 20, 9am (UTC)", "usage_limit"),
        (429, "Weekly limit reached ∙ resets Oct 9 at 10am", "usage_limit"),
        (429, "The model is overloaded, try later", "overloaded"),
        (400, "This model's maximum context length is 8192 tokens", "context_overflow"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "context_overflow"),
        (413, "context_length_exceeded", "context_overflow"),
        (404, "The model `nova-9` does not exist", "model_not_found"),
        (400, "nova-9 is not a valid model ID", "model_not_found"),
        (400, "flagged by our moderation as a violation", "content_policy"),
        (400, "image exceeds 5 MB maximum", "image_too_large"),
        (400, "Invalid `signature` in `thinking` block", "thinking_signature"),
        (403, "API rate limit exceeded for installation", "rate_limit"),
        (500, "CUDA out of mind", "server_error"),
    ],
)
def test_the_text_refines_what_the_status_says(status: int, text: str, kind: str) -> None:
    assert classify_error(ApiStatusError(status, text)).kind == kind


def test_no_quota_is_permanent_even_with_status_429() -> None:
    failure = classify_error(ApiStatusError(429, "x", body={"code": "insufficient_quota"}))
    assert (failure.kind, failure.category, failure.should_retry) == ("billing", "permanent", False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "timeout"),
        (asyncio.CancelledError(), "interrupted"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "connection"),
        (BrokenPipeError(), "connection"),
        (socket.gaierror(-2, "Name or service not known"), "connection"),
        (ssl.SSLCertVerificationError("certificate verify failed"), "certificate"),
        (ssl.SSLError("EOF occurred in violation of protocol"), "connection"),
        (asyncio.IncompleteReadError(b"", 5), "connection"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
        (OSError(errno.ENETUNREACH, "unreachable"), "connection"),
        (OSError(errno.EIO, "Input/output error"), "unknown"),
        (FileNotFoundError(errno.ENOENT, "No such file"), "file_not_found"),
        (PermissionError(errno.EACCES, "denied"), "permission"),
        (IsADirectoryError(errno.EISDIR, "is a directory"), "bad_arguments"),
        (MemoryError(), "out_of_memory"),
        (json.JSONDecodeError("Expecting value", "", 0), "malformed_response"),
        (ModuleNotFoundError("No module named 'x'"), "missing_module"),
        (TypeError("unexpected keyword argument"), "bad_arguments"),
        (subprocess.TimeoutExpired("sleep 9", 3), "timeout"),
        (subprocess.CalledProcessError(127, "foo"), "command_not_found"),
        (subprocess.CalledProcessError(126, "foo"), "permission"),
        (subprocess.CalledProcessError(-9, "foo"), "killed"),
        (subprocess.CalledProcessError(139, "foo"), "crashed"),
        (
            subprocess.CalledProcessError(1, "cat x", stderr=b"cat: x: No such file or directory"),
            "file_not_found",
        ),
        (subprocess.CalledProcessError(3, "foo"), "command_failed"),
        (RuntimeError("odd"), "unknown"),
    ],
)
def test_the_type_of_an_exception_decides_second(error: BaseException, kind: str) -> None:
    assert classify_error(error).kind == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ReadTimeout", "timeout"),
        ("PoolTimeout", "timeout"),
        ("ConnectError", "connection"),
        ("RemoteProtocolError", "server_error"),
        ("UnsupportedProtocol", "bad_request"),
        ("DecodingError", "malformed_response"),
    ],
)
def test_errors_of_httpx_are_known_by_the_names_of_their_classes(name: str, kind: str) -> None:
    httpx = pytest.importorskip("httpx2")
    assert classify_error(getattr(httpx, name)("something")).kind == kind


def test_a_status_error_of_httpx_is_known_by_its_response() -> None:
    httpx = pytest.importorskip("httpx2")
    transport = httpx.MockTransport(
        lambda _: httpx.Response(503, headers={"Retry-After": "17"}, text="busy")
    )
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.HTTPError) as raised:
        client.get("http://test/").raise_for_status()
    failure = classify_error(raised.value)
    assert (failure.kind, failure.code, failure.backoff_seconds) == ("overloaded", 503, 17.0)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"error": {"code": "insufficient_quota"}}, "billing"),
        (400, {"error": {"code": "context_length_exceeded"}}, "context_overflow"),
        (429, {"error": {"message": "slow down"}}, "rate_limit"),
    ],
)
def test_the_body_of_a_response_refines_its_status(status: int, body: object, kind: str) -> None:
    httpx = pytest.importorskip("httpx2")
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.HTTPError) as raised:
        client.get("http://test/").raise_for_status()
    failure = classify_error(raised.value)
    assert (failure.kind, failure.code) == (kind, status)
    assert failure.category == read_kinds()[kind].category


def test_a_response_that_was_not_read_is_classified_by_its_status() -> None:
    httpx = pytest.importorskip("httpx2")
    body = iter([b"insufficient_quota"])
    transport = httpx.MockTransport(lambda _: httpx.Response(429, content=body))
    with httpx.Client(transport=transport) as client, client.stream("GET", "http://test/") as found:
        with pytest.raises(httpx.HTTPError) as raised:
            found.raise_for_status()
        assert classify_error(raised.value).kind == "rate_limit"
        found.read()
        assert classify_error(raised.value).kind == "billing"


class Mute(Exception):
    """An error that cannot even be asked."""

    def __str__(self) -> str:
        raise ValueError("no words")

    @property
    def response(self) -> object:
        raise RuntimeError("no response")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "unknown"),
        (Mute(), "unknown"),
        (12, "unknown"),
        (b"HTTP 429: slow down", "rate_limit"),
        (b"\xff\xfe", "unknown"),
        ({"error": {"code": "insufficient_quota"}}, "billing"),
        ({"error": {"code": 503, "message": "x"}}, "overloaded"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded"),
        ({"error": "x", "status": "401"}, "auth"),
        (ExceptionGroup("all", [TimeoutError(), ValueError()]), "timeout"),
        (BaseExceptionGroup("all", [ExceptionGroup("some", [Mute()])]), "unknown"),
    ],
)
def test_whatever_went_wrong_is_classified(error: object, kind: str) -> None:
    assert classify_error(error).kind == kind
    assert find_retry_after(error) is None


def test_a_status_may_be_written_in_digits() -> None:
    failure = classify_error("slow down", status="429")
    assert (failure.kind, failure.code) == ("rate_limit", 429)
    assert classify_error("HTTP 401: x", status="soon").kind == "auth"
    assert classify_error("HTTP 401: x", status=200).kind == "auth"


class Whole:
    """A number of some library, as numpy's are."""

    def __index__(self) -> int:
        return 429


@pytest.mark.parametrize("status", [Whole(), 429.0, HTTPStatus.TOO_MANY_REQUESTS])
def test_a_status_may_be_any_whole_number(status: Any) -> None:
    error = Exception("x")
    error.status_code = status  # type: ignore[attr-defined]
    for failure in (classify_error("x", status=status), classify_error(error)):
        assert (failure.kind, failure.code, type(failure.code)) == ("rate_limit", 429, int)


@pytest.mark.parametrize("status", [429.5, float("nan"), float("inf"), True, "", object()])
def test_a_status_that_is_no_number_is_none(status: Any) -> None:
    assert classify_error("x", status=status).kind == "unknown"


@given(st.recursive(st.text() | st.binary() | st.integers() | st.none() | st.floats(), st.lists))
def test_nothing_is_too_odd_to_be_classified(error: object) -> None:
    for asked in (error, {"error": error, "code": error}, ApiStatusError(429, body=error)):
        assert classify_error(asked).kind in read_kinds()


def test_a_wait_without_end_is_a_year_at_most() -> None:
    for after in ("9" * 400, "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"):
        error = ApiStatusError(429, headers={"Retry-After": after})
        assert find_retry_after(error) == 365 * 86400.0
    assert find_retry_after(f"try again in {'9' * 400}s") == 365 * 86400.0


def test_a_connection_that_fails_for_its_certificate_is_permanent() -> None:
    cause = ssl.SSLCertVerificationError("self-signed certificate")
    error = ConnectionError("could not connect")
    error.__cause__ = cause
    assert classify_error(error).kind == "certificate"


def raise_from(error: BaseException, cause: BaseException | None) -> BaseException:
    error.__cause__, error.__suppress_context__ = cause, True
    return error


def raise_beside(error: BaseException, handled: BaseException) -> BaseException:
    error.__context__ = handled
    return error


LIMITED = ApiStatusError(429, headers={"Retry-After": "50"})
FAILED = "the turn failed"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (raise_from(RuntimeError(FAILED), TimeoutError("t")), "timeout", None),
        (raise_beside(RuntimeError(FAILED), TimeoutError("t")), "timeout", None),
        (raise_from(RuntimeError(FAILED), LIMITED), "rate_limit", 429),
        (raise_from(Exception(), raise_beside(Exception(FAILED), LIMITED)), "rate_limit", 429),
        (raise_from(Exception(FAILED), ConnectionResetError(104, "x")), "connection", "ECONNRESET"),
        (raise_from(Exception("You exceeded your current quota"), LIMITED), "billing", 429),
        (raise_from(PermissionError("x"), TimeoutError("t")), "permission", None),
        (raise_from(Exception("permission denied"), TimeoutError("t")), "timeout", None),
        (raise_from(RuntimeError("config is broken"), None), "unknown", None),
        (raise_from(RuntimeError("odd"), RuntimeError("boom")), "unknown", None),
        (raise_beside(RuntimeError("rate limit exceeded"), KeyError("x")), "rate_limit", None),
    ],
)
def test_an_error_is_classified_by_what_it_was_raised_from(
    error: BaseException, kind: str, code: object
) -> None:
    failure = classify_error(error)
    assert (failure.kind, failure.code) == (kind, code)


def test_what_the_other_side_asked_for_is_found_behind_an_error() -> None:
    wrapped = raise_from(Exception(FAILED), raise_beside(Exception(), LIMITED))
    assert find_retry_after(wrapped) == classify_error(wrapped).backoff_seconds == 50.0
    assert find_retry_after(raise_from(Exception(FAILED), Exception("try again in 7s"))) == 7.0


def test_from_none_is_taken_at_its_word() -> None:
    def configure() -> None:
        try:
            raise TimeoutError
        except TimeoutError:
            raise RuntimeError("config is broken") from None

    with pytest.raises(RuntimeError) as raised:
        configure()
    assert classify_error(raised.value).kind == "unknown"


def test_errors_in_a_ring_or_without_end_are_classified() -> None:
    one, other = Exception("one"), Exception("other")
    one.__cause__, other.__cause__ = other, one
    assert classify_error(one).kind == "unknown"
    last: BaseException = TimeoutError()
    for _ in range(5000):
        last = raise_from(Exception("again"), last)
    assert classify_error(last).kind == "unknown"
    group: Exception = TimeoutError()
    for _ in range(50):
        group = ExceptionGroup("within", [group])
    assert classify_error(group).kind == "unknown"


def test_the_first_of_a_group_with_evidence_decides() -> None:
    members = [RuntimeError("odd"), raise_from(Exception(FAILED), LIMITED), ValueError()]
    failure = classify_error(BaseExceptionGroup("all", members))
    assert (failure.kind, failure.backoff_seconds) == ("rate_limit", 50.0)
    assert classify_error(ExceptionGroup("all", [TimeoutError()] * 100_000)).kind == "timeout"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("TimeoutError: t", "timeout"),
        ("httpx.ReadTimeout: ", "timeout"),
        ("ReadTimeout('')", "timeout"),
        ("openai.InternalServerError: x", "server_error"),
        ("anthropic.OverloadedError: Overloaded", "overloaded"),
        ("APIConnectionError: x", "connection"),
        ("APIConnectionError: certificate verify failed", "certificate"),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff", "bad_arguments"),
        ("ZeroDivisionError: division by zero", "exception"),
        ("BakeError: burnt", "exception"),
    ],
)
def test_a_text_that_begins_with_a_type_is_judged_by_it(text: str, kind: str) -> None:
    for error in (text, RuntimeError(text), raise_from(RuntimeError(FAILED), RuntimeError(text))):
        assert classify_error(error).kind == kind


def test_a_missing_program_is_distinguished_from_a_missing_file(tmp_path: Path) -> None:
    async def start() -> None:
        await asyncio.create_subprocess_exec("no-such-program")

    def find_kind_of(call: Callable[[], object]) -> str:
        with pytest.raises(FileNotFoundError) as raised:
            call()
        return classify_error(raised.value).kind

    assert find_kind_of(lambda: subprocess.run(["no-such-program"])) == "command_not_found"
    assert find_kind_of(lambda: subprocess.run(["/no/such"], close_fds=False)) == (
        "command_not_found"
    )
    assert find_kind_of(lambda: asyncio.run(start())) == "command_not_found"
    gone = tmp_path / "gone"
    assert find_kind_of(lambda: subprocess.run([sys.executable], cwd=gone)) == "file_not_found"
    assert find_kind_of(lambda: subprocess.run([gone], cwd=str(gone))) == "file_not_found"
    assert find_kind_of(gone.read_text) == "file_not_found"


def test_a_number_that_is_not_the_systems_is_not_shown_as_its_name() -> None:
    assert classify_error(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]")).code == 1
    assert classify_error(socket.gaierror(8, "nodename nor servname provided")).code == 8
    with pytest.raises(ssl.SSLError) as raised:
        ssl.create_default_context(cadata="no certificate")
    assert classify_error(raised.value).code not in ("EPERM", "ENOEXEC", None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bash: foo: command not found", "command_not_found"),
        ("File does not exist.", "file_not_found"),
        ("ls: cannot access 'x': No such file or directory", "file_not_found"),
        ("mkdir: cannot create directory '/x': Permission denied", "permission"),
        ("Unknown tool: fly", "tool_not_available"),
        ("String to replace not found in file.", "edit_mismatch"),
        ("Could not find edits[2] in oven.py. The oldText must match exactly.", "edit_mismatch"),
        ("baker@oven: Permission denied (publickey,password).", "auth"),
        ("Host key verification failed.", "auth"),
        ("open /etc/oven: permission denied", "permission"),
        ("app.py: error: unrecognized arguments: --fast", "bad_arguments"),
        ("curl: (6) Could not resolve host: x.test", "connection"),
        ("Command timed out after 60s", "timeout"),
        ("No space left on device", "disk_full"),
        ("Connection refused", "connection"),
        ("rate limit exceeded", "rate_limit"),
        ("Incorrect API key provided", "auth"),
        ("API Error: 529 {'type': 'overloaded_error'}", "overloaded"),
        ("Client error '404 Not Found' for url 'http://test/'", "not_found"),
        ("ModuleNotFoundError: No module named 'x'", "missing_module"),
        ("404 Not Found", "not_found"),
        ("504 Gateway Time-out", "server_error"),
        ("429 Resource has been exhausted (e.g. check quota).", "rate_limit"),
        ('529 {"type":"error","error":{"type":"x"}}', "overloaded"),
        ("429 status code (no body)", "rate_limit"),
        ("400 API key not valid. Please pass a valid API key.", "auth"),
        ("Quota exceeded, limit: 10 requests per minute", "rate_limit"),
        ("Error: connection timeout", "timeout"),
        ("the field 'connection timeout' is required", "bad_arguments"),
        ("token expired", "auth"),
        ("Error: the access token has expired", "auth"),
        ("The security token included in the request is expired", "auth"),
        ("jwt expired", "auth"),
        ("your session has expired, log in again", "auth"),
        ("An error occurred (AccessDenied) when calling the PutObject operation: Denied", "auth"),
        ("An error occurred (ThrottlingException) when calling the InvokeModel", "rate_limit"),
        ("Resource does not exist", "not_found"),
        ("relation 'loaves' does not exist", "not_found"),
        ("the order no longer exists", "not_found"),
        ("The model `oven-9` does not exist", "model_not_found"),
        ("Tool 'bake' does not exist", "tool_not_available"),
        ("Schema validation failed", "bad_arguments"),
        ("Request failed validation: loaves must be positive", "bad_arguments"),
        ("the payload does not match the schema", "bad_arguments"),
        ("Invalid schema for function 'bake'", "bad_arguments"),
        ("error 500", "server_error"),
        ("Error 503 from the oven", "overloaded"),
        ("error 502 bad gateway", "server_error"),
        ("API Error: 500 Internal server error", "server_error"),
        ("", "unknown"),
    ],
)
def test_text_decides_last(text: str, kind: str) -> None:
    assert classify_error(text).kind == kind


@pytest.mark.parametrize(
    "text", ["token expired", "Resource does not exist", "Schema validation failed"]
)
def test_what_no_retry_can_cure_is_permanent(text: str) -> None:
    failure = classify_error(text)
    assert (failure.category, failure.should_retry) == ("permanent", False)


@pytest.mark.parametrize(
    "text",
    [
        "please retry the DNS set-up by hand",
        "the billing page was updated",
        "chapter 429 is about timeouts in theory",
        "connection to the story",
        "500 Products could not be imported",
        "429 Items processed",
        "error 500 items found",
        "Error: 404 files were checked",
        "409 Conflicts were solved",
        "the connection timeout must be positive",
        "three loaves per minute",
    ],
)
def test_a_word_in_passing_decides_nothing(text: str) -> None:
    failure = classify_error(text)
    assert (failure.kind, failure.should_retry, failure.max_retries) == ("unknown", True, 1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "2500", "retry-after": "9"}, 2.5),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT"}, 90.0),
        ({"Retry-After": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    now = 1767225600.0  # 2026-01-01
    assert find_retry_after(ApiStatusError(429, headers=headers), now=now) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 20s.", 20.0),
        ("Please try again in 1m30s", 90.0),
        ("try again in 250ms", 0.25),
        ('{"retryDelay": "34s"}', 34.0),
        ("try again in 2 hours", 7200.0),
        ("try again later", None),
    ],
)
def test_the_wait_is_also_read_from_words(text: str, seconds: float | None) -> None:
    assert find_retry_after(text) == seconds


def test_the_wait_asked_for_is_a_floor() -> None:
    longer = classify_error(ApiStatusError(429, headers={"Retry-After": "45"}))
    shorter = classify_error(ApiStatusError(429, headers={"Retry-After": "1"}))
    assert longer.backoff_seconds == 45.0
    assert shorter.backoff_seconds == read_kinds()["rate_limit"].backoff_seconds


def test_every_kind_that_is_refined_exists() -> None:
    kinds = read_kinds()
    assert {name for kind in kinds.values() for name in kind.refines} <= kinds.keys()


def test_all_that_hermes_distinguishes_has_a_kind() -> None:
    wanted = "auth billing rate_limit overloaded server_error timeout certificate context_overflow"
    wanted += " payload_too_large image_too_large model_not_found policy_blocked content_policy"
    wanted += " bad_request encrypted_content unsupported_content thinking_signature long_context"
    assert set(f"{wanted} grammar unknown".split()) <= read_kinds().keys()


def test_classifying_needs_no_client_library() -> None:
    code = (
        "import sys, relight.judging.failures as f; f.classify_error('HTTP 429: x');"
        "print(sorted({'httpx2', 'openai', 'tenacity', 'asyncio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


NOON = 1794744000.0  # 2026-11-15T12:00:00Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("try again at 2026-11-15 18:24 UTC", 6.4 * 3600),
        ("Please try again at 2026-11-15T13:00:00+01:00.", 0),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", 2 * 3600),
        ("Your limit resets at 11:30am (UTC)", 23.5 * 3600),
        ("5-hour limit reached ∙ resets 18:30 (UTC)", 6.5 * 3600),
        ("5-hour limit reached ∙ resets 9:05 (UTC)", 21 * 3600 + 300),
        ("You've hit your usage limit. Try again in 3 days 4 hours 5 minutes.", 76 * 3600 + 300),
        ("try again in 2 days", 48 * 3600),
        ("it resets 31:00 (UTC)", None),
        (
            "You've hit your usage limit. Try again at Nov 20th, 2026 3:05 PM (UTC).",
            123.0833 * 3600,
        ),
        ("Claude AI usage limit reached|1794747600", 3600),
        ("it resets 31pm", None),
        ("resets Feb 31 3pm (UTC)", None),
        ("it resets 3pm (Nowhere/Land)", None),
    ],
)
def test_a_time_to_try_again_is_read_from_text(text: str, seconds: float | None) -> None:
    found = find_retry_after(text, now=NOON)
    assert found == (None if seconds is None else pytest.approx(seconds, abs=1))


def test_a_used_up_plan_is_permanent_until_the_time_it_names() -> None:
    failure = classify_error("You've hit your usage limit. Try again in 2 hours 5 minutes.")
    assert (failure.kind, failure.should_retry) == ("usage_limit", False)
    assert failure.asked_seconds == 7500
