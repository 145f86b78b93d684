import pytest

from binder.matching.rejection import Reason
from kube.objects.constraints import Constraints, HostPort, InlineDisk
from kube.objects.model import Record
from scheduler.plugins.resource_fit import DiskConflict, NodePorts, NodeResourcesFit
from tests import builders
from tests.scheduler.plugin_results import reasons, view

NODE = builders.node("n1", allocatable={"cpu": "2", "memory": "4Gi", "pods": "2"})


@pytest.mark.parametrize(
    ("requests", "there", "fits"),
    [
        pytest.param({}, [], True, id="nothing-wanted"),
        pytest.param({"cpu": "2"}, [], True, id="exactly"),
        pytest.param({"cpu": "2001m"}, [], False, id="a-thousandth-too-much"),
        pytest.param({"cpu": "1500m"}, [{"cpu": "600m"}], False, id="beside-another"),
        pytest.param({"example.com/gpu": "1"}, [], False, id="not-offered"),
        pytest.param({"example.com/gpu": "0"}, [], True, id="none-of-what-is-not-offered"),
        pytest.param({}, [{}, {}], False, id="no-pod-more"),
    ],
)
def test_resources(requests: dict[str, str], there: list[dict[str, str]], fits: bool) -> None:
    pods = [builders.pod(f"p{place}", node="n1", requests=held) for place, held in enumerate(there)]
    expected = None if fits else Reason.INSUFFICIENT_RESOURCES
    assert reasons(NodeResourcesFit(), builders.pod(requests=requests), view(NODE, *pods)) == {"n1": expected}


def test_what_was_remembered_of_a_node_goes_when_the_node_changes() -> None:
    plugin, cluster = NodeResourcesFit(), view(NODE)
    pod = builders.pod("new", requests={"cpu": "2"})
    assert reasons(plugin, pod, cluster) == {"n1": None}
    fuller = cluster.with_pod(builders.pod("first", requests={"cpu": "1"}), "n1")
    assert reasons(plugin, pod, fuller) == {"n1": Reason.INSUFFICIENT_RESOURCES}
    assert reasons(plugin, pod, fuller.without_pod("default/first", "n1")) == {"n1": None}


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(HostPort(80), HostPort(80), False, id="same"),
        pytest.param(HostPort(80), HostPort(81), True, id="other-port"),
        pytest.param(HostPort(53), HostPort(53, "UDP"), True, id="other-protocol"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), True, id="other-address"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80), False, id="all-addresses-wanted"),
        pytest.param(HostPort(80), HostPort(80, ip="10.0.0.1"), False, id="all-addresses-taken"),
    ],
)
def test_host_ports(taken: HostPort, wanted: HostPort, fits: bool) -> None:
    there: list[Record] = [builders.pod("there", node="n1", constraints=Constraints(ports=(taken,)))]
    pod = builders.pod("new", constraints=Constraints(ports=(wanted,)))
    expected = None if fits else Reason.HOST_PORT_TAKEN
    assert reasons(NodePorts(), pod, view(NODE, *there)) == {"n1": expected}


PD = InlineDisk("gcePersistentDisk", ("pd",))
PD_READ = InlineDisk("gcePersistentDisk", ("pd",), read_only=True)
EBS = InlineDisk("awsElasticBlockStore", ("vol",))
IQN = InlineDisk("iscsi", ("iqn",))
IQN_READ = InlineDisk("iscsi", ("iqn",), read_only=True)
IMAGE = InlineDisk("rbd", ("rbd", "image"), ("m1", "m2"))
IMAGE_READ = InlineDisk("rbd", ("rbd", "image"), ("m2",), read_only=True)


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(PD, PD, False, id="gce"),
        pytest.param(PD_READ, PD, False, id="gce-one-writes"),
        pytest.param(PD_READ, PD_READ, True, id="gce-both-read"),
        pytest.param(PD, InlineDisk(PD.kind, ("other",)), True, id="gce-another"),
        pytest.param(EBS, EBS, False, id="ebs"),
        pytest.param(IQN_READ, IQN, False, id="iscsi-one-writes"),
        pytest.param(IQN_READ, IQN_READ, True, id="iscsi-both-read"),
        pytest.param(IMAGE, IMAGE_READ, False, id="rbd-one-monitor-in-common"),
        pytest.param(IMAGE_READ, IMAGE_READ, True, id="rbd-both-read"),
        pytest.param(IMAGE, InlineDisk("rbd", ("rbd", "image"), ("m3",)), True, id="rbd-other-monitors"),
        pytest.param(IMAGE, InlineDisk("rbd", ("fast", "image"), ("m1",)), True, id="rbd-other-pool"),
        pytest.param(PD, InlineDisk(EBS.kind, ("pd",)), True, id="other-kind"),
    ],
)
def test_disks_of_the_spec(taken: InlineDisk, wanted: InlineDisk, fits: bool) -> None:
    there: list[Record] = [builders.pod("there", node="n1", constraints=Constraints(disks=(taken,)))]
    pod = builders.pod("new", constraints=Constraints(disks=(wanted,)))
    expected = None if fits else Reason.DISK_IN_USE
    assert reasons(DiskConflict(), pod, view(NODE, *there)) == {"n1": expected}


def test_a_pod_without_host_ports_is_not_filtered_by_them() -> None:
    assert reasons(NodePorts(), builders.pod(), view(NODE)) == {"n1": None}
