"""An autoscaler is named, and so are the classes for whose volumes it adds no node."""

from collections.abc import Mapping, Sequence

import pytest

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from kube.client.api import KubeApi
from prebinder.preflight.autoscaler_checks import autoscalers_in, check_autoscalers
from prebinder.preflight.doctor_checks import CheckState
from tests.builders import storage_class
from tests.fakes.kube_api import Connection, FakeKubeApi
from tests.fakes.objects import node_pool_object

JOINS = {f"{DEFAULT_PREFIX}new-nodes": "join-volumes"}
OFF = {f"{DEFAULT_PREFIX}mode": "off"}


@pytest.mark.parametrize(
    ("names", "annotations", "states"),
    [
        pytest.param(["Karpenter"], {}, [CheckState.NOTE], id="pods would wait for ever"),
        pytest.param(["Karpenter"], JOINS, [CheckState.OK], id="volumes join new nodes"),
        pytest.param(["Karpenter"], OFF, [], id="a class that is not handled"),
        pytest.param([], {}, [], id="no autoscaler"),
    ],
)
def test_classes_without_the_annotation_are_named(
    names: Sequence[str], annotations: Mapping[str, str], states: list[CheckState]
) -> None:
    checks = list(check_autoscalers(names, [storage_class(annotations=annotations)], Annotations()))
    assert [check.state for check in checks] == states
    if states == [CheckState.NOTE]:
        assert "no node is added for the volumes of fast" in checks[0].meaning


@pytest.mark.parametrize(
    ("mode", "states"),
    [
        pytest.param("provision", [CheckState.NOTE], id="mode provision"),
        pytest.param("annotate", [], id="left to the provisioner"),
    ],
)
def test_classes_that_provision_are_named_where_gated_pods_would_wait(mode: str, states: list[CheckState]) -> None:
    made = storage_class(provisioner="disk.csi.example", annotations={f"{DEFAULT_PREFIX}mode": mode})
    assert [check.state for check in check_autoscalers(["Karpenter"], [made], Annotations())] == states


async def test_cluster_autoscaler_is_known_by_its_report() -> None:
    server = FakeKubeApi()
    metadata = {"namespace": "kube-system", "name": "cluster-autoscaler-status"}
    server.objects["configmaps", "kube-system/cluster-autoscaler-status"] = {"kind": "ConfigMap", "metadata": metadata}
    assert await autoscalers_in(KubeApi(Connection(server))) == ["Cluster Autoscaler"]


async def test_karpenter_is_known_by_its_kinds() -> None:
    server = FakeKubeApi()
    assert await autoscalers_in(KubeApi(Connection(server))) == []
    server.node_pools = [node_pool_object()]
    assert await autoscalers_in(KubeApi(Connection(server))) == ["Karpenter"]
