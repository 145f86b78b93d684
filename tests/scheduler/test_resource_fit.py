import pytest

from binder.rejection import Reason
from kube.constraints import Constraints, HostPort
from kube.model import Record
from scheduler.resource_fit import NodePorts, NodeResourcesFit
from tests import builders
from tests.scheduler.judging import reasons, view

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


def test_a_pod_without_host_ports_is_not_asked_about_them() -> None:
    assert reasons(NodePorts(), builders.pod(), view(NODE)) == {"n1": None}
