"""Leaving: after the documented order nothing of the product is left in the cluster, and what is bound stays bound.

Of a trial nothing is left when its manifests are deleted.
"""

import json
from functools import partial

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS, everything, remove, rolled_out
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM

KINDS = (
    "clusterroles,clusterrolebindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,namespaces"
)


async def test_removal_leaves_nothing_but_what_is_bound(world: World, real: DevCluster, driver: Driver) -> None:
    disks, empty = await world.storage_class("complete"), await world.storage_class("complete", "empty")
    bound_to, lost = await world.volumes(disks, *(driver.volume(world, word, disks) for word in ("a", "b")))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await world.all_run("app", seconds=SECONDS)
    kept = await world.bound()
    lost = ({bound_to, lost} - set(kept.values())).pop()
    await world.admin.patch(
        "PersistentVolume", lost, {"metadata": {"annotations": {f"{PREFIX}health": "Inaccessible"}}}
    )
    await eventually(
        partial(traces, world), lambda seen: f"{lost} {PREFIX}quarantine" in seen, f"{lost} is quarantined", SECONDS
    )
    await world.pod("waiting", {"none": claim_spec(empty)}, gated=True)

    await remove(real)

    assert await traces(world) == set()
    assert await world.bound() == kept
    assert (await world.pod_phases())["app"] == "Running"
    assert (await world.own_volumes())[lost]["spec"].get("claimRef") is None
    left = await real.run_kubectl("get", KINDS, "--selector", "app.kubernetes.io/part-of=pvc-prebinder", "-o", "name")
    assert left == ""


async def test_a_dry_run_writes_nothing_and_leaves_nothing(bare_world: World, real: DevCluster, driver: Driver) -> None:
    """With the rights of the overlay, which are to read."""
    world, trial = bare_world, str(MANIFESTS / "overlays" / "try")
    disks = await world.storage_class("complete")
    (name,) = await world.volumes(disks, driver.volume(world, "v", disks))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    before, untouched = await everything(real), await traces(world)

    await real.run_kubectl("apply", "-k", trial)
    await rolled_out(real, "deployment/pvc-prebinder")
    log = partial(real.run_kubectl, "-n", SYSTEM, "logs", "deployment/pvc-prebinder")
    await eventually(log, lambda text: f"data → {name}" in text, "it says what it would bind", SECONDS)
    assert "Forbidden" not in await log()
    assert await traces(world) == untouched

    await real.run_kubectl("delete", "-k", trial, f"--timeout={SECONDS:.0f}s")
    await eventually(partial(everything, real), lambda now: now <= before, "nothing more is left", SECONDS)
    assert await traces(world) == untouched


async def traces(world: World) -> set[str]:
    """Return all that is ours on the story's objects: annotations, and the gate of pods."""
    claims, volumes, pods = await world.claims(), await world.own_volumes(), await world.pods()
    remains = {
        f"{name} {key}" for each in (claims, volumes, pods) for name, document in each.items() for key in ours(document)
    }
    gated = {
        f"{name} is gated" for name, pod in pods.items() if PREFIX in json.dumps(pod["spec"].get("schedulingGates"))
    }
    return remains | gated


def ours(document: Document) -> list[str]:
    return [key for key in document["metadata"].get("annotations", {}) if key.startswith(PREFIX)]
