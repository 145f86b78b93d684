"""Changes that wake a pod in kube-scheduler, and those that do not, for the rules about volumes.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: TestIsSchedulableAfter* in
volumebinding/volume_binding_test.go and volumezone/volume_zone_test.go, Test_isSchedulableAfter* in
volumerestrictions/volume_restrictions_test.go (claims), and TestCSILimits*QHint in nodevolumelimits/csi_test.go, whose
table about CSINodes is in tests/scheduler/queue. Left out are wrong types, and a deleted pod that had no node, of which
no change is reported here (test_requeue). Where ours is wider, which costs an attempt, or narrower, the case says why.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from binder.reservation.contract import Annotations
from kube.objects.labels import LabelSelector
from kube.objects.model import (
    BIND_COMPLETED,
    READ_WRITE_ONCE_POD,
    Claim,
    CSIDriver,
    CSIStorageCapacity,
    Pod,
    Record,
    StorageClass,
)
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.queue.hints import may_help
from scheduler.queue.requeue import Changes
from scheduler.state.attach_limits import attachments_of
from tests import builders
from tests.builders import HOSTNAME, ZONE
from tests.scheduler.framework.test_upstream_filters import AWS, BETA_ZONE, GCE, decoded_pod
from tests.scheduler.wakeups import hints_of
from tests.scheduler.worlds import WatchedStore, World

Case = tuple[Pod, Record | None, Record | None, bool]
SEEN = Wanted(frozenset({"sc-a"}), frozenset({"Vol_1"}), frozenset({"test1"}))


def using(*claims: str, namespace: str = "default") -> Pod:
    return builders.pod("pod-a", namespace=namespace, claims=claims)


def ephemeral(*volumes: str) -> Pod:
    """A pod with generic ephemeral volumes."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return decoded_pod(
        {"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": template}} for name in volumes]}, "pod-a"
    )


def claim(name: str, namespace: str = "default", **fields: Any) -> Claim:
    return builders.claim(name, namespace=namespace, storage_class="sc-a", **fields)


PLAIN, CLAIMING = builders.pod("pod-a"), using("pvc-a", "pvc-b")


# No volume is translated here, so which in-tree plugins a CSINode names as migrated is not read: two cases are left
# out, and a new CSINode has nothing to offer.
NEW_NODE = builders.csi_node("csinode-a", limits={})
BINDING_NODES: dict[str, Case] = {
    "CSINode created: wider upstream": (CLAIMING, None, NEW_NODE, False),
    "nothing changed": (CLAIMING, NEW_NODE, NEW_NODE, False),
}
BINDING_CLAIMS: dict[str, Case] = {
    "a pod without claims": (PLAIN, claim("pvc-b"), claim("pvc-b"), False),
    "a claim of this name in another namespace": (
        *(using("pvc-a", "pvc-b", namespace="ns-a"), None, claim("pvc-b"), False),
    ),
    "another claim": (using("pvc-a", "pvc-c"), claim("pvc-b"), claim("pvc-b"), False),
    "the claim of another ephemeral volume": (
        *(ephemeral("ephemeral-a", "ephemeral-c"), claim("pod-a-ephemeral-b"), claim("pod-a-ephemeral-b"), False),
    ),
    "a claim of the pod": (CLAIMING, claim("pvc-b"), claim("pvc-b"), True),
    "the claim of an ephemeral volume": (
        *(ephemeral("ephemeral-a", "ephemeral-b"), claim("pod-a-ephemeral-b"), claim("pod-a-ephemeral-b"), True),
    ),
}


def storage_class(name: str = "sc-a", mode: str | None = "WaitForFirstConsumer", node: str = "") -> StorageClass:
    made = builders.storage_class(name, provisioner="test1", binding_mode=mode)
    return replace(made, allowed_topologies=builders.node_selector({HOSTNAME: node})) if node else made


BINDING_CLASSES: dict[str, Case] = {
    "class created": (CLAIMING, None, storage_class(), True),
    "class that no claim names created: wider upstream": (CLAIMING, None, storage_class("sc-b"), False),
    "allowed topologies changed": (CLAIMING, storage_class(), storage_class(node="node-a"), True),
    # The last cases are VolumeZone's upstream, which asks for the class of an unbound claim; here VolumeBinding does.
    "class created that waits for the first consumer": (CLAIMING, None, storage_class(node="node-a"), True),
    "class created without a mode: wider here": (CLAIMING, None, storage_class(mode=None), True),
}


