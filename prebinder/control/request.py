"""What every request to the control port is checked for: the right host, the token, and a body within its limits."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from prebinder.serving.bodies import Bodies

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def guard(token: Callable[[], str], hosts: Callable[[], Container[str]], paths: Sequence[str]) -> Middleware:
    """Return the middleware that rejects requests: 421 for another host, 401 without the token; a bug in a handler
    becomes a 500.

    `token` returns the valid one. A web page that made its own name resolve to this machine (DNS rebinding) sends that
    name as the host.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "").lower() not in hosts():
            return rejected(421, "Host must be the listen address")
        shown = request.headers.get("Authorization", "").encode(errors="replace")
        if not secrets.compare_digest(shown, f"Bearer {token()}".encode()):
            text = "expected the header Authorization: Bearer TOKEN, the token in the scheduler's --control-token-file"
            return rejected(401, text, {"WWW-Authenticate": "Bearer"})
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return rejected(404, f"there is no {request.path[:60]}: expected {' or '.join(paths)}")
        except web.HTTPMethodNotAllowed as error:
            allowed = error.headers["Allow"]
            return rejected(405, f"expected {' or '.join(allowed.split(','))}", {"Allow": allowed})
        except web.HTTPException as error:
            return rejected(error.status, error.text or error.reason)
        except Exception:
            logger.exception("Request failed", extra={"path": request.path})
            return rejected(500, "this is a bug in pvc-prebinder; the traceback is in its log")

    return middleware


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


def rejected(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a rejection as a line of text."""
    return web.Response(status=status, text=f"{text}\n", headers=headers)
