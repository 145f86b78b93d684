"""What pods say about their place beside nodeSelector: decoded once, shared, and malformed only by itself."""

from typing import Any

import msgspec
import pytest

from kube.decoding.decode import MalformedObject, decode_pod_record
from kube.objects.constraints import (
    Constraints,
    HostPort,
    PodTerm,
    PreferredNodes,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.labels import LabelSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Pod

WEB = LabelSelector((("app", "web"),))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod(**spec: Any) -> Pod:
    return decode_pod_record(msgspec.json.encode({"metadata": {"name": "web-0"}, "spec": spec}))


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [{"key": "a"}]}}]}},
            Constraints(preferred_nodes=(PreferredNodes(5, NodeSelectorTerm((Requirement("a", ""),))),)),
            id="preferred-nodes",
        ),
        pytest.param(
            {"podAffinity": {REQUIRED: [term()]}}, Constraints(affinity=(PodTerm("zone", WEB),)), id="pod-affinity"
        ),
        pytest.param(
            {"podAntiAffinity": {REQUIRED: [term(namespaces=["b"], namespaceSelector={})]}},
            Constraints(anti_affinity=(PodTerm("zone", WEB, ("b",), LabelSelector()),)),
            id="anti-affinity-in-namespaces",
        ),
        pytest.param(
            {"podAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": term()}]}},
            Constraints(preferred_affinity=(WeightedPodTerm(9, PodTerm("zone", WEB)),)),
            id="preferred-pod-affinity",
        ),
        pytest.param(
            {"podAntiAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": {"topologyKey": "zone"}}]}},
            Constraints(preferred_anti_affinity=(WeightedPodTerm(9, PodTerm("zone")),)),
            id="without-selector",
        ),
        pytest.param({"podAffinity": None, "podAntiAffinity": {REQUIRED: None}}, None, id="nothing"),
    ],
)
def test_affinity(spec: dict[str, Any], expected: Constraints | None) -> None:
    assert pod(affinity=spec).constraints == expected


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param(
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            SpreadConstraint(2, "zone", "ScheduleAnyway"),
            id="soft",
        ),
        pytest.param(
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["hash"],
            },
            SpreadConstraint(1, "zone", "DoNotSchedule", WEB, 3, "Ignore", "Honor", ("hash",)),
            id="everything-said",
        ),
    ],
)
def test_topology_spread(wire: dict[str, Any], expected: SpreadConstraint) -> None:
    assert pod(topologySpreadConstraints=[wire]).constraints == Constraints(spread=(expected,))


