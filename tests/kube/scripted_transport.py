"""A Transport that answers from functions, and the JSON an API server would send."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from kube.client.transport import Request, Response, StreamResponse
from kube.errors import KubeError

Answer = Response | KubeError
Step = bytes | BaseException | Callable[[], Any]
"""A line, an error to raise, or something to await (a clock's sleep, say) before the next step."""


def answer(status: int, body: object, **headers: str) -> Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, content, {name.replace("_", "-"): value for name, value in headers.items()})


def failure(code: int, reason: str, message: str = "no", retry_after: float | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"kind": "Status", "code": code, "reason": reason, "message": message}
    if retry_after is not None:
        status["details"] = {"retryAfterSeconds": retry_after}
    return status


def thing(name: str, version: int, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """An object of any kind."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, **fields}


def listing(version: int, *items: object, following: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(items)}


def event(kind: str, item: object) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()


class ScriptedTransport:
    """Records every request. `send` asks `respond`, `stream` asks `follow` for a status and its steps."""

    def __init__(
        self,
        respond: Callable[[Request], Answer],
        follow: Callable[[Request], tuple[int, Iterable[Step]]] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._respond = respond
        self._follow = follow

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self._respond(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        assert self._follow is not None
        self.requests.append(request)
        status, steps = self._follow(request)
        yield StreamResponse(status, _play(steps))

    @property
    def watches(self) -> list[Request]:
        return [request for request in self.requests if ("watch", "true") in request.query]

    @property
    def lists(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET" and request not in self.watches]


async def _play(steps: Iterable[Step]) -> AsyncIterator[bytes]:
    for step in steps:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, bytes):
            yield step
        else:
            await step()


def query(request: Request, name: str) -> str:
    """The value of a query parameter, empty when it is absent."""
    return dict(request.query).get(name, "")
