"""Room of a pod to which volumes are committed is not given to another: two pods of 5 CPUs, one node of 8."""

from typing import Any

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World

COMMITTING = pytest.mark.parametrize("mode", ["prebind", "complete"])
NOT_SCHEDULED = {"schedulerName": "none.example"}


class Place:
    """A node, and local volumes of it."""

    def __init__(self, world: World, disks: str) -> None:
        self.world, self.disks = world, disks

    async def pod(self, name: str, *, claims: bool = True) -> None:
        """A gated pod that no scheduler places once it is let go."""
        made = self.world.pod_documents(name, {name: claim_spec(self.disks)}, gated=True, extra=NOT_SCHEDULED)
        made[-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5"
        await self.world.admin.create(*(made if claims else made[-1:]))

    async def gates(self, name: str) -> list[Any]:
        pods = await self.world.pods()
        return list(pods[name]["spec"].get("schedulingGates", ())) if name in pods else [name]

    async def is_let_go(self, name: str) -> None:
        await eventually(lambda: self.gates(name), lambda gates: not gates, f"{name} is let go")

    async def waits(self, name: str) -> None:
        """The controller has looked at the pod, and it got nothing."""
        await self.world.event("NoNodeFits", about=name)
        await never(lambda: self.gates(name), lambda gates: not gates, f"{name} is let go into a full node", looks=10)
        assert name not in await self.world.held()


async def place(world: World, mode: str) -> Place:
    node = world.name("node")
    await world.cluster.add_nodes([NodeSpec(node, "zone-a", cpu="8")])
    disks = await world.storage_class(mode)
    await world.volumes(disks, *(world.volume(f"local-{number}", disks, node=node) for number in range(2)))
    return Place(world, disks)


@COMMITTING
async def test_no_annotation_that_a_user_writes_makes_a_committed_pod_uncounted(world: World, mode: str) -> None:
    here = await place(world, mode)
    await here.pod("first")
    await here.is_let_go("first")
    (held,) = (await world.held())["first"]
    words = {"reserved-volume": held, "bound-at": "2026-01-01T00:00:00Z", "expires-at": "9999-12-31T00:00:00Z"}
    thief = claim(world.namespace, "thief", claim_spec("no-such-class"))
    thief["metadata"]["annotations"] = {f"{world.prefix}{key}": text for key, text in words.items()}
    await world.admin.create(thief)
    await eventually(lambda: annotations(world, "thief"), lambda seen: not seen, "what no volume confirms is removed")
    await here.pod("second")
    await here.waits("second")
    await world.admin.delete("Pod", "first", world.namespace)
    await here.is_let_go("second")


async def annotations(world: World, name: str) -> Document:
    known = (await world.claims())[name]["metadata"].get("annotations", {})
    return {key: text for key, text in known.items() if key.startswith(world.prefix)}


@COMMITTING
async def test_a_recreated_pod_whose_volume_is_bound_already_counts(world: World, mode: str) -> None:
    here = await place(world, mode)
    await here.pod("first")
    await here.is_let_go("first")
    await eventually(world.bound, lambda bound: "first" in bound, "the volume is bound")
    await world.admin.delete("Pod", "first", world.namespace)
    await eventually(world.pods, lambda pods: "first" not in pods, "the pod is gone")
    await here.pod("first", claims=False)
    await here.is_let_go("first")
    await here.pod("second")
    await here.waits("second")
    await world.admin.delete("Pod", "first", world.namespace)
    await here.is_let_go("second")


@pytest.mark.parametrize("mode", ["annotate", "prebind", "complete"])
async def test_a_shared_claim_gets_no_volume_that_only_one_of_its_gated_pods_can_use(world: World, mode: str) -> None:
    disks, others = await world.storage_class(mode), await world.storage_class(mode, "others")
    await world.volumes(disks, *(world.volume(zone, disks, zone=zone) for zone in ("zone-a", "zone-b")))
    await world.volumes(others, world.volume("other", others, zone="zone-a"))
    shared, *_ = world.pod_documents("", {"shared": claim_spec(disks)})
    users = [
        world.pod_documents(name, {"shared": {}}, gated=True, extra={"nodeSelector": {ZONE: zone}})[-1]
        for name, zone in (("one", "zone-a"), ("two", "zone-b"))
    ]
    async with world.scheduler_paused():
        # Both pods are known before there is anything to decide: one of them alone would get the claim its volume.
        await world.admin.create_at_once(users)
        await world.pod("later", {"own": claim_spec(others)}, gated=True)
        await eventually(world.held, lambda held: "own" in held, "the controller has seen a pod created later")
        await world.admin.create(shared)
        for name in ("one", "two"):
            await world.noted(name, "each gated pod that uses the claim")
        assert "shared" not in await world.held()
    await world.admin.delete("Pod", "two", world.namespace)
    await world.all_run("one", "later")
