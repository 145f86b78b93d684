"""A gate is removed only from a pod that its volumes let run, and a bind is completed only for such a pod."""

from collections.abc import Callable
from typing import Any

import pytest

from binder.model.decision import Mode
from kube.client.transport import Request
from tests.binder.world import World, bind
from tests.fakes.objects import ZONE, claim_object, node_object, pod_object, volume_object

ANY_MODE = pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])


def in_zone(name: str, zone: str, claims: tuple[str, ...] = ("shared",)) -> dict[str, Any]:
    """A gated pod that selects a zone."""
    document = pod_object(name, claims, gated=True)
    document["spec"]["nodeSelector"] = {ZONE: zone}
    return document


def waits(world: World, name: str) -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


def held(world: World) -> list[str]:
    """The volumes that are reserved or committed."""
    return [
        volume["metadata"]["name"]
        for volume in world.server.all("persistentvolumes")
        if "claimRef" in volume["spec"] or volume["metadata"].get("annotations")
    ]


@ANY_MODE
async def test_a_shared_claim_gets_no_volume_that_only_one_of_its_gated_pods_can_use(mode: Mode) -> None:
    world = World(mode, binds=True)
    world.put(volume_object("in-a", zone="a"), volume_object("in-b", zone="b"), claim_object("shared"))
    world.put(in_zone("one", "a"), in_zone("two", "b"))
    async with world.process() as process:
        await process.run(30)
        assert waits(world, "one")
        assert waits(world, "two")
        assert held(world) == []
        notes = {event.regarding.name: event.note for event in process.sink.events}
        assert "default/one, default/two" in notes["one"]
        world.server.remove("pods", "default/two")
        await process.run(70)
        assert not waits(world, "one"), "alone it can run"


@ANY_MODE
async def test_a_shared_claim_gets_the_volume_that_all_of_its_gated_pods_can_use(mode: Mode) -> None:
    world = World(mode, binds=True)
    world.put(volume_object("in-a", zone="a"), volume_object("anywhere", "20Gi", zone=None), claim_object("shared"))
    world.put(in_zone("one", "a"), in_zone("two", "b"))
    async with world.process() as process:
        await process.run(30)
        assert held(world) == ["anywhere"]
        assert not waits(world, "one")
        assert not waits(world, "two")


@ANY_MODE
async def test_a_pod_that_comes_later_is_not_let_go_with_a_volume_that_it_cannot_reach(mode: Mode) -> None:
    """The claim is reserved already, for a pod of another zone; so nothing is left to be planned."""
    world = World(mode, binds=True)
    world.put(volume_object("in-a", zone="a"), claim_object("shared"), in_zone("one", "a"))
    async with world.process() as process:
        await process.run()
        assert not waits(world, "one")
        world.put(in_zone("two", "b"))
        await process.run(30)
        assert waits(world, "two")
        assert process.sink.reasons_of("Pod", "two") == ["NoNodeFits"]


def moved(name: str, zone: str) -> Callable[[dict[str, Any]], None]:
    """Give a volume another affinity, as a storage system that moved it does."""

    def change(document: dict[str, Any]) -> None:
        document["spec"]["nodeAffinity"] = volume_object(name, zone=zone)["spec"]["nodeAffinity"]

    return change


@pytest.mark.parametrize(
    ("mode", "policy", "write"),
    [
        *((Mode.PREBIND, "Retain", number) for number in range(1, 3)),
        *((Mode.PREBIND, "Delete", number) for number in range(1, 5)),
        *((Mode.COMPLETE, "Retain", number) for number in range(1, 7)),
    ],
)
async def test_a_volume_that_moves_after_its_write_does_not_leave_its_pod_without_a_node(
    mode: Mode, policy: str, write: int
) -> None:
    """Two volumes in zone a; one of them moves to zone b right before the write of that number, and stays there.

    In mode prebind the claims are written too if the policy is Delete; the write after these removes the gate.
    """
    world = World(mode, allow_delete_policy=True)
    volumes = [volume_object("pv-1"), volume_object("pv-2", "20Gi")]
    for volume in volumes:
        volume["spec"]["persistentVolumeReclaimPolicy"] = policy
    world.put(*volumes, claim_object("one"), claim_object("two", "20Gi"))
    world.put(pod_object("web", ["one", "two"], gated=True))

    moves: list[str] = []

    def move(request: Request) -> None:
        if len(world.server.writes) == write - 1 and not moves:
            moves.append(request.path)
            world.server.change("persistentvolumes", "pv-1", moved("pv-1", "b"))

    world.server.before_write = move
    async with world.process() as process:
        await process.run(30)
        assert moves
        zones = [
            volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
            for volume in world.server.all("persistentvolumes")
        ]
        assert zones == [["b"], ["a"]]
        completed = [claim for claim in world.server.all("persistentvolumeclaims") if claim["spec"].get("volumeName")]
        assert waits(world, "web")
        assert not completed or write > 3, "no claim gets its volume; later ones are under way at that moment"


async def test_a_gated_pod_whose_bound_volume_waits_for_a_node_is_let_go() -> None:
    """The zone has no node at present: an autoscaler adds one, but it does not look at gated pods."""
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1", zone="c"), claim_object("data"), pod_object("web", ["data"], gated=True))
    bind(world, "data", "pv-1")
    async with world.process() as process:
        await process.run()
        assert not waits(world, "web")


async def test_a_gated_pod_whose_bound_volumes_exclude_each_other_is_not_let_go() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1", zone="a"), volume_object("pv-2", zone="b"), node_object("node-c", "c"))
    world.put(claim_object("one"), claim_object("two"), pod_object("web", ["one", "two"], gated=True))
    bind(world, "one", "pv-1")
    bind(world, "two", "pv-2")
    async with world.process() as process:
        await process.run()
        assert waits(world, "web")
        assert process.sink.reasons_of("Pod", "web") == ["NoNodeFits"]
