"""A zone whose only node is full, with free volumes: pods for them need a node that an autoscaler adds."""

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.documents import ZONE, Document, claim_spec
from tests.scenarios.environment.world import World

ONE_CPU = {"requests": {"cpu": "1"}}


async def full_zone(world: World, volumes: int, *, within: str = "10m") -> str:
    """A class that joins new nodes, with volumes in a zone of one node, which another pod fills. `within`: the longest
    that a node may take.
    """
    disks = await world.storage_class("prebind", "ahead")
    await join_new_nodes(world, disks, within=within)
    zone = await full_node(world)
    await world.volumes(disks, *(world.volume(f"v{number}", disks, zone=zone) for number in range(volumes)))
    return disks


async def join_new_nodes(world: World, disks: str, *, within: str = "10m") -> None:
    """Let volumes of the class join new nodes."""
    words = {f"{world.prefix}new-nodes": "join-volumes", f"{world.prefix}new-node-within": within}
    await world.admin.patch("StorageClass", disks, {"metadata": {"annotations": words}})


async def full_node(world: World) -> str:
    """The only node of a zone, which another pod fills. Return the zone."""
    zone = world.name("zone")
    await world.cluster.add_nodes([NodeSpec(world.name("full"), zone, cpu="1")])
    filler = {"containers": [{"name": "main", "image": "pause", "resources": ONE_CPU}], "nodeSelector": {ZONE: zone}}
    await world.pod("filler", {}, extra=filler)
    await world.all_run("filler")
    return zone


async def pod_of_one_cpu(world: World, name: str, disks: str, *, gated: bool, zone: str = "") -> None:
    """`zone` is the only one in which the pod may run; empty if its volume decides that."""
    mounts = [{"name": f"{name}-data", "mountPath": "/data"}]
    container = {"name": "main", "image": "pause", "volumeMounts": mounts, "resources": ONE_CPU}
    extra: Document = {"containers": [container]} | ({"nodeSelector": {ZONE: zone}} if zone else {})
    await world.pod(name, {f"{name}-data": claim_spec(disks)}, gated=gated, extra=extra)
