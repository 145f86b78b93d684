"""Objects that no API server should send are skipped, counted and named in a log line; the rest goes on.

The real API server rejects most of them, so they are broken on their way to the controller.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.documents import claim, claim_spec, pod, pod_spec, storage_class
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, account, start_controller
from tests.scenarios.processes.proxy import Call, Fault, Proxy

MEGABYTE: Final = 2**20
Broken = dict[str, Any]
Break = Callable[[Broken], object]

BREAKS: Final[dict[str, dict[str, Break]]] = {
    "persistentvolumes": {
        "no-spec": lambda volume: volume.pop("spec"),
        "spec-text": lambda volume: volume.update(spec="text"),
        "size-list": lambda volume: volume["spec"].update(capacity={"storage": [1]}),
        "size-word": lambda volume: volume["spec"].update(capacity={"storage": "much"}),
        "modes-map": lambda volume: volume["spec"].update(accessModes={"ReadWriteOnce": True}),
        "labels-number": lambda volume: volume["metadata"].update(labels=7),
        "terms-text": lambda volume: volume["spec"].update(nodeAffinity={"required": {"nodeSelectorTerms": "all"}}),
        "claim-ref-list": lambda volume: volume["spec"].update(claimRef=["me"]),
    },
    "persistentvolumeclaims": {
        "no-spec": lambda claim: claim.pop("spec"),
        "request-word": lambda claim: claim["spec"].update(resources={"requests": {"storage": "some"}}),
        "class-number": lambda claim: claim["spec"].update(storageClassName=1),
    },
    "pods": {
        "no-spec": lambda pod: pod.pop("spec"),
        "volumes-text": lambda pod: pod["spec"].update(volumes="all"),
    },
    "nodes": {"allocatable-list": lambda node: node["status"].update(allocatable=[1])},
    "storageclasses": {"mode-number": lambda document: document.update(volumeBindingMode=1)},
}


def made(world: World, plural: str, word: str) -> dict[str, Any]:
    """Return the sound object that is to be broken on its way."""
    name = f"broken-{word}"
    documents: dict[str, Callable[[], dict[str, Any]]] = {
        "persistentvolumes": lambda: world.volume(name, world.name("disks"), zone="zone-a"),
        "persistentvolumeclaims": lambda: claim(world.namespace, name, claim_spec(world.name("disks"))),
        "pods": lambda: pod(world.namespace, name, pod_spec(("good",), extra={"schedulerName": "nobody"})),
        "nodes": lambda: NodeSpec(world.name(name), "zone-a").manifest(),
        "storageclasses": lambda: storage_class(world.name(name), "prebind", prefix=world.prefix),
    }
    return documents[plural]()


def breaking(world: World) -> Callable[[Call, dict[str, Any]], dict[str, Any]]:
    """Break what is named so; volumes called `huge` get a megabyte of annotations, ours and others'."""

    def distort(call: Call, document: dict[str, Any]) -> dict[str, Any]:
        name, plural = str(document.get("metadata", {}).get("name", "")), call.path.rpartition("/")[2]
        if name == world.name("huge"):
            document["metadata"]["annotations"] = {
                f"{world.prefix}reserved-for": "x" * MEGABYTE,
                "example.com/story": "y" * MEGABYTE,
            }
        elif "broken-" in name and "spec" in document | {"spec": plural == "storageclasses"}:
            harm = BREAKS.get(plural, {}).get(name.rpartition("broken-")[2])
            if harm is not None:
                harm(document)
        return document

    return distort


async def test_each_is_skipped_counted_and_named_once(own_world: World) -> None:
    world = own_world
    broken = [(plural, word) for plural, words in BREAKS.items() for word in words]
    disks = await world.storage_class("prebind")
    await world.volumes(disks, world.volume("good", disks, zone="zone-a"), world.volume("huge", disks, zone="zone-a"))
    await world.admin.create_at_once(made(world, plural, word) for plural, word in broken)
    async with Proxy(world.cluster) as proxy:
        proxy.distort = breaking(world)
        kubeconfig = proxy.kubeconfig_for(await account(world.cluster))
        controller = await start_controller(world, "--log-format=json", kubeconfig=kubeconfig)
        await world.pod("app", {"good": claim_spec(disks)}, gated=True)
        await settled(world, ["good"], "app")
        assert await world.bound() == {"good": world.name("good")}
        counted = await malformed(controller)
        assert counted.keys() == BREAKS.keys()
        assert all(counted[plural] >= len(words) for plural, words in BREAKS.items())
        assert {name for name, _ in named(controller)} == {logged_name(world, plural, word) for plural, word in broken}

        # They come once more, by a new list: counted again, not named again, and the next pod is served as well.
        proxy.faults += [Fault(about=watches_of(plural), status=410, reason="Expired") for plural in BREAKS]
        proxy.drop_watches()
        await eventually(
            lambda: malformed(controller), lambda now: all(now[each] > counted[each] for each in BREAKS), "listed again"
        )
        await world.volumes(disks, world.volume("better", disks, zone="zone-a"))
        await world.pod("next", {"better": claim_spec(disks)}, gated=True)
        await settled(world, ["better"], "next")
        assert max(named(controller).values()) == 1
        await controller.stop()
        assert "Traceback" not in controller.log()


def watches_of(plural: str) -> Callable[[Call], bool]:
    return lambda call: call.watches and call.path.endswith(f"/{plural}")


async def malformed(controller: Controller) -> Counter[str]:
    samples = await controller.samples()
    return Counter(
        {
            labels["resource"]: int(value)
            for name, labels, value in samples
            if name == "pvc_prebinder_malformed_objects_total" and value
        }
    )


def named(controller: Controller) -> Counter[tuple[str, str]]:
    """Say how often which version of which object is named as malformed."""
    lines = [json.loads(line) for line in controller.log().splitlines() if line.startswith("{")]
    skipped = [line for line in lines if line["msg"] == "Malformed object skipped"]
    return Counter((line["object"], line["resource_version"]) for line in skipped)


def logged_name(world: World, plural: str, word: str) -> str:
    name = made(world, plural, word)["metadata"]
    return f"{name['namespace']}/{name['name']}" if "namespace" in name else str(name["name"])
