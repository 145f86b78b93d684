"""What others take of a node while a pod's volumes are being bound."""

import pytest

from binder.matching.rejection import Reason
from kube.clock import Clock
from kube.objects.constraints import Constraints, HostPort, InlineDisk
from kube.objects.model import Pod
from scheduler.binding.still_fits import StillFits
from scheduler.framework.plugin import ScheduleResult
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volume_binding import VolumeChoice
from tests import builders
from tests.fake_clock import FakeClock
from tests.scheduler.plugin_results import view

NODE = builders.node("n1", allocatable={"cpu": "2", "memory": "4Gi", "pods": "2"})
LISTENING = Constraints(ports=(HostPort(80),), disks=(InlineDisk("awsElasticBlockStore", ("vol",)),))


def placed(*claims: str, cpu: str = "1", constraints: Constraints | None = None) -> Pod:
    return builders.pod("db", claims=claims, requests={"cpu": cpu}, constraints=constraints)


class Following:
    """The cluster as it is by then; the pod counts on its node."""

    def __init__(self, pod: Pod, *others: Pod) -> None:
        self._view = view(NODE, *others).with_pod(pod, "n1")

    async def current(self, clock: Clock) -> ClusterView:
        return self._view


async def rejected(pod: Pod, *others: Pod, node: str = "n1") -> Reason | None:
    rejection = await StillFits(Following(pod, *others), FakeClock()).bind(ScheduleResult(pod, node, VolumeChoice()))
    return None if rejection is None else rejection.reason


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param(builders.pod("other", node="n1", requests={"cpu": "1"}), None, id="room-for-both"),
        pytest.param(
            builders.pod("other", node="n1", requests={"cpu": "1001m"}), Reason.INSUFFICIENT_RESOURCES, id="too-much"
        ),
        pytest.param(builders.pod("other", node="n1", constraints=LISTENING), Reason.HOST_PORT_TAKEN, id="port"),
        pytest.param(
            builders.pod("other", node="n1", constraints=Constraints(disks=LISTENING.disks)),
            Reason.DISK_IN_USE,
            id="disk",
        ),
    ],
)
async def test_others_take_room(other: Pod, reason: Reason | None) -> None:
    assert await rejected(placed("data", constraints=LISTENING), other) == reason


async def test_a_pod_does_not_stand_in_its_own_way() -> None:
    assert await rejected(placed("data", cpu="2", constraints=LISTENING)) is None


async def test_the_node_goes() -> None:
    assert await rejected(placed("data"), node="n2") is Reason.NODE_MISSING


async def test_a_pod_without_claims_was_decided_about_just_now() -> None:
    assert await rejected(placed(), builders.pod("other", node="n1", requests={"cpu": "2"})) is None
