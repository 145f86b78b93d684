"""Binds that Kubernetes began before we could reserve: mode complete finishes them, other modes leave them alone."""

from typing import Any

import pytest

from binder.decision import Mode
from kube.model import BIND_COMPLETED, BOUND_BY_CONTROLLER
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object

CHOSEN = {BOUND_BY_CONTROLLER: "yes"}
LAST_THREE = ["persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"]


def begun(mode: Mode = Mode.COMPLETE, *, uid: str = "uid-data", **volume: Any) -> World:
    """A world in which kube-scheduler has just written the claimRef of a volume."""
    world, data = World(mode), claim_object("data", uid="uid-data")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    volume.setdefault("annotations", CHOSEN)
    written = volume_object("pv-1", "16Gi", **volume)
    written["spec"]["claimRef"] = reference | {"uid": uid}
    world.put(written, data, pod_object("web", ["data"]))
    return world


def writes(world: World) -> list[str]:
    return [f"{write.plural}/{write.subresource}".rstrip("/") for write in world.server.writes]


@pytest.mark.parametrize("phase", ["Available", "Bound"])
async def test_complete_does_what_is_left(phase: str) -> None:
    world = begun()
    world.volume("pv-1")["status"]["phase"] = phase
    async with world.process() as process:
        await process.run()
    assert writes(world) == (LAST_THREE if phase == "Available" else LAST_THREE[1:])
    claim = world.claim("data")
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == ("pv-1", "Bound")
    assert claim["metadata"]["annotations"][BIND_COMPLETED] == "yes"


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(begun(Mode.PREBIND), id="prebind"),
        pytest.param(begun(Mode.ANNOTATE), id="annotate"),
        pytest.param(begun(annotations={}), id="a-person-wrote-it"),
        pytest.param(begun(uid=""), id="no-uid"),
        pytest.param(begun(reclaim_policy="Delete"), id="delete-policy"),
    ],
)
async def test_all_else_is_left_to_kubernetes(world: World) -> None:
    async with world.process() as process:
        await process.run()
    assert writes(world) == []


async def test_nothing_is_taken_back_when_the_claim_goes_meanwhile() -> None:
    world = begun()

    def hook(_: object) -> None:
        world.server.before_write = None
        world.server.remove("persistentvolumeclaims", "default/data")

    world.server.before_write = hook
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
