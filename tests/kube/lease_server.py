"""An API server that holds one Lease, keeps resource versions honestly, and can be down or silent."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from kube.client.transport import Request, Response, StreamResponse
from kube.errors import Unavailable
from tests.fake_clock import FakeClock
from tests.kube.scripted_transport import answer, failure


class LeaseServer:
    """`state`: up, down (connections rejected), silent (accepts and never answers), deaf (writes, never answers).

    `annotations` are what was written on the Lease; a write of a `rejected` key is answered with `rejection`.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.state: Literal["up", "down", "silent", "deaf"] = "up"
        self.lease: dict[str, Any] | None = None
        self.requests: list[Request] = []
        self.annotations: dict[str, str] = {}
        self.rejected: set[str] = set()
        self.rejection: tuple[int, object] = (422, failure(422, "Invalid"))
        self._clock = clock
        self._version = 100

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def write(self, **spec: Any) -> None:
        """Write the lease as another client would."""
        held = self.lease or {"metadata": {"name": "l", "labels": {"kept": "yes"}}, "spec": {}}
        self._version += 1
        metadata = {**held["metadata"], "resourceVersion": str(self._version)}
        self.lease = {"metadata": metadata, "spec": {**held["spec"], **spec}}

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.state == "down":
            raise Unavailable(request.method, request.path, 0, "ClientConnectorError", "rejected")
        if self.state == "silent":
            await self._clock.sleep(10_000)
        answer = self._answer(request)
        if self.state == "deaf":
            await self._clock.sleep(10_000)
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError

    def _answer(self, request: Request) -> Response:
        if self.lease is None and request.method != "POST":
            return answer(404, failure(404, "NotFound"))
        if request.method == "GET":
            return answer(200, self.lease)
        body = json.loads(request.body or b"")
        if request.method == "POST":
            if self.lease is not None:
                return answer(409, failure(409, "AlreadyExists"))
        elif body["metadata"]["resourceVersion"] != str(self._version):
            return answer(409, failure(409, "Conflict"))
        annotations = body["metadata"].get("annotations", {})
        if self.rejected & annotations.keys():
            return answer(*self.rejection)
        self.write(**body["spec"])
        self.annotations.update(annotations)
        return answer(200, self.lease)
