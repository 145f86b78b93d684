"""Every mode beside the untouched kube-scheduler and PV controller: pods run, on the volumes that were reserved."""

import re
from collections.abc import Sequence

import pytest

from tests.scenarios.environment.bindings import PRODUCT, writers
from tests.scenarios.environment.documents import ZONES, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

PODS = [f"app-{number}" for number in range(9)]
SIZES = {"data": "2Gi", "wal": "1Gi"}
CLAIMS = [f"{pod}-{word}" for pod in PODS for word in SIZES]


async def crowd(world: World, mode: str, *, gated: bool, words: Sequence[str] = tuple(SIZES)) -> None:
    """Nine pods with a claim for each of the words, and a third more volumes than two claims each need.

    Without gates each zone has volumes for all: a conflict may leave a pod with one volume, and kube-scheduler keeps
    none for the other claim while it serves other pods.
    """
    disks = await world.storage_class(mode)
    numbers = range(8 if gated else len(CLAIMS))
    volumes = [world.volume(f"{zone}-{n}", disks, zone=zone, size=f"{1 + n % 2}Gi") for zone in ZONES for n in numbers]
    await world.volumes(disks, *volumes)
    made = [
        document
        for pod in PODS
        for document in world.pod_documents(
            pod, {f"{pod}-{word}": claim_spec(disks, SIZES[word]) for word in words}, gated=gated
        )
    ]
    await world.admin.create_at_once(made)


async def announced(world: World, reason: str) -> dict[str, str]:
    """Claim -> volume, by the Events about pods that said so."""
    volumes: dict[str, str] = {}
    for event in await world.events(reason):
        assert event["regarding"]["kind"] == "Pod"
        volumes |= {claim: volume for volume, claim in re.findall(r"(\S+) (?:to|for) claim ([^\s,]+)", event["note"])}
    return volumes


@pytest.mark.parametrize(("mode", "reason"), [("prebind", "VolumeReserved"), ("complete", "VolumeBound")])
async def test_gated_pods_run_on_exactly_the_volumes_reserved_for_them(world: World, mode: str, reason: str) -> None:
    await crowd(world, mode, gated=True)
    await world.all_run(*PODS)
    announcements = await eventually(
        lambda: announced(world, reason), lambda announcements: set(announcements) == set(CLAIMS), "all are announced"
    )
    assert await world.bound() == announcements
    assert await world.events("ReservationLost") == []


@pytest.mark.parametrize("words", [("data",), ("data", "wal")], ids=["one claim", "two claims"])
@pytest.mark.parametrize("mode", ["annotate", "prebind", "complete", "off"])
async def test_pods_without_a_gate_run_although_kubernetes_races_us(
    world: World, mode: str, words: tuple[str, ...]
) -> None:
    """With several claims each side could win some, and the pod could run nowhere: then we only give a hint."""
    await crowd(world, mode, gated=False, words=words)
    await world.all_run(*PODS)
    bound = await world.bound()
    assert set(bound) == {f"{pod}-{word}" for pod in PODS for word in words}
    assert len(set(bound.values())) == len(bound)


@pytest.mark.parametrize("mode", ["annotate", "prebind"])
async def test_nothing_of_ours_is_left_on_a_bound_pair(world: World, mode: str) -> None:
    await crowd(world, mode, gated=True)
    await world.all_run(*PODS)

    async def left() -> list[str]:
        objects = [*(await world.own_volumes()).values(), *(await world.claims()).values()]
        return [
            key
            for document in objects
            for key in document["metadata"].get("annotations", {})
            if key.startswith(world.prefix)
        ]

    await eventually(left, lambda keys: not keys, "the annotations of bound pairs are gone")


async def test_in_mode_off_nothing_is_written(world: World) -> None:
    await crowd(world, "off", gated=False)
    await world.all_run(*PODS)
    for document in [*(await world.own_volumes()).values(), *(await world.claims()).values()]:
        assert PRODUCT not in writers(document)
    assert await world.events() == []
