"""Which changes wake a pod, and which must not. That none is missed is shown in test_requeue."""

import pytest
from msgspec.structs import replace

from kube.objects.constraints import Constraints, HostPort, InlineDisk, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import CSIDriver, CSIStorageCapacity, Pod, Record, Taint, Toleration
from kube.rules.disruption import DisruptionBudget
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.queue.hints import EVICTION, Hints, may_help
from tests import builders
from tests.builders import ZONE
from tests.scheduler.wakeups import hints_of

DRIVER = "disk.csi.example"
WEB, WEBS = {"app": "web"}, LabelSelector((("app", "web"),))
GPU = Taint("gpu", "NoSchedule")
NODE = builders.node("n1")
TAINTED = builders.node("n1", taints=[GPU])
CORES = builders.pod(requests={"cpu": "4"})
PORTED = builders.pod(constraints=Constraints(ports=(HostPort(80),)))
SPREAD = builders.pod(labels=WEB, constraints=Constraints(spread=(SpreadConstraint(1, ZONE, selector=WEBS),)))
NEAR = builders.pod(constraints=Constraints(affinity=(PodTerm(ZONE, WEBS),)))
FIRST = builders.pod(labels=WEB, constraints=Constraints(affinity=(PodTerm(ZONE, WEBS),)))
APART = builders.pod(constraints=Constraints(anti_affinity=(PodTerm(ZONE, WEBS),)))
STORED = builders.pod(claims=["data"])
SEEN = Wanted(frozenset({"fast"}), frozenset({"pv-mine"}), frozenset({DRIVER}))
ROOM = CSIStorageCapacity("default", "room", "uid-room", 1, "fast", LabelSelector(), 10)
BUDGET = DisruptionBudget("default", "web", "uid", 1, WEBS, 0)


def there(name: str = "other", **fields: object) -> Pod:
    return builders.pod(name, node="n1", **fields)  # type: ignore[arg-type]


def held(port: HostPort) -> Pod:
    return there(constraints=Constraints(ports=(port,)))


WITH_DISK = builders.pod(constraints=Constraints(disks=(InlineDisk("awsElasticBlockStore", ("vol",)),)))

BUDGETS = "disruption budgets"

Case = tuple[str, Pod, Record | None, Record | None]

