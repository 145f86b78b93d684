"""A finished bind, compared field by field: what is the pair's own is taken out, everything else must be the same."""

import json
from typing import Any

from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

_OF_THE_OBJECT = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "generation")
PRODUCT = "pvc-prebinder"


async def pairs(world: World) -> dict[str, tuple[Document, Document]]:
    """Return the bound claims of a world with their volumes, by the claim's name."""
    volumes = await world.own_volumes()
    return {
        name: (claim, volumes[claim["spec"]["volumeName"]])
        for name, claim in (await world.claims()).items()
        if claim["spec"].get("volumeName") in volumes
    }


def comparable(claim: Document, volume: Document) -> dict[str, Any]:
    """Return claim and volume with the names, uids, versions, times and class that are theirs alone replaced."""
    metadata = claim["metadata"]
    ours = {
        volume["metadata"]["name"]: "VOLUME",
        volume["metadata"]["uid"]: "VOLUME-UID",
        metadata["uid"]: "CLAIM-UID",
        metadata["name"]: "CLAIM",
        metadata["namespace"]: "NAMESPACE",
        claim["spec"]["storageClassName"]: "CLASS",
    }
    both = json.loads(json.dumps({"claim": claim, "volume": volume}))
    for document in both.values():
        for key in _OF_THE_OBJECT:
            document["metadata"].pop(key, None)
    # Versions and times differ by nature; that they are there, and are one, does not.
    reference = both["volume"]["spec"]["claimRef"]
    reference["resourceVersion"] = reference.get("resourceVersion", "").isdigit()
    status = both["volume"]["status"]
    status["lastPhaseTransitionTime"] = bool(status.get("lastPhaseTransitionTime"))
    both["volume"]["spec"].pop("csi")
    # Whether a pod uses the claim is written by another controller, in its own time (Kubernetes 1.37).
    claim_status = both["claim"]["status"]
    conditions = [condition for condition in claim_status.pop("conditions", ()) if condition["type"] != "Unused"]
    claim_status |= {"conditions": conditions} if conditions else {}
    result: dict[str, Any] = _replaced(both, ours)
    return result


def writers(document: Document) -> set[str]:
    """Return the programs that ever wrote to the object, as the API server remembers them."""
    return {entry["manager"] for entry in document["metadata"].get("managedFields", ())}


def _replaced(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


async def as_kubernetes_binds(world: World) -> dict[str, object]:
    """Let the PV controller bind a claim all by itself, and return what it leaves."""
    theirs = await world.storage_class("off", "now", binding=IMMEDIATE)
    await world.volumes(theirs, world.volume("theirs", theirs, zone="zone-a"))
    await world.admin.create(claim(world.namespace, "theirs", claim_spec(theirs)))
    await eventually(world.bound, lambda bound: "theirs" in bound, "Kubernetes binds")
    bound_pairs = await pairs(world)
    return comparable(*bound_pairs["theirs"])
