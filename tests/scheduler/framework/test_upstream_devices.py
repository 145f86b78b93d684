"""What becomes of the pods of kube-scheduler's own unit tests for devices (dynamic resource allocation).

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: the pods and nodes of TestPlugin in
dynamicresources/dynamicresources_test.go. Devices are not allocated here, so a pod that needs some is not placed: with
claims or a resource of a DeviceClass it is rejected as such, with an extended resource it lacks that resource on nodes
that do not have it themselves, and the text names DeviceClasses. docs/scheduling.md lists the tables.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kube.decoding.decode import DECODERS
from kube.objects.model import Node, Pod
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.diagnosis import diagnose
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.queue.validation import reject_pod
from tests.fakes.objects import node_object, pod_object
from tests.scheduler.plugin_results import view

Object = dict[str, Any]
PROFILE: Final = default_profile("ours")
GPU, NIC, IMPLICIT = "example.com/gpu", "example.com/gpu2", "deviceclass.resource.kubernetes.io/gpu"


def asking(*containers: Mapping[str, str], **spec: Any) -> Pod:
    """A pod with a container for each of these requests."""
    document = pod_object("new", [])
    document["spec"] |= {
        "containers": [
            {"name": f"c{number}", "resources": {"requests": each}} for number, each in enumerate(containers)
        ]
    } | spec
    decoded = DECODERS["Pod"](json.dumps(document).encode())
    assert isinstance(decoded, Pod)
    return decoded


def worker(**extended: str) -> Node:
    document = node_object("worker")
    document["status"]["allocatable"] |= {{"gpu": GPU, "nic": NIC}[name]: amount for name, amount in extended.items()}
    decoded = DECODERS["Node"](json.dumps(document).encode())
    assert isinstance(decoded, Node)
    return decoded


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(
            asking({}, resourceClaims=[{"name": "devices", "resourceClaimName": "gpu"}]),
            "spec.resourceClaims",
            id="a claim by name",
        ),
        pytest.param(
            asking({}, resourceClaims=[{"name": "devices", "resourceClaimTemplateName": "gpu"}]),
            "spec.resourceClaims",
            id="a claim of a template",
        ),
        pytest.param(
            asking({}, resourceClaims=[{"name": "devices", "podGroupResourceClaim": "gpu"}]),
            "spec.resourceClaims",
            id="a claim of the pod's group",
        ),
        pytest.param(asking({IMPLICIT: "1"}), "requests of deviceclass.resource.kubernetes.io/*", id="of a class"),
        pytest.param(
            asking({IMPLICIT: "1"}, {IMPLICIT: "1"}),
            "requests of deviceclass.resource.kubernetes.io/*",
            id="of a class in two containers",
        ),
    ],
)
def test_a_pod_with_claims_for_devices_is_rejected(pod: Pod, field: str) -> None:
    rejection = reject_pod(pod)
    assert rejection is not None
    assert rejection.offered == f"{field}, not supported"


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(asking({}), worker(), id="no claims"),
        pytest.param(asking({}, resourceClaims=[]), worker(), id="an empty list of claims"),
        pytest.param(asking({GPU: "1"}), worker(gpu="1"), id="an extended resource of a device plugin"),
        pytest.param(asking({GPU: "0"}), worker(), id="none of an extended resource"),
    ],
)
def test_a_pod_that_needs_no_device_of_a_class_is_placed(pod: Pod, node: Node) -> None:
    assert reject_pod(pod) is None
    assert isinstance(decide(pod, view(node), PROFILE), ScheduleResult)


@pytest.mark.parametrize(
    ("pod", "node", "lacking"),
    [
        pytest.param(asking({GPU: "1"}), worker(), GPU, id="a resource that the node does not have"),
        pytest.param(asking({GPU: "1"}), worker(gpu="0"), GPU, id="a resource of which the node has none"),
        pytest.param(asking({GPU: "1", NIC: "1"}), worker(gpu="1"), NIC, id="one of a device plugin, one of a class"),
    ],
)
def test_an_extended_resource_that_no_node_has_may_be_one_of_a_device_class(pod: Pod, node: Node, lacking: str) -> None:
    assert reject_pod(pod) is None
    decision = decide(pod, view(node), PROFILE)
    assert isinstance(decision, Unschedulable)
    assert diagnose(decision).text() == (
        f"0/1 nodes are available: 1 Insufficient {lacking}. "
        f"No node has {lacking}: if a DeviceClass provides it, leave the pod to kube-scheduler."
    )
