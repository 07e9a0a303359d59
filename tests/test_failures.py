"""Errors are classified by status, then by type, then by anchored text."""

import asyncio
import errno
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.failures import classify_error, find_failure_phrase, find_retry_after, read_kinds


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


def test_a_status_may_be_told_in_digits() -> None:
    failure = classify_error("slow down", status="429")
    assert (failure.kind, failure.code) == ("rate_limit", 429)
    assert classify_error("HTTP 401: x", status="soon").kind == "auth"


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
        ("", "unknown"),
    ],
)
def test_text_decides_last(text: str, kind: str) -> None:
    assert classify_error(text).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "please retry the DNS set-up by hand",
        "the billing page was updated",
        "chapter 429 is about timeouts in theory",
        "connection to the story",
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


@pytest.mark.parametrize(
    "answer",
    [
        "Sales fell.\n[SCRIPT_FAILED]",
        "I was unable to complete the task: the disk is full.",
        "I'm sorry, but I could not complete the report.",
        "⚠️ API call failed after 3 retries: HTTP 500",
        "Task failed: no such table",
        "The nightly backup failed.",
        "**Error:** no key",
        "❌ Backup did not run",
    ],
)
def test_an_answer_that_says_it_failed_is_found(answer: str) -> None:
    assert find_failure_phrase(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "All good: three errors were fixed.",
        "I was able to complete the task.",
        "Report\n\nError: 3 rows were skipped, the rest is in.",
        "The job failed yesterday but ran today.",
        "Nothing failed.",
        "Failure rates fell by 3 %.",
    ],
)
def test_an_answer_about_failures_is_not_one(answer: str) -> None:
    assert find_failure_phrase(answer) is None


def test_classifying_needs_no_client_library() -> None:
    code = (
        "import sys, relight.failures as f; f.classify_error('HTTP 429: x');"
        "print(sorted({'httpx2', 'openai', 'tenacity', 'asyncio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
