"""What a dry run uses instead of the real thing, and how Events get into the log in any case."""

import logging
from contextlib import AbstractAsyncContextManager

from binder.reporting.announce import EventSink
from kube.client.event_recorder import EventDraft
from kube.client.transport import Request, Response, StreamResponse, Transport

logger = logging.getLogger(__name__)


class ReadOnlyTransport:
    """Lets reads through. A write that a dry run should have left out fails here instead of happening."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            raise PermissionError(f"dry run: {request.method} {request.path} refused")
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self._inner.stream(request)


class LoggedEvents:
    """Logs each Event about a pod, and hands all of them on; None for a dry run, which only logs.

    Events about claims say the same as those about their pod.
    """

    def __init__(self, sink: EventSink | None) -> None:
        self._sink = sink

    def publish(self, draft: EventDraft) -> None:
        if draft.regarding.kind == "Pod":
            pod = f"{draft.regarding.namespace}/{draft.regarding.name}"
            about = {"pod": pod, "reason": draft.reason, "note": draft.note}
            if self._sink is None:
                logger.info("Would publish Event", extra=about)
            else:
                logger.info("Published Event", extra=about)
        if self._sink is not None:
            self._sink.publish(draft)
