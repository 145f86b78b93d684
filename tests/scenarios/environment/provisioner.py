"""An external provisioner for classes that no other one serves, played by the test."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Final

from tests.running_task import running
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONE
from tests.scenarios.environment.world import World

NAME: Final = "provisioner.example.com"
SELECTED: Final = "volume.kubernetes.io/selected-node"
_POLL_SECONDS: Final = 0.05


def selected(claim: Document) -> str | None:
    """Return the node that was selected for the claim."""
    node: str | None = claim["metadata"].get("annotations", {}).get(SELECTED)
    return node


async def make_volume(world: World, claim: Document) -> None:
    """Make the volume of a claim in the zone of its selected node, as external-provisioner does."""
    node = await world.admin.get("Node", selected(claim) or "")
    metadata, spec = claim["metadata"], claim["spec"]
    made = world.volume(
        metadata["name"],
        spec["storageClassName"],
        zone=node["metadata"]["labels"][ZONE],
        size=spec["resources"]["requests"]["storage"],
        reclaim_policy="Delete",
    )
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": NAME}
    reference = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    made["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
    await world.admin.create(made)


def provisioning(world: World, storage_class: str) -> AbstractAsyncContextManager[asyncio.Future[None]]:
    """While inside, claims of the class get a volume where one was selected for them."""
    return running(_provision(world, storage_class))


async def _provision(world: World, storage_class: str) -> None:
    done: set[str] = set()
    while True:
        for name, claim in (await world.claims()).items():
            if claim["spec"]["storageClassName"] == storage_class and selected(claim) and name not in done:
                done.add(name)
                await make_volume(world, claim)
        await asyncio.sleep(_POLL_SECONDS)
