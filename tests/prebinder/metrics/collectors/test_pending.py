"""What waits, as gauges: claims by reason and in how many namespaces, and pods behind our gate."""

from datetime import timedelta

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, Record
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.instruments import Instruments
from tests.builders import EPOCH, ZONE, claim, node, pod, storage_class, volume

GATE = "scheduler.cloud.example/volumes"
TIMES = {"bound-at": "2026-01-01T00:00:00Z", "expires-at": "2026-01-01T00:05:00Z"}
RESERVED = TIMES | {"reserved-volume": "pv-1"}
HELD = TIMES | {"reserved-for": "default/data", "reserved-for-uid": "uid", "reserved-by": "holder/1"}


async def lines(state: ClusterState | None = None, *, dry_run: bool = False) -> list[str]:
    instruments = Instruments("lease", (), dry_run=dry_run)
    rendered = await instruments.render(state or ClusterState(), EPOCH + timedelta(seconds=90))
    return rendered.decode().splitlines()


async def test_namespaces_are_counted_and_not_named() -> None:
    claims = [claim("data", namespace=f"tenant-{number}") for number in range(3)]
    more = claim("more", namespace="tenant-0")
    reasons = dict.fromkeys((claim.key for claim in [*claims, more]), Reason.NO_VOLUME_FITS)
    seen = await lines(ClusterState(snapshot_of([storage_class("fast"), *claims, more]), reasons=reasons))
    labels = 'reason="StaticOnlyNoMatch",storage_class="fast"'
    assert f"pvc_prebinder_pending_namespaces{{{labels}}} 3.0" in seen
    assert f'pvc_prebinder_pending_claims{{{labels},zone=""}} 4.0' in seen
    assert not [line for line in seen if "tenant" in line]


async def test_a_pending_claim_has_the_zone_in_which_alone_it_can_be_bound() -> None:
    reserved = {f"scheduler.cloud.example/{key}": text for key, text in RESERVED.items()}
    objects: list[Record] = [
        storage_class("fast"),
        node("n1", zone="zone-a"),
        node("n2", zone="zone-b"),
        claim("held", annotations=reserved | {"scheduler.cloud.example/reserved-zone": "zone-a"}),
        claim("forged", annotations=reserved | {"scheduler.cloud.example/reserved-zone": "x" * 1000}),
        claim("chosen", annotations={SELECTED_NODE: "n2"}),
        claim("tied"),
        claim("shared"),
        pod("one", claims=("tied", "shared"), node_selector={ZONE: "zone-b"}),
        pod("two", claims=("shared",), node_selector={ZONE: "zone-a"}),
        pod("lost", claims=("astray",), node_selector={ZONE: "nowhere"}),
        claim("astray"),
    ]
    reasons = {"default/astray": Reason.POD_ENDED}
    seen = [
        line for line in await lines(ClusterState(snapshot_of(objects), reasons=reasons)) if "pending_claims{" in line
    ]
    assert sorted(seen) == [
        'pvc_prebinder_pending_claims{reason="Progressing",storage_class="fast",zone=""} 1.0',
        'pvc_prebinder_pending_claims{reason="Progressing",storage_class="fast",zone="other"} 1.0',
        'pvc_prebinder_pending_claims{reason="Progressing",storage_class="fast",zone="zone-b"} 1.0',
        'pvc_prebinder_pending_claims{reason="WaitForFirstConsumer",storage_class="fast",zone="other"} 1.0',
        'pvc_prebinder_pending_claims{reason="WaitForFirstConsumer",storage_class="fast",zone="zone-a"} 1.0',
        'pvc_prebinder_pending_claims{reason="WaitForFirstConsumer",storage_class="fast",zone="zone-b"} 1.0',
    ]


async def test_what_is_left_for_claims() -> None:
    held = {f"scheduler.cloud.example/{key}": text for key, text in HELD.items()}
    late = held | {"scheduler.cloud.example/expires-at": "2026-01-01T00:00:30Z"}
    objects: list[Record] = [
        storage_class("fast"),
        node("n1", zone="zone-a"),
        volume("free", zone="zone-a"),
        volume("expired", zone="zone-a", size="1Gi", annotations=late),
        volume("held", zone="zone-a", annotations=held),
        volume("elsewhere", zone="nowhere", storage_class="deleted"),
        volume("taken", zone="zone-a", claim="default/data"),
        volume("bound", zone="zone-a", phase="Bound"),
        volume("going", zone="zone-a", deleting=True),
    ]
    seen = [line for line in await lines(ClusterState(snapshot_of(objects))) if line.startswith("pvc_prebinder_avail")]
    here = 'storage_class="fast",zone="zone-a"'
    there = 'storage_class="other",zone="other"'
    assert {name: float(value) for name, value in (line.split(" ") for line in seen)} == {
        f"pvc_prebinder_available_volumes{{{here}}}": 2,
        f"pvc_prebinder_available_volumes{{{there}}}": 1,
        f"pvc_prebinder_available_volume_bytes{{{here}}}": 11 * 2**30,
        f"pvc_prebinder_available_volume_bytes{{{there}}}": 10 * 2**30,
    }


async def test_pods_behind_our_gate_are_counted_from_their_creation() -> None:
    gated = pod("gated", scheduling_gates=[GATE], created=EPOCH)
    later = pod("later", scheduling_gates=[GATE, "example.com/other"], created=EPOCH + timedelta(seconds=60))
    others = [pod("free"), pod("theirs", scheduling_gates=["example.com/other"])]
    gone = pod("gone", scheduling_gates=[GATE], created=EPOCH - timedelta(days=1), deleting=True)
    seen = await lines(ClusterState(snapshot_of([gated, later, gone, *others])))
    assert "pvc_prebinder_gated_pods 2.0" in seen
    assert "pvc_prebinder_oldest_gated_pod_seconds 90.0" in seen
    assert "pvc_prebinder_oldest_gated_pod_seconds 0.0" in await lines(ClusterState(snapshot_of(others)))


async def test_claims_that_take_no_room_in_pools_are_counted_by_reason() -> None:
    seen = await lines(ClusterState(snapshot_of([]), not_in_flight={"Selector": 2}))
    assert 'pvc_prebinder_claims_not_in_flight{reason="Selector"} 2.0' in seen


async def test_a_dry_run_does_not_look_like_a_cluster_without_a_leader() -> None:
    for dry_run in (False, True):
        seen = await lines(dry_run=dry_run)
        assert f"pvc_prebinder_dry_run {float(dry_run)}" in seen
        assert ('leader_election_master_status{name="lease"} 0.0' in seen) is not dry_run
