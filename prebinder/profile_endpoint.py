"""`GET /debug/profile?seconds=N&format=F`: looks at the process for a while and tells where its time went."""

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from kube.clock import Clock
from prebinder.control_server import Route
from prebinder.profile_report import Samples, collapsed, speedscope, table
from prebinder.profiling import LONGEST_SECONDS, Sampler

DEFAULT_SECONDS: Final = 10
PATH: Final = "/debug/profile"

_FORMATS: Final[Mapping[str, tuple[Callable[[Samples], str], str]]] = {
    "table": (table, "text/plain"),
    "collapsed": (collapsed, "text/plain"),
    "speedscope": (speedscope, "application/json"),
}
FORMATS: Final = tuple(_FORMATS)


class ProfileEndpoint:
    """Profiles the thread it is asked in. One at a time: each would see the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running = False

    def route(self) -> Route:
        return Route("GET", PATH, self._profile)

    async def _profile(self, request: web.Request) -> web.Response:
        seconds, form = _read(request.query)
        if self._running:
            raise web.HTTPConflict(text="another profile is being taken; ask again when it is done")
        self._running = True
        try:
            with Sampler() as sampler:
                await self._clock.sleep(seconds)
        finally:
            self._running = False
        render, content_type = _FORMATS[form]
        return web.Response(text=render(sampler.samples(seconds)), content_type=content_type)


def _read(query: Mapping[str, str]) -> tuple[int, str]:
    unknown = sorted(set(query) - {"seconds", "format"})
    if unknown:
        raise web.HTTPBadRequest(text=f'unknown parameter "{unknown[0][:60]}": expected seconds or format')
    seconds, form = query.get("seconds", str(DEFAULT_SECONDS)), query.get("format", FORMATS[0])
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 3 and 1 <= int(seconds) <= LONGEST_SECONDS):
        raise web.HTTPBadRequest(text=f'seconds must be 1 to {LONGEST_SECONDS}, is "{seconds[:60]}"')
    if form not in _FORMATS:
        raise web.HTTPBadRequest(text=f'format must be {" or ".join(FORMATS)}, is "{form[:60]}"')
    return int(seconds), form
