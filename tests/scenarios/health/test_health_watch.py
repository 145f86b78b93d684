"""`pvc-prebinder health -w` beside a cluster: each change is printed when it happens, from any source."""

import asyncio
import json

from kube.decoding.decode_health import ADDONS_PREFIX
from tests.scenarios.environment.documents import claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.health_watch import printed_row, watching

PROBLEM_FOUND = 3
ADDONS = ADDONS_PREFIX + "uid-of-n1"
UNHEALTHY = json.dumps({"state": "unhealthy", "node": "n1", "lastChecked": "2026-01-01T00:00:00Z"})


async def annotate(world: World, kind: str, name: str, namespace: str, **annotations: str | None) -> None:
    await world.admin.patch(kind, name, {"metadata": {"annotations": annotations}}, namespace)


async def test_each_change_is_printed_when_it_happens(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    await own_world.volumes(disks, *(own_world.volume(word, disks, zone="zone-a") for word in ("one", "two")))
    first, second = own_world.name("one"), own_world.name("two")
    document = claim(own_world.namespace, "data", claim_spec(disks) | {"volumeName": first})
    await own_world.admin.create(document)
    await eventually(own_world.volume_phases, lambda phases: phases[first] == "Bound", "the claim has its volume")
    published = {own_world.prefix + "health": "Inaccessible", own_world.prefix + "health-source": "CSI driver d"}
    async with watching(own_world, first, second) as process:
        assert [await printed_row(process), await printed_row(process)] == [
            (first, "Unknown", None),
            (second, "Unknown", None),
        ]
        await annotate(own_world, "PersistentVolumeClaim", "data", own_world.namespace, **{ADDONS: UNHEALTHY})
        assert await printed_row(process) == (first, "Degraded", "csi-addons on n1")
        await annotate(own_world, "PersistentVolume", second, "", **published)
        assert await printed_row(process) == (second, "Inaccessible", "CSI driver d, as published on the volume")
        await annotate(own_world, "PersistentVolumeClaim", "data", own_world.namespace, **{ADDONS: None})
        assert await printed_row(process) == (first, "Unknown", None)
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == PROBLEM_FOUND
