"""What every request to the control port is checked for: the right host, the token, and a body within its limits."""

import secrets
from collections.abc import Callable, Container, Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from prebinder.serving.bodies import Bodies
from prebinder.serving.guard import RequestRejected, guard


def control_guard(token: Callable[[], str], hosts: Callable[[], Container[str]], paths: Sequence[str]) -> Middleware:
    """Return what rejects requests: 421 for another host, 401 without the token.

    `token` returns the valid one. A web page that made its own name resolve to this machine (DNS rebinding) sends that
    name as the host.
    """

    def check(request: web.Request) -> None:
        if request.headers.get("Host", "").lower() not in hosts():
            raise RequestRejected(421, "Host must be the listen address")
        shown = request.headers.get("Authorization", "").encode(errors="replace")
        if not secrets.compare_digest(shown, f"Bearer {token()}".encode()):
            text = "expected the header Authorization: Bearer TOKEN, the token in the scheduler's --control-token-file"
            raise RequestRejected(401, text, {"WWW-Authenticate": "Bearer"})

    return guard(check, " or ".join(paths))


async def read_body(request: web.Request, largest: int, types: Sequence[str]) -> bytes:
    """Return the body: of one of the types, not compressed, at most `largest` bytes.

    Raises an HTTPException: 400 if it is not well-formed HTTP, 408, 413 or 415.
    """
    # aiohttp would take a missing type for application/octet-stream.
    if request.headers.get("Content-Type") is None or request.content_type not in types:
        raise web.HTTPUnsupportedMediaType(text=f"expected Content-Type {' or '.join(types)}")
    if "Content-Encoding" in request.headers:
        raise web.HTTPUnsupportedMediaType(text="expected no Content-Encoding")
    return await Bodies().read(request, largest)
