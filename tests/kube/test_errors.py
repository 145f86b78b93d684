import pytest

from kube.errors import (
    MAX_RETRY_AFTER_SECONDS,
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    RetryableError,
    TerminalError,
    Throttled,
    Unauthorized,
    Unavailable,
    error_class,
    error_from_event,
    error_from_status,
)

NAMED = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: Throttled,
    500: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


@pytest.mark.parametrize(("status", "expected"), NAMED.items(), ids=str)
def test_status_has_its_class(status: int, expected: type[KubeError]) -> None:
    assert error_class(status) is expected


def test_every_status_is_either_retryable_or_terminal() -> None:
    for status in range(-1, 700):
        error = error_class(status)
        assert issubclass(error, RetryableError) != issubclass(error, TerminalError)


def test_a_taken_name_is_distinguished_from_a_changed_object() -> None:
    assert error_class(409, "AlreadyExists") is AlreadyExists
    assert error_class(409, "Conflict") is Conflict


def test_error_keeps_the_whole_response_of_the_server() -> None:
    body = b'{"kind":"Status","code":422,"reason":"Invalid","message":"spec is immutable"}'
    error = error_from_status("PATCH", "/api/v1/persistentvolumes/a", 422, body, {})
    assert (error.method, error.path, error.status, error.reason, error.message) == (
        "PATCH",
        "/api/v1/persistentvolumes/a",
        422,
        "Invalid",
        "spec is immutable",
    )
    assert str(error) == "PATCH /api/v1/persistentvolumes/a: 422 Invalid: spec is immutable"


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, b'{"kind":"Status"}', 7.0, id="header"),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":3}}', 3.0, id="details"),
        pytest.param({"Retry-After": "7"}, b'{"kind":"Status","details":{"retryAfterSeconds":3}}', 7.0, id="both"),
        pytest.param({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"", None, id="date"),
        pytest.param({}, b"", None, id="none"),
        pytest.param({"Retry-After": "86400"}, b"", MAX_RETRY_AFTER_SECONDS, id="a day"),
        pytest.param({"Retry-After": "inf"}, b"", MAX_RETRY_AFTER_SECONDS, id="endless"),
        pytest.param({"Retry-After": "nan"}, b"", 0.0, id="no number"),
        pytest.param({"Retry-After": "-5"}, b"", 0.0, id="negative"),
        pytest.param(
            {},
            b'{"kind":"Status","details":{"retryAfterSeconds":1e9}}',
            MAX_RETRY_AFTER_SECONDS,
            id="details, 30 years",
        ),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":-1}}', 0.0, id="details, negative"),
    ],
)
def test_throttled_says_how_long(headers: dict[str, str], body: bytes, seconds: float | None) -> None:
    error = error_from_status("GET", "/", 429, body, headers)
    assert isinstance(error, Throttled)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    "body", [b"<html>Bad Gateway</html>", b"", b"\xff\xfe", b"[]", b'{"kind":"Pod"}', b'{"kind":7}'], ids=repr
)
def test_a_body_that_is_no_status_is_survived(body: bytes) -> None:
    error = error_from_status("GET", "/", 502, body, {})
    assert isinstance(error, Unavailable)
    assert error.message


def test_error_event_is_classified_by_its_code() -> None:
    assert isinstance(error_from_event("/", b'{"kind":"Status","code":410,"reason":"Expired"}'), Expired)
    assert isinstance(error_from_event("/", b'{"odd":true}'), Unavailable)
