"""Executes faults: each begins, lasts, and is undone; none leaves anything behind."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

from devcluster.errors import ClusterError, ComponentFailedError
from devcluster.processes.component import Component
from soak.schedule import GATEWAY_KINDS, NETWORK_KINDS, Operation
from soak.stage.gateway import Gateway
from soak.stage.network import Network
from soak.stage.replica import Replica
from soak.stage.stage import Stage

_RESTART_SECONDS: Final = 120.0


class Faults:
    """Harms a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._down: set[str] = set()
        self.done: Counter[str] = Counter()

    async def carry_out(self, fault: Operation) -> None:
        """Let a fault begin, last and end."""
        verb, _, subject = fault.kind.partition("-")
        if fault.kind in NETWORK_KINDS:
            number = int(fault.subject)
            if fault.kind in GATEWAY_KINDS:
                await self._gateway(fault, self._stage.gateways[number])
            else:
                await self._network(fault, self._stage.networks[number])
        elif subject in {"leader", "standby", "scheduler"}:
            replica = await self._replica(subject)
            if replica is None:
                return
            await self._process(verb, replica, fault.seconds)
        elif subject == "driver":
            await self._driver(verb, fault.seconds)
        elif subject == "provisioner":
            await self._provisioner(verb, fault.seconds)
        else:
            await self._component(verb, self._named(subject), fault.seconds)
        self.done[fault.kind] += 1

    async def _replica(self, role: str) -> Replica | None:
        if role == "scheduler":
            return self._stage.schedulers[0]
        leading = {replica.name: await replica.leads() for replica in self._stage.replicas}
        return next((each for each in self._stage.replicas if leading[each.name] == (role == "leader")), None)

    def _named(self, subject: str) -> Component:
        cluster = self._stage.cluster
        return {
            "api-server": cluster.apiserver,
            "etcd": cluster.etcd,
            "controller-manager": cluster.controller_manager,
            "kube-scheduler": cluster.scheduler,
        }[subject]

    async def _process(self, verb: str, replica: Replica, seconds: float) -> None:
        if verb == "pause":
            async with _paused(replica.component):
                await asyncio.sleep(seconds)
            return
        await (replica.kill() if verb == "kill" else replica.stop())
        await asyncio.sleep(seconds)
        await replica.start()

    async def _component(self, verb: str, component: Component, seconds: float) -> None:
        if verb == "pause":
            async with _paused(component):
                await asyncio.sleep(seconds)
            return
        self._down.add(component.name)
        await (component.kill() if verb == "kill" else component.stop())
        await asyncio.sleep(seconds)
        await component.start(_RESTART_SECONDS)
        self._down.discard(component.name)

    async def revive(self) -> None:
        """Start what ended by itself, as the kubelet does. kube-scheduler exits if it finds its cache corrupted, after
        outages in which pods were created again (UpdatePod and RemovePod in scheduler/backend/cache/cache.go).
        """
        for component in self._stage.cluster.components():
            if not component.running and component.name not in self._down:
                with suppress(ComponentFailedError):
                    await component.start(_RESTART_SECONDS)
                    self.done[f"revive-{component.name}"] += 1

    async def _driver(self, verb: str, seconds: float) -> None:
        driver = self._stage.driver
        if driver is None:
            return
        driver.begin(verb)
        if verb in {"pause", "kill"}:
            await self._component(verb, driver.process, seconds)
        else:
            await asyncio.sleep(seconds)
        driver.end()

    async def _provisioner(self, verb: str, seconds: float) -> None:
        pools = self._stage.pools
        if pools is None or not pools.provisioner.running:
            return
        if verb == "pause":
            async with _paused(pools.provisioner):
                await asyncio.sleep(seconds)
            return
        await pools.disturb()
        await asyncio.sleep(seconds)
        await pools.recover()

    async def _gateway(self, fault: Operation, gateway: Gateway) -> None:
        gateway.begin(fault.kind, f"{fault.at}", float(fault.detail))
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            gateway.recover()

    async def _network(self, fault: Operation, network: Network) -> None:
        try:
            if fault.kind == "slow":
                network.delay = float(fault.detail)
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "lag":
                network.lag(Random(fault.detail))
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "silent":
                network.fall_silent()
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "cutting":
                for _ in range(round(fault.seconds / float(fault.detail))):
                    network.cut()
                    await asyncio.sleep(float(fault.detail))
            else:
                network.cut()
        finally:
            network.recover()


@asynccontextmanager
async def _paused(component: Component) -> AsyncIterator[None]:
    component.pause()
    try:
        yield
    finally:
        component.resume()


async def _drivers_well(stage: Stage) -> None:
    if stage.driver is not None:
        stage.driver.heal()
    if stage.pools is not None:
        await stage.pools.recover()


async def all_well(stage: Stage) -> None:
    """Restart whatever does not run, so that the cluster can settle."""
    for network in stage.networks:
        network.recover()
    for gateway in stage.gateways:
        gateway.recover()
    for component in stage.cluster.components():
        component.resume()
        if not component.running:
            await component.start(_RESTART_SECONDS)
    await _drivers_well(stage)
    for replica in stage.processes:
        if replica.component.running:
            replica.component.resume()
        elif not replica.wanted:
            await replica.start()
    if not all(component.running for component in stage.cluster.components()):
        raise ClusterError("the control plane does not recover")
