"""Effective requests follow PodRequests of component-helpers/resource."""

from typing import Any

import msgspec
import pytest

from kube.decoding.decode import decode_pod_record
from kube.objects.constraints import InlineDisk
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Pod, PodClaim, Toleration
from kube.rules.quantity import parse_quantity
from tests import builders

METADATA = {"name": "web-0", "namespace": "ns", "uid": "u", "resourceVersion": "7"}


def pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    return decode_pod_record(msgspec.json.encode({"metadata": METADATA, "spec": spec, "status": status}))


def container(name: str = "main", *, always: bool = False, **requests: str) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return document | ({"restartPolicy": "Always"} if always else {})


def test_a_pod() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    decoded = pod(
        {
            "nodeName": "n1",
            "schedulerName": "zone-scheduler",
            "priority": 100,
            "containers": [container(cpu="1")],
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            },
            "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute"}],
            "schedulingGates": [{"name": "wait.example/here"}],
        },
        {"phase": "Running", "nominatedNodeName": "n2"},
    )
    names = NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n1",)),))
    assert decoded == Pod(
        namespace="ns",
        name="web-0",
        uid="u",
        resource_version=7,
        node_name="n1",
        phase="Running",
        scheduler_name="zone-scheduler",
        requests=builders.resources({"cpu": "1"}),
        node_selector=(("disk", "ssd"),),
        node_affinity=NodeSelector((names,)),
        tolerations=(Toleration(operator="Exists"), Toleration("a", "Equal", "b", "NoExecute")),
        scheduling_gates=("wait.example/here",),
        priority=100,
        scored=(10**9, 200 * 2**20 * 10**9),
        nominated_node="n2",
    )


@pytest.mark.parametrize(
    ("containers", "scored"),
    [
        pytest.param([container(cpu="1", memory="1Gi")], None, id="all-said"),
        pytest.param([container(cpu="0", memory="0")], None, id="zero-is-said-too"),
        pytest.param([container()], ("100m", "200Mi"), id="nothing-said"),
        pytest.param([container(), container("b", cpu="1")], ("1100m", "400Mi"), id="each-container"),
    ],
)
def test_containers_that_request_nothing_count_when_nodes_are_scored(
    containers: list[dict[str, Any]], scored: tuple[str, str] | None
) -> None:
    expected = None if scored is None else tuple(map(parse_quantity, scored))
    assert pod({"containers": containers}).scored == expected


def test_a_pod_that_says_nothing_has_the_defaults() -> None:
    assert pod({}) == Pod("ns", "web-0", "u", 7)
    assert pod({"affinity": {"nodeAffinity": {}, "podAffinity": {}}, "volumes": None, "containers": None}) == pod({})


def test_the_claims_a_pod_uses() -> None:
    decoded = pod(
        {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
                {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "c"}},
                {"name": "again", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            ]
        }
    )
    assert decoded.claims == (PodClaim("data-web-0"), PodClaim("web-0-tmp", ephemeral=True), PodClaim("data-web-0"))
    assert decoded.claim_keys == ("ns/data-web-0", "ns/web-0-tmp")


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({"containers": [{"name": "main"}]}, {}, id="none"),
        pytest.param(
            {"containers": [container(cpu="100m", memory="1Gi"), container("b", cpu="1")]},
            {"cpu": "1100m", "memory": "1Gi"},
            id="containers-add-up",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3"), container("j", cpu="2")]},
            {"cpu": "3"},
            id="the-largest-init-container-counts",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("i", memory="1Gi", cpu="500m")]},
            {"cpu": "1", "memory": "1Gi"},
            id="each-resource-by-itself",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("s", always=True, cpu="2")]},
            {"cpu": "3"},
            id="a-sidecar-runs-beside",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    container("before", cpu="5"),
                    container("s", always=True, cpu="2"),
                    container("after", cpu="4"),
                ],
            },
            {"cpu": "6"},
            id="an-init-container-beside-the-sidecars-before-it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": "1250m", "memory": "64Mi"},
            id="overhead",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi", gpu="1")],
                "resources": {"requests": {"cpu": "4", "gpu": "9"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": "5", "memory": "1Gi", "gpu": "1"},
            id="pod-level-replaces-what-it-may",
        ),
        pytest.param(
            {"containers": [container(cpu="100u", memory="1500m")]}, {"cpu": "1m", "memory": "2"}, id="rounded-up"
        ),
    ],
)
def test_effective_requests(spec: dict[str, Any], requests: dict[str, str]) -> None:
    assert pod(spec).requests == builders.resources(requests)


