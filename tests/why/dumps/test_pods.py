"""Dumps with pods: what `why` answers where an easy answer would be wrong or do harm."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.why.documents import (
    BOUND,
    DRIVER,
    SCHEDULED,
    claim,
    csi_node,
    driver,
    event,
    lease,
    node,
    of_deployment,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.dump import (
    BOUND_ANYWHERE,
    CONTROLLER,
    LATER,
    NODES,
    OF_NOTHING,
    OURS,
    REJECTION,
    UNEXPLAINED,
    WEBHOOK,
    Dump,
    apart,
    attachment,
    check,
    gated,
    items_of,
    placed,
    reached_by,
    room_in,
    tainted,
)

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: 2 node(s) did not have enough free storage.",
}

UPDATE = [
    of_deployment(placed("new", "data"), "db", "7c9"),
    of_deployment(pod("old", "data", node="b1"), "db", "5d8"),
]
"""The pods of a Deployment in a rolling update."""

DUMPS = {
    "a volume for the claim is too small, and a pod waits": Dump(
        "StaticOnlyNoMatch",
        [pod("db-0", "data"), claim(), storage_class(), volume(size="1Gi", **OURS), *NODES],
        "TooSmall",
    ),
    "capacities are not in the dump": Dump(
        "Inconclusive",
        [pod("db-0", "data"), claim(), LATER, driver(storageCapacity=True), csi_node("a1", DRIVER), *NODES],
        "csistoragecapacities (not in the input)",
    ),
    "nodes are not in the dump": Dump("Inconclusive", [pod("db-0", "data"), *BOUND, SCHEDULED], "nodes (not in"),
    "a pod with nodeName, and its claim is missing": Dump(
        "ClaimNotFound", [pod("db-0", "nix", node="a1", status={"phase": "Pending"}), *BOUND, *NODES]
    ),
    "a pod with nodeName, and its volume is elsewhere": Dump(
        "TopologyConflict",
        [pod("db-0", "data", node="b1", status={"phase": "Pending"}), *BOUND, *NODES],
        "assigned to node b1, and its volume is in zone a",
    ),
    "a pod whose node is gone": Dump(
        "NoNodeFits", [pod("db-0", "data", node="gone", status={"phase": "Pending"}), *BOUND, *NODES], "does not exist"
    ),
    "two claims with two causes": Dump(
        "StorageClassNotFound",
        [
            pod("db-0", "data", "logs"),
            claim(storage_class="fsat"),
            claim("logs", spec={"volumeName": "pv-x"}),
            volume(),
            storage_class(),
            *NODES,
        ],
        "RequestedPVMissing, too: ",
    ),
    "a control plane's taint is no way out": Dump(
        "NoNodeFits",
        [
            pod("db-0", cpu="3"),
            tainted("cp", "node-role.kubernetes.io/control-plane"),
            node("a1", cpu="1"),
            SCHEDULED,
            *BOUND,
        ],
        "describe node a1",
        "taint node",
    ),
    "a taint that Kubernetes has set goes with its cause": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), *BOUND, tainted("a1", "node.kubernetes.io/disk-pressure"), node("b1", "b"), SCHEDULED],
        "find out what has tainted it",
        "taint node a1",
    ),
    "a taint that a person has set is tolerated, or ended by that person": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), *BOUND, tainted("a1", "dedicated"), node("b1", "b"), SCHEDULED],
        "by mistake, `kubectl taint node a1 dedicated=x:NoSchedule-`",
    ),
    "a webhook forbids the claim of an ephemeral volume": Dump(
        "ClaimNotFound",
        [
            pod("db-0", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
            event("Pod", "db-0", "FailedBinding", f"ephemeral volume scratch: create PVC db-0-scratch: {WEBHOOK}"),
            *NODES,
        ],
        "label team is missing",
    ),
    "a local volume whose node is gone": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), claim(volume="pv-1"), volume(claim="data", spec={}), storage_class(), *NODES],
        "its data is on that node only",
        "add a node in",
    ),
    "a topology key that no node has": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), claim(volume="pv-1"), volume(claim="data", spec={}), storage_class(), *NODES],
        "does the volume's driver run on any?",
    ),
    "behind our gate the controller found no common zone": Dump(
        "NoJointAssignment",
        [
            gated("data", "logs"),
            claim(),
            claim("logs"),
            storage_class(),
            volume(zone="a"),
            volume("pv-2", zone="b"),
            *NODES,
            event("Pod", "db-0", "NoJointAssignment", REJECTION, reporter=CONTROLLER),
        ],
        "found none for web/logs",
    ),
    "behind our gate no node has both volumes, and no Event is left": Dump(
        "StaticOnlyNoMatch",
        [
            gated("data", "logs"),
            claim(),
            claim("logs"),
            storage_class(),
            volume(zone="a"),
            volume("pv-2", zone="b"),
            *NODES,
        ],
    ),
    "the controller has not explained its rejection yet": Dump(
        "TopologyConflict",
        [
            gated("data"),
            claim(),
            storage_class(),
            volume(zone="z"),
            *NODES,
            event("Pod", "db-0", "ExplanationPending", UNEXPLAINED, reporter=CONTROLLER),
        ],
    ),
    "volumes were reserved after a rejection": Dump(
        "SchedulingGated",
        [
            gated("data"),
            claim(),
            storage_class(),
            volume(),
            *NODES,
            event("Pod", "db-0", "NoJointAssignment", REJECTION, reporter=CONTROLLER, ago=timedelta(minutes=9)),
            event("Pod", "db-0", "VolumeReserved", "Reserved pv-1", reporter=CONTROLLER, type="Normal"),
        ],
    ),
    "another's gate hides the nodes": Dump(
        "SchedulingGated", [gated("data", other="example.com/later"), *BOUND, node("b1", "b"), SCHEDULED], "example.com"
    ),
    "the old pod of a Deployment has the volume": Dump(
        "AttachConflict",
        [*UPDATE, *BOUND_ANYWHERE, attachment("b1"), *NODES, OF_NOTHING],
        "kubectl -n web patch deployment db --type=merge",
        "delete pod",
    ),
    "the old pod of a Deployment has the volume, and attachments are not in the dump": Dump(
        "AttachConflict",
        [
            *UPDATE,
            *BOUND_ANYWHERE,
            *NODES,
            event("Pod", "new", "FailedAttachVolume", 'Multi-Attach error for volume "pv-1" Volume is already used'),
        ],
        "kubectl -n web patch deployment db --type=merge",
        "delete pod",
    ),
    "a driver cannot detach": Dump(
        "AttachConflict",
        [placed("new", "data"), *BOUND_ANYWHERE, attachment("b1", "disk is busy"), *NODES, OF_NOTHING],
        "disk.csi.example cannot detach it",
    ),
    "no device claim was made from the template": Dump(
        "ResourceClaimPending",
        [
            pod("db-0", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}),
            *NODES,
            OF_NOTHING,
        ],
        "resourceclaimtemplate gpus",
    ),
    "there is room where the nodes are cordoned": Dump(
        "InsufficientCapacity",
        [
            pod("db-0", "data"),
            claim(),
            LATER,
            driver(storageCapacity=True),
            csi_node("a1", DRIVER),
            csi_node("b1", DRIVER),
            node("a1", "a", cordoned=True),
            node("b1", "b"),
            SCHEDULED,
            room_in("a"),
        ],
        "kubectl uncordon a1",
    ),
    "no scheduler has tried the pod, and Leases are not in the dump": Dump(
        "SchedulerNotRunning",
        [
            pod("db-0", "data", spec={"schedulerName": "zonal"}, status={"conditions": []}),
            claim(),
            storage_class(),
            volume(),
            node("a1", "a"),
            pod("other", node="a1"),
        ],
        "its Lease could not be read",
    ),
    "the scheduler found no room, and capacities are not in the dump": Dump(
        "InsufficientCapacity",
        [
            pod("db-0", "data", status={"conditions": [UNSCHEDULABLE]}),
            claim(),
            LATER,
            driver(storageCapacity=True),
            csi_node("a1", DRIVER),
            *NODES,
        ],
        "2 node(s) did not have enough free storage",
    ),
    "the only Lease is that of a scheduler which had stopped": Dump(
        "SchedulerNotRunning",
        [
            pod("db-0", "data", status={"conditions": []}),
            *BOUND,
            node("a1", "a"),
            lease("kube-scheduler", timedelta(hours=2)),
        ],
        "its Lease was last renewed",
    ),
    "another pod excludes the pod from its volume's zone": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data", metadata={"labels": {"app": "db"}}, spec=apart("db")),
            pod("db-1", node="a1", metadata={"labels": {"app": "db"}}),
            *BOUND,
            *NODES,
        ],
        "compare their affinity and spread rules",
        "make room",
    ),
    "some nodes only are in the dump": Dump(
        "AttachConflict",
        [placed("new", "data"), *BOUND_ANYWHERE, attachment("b1"), node("b1", "b"), SCHEDULED],
        "still attached to node b1",
    ),
    "lists in a list": Dump(
        "ClaimNotFound",
        [{"apiVersion": "v1", "kind": "PodList", "items": [pod("db-0", "nix")]}, *BOUND, *NODES],
    ),
}

DUMPS["a local volume whose node is gone"].documents[2]["spec"] |= reached_by("kubernetes.io/hostname", "old-node")
DUMPS["a topology key that no node has"].documents[2]["spec"] |= reached_by("topology.disk.csi.example/zone", "a")


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)


def test_the_items_of_a_list_without_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl get ... -o json | jq .items`."""
    (item,) = items_of(tmp_path / "dump.json", [pod("db-0", "nix"), *BOUND, *NODES], capsys)
    assert item["code"] == "ClaimNotFound"
