"""The tables of kube-scheduler's own unit tests, for the filters that need no claim but a bound one.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: volumezone/volume_zone_test.go (TestSingleZone),
volumerestrictions/volume_restrictions_test.go (disk conflicts), nodeaffinity/node_affinity_test.go (TestNodeAffinity)
and noderesources/fit_test.go (TestEnoughRequests, TestNotEnoughRequests, TestStorageRequests). Left out are cases of
its arguments that have no counterpart here (`ignoredResources`) and of what is rejected as a whole (devices).
Objects pass through the decoder, as those of a cluster do.
"""

import json
from typing import Any, Final

import pytest

from kube.decoding.decode import DECODERS
from kube.objects.model import BIND_COMPLETED, Node, Pod
from scheduler.framework.plugin import Filter
from scheduler.plugins.node_rules import NodeAffinity
from scheduler.plugins.resource_fit import DiskConflict, NodeResourcesFit
from scheduler.plugins.volume_filters import VolumeZone
from scheduler.volumes.volumes import pod_info
from tests import builders
from tests.fakes.objects import pod_object
from tests.scheduler.plugin_results import reasons, view

Object = dict[str, Any]
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def decoded_pod(spec: Object, name: str = "new", node: str | None = None) -> Pod:
    document = pod_object(name, [])
    document["spec"] |= spec
    if node:
        document["spec"]["nodeName"] = node
    pod = DECODERS["Pod"](json.dumps(document).encode())
    assert isinstance(pod, Pod)
    return pod


def fits(plugin: Filter, pod: Pod, *records: Any) -> bool:
    (reason,) = reasons(plugin, pod, view(*records)).values()
    return reason is None


@pytest.mark.parametrize(
    ("volume", "node", "expected"),
    [
        pytest.param({BETA_ZONE: "west-a"}, {}, True, id="node without labels"),
        pytest.param({BETA_ZONE: "west-a"}, {BETA_ZONE: "west-a", "x": "y"}, True, id="beta zone matches"),
        pytest.param({BETA_REGION: "west", "x": "y"}, {BETA_REGION: "west"}, True, id="beta region matches"),
        pytest.param({BETA_REGION: "west", "x": "y"}, {BETA_REGION: "east"}, False, id="another beta region"),
        pytest.param({BETA_ZONE: "west-a"}, {BETA_ZONE: "east-a"}, False, id="another beta zone"),
        pytest.param({ZONE: "west-a"}, {ZONE: "west-a", "x": "y"}, True, id="zone matches"),
        pytest.param({REGION: "west", "x": "y"}, {REGION: "west"}, True, id="region matches"),
        pytest.param({REGION: "west", "x": "y"}, {REGION: "east"}, False, id="another region"),
        pytest.param({ZONE: "west-a"}, {ZONE: "east-a"}, False, id="another zone"),
        pytest.param({ZONE: "west-a", REGION: "west-a"}, {ZONE: "west-a"}, False, id="node with its zone only"),
        pytest.param({ZONE: "west-a"}, {BETA_ZONE: "west-a"}, False, id="volume with zone, node with beta zone"),
        pytest.param({BETA_ZONE: "west-a"}, {ZONE: "west-a"}, True, id="volume with beta zone, node with zone"),
        pytest.param({BETA_ZONE: "west-a"}, {ZONE: "west-b"}, False, id="the same, another zone"),
    ],
)
def test_zones(volume: dict[str, str], node: dict[str, str], *, expected: bool) -> None:
    bound = builders.claim("data", volume_name="pv-1", phase="Bound", annotations={BIND_COMPLETED: "yes"})
    held = builders.volume("pv-1", claim="default/data", phase="Bound", labels=volume)
    pod = builders.pod("new", claims=["data"])
    assert (
        fits(VolumeZone(), pod, builders.node(zone=None, labels=node), bound, held, builders.storage_class())
        is expected
    )


def disk(kind: str, **fields: Any) -> Object:
    return {"volumes": [{"name": "disk", kind: fields}]}


GCE = disk("gcePersistentDisk", pdName="foo")
AWS = disk("awsElasticBlockStore", volumeID="foo")
RBD = disk("rbd", monitors=["a", "b"], pool="foo", image="bar", fsType="ext4")
ISCSI = disk("iscsi", targetPortal="127.0.0.1:3260", iqn="iqn.2016-12.server:storage.target01", lun=0)


