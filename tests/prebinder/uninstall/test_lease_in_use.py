"""Whether a Lease is held, by what its holder writes; fake time, and wall clocks that disagree."""

from typing import Any

import pytest

from kube.client.api import KubeApi
from prebinder.uninstall.lease_in_use import holders
from tests.fake_clock import FakeClock
from tests.kube.lease_server import LeaseServer
from tests.running_task import running


class Command:
    """Looks at the Lease l, until it has an answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = LeaseServer(self.clock)
        self.lines: list[str] = []
        self.held: list[str] | None = None

    async def look(self) -> None:
        self.held = await holders(KubeApi(self.server), "ns", ["l"], self.clock, self.lines.append)

    async def renew(self, **spec: Any) -> None:
        self.server.write(holderIdentity="host_1", leaseDurationSeconds=15, leaseTransitions=1, **spec)


@pytest.mark.parametrize("ahead", [-3600, -16, 0, 16, 3600], ids=lambda seconds: f"{seconds}s")
async def test_a_lease_that_is_renewed_is_held_by_any_clock(ahead: float) -> None:
    command = Command()
    await command.renew(renewTime="2026-01-01T12:00:00.000000Z")
    command.clock.set_time(ahead)
    async with running(command.look()):
        await command.clock.advance(1)
        assert command.lines == ["waiting 15 s to see whether host_1 still renews the Lease ns/l"]
        await command.renew(renewTime="2026-01-01T12:00:02.000000Z")
        await command.clock.advance(2)
    assert command.held == [
        "host_1 holds the Lease ns/l and renews it. Scale its Deployment to 0: "
        "kubectl -n ns scale deployment --all --replicas=0"
    ]


async def test_a_lease_that_changes_hands_is_held() -> None:
    command = Command()
    await command.renew(renewTime="2026-01-01T12:00:00.000000Z")
    async with running(command.look()):
        await command.clock.advance(1)
        command.server.write(holderIdentity="host_2", leaseTransitions=2)
        await command.clock.advance(2)
    assert command.held is not None
    assert command.held[0].startswith("host_2 holds the Lease ns/l")


@pytest.mark.parametrize("ahead", [-3600, 0, 3600], ids=lambda seconds: f"{seconds}s")
async def test_a_lease_is_abandoned_after_longer_than_it_lasts_and_not_before(ahead: float) -> None:
    command = Command()
    await command.renew(renewTime="2026-01-01T12:00:00.000000Z")
    command.clock.set_time(ahead)
    async with running(command.look()):
        await command.clock.advance(15)
        assert command.held is None
        await command.clock.advance(2)
    assert command.held == []


async def test_a_label_that_a_user_adds_is_no_renewal() -> None:
    command = Command()
    await command.renew(renewTime="2026-01-01T12:00:00.000000Z")
    async with running(command.look()):
        await command.clock.advance(5)
        command.server.write()
        await command.clock.advance(12)
    assert command.held == []


@pytest.mark.parametrize("spec", [None, {"holderIdentity": ""}], ids=["no-lease", "released"])
async def test_a_lease_without_holder_takes_no_time(spec: dict[str, Any] | None) -> None:
    command = Command()
    if spec is not None:
        command.server.write(**spec)
    await command.look()
    assert (command.held, command.lines) == ([], [])


async def test_a_release_meanwhile_ends_the_wait() -> None:
    command = Command()
    await command.renew(renewTime="2026-01-01T12:00:00.000000Z")
    async with running(command.look()):
        await command.clock.advance(1)
        command.server.write(holderIdentity="")
        await command.clock.advance(2)
    assert command.held == []


async def test_a_lease_for_years_is_not_waited_for() -> None:
    command = Command()
    command.server.write(holderIdentity="host_1", leaseDurationSeconds=2_000_000_000)
    await command.look()
    assert command.held == [
        "host_1 holds the Lease ns/l for 2000000000 s, longer than any process of pvc-prebinder does. If none runs, "
        "delete it: kubectl -n ns delete lease l"
    ]
    assert command.clock.slept == []
