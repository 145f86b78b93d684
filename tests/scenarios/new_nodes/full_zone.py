"""A zone whose only node is full, with free volumes: pods for them need a node that an autoscaler adds."""

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.documents import ZONE, claim_spec
from tests.scenarios.environment.world import World

ONE_CPU = {"requests": {"cpu": "1"}}


async def full_zone(world: World, volumes: int, *, within: str = "10m") -> str:
    """A class that joins new nodes, with volumes in a zone of one node, which another pod fills. `within`: the longest
    that a node may take.
    """
    disks = await world.storage_class("prebind", "ahead")
    words = {f"{world.prefix}new-nodes": "join-volumes", f"{world.prefix}new-node-within": within}
    await world.admin.patch("StorageClass", disks, {"metadata": {"annotations": words}})
    zone = world.name("zone")
    await world.cluster.add_nodes([NodeSpec(world.name("full"), zone, cpu="1")])
    filler = {"containers": [{"name": "main", "image": "pause", "resources": ONE_CPU}], "nodeSelector": {ZONE: zone}}
    await world.pod("filler", {}, extra=filler)
    await world.all_run("filler")
    await world.volumes(disks, *(world.volume(f"v{number}", disks, zone=zone) for number in range(volumes)))
    return disks


async def pod_of_one_cpu(world: World, name: str, disks: str, *, gated: bool) -> None:
    mounts = [{"name": f"{name}-data", "mountPath": "/data"}]
    container = {"name": "main", "image": "pause", "volumeMounts": mounts, "resources": ONE_CPU}
    await world.pod(name, {f"{name}-data": claim_spec(disks)}, gated=gated, extra={"containers": [container]})
