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
    """One HTTP request. `timeout` is in seconds: for `send` of the whole exchange, for `stream` of each silence.

    An `urgent` one does not wait until others have been answered: a renewal of the Lease.
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
    """A complete answer, whatever its status. Header names are looked up in any case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class StreamResponse(Struct, frozen=True):
    """An answer that is still arriving. `lines` yields each line without its end, and an unended rest last."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Sends requests. Raises kube.errors.Unavailable when there is no answer; judges no status."""

    async def send(self, request: Request) -> Response:
        """Return the complete answer."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        """Return the answer as soon as its headers are there."""
