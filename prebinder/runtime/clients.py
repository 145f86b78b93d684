"""The API server with the user's limits: at which rate, and with which credentials."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kube.client.api import KubeApi
from kube.client.rate_limit import RateLimit
from kube.client.transport import Transport
from kube.clock import Clock
from kube.leaderelection.leadership import Leadership
from kube.metrics import RequestMetrics
from kube.objects.api_resource import LEASES
from prebinder.config.settings import ClusterSettings

CONNECTIONS: Final = 16
CONNECT_SECONDS: Final = 2.0
"""Spent at most on opening connections before they are needed."""
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Clients:
    """Creates the APIs of a process. Each has the whole rate for itself, so that none waits for another."""

    transport: Transport
    clock: Clock
    settings: ClusterSettings
    metrics: RequestMetrics

    def api(self) -> KubeApi:
        """Return an API for reading and for Events."""
        return KubeApi(self.transport, rate=self._rate())

    def for_lease(self) -> KubeApi:
        """Return an API for the Lease: a renewal waits for nothing else, neither for a token nor to be sent."""
        return KubeApi(self.transport, rate=self._rate(), urgent=True)

    def fenced(self, leadership: Leadership) -> KubeApi:
        """Return an API that writes only as long as this process leads."""
        return KubeApi(self.transport, rate=self._rate(), fence=leadership.fence)

    async def connect_ahead(self, lease: str, namespace: str, seconds: float = CONNECT_SECONDS) -> None:
        """Open connections for the first pods of a burst, by reading the Lease: for them alone a burst would be 0.2 s
        late. Renewals of the Lease then use them in turn, which keeps them open.

        Until a first volume is written the PV controller spends one of its 20 requests a second on an Event about each
        claim that it sees.
        """
        api, most = self.for_lease(), min(CONNECTIONS, self.settings.burst)
        reads = [asyncio.ensure_future(api.get(LEASES, lease, namespace)) for _ in range(most)]
        # Nothing depends on it.
        _, late = await asyncio.wait(reads, timeout=seconds)
        for read in late:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)

    def _rate(self) -> RateLimit:
        return RateLimit(self.clock, self.metrics, qps=self.settings.qps, burst=self.settings.burst)


def own_namespace() -> str:
    """Return the pod's namespace; outside a cluster, one that every cluster has."""
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "kube-system"