@pytest.mark.parametrize(
    ("pod", "on_node", "expected"),
    [
        pytest.param({}, {}, True, id="nothing"),
        pytest.param({}, GCE, True, id="gce: of the other pod only"),
        pytest.param(GCE, GCE, False, id="gce: the same"),
        pytest.param(disk("gcePersistentDisk", pdName="bar"), GCE, True, id="gce: another"),
        pytest.param(AWS, AWS, False, id="aws: the same"),
        pytest.param(disk("awsElasticBlockStore", volumeID="bar"), AWS, True, id="aws: another"),
        pytest.param(RBD, RBD, False, id="rbd: the same"),
        pytest.param(disk("rbd", monitors=["c", "d"], pool="foo", image="bar"), RBD, True, id="rbd: another Ceph"),
        pytest.param(ISCSI, ISCSI, False, id="iscsi: the same"),
        pytest.param(
            disk("iscsi", targetPortal="127.0.0.1:3260", iqn="iqn.2017-12.server:storage.target01", lun=0),
            ISCSI,
            True,
            id="iscsi: another",
        ),
        pytest.param(disk("emptyDir"), GCE, True, id="a volume without restrictions"),
    ],
)
def test_disks_in_a_pods_spec(pod: Object, on_node: Object, *, expected: bool) -> None:
    other = decoded_pod(on_node, "other", node="node-1")
    assert fits(DiskConflict(), decoded_pod(pod), builders.node(), other) is expected


