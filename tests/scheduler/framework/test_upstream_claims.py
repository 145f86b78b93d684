"""The tables of kube-scheduler's own unit tests, for filters that look at claims, and for what a pod on a node takes.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: volumerestrictions/volume_restrictions_test.go
(TestAccessModeConflicts), volumezone/volume_zone_test.go (TestMultiZone, TestWithBinding),
nodeaffinity/node_affinity_test.go (the cases with addedAffinity), noderesources/fit_test.go
(TestRestartableInitContainers); and component-helpers/resource/helpers_test.go (TestPodResourceRequests, the cases with
a resize in place or a sidecar). Left out are those of the plugin's arguments (`UseStatusResources: false`), and
TestDeferredResizeFit: resizing a pod that is on its node already is not what this scheduler does.
"""

from typing import Any

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import BIND_COMPLETED, READ_WRITE_ONCE_POD, Record
from scheduler.framework.profile import AddedAffinity, Thresholds
from scheduler.plugins.node_rules import EnforcedNodeAffinity, NodeAffinity
from scheduler.plugins.resource_fit import NodeResourcesFit
from scheduler.plugins.volume_filters import VolumeBinding, VolumeRestrictions, VolumeZone
from scheduler.volumes.volumes import pod_info
from tests import builders
from tests.kube.decoding.test_decode_pod import container
from tests.kube.decoding.test_decode_pod import pod as decoded
from tests.scheduler.plugin_results import reasons, view

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"

EXCLUSIVE = [builders.claim(name, access_modes=[READ_WRITE_ONCE_POD]) for name in ("exclusive-1", "exclusive-2")]
SHARED = builders.claim("shared", access_modes=["ReadWriteMany"])
USES_SHARED = builders.pod("uses-shared", claims=["shared"], node="node-1")


@pytest.mark.parametrize(
    ("claims", "others", "expected"),
    [
        pytest.param([], [], None, id="nothing"),
        pytest.param(["exclusive-1"], [USES_SHARED], None, id="no access mode conflict"),
        pytest.param(
            ["exclusive-1"],
            [builders.pod("other", claims=["exclusive-1"], node="node-1"), USES_SHARED],
            Reason.VOLUME_IN_USE,
            id="access mode conflict",
        ),
        pytest.param(
            ["exclusive-1", "exclusive-2"],
            [builders.pod("other", claims=["exclusive-1", "exclusive-2"], node="node-1"), USES_SHARED],
            Reason.VOLUME_IN_USE,
            id="two conflicts",
        ),
    ],
)
def test_claims_for_one_pod_only(claims: list[str], others: list[Record], expected: Reason | None) -> None:
    cluster = view(builders.node(), builders.storage_class(), *EXCLUSIVE, SHARED, *others)
    assert reasons(VolumeRestrictions(), builders.pod("new", claims=claims), cluster) == {"node-1": expected}


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({BETA_ZONE: "west-c__west-a"}, {}, True, id="node without labels"),
        pytest.param({BETA_ZONE: "west-c__west-a"}, {BETA_ZONE: "west-a"}, True, id="beta zone matches"),
        pytest.param({BETA_ZONE: "west-a"}, {BETA_ZONE: "west-b"}, False, id="another beta zone"),
        pytest.param({ZONE: "west-c__west-a"}, {ZONE: "west-a"}, True, id="zone matches"),
        pytest.param({ZONE: "west-a"}, {ZONE: "west-b"}, False, id="another zone"),
    ],
)
def test_volumes_of_several_zones(volume: dict[str, str], node: dict[str, str], *, fits: bool) -> None:
    bound = builders.claim("data", volume_name="pv-1", phase="Bound", annotations={BIND_COMPLETED: "yes"})
    held = builders.volume("pv-1", claim="default/data", phase="Bound", labels=volume)
    cluster = view(builders.node(zone=None, labels=node), bound, held, builders.storage_class())
    expected = {"node-1": None if fits else Reason.VOLUME_ZONE_MISMATCH}
    assert reasons(VolumeZone(), builders.pod("new", claims=["data"]), cluster) == expected


@pytest.mark.parametrize(
    ("claim", "waits"),
    [
        pytest.param(builders.claim(storage_class=None), False, id="unbound, no class"),
        pytest.param(builders.claim(storage_class="absent"), False, id="unbound, a class that is not there"),
        pytest.param(builders.claim(storage_class="immediate"), False, id="unbound, bound at once"),
        pytest.param(builders.claim(storage_class="fast"), True, id="unbound, waits for its pod"),
    ],
)
def test_claims_without_a_volume_exclude_every_node_unless_they_wait_for_their_pod(
    claim: model.Claim, *, waits: bool
) -> None:
    """TestWithBinding: volumezone rejects as volumebinding does before it; here one of them says it."""
    classes = builders.storage_class(), builders.storage_class("immediate", binding_mode=None)
    free = builders.volume("pv-1", labels={BETA_ZONE: "west-a"})
    cluster = view(builders.node(zone=None, labels={BETA_ZONE: "west-a"}), free, claim, *classes)
    info = pod_info(builders.pod("new", claims=["data"]), cluster.storage, cluster.now)
    assert isinstance(VolumeBinding().confine(info, cluster), Rejection) is not waits
    assert reasons(VolumeZone(), info.pod, cluster) == {"node-1": None}


def selects(key: str, value: str, *, field: bool = False) -> NodeSelector:
    requirement = Requirement(key, "In", (value,))
    return NodeSelector((NodeSelectorTerm((), (requirement,)) if field else NodeSelectorTerm((requirement,)),))


