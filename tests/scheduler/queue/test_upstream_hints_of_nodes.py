"""Changes that wake a pod in kube-scheduler, and those that do not, for the rules about one node.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: Test_isSchedulableAfter* in noderesources/fit_test.go,
nodeaffinity/node_affinity_test.go, nodeports/node_ports_test.go, volumerestrictions/volume_restrictions_test.go
(disks), tainttoleration/taint_toleration_test.go and nodeunschedulable/node_unschedulable_test.go. Left out are wrong
types; pods without a node, of which no change is reported here (test_requeue); and devices and deferred resizes, which
are not supported.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Node, Pod, Record, Taint, Toleration
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.hints import may_help
from tests import builders
from tests.scheduler.framework.test_upstream_filters import AWS, GCE, RBD, decoded_pod, disk
from tests.scheduler.wakeups import hints_of

A, B = "example.com/aaa", "example.com/bbb"
Case = tuple[Record | None, Record | None, bool]


def there(spec: dict[str, Any]) -> Pod:
    """A pod on a node."""
    return replace(decoded_pod(spec, "other", "fake"), uid="uid-other")


def using(resource: str, amount: str, *, whole: bool = False) -> Pod:
    """A pod on a node that requests so much, by its container or as a whole."""
    requests = {"resources": {"requests": {resource: amount}}}
    return there(requests if whole else {"containers": [{"name": "c", **requests}]})


def node(**allocatable: str) -> Node:
    names = {"a": A, "b": B}
    return builders.node("n1", allocatable={names.get(name, name): has for name, has in allocatable.items()})


CPU = builders.pod(requests={"cpu": "1"})
BOTH = builders.pod(requests={"memory": "2", A: "1"})
RESOURCES: dict[str, tuple[Pod, *Case]] = {
    "another pod deleted": (CPU, using("cpu", "1"), None, True),
    "unrelated resource scaled down": (CPU, using("memory", "2"), using("memory", "1"), False),
    "unrelated resource of a whole pod scaled down": (
        *(CPU, using("memory", "2", whole=True), using("memory", "1", whole=True), False),
    ),
    "resource scaled down": (CPU, using("cpu", "2"), using("cpu", "1"), True),
    "resource of a whole pod scaled down": (CPU, using("cpu", "2", whole=True), using("cpu", "1", whole=True), True),
    "resource scaled up": (CPU, using("cpu", "1"), using("cpu", "2"), False),
    "node added that is too small": (builders.pod(requests={"memory": "2"}), None, node(memory="1"), False),
    "node added without the resource": (builders.pod(requests={A: "1"}), None, node(b="1"), False),
    "node added that is large enough": (BOTH, None, node(memory="4", a="2"), True),
    "unrelated change of a node": (BOTH, node(memory="2", a="2"), node(memory="2", a="1", b="2"), False),
    "a requested resource increased": (BOTH, node(memory="2", a="1"), node(memory="2", a="2"), True),
    "node too small from now on": (BOTH, node(memory="4", a="2"), node(memory="1", a="2"), False),
    "node large enough from now on": (BOTH, node(memory="1", a="2"), node(memory="4", a="2"), True),
}


def labelled(**labels: str) -> Node:
    return builders.node("n1", labels=labels)


SELECTING = builders.pod(
    node_affinity=NodeSelector((NodeSelectorTerm((Requirement("foo", "In", ("bar",)),)),)),
)
AFFINITY: dict[str, tuple[Pod, *Case]] = {
    "node added without the label": (SELECTING, None, labelled(), False),
    "node added with the label": (SELECTING, None, labelled(foo="bar"), True),
    "unrelated change": (SELECTING, labelled(), node(cpu="9"), False),
    "unrelated label": (SELECTING, labelled(), labelled(k="v"), False),
    "label removed": (SELECTING, labelled(foo="bar"), labelled(k="v"), False),
    "label added": (SELECTING, labelled(), labelled(foo="bar"), True),
    "unrelated change of a node that is selected": (SELECTING, labelled(foo="bar"), labelled(foo="bar", k="v"), False),
}


def port(number: int) -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": [{"containerPort": number, "hostPort": number}]}]}


LISTENING = decoded_pod(port(8080))
PORTS: dict[str, tuple[Pod, *Case]] = {
    "a pod without host ports deleted": (LISTENING, there({}), None, False),
    "a pod with another port deleted": (LISTENING, there(port(8081)), None, False),
    "a pod with the port deleted": (LISTENING, there(port(8080)), None, True),
}

OTHER_RBD = disk("rbd", monitors=["c", "d"], pool="foo", image="bar", fsType="ext4")
ISCSI, OTHER_ISCSI = (
    disk("iscsi", targetPortal="127.0.0.1:3260", iqn=f"iqn.{year}-12.server:storage.target01", fsType="ext4", lun=0)
    for year in (2016, 2017)
)
DISKS: dict[str, tuple[Pod, *Case]] = {
    "the same GCE disk": (decoded_pod(GCE), there(GCE), None, True),
    "another GCE disk": (decoded_pod(GCE), there(disk("gcePersistentDisk", pdName="bar")), None, False),
    "the same AWS disk": (decoded_pod(AWS), there(AWS), None, True),
    "another AWS disk": (decoded_pod(AWS), there(disk("awsElasticBlockStore", volumeID="bar")), None, False),
    "the same RBD disk": (decoded_pod(RBD), there(RBD), None, True),
    "an RBD disk of other monitors": (decoded_pod(RBD), there(OTHER_RBD), None, False),
    "the same ISCSI disk": (decoded_pod(ISCSI), there(ISCSI), None, True),
    "another ISCSI disk": (decoded_pod(ISCSI), there(OTHER_ISCSI), None, False),
}


def tainted(*users: str, unschedulable: bool = False, ready: bool = True) -> Node:
    taints = [Taint("dedicated", "NoSchedule", user) for user in users]
    taints += [] if ready else [Taint("node.kubernetes.io/not-ready", "NoExecute")]
    return builders.node("n1", taints=taints, unschedulable=unschedulable)


TOLERANT, PLAIN = builders.pod(tolerations=[Toleration("dedicated", "Equal", "user2", "NoSchedule")]), builders.pod()
CORDONED = tainted(unschedulable=True)
TAINTS: dict[str, tuple[Pod, *Case]] = {
    "node added with a taint that is not tolerated": (TOLERANT, None, tainted("user1"), False),
    "node added with one that is tolerated": (TOLERANT, None, tainted("user2"), True),
    "another taint that is not tolerated": (TOLERANT, tainted("user1"), tainted("user1", "user3"), False),
    "taint changed to one that is tolerated": (TOLERANT, tainted("user1"), tainted("user2"), True),
    "node added that is cordoned": (PLAIN, None, CORDONED, False),
    "node added that is not": (PLAIN, None, tainted(), True),
    "unrelated change of a cordoned node": (PLAIN, CORDONED, tainted(unschedulable=True, ready=False), False),
    "unrelated change of one that is not": (PLAIN, tainted(), tainted(ready=False), False),
    "node uncordoned": (PLAIN, CORDONED, tainted(), True),
}

CASES = {
    f"{plugin}: {name}": (plugin, *case)
    for plugin, cases in (
        ("NodeResourcesFit", RESOURCES),
        ("NodeAffinity", AFFINITY),
        ("NodePorts", PORTS),
        ("DiskConflict", DISKS),
        ("TaintToleration", TAINTS),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_wakes_the_pods_that_it_may_help_and_no_others(case: tuple[str, Pod, *Case]) -> None:
    plugin, pod, old, new, wakes = case
    assert may_help(pod, hints_of(plugin), ClusterEvent(old, new)) is wakes
