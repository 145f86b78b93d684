"""What is said when a process that is not root may not open a driver's socket: on real sockets, as another user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.client.socket_access import Owned, access_trouble, advice
from csi.drivers import Drivers
from csi.health.verdict import HealthState
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, ScriptedDriver

NOBODY = 65532
DRIVER = 1234


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's rights, if the tests run as root; the connections that are opened inside are opened so too."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user can enter; only their owner can enter pytest's own."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory


async def test_the_verdict_names_user_owner_mode_and_the_next_step(directory: Path) -> None:
    socket = directory / "csi.sock"
    async with ScriptedDriver(socket):
        socket.chmod(0o500)
        group = socket.stat().st_gid
        drivers = Drivers([Endpoint(NAME, str(socket))], SystemClock(), Recorder(), Limits(deadline=5))
        with as_nobody():
            verdict = await drivers.verdict(NAME, "v", timedelta(seconds=1))
        await drivers.close()
    assert (verdict.state, verdict.reason) == (HealthState.UNKNOWN, "Unavailable")
    description = f"the socket {socket} has uid {os.getuid()}, gid {group} and mode 0500"
    assert description in verdict.message
    assert "have the driver grant g+w to a group" in verdict.message


async def test_a_group_is_enough(directory: Path) -> None:
    """As fsGroup gives it: the driver is another user, and its socket can be written by our group."""
    socket = directory / "csi.sock"
    async with ScriptedDriver(socket):
        if os.geteuid() == 0:
            os.chown(socket, 0, NOBODY)
        socket.chmod(0o660)
        drivers = Drivers([Endpoint(NAME, str(socket))], SystemClock(), Recorder(), Limits(deadline=5))
        with as_nobody():
            verdict = await drivers.verdict(NAME, "v", timedelta(seconds=1))
        await drivers.close()
    assert verdict.state is HealthState.HEALTHY


async def test_a_directory_on_the_way_is_named(directory: Path) -> None:
    inner = directory / "csi"
    inner.mkdir()
    socket = inner / "csi.sock"
    async with ScriptedDriver(socket):
        inner.chmod(0o600)
        with as_nobody():
            trouble = access_trouble(str(socket))
        inner.chmod(0o700)
    assert trouble is not None
    assert f"is not permitted to open it: the directory {inner} has uid {os.getuid()}" in trouble
    assert "mode 0600" in trouble


async def test_an_accessible_or_missing_socket_is_not_reported(directory: Path) -> None:
    socket = directory / "csi.sock"
    async with ScriptedDriver(socket):
        socket.chmod(0o777)
        with as_nobody():
            assert access_trouble(str(socket)) is None
    assert access_trouble(str(directory / "absent.sock")) is None


@pytest.mark.parametrize(
    ("uid", "groups", "mode", "opens"),
    [
        pytest.param(DRIVER, [], 0o200, True, id="owner"),
        pytest.param(DRIVER, [7], 0o020, False, id="the owner's bits count, not the group's"),
        pytest.param(NOBODY, [7], 0o020, True, id="group"),
        pytest.param(NOBODY, [7], 0o002, False, id="the group's bits count, not the others'"),
        pytest.param(NOBODY, [8], 0o002, True, id="others"),
        pytest.param(NOBODY, [8], 0o775, False, id="reading is not enough"),
    ],
)
def test_permission_bits(uid: int, groups: list[int], mode: int, opens: bool) -> None:
    assert Owned("the socket", DRIVER, 7, mode, 0o2).opens_for(uid, groups) is opens


@pytest.mark.parametrize(
    ("owner", "group", "mode", "expected"),
    [
        pytest.param(0, 7, 0o660, "set fsGroup or supplementalGroups of the pod to 7", id="a group may"),
        pytest.param(DRIVER, 7, 0o755, "set runAsUser of the container to 1234", id="only its owner may"),
        pytest.param(
            0,
            0,
            0o755,
            "have the driver grant g+w to a group (umask 0007) and set fsGroup of the pod to that group, "
            "or set runAsUser of the container to 0",
            id="only root may",
        ),
    ],
)
def test_advice(owner: int, group: int, mode: int, expected: str) -> None:
    assert advice(Owned("the socket", owner, group, mode, 0o2), NOBODY) == expected