HELPFUL: dict[str, Case] = {
    "a tainted node is tolerated when new": (
        "TaintToleration",
        builders.pod(tolerations=[Toleration("gpu", "Exists")]),
        None,
        TAINTED,
    ),
    "a taint goes": ("TaintToleration", CORES, TAINTED, NODE),
    "a cordon is lifted": ("TaintToleration", CORES, builders.node("n1", unschedulable=True), NODE),
    "a node gets the label": (
        "NodeAffinity",
        builders.pod(node_selector={"disk": "ssd"}),
        NODE,
        builders.node("n1", labels={"disk": "ssd"}),
    ),
    "a node grows": ("NodeResourcesFit", CORES, builders.node("n1", allocatable={"cpu": "2"}), NODE),
    "a pod leaves": ("NodeResourcesFit", CORES, there(), None),
    "a pod shrinks": ("NodeResourcesFit", CORES, there(requests={"cpu": "3"}), there(requests={"cpu": "1"})),
    "the port is free": ("NodePorts", PORTED, held(HostPort(80, ip="10.0.0.1")), None),
    "the disk is free": ("DiskConflict", WITH_DISK, there(constraints=WITH_DISK.constraints), None),
    "a new node has no disk in use": ("DiskConflict", WITH_DISK, None, NODE),
    "a node gets what the profile asks": ("EnforcedNodeAffinity", CORES, NODE, builders.node("n1", labels={"a": "b"})),
    "a counted pod comes": ("PodTopologySpread", SPREAD, None, there(labels=WEB)),
    "a counted pod begins to end": ("PodTopologySpread", SPREAD, there(labels=WEB), there(labels=WEB, deleting=True)),
    "a node of a domain goes": ("PodTopologySpread", SPREAD, NODE, None),
    "a friend comes": ("InterPodAffinity", NEAR, None, there(labels=WEB)),
    "the last friend leaves the first of a series": ("InterPodAffinity", FIRST, there(labels=WEB), None),
    "a foe leaves": ("InterPodAffinity", APART, there(labels=WEB), None),
    "a foe takes another label": ("InterPodAffinity", APART, there(labels=WEB), there()),
    "one who keeps it off leaves": (
        "InterPodAffinity",
        builders.pod(labels=WEB),
        there(constraints=Constraints(anti_affinity=(PodTerm(ZONE, WEBS),))),
        None,
    ),
    "its claim is bound": ("VolumeBinding", STORED, builders.claim(), builders.claim(volume_name="pv")),
    "a volume is free": ("VolumeBinding", STORED, None, builders.volume()),
    "a volume is well again": (
        "VolumeHealth",
        STORED,
        builders.volume(annotations={"scheduler.cloud.example/health": "Inaccessible"}),
        builders.volume(annotations={"scheduler.cloud.example/health": "Healthy"}),
    ),
    "a reservation is dropped": (
        "ReservedVolume",
        STORED,
        builders.volume(annotations={"scheduler.cloud.example/reserved-for": "default/other"}),
        builders.volume(),
    ),
    "its volume changes": ("VolumeBinding", STORED, builders.volume("pv-mine", phase="Bound"), None),
    "its class comes": ("VolumeBinding", STORED, None, builders.storage_class()),
    "there is capacity": ("VolumeBinding", STORED, None, ROOM),
    "capacity grows": ("VolumeBinding", STORED, ROOM, replace(ROOM, capacity=20)),
    "a driver stops telling its capacity": (
        "VolumeBinding",
        STORED,
        CSIDriver("d", "", 1, storage_capacity=True),
        None,
    ),
    "the user of its claim leaves": ("VolumeRestrictions", STORED, there(claims=["data"]), None),
    "a limit is raised": (
        "NodeVolumeLimits",
        STORED,
        builders.csi_node("n1", limits={DRIVER: 1}),
        builders.csi_node("n1", limits={DRIVER: 2}),
    ),
    "a driver is registered that states no limit": (
        "NodeVolumeLimits",
        STORED,
        builders.csi_node("n1", limits={}),
        builders.csi_node("n1", limits={DRIVER: None}),
    ),
    "a driver may be missing from now on": (
        "NodeVolumeLimits",
        STORED,
        builders.csi_driver(prevent_pod_scheduling_if_missing=True),
        builders.csi_driver(),
    ),
    "its volume is in another zone": (
        "VolumeZone",
        STORED,
        builders.volume("pv-mine", labels={ZONE: "a"}),
        builders.volume("pv-mine", labels={ZONE: "b"}),
    ),
    "a budget lets more go": (
        BUDGETS,
        CORES,
        BUDGET,
        DisruptionBudget("default", "web", "uid", 2, WEBS, 1),
    ),
}

