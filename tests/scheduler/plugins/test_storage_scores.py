import pytest

from binder.reservation.contract import Annotations, ClaimReservation
from kube.objects import model
from kube.objects.labels import LabelSelector
from kube.rules.quantity import parse_quantity
from scheduler.plugins.storage_scores import AttachedVolumes, BestFit, FreeStorage, ReservedZone, ZoneVolumes
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
    """kube-scheduler would prefer the larger one, and waste 40Gi."""
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


MADE = builders.storage_class("made", provisioner="disk.csi.example")
TRACKING = model.CSIDriver("disk.csi.example", "uid", 1, storage_capacity=True)
ALONE = [builders.node(name, zone="a") for name in ("n1", "n2", "n3")]


def report(node: str, size: str, storage_class: str = "made", most: str | None = None) -> model.CSIStorageCapacity:
    """What a driver reports for a node."""
    topology = LabelSelector(((builders.HOSTNAME, node),))
    largest = None if most is None else parse_quantity(most)
    name = f"{storage_class}-{node}-{size}"
    return model.CSIStorageCapacity("driver", name, name, 1, storage_class, topology, parse_quantity(size), largest)


def dynamic(name: str, size: str, storage_class: str = "made") -> model.Claim:
    return builders.claim(name, size=size, storage_class=storage_class)


@pytest.mark.parametrize(
    ("claims", "records", "expected"),
    [
        # Facts: TestVolumeBinding of volumebinding/volume_binding_test.go of Kubernetes 1.37.
        pytest.param(
            [dynamic("data", "10Gi")],
            [report("n1", "100Gi"), report("n2", "50Gi"), report("n3", "10Gi")],
            {"n1": 90, "n2": 80, "n3": 0},
            id="storage-capacity-score",
        ),
        pytest.param(
            [dynamic("data", "10Gi")],
            [report("n1", "100Gi"), report("n2", "20Gi"), report("n3", "10Gi")],
            {"n1": 90, "n2": 50, "n3": 0},
            id="maximum-allocatable",
        ),
        pytest.param(
            [dynamic("a", "50Gi"), dynamic("b", "50Gi")],
            [report("n1", "100Gi")],
            {"n1": 0},
            id="two-claims-of-one-class",
        ),
        # Rules of our own.
        pytest.param(
            [dynamic("a", "30Gi"), dynamic("b", "61Gi", "other")],
            [report("n1", "100Gi"), report("n1", "100Gi", "other")],
            {"n1": 55},
            id="half-a-point-is-rounded-up",
        ),
        pytest.param(
            [dynamic("a", "60Gi"), dynamic("b", "60Gi")], [report("n1", "100Gi")], {"n1": 0}, id="together-too-large"
        ),
        pytest.param(
            [dynamic("data", "10Gi")],
            [report("n1", "20Gi"), report("n1", "40Gi")],
            {"n1": 75},
            id="the-larger-report",
        ),
        pytest.param(
            [dynamic("data", "10Gi")], [report("n1", "100Gi", most="10Gi")], {"n1": 90}, id="a-largest-volume-is-stated"
        ),
        pytest.param(
            [dynamic("data", "10Gi")],
            [report("n1", "100Gi"), report("n2", "100Gi"), builders.volume("pv", node="n2", storage_class="made")],
            {"n1": 90, "n2": 100},
            id="a-volume-that-exists-takes-nothing",
        ),
    ],
)
def test_free_storage_of_the_drivers(
    claims: list[model.Claim], records: list[model.Record], expected: dict[str, int]
) -> None:
    pod = builders.pod("new", claims=[claim.name for claim in claims])
    other = builders.storage_class("other", provisioner="disk.csi.example")
    cluster = view(*ALONE, MADE, other, TRACKING, *claims, *records)
    assert scores(FreeStorage(), pod, cluster, list(expected)) == expected


