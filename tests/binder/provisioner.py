"""Mode provision without a cluster: a world of node-local pools, with what the PV controller, the external-provisioner
and a driver with real limits would do, one step at a time.
"""

from collections.abc import Mapping
from typing import Any

from binder.reservation.contract import DEFAULT_PREFIX, format_time
from kube.rules.quantity import NANO, parse_quantity
from tests.binder.world import World, bind
from tests.fakes.objects import HOSTNAME, claim_object, class_object, csi_node_object, pod_object, volume_object

DRIVER = "disk.csi.example"
SELECTED = "volume.kubernetes.io/selected-node"
BEGUN = "volume.kubernetes.io/storage-provisioner"
GIB = 2**30

Object = dict[str, Any]


def pool_world(pools: Mapping[str, str], *, mode: str | None = "provision", strict: bool = True) -> World:
    """A world whose nodes node-a1, node-a2, ... have a pool of this size each, where one is named."""
    world = World()
    annotations = {DEFAULT_PREFIX + "mode": mode} if mode else {}
    if strict:
        annotations[DEFAULT_PREFIX + "topology"] = "strict"
    about = {"apiVersion": "storage.k8s.io/v1"}
    spec = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    world.put({**about, "kind": "StorageClass", "metadata": {"name": "made", "annotations": annotations}, **spec})
    drivers = {"attachRequired": False, "storageCapacity": True}
    world.put({**about, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": drivers})
    for node in pools:
        registered = csi_node_object(node)
        registered["spec"]["drivers"][0]["topologyKeys"] = [HOSTNAME]
        world.put(registered)
        report(world, node, pools[node])
    return world


def report(world: World, node: str, size: str) -> None:
    """The provisioner reports that so much is free in the pool of the node."""
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "storageClassName": "made"}
    where = {"matchLabels": {HOSTNAME: node}}
    metadata = {"name": f"free-{node}", "namespace": "kube-system"}
    world.put({**about, "metadata": metadata, "nodeTopology": where, "capacity": size})


def gated(world: World, name: str, *sizes: str, gate: bool = True) -> None:
    """Create a pod with claims NAME-0, NAME-1, ... of these sizes."""
    claims = [f"{name}-{number}" for number in range(len(sizes))]
    world.put(*(claim_object(claim, size, storage_class="made") for claim, size in zip(claims, sizes, strict=True)))
    world.put(pod_object(name, claims, gated=gate))


def mixed_world(pools: Mapping[str, str], disks: Mapping[str, str], *, strict: bool = True) -> World:
    """A world of pools, and a disk of 10Gi of class `fast`, mode prebind, for each name on its node."""
    world = pool_world(pools, strict=strict)
    world.put(class_object(mode="prebind"))
    world.put(*(volume_object(name, zone=None, node=node) for name, node in disks.items()))
    return world


def mixed(world: World, name: str, *made: str, chosen: int = 1) -> None:
    """Create a pod with claims NAME-0, ... of these sizes to be made, and NAME-disk-0, ... for existing volumes."""
    claims = [f"{name}-{number}" for number in range(len(made))]
    disks = [f"{name}-disk-{number}" for number in range(chosen)]
    world.put(*(claim_object(claim, size, storage_class="made") for claim, size in zip(claims, made, strict=True)))
    world.put(*(claim_object(disk) for disk in disks), pod_object(name, [*claims, *disks], gated=True))


def selected(world: World) -> dict[str, str]:
    """Claim -> the node that is selected for it."""
    return {
        claim["metadata"]["name"]: claim["metadata"]["annotations"][SELECTED]
        for claim in world.server.all("persistentvolumeclaims")
        if SELECTED in claim["metadata"].get("annotations", {})
    }


def is_gated(world: World, name: str) -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


class Provisioner:
    """The PV controller, external-provisioner and a driver whose pools are really as large as this."""

    def __init__(self, world: World, pools: Mapping[str, str]) -> None:
        self._world = world
        self.free = {node: parse_quantity(size) // NANO for node, size in pools.items()}
        self.rejected: list[str] = []

    def begin(self, claim: str) -> None:
        """The PV controller names the provisioner."""

        def name_it(document: Object) -> None:
            document["metadata"].setdefault("annotations", {})[BEGUN] = DRIVER

        self._world.server.change("persistentvolumeclaims", f"default/{claim}", name_it)

    def work(self) -> None:
        """Make and bind the volumes of all claims with a selected node, or remove that where the driver is full."""
        for claim, node in sorted(selected(self._world).items()):
            if self._world.claim(claim)["status"]["phase"] == "Pending":
                self.begin(claim)
                self.make(claim, node)

    def make(self, claim: str, node: str) -> None:
        size = self._world.claim(claim)["spec"]["resources"]["requests"]["storage"]
        wanted = parse_quantity(size) // NANO
        if wanted > self.free[node]:
            self.rejected.append(claim)
            self.give_up(claim)
            return
        self.free[node] -= wanted
        made = volume_object(f"pvc-{claim}", size, zone=None, node=node, storage_class="made", reclaim_policy="Delete")
        made["metadata"]["creationTimestamp"] = format_time(self._world.clock.now())
        made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": DRIVER}
        self._world.put(made)
        bind(self._world, claim, f"pvc-{claim}")

    def give_up(self, claim: str) -> None:
        """Remove the selected node, so that another one is selected."""
        self._world.server.change("persistentvolumeclaims", f"default/{claim}", _deselected)


def _deselected(document: Object) -> None:
    del document["metadata"]["annotations"][SELECTED]
