"""Requests to the API server, and probes of volumes, as steps of the attempt that they are made for."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta

from binder.reporting.tracing import Tracing
from binder.writers.health_gate import Probes
from csi.health.verdict import Verdict
from kube.client.transport import Request, Response, StreamResponse, Transport


class TracedTransport:
    """A transport whose requests are traced. Watches belong to no attempt."""

    def __init__(self, inner: Transport, tracing: Tracing) -> None:
        self._inner, self._tracing = inner, tracing

    async def send(self, request: Request) -> Response:
        """Send it. Names and values follow OpenTelemetry's conventions for HTTP clients."""
        about = {"http.request.method": request.method, "url.path": request.path}
        with self._tracing.step(f"{request.method} {kind_in(request.path)}", about, remote=True) as span:
            response = await self._inner.send(request)
            span.note({"http.response.status_code": response.status})
            return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)


class TracedProbes:
    """Probes that are traced, each with its verdict."""

    def __init__(self, inner: Probes, tracing: Tracing) -> None:
        self._inner, self._tracing = inner, tracing

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        with self._tracing.step("probe volume", {"csi.driver": driver, "csi.volume": handle}, remote=True) as span:
            verdict = await self._inner.verdict(driver, handle, max_age)
            span.note({"health": verdict.state.value, "reason": verdict.reason})
            return verdict

    def silent(self) -> Mapping[str, Verdict]:
        return self._inner.silent()

    def listening(self, listener: Callable[[str], None], /) -> AbstractContextManager[None]:
        return self._inner.listening(listener)


def kind_in(path: str) -> str:
    """Return the plural of the kind that a path of the API is about, such as `pods`."""
    parts = path.strip("/").split("/")
    within = parts[2:] if parts[0] == "api" else parts[3:]
    if within[0] == "namespaces" and len(within) > 2:
        within = within[2:]
    return within[0]
