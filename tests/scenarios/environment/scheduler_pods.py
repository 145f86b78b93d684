"""Pods for the standalone scheduler of a story, and what the API server says of them."""

from typing import Any

from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


def pod(world: World, name: str, *claims: str, cpu: str = "10m", **spec: Any) -> Document:
    extra = {"schedulerName": world.namespace, **spec}
    found = documents.pod(world.namespace, name, documents.pod_spec(claims, extra=extra))
    found["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return found


async def condition(world: World, name: str) -> Document | None:
    found = (await world.pods())[name]["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "PodScheduled"), None)


async def refused(world: World, name: str, text: str) -> None:
    """Wait until the pod's condition says it is unschedulable, in these words."""

    def says(found: Document | None) -> bool:
        return found is not None and found["status"] == "False" and text in found["message"]

    found = await eventually(lambda: condition(world, name), says, f"{name} is refused: {text}")
    assert found is not None
    assert found["reason"] == "Unschedulable"


async def events(world: World, reason: str, about: str) -> list[Document]:
    found = await world.admin.list("Event", world.namespace)
    return [one for one in found if (one["reason"], one["regarding"]["name"]) == (reason, about)]
