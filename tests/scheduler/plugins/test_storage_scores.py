from binder.reservation.contract import Annotations, ClaimReservation
from kube.objects import model
from scheduler.plugins.storage_scores import AttachedVolumes, BestFit, ReservedZone, ZoneVolumes
from tests import builders
from tests.scheduler.plugin_results import scores, view
from tests.scheduler.plugins.test_reservation import reserved

NODES = [builders.node("a1", zone="a"), builders.node("a2", zone="a"), builders.node("b1", zone="b")]
CLASS = builders.storage_class()
POD = builders.pod("new", claims=["data"])


def test_the_zone_of_the_reservation() -> None:
    cluster = view(*NODES, CLASS, reserved("pv-1"))
    assert scores(ReservedZone(), POD, cluster) == {"a1": 100, "a2": 100, "b1": 0}


def test_a_local_reservation_is_for_its_nodes_alone() -> None:
    annotations = Annotations().for_claim(
        ClaimReservation("pv-1", builders.EPOCH, builders.EPOCH.replace(year=2027), "a", ("a2",))
    )
    claim = builders.claim(annotations={key: value for key, value in annotations.items() if value is not None})
    assert scores(ReservedZone(), POD, view(*NODES, CLASS, claim)) == {"a1": 0, "a2": 100, "b1": 0}


def test_one_claim_of_two_is_reserved() -> None:
    both = builders.pod("new", claims=["data", "more"])
    cluster = view(*NODES, CLASS, reserved("pv-1"), builders.claim("more"))
    assert scores(ReservedZone(), both, cluster) == {"a1": 50, "a2": 50, "b1": 0}


def test_a_reservation_that_has_expired_is_none() -> None:
    cluster = view(*NODES, CLASS, reserved("pv-1")).at(builders.EPOCH.replace(year=2028))
    assert scores(ReservedZone(), POD, cluster) is None


def test_zones_with_more_free_volumes_of_the_kind() -> None:
    free = [builders.volume(f"a-{number}", zone="a") for number in range(4)]
    cluster = view(*NODES, CLASS, builders.claim(), *free, builders.volume("b-1", zone="b"))
    assert scores(ZoneVolumes(), POD, cluster) == {"a1": 100, "a2": 100, "b1": 25}


def test_volumes_that_are_attached_already() -> None:
    bound = builders.claim(volume_name="pv-1", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})
    volume = builders.volume("pv-1", claim="default/data", phase="Bound")
    cluster = view(*NODES, CLASS, bound, volume, builders.attachment("pv-1", "a2"))
    assert scores(AttachedVolumes(), POD, cluster) == {"a1": 0, "a2": 100, "b1": 0}


def test_volumes_that_are_attached_nowhere_make_no_node_better() -> None:
    bound = builders.claim(volume_name="pv-1", phase="Bound", annotations={model.BIND_COMPLETED: "yes"})
    cluster = view(*NODES, CLASS, bound, builders.volume("pv-1", claim="default/data", phase="Bound"))
    assert scores(AttachedVolumes(), POD, cluster) == {"a1": 0, "a2": 0, "b1": 0}


def test_the_volume_filled_best_across_nodes() -> None:
    """kube-scheduler would choose the node without looking, and half of the time waste 40Gi."""
    wide, exact = builders.volume("wide", size="50Gi", zone="a"), builders.volume("exact", zone="b")
    cluster = view(*NODES, CLASS, builders.claim(), wide, exact)
    assert scores(BestFit(), POD, cluster) == {"a1": 20, "a2": 20, "b1": 100}


def test_a_pod_without_claims_is_scored_by_none_of_them() -> None:
    for plugin in (ReservedZone(), ZoneVolumes(), AttachedVolumes(), BestFit()):
        assert scores(plugin, builders.pod(), view(*NODES)) is None


def test_local_volumes_are_no_matter_of_zones() -> None:
    cluster = view(
        *NODES, CLASS, builders.claim(), builders.volume("a-1", node="a1"), builders.volume("b-1", node="b1")
    )
    assert scores(ZoneVolumes(), POD, cluster, ["a1", "b1"]) is None
