"""Volumes held for a replica to come: it writes to them although another pod wanted them."""

import json
from functools import partial

import pytest

from devcluster.driver.volumes import data_directory
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS
from tests.e2e.volumes.writers import EMPTY, TEMPLATES, logs_become, writers, written_by
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.holds.sets import claims_of, held, scale, want
from tests.scenarios.processes.why_command import looked_up, typed


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["complete", "prebind"])
async def test_a_new_replica_writes_to_the_volumes_held_for_it_although_another_pod_wanted_them(
    world: World, driver: Driver, mode: str
) -> None:
    disks = await world.storage_class(mode)
    await world.volumes(disks, *(driver.volume(world, f"v{number}", disks) for number in range(4)))
    claims = dict.fromkeys(TEMPLATES, claim_spec(disks))
    await world.admin.create(writers(world.namespace, "db", claims, replicas=1))
    await logs_become(world, "db-0", EMPTY)

    await want(world, 2)
    kept = await eventually(
        partial(held, world), lambda held: held.keys() == claims_of(1), "volumes are held for replica 1", SECONDS
    )
    await shown_to_people(world, kept)
    await asks_for_more(world)
    await world.pod("rival", {"wanted": claim_spec(disks)})
    await eventually(partial(is_unschedulable, world, "rival"), bool, "kube-scheduler finds none for it", SECONDS)

    await scale(world, 2)
    await logs_become(world, "db-1", EMPTY)
    bound = await world.bound()
    assert {claim: bound[claim] for claim in claims_of(1)} == kept
    assert "wanted" not in bound
    for template in TEMPLATES:
        owner = data_directory(driver.root, kept[f"{template}-db-1"]) / "owner"
        assert owner.read_text(encoding="ascii") == f"{template} of db-1\n"
    await eventually(world.own_volumes, lambda own: f"{world.prefix}held-" not in str(own), "no hold is left", SECONDS)
    await world.cluster.run_kubectl("-n", world.namespace, "delete", "pod", "db-1")
    await logs_become(world, "db-1", written_by("db-1"))


async def shown_to_people(world: World, kept: dict[str, str]) -> None:
    """The held volumes are in the answers of both commands, each with its claim."""
    answer = " ".join((await typed(world, f"kubectl pvc-why statefulset/db -n {world.namespace}")).split())
    assert "Volumes are held for replica 1." in answer
    assert [claim for claim, volume in kept.items() if f"{volume}: held for claim {claim}" not in answer] == []
    listed = await typed(world, f"pvc-prebinder reservations list -n {world.namespace} -o json")
    # Reservations of claims that are bound are listed as well until they are removed.
    rows = {row["claim"]: row["volume"] for row in json.loads(listed)["items"] if row["status"] == "HeldForReplica"}
    assert rows == {f"{world.namespace}/{claim}": volume for claim, volume in kept.items()}


async def asks_for_more(world: World) -> None:
    """Whether more replicas fit is answered from the cluster itself: what is held for them is theirs."""
    command = f"pvc-prebinder simulate -n {world.namespace} --scale statefulset/db"
    assert "volumes and nodes for 2 replicas are there" in await typed(world, f"{command}=2")
    assert "nothing fits replica 2" in await looked_up(world, f"{command}=3")


async def is_unschedulable(world: World, pod: str) -> bool:
    conditions = (await world.pods())[pod]["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)
