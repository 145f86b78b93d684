"""The one seam between this program and the network: a request goes in, a response or a stream of lines comes out.

A test implements Transport with a function; the program uses kube.client.connect.KubernetesTransport.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct, field

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


class Request(Struct, frozen=True):
    """An HTTP request. `timeout` is in seconds: for `send` of the whole exchange, for `stream` of each silence.

    An `urgent` request does not wait for others to be answered: a renewal of the Lease.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout: float = 30.0
    urgent: bool = False


class Response(Struct, frozen=True):
    """A complete response, whatever its status. Header names are case-insensitive."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class StreamResponse(Struct, frozen=True):
    """A response that is still arriving. `lines` yields each line without its end, and an unterminated rest last."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Sends requests. Raises kube.errors.Unavailable if there is no response; does not interpret the status."""

    async def send(self, request: Request) -> Response:
        """Return the complete response."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        """Return the response as soon as its headers have arrived."""
