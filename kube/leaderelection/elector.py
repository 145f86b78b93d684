"""Holds a Lease so that only one of several processes is active, and stops the work before another may begin.

Every request has a deadline below the renew deadline, no error of the transport ends the election, the work is
cancelled at the deadline by the monotonic clock, and the Lease is released on exit.
"""

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from kube.client.api import KubeApi
from kube.clock import Clock, within
from kube.errors import Conflict, Invalid, KubeError, LeadershipLost, NotFound
from kube.leaderelection.leadership import Leadership
from kube.leaderelection.lease import (
    LeaseRecord,
    LeaseTiming,
    Observed,
    StandBy,
    decide,
    held_spec,
    observe,
    parse_lease,
    released_spec,
)
from kube.objects.api_resource import LEASES

if TYPE_CHECKING:
    from kube.metrics import LeaderMetrics

JITTER: Final = 1.2
"""As in client-go: waiting candidates spread their attempts over 1 to 2.2 times the retry time."""

_FAILED: Final = (KubeError, TimeoutError, msgspec.DecodeError)

logger = logging.getLogger(__name__)


def new_identity() -> str:
    """Return a name for this process that is unique, even across restarts."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """Competes for a Lease under one identity."""

    def __init__(  # noqa: PLR0913 - a composition of ports
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Clock,
        rng: Random,
        metrics: "LeaderMetrics",
        timing: LeaseTiming | None = None,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`annotations` is called at each renewal, which writes on the Lease what changed of them."""
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._timing = timing or LeaseTiming()
        self._annotations = annotations
        self._written: Mapping[str, str] = {}
        self._observed: Observed | None = None
        self._complaint = ""

    async def run(self, work: Callable[[Leadership], Awaitable[None]]) -> None:
        """Stand by, and run `work` whenever this process leads; cancel it when the Lease is lost and stand by again.

        Returns when `work` returns and raises what it raises, except LeadershipLost. When cancelled, waits for the
        cancelled work first, then releases the Lease.
        """
        while True:
            term = await self._stand_by()
            self._written = {}
            logger.info("Became leader", extra={"lease": self._lease, "transition": term.transition})
            self._metrics.leading(True)
            try:
                if await self._lead(term, work):
                    return
            finally:
                self._metrics.leading(False)
            logger.warning("Lost the lease", extra={"lease": self._lease, "transition": term.transition})

    @property
    def _lease(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _stand_by(self) -> Leadership:
        while True:
            try:
                term = await within(self._clock, self._timing.renew_deadline / 2, self._try_to_acquire())
                self._complain(None)
                if term is not None:
                    return term
            except Conflict:
                self._complain(None)
            except _FAILED as error:
                self._complain(error)
            await self._clock.sleep(self._timing.retry * (1.0 + JITTER * self._rng.random()))

    async def _try_to_acquire(self) -> Leadership | None:
        record = await self._read()
        self._observed = None if record is None else observe(self._observed, record, self._clock.monotonic())
        decision = decide(self._observed, self._identity, self._clock.monotonic())
        if isinstance(decision, StandBy):
            return None
        sent = self._clock.monotonic()
        spec = held_spec(self._identity, decision.transitions, self._clock.now(), self._timing, acquired=True)
        if record is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            raw: bytes = await self._api.create(LEASES, body, self._namespace)
        else:
            raw = await self._patch(record, spec)
        self._note(parse_lease(raw, self._timing))
        return Leadership(self._clock, self._identity, decision.transitions, self._timing, sent)

    async def _lead(self, term: Leadership, work: Callable[[Leadership], Awaitable[None]]) -> bool:
        """Run the work until it ends or the term is over. Returns whether the work ended by itself."""
        job = asyncio.ensure_future(work(term))
        renewing = asyncio.ensure_future(self._keep_renewing(term))
        try:
            await asyncio.wait({job, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not job.done():
                renewing.result()
                return False
            job.result()
        except LeadershipLost:
            return False
        finally:
            # The Lease is renewed until the work has ended, so that its last writes are still covered by it.
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            if term.held:
                await self._release()
            term.end()
        return True

    async def _keep_renewing(self, term: Leadership) -> None:
        """Renew until the term is over."""
        while True:
            await self._clock.sleep(max(0.0, min(self._timing.retry, term.left())))
            if not term.held:
                term.end()
                return
            try:
                await within(self._clock, min(term.left(), self._timing.renew_deadline / 2), self._renew(term))
                self._complain(None)
            except LeadershipLost:
                term.end()
                return
            except _FAILED as error:
                self._complain(error)

    async def _renew(self, term: Leadership) -> None:
        if self._observed is None:
            raise LeadershipLost("the lease no longer exists")
        sent = self._clock.monotonic()
        spec = held_spec(self._identity, term.transition, self._clock.now(), self._timing, acquired=False)
        news = self._unwritten_annotations()
        try:
            self._note(parse_lease(await self._patch(self._observed.record, spec, news), self._timing))
        except (Conflict, Invalid) as error:
            # It was changed: by another holder, by a person who added a label, or by our own write whose response was
            # lost.
            record = await self._read()
            if record is None or record.holder != self._identity:
                raise LeadershipLost("another process holds the lease") from None
            self._note(record)
            again = news if isinstance(error, Conflict) else {}
            self._note(parse_lease(await self._patch(record, spec, again), self._timing))
        except NotFound:
            raise LeadershipLost("the lease was deleted") from None
        term.renew(sent)

    def _unwritten_annotations(self) -> Mapping[str, str]:
        """Return the annotations that changed. Each is sent once: one that is rejected must not cost the lease."""
        before, self._written = self._written, dict(self._annotations())
        return {key: text for key, text in self._written.items() if before.get(key) != text}

    async def _release(self) -> None:
        """Release the Lease, so that the next holder need not wait. Best effort: otherwise it expires."""

        async def release() -> None:
            record = await self._read()
            if record is not None and record.holder == self._identity:
                await self._patch(record, released_spec(self._clock.now()))

        try:
            await within(self._clock, self._timing.renew_deadline / 2, release())
        except _FAILED as error:
            logger.warning("Lease release failed", extra={"lease": self._lease, "error": str(error)})

    async def _read(self) -> LeaseRecord | None:
        try:
            return parse_lease(await self._api.get(LEASES, self._name, self._namespace), self._timing)
        except NotFound:
            return None

    async def _patch(
        self, record: LeaseRecord, spec: dict[str, object], annotations: Mapping[str, str] | None = None
    ) -> bytes:
        return await self._api.conditional_patch(
            LEASES,
            self._name,
            {"spec": spec, "metadata": {"annotations": annotations}} if annotations else {"spec": spec},
            resource_version=record.resource_version,
            namespace=self._namespace,
        )

    def _note(self, record: LeaseRecord) -> None:
        self._observed = observe(self._observed, record, self._clock.monotonic())

    def _complain(self, error: Exception | None) -> None:
        """Log a failure when it is new; repeating it every two seconds adds nothing."""
        complaint = str(error) if error is not None else ""
        if complaint and complaint != self._complaint:
            logger.warning("Lease request failed", extra={"lease": self._lease, "error": complaint})
        self._complaint = complaint
