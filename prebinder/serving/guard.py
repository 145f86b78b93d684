"""What stands between a request and its handler: a check, and rejections as one line of text."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestRejected(Exception):
    """A request is rejected. The text has the reason, for people."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


def guard(
    check: Callable[[web.Request], None], expected_paths: str = "", headers: Mapping[str, str] | None = None
) -> Middleware:
    """Return what rejects requests for which `check` raises RequestRejected; a bug in a handler becomes a 500.

    Each rejection has the `headers`; one of an unknown path names the expected ones.
    """

    def rejected(status: int, text: str, more: Mapping[str, str] | None = None) -> web.Response:
        return web.Response(status=status, text=f"{text}\n", headers={**(headers or {}), **(more or {})})

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check(request)
            return await handler(request)
        except RequestRejected as error:
            return rejected(error.status, str(error), error.headers)
        except web.HTTPNotFound:
            hint = f": expected {expected_paths}" if expected_paths else ""
            return rejected(404, f"there is no {request.path[:80]}{hint}")
        except web.HTTPMethodNotAllowed as error:
            allowed = error.headers["Allow"]
            return rejected(405, f"expected {' or '.join(allowed.split(','))}", {"Allow": allowed})
        except web.HTTPException as error:
            return rejected(error.status, error.text or error.reason)
        except Exception:
            logger.exception("Request failed", extra={"path": request.path[:80]})
            return rejected(500, "this is a bug in pvc-prebinder; the traceback is in its log")

    return middleware
