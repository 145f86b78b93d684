"""Pods for the standalone scheduler of a story, and what the API server says of them."""

from typing import Any

from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


def pod(world: World, name: str, *claims: str, cpu: str = "10m", **spec: Any) -> Document:
    extra = {"schedulerName": world.namespace, **spec}
    pod = documents.pod(world.namespace, name, documents.pod_spec(claims, extra=extra))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return pod


async def condition(world: World, name: str) -> Document | None:
    conditions = (await world.pods())[name]["status"].get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)


async def rejected(world: World, name: str, text: str) -> None:
    """Wait until the pod's condition says it is unschedulable, in these words."""

    def expected(condition: Document | None) -> bool:
        return condition is not None and condition["status"] == "False" and text in condition["message"]

    reported = await eventually(lambda: condition(world, name), expected, f"{name} is rejected: {text}")
    assert reported is not None
    assert reported["reason"] == "Unschedulable"


async def events(world: World, reason: str, about: str) -> list[Document]:
    events = await world.admin.list("Event", world.namespace)
    return [event for event in events if (event["reason"], event["regarding"]["name"]) == (reason, about)]
