"""Mode provision: pods that need existing volumes as well as new ones get all of them in one place, or none."""

from typing import Any

import pytest

from csi.health.verdict import HealthState
from tests.binder.provisioner import Provisioner, is_gated, mixed, mixed_world, report, selected
from tests.binder.world import World, bind_committed
from tests.fakes.objects import claim_object, class_object, pod_object

POOLS = {"node-a1": "100Gi", "node-a2": "100Gi"}


def set_aside(world: World) -> dict[str, str]:
    """Volume -> the claim for which it is set aside."""
    kept: dict[str, str] = {}
    for volume in world.server.all("persistentvolumes"):
        name = volume["metadata"]["name"]
        claim = world.annotations("persistentvolumes", name).get("set-aside-for")
        if claim is not None:
            reference = volume["spec"]["claimRef"]
            assert (reference["namespace"], "uid" in reference) == ("pvc-prebinder-system", False)
            kept[name] = claim.removeprefix("default/")
    return kept


def named(world: World, volume: str) -> str:
    """The claim that the volume's claimRef names."""
    reference: dict[str, Any] = world.volume(volume)["spec"].get("claimRef", {})
    return str(reference.get("name", ""))


async def test_a_mixed_pod_gets_all_of_its_volumes_on_one_node() -> None:
    """node-a1 has more room left for the volume to be made, the disk is on node-a2."""
    world = mixed_world(POOLS, {"disk": "node-a2"})
    provisioner = Provisioner(world, POOLS)
    mixed(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a2", "db-1": "node-a2"}
        assert set_aside(world) == {"disk": "db-disk-0"}
        assert is_gated(world, "db")
        provisioner.work()
        await process.run()
        assert set_aside(world) == {}
        assert named(world, "disk") == "db-disk-0"
        assert is_gated(world, "db"), "until the PV controller has bound the claim"
        bind_committed(world)
        await process.run()
        assert not is_gated(world, "db")
        assert process.sink.events[0].reason == "NodeSelected"
        assert process.sink.events[0].note.endswith(". Set aside until then: disk for db-disk-0")
    assert world.violations() == []


async def test_a_mixed_pod_gets_nothing_where_only_a_part_is_possible() -> None:
    world = mixed_world({"node-a1": "100Gi", "node-a2": "50Gi"}, {"disk": "node-a2"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        assert (selected(world), set_aside(world)) == ({}, {})
        assert is_gated(world, "db")
        assert process.sink.reasons_of("Pod", "db") == ["NoJointAssignment"]
        assert "wanted Available volumes for default/db-disk-0, found none, or too few, there" in (
            process.sink.events[0].note
        )
        report(world, "node-a2", "70Gi")
        await process.run(60)
        assert selected(world) == {"db-0": "node-a2"}


async def test_a_volume_that_is_set_aside_is_no_other_pods() -> None:
    world = mixed_world(POOLS, {"disk": "node-a2"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        world.put(claim_object("other"), pod_object("other", ["other"], gated=True))
        await process.run(300)
        assert set_aside(world) == {"disk": "db-disk-0"}
        assert named(world, "disk") == "set-aside-disk"
        assert is_gated(world, "other")


async def test_a_provisioner_that_gives_up_leaves_the_pod_free_to_go_elsewhere() -> None:
    """The pool on node-a1 is really smaller than reported. Nothing is bound there, so node-a2 can have the pod."""
    world = mixed_world({"node-a1": "100Gi", "node-a2": "200Gi"}, {"one": "node-a1", "two": "node-a2"})
    provisioner = Provisioner(world, {"node-a1": "50Gi", "node-a2": "200Gi"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run(2)
        assert (selected(world), set_aside(world)) == ({"db-0": "node-a1"}, {"one": "db-disk-0"})
        provisioner.work()
        await process.run(20)
        assert selected(world) == {"db-0": "node-a2"}
        assert set_aside(world) == {"two": "db-disk-0"}
        provisioner.work()
        await process.run()
        assert named(world, "two") == "db-disk-0"
    assert world.violations() == []


async def test_a_volume_is_given_back_if_nothing_can_be_made_beside_it() -> None:
    world = mixed_world({"node-a1": "100Gi"}, {"disk": "node-a1"})
    provisioner = Provisioner(world, {"node-a1": "50Gi"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run(2)
        assert set_aside(world) == {"disk": "db-disk-0"}
        provisioner.work()
        report(world, "node-a1", "50Gi")
        world.put(claim_object("other"), pod_object("other", ["other"], gated=True))
        await process.run(180)
        assert set_aside(world) == {}
        assert named(world, "disk") == "other"
        assert is_gated(world, "db")


@pytest.mark.parametrize("ending", ["pod", "claim", "gate"])
async def test_a_volume_is_given_back_when_its_reason_is_gone(ending: str) -> None:
    world = mixed_world(POOLS, {"disk": "node-a2"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        if ending == "pod":
            world.server.remove("pods", "default/db")
        elif ending == "claim":
            world.server.remove("persistentvolumeclaims", "default/db-disk-0")
        else:
            world.server.change("pods", "default/db", lambda pod: pod["spec"].pop("schedulingGates"))
        await process.run(120)
        assert (set_aside(world), named(world, "disk")) == ({}, "")


async def test_a_volume_that_became_unhealthy_is_replaced_by_another_in_the_same_place() -> None:
    world = mixed_world({"node-a1": "100Gi"}, {"disk-1": "node-a1", "disk-2": "node-a1"})
    provisioner = Provisioner(world, {"node-a1": "100Gi"})
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        assert set_aside(world) == {"disk-1": "db-disk-0"}
        world.observe(HealthState.DATA_LOSS, "disk-1")
        provisioner.work()
        await process.run()
        assert named(world, "disk-2") == "db-disk-0"
        bind_committed(world)
        await process.run(120)
        assert named(world, "disk-1") == ""
        assert not is_gated(world, "db")
    assert world.violations() == []


async def test_a_volume_made_on_another_node_decides_the_place_of_the_existing_ones() -> None:
    world = mixed_world(POOLS, {"one": "node-a1", "two": "node-a2"}, strict=False)
    provisioner = Provisioner(world, POOLS)
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        elsewhere = next(node for node in POOLS if node != selected(world)["db-0"])
        provisioner.begin("db-0")
        provisioner.make("db-0", elsewhere)
        await process.run(120)
        volume = {"node-a1": "one", "node-a2": "two"}[elsewhere]
        assert named(world, volume) == "db-disk-0"
        bind_committed(world)
        await process.run(60)
        assert set_aside(world) == {}
        assert not is_gated(world, "db")
    assert world.violations() == []


async def test_a_volume_that_another_writer_takes_first_ends_the_attempt() -> None:
    world = mixed_world({"node-a1": "100Gi"}, {"disk": "node-a1"})
    mixed(world, "db", "60Gi")

    def take(request: object) -> None:
        world.server.before_write = None
        reference = {"namespace": "default", "name": "thief", "uid": "uid-thief"}
        world.server.change("persistentvolumes", "disk", lambda volume: volume["spec"].update(claimRef=reference))

    world.server.before_write = take
    async with world.process() as process:
        await process.run()
        assert (selected(world), set_aside(world)) == ({}, {})
        assert named(world, "disk") == "thief"
        assert is_gated(world, "db")


@pytest.mark.parametrize("mode", [None, "annotate", "off"])
async def test_beside_a_claim_that_is_not_committed_all_is_left_to_kubernetes(mode: str | None) -> None:
    world = mixed_world(POOLS, {"disk": "node-a2"})
    world.put(class_object(mode=mode))
    mixed(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        assert (selected(world), set_aside(world)) == ({}, {})
        assert not is_gated(world, "db")


@pytest.mark.parametrize("writes", range(1, 10))
async def test_after_a_crash_a_mixed_pod_is_served_as_if_nothing_had_happened(writes: int) -> None:
    world = mixed_world(POOLS, {f"disk-{node}-{number}": node for node in POOLS for number in (0, 1)})
    provisioner = Provisioner(world, POOLS)
    mixed(world, "red", "60Gi", "40Gi", chosen=2)
    mixed(world, "blue", "100Gi", chosen=2)
    async with world.process(dies_after=writes) as process:
        for _ in range(3):
            await process.run()
            provisioner.work()
            bind_committed(world)
        assert process.killed
    async with world.process(transition=2) as process:
        for _ in range(4):
            await process.run(70)
            provisioner.work()
            bind_committed(world)
    assert provisioner.rejected == []
    assert not any(is_gated(world, pod) for pod in ("red", "blue"))
    assert set_aside(world) == {}
    assert world.violations() == []