def report(capacity: int | None = None, largest: int | None = None) -> CSIStorageCapacity:
    return CSIStorageCapacity("driver", "cap-a", "uid", 1, "sc-a", LabelSelector(), capacity, largest)


CAPACITIES: dict[str, Case] = {
    "report created": (CLAIMING, None, report(), True),
    "capacity stated": (CLAIMING, report(), report(100), True),
    "largest volume stated": (CLAIMING, report(), report(None, 100), True),
    "capacity increased": (CLAIMING, report(50), report(100), True),
    "largest volume not stated any more": (CLAIMING, report(100, 50), report(100), True),
    "largest volume increased": (CLAIMING, report(100, 50), report(100, 60), True),
    "nothing changed": (CLAIMING, report(100, 50), report(100, 50), False),
    "capacity equal": (CLAIMING, report(100), report(100), False),
    "capacity is what the largest volume was": (CLAIMING, report(100, 50), report(50), False),
    "capacity decreased": (CLAIMING, report(100), report(90), False),
    "largest volume decreased": (CLAIMING, report(None, 100), report(None, 90), False),
    "capacity increased beside the largest volume: missed upstream, where no sum counts": (
        *(CLAIMING, report(70, 60), report(100, 60), True),
    ),
}


def driver(*, counts: bool | None, name: str = "test1") -> CSIDriver:
    """Not stated is the same as false."""
    return replace(builders.csi_driver(name), storage_capacity=bool(counts))


DRIVERS: dict[str, Case] = {
    "capacity counted from now on": (PLAIN, driver(counts=None), driver(counts=True), False),
    "another driver does not count capacity any more: wider here": (
        *(CLAIMING, driver(counts=True, name="test2"), driver(counts=False, name="test2"), True),
    ),
    "not stated": (CLAIMING, driver(counts=None), driver(counts=None), False),
    "not counted": (CLAIMING, driver(counts=False), driver(counts=False), False),
    "not stated any more": (CLAIMING, driver(counts=True), driver(counts=None), True),
    "counted": (CLAIMING, driver(counts=True), driver(counts=True), False),
    "not counted any more": (CLAIMING, driver(counts=True), driver(counts=False), True),
}

IN_ZONE, NAMING = using("PVC_1"), claim("PVC_1", volume_name="Vol_1")


def zoned(**zones: str) -> Record:
    keys = {"beta": BETA_ZONE, "zone": ZONE}
    labels = {keys[key]: value for key, value in zones.items()}
    return builders.volume("Vol_1", zone=None, labels=labels, storage_class="sc-a")


ZONES: dict[str, Case] = {
    "claim added, for a pod without claims": (PLAIN, None, NAMING, False),
    "another claim added": (using("PVC_2"), None, NAMING, False),
    "claim of another namespace added": (IN_ZONE, None, claim("PVC_1", "ns1", volume_name="Vol_1"), False),
    "claim of the pod added": (IN_ZONE, None, NAMING, True),
    "claim of the pod gets a volume": (IN_ZONE, claim("PVC_1"), NAMING, True),
    "claim gets a volume, for a pod without claims": (PLAIN, claim("PVC_1"), NAMING, False),
    "volume added": (IN_ZONE, None, zoned(beta="us-west1-b"), True),
    "volume in another zone": (IN_ZONE, zoned(beta="us-west1-a"), zoned(beta="us-west1-b"), True),
    "volume gets a label of zones": (
        *(IN_ZONE, zoned(beta="us-west1-a"), zoned(beta="us-west1-a", zone="zone"), True),
    ),
    "volume in the same zone": (
        *(IN_ZONE, zoned(beta="us-west1-a", zone="zone"), zoned(beta="us-west1-a", zone="zone"), False),
    ),
}


def there(*claims: str) -> Pod:
    return builders.pod("pod2", node="n1", claims=claims)


EXCLUSIVE = (READ_WRITE_ONCE_POD,)
RESTRICTIONS: dict[str, Case] = {
    "a pod with the claim deleted": (using("claim-rwop"), there("claim-rwop"), None, True),
    "a pod with another claim deleted": (using("claim-1-rwop"), there("claim-2-rwop"), None, False),
    "claim of the pod added": (using("rwx-1", "rwx-2"), None, claim("rwx-1"), True),
    "claim added that it does not use": (using("rwx-1"), None, claim("rwx-2"), False),
    "claim of another namespace added": (using("rwx-1", namespace="kube-system"), None, claim("rwx-1"), False),
}
LIMITED_CLAIMS: dict[str, Case] = {
    "claim of another namespace added": (builders.pod(namespace="ns1"), None, claim("pvc1", "ns2"), False),
    "claim of the pod added": (using("pvc1", namespace="ns1"), None, claim("pvc1", "ns1"), True),
    "claim of an ephemeral volume added": (ephemeral("ephemeral"), None, claim("pod-a-ephemeral"), True),
    "another claim added": (using("pvc1", namespace="ns1"), None, claim("pvc2", "ns1"), False),
    "claim added, for a pod without claims": (builders.pod(namespace="ns1"), None, claim("pvc2", "ns1"), False),
}

