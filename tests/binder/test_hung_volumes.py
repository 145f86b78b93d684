"""Volumes and drivers that do not respond keep no pod from a healthy volume, and are reported if there is none."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from binder.controllers.pod_progress import REPORTED_AFTER
from binder.matching.rejection import Reason
from binder.model.decision import Mode
from binder.writers.health_gate import MAX_SLOW
from csi.health.verdict import HealthState, Verdict
from tests.binder.world import Doctor, World
from tests.fakes.objects import Object, claim_object, class_object, pod_object, volume_object

DRIVER, OTHER = "disk.csi.example", "other.csi.example"
DEADLINE = 5.0
HEALTHY = "well"


class HangingDoctor(Doctor):
    """A call about a volume in `hang` ends at its deadline, as those of `csi.client.channel` do."""

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        if handle not in self.hang:
            return await super().verdict(driver, handle, max_age)
        self.probed.append(handle)
        await self._clock.sleep(DEADLINE)
        source = f"CSI driver {driver}"
        return Verdict(HealthState.UNKNOWN, "DeadlineExceeded", "Deadline Exceeded", source, self._clock.now())


def of_driver(driver: str, document: Object) -> Object:
    document["spec"]["csi"]["driver"] = driver
    return document


def local(document: Object) -> Object:
    del document["spec"]["csi"]
    return document | {"spec": document["spec"] | {"local": {"path": "/disk"}}}


BEHIND: dict[str, Any] = {
    "a-volume-of-the-same-driver": lambda document: document,
    "a-volume-of-another-driver": lambda document: of_driver(OTHER, document),
    "a-local-volume": local,
}


def hung_world(count: int, *pods: str) -> World:
    """A world with so many volumes that hang, and gated pods with a claim each."""
    world = World(Mode.PREBIND, drivers=frozenset({DRIVER, OTHER}))
    world.doctor = HangingDoctor(world.clock)
    for number in range(count):
        world.put(volume_object(f"hung-{number:03}"))
        world.doctor.hang.add(f"handle-hung-{number:03}")
    for name in pods:
        world.put(claim_object(name), pod_object(name, [name], gated=True))
    return world


def held(world: World, claim: str) -> str | None:
    """The volume that is committed to the claim."""
    for volume in world.server.all("persistentvolumes"):
        if volume["spec"].get("claimRef", {}).get("name") == claim:
            return str(volume["metadata"]["name"])
    return None


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("count", [2, 3, 4, 6, 20])
async def test_a_healthy_volume_behind_hung_ones_is_reserved_in_time(count: int, behind: str) -> None:
    world = hung_world(count, "web")
    world.put(BEHIND[behind](volume_object(HEALTHY, "20Gi")))
    async with world.process() as process:
        await process.run(15)
        assert held(world, "web") == HEALTHY
        assert process.sink.reasons_of("Pod", "web") == ["VolumeReserved"]


async def test_a_hundred_hung_volumes_are_passed_in_the_end() -> None:
    world = hung_world(100, "web")
    world.put(volume_object(HEALTHY, "20Gi"))
    async with world.process() as process:
        await process.run(600)
    assert held(world, "web") == HEALTHY


@pytest.mark.parametrize("count", [1, 4, 12, 40])
async def test_hung_volumes_alone_are_reported_with_their_driver(count: int) -> None:
    world = hung_world(count, "web")
    async with world.process() as process:
        await process.run(REPORTED_AFTER[Reason.HEALTH_UNKNOWN] - 1)
        assert process.sink.events == []
        await process.run(30 - REPORTED_AFTER[Reason.HEALTH_UNKNOWN] + 1)
        assert process.sink.reasons_of("Pod", "web") == ["HealthUnknown"]
        note = process.sink.events[0].note
        assert note.startswith("No volumes reserved: HealthUnknown. Check that the CSI driver responds")
        assert f"a volume whose health {DRIVER} reports" in note
        await process.run(600)
        assert process.sink.reasons_of("Pod", "web") == ["HealthUnknown"], "told once"


async def test_a_volume_is_offered_once_in_an_attempt() -> None:
    world = hung_world(6, "web")
    async with world.process() as process:
        await process.run(14)
    assert len(world.doctor.probed) == len(set(world.doctor.probed)) == 6


async def test_one_hung_volume_does_not_condemn_its_driver() -> None:
    world = hung_world(1, "web", "db")
    for number in range(2):
        world.put(volume_object(f"{HEALTHY}-{number}", "20Gi"))
    async with world.process() as process:
        await process.run(3)
    assert {held(world, "web"), held(world, "db")} == {f"{HEALTHY}-0", f"{HEALTHY}-1"}


async def test_a_driver_that_is_down_costs_no_call_for_each_volume() -> None:
    world = hung_world(20, "web")
    world.put(of_driver(OTHER, volume_object(HEALTHY, "20Gi")))
    world.doctor.down = {DRIVER}
    async with world.process() as process:
        await process.run(1)
        assert held(world, "web") == HEALTHY
    assert world.doctor.probed == [f"handle-{HEALTHY}"]


async def test_a_volume_whose_driver_responds_late_is_used_after_all() -> None:
    """The pod was rejected meanwhile; it does not wait for its next retry."""
    world = hung_world(1, "web")
    release = asyncio.Event()

    class LateDoctor(Doctor):
        async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
            await release.wait()
            return await super().verdict(driver, handle, max_age)

    world.doctor = LateDoctor(world.clock)
    async with world.process() as process:
        await process.run(120)
        assert process.sink.reasons_of("Pod", "web") == ["HealthUnknown"]
        release.set()
        await process.run(1)
    assert held(world, "web") == "hung-000"


async def test_a_slow_driver_is_not_reported() -> None:
    world = hung_world(0, "web")

    class SlowDoctor(Doctor):
        async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
            await self._clock.sleep(3)
            return await super().verdict(driver, handle, max_age)

    world.doctor = SlowDoctor(world.clock)
    world.put(volume_object(HEALTHY))
    async with world.process() as process:
        await process.run(5)
        assert held(world, "web") == HEALTHY
        assert process.sink.reasons_of("Pod", "web") == ["VolumeReserved"]


async def test_many_pods_with_a_hung_driver_delay_no_other_pod() -> None:
    """More pods than are handled at once, each with volumes of its own to try."""
    world = hung_world(2 * MAX_SLOW + 1300, *(f"stuck-{number}" for number in range(1300)))
    async with world.process() as process:
        await process.run(0.2)
        world.put(class_object("other"), of_driver(OTHER, volume_object(HEALTHY, zone="b", storage_class="other")))
        world.put(claim_object("web", storage_class="other"), pod_object("web", ["web"], gated=True))
        await process.run(2)
        assert held(world, "web") == HEALTHY
        assert len(world.doctor.probed) < 400, "so few calls at once, however many volumes"
