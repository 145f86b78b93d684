"""What is reserved and what is unhealthy decides where a pod may go."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects import model
from kube.objects.reports import StorageCondition
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.framework.plugin import Filter, ScheduleResult
from scheduler.framework.profile import Thresholds
from scheduler.plugins.registry import default_profile
from scheduler.plugins.reservation import LocalStorage, ReservedVolume, VolumeHealth
from tests import builders
from tests.scheduler.plugin_results import reasons, view

NODES: list[model.Record] = [
    builders.node("a1", zone="a"),
    builders.node("b1", zone="b"),
    builders.storage_class(),
]
POD = builders.pod("new", claims=["data"])
PROFILE = default_profile("test")
LATER = builders.EPOCH + timedelta(minutes=5)


def promise(claim: str, until: timedelta = timedelta(minutes=5)) -> dict[str, str]:
    ends = builders.EPOCH + until
    return Annotations().for_volume(
        VolumeReservation(f"default/{claim}", f"uid-default-{claim}", builders.EPOCH, ends, Holder("us", 1))
    )


def reserved(volume: str) -> model.Claim:
    annotations = Annotations().for_claim(ClaimReservation(volume, builders.EPOCH, LATER, "a"))
    return builders.claim("data", annotations={key: value for key, value in annotations.items() if value is not None})


UNHEALTHY = {Annotations().health: "Inaccessible"}


@pytest.mark.parametrize(
    ("plugin", "records", "on_a", "on_b"),
    [
        pytest.param(
            ReservedVolume(),
            [builders.claim(), builders.volume("pv-a", zone="a", annotations=promise("other"))],
            Reason.RESERVED_FOR_OTHER,
            None,
            id="only-volume-held-for-another",
        ),
        pytest.param(
            ReservedVolume(),
            [
                builders.claim(),
                builders.volume("pv-a", zone="a", annotations=promise("other")),
                builders.volume("pv-b", zone="a", size="20Gi"),
            ],
            None,
            None,
            id="another-volume-is-left",
        ),
        pytest.param(
            ReservedVolume(),
            [builders.claim(), builders.volume("pv-a", zone="a", annotations=promise("other", -timedelta(1)))],
            None,
            None,
            id="reservation-has-expired",
        ),
        pytest.param(
            ReservedVolume(),
            [
                reserved("pv-a"),
                builders.volume("pv-a", zone="a", annotations=promise("data")),
                builders.volume("pv-b", zone="b"),
            ],
            None,
            Reason.VOLUME_UNREACHABLE,
            id="reserved-volume-is-elsewhere",
        ),
        pytest.param(
            ReservedVolume(),
            [reserved("pv-a"), builders.volume("pv-a", zone="a"), builders.volume("pv-b", zone="b")],
            None,
            None,
            id="volume-knows-nothing-of-it",
        ),
        pytest.param(
            ReservedVolume(),
            [
                reserved("pv-a"),
                builders.volume("pv-a", zone="a", annotations=promise("other")),
                builders.volume("pv-b", zone="b"),
            ],
            Reason.RESERVED_FOR_OTHER,
            None,
            id="volume-went-to-another",
        ),
        pytest.param(
            VolumeHealth(),
            [builders.claim(), builders.volume("pv-a", zone="a", annotations=UNHEALTHY)],
            Reason.UNHEALTHY,
            None,
            id="only-volume-is-unhealthy",
        ),
        pytest.param(
            VolumeHealth(),
            [
                builders.claim(),
                builders.volume("pv-a", zone="a", annotations=UNHEALTHY),
                builders.volume("pv-b", zone="a", size="20Gi"),
            ],
            None,
            None,
            id="a-healthy-one-is-left",
        ),
        pytest.param(
            VolumeHealth(),
            [builders.claim(), builders.volume("pv-a", annotations={Annotations().quarantine: "lost"})],
            Reason.QUARANTINED,
            Reason.QUARANTINED,
            id="in-quarantine",
        ),
    ],
)
def test_a_filter(plugin: Filter, records: list[model.Record], on_a: Reason | None, on_b: Reason | None) -> None:
    assert reasons(plugin, POD, view(*NODES, *records)) == {"a1": on_a, "b1": on_b}


DRIVER, OTHER = "disk.csi.example", "other.csi.example"
MADE = builders.storage_class("made", provisioner=DRIVER)
HELD = builders.claim(volume_name="pv", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})


def cut(name: str, status: str = "StorageUnreachable", volume_mode: str = "") -> model.CSINode:
    return builders.csi_node(name, reports=[StorageCondition(DRIVER, status, "Net", volume_mode=volume_mode)])


@pytest.mark.parametrize(
    ("records", "on_a", "on_b"),
    [
        pytest.param([builders.claim(), builders.volume(), cut("a1")], True, False, id="a-free-volume"),
        pytest.param([HELD, builders.volume("pv", claim="default/data"), cut("a1")], True, False, id="a-bound-volume"),
        pytest.param(
            [HELD, builders.volume("pv", claim="default/data", driver=OTHER), cut("a1")],
            False,
            False,
            id="a-bound-volume-of-another-driver",
        ),
        pytest.param(
            [HELD, builders.volume("pv", claim="default/data"), cut("a1"), cut("b1")],
            True,
            True,
            id="every-node",
        ),
        pytest.param([MADE, builders.claim(storage_class="made"), cut("b1")], False, True, id="a-volume-to-be-made"),
        pytest.param([builders.claim(), builders.volume(), cut("a1", "StorageDegraded")], False, False, id="degraded"),
        pytest.param(
            [builders.claim(), builders.volume(), cut("a1", volume_mode="Block")], False, False, id="one-mode-only"
        ),
        pytest.param(
            [
                builders.claim(),
                builders.volume("pv-a", size="5Gi"),
                builders.volume("pv-b", size="20Gi", driver=OTHER),
                cut("a1"),
            ],
            False,
            False,
            id="another-driver-has-one-too",
        ),
    ],
)
def test_a_node_that_is_cut_off_from_its_storage(records: list[model.Record], on_a: bool, on_b: bool) -> None:
    result = reasons(VolumeHealth(), POD, view(*NODES, *records))
    assert result == {name: Reason.STORAGE_UNREACHABLE if cut else None for name, cut in (("a1", on_a), ("b1", on_b))}


def test_one_claim_is_bound_and_cut_off_and_one_is_open() -> None:
    records: list[model.Record] = [HELD, builders.volume("pv", claim="default/data"), builders.claim("more")]
    records += [builders.volume("free", driver=OTHER), cut("a1")]
    pod = builders.pod("new", claims=["data", "more"])
    assert reasons(VolumeHealth(), pod, view(*NODES, *records)) == {"a1": Reason.STORAGE_UNREACHABLE, "b1": None}


def test_the_whole_decision_passes_over_a_node_that_is_cut_off() -> None:
    cluster = view(*NODES, builders.claim(), builders.volume(), cut("a1"))
    decision = decide(POD, cluster, PROFILE)
    assert isinstance(decision, ScheduleResult)
    assert decision.node == "b1"
    everywhere = decide(POD, view(*NODES, builders.claim(), builders.volume(), cut("a1"), cut("b1")), PROFILE)
    assert isinstance(everywhere, Unschedulable)
    assert "Inaccessible: Net (status.storageHealth of CSINode a1)" in str(next(everywhere.rejections()))


LABEL = "storage.example/local"


@pytest.mark.parametrize(
    ("label", "volume", "rejected"),
    [
        pytest.param(LABEL, builders.volume(source="local", node="a1"), Reason.STORAGE_LABEL_MISSING, id="local"),
        pytest.param(LABEL, builders.volume(node="a1"), Reason.STORAGE_LABEL_MISSING, id="bound-to-a-host"),
        pytest.param(LABEL, builders.volume(zone="a"), None, id="zonal"),
        pytest.param("", builders.volume(source="local", node="a1"), None, id="no-label-configured"),
        pytest.param(builders.ZONE, builders.volume(source="local", node="a1"), None, id="node-has-the-label"),
    ],
)
def test_local_volumes_are_for_nodes_with_the_label(label: str, volume: model.Volume, rejected: Reason | None) -> None:
    plugin = LocalStorage(Thresholds(storage_label=label))
    assert reasons(plugin, POD, view(*NODES, builders.claim(), volume))["a1"] is rejected
