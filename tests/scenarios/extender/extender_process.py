"""The real command `pvc-prebinder extender` beside a real kube-scheduler that asks it over TLS, both of one story."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devcluster.credentials.certificates import Authority
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from tests.scenarios.environment.documents import Document
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import account


class ExtendedScheduler:
    """A story's own kube-scheduler and extender. `name` is for pods' schedulerName."""

    def __init__(self, world: World, name: str, scheduler: Component, extender: Component, health: str) -> None:
        self.world, self.name = world, name
        self.scheduler, self.extender = scheduler, extender
        self._health = health

    async def is_ready(self) -> bool:
        """What the extender's readiness probe says."""
        return await answers_ok(f"http://{self._health}/readyz")

    async def ended(self) -> bool:
        """Whether the extender's process is gone."""
        return not self.extender.running

    async def pod(self, name: str, claims: dict[str, Document], *, gated: bool = False, **spec: Any) -> None:
        """Create claims (name -> spec) and a pod of this scheduler; `spec` is laid over the pod's."""
        await self.world.pod(name, claims, gated=gated, extra={"schedulerName": self.name, **spec})

    async def rejections(self, pod: str) -> list[str]:
        """What kube-scheduler said about a pod that it could not place."""
        events = await self.world.admin.list("Event", self.world.namespace)
        return [
            event["note"]
            for event in events
            if event["reason"] == "FailedScheduling" and event["regarding"]["name"] == pod
        ]


@asynccontextmanager
async def extended_scheduler(world: World, timeout: str, delay: str = "0s") -> AsyncIterator[ExtendedScheduler]:
    """Start both; stop them at the end. The extender admits clients of the story's own authority only.

    `timeout` is how long kube-scheduler waits for an answer before it goes on without it, `delay` how long the extender
    answers after SIGTERM.
    """
    name = f"{world.namespace}-scheduler"
    files = world.cluster.directory / f"{name}-tls"
    files.mkdir()
    authority = Authority(files, datetime.now(UTC))
    address, health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(3))
    extender = await start_extender(world, authority, address, health, metrics, delay)
    scheduler = await world.cluster.start_scheduler(name, _configuration(authority, address, timeout))
    yield ExtendedScheduler(world, name, scheduler, extender, health)
    await scheduler.stop()
    await extender.stop()


async def start_extender(
    world: World, authority: Authority, address: str, health: str, metrics: str, delay: str = "0s"
) -> Component:
    """Start the extender, which admits clients of this authority only."""
    serving = authority.serving("extender")
    command: list[str | Path] = [sys.executable, "-m", "prebinder.cli", "extender"]
    command += [f"--kubeconfig={await account(world.cluster)}", f"--annotation-prefix={world.prefix}"]
    command += [f"--bind-address={address}", f"--health-bind-address={health}", f"--metrics-bind-address={metrics}"]
    command += [f"--tls-cert-file={serving.certificate}", f"--tls-key-file={serving.key}"]
    command += [f"--client-ca-file={authority.certificate}", f"--shutdown-delay-duration={delay}"]
    return await world.cluster.start_component(
        f"{world.namespace}-extender", command, lambda: answers_ok(f"http://{health}/readyz")
    )


def _configuration(authority: Authority, address: str, timeout: str) -> Document:
    client = authority.client("kube-scheduler")
    extender = {
        "urlPrefix": f"https://{address}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 5,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": timeout,
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": str(authority.certificate),
            "certFile": str(client.certificate),
            "keyFile": str(client.key),
        },
    }
    return {"extenders": [extender]}
