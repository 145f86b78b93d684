"""`pvc-prebinder replace` beside the real StatefulSet controller, kube-scheduler and PV controller."""

import asyncio
from contextlib import suppress

from devcluster.control_plane.nodes import NodeSpec
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.documents import Document, claim_spec, stateful_set
from tests.scenarios.environment.drivers import endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import health
from tests.scenarios.processes.controller import start_controller
from tests.scenarios.processes.replace_command import run, started


async def nodes(world: World, *words: str) -> list[str]:
    """Create nodes that the story may delete."""
    names = [world.name(word) for word in words]
    await world.cluster.add_nodes([NodeSpec(name, "zone-a") for name in names])
    return names


async def killed_after_a_step(world: World, pod: str, *flags: str) -> str:
    """Run the command and kill it at its first step; return what it printed until then, or until its end."""
    process = await started(world, pod, *flags)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
    return line


async def started_set(world: World, replicas: int, policy: str) -> str:
    """Create the StatefulSet `db` on local volumes, one for each node so far; return its class."""
    disks = await world.storage_class(None)
    await world.volumes(
        disks, *(world.volume(f"disk-{word}", disks, node=world.name(word), size="2Gi") for word in ("n1", "n2", "n3"))
    )
    document = stateful_set(world.namespace, "db", {"data": claim_spec(disks)}, replicas=replicas)
    document["spec"]["podManagementPolicy"] = policy
    await world.admin.create(document)
    await world.all_run(*(f"db-{ordinal}" for ordinal in range(replicas)))
    return disks


async def volume_of(world: World, claim: str) -> Document:
    return (await world.own_volumes())[(await world.bound())[claim]]


def place_of(volume: Document) -> str:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


async def versions(world: World) -> dict[str, str]:
    return {name: volume["metadata"]["resourceVersion"] for name, volume in (await world.own_volumes()).items()}


async def test_a_lost_disk_is_replaced_although_the_command_is_killed_at_each_step(own_world: World) -> None:
    world = own_world
    await nodes(world, "n1", "n2", "n3")
    disks = await started_set(world, 2, "OrderedReady")
    old = await volume_of(world, "data-db-1")
    await world.admin.delete("Node", place_of(old))
    before = await versions(world)
    code, plan = await run(world, "db-1")
    assert code == 0, plan
    assert "lost    data-db-1" in plan
    assert old["metadata"]["uid"] in plan, "each write with its uid"
    assert await versions(world) == before, "without --yes nothing is written"
    steps: list[str] = []
    while len(steps) < 40:
        line = await killed_after_a_step(world, "db-1", "--yes", "--timeout=0")
        if not line.startswith("done:"):
            break
        if "reserve it" in line:
            await world.volumes(disks, world.volume("smaller", disks, node=world.name("n3"), size="1Gi"))
        steps.append(line)
    code, out = await run(world, "db-1", "--yes", "--timeout=180")
    assert code == 0, out
    new = await volume_of(world, "data-db-1")
    assert new["spec"]["capacity"]["storage"] == "2Gi", "the reserved one, although a smaller one is free"
    assert not any(key.startswith(world.prefix) for key in new["metadata"].get("annotations", {}))
    kept = (await world.own_volumes())[old["metadata"]["name"]]
    assert kept["status"]["phase"] == "Released"
    uid = old["spec"]["claimRef"]["uid"]
    assert kept["metadata"]["annotations"][f"{world.prefix}was-for"] == f"{world.namespace}/data-db-1/{uid}"
    assert (await world.bound())["data-db-0"] not in {old["metadata"]["name"], new["metadata"]["name"]}
    assert len(steps) >= 5, steps


async def test_two_users_at_once_replace_one_after_the_other(own_world: World) -> None:
    world = own_world
    await nodes(world, "n1", "n2", "n3")
    disks = await started_set(world, 2, "Parallel")
    lost = {place_of(await volume_of(world, f"data-db-{ordinal}")) for ordinal in range(2)}
    for name in lost:
        await world.admin.delete("Node", name)
    (left,) = {world.name(word) for word in ("n1", "n2", "n3")} - lost
    await world.volumes(disks, world.volume("spare", disks, node=left, size="2Gi"))
    outcomes = await asyncio.gather(*(run(world, pod, "--yes", "--timeout=180") for pod in ("db-0", "db-1", "db-0")))
    assert any(code == 0 for code, _ in outcomes), outcomes
    for pod in ("db-0", "db-1"):
        await run(world, pod, "--yes", "--timeout=180")
    await world.all_run("db-0", "db-1")
    volumes = [(await volume_of(world, f"data-db-{ordinal}"))["metadata"]["name"] for ordinal in range(2)]
    assert len(set(volumes)) == 2


async def test_data_loss_is_believed_after_two_sweeps_and_the_node_works(own_world: World) -> None:
    world = own_world
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example", Generation.HEALTH)
    controller = await start_controller(world, endpoint_flag(driver.driver), "--health-sweep-interval=1s")
    disks, name = await world.storage_class(None), driver.driver.driver_name
    handles = {f"v{number}": driver.healthy("zone-a") for number in range(5)}
    await world.volumes(
        disks,
        *(world.volume(word, disks, zone="zone-a", driver=name, handle=handle) for word, handle in handles.items()),
    )
    await world.admin.create(stateful_set(world.namespace, "db", {"data": claim_spec(disks)}, replicas=1))
    await world.all_run("db-0")
    code, out = await run(world, "db-0", "--yes")
    assert code == 3, out
    assert "proven to be lost" in out
    old = (await volume_of(world, "data-db-0"))["metadata"]["name"]
    driver.break_volume(handles[old.removeprefix(world.name(""))], VolumeFault.GONE)
    await eventually(lambda: health(world), lambda states: states[old] == "DataLoss", "the loss is reported")
    await eventually(lambda: run(world, "db-0"), lambda outcome: outcome[0] == 0, "two sweeps report it")
    code, out = await run(world, "db-0", "--yes", "--timeout=120")
    assert code == 0, out
    assert (await volume_of(world, "data-db-0"))["metadata"]["name"] != old
    await controller.stop()
    await driver.driver.stop()
