"""What every request has to pass, and what every answer carries.

The page reads a cluster with a user's permissions, so no other web page may get at it. A page that has its own name
resolve to this machine (DNS rebinding) sends that name as the host; a page of another origin that has the browser send
a request is named by the browser in `Origin` and `Sec-Fetch-Site`. What the page itself loads is limited to this server
by its Content-Security-Policy, and names from the cluster are never markup.
"""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from prebinder.serving.guard import RequestRejected, guard

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""What this machine is called by itself. The port is not looked at: `kubectl port-forward` may choose another."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Server": "pvc-prebinder",
}


def page_guard(names: Collection[str]) -> Middleware:
    """Return what rejects requests that no page of ours sends: 403, 405, 421. `names` are what a host may be called."""
    return guard(lambda request: _check(request, names), headers=HEADERS)


def _check(request: web.Request, names: Collection[str]) -> None:
    host = request.headers.get("Host", "")
    if _name_in(f"//{host}") not in names:
        raise RequestRejected(421, "the Host header names another server; open the address that the command printed")
    if request.method not in {"GET", "HEAD"}:
        raise RequestRejected(405, "read only: expected GET or HEAD", {"Allow": "GET, HEAD"})
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() not in {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}:
        raise RequestRejected(403, "requests of other origins are not answered")
    # A link from elsewhere may open the page; nothing else is for other sites. Old browsers do not say.
    site, opens = request.headers.get("Sec-Fetch-Site", "none"), request.headers.get("Sec-Fetch-Mode") == "navigate"
    if site not in {"same-origin", "none"} and not (opens and request.path == "/"):
        raise RequestRejected(403, "requests of other sites are not answered")


def _name_in(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
