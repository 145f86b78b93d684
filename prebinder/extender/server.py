"""Serves the extender over HTTP: three verbs, a limit on everything, and an exact status code for each error.

200 a result; 400 not what kube-scheduler sends; 408 the body did not arrive in time; 413 it is too large; 503 the
cluster has not been read yet. kube-scheduler treats everything but 200 as a failure of the extender, and reports the
code but not the text (`send` in pkg/scheduler/extender.go): that is logged here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final, Protocol, Self

from aiohttp import web

from kube.clock import Clock
from prebinder.metrics.extender import ExtenderMetrics
from prebinder.serving.bodies import BODY_SECONDS, Bodies
from prebinder.serving.health_server import Check
from prebinder.serving.listening import listen
from prebinder.serving.serving_certificate import ServingCertificate
from scheduler.extender.extender import Answer
from scheduler.extender.wire import MalformedRequest

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""A pod has at most 1.5 MiB; that leaves room for 10,000 nodes with the longest possible names. With 5,000 nodes a body
has some 100 KiB."""
REPORT_SECONDS: Final = 60.0
"""From one log line about a verb and code to the next: kube-scheduler may send hundreds of requests a second."""
RECHECK_SECONDS: Final = 0.05
"""How long a filter that would leave no node waits before it is answered from what is known by then. At a change
kube-scheduler tries rejected pods at once (feature SchedulerPopFromBackoffQ, since 1.33), often before we have seen
that change; a pod that is rejected again waits for the next change, or five minutes
(`flushUnschedulableEntitiesLeftover` in pkg/scheduler/backend/queue/scheduling_queue.go)."""
RECHECK_INTERVAL_SECONDS: Final = 0.5
"""From one such wait to the next: kube-scheduler places one pod at a time, and where many are rejected, changes follow
each other."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen. Host empty: every address; port 0: any free one; without a certificate plain HTTP."""

    host: str
    port: int
    certificate: ServingCertificate | None = None
    body_seconds: float = BODY_SECONDS


class Answers(Protocol):
    """The verbs, which all raise MalformedRequest; `step` prepares a part of what they need, and returns whether that
    was all.
    """

    def step(self, now: datetime) -> bool: ...

    def filter(self, body: bytes, now: datetime) -> Answer: ...

    def prioritize(self, body: bytes, now: datetime) -> Answer: ...

    def preempt(self, body: bytes, now: datetime) -> Answer: ...


class ExtenderServer:
    """Serves while in `async with`. `port` is the port it listens on."""

    def __init__(
        self,
        answers: Answers,
        not_ready: Check,
        listening: Listening,
        clock: Clock,
        metrics: ExtenderMetrics,
    ) -> None:
        """`not_ready` returns why requests cannot be answered yet, None if they can."""
        self._not_ready = not_ready
        self._listening = listening
        self._clock = clock
        self._metrics = metrics
        self._step = answers.step
        self._verbs = {"filter": answers.filter, "prioritize": answers.prioritize, "preempt": answers.preempt}
        self._open = AsyncExitStack()
        self._leaving = False
        self._next_reports: dict[tuple[str, int], float] = {}
        self._next_recheck = 0.0
        self._bodies = Bodies(listening.body_seconds)
        self.port = 0

    async def __aenter__(self) -> Self:
        """Start serving. Raises OSError if the address is not available."""
        application = web.Application()
        application.add_routes([web.post(f"/{verb}", self._handler(verb)) for verb in self._verbs])
        to = self._listening
        context = to.certificate.context if to.certificate is not None else None
        # kube-scheduler does not compress; another client could send little that expands to much.
        self.port = await listen(self._open, application, (to.host, to.port), context, auto_decompress=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def leave(self) -> None:
        """From now on close each connection after its response: the next request goes to another replica."""
        self._leaving = True

    def _handler(self, verb: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            began, code = self._clock.monotonic(), 0
            self._metrics.began(verb)
            try:
                response = await self._respond(verb, request)
                code = response.status
                if self._leaving:
                    response.force_close()
            except web.HTTPException as error:
                code = error.status
                self._report(verb, code, error.text or error.reason)
                raise
            except ConnectionError:
                self._report(verb, code, "the client disconnected before there was a response")
                raise
            finally:
                # 0: the client disconnected before there was a response.
                self._metrics.answered(verb, code, self._clock.monotonic() - began)
            return response

        return handler

    async def _respond(self, verb: str, request: web.Request) -> web.Response:
        problem = self._not_ready()
        if problem is not None:
            return self._rejected(verb, HTTPStatus.SERVICE_UNAVAILABLE, problem)
        try:
            body = await self._bodies.read(request, MAX_BODY_BYTES)
        except web.HTTPException as error:
            return self._rejected(verb, HTTPStatus(error.status), error.text or error.reason)
        try:
            answer = await self._answer(verb, body)
        except MalformedRequest as error:
            return self._rejected(verb, HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            logger.exception("Request failed", extra={"verb": verb})
            text = "this is a bug in pvc-prebinder; the traceback is in its log"
            return _rejection(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        self._metrics.looked_at(verb, answer.nodes_in, answer.nodes_out)
        return web.Response(body=answer.body, content_type="application/json")

    async def _answer(self, verb: str, body: bytes) -> Answer:
        answer = await self._answer_now(verb, body)
        if verb == "filter" and answer.nodes_in and not answer.nodes_out and self._may_look_again():
            await self._clock.sleep(RECHECK_SECONDS)
            return await self._answer_now(verb, body)
        return answer

    async def _answer_now(self, verb: str, body: bytes) -> Answer:
        """Prepare what the answer needs, while other requests and the watches have their turn in between."""
        now = self._clock.now()
        while not self._step(now):
            await asyncio.sleep(0)
            now = self._clock.now()
        return self._verbs[verb](body, now)

    def _may_look_again(self) -> bool:
        now = self._clock.monotonic()
        may = now >= self._next_recheck
        if may:
            self._next_recheck = now + RECHECK_INTERVAL_SECONDS
        return may

    def _rejected(self, verb: str, status: HTTPStatus, text: str) -> web.Response:
        self._report(verb, status, text)
        return _rejection(status, text)

    def _report(self, verb: str, code: int, text: str) -> None:
        """Log what kube-scheduler does not: the cause. Once a minute is enough for each verb and code."""
        now = self._clock.monotonic()
        if now >= self._next_reports.get((verb, code), now):
            self._next_reports[verb, code] = now + REPORT_SECONDS
            logger.warning("Request failed", extra={"verb": verb, "code": int(code), "error": text})


def _rejection(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