RESIZES = [
    pytest.param("2", "2", None, "3", id="wants-more-than-it-has"),
    pytest.param("4", "2", None, "4", id="has-more-than-it-wants"),
    pytest.param("1", "5", "Deferred", "5", id="allocated-more"),
    pytest.param("2", "1", "Infeasible", "2", id="cannot-have-what-it-wants"),
]


@pytest.mark.parametrize(("has", "allocated", "reason", "counted"), RESIZES)
def test_a_resize_in_place(has: str, allocated: str, reason: str | None, counted: str) -> None:
    status: dict[str, Any] = {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": allocated}},
            {"name": "other"},
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else None,
    }
    assert pod({"containers": [container(cpu="3")]}, status).requests == builders.resources({"cpu": counted})


@pytest.mark.parametrize(
    ("has", "allocated", "reason", "counted"),
    [
        *RESIZES,
        pytest.param(None, "5", None, "3", id="the-kubelet-does-not-say"),
    ],
)
def test_a_resize_in_place_of_the_pod_as_a_whole(
    has: str | None, allocated: str, reason: str | None, counted: str
) -> None:
    """From 1.37 on also with what the spec does not request for the pod, here memory."""
    status: dict[str, Any] = {
        "resources": None if has is None else {"requests": {"cpu": has, "memory": "9Gi"}},
        "allocatedResources": {"cpu": allocated},
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else None,
    }
    spec = {"containers": [container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "3"}}}
    memory = "1Gi" if has is None else "9Gi"
    assert pod(spec, status).requests == builders.resources({"cpu": counted, "memory": memory})


def test_what_a_pod_has_as_a_whole_counts_although_it_requests_it_by_its_containers() -> None:
    """So it does from 1.37 on, once both what it has and what it was promised are stated."""
    has = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    spec = {"containers": [container(cpu="1")]}
    assert pod(spec, has).requests == builders.resources({"cpu": "3"})
    del has["allocatedResources"]
    assert pod(spec, has).requests == builders.resources({"cpu": "1"})


def test_containers_resized_against_each_other_count_with_no_less_than_any_version_of_kubernetes_counts() -> None:
    """1.36 counts the larger of each container, 3 + 3; 1.37 the larger sum, 4."""
    status = {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}},
        ]
    }
    spec = {"containers": [container(cpu="1"), container("b", cpu="3")]}
    assert pod(spec, status).requests == builders.resources({"cpu": "6"})


@pytest.mark.parametrize("reason", [None, "Infeasible"])
def test_an_init_container_counts_with_what_it_was_allocated(reason: str | None) -> None:
    """So it does from 1.37 on."""
    status = {
        "initContainerStatuses": [{"name": "i", "allocatedResources": {"cpu": "3"}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else None,
    }
    spec = {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="2")]}
    assert pod(spec, status).requests == builders.resources({"cpu": "3"})


def test_a_container_that_does_not_run_yet_counts_with_what_it_was_allocated() -> None:
    """So it does from 1.37 on; the status has no `resources` before it runs."""
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}
    assert pod({"containers": [container(cpu="2")]}, status).requests == builders.resources({"cpu": "3"})


def test_a_container_that_was_resized_counts_as_it_is_when_nodes_are_scored() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "50m"}},
                "allocatedResources": {"cpu": "50m"},
            }
        ]
    }
    assert pod({"containers": [container()]}, status).scored == (5 * 10**7, 200 * 2**20 * 10**9)


@pytest.mark.parametrize(
    ("condition", "evicted"),
    [
        pytest.param(("DisruptionTarget", "True", "EvictionByEvictionAPI"), True, id="through-the-eviction-api"),
        pytest.param(("DisruptionTarget", "True", "PreemptionByScheduler"), True, id="by-kube-scheduler"),
        pytest.param(("DisruptionTarget", "True", "DeletionByTaintManager"), False, id="by-a-taint"),
        pytest.param(("DisruptionTarget", "False", "EvictionByEvictionAPI"), False, id="not-any-more"),
        pytest.param(("Ready", "True", "EvictionByEvictionAPI"), False, id="another-condition"),
    ],
)
def test_a_pod_that_was_evicted(condition: tuple[str, str, str], evicted: bool) -> None:
    kind, status, reason = condition
    decoded = pod({}, {"conditions": [{"type": kind, "status": status, "reason": reason}]})
    assert decoded.evicted is evicted