NODE_2 = selects("metadata.name", "node-2", field=True)


@pytest.mark.parametrize(
    ("added", "own", "enforced", "affinity"),
    [
        pytest.param(NODE_2, selects("zone", "foo"), None, None, id="matches both"),
        pytest.param(NODE_2, selects("zone", "bar"), None, Reason.NODE_SELECTOR_MISMATCH, id="not the pod's own"),
        pytest.param(selects("zone", "bar"), None, Reason.ENFORCED_NODE_AFFINITY, None, id="not the added one"),
    ],
)
def test_affinity_that_a_profile_adds(
    added: NodeSelector, own: NodeSelector | None, enforced: Reason | None, affinity: Reason | None
) -> None:
    cluster = view(builders.node("node-2", labels={"zone": "foo"}))
    pod = builders.pod("new", node_affinity=own)
    plugin = EnforcedNodeAffinity(Thresholds(added_affinity=AddedAffinity(required=added)))
    assert reasons(plugin, pod, cluster) == {"node-2": enforced}
    assert reasons(NodeAffinity(), pod, cluster) == {"node-2": affinity}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({"containers": [container()]}, True, id="no sidecar"),
        pytest.param(
            {"containers": [container()], "initContainers": [container("s", always=True)]}, True, id="no requests"
        ),
        pytest.param(
            {"containers": [container(cpu="1m")], "initContainers": [container("s", always=True, cpu="1m")]},
            True,
            id="the sum fits",
        ),
        pytest.param(
            {"containers": [container(cpu="1m")], "initContainers": [container("s", always=True, cpu="2m")]},
            False,
            id="the sum does not fit",
        ),
    ],
)
def test_sidecars_on_a_node_of_two_milli_cores(spec: dict[str, Any], *, fits: bool) -> None:
    cluster = view(builders.node(allocatable={"cpu": "2m", "pods": "1"}))
    assert (reasons(NodeResourcesFit(), decoded(spec), cluster)["node-1"] is None) is fits


def running(name: str, has: dict[str, str] | None = None, allocated: dict[str, str] | None = None) -> dict[str, Any]:
    """A container's status; None: the kubelet does not say."""
    status: dict[str, Any] = {"name": name}
    if has is not None:
        status["resources"] = {"requests": has}
    if allocated is not None:
        status["allocatedResources"] = allocated
    return status


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
LARGE = {"name": "main", "resources": {"requests": {"cpu": "30m", "memory": "20M", "ephemeral-storage": "10G"}}}
HAS_2, ALLOCATED_4 = {"cpu": "2"}, {"cpu": "4"}
SIDECAR = {"containers": [], "initContainers": [container("s", always=True, cpu="4")]}


@pytest.mark.parametrize(
    ("spec", "status", "requests"),
    [
        pytest.param(
            {"containers": [container(cpu="4")]},
            {"containerStatuses": [running("main", HAS_2)]} | INFEASIBLE,
            {"cpu": "2"},
            id="infeasible",
        ),
        pytest.param(
            {"containers": [container(cpu="6")]},
            {"containerStatuses": [running("main", HAS_2, ALLOCATED_4)]} | INFEASIBLE,
            {"cpu": "4"},
            id="infeasible and in progress",
        ),
        pytest.param(
            {"containers": [container(cpu="4")]},
            {"containerStatuses": [running("main", HAS_2)]},
            {"cpu": "4"},
            id="no resize status",
        ),
        pytest.param(
            {"containers": [LARGE]},
            {
                "containerStatuses": [
                    running(
                        "main",
                        {"cpu": "10m", "memory": "30M", "ephemeral-storage": "20G"},
                        {"cpu": "20m", "memory": "10M", "ephemeral-storage": "30G"},
                    )
                ]
            },
            {"cpu": "30m", "memory": "30M", "ephemeral-storage": "30G"},
            id="the largest of three, each resource by itself",
        ),
        pytest.param(
            SIDECAR,
            {"initContainerStatuses": [running("s", HAS_2)]} | INFEASIBLE,
            {"cpu": "2"},
            id="sidecar, infeasible",
        ),
        pytest.param(
            SIDECAR, {"initContainerStatuses": [running("s", HAS_2)]}, {"cpu": "4"}, id="sidecar, no resize status"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("s", always=True, cpu="1")]},
            {},
            {"cpu": "2"},
            id="a sidecar",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    container("i", cpu="5"),
                    *(container(f"s{cpu}", always=True, cpu=str(cpu)) for cpu in (1, 2, 3)),
                ],
            },
            {},
            {"cpu": "7"},
            id="several sidecars",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    container("i", cpu="5"),
                    container("s1", always=True, cpu="1"),
                    container("s2", always=True, cpu="2"),
                    container("j", cpu="5"),
                    container("s3", always=True, cpu="3"),
                ],
            },
            {},
            {"cpu": "8"},
            id="sidecars and init containers in turn",
        ),
        pytest.param(
            {
                "containers": [container(cpu="100")],
                "initContainers": [container("s", always=True, cpu="10"), container("i", cpu="200")],
            },
            {},
            {"cpu": "210"},
            id="an init container beside a sidecar",
        ),
    ],
)
def test_what_a_pod_takes(spec: dict[str, Any], status: dict[str, Any], requests: dict[str, str]) -> None:
    assert decoded(spec, status).requests == builders.resources(requests)
