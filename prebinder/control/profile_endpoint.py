"""`GET /debug/profile?seconds=N&format=F`: samples the event loop's thread and reports where its time was spent."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from kube.clock import Clock
from prebinder.control.server import Route
from prebinder.runtime.profiling import CONTENT_TYPES, MAX_PROFILE_SECONDS, profiler, rendered

DEFAULT_SECONDS: Final = 10
DEFAULT_FORM: Final = "text"
PATH: Final = "/debug/profile"


class ProfileEndpoint:
    """Profiles the thread that it is called in. One profile at a time: each would include the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running = False

    def route(self) -> Route:
        return Route("GET", PATH, self._profile)

    async def _profile(self, request: web.Request) -> web.Response:
        seconds, form = _read(request.query)
        if self._running:
            raise web.HTTPConflict(text="another profile is running; retry when it is done")
        self._running = True
        try:
            with profiler() as profile:
                await self._clock.sleep(seconds)
        finally:
            self._running = False
        return web.Response(text=rendered(profile, form), content_type=CONTENT_TYPES[form])


def _read(query: Mapping[str, str]) -> tuple[int, str]:
    unknown = sorted(set(query) - {"seconds", "format"})
    if unknown:
        raise web.HTTPBadRequest(text=f'unknown parameter "{unknown[0][:60]}": expected seconds or format')
    seconds, form = query.get("seconds", str(DEFAULT_SECONDS)), query.get("format", DEFAULT_FORM)
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 3 and 1 <= int(seconds) <= MAX_PROFILE_SECONDS):
        raise web.HTTPBadRequest(text=f'seconds must be 1 to {MAX_PROFILE_SECONDS}, is "{seconds[:60]}"')
    if form not in CONTENT_TYPES:
        raise web.HTTPBadRequest(text=f'format must be {" or ".join(CONTENT_TYPES)}, is "{form[:60]}"')
    return int(seconds), form
