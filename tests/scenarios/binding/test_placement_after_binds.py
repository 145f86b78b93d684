"""What mode complete binds is no dead end: kube-scheduler places each pod whose volumes we bound, beside all others."""

from itertools import chain
from typing import Final

from tests.scenarios.binding.neighbours import neighbours
from tests.scenarios.environment.documents import HOSTNAME, Document, claim_spec, claims_of, stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import start_controller

SEED: Final = 20261122
COUNT: Final = 40


async def test_a_stateful_set_whose_pods_keep_apart_gets_volumes_of_two_nodes(world: World) -> None:
    """The smaller volumes are both on one node."""
    disks = await world.storage_class("complete")
    first, second = [node["metadata"]["name"] for node in await world.admin.list("Node")][:2]
    small = [world.volume(f"small-{number}", disks, node=first, size="1Gi") for number in range(2)]
    large = [world.volume(f"large-{number}", disks, node=second, size="2Gi") for number in range(2)]
    await world.volumes(disks, *small, *large)
    pods = stateful_set(world.namespace, "db", {"data": claim_spec(disks)}, replicas=2, gated=True)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods["spec"]["template"]["spec"]["affinity"] = apart
    await world.admin.create(pods)
    await world.all_run("db-0", "db-1")
    assert {pod["spec"]["nodeName"] for pod in (await world.pods()).values()} == {first, second}


async def test_every_pod_whose_volumes_are_bound_is_placed(own_world: World) -> None:
    world = own_world
    disks = await world.storage_class("complete")
    nodes = [node["metadata"]["name"] for node in await world.admin.list("Node")]
    classes = {number: await world.storage_class("complete", f"disks-{number}") for number in range(COUNT)}
    made = [neighbours(world, number, SEED, name, nodes) for number, name in classes.items()]
    await world.volumes(disks, *chain.from_iterable(group.volumes for group in made))
    await world.admin.create_at_once([pod for group in made for pod in group.running])
    await world.admin.create_at_once([document for group in made for pod in group.waiting for document in pod])
    controller = await start_controller(world)
    try:
        what = "every pod is placed, or rejected and unbound"
        await eventually(lambda: undecided(world), lambda left: not left, what, 180)
        pods = await world.pods()
        placed = [name for name, pod in pods.items() if claims_of(pod) and pod["spec"].get("nodeName")]
        rejected = [name for name, pod in pods.items() if claims_of(pod) and not pod["spec"].get("nodeName")]
        assert len(placed) > COUNT, "too few pods were served to show anything"
        assert len(rejected) > COUNT // 4, "too few pods were rejected to show anything"
    finally:
        await controller.stop()


async def undecided(world: World) -> dict[str, str]:
    """Return the pods that are neither on a node nor rejected without any bound claim, and what keeps them."""
    bound, rejected = await world.bound(), {event["regarding"]["name"] for event in await world.events()}
    left = {}
    for name, pod in (await world.pods()).items():
        if not pod["spec"].get("nodeName"):
            held = [claim for claim in claims_of(pod) if claim in bound]
            if held or name not in rejected:
                left[name] = f"bound: {held}; {message_of(pod)}"
    return left


def message_of(pod: Document) -> str:
    return "; ".join(str(condition.get("message", "")) for condition in pod["status"].get("conditions", ()))
