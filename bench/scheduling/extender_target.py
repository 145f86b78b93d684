"""A server to be measured, on a port that it prints: `python -m bench.scheduling.extender_target ours|echo NODES`.

It ends with its standard input.

`echo` reads the same JSON with the same library and writes a response of the same form, but evaluates nothing: every
node passes, every score is 0, and a pod without claims gets none.
"""

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from binder.reservation.contract import DEFAULT_PREFIX, Annotations, Holder, VolumeReservation
from devcluster.control_plane.nodes import DEFAULT_ZONES
from devcluster.processes.ports import LOOPBACK
from kube.clock import SystemClock
from kube.objects import model
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import SELECTED_NODE
from kube.rules.quantity import parse_quantity
from kube.rules.topology import HOSTNAME_LABEL, ZONE_LABEL
from kube.store.store import Store
from prebinder.extender.server import Answers, ExtenderServer, Listening
from prebinder.metrics.extender import ExtenderMetrics
from prebinder.metrics.process import new_registry
from prebinder.runtime.informers import calm_collector
from scheduler.extender.extender import Answer, Extender
from scheduler.extender.wire import HostPriority, filter_result, preemption_result, priorities, read, read_preemption

VOLUMES: Final = 10_000
HELD: Final = 500
"""So many volumes are reserved for others' claims; those of zone-a are the smallest there."""
PLAIN, RESERVED, LOCAL, MADE = "plain", "reserved", "local", "made"
"""Claims: without a reservation; with one; of a class whose volumes are local, one on each node; of a class whose
volumes are made, in a pool on each node.
"""
FLYING: Final = 4
"""Claims in flight in each pool."""
POOLS: Final = "pools.csi.example"
_SOON: Final = timedelta(hours=1)


class Echo:
    """The verbs without any evaluation."""

    def step(self, now: datetime) -> bool:  # noqa: ARG002
        return True

    def filter(self, body: bytes, now: datetime) -> Answer:  # noqa: ARG002
        candidates = read(body)
        return Answer(filter_result(candidates, {}), len(candidates.names), len(candidates.names))

    def prioritize(self, body: bytes, now: datetime) -> Answer:  # noqa: ARG002
        candidates = read(body)
        scored = candidates.names if candidates.claims else ()
        scores = priorities([HostPriority(name, 0) for name in scored])
        return Answer(scores, len(candidates.names), len(scored))

    def preempt(self, body: bytes, now: datetime) -> Answer:  # noqa: ARG002
        request = read_preemption(body)
        return Answer(preemption_result(request, {}), len(request.victims), len(request.victims))


def ours(nodes: int, now: datetime) -> Extender:
    """Return an extender with a cluster of so many nodes, whose reservations were made at `now`."""
    store = Store(DEFAULT_PREFIX)
    extender = Extender(store, Annotations())
    made = msgspec.structs.replace(_class(MADE), provisioner=POOLS)
    store.classes.replace((*(_class(name) for name in ("zonal", "local")), made), "1")
    store.nodes.replace((_node(number) for number in range(nodes)), "1")
    store.volumes.replace((*_zonal_volumes(now), *(_local_volume(number) for number in range(nodes))), "1")
    store.csi_drivers.replace([model.CSIDriver(POOLS, POOLS, 1, attach_required=False, storage_capacity=True)], "1")
    store.csi_nodes.replace((_csi_node(number) for number in range(nodes)), "1")
    store.capacities.replace((_report(number) for number in range(nodes)), "1")
    flying = (_in_flight(number, each) for number in range(nodes) for each in range(FLYING))
    store.claims.replace((*(_claim(name, now) for name in (PLAIN, RESERVED, LOCAL)), _made(MADE, ""), *flying), "1")
    return extender


def _csi_node(number: int) -> model.CSINode:
    name = f"node-{number}"
    return model.CSINode(name, f"csi-{name}", 1, (model.NodeDriver(POOLS, name, (HOSTNAME_LABEL,)),))


