"""Mode provision: one node for all volumes of a pod, counted against what is reported and in flight."""

import pytest

from tests.binder.provisioner import Provisioner, gated, is_gated, pool_world, report, selected
from tests.binder.world import World

POOLS = {"node-a1": "100Gi", "node-a2": "100Gi"}


def events(process: object, pod: str) -> list[str]:
    return process.sink.reasons_of("Pod", pod)  # type: ignore[attr-defined, no-any-return]


async def test_all_claims_of_a_pod_get_one_node_and_then_the_gate_is_removed() -> None:
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    gated(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert len(set(selected(world).values())) == 1
        assert set(selected(world)) == {"db-0", "db-1"}
        assert is_gated(world, "db")
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")
        assert events(process, "db") == ["NodeSelected"]
    assert world.violations() == []


async def test_the_sum_is_compared_and_not_each_claim() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "60Gi", "60Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert is_gated(world, "db")
        assert events(process, "db") == ["InsufficientCapacity"]
        note = process.sink.events[0].note
        assert (
            "node-a1: InsufficientCapacity (wanted 120Gi of class made for default/db-0, default/db-1 together" in note
        )
        assert "found 100Gi left of 100Gi" in note
        report(world, "node-a2", "200Gi")
        await process.run(60)
        assert selected(world) == {"db-0": "node-a2", "db-1": "node-a2"}


async def test_what_is_in_flight_counts_until_a_report_includes_it() -> None:
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    for name in ("one", "two", "three", "four"):
        gated(world, name, "30Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert len(selected(world)) == 4
        provisioner.work()
        await process.run(20)
        assert len(selected(world)) == 4, "the reports still say 100Gi"
    assert provisioner.rejected == []


async def test_a_claim_that_kube_scheduler_placed_counts_too() -> None:
    world = pool_world({"node-a1": "100Gi"})
    gated(world, "other", "60Gi", gate=False)

    def place(document: dict[str, object]) -> None:
        document["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-a1"}  # type: ignore[index]

    world.server.change("persistentvolumeclaims", "default/other-0", place)
    gated(world, "db", "30Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"other-0": "node-a1"}


@pytest.mark.parametrize("mode", [None, "annotate", "prebind", "off"])
async def test_without_the_mode_volumes_are_left_to_kubernetes(mode: str | None) -> None:
    world = pool_world(POOLS, mode=mode)
    gated(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert not is_gated(world, "db")


async def test_an_ungated_pod_is_left_to_kubernetes() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "60Gi", "30Gi", gate=False)
    async with world.process() as process:
        await process.run(60)
        assert selected(world) == {}


async def test_without_strict_topology_the_first_volume_decides_the_place() -> None:
    """The provisioner makes it on another node than the one that was selected."""
    world = pool_world(POOLS, strict=False)
    provisioner = Provisioner(world, POOLS)
    gated(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert list(selected(world)) == ["db-0"]
        elsewhere = next(node for node in POOLS if node != selected(world)["db-0"])
        provisioner.begin("db-0")
        provisioner.make("db-0", elsewhere)
        await process.run()
        assert selected(world)["db-1"] == elsewhere
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")


async def test_a_full_driver_is_not_called_again_at_once() -> None:
    """The report is stale: the pool has less. The provisioner removes the selected node."""
    world = pool_world({"node-a1": "100Gi"})
    provisioner = Provisioner(world, {"node-a1": "50Gi"})
    gated(world, "db", "60Gi")
    async with world.process() as process:
        await process.run(2)
        assert selected(world) == {"db-0": "node-a1"}
        provisioner.work()
        await process.run(5)
        assert (provisioner.rejected, selected(world)) == (["db-0"], {})
        report(world, "node-a1", "90Gi")
        await process.run(60)
        assert selected(world) == {"db-0": "node-a1"}


async def test_a_partly_provisioned_pod_is_reported_and_nothing_is_taken_back() -> None:
    world = pool_world({"node-a1": "100Gi"})
    provisioner = Provisioner(world, {"node-a1": "70Gi"})
    gated(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run(2)
        provisioner.work()
        report(world, "node-a1", "10Gi")
        await process.run(60)
        assert provisioner.rejected == ["db-1"]
        (note,) = [
            each.note for each in process.sink.events if each.reason == "PartlyProvisioned" and each.related is None
        ]
        assert "node-a1: InsufficientCapacity (wanted 30Gi" in note
        assert "pvc-db-0: BoundVolumeUnreachable (wanted access from a node with room" in note
        assert is_gated(world, "db")
        assert world.claim("db-0")["status"]["phase"] == "Bound"
        report(world, "node-a1", "40Gi")
        provisioner.free["node-a1"] = 40 * 2**30
        await process.run(60)
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")


async def test_a_partly_provisioned_pod_goes_on_without_a_change_once_its_volume_is_old_enough() -> None:
    """A process that begins after the report has fallen cannot tell that it includes the volume: soak 9010."""
    world = pool_world({"node-a1": "8Gi"})
    provisioner = Provisioner(world, {"node-a1": "8Gi"})
    gated(world, "db", "4Gi", "1Gi")
    async with world.process() as process:
        await process.run(1)
    assert selected(world) == {"db-0": "node-a1", "db-1": "node-a1"}
    # As if it had been killed between the two writes.
    world.server.change("persistentvolumeclaims", "default/db-1", lambda it: it["metadata"]["annotations"].clear())
    provisioner.work()
    report(world, "node-a1", "4Gi")
    async with world.process() as process:
        await process.run(100)
        assert selected(world) == {"db-0": "node-a1"}
        assert "PartlyProvisioned" in events(process, "db")
        assert "found 0 left of 4Gi, 4Gi in flight" in process.sink.events[0].note
        await process.run(90)
        assert selected(world) == {"db-0": "node-a1", "db-1": "node-a1"}
        provisioner.work()
        await process.run(5)
        assert not is_gated(world, "db")


async def test_a_volume_that_does_not_come_is_reported_once_and_used_when_it_comes_late() -> None:
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    gated(world, "db", "60Gi", "30Gi")
    async with world.process() as process:
        await process.run(4 * 60)
        assert events(process, "db") == ["NodeSelected"]
        await process.run(6 * 60)
        assert events(process, "db") == ["NodeSelected", "ProvisioningOverdue"]
        assert "default/db-0: Provisioning (wanted a volume within 5 minutes" in process.sink.events[1].note
        assert set(selected(world)) == {"db-0", "db-1"}
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")


async def test_a_selected_node_that_is_gone_is_reported_and_stays() -> None:
    """A provisioner on each node does not take it back, and whether it made a volume no object shows."""
    world = pool_world({"node-a1": "100Gi"})
    gated(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        Provisioner(world, {}).begin("db-0")
        await process.run()
        world.server.remove("nodes", "node-a1")
        await process.run(50)
        assert "SelectedNodeStale" not in events(process, "db")
        await process.run(130)
        assert events(process, "db") == ["NodeSelected", "SelectedNodeStale"]
        assert selected(world) == {"db-0": "node-a1"}
        assert is_gated(world, "db")


async def test_a_claim_whose_node_is_gone_is_in_no_other_pod_s_way() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        (gone,) = selected(world).values()
        Provisioner(world, {}).begin("db-0")
        world.server.remove("nodes", gone)
        gated(world, "other", "60Gi", "30Gi")
        await process.run(20)
        left = ({"node-a1", "node-a2"} - {gone}).pop()
        assert selected(world) == {"db-0": gone, "other-0": left, "other-1": left}


async def test_a_selected_node_without_its_driver_is_reported_unless_the_driver_comes_back() -> None:
    world = pool_world({"node-a1": "100Gi"})
    registered = world.server.get("csinodes", "node-a1")
    gated(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        for seconds, reported in ((50, False), (180, True)):
            world.put({**registered, "spec": {"drivers": []}})
            await process.run(seconds)
            assert ("DriverNotOnNode" in events(process, "db")) == reported
            world.put(registered)
            await process.run(70)
        assert selected(world) == {"db-0": "node-a1"}


async def test_a_conflict_in_the_middle_withdraws_the_selections_before_it() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "60Gi", "30Gi")

    def delete_second(request: object) -> None:
        world.server.before_write = None
        world.server.remove("persistentvolumeclaims", "default/db-1")

    world.server.before_write = delete_second
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}


@pytest.mark.parametrize("writes", range(1, 7))
async def test_after_a_crash_the_pods_are_provisioned_as_if_nothing_had_happened(writes: int) -> None:
    """Two pods fill a pool each; killed after each write: selected nodes of four claims, then two gates."""
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    gated(world, "red", "60Gi", "40Gi")
    gated(world, "blue", "50Gi", "50Gi")
    async with world.process(dies_after=writes) as process:
        for _ in range(3):
            await process.run()
            provisioner.work()
        assert process.killed
    async with world.process(transition=2) as process:
        for _ in range(3):
            await process.run()
            provisioner.work()
    assert provisioner.rejected == []
    assert not any(is_gated(world, pod) for pod in ("red", "blue"))
    assert world.violations() == []
    assert nodes_of(world, "red") != nodes_of(world, "blue")


def nodes_of(world: World, pod: str) -> set[str]:
    nodes = {node for claim, node in selected(world).items() if claim.startswith(pod)}
    assert len(nodes) == 1
    return nodes