def requires(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def label(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def expressions(*requirements: Object) -> Object:
    return {"matchExpressions": list(requirements)}


def named(*names: str) -> Object:
    return {"matchFields": [label("metadata.name", "In", name) for name in names]}


BAR, SELECTS_BAR = {"foo": "bar"}, {"nodeSelector": {"foo": "bar"}}
IS_BAR = expressions(label("foo", "In", "bar"))
GPU = {"GPU": "NVIDIA-GRID-K1"}


@pytest.mark.parametrize(
    ("pod", "labels", "expected"),
    [
        pytest.param(SELECTS_BAR, {}, False, id="missing labels"),
        pytest.param(SELECTS_BAR, BAR, True, id="same labels"),
        pytest.param(SELECTS_BAR, BAR | {"baz": "blah"}, True, id="node labels are superset"),
        pytest.param({"nodeSelector": BAR | {"baz": "blah"}}, BAR, False, id="node labels are subset"),
        pytest.param(requires(expressions(label("foo", "In", "bar", "value2"))), BAR, True, id="In"),
        pytest.param(
            requires(expressions(label("kernel-version", "Gt", "0204"))), {"kernel-version": "0206"}, True, id="Gt"
        ),
        pytest.param(
            requires(expressions(label("mem-type", "NotIn", "DDR", "DDR2"))), {"mem-type": "DDR3"}, True, id="NotIn"
        ),
        pytest.param(requires(expressions(label("GPU", "Exists"))), GPU, True, id="Exists"),
        pytest.param(requires(expressions(label("foo", "In", "value1", "value2"))), BAR, False, id="In, not matching"),
        pytest.param(requires({"matchExpressions": []}), BAR, False, id="an empty term matches nothing"),
        pytest.param({}, BAR, True, id="no affinity"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, BAR, True, id="affinity without a selector"),
        pytest.param(
            requires(expressions(label("GPU", "Exists"), label("GPU", "NotIn", "AMD", "INTER"))), GPU, True, id="ANDed"
        ),
        pytest.param(
            requires(expressions(label("GPU", "Exists"), label("GPU", "In", "AMD", "INTER"))),
            GPU,
            False,
            id="ANDed, not matching",
        ),
        pytest.param(
            requires(
                expressions(label("foo", "In", "bar", "value2")), expressions(label("diffkey", "In", "wrong", "value2"))
            ),
            BAR,
            True,
            id="ORed",
        ),
        pytest.param(
            requires(expressions(label("foo", "Exists"))) | SELECTS_BAR, BAR, True, id="selector and affinity"
        ),
        pytest.param(
            requires(expressions(label("foo", "Exists"))) | SELECTS_BAR,
            {"foo": "barrrrrr"},
            False,
            id="affinity without the selector",
        ),
        pytest.param(
            requires(expressions(label("foo", "NotIn", "invalid value: ___@#$%^"))), BAR, False, id="an invalid value"
        ),
        pytest.param(requires(named("node-1")), {}, True, id="matchFields"),
        pytest.param(requires(named("node-2")), {}, False, id="matchFields, not matching"),
        pytest.param(requires(named("node-2", "node-1"), IS_BAR), BAR, True, id="two terms, fields do not match"),
        pytest.param(requires(named("node-2") | IS_BAR), BAR, False, id="one term, fields do not match"),
        pytest.param(requires(named("node-1") | IS_BAR), BAR, True, id="one term, both match"),
        pytest.param(
            requires(named("node-2"), expressions(label("foo", "In", "other"))),
            BAR,
            False,
            id="two terms, none matches",
        ),
        pytest.param(requires(named("node-2"), named("node-1")), {}, True, id="two terms of names"),
        pytest.param(requires(named("node-2", "node-1")), BAR, False, id="conflicting names"),
    ],
)
def test_node_affinity(pod: Object, labels: dict[str, str], *, expected: bool) -> None:
    assert fits(NodeAffinity(), decoded_pod(pod), builders.node("node-1", labels=labels)) is expected


A, B, OF_KUBERNETES, HUGE = "example.com/aaa", "example.com/bbb", "kubernetes.io/something", "hugepages-test"
OFFERED: Final = {"cpu": "10m", "memory": "20", "pods": "32", A: "5", "ephemeral-storage": "20", HUGE: "5"}
FITS, UNSCHEDULABLE, UNRESOLVABLE = "fits", "Unschedulable", "UnschedulableAndUnresolvable"


def wants(cpu: int = 0, memory: int = 0, **others: int) -> Object:
    """A container; keywords name resources: `a`, `b`, `k`, `huge`, `ephemeral`."""
    names = {"a": A, "b": B, "k": OF_KUBERNETES, "huge": HUGE, "ephemeral": "ephemeral-storage"}
    requests = {"cpu": f"{cpu}m", "memory": str(memory)} | {names[key]: str(value) for key, value in others.items()}
    return {"name": "c", "image": "i", "resources": {"requests": requests}}


def containers(*made: Object, init: tuple[Object, ...] = (), overhead: Object | None = None, **level: str) -> Object:
    """`level`: requests of the pod as a whole (`spec.resources`); `huge` is that of huge pages."""
    spec: Object = {"containers": list(made), "initContainers": list(init)}
    if overhead:
        spec["overhead"] = overhead
    if level:
        spec["resources"] = {"requests": {HUGE if key == "huge" else key: value for key, value in level.items()}}
    return spec


NO = wants()
RESOURCES = [
    pytest.param(containers(), [wants(10, 20)], FITS, id="no resources requested always fits"),
    pytest.param(containers(wants(1, 1)), [wants(10, 20)], UNSCHEDULABLE, id="too many"),
    pytest.param(containers(wants(1, 1), init=(wants(3, 1),)), [wants(8, 19)], UNSCHEDULABLE, id="init cpu"),
    pytest.param(
        containers(wants(1, 1), init=(wants(3, 1), wants(2, 1))), [wants(8, 19)], UNSCHEDULABLE, id="highest init cpu"
    ),
    pytest.param(containers(wants(1, 1), init=(wants(1, 3),)), [wants(9, 19)], UNSCHEDULABLE, id="init memory"),
    pytest.param(
        containers(wants(1, 1), init=(wants(1, 3), wants(1, 2))),
        [wants(9, 19)],
        UNSCHEDULABLE,
        id="highest init memory",
    ),
    pytest.param(containers(wants(1, 1), init=(wants(1, 1),)), [wants(9, 19)], FITS, id="the maximum, not the sum"),
    pytest.param(containers(wants(1, 1), init=(wants(1, 1), wants(1, 1))), [wants(9, 19)], FITS, id="several init"),
    pytest.param(containers(wants(1, 1)), [wants(5, 5)], FITS, id="both fit"),
    pytest.param(containers(wants(2, 1)), [wants(9, 5)], UNSCHEDULABLE, id="memory fits"),
    pytest.param(containers(wants(1, 2)), [wants(5, 19)], UNSCHEDULABLE, id="cpu fits"),
    pytest.param(containers(wants(5, 1)), [wants(5, 19)], FITS, id="equal"),
    pytest.param(containers(wants(4, 1), init=(wants(5, 1),)), [wants(5, 19)], FITS, id="equal for init"),
    pytest.param(containers(wants(a=1)), [NO], FITS, id="extended"),
    pytest.param(containers(NO, init=(wants(a=1),)), [NO], FITS, id="extended for init"),
    pytest.param(containers(wants(1, 1, a=10)), [wants(a=0)], UNRESOLVABLE, id="extended capacity"),
    pytest.param(containers(NO, init=(wants(1, 1, a=10),)), [wants(a=0)], UNRESOLVABLE, id="the same for init"),
    pytest.param(containers(wants(1, 1, a=1)), [wants(a=5)], UNSCHEDULABLE, id="extended in use"),
    pytest.param(containers(NO, init=(wants(1, 1, a=1),)), [wants(a=5)], UNSCHEDULABLE, id="in use for init"),
    pytest.param(containers(wants(1, 1, a=3), wants(1, 1, a=3)), [wants(a=2)], UNRESOLVABLE, id="several containers"),
    pytest.param(containers(NO, init=(wants(1, 1, a=3), wants(1, 1, a=3))), [wants(a=2)], FITS, id="init in turn"),
    pytest.param(
        containers(NO, init=(wants(1, 1, a=6), wants(1, 1, a=3))), [wants(a=2)], UNRESOLVABLE, id="one init too large"
    ),
    pytest.param(containers(wants(1, 1, b=1)), [NO], UNRESOLVABLE, id="unknown resource"),
    pytest.param(containers(NO, init=(wants(1, 1, b=1),)), [NO], UNRESOLVABLE, id="unknown resource for init"),
    pytest.param(containers(wants(1, 1, k=10)), [NO], UNRESOLVABLE, id="kubernetes.io resource"),
    pytest.param(containers(NO, init=(wants(1, 1, k=10),)), [NO], UNRESOLVABLE, id="kubernetes.io for init"),
    pytest.param(containers(wants(1, 1, huge=10)), [wants(huge=0)], UNRESOLVABLE, id="huge pages"),
    pytest.param(containers(NO, init=(wants(1, 1, huge=10),)), [wants(huge=0)], UNRESOLVABLE, id="huge pages for init"),
    pytest.param(
        containers(wants(1, 1, huge=3), wants(1, 1, huge=3)), [wants(huge=2)], UNRESOLVABLE, id="huge pages in sum"
    ),
    pytest.param(containers(wants(1, 1), overhead={"cpu": "3m", "memory": "13"}), [wants(5, 5)], FITS, id="overhead"),
    pytest.param(
        containers(wants(1, 1), overhead={"cpu": "1m", "memory": "15"}),
        [wants(5, 5)],
        UNSCHEDULABLE,
        id="overhead, too",
    ),
    pytest.param(containers(wants(1, 1, a=0)), [wants(a=6)], FITS, id="a request of zero"),
    pytest.param(containers(wants(a=1)), [wants(20, 30, a=1)], FITS, id="zero of what is used up"),
    pytest.param(containers(wants(1, 1), cpu="1m", memory="2"), [wants(5, 5)], FITS, id="pod level"),
    pytest.param(containers(wants(1, 1), cpu="7m", memory="2"), [wants(5, 5)], UNSCHEDULABLE, id="pod level cpu"),
    pytest.param(containers(wants(1, 1), cpu="3m", memory="2"), [wants(5, 19)], UNSCHEDULABLE, id="pod level memory"),
    pytest.param(containers(NO, cpu="3m", memory="2", huge="5"), [], FITS, id="pod level huge pages"),
    pytest.param(containers(wants(1, 1, huge=3), cpu="3m", memory="2", huge="5"), [], FITS, id="at both levels"),
    pytest.param(containers(NO, cpu="3m", memory="2", huge="10"), [], UNRESOLVABLE, id="pod level, too many"),
    pytest.param(
        containers(wants(1, 1), init=(wants(1, 1),), cpu="3m", memory="2"), [wants(5, 19)], UNSCHEDULABLE, id="and init"
    ),
    pytest.param(containers(wants(ephemeral=25)), [wants(2, 2)], UNRESOLVABLE, id="ephemeral storage"),
    pytest.param(containers(wants(ephemeral=5)), [wants(2, 2, ephemeral=10)], FITS, id="ephemeral storage left"),
    pytest.param(containers(wants(ephemeral=10)), [wants(2, 2)], FITS, id="ephemeral storage, none in use"),
]


@pytest.mark.parametrize(("pod", "used", "expected"), RESOURCES)
def test_resources(pod: Object, used: list[Object], expected: str) -> None:
    assert outcome(pod, used, OFFERED) == expected


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        pytest.param(containers(), [wants(10, 20)], id="nothing requested"),
        pytest.param(containers(wants(1, 1)), [wants(5, 5)], id="both resources fit"),
        pytest.param(containers(wants(5, 1)), [wants(5, 19)], id="equal"),
        pytest.param(containers(wants(5, 1), init=(wants(5, 1),)), [wants(5, 19)], id="equal for init"),
    ],
)
def test_a_node_that_takes_one_pod_takes_no_second(pod: Object, used: list[Object]) -> None:
    assert outcome(pod, used, {"cpu": "10m", "memory": "20", "pods": "1"}) == UNSCHEDULABLE


def outcome(pod: Object, used: list[Object], allocatable: dict[str, str]) -> str:
    """What kube-scheduler calls the status; `used` are the containers of a pod on the node."""
    made: Object = {"metadata": {"name": "node-1", "uid": "u", "resourceVersion": "1"}, "status": {}}
    made["status"]["allocatable"] = allocatable
    node = DECODERS["Node"](json.dumps(made).encode())
    assert isinstance(node, Node)
    cluster = view(node, *([decoded_pod(containers(*used), "other", node="node-1")] if used else []))
    wanted = decoded_pod(pod)
    (reason,) = reasons(NodeResourcesFit(), wanted, cluster).values()
    if reason is None:
        return FITS
    rule = NodeResourcesFit().rule(pod_info(wanted, cluster.storage, cluster.now), cluster)
    (state,) = cluster.nodes
    assert rule.unresolvable is not None
    return UNRESOLVABLE if rule.unresolvable(state) else UNSCHEDULABLE