def _report(number: int) -> model.CSIStorageCapacity:
    """What the pool of a node reports: less than every second one has in flight and the pod needs."""
    size = parse_quantity("100Gi" if number % 2 else "41Gi")
    where = LabelSelector(((HOSTNAME_LABEL, f"node-{number}"),))
    return model.CSIStorageCapacity("driver", f"pool-{number}", f"pool-{number}", 1, MADE, where, size)


def _in_flight(number: int, each: int) -> model.Claim:
    return _made(f"flying-{number}-{each}", f"node-{number}")


def _made(name: str, node: str) -> model.Claim:
    flying = {SELECTED_NODE: node, DEFAULT_PREFIX + "selected-at": "2026-03-01T09:30:00Z"} if node else {}
    size, modes = parse_quantity("10Gi"), (model.READ_WRITE_ONCE,)
    return model.Claim("default", name, name, 1, MADE, size, modes, annotations=tuple(sorted(flying.items())))


def _class(name: str) -> model.StorageClass:
    return model.StorageClass(
        name, name, 1, provisioner=model.NO_PROVISIONER, binding_mode=model.WAIT_FOR_FIRST_CONSUMER
    )


def _zone(number: int) -> str:
    return DEFAULT_ZONES[number % len(DEFAULT_ZONES)]


def _node(number: int) -> model.Node:
    own = {"kubernetes.io/hostname": f"node-{number}", ZONE_LABEL: _zone(number)}
    more = {f"example.com/label-{label}": "value" for label in range(15)}
    return model.Node(f"node-{number}", f"node-{number}", 1, labels=tuple(sorted((own | more).items())))


def _affinity(key: str, value: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(key, "In", (value,)),)),))


def _volume(name: str, storage_class: str, affinity: NodeSelector, size: str, **annotations: str) -> model.Volume:
    pairs = tuple(sorted((f"{DEFAULT_PREFIX}{key.replace('_', '-')}", value) for key, value in annotations.items()))
    return model.Volume(
        name,
        name,
        1,
        storage_class=storage_class,
        capacity=parse_quantity(size),
        access_modes=(model.READ_WRITE_ONCE,),
        node_affinity=affinity,
        phase="Available",
        annotations=pairs,
    )


def _zonal_volumes(now: datetime) -> Iterator[model.Volume]:
    promise = VolumeReservation("team/other", "other", now, now + _SOON, Holder("bench", 1))
    reserved = {key.removeprefix(DEFAULT_PREFIX): value for key, value in Annotations().for_volume(promise).items()}
    for number in range(VOLUMES):
        zone, size = _zone(number), 10 + number % 7
        held = reserved if number < HELD else {}
        size = 5 if held and zone == DEFAULT_ZONES[0] else size
        yield _volume(f"volume-{number}", "zonal", _affinity(ZONE_LABEL, zone), f"{size}Gi", **held)


def _local_volume(number: int) -> model.Volume:
    return _volume(f"local-{number}", "local", _affinity("kubernetes.io/hostname", f"node-{number}"), "10Gi")


def _claim(name: str, now: datetime) -> model.Claim:
    until = (now + _SOON).isoformat(timespec="seconds")
    values = {"reserved-volume": f"volume-{HELD}", "bound-at": now.isoformat(timespec="seconds"), "expires-at": until}
    return model.Claim(
        "default",
        name,
        name,
        1,
        storage_class="local" if name == LOCAL else "zonal",
        request=parse_quantity("10Gi" if name == RESERVED else "5Gi"),
        access_modes=(model.READ_WRITE_ONCE,),
        annotations=tuple((DEFAULT_PREFIX + key, value) for key, value in sorted(values.items()))
        if name == RESERVED
        else (),
    )


async def _serve(answers: Answers) -> None:
    calm_collector()
    metrics = ExtenderMetrics(new_registry())
    async with ExtenderServer(answers, lambda: None, Listening(LOOPBACK, 0), SystemClock(), metrics) as server:
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Echo() if sys.argv[1] == "echo" else ours(int(sys.argv[2]), datetime.now(UTC))))
