"""What waits, as gauges: claims by reason and in how many namespaces, and pods behind our gate."""

from datetime import timedelta

from binder.matching.rejection import Reason
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.instruments import Instruments
from tests.builders import EPOCH, claim, pod, storage_class

GATE = "scheduler.cloud.example/volumes"


async def lines(state: ClusterState | None = None, *, dry_run: bool = False) -> list[str]:
    instruments = Instruments("lease", (), dry_run=dry_run)
    rendered = await instruments.render(state or ClusterState(), EPOCH + timedelta(seconds=90))
    return rendered.decode().splitlines()


async def test_namespaces_are_counted_and_not_named() -> None:
    claims = [claim("data", namespace=f"tenant-{number}") for number in range(3)]
    more = claim("more", namespace="tenant-0")
    told = dict.fromkeys((found.key for found in [*claims, more]), Reason.NO_VOLUME_FITS)
    seen = await lines(ClusterState(snapshot_of([storage_class("fast"), *claims, more]), told=told))
    labels = 'reason="StaticOnlyNoMatch",storage_class="fast"'
    assert f"pvc_prebinder_pending_namespaces{{{labels}}} 3.0" in seen
    assert f"pvc_prebinder_pending_claims{{{labels}}} 4.0" in seen
    assert not [line for line in seen if "tenant" in line]


async def test_pods_behind_our_gate_are_counted_from_their_creation() -> None:
    gated = pod("gated", scheduling_gates=[GATE], created=EPOCH)
    later = pod("later", scheduling_gates=[GATE, "example.com/other"], created=EPOCH + timedelta(seconds=60))
    others = [pod("free"), pod("theirs", scheduling_gates=["example.com/other"])]
    gone = pod("gone", scheduling_gates=[GATE], created=EPOCH - timedelta(days=1), deleting=True)
    seen = await lines(ClusterState(snapshot_of([gated, later, gone, *others])))
    assert "pvc_prebinder_gated_pods 2.0" in seen
    assert "pvc_prebinder_oldest_gated_pod_seconds 90.0" in seen
    assert "pvc_prebinder_oldest_gated_pod_seconds 0.0" in await lines(ClusterState(snapshot_of(others)))


async def test_a_dry_run_does_not_look_like_a_cluster_without_a_leader() -> None:
    for dry_run in (False, True):
        seen = await lines(dry_run=dry_run)
        assert f"pvc_prebinder_dry_run {float(dry_run)}" in seen
        assert ('leader_election_master_status{name="lease"} 0.0' in seen) is not dry_run