@pytest.mark.parametrize(
    ("condition", "unschedulable"),
    [
        pytest.param(("PodScheduled", "False", "Unschedulable"), True, id="no-node-was-found"),
        pytest.param(("PodScheduled", "False", "SchedulingGated"), False, id="not-tried-yet"),
        pytest.param(("PodScheduled", "False", "SchedulerError"), False, id="it-is-tried-again"),
        pytest.param(("PodScheduled", "True", None), False, id="has-a-node"),
        pytest.param(("Ready", "False", "Unschedulable"), False, id="another-condition"),
    ],
)
def test_a_pod_for_which_no_node_was_found(condition: tuple[str, str, str | None], unschedulable: bool) -> None:
    kind, status, reason = condition
    decoded = pod({}, {"conditions": [{"type": kind, "status": status, "reason": reason}]})
    assert decoded.unschedulable is unschedulable


@pytest.mark.parametrize(
    ("owner", "per_node"),
    [
        pytest.param({"kind": "DaemonSet", "controller": True}, True, id="of-a-daemon-set"),
        pytest.param({"kind": "Node", "controller": True}, True, id="static"),
        pytest.param({"kind": "ReplicaSet", "controller": True}, False, id="of-a-replica-set"),
        pytest.param({"kind": "DaemonSet"}, False, id="not-its-controller"),
    ],
)
def test_pods_that_belong_to_their_node(owner: dict[str, Any], per_node: bool) -> None:
    document = {"metadata": METADATA | {"ownerReferences": [owner]}, "spec": {}}
    assert decode_pod_record(msgspec.json.encode(document)).per_node is per_node


def test_when_a_pod_started() -> None:
    assert pod({}).started is None
    assert pod({}, {"startTime": "2026-01-01T00:00:00Z"}).started == builders.EPOCH


def test_disks_that_a_pod_names_itself() -> None:
    volumes = [
        {"name": "a", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}},
        {"name": "c", "iscsi": {"iqn": "iqn", "lun": 0, "targetPortal": "p"}},
        {"name": "d", "rbd": {"monitors": ["m1"], "image": "image"}},
        {"name": "e", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "f", "emptyDir": {}},
    ]
    decoded = pod({"containers": [container(cpu="1")], "volumes": volumes})
    assert decoded.claims == (PodClaim("data"),)
    assert decoded.constraints is not None
    assert decoded.constraints.disks == (
        InlineDisk("gcePersistentDisk", ("pd",), read_only=True),
        InlineDisk("awsElasticBlockStore", ("vol",)),
        InlineDisk("iscsi", ("iqn",)),
        InlineDisk("rbd", ("rbd", "image"), ("m1",)),
    )
    without = pod({"containers": [container(cpu="1")], "volumes": volumes[4:]})
    assert without.constraints is None


ASKS: dict[str, Any] = {"containers": [container(cpu="1", memory="1Gi")], "nodeSelector": {"disk": "ssd"}}


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"nodeSelector": {"disk": "hdd"}}, "node_selector", (("disk", "hdd"),)),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations", (Toleration(operator="Exists"),)),
        ({"overhead": {"cpu": "1"}}, "requests", builders.resources({"cpu": "2", "memory": "1Gi"})),
        ({"initContainers": [container(cpu="3")]}, "requests", builders.resources({"cpu": "3", "memory": "1Gi"})),
        ({"resources": {"requests": {"cpu": "4"}}}, "requests", builders.resources({"cpu": "4", "memory": "1Gi"})),
        ({"containers": [container()]}, "scored", (10**8, 200 * 2**20 * 10**9)),
    ],
    ids=["selector", "tolerations", "overhead", "init container", "pod level", "nothing requested"],
)
def test_what_is_remembered_of_a_template_is_not_taken_for_another(
    change: dict[str, Any], field: str, value: object
) -> None:
    before = pod(ASKS)
    assert getattr(before, field) != value
    assert getattr(pod(ASKS | change), field) == value
    assert pod(ASKS) == before


def test_pods_of_one_template_share_their_constraints() -> None:
    first, other = pod(ASKS | {"nodeName": "n1"}), pod(ASKS | {"volumes": [{"name": "token-x"}], "priority": 3})
    assert first.requests is other.requests
    assert (first.node_name, other.priority) == ("n1", 3)
