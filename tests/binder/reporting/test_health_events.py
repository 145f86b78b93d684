"""Which objects get an Event when a volume becomes unhealthy."""

import pytest

from binder.reporting.health_events import HealthAnnouncer
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.objects.model import ClaimReference, Record
from kube.store.store import snapshot_of
from tests.binder.world import Sink
from tests.builders import EPOCH, claim, pod, volume

UNHEALTHY = HealthFinding(HealthState.DATA_LOSS, "Gone", "the disk is gone", "CSI driver disk.csi.example", EPOCH)
BOUND = volume(claim=ClaimReference("default", "data", "uid-of-data"), phase="Bound")
USERS = (claim("data", uid="uid-of-data", volume_name="pv-1"), pod("web", claims=["data"]))


@pytest.mark.parametrize(
    ("seen", "kinds"),
    [
        pytest.param(USERS, ["PersistentVolume", "PersistentVolumeClaim", "Pod"], id="a controller sees claim and pod"),
        pytest.param((), ["PersistentVolume", "PersistentVolumeClaim"], id="an agent knows the claim from the volume"),
    ],
)
def test_a_bound_volume_is_reported_to_its_users(seen: tuple[Record, ...], kinds: list[str]) -> None:
    sink = Sink()
    HealthAnnouncer(sink).changed(BOUND, UNHEALTHY, snapshot_of(seen))
    assert [event.regarding.kind for event in sink.events] == kinds
    assert {event.regarding.uid for event in sink.events if event.regarding.kind.endswith("Claim")} == {"uid-of-data"}


def test_no_event_is_about_a_claim_that_does_not_exist_yet() -> None:
    sink = Sink()
    named = volume(claim=ClaimReference("default", "data"), phase="Available")
    HealthAnnouncer(sink).changed(named, UNHEALTHY, snapshot_of(()))
    assert [event.regarding.kind for event in sink.events] == ["PersistentVolume"]
