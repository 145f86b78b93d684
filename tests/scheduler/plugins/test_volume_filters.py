import pytest

from binder.matching.rejection import Reason
from kube.objects import model
from scheduler.cycle.cycle import judge
from scheduler.framework.plugin import Filter
from scheduler.plugins.registry import default_profile
from scheduler.plugins.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone
from tests import builders
from tests.scheduler.plugin_results import reasons, view

NODES = [builders.node("a1", zone="a"), builders.node("b1", zone="b")]
POD = builders.pod("new", claims=["data"])
BOUND = builders.claim("data", volume_name="pv-1", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})
CLASS = builders.storage_class()


def held(**more: object) -> model.Volume:
    return builders.volume("pv-1", claim="default/data", phase="Bound", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plugin", "records", "on_a", "on_b"),
    [
        pytest.param(
            VolumeBinding(), [BOUND, held(zone="a")], None, Reason.VOLUME_UNREACHABLE, id="bound-volume-elsewhere"
        ),
        pytest.param(
            VolumeBinding(),
            [builders.claim(), builders.volume(zone="b")],
            Reason.NO_VOLUME_FITS,
            None,
            id="free-volume-elsewhere",
        ),
        pytest.param(
            VolumeZone(),
            [BOUND, held(labels={builders.ZONE: "a"})],
            None,
            Reason.VOLUME_ZONE_MISMATCH,
            id="zone-by-label",
        ),
        pytest.param(
            NodeVolumeLimits(),
            [BOUND, held(), builders.csi_node("a1", limits={"disk.csi.example": 0})],
            Reason.ATTACH_LIMIT_REACHED,
            None,
            id="driver-is-full",
        ),
        pytest.param(
            NodeVolumeLimits(),
            [BOUND, held(), builders.csi_driver(prevent_pod_scheduling_if_missing=True), builders.csi_node("a1")],
            None,
            Reason.DRIVER_NOT_ON_NODE,
            id="driver-is-missing",
        ),
        pytest.param(VolumeRestrictions(), [BOUND, held()], None, None, id="not-shared"),
    ],
)
def test_a_filter(plugin: Filter, records: list[model.Record], on_a: Reason | None, on_b: Reason | None) -> None:
    assert reasons(plugin, POD, view(*NODES, CLASS, *records)) == {"a1": on_a, "b1": on_b}


def test_a_claim_for_one_pod_keeps_a_second_one_off_every_node() -> None:
    claim = builders.claim(
        "data",
        volume_name="pv-1",
        phase="Bound",
        access_modes=[model.READ_WRITE_ONCE_POD],
        annotations={model.BIND_COMPLETED: "yes"},
    )
    user = builders.pod("user", claims=["data"])
    cluster = view(*NODES, CLASS, claim, held(), user, POD)
    assert reasons(VolumeRestrictions(), POD, cluster) == {"a1": None, "b1": None}
    assert reasons(VolumeRestrictions(), POD, cluster.with_pod(POD, "a1")) == {"a1": None, "b1": None}
    assumed = cluster.with_pod(user, "b1")
    in_use = Reason.VOLUME_IN_USE
    assert reasons(VolumeRestrictions(), POD, assumed) == {"a1": in_use, "b1": in_use}


def test_an_assumed_pod_fills_the_driver_of_its_node() -> None:
    other = builders.claim("other", volume_name="pv-2", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})
    neighbour = builders.pod("neighbour", claims=["other"])
    cluster = view(
        *NODES,
        CLASS,
        BOUND,
        held(),
        other,
        builders.volume("pv-2", claim="default/other", phase="Bound"),
        builders.csi_node("a1", limits={"disk.csi.example": 1}),
    )
    assert reasons(NodeVolumeLimits(), POD, cluster)["a1"] is None
    full = cluster.with_pod(neighbour, "a1")
    assert reasons(NodeVolumeLimits(), POD, full)["a1"] is Reason.ATTACH_LIMIT_REACHED
    assert reasons(NodeVolumeLimits(), POD, full.without_pod(neighbour.key, "a1"))["a1"] is None


def test_a_volume_left_attached_counts_once_when_its_pod_comes_back() -> None:
    other = builders.claim("other", volume_name="pv-2", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})
    cluster = view(
        *NODES,
        CLASS,
        BOUND,
        held(),
        other,
        builders.volume("pv-2", claim="default/other", phase="Bound"),
        builders.attachment("pv-2", "a1"),
        builders.csi_node("a1", limits={"disk.csi.example": 2}),
    )
    back = cluster.with_pod(builders.pod("back", claims=["other"]), "a1")
    assert reasons(NodeVolumeLimits(), POD, back)["a1"] is None


def test_a_pod_without_its_claim_is_rejected_as_a_whole() -> None:
    judgement = judge(POD, view(*NODES), default_profile("ours"))
    assert judgement.rejection is not None
    assert judgement.rejection.reason is Reason.CLAIM_NOT_FOUND