@pytest.mark.parametrize(
    ("requested", "score"),
    [
        # Facts: TestScore of volumebinding/scorer_test.go, the default shape; the shape cannot be chosen here.
        ((0,), 100),
        ((30,), 70),
        ((50,), 50),
        ((100,), 0),
        ((0, 0), 100),
        ((0, 30), 85),
        ((30, 30), 70),
        ((30, 60), 55),
        ((50, 50), 50),
        ((50, 100), 25),
        ((100, 100), 0),
    ],
    ids=str,
)
def test_what_stays_free_of_what_is_reported_for_each_class(requested: tuple[int, ...], score: int) -> None:
    classes = ("made", "other")[: len(requested)]
    claims = [dynamic(name, f"{size}Gi", name) for name, size in zip(classes, requested, strict=True)]
    other = builders.storage_class("other", provisioner="disk.csi.example")
    cluster = view(*ALONE, MADE, other, TRACKING, *claims, *(report("n1", "100Gi", name) for name in classes))
    assert scores(FreeStorage(), builders.pod("new", claims=classes), cluster, ["n1"]) == {"n1": score}


def test_a_pod_with_an_existing_volume_too_prefers_the_node_with_more_free_storage() -> None:
    """kube-scheduler scores the existing volume alone: 50 for each ("storage capacity score with static binds")."""
    volumes = [builders.volume(f"pv-{node}", size="100Gi", node=node) for node in ("n1", "n2", "n3")]
    reports = [report("n1", "100Gi"), report("n2", "50Gi"), report("n3", "10Gi")]
    claims = [dynamic("made", "10Gi"), builders.claim("data", size="50Gi")]
    cluster = view(*ALONE, CLASS, MADE, TRACKING, *claims, *volumes, *reports)
    pod = builders.pod("new", claims=["made", "data"])
    assert scores(FreeStorage(), pod, cluster) == {"n1": 90, "n2": 80, "n3": 0}
    assert scores(BestFit(), pod, cluster) == {"n1": 25, "n2": 25, "n3": 25}


def test_free_storage_is_no_matter_of_drivers_that_do_not_report_it_nor_of_static_classes() -> None:
    pod = builders.pod("new", claims=["data"])
    untracked = view(*ALONE, MADE, dynamic("data", "10Gi"))
    assert scores(FreeStorage(), pod, untracked) == {"n1": 0, "n2": 0, "n3": 0}
    assert scores(FreeStorage(), pod, view(*ALONE, CLASS, builders.claim())) is None


@pytest.mark.parametrize(
    ("sizes", "upstream"),
    [
        # Facts: "local volumes with close capacity are preferred" in volumebinding/volume_binding_test.go, whose
        # default shape prefers the node with the larger volume.
        pytest.param({"n1": "100Gi", "n2": "200Gi"}, {"n1": 50, "n2": 75}, id="half-and-a-quarter"),
        pytest.param({"n1": "50Gi", "n2": "100Gi"}, {"n1": 0, "n2": 50}, id="exact-and-half"),
    ],
)
def test_best_fit_is_the_reverse_of_kube_schedulers_score_for_existing_volumes(
    sizes: dict[str, str], upstream: dict[str, int]
) -> None:
    volumes = [builders.volume(f"pv-{node}", size=size, node=node) for node, size in sizes.items()]
    cluster = view(*ALONE, CLASS, builders.claim(size="50Gi"), *volumes)
    assert scores(BestFit(), POD, cluster, list(sizes)) == {node: 100 - score for node, score in upstream.items()}


def test_best_fit_is_the_reverse_for_two_claims_and_for_zones() -> None:
    """Facts: "local volumes ... (multiple pvcs)", 63 and 25, and "zonal volumes ...", 75 and 50, of the same table."""
    local = [
        builders.volume(f"{kind}-{node}", size=size, node=node, storage_class=kind)
        for node, size in (("n1", "200Gi"), ("n2", "100Gi"))
        for kind in ("fast", "slow")
    ]
    both = [builders.claim(size="50Gi"), builders.claim("more", size="100Gi", storage_class="slow")]
    pod = builders.pod("new", claims=["data", "more"])
    cluster = view(*ALONE, CLASS, builders.storage_class("slow"), *both, *local)
    assert scores(BestFit(), pod, cluster, ["n1", "n2"]) == {"n1": 100 - 63, "n2": 100 - 25}

    zonal = [builders.volume("a", size="200Gi", zone="a"), builders.volume("b", size="100Gi", zone="b")]
    cluster = view(*NODES, CLASS, builders.claim(size="50Gi"), *zonal)
    assert scores(BestFit(), POD, cluster) == {"a1": 100 - 75, "a2": 100 - 75, "b1": 100 - 50}