def test_host_ports_of_containers_that_last() -> None:
    decoded = pod(
        containers=[{"name": "a", "ports": [{"hostPort": 80}, {"containerPort": 8080}]}],
        initContainers=[
            {"name": "once", "ports": [{"hostPort": 81}]},
            {
                "name": "always",
                "restartPolicy": "Always",
                "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            },
        ],
    )
    assert decoded.constraints == Constraints(ports=(HostPort(80), HostPort(53, "UDP", "10.0.0.1")))


def test_a_pod_that_never_preempts() -> None:
    assert pod(preemptionPolicy="Never").constraints == Constraints(preempts=False)
    assert pod(preemptionPolicy="PreemptLowerPriority").constraints is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, ("spec.resourceClaims",), id="dynamic-resources"),
        pytest.param({"resourceClaims": []}, (), id="no-dynamic-resources"),
        pytest.param({"resourceClaims": None, "schedulingGroup": None}, (), id="null"),
        pytest.param({"schedulingGroup": {"podGroupName": "g"}}, ("spec.schedulingGroup",), id="gang"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, ("spec.hostUsers false with hostNetwork",), id="user-namespace"
        ),
        pytest.param({"hostUsers": False}, (), id="user-namespace-alone"),
        pytest.param(
            {"initContainers": [{"name": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("spec.containers[*].restartPolicyRules with RestartAllContainers",),
            id="declared-feature",
        ),
        pytest.param(
            {"containers": [{"name": "a", "volumeMounts": [{"name": "v"}, {"bindMountOptions": ["noexec"]}]}]},
            ("spec.containers[*].volumeMounts with bindMountOptions",),
            id="mount-options",
        ),
        pytest.param({"containers": [{"volumeMounts": [{"bindMountOptions": []}]}]}, (), id="no-mount-options"),
        pytest.param(
            {"containers": [{"name": "a", "restartPolicyRules": [{"action": "Restart"}]}]}, (), id="restart-rule"
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}]},
            ("requests of deviceclass.resource.kubernetes.io/*",),
            id="extended-resource-of-a-device-class",
        ),
        pytest.param(
            {"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}},
            ("requests of deviceclass.resource.kubernetes.io/*",),
            id="extended-resource-of-a-device-class-for-the-whole-pod",
        ),
    ],
)
def test_what_is_not_understood_is_noticed(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert (pod(**spec).constraints or Constraints()).unsupported == expected


def test_pods_of_one_template_share_what_they_say() -> None:
    spec: dict[str, Any] = {
        "affinity": {"podAntiAffinity": {REQUIRED: [term()]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    assert pod(**spec).constraints is pod(**spec).constraints


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"affinity": []}, "$.spec.affinity", id="affinity-is-a-list"),
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": 1}]}}},
            f"$.spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
            id="key-is-a-number",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": "1"}]},
            "$.spec.topologySpreadConstraints[0].maxSkew",
            id="skew-is-text",
        ),
    ],
)
def test_what_cannot_be_read_names_its_place(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        pod(**spec)
    assert caught.value.path == path


LARGE = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(4000)]
"""150 KB."""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": LARGE}]}}}},
            "spec.affinity of 167,004 bytes (more than 131,072)",
            id="affinity",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {"matchExpressions": LARGE}}]},
            "spec.topologySpreadConstraints of 166,953 bytes (more than 32,768)",
            id="spread",
        ),
        pytest.param(
            {"tolerations": [{"key": f"k{number}"} for number in range(501)]},
            "spec.tolerations: 501 entries (more than 500)",
            id="tolerations",
        ),
        pytest.param(
            {"nodeSelector": {f"k{number}": "v" for number in range(501)}},
            "spec.nodeSelector: 501 entries (more than 500)",
            id="node-selector",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"hostPort": number + 1} for number in range(501)]}]},
            "spec.containers[*].ports with hostPort: 501 entries (more than 500)",
            id="host-ports",
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"requests": {f"x.io/{n}": "1" for n in range(501)}}}]},
            "spec.containers[*].resources.requests: 501 entries (more than 500)",
            id="requests",
        ),
    ],
)
def test_what_is_too_large_is_not_read_and_noticed(spec: dict[str, Any], field: str) -> None:
    read = pod(**spec)
    assert read.constraints == Constraints(
        ports=read.constraints.ports if read.constraints else (), unsupported=(field,)
    )
    assert (read.node_affinity, read.node_selector, read.tolerations) == (None, (), ())
    assert not any("/" in name for name, _ in read.requests)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"tolerations": [{"key": f"k{number}"} for number in range(500)]}, id="tolerations"),
        pytest.param({"nodeSelector": {f"k{number}": "v" for number in range(500)}}, id="node-selector"),
    ],
)
def test_what_is_just_small_enough_is_read(spec: dict[str, Any]) -> None:
    read = pod(**spec)
    assert read.constraints is None
    assert len(read.tolerations) + len(read.node_selector) == 500


def test_of_too_many_requests_those_count_that_every_node_offers() -> None:
    requests = {"cpu": "1", "memory": "1Gi"} | {f"x.io/{number}": "1" for number in range(501)}
    read = pod(containers=[{"name": "a", "resources": {"requests": requests}}])
    assert [name for name, _ in read.requests] == ["cpu", "memory"]


def test_inline_disks_of_migrated_plugins_are_read_by_their_ids() -> None:
    volumes = [
        {"name": "a", "awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"name": "b", "azureDisk": {"diskName": "d", "diskURI": "/disks/1"}},
        {"name": "c", "cinder": {"volumeID": "c-1"}},
        {"name": "d", "portworxVolume": {"volumeID": "p-1"}},
        {"name": "e", "gcePersistentDisk": {"pdName": "g-1"}},
    ]
    read = pod(volumes=volumes).constraints
    assert read is not None
    assert [(disk.kind, disk.identity) for disk in read.disks] == [
        ("awsElasticBlockStore", ("vol-1",)),
        ("azureDisk", ("/disks/1",)),
        ("cinder", ("c-1",)),
        ("portworxVolume", ("p-1",)),
        ("gcePersistentDisk", ("g-1",)),
    ]