USELESS: dict[str, Case] = {
    "a driver has to be there from now on": (
        "NodeVolumeLimits",
        STORED,
        builders.csi_driver(),
        builders.csi_driver(prevent_pod_scheduling_if_missing=True),
    ),
    "a node without taints stays so": ("TaintToleration", CORES, NODE, builders.node("n1", labels={"a": "b"})),
    "a node gets a taint": ("TaintToleration", CORES, NODE, TAINTED),
    "a node with a taint comes": ("TaintToleration", CORES, None, TAINTED),
    "a pod with another disk leaves": ("DiskConflict", WITH_DISK, there(), None),
    "a disk's node gets a label": ("DiskConflict", WITH_DISK, NODE, builders.node("n1", labels={"a": "b"})),
    "a node of the same labels": ("EnforcedNodeAffinity", CORES, TAINTED, NODE),
    "a pod leaves one rejected for taints": ("TaintToleration", CORES, there(), None),
    "one of two taints goes": (
        "TaintToleration",
        CORES,
        builders.node("n1", taints=[GPU, Taint("a", "NoExecute")]),
        TAINTED,
    ),
    "a node has another label": (
        "NodeAffinity",
        builders.pod(node_selector={"disk": "ssd"}),
        NODE,
        builders.node("n1", labels={"disk": "hdd"}),
    ),
    "a node grows too little": (
        "NodeResourcesFit",
        CORES,
        builders.node("n1", allocatable={"cpu": "2"}),
        builders.node("n1", allocatable={"cpu": "3"}),
    ),
    "a node grows in something else": (
        "NodeResourcesFit",
        CORES,
        NODE,
        builders.node("n1", allocatable={"memory": "99Gi"}),
    ),
    "a pod comes": ("NodeResourcesFit", CORES, None, there()),
    "a pod shrinks in something else": (
        "NodeResourcesFit",
        CORES,
        there(requests={"memory": "3Gi"}),
        there(requests={"memory": "1Gi"}),
    ),
    "another port is free": ("NodePorts", PORTED, held(HostPort(81)), None),
    "the port of another protocol is free": ("NodePorts", PORTED, held(HostPort(80, "UDP")), None),
    "a pod that does not count comes": ("PodTopologySpread", SPREAD, None, there()),
    "a counted pod of another namespace comes": (
        "PodTopologySpread",
        SPREAD,
        None,
        there(labels=WEB, namespace="other"),
    ),
    "a counted pod asks for less": (
        "PodTopologySpread",
        SPREAD,
        there(labels=WEB, requests={"cpu": "2"}),
        there(labels=WEB),
    ),
    "a node grows that is counted": (
        "PodTopologySpread",
        SPREAD,
        NODE,
        builders.node("n1", allocatable={"cpu": "9"}),
    ),
    "a friend leaves": ("InterPodAffinity", NEAR, there(labels=WEB), None),
    "a stranger comes": ("InterPodAffinity", NEAR, None, there()),
    "a foe comes": ("InterPodAffinity", APART, None, there(labels=WEB)),
    "a foe elsewhere leaves": ("InterPodAffinity", APART, there(labels=WEB, namespace="other"), None),
    "the claim of another is bound": (
        "VolumeBinding",
        STORED,
        builders.claim("more"),
        builders.claim("more", volume_name="pv"),
    ),
    "its claim changes and it was rejected for taints": ("TaintToleration", STORED, builders.claim(), builders.claim()),
    "a volume of another class is free": ("VolumeBinding", STORED, None, builders.volume(storage_class="slow")),
    "a volume is taken": ("VolumeBinding", STORED, builders.volume(), builders.volume(claim="other/data")),
    "capacity shrinks": ("VolumeBinding", STORED, replace(ROOM, capacity=20), ROOM),
    "another class comes": ("VolumeBinding", STORED, None, builders.storage_class("slow")),
    "a pod leaves one rejected for its volume": ("VolumeBinding", STORED, there(claims=["data"]), None),
    "a node grows that it could not reach": (
        "VolumeBinding",
        STORED,
        NODE,
        builders.node("n1", allocatable={"cpu": "9"}),
    ),
    "a pod with other claims leaves": ("VolumeRestrictions", STORED, there(claims=["more"]), None),
    "a pod without volumes leaves": ("NodeVolumeLimits", STORED, there(), None),
    "a volume it has not moves to another zone": (
        "VolumeZone",
        STORED,
        builders.volume(labels={ZONE: "a"}),
        builders.volume(labels={ZONE: "b"}),
    ),
}


def waits_for(what: str) -> Hints:
    return frozenset({EVICTION}) if what == BUDGETS else hints_of(what)


@pytest.mark.parametrize("case", HELPFUL.values(), ids=HELPFUL)
def test_it_wakes(case: Case) -> None:
    plugin, pod, old, new = case
    assert may_help(pod, waits_for(plugin), ClusterEvent(old, new), SEEN)


@pytest.mark.parametrize("case", USELESS.values(), ids=USELESS)
def test_it_does_not_wake(case: Case) -> None:
    plugin, pod, old, new = case
    assert not may_help(pod, waits_for(plugin), ClusterEvent(old, new), SEEN)


def test_a_pod_rejected_as_a_whole_is_not_woken_by_nodes() -> None:
    whole = Wanted(frozenset({"fast"}), whole=True)
    assert not may_help(STORED, hints_of("VolumeBinding"), ClusterEvent(None, NODE), whole)
    assert may_help(STORED, hints_of("VolumeBinding"), ClusterEvent(None, NODE), SEEN)


def test_a_driver_that_attaches_less_helps_those_it_attaches_for() -> None:
    gone = there(claims=["more"])
    limits = hints_of("NodeVolumeLimits")
    assert may_help(STORED, limits, ClusterEvent(gone, None, frozenset({DRIVER})), SEEN)
    assert not may_help(STORED, limits, ClusterEvent(gone, None, frozenset({"other.csi.example"})), SEEN)


def test_a_local_volume_that_is_taken_leaves_the_choice_to_one_that_is_not_local() -> None:
    local = builders.volume(node="n1", source="local")
    for new in (None, builders.volume(node="n1", source="local", claim="other/data", phase="Bound")):
        assert may_help(STORED, hints_of("LocalStorage"), ClusterEvent(local, new), SEEN)
        assert not may_help(STORED, hints_of("VolumeBinding"), ClusterEvent(local, new), SEEN)
    remote = builders.volume()
    assert not may_help(STORED, hints_of("LocalStorage"), ClusterEvent(remote, None), SEEN)


def test_what_was_not_looked_up_counts_as_wanted() -> None:
    change = ClusterEvent(None, builders.volume(storage_class="slow"))
    assert may_help(STORED, hints_of("VolumeBinding"), change, None)