CASES = {
    f"{plugin}: {about}: {name}": (plugin, *case)
    for plugin, about, cases in (
        ("VolumeBinding", "CSINode", BINDING_NODES),
        ("VolumeBinding", "claim", BINDING_CLAIMS),
        ("VolumeBinding", "class", BINDING_CLASSES),
        ("VolumeBinding", "CSIStorageCapacity", CAPACITIES),
        ("VolumeBinding", "CSIDriver", DRIVERS),
        ("VolumeZone", "zone", ZONES),
        ("VolumeRestrictions", "claim", RESTRICTIONS),
        ("NodeVolumeLimits", "claim", LIMITED_CLAIMS),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_wakes_the_pods_that_it_may_help_and_no_others(case: tuple[str, *Case]) -> None:
    plugin, pod, old, new, wakes = case
    assert may_help(pod, hints_of(plugin), ClusterEvent(old, new), SEEN) is wakes


EBS, MADE_BY = "ebs.csi.aws.com", "test.storage.gke.io"
BOUND = builders.claim("pvc1", storage_class="sc-a", volume_name="pv1", annotations={BIND_COMPLETED: "yes"})
VOLUME = builders.volume("pv1", claim="default/pvc1", phase="Bound", storage_class="sc-a", driver=MADE_BY)
OTHERS = builders.claim("placeholder", storage_class="sc-a", volume_name="pv2", annotations={BIND_COMPLETED: "yes"})
OTHERS_VOLUME = builders.volume("pv2", claim="default/placeholder", phase="Bound", driver=MADE_BY)
AWS_AND_CLAIM = {"volumes": [*AWS["volumes"], {"name": "data", "persistentVolumeClaim": {"claimName": "pvc1"}}]}
OF_CLAIM = builders.attachment("pv1", "fake-node", attacher=MADE_BY)
OF_EBS = builders.attachment("", "fake-node", attacher=EBS)


def on_node(spec: dict[str, Any]) -> Pod:
    return replace(decoded_pod(spec, "other", "fake-node"), uid="uid-other")


@pytest.mark.parametrize(
    ("pod", "gone", "wakes"),
    [
        pytest.param(using("pvc1"), there("placeholder"), True, id="a pod with a claim"),
        pytest.param(decoded_pod(AWS), on_node(AWS), True, id="a pod with a disk of its own"),
        pytest.param(using("pvc1"), there(), False, id="a pod without volumes"),
        pytest.param(using("pvc1"), OF_CLAIM, True, id="attachment of the pod's volume"),
        pytest.param(decoded_pod(AWS), OF_EBS, True, id="attachment by the driver of the pod's disk"),
        pytest.param(decoded_pod(GCE), OF_EBS, False, id="attachment by another driver"),
        pytest.param(decoded_pod(AWS_AND_CLAIM), OF_EBS, True, id="claim and disk: attachment of the disk's driver"),
        pytest.param(decoded_pod(AWS_AND_CLAIM), OF_CLAIM, True, id="claim and disk: attachment of the volume"),
        pytest.param(PLAIN, OF_CLAIM, False, id="attachment, for a pod without volumes"),
    ],
)
def test_what_is_gone_wakes_the_pods_for_which_its_driver_has_to_attach(pod: Pod, gone: Record, *, wakes: bool) -> None:
    world: World = {record.name: record for record in (storage_class(), BOUND, VOLUME, OTHERS, OTHERS_VOLUME)} | {
        "gone": gone
    }
    cluster, changes = WatchedStore(world), list[ClusterEvent]()
    wanted = Wanted(drivers=frozenset(driver for driver, _ in attachments_of(pod, cluster.store.snapshot())))
    with Changes(cluster.store, changes.append, Annotations()).following():
        cluster.show("gone", None)
    assert any(may_help(pod, hints_of("NodeVolumeLimits"), change, wanted) for change in changes) is wakes
