"""What can go wrong between us and the API server: one tree, and the total map from an HTTP status to its class.

KubeError
  RetryableError      the same request may succeed later
    Conflict          409  the object is not what the writer saw: read again and decide again
      AlreadyExists   409  another client created it first
    Throttled         429  the server limits us; `retry_after` states the delay
    Expired           410  the resource version or continue token is gone: list again
    Unavailable       5xx, no answer at all, or an answer that is not the API's
  TerminalError       the same request will fail again
    Invalid           422  the object broke a rule, or a field is immutable
    Forbidden         403
    Unauthorized      401
    NotFound          404
    BadRequest        every other 4xx

Two stand apart: KubeconfigError is for the user, before the first request; LeadershipLost ends all work at once.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kube.redaction import redacted

MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Seconds. API servers ask for at most 32 (dropped_requests_tracker.go). A proxy that announces a maintenance of hours
must not keep a watch or a write from going on when the API server is back.
"""


class KubeError(Exception):
    """A request to the API server that did not succeed.

    `status` is the HTTP status, 0 if there was no response. `reason` is the API's machine-readable reason (or ours for
    a failed connection), `message` its message. `retry_after` is in seconds, at most
    MAX_RETRY_AFTER_SECONDS, None if the server stated none.
    """

    def __init__(
        self,
        method: str,
        path: str,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(method, path, status, reason, message, retry_after)
        self.method = method
        self.path = path
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        answer = f"{self.status} {self.reason}" if self.status else self.reason
        return f"{self.method} {self.path}: {answer}: {self.message}"


class RetryableError(KubeError):
    """The same request may succeed later."""


class Conflict(RetryableError):
    """The object changed since it was read."""


class AlreadyExists(Conflict):
    """An object of that name exists."""


class Throttled(RetryableError):
    """The server limits us."""


class Expired(RetryableError):
    """The resource version or continue token is too old."""


class Unavailable(RetryableError):
    """No response, a server error, or a response that is not the API's."""


class TerminalError(KubeError):
    """The same request will fail again."""


class Invalid(TerminalError):
    """The object breaks a rule of the API."""


class Forbidden(TerminalError):
    """Our identity is not authorized for this."""


class Unauthorized(TerminalError):
    """The server does not know our identity."""


class NotFound(TerminalError):
    """No such object."""


class BadRequest(TerminalError):
    """The request itself is wrong."""


class KubeconfigError(Exception):
    """There is no usable configuration for reaching a cluster. The text names the problem, its place, and the next
    step.

    It may quote libraries and exec plugins; credentials in it are redacted.
    """

    def __init__(self, text: str) -> None:
        super().__init__(redacted(text))


class LeadershipLost(Exception):
    """This process may not write any more: do not retry or report, stop."""


_BY_STATUS: dict[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Throttled,
}


def error_class(status: int, reason: str = "") -> type[KubeError]:
    """Return the class for a status that is not success. Total: every integer has one."""
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return BadRequest if 400 <= status < 500 else Unavailable


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    """The part of meta/v1 Status that describes the failure."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


def error_from_status(method: str, path: str, status: int, body: bytes, headers: Mapping[str, str]) -> KubeError:
    """Return the error for an unsuccessful response.

    The Status object in the body has reason and message. A body of another kind (a proxy's HTML page) is quoted in
    part, so that the log shows what answered.
    """
    answer = _status_of(body)
    retry_after = _seconds(headers.get("Retry-After"))
    if retry_after is None and answer is not None and answer.details is not None:
        retry_after = answer.details.retry_after_seconds
    if retry_after is not None:
        retry_after = min(max(0.0, retry_after), MAX_RETRY_AFTER_SECONDS)
    if answer is None:
        quoted = body[:200].decode("utf-8", "replace").strip() or "(empty body)"
        return error_class(status)(method, path, status, "NotAStatus", quoted, retry_after)
    return error_class(status, answer.reason)(method, path, status, answer.reason, answer.message, retry_after)


def error_from_event(path: str, body: bytes) -> KubeError:
    """Return the error for an ERROR event of a watch, whose object is a Status (code 410 means relist)."""
    answer = _status_of(body)
    code = answer.code if answer is not None else 0
    return error_from_status("WATCH", path, code, body, {})


def _status_of(body: bytes) -> _Status | None:
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return answer if answer.kind == "Status" else None


def _seconds(header: str | None) -> float | None:
    """Read Retry-After. Its date form is not used by the API server and counts as absent."""
    try:
        return float(header) if header is not None else None
    except ValueError:
        return None
