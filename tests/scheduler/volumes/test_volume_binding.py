from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from kube.objects.labels import LabelSelector
from kube.objects.model import BIND_COMPLETED, PodClaim, Record
from kube.rules.quantity import parse_quantity
from kube.store.store import snapshot_of
from scheduler.volumes.volume_binding import NodeProvisioning, PodClaims, VolumeChoice, choose_volumes, claims_of
from tests import builders as made

BOUND = {BIND_COMPLETED: "yes"}
DYNAMIC = made.storage_class("made", provisioner="disk.csi.example")
ZONED = replace(DYNAMIC, allowed_topologies=made.node_selector({made.ZONE: ["a", "b"]}))
COUNTED = replace(made.csi_driver(), storage_capacity=True)
SELECTED = {model.SELECTED_NODE: "node-1"}


def room(
    amount: str | None, *, zone: str | None = None, most: str | None = None, storage_class: str = "made"
) -> model.CSIStorageCapacity:
    topology = LabelSelector(made.pairs({made.ZONE: zone})) if zone else None
    return model.CSIStorageCapacity(
        "kube-system",
        f"room-{amount}-{zone}",
        "uid",
        1,
        storage_class,
        topology,
        None if amount is None else parse_quantity(amount),
        None if most is None else parse_quantity(most),
    )


def whole(pod: model.Pod, *records: Record) -> PodClaims | Rejection:
    return claims_of(pod, snapshot_of([pod, made.storage_class(), DYNAMIC, *records]))


def on(node: model.Node, claims: Iterable[str], *records: Record) -> VolumeChoice:
    classes = (
        [] if any(isinstance(record, model.StorageClass) for record in records) else [made.storage_class(), DYNAMIC]
    )
    pod = made.pod(claims=claims)
    snapshot = snapshot_of([pod, node, *classes, *records])
    pod_claims = claims_of(pod, snapshot)
    assert isinstance(pod_claims, PodClaims)
    return choose_volumes(pod_claims, node, snapshot, VolumeIndex.of(snapshot.volumes.values()))


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param(None, Reason.CLAIM_NOT_FOUND, id="missing"),
        pytest.param(made.claim(phase="Lost", volume_name="gone"), Reason.CLAIM_LOST, id="lost"),
        pytest.param(made.claim(deleting=True), Reason.CLAIM_DELETING, id="deleting"),
        pytest.param(made.claim(storage_class=None), Reason.IMMEDIATE_CLAIM, id="without-class"),
        pytest.param(made.claim(storage_class="unknown"), Reason.IMMEDIATE_CLAIM, id="class-missing"),
        pytest.param(made.claim(storage_class="now"), Reason.IMMEDIATE_CLAIM, id="immediate"),
        pytest.param(made.claim(storage_class="modeless"), Reason.BINDING_MODE_MISSING, id="no-binding-mode"),
        pytest.param(made.claim(volume_name="pv-1"), Reason.IMMEDIATE_CLAIM, id="named-volume-not-bound-yet"),
        pytest.param(made.claim(volume_name="gone", annotations=BOUND), Reason.VOLUME_MISSING, id="volume-missing"),
        pytest.param(
            made.claim(selector=LabelSelector(dropped_bytes=9**9)),
            Reason.SELECTOR_TOO_LARGE,
            id="selector-unread",
        ),
    ],
)
def test_some_claims_keep_the_pod_off_every_node(claim: model.Claim | None, reason: Reason) -> None:
    classes = made.storage_class("now", binding_mode="Immediate"), made.storage_class("modeless", binding_mode=None)
    result = whole(made.pod(claims=["data"]), *classes, *([] if claim is None else [claim]))
    assert isinstance(result, Rejection)
    assert (result.reason, result.subject) == (reason, "default/data")


@pytest.mark.parametrize(
    ("owner", "reason"),
    [("uid-default-web", None), ("uid-of-another", Reason.CLAIM_NOT_OWNED), ("", Reason.CLAIM_NOT_OWNED)],
)
def test_a_claim_of_an_ephemeral_volume_must_be_the_pods_own(owner: str, reason: Reason | None) -> None:
    pod = made.pod(claims=[PodClaim("web-scratch", ephemeral=True)])
    result = whole(pod, replace(made.claim("web-scratch"), owner=owner))
    assert (result.reason if isinstance(result, Rejection) else None) is reason


def test_a_missing_volume_of_an_ephemeral_claim_is_found_out_node_by_node() -> None:
    claim = replace(made.claim("web-x", volume_name="gone", annotations=BOUND), owner="uid-default-web")
    result = whole(made.pod(claims=[PodClaim("web-x", ephemeral=True)]), claim)
    assert result == PodClaims(orphaned=(claim,))


def test_claims_are_distinguished_by_whether_their_bind_is_complete() -> None:
    bound, delayed = made.claim("a", volume_name="pv-1", annotations=BOUND), made.claim("b")
    volume = made.volume(claim="default/a", phase="Bound")
    result = whole(made.pod(claims=["a", "b", "b"]), bound, delayed, volume)
    assert result == PodClaims(((bound, volume),), (), (delayed,), (delayed, delayed))


@pytest.mark.parametrize(
    ("volumes", "taken"),
    [
        pytest.param([made.volume("big", size="90Gi"), made.volume("small", size="10Gi")], "small", id="smallest"),
        pytest.param(
            [made.volume("there", zone="b"), made.volume("here", zone="a", size="20Gi")], "here", id="reached"
        ),
        pytest.param(
            [made.volume("free"), made.volume("reserved", size="50Gi", claim="default/data")], "reserved", id="prebound"
        ),
        pytest.param([made.volume("free"), made.volume("reserved", zone="b", claim="default/data")], None, id="away"),
        pytest.param([made.volume("other", claim="default/other")], None, id="another-claims"),
        pytest.param([made.volume("deleting", deleting=True)], None, id="deleting"),
        pytest.param(
            [made.volume("held", claim="default/data", deleting=True), made.volume("b")], "b", id="prebound-goes"
        ),
    ],
)
def test_a_static_volume_is_taken_as_upstream_does(volumes: list[model.Volume], taken: str | None) -> None:
    choice = on(made.node(zone="a"), ["data"], made.claim(), *volumes)
    assert [volume.name for _, volume in choice.volumes] == ([] if taken is None else [taken])
    assert [rejection.reason for rejection in choice.rejections] == ([] if taken else [Reason.NO_VOLUME_FITS])


def test_the_smallest_request_is_served_first_and_no_volume_twice() -> None:
    claims = made.claim("a", size="20Gi"), made.claim("b", size="10Gi")
    choice = on(made.node(), ["a", "b"], *claims, made.volume("x", size="20Gi"), made.volume("y", size="30Gi"))
    assert [(claim.name, volume.name) for claim, volume in choice.volumes] == [("b", "x"), ("a", "y")]


def test_a_claim_named_twice_needs_two_volumes() -> None:
    assert on(made.node(), ["data", "data"], made.claim(), made.volume()).rejections
    assert not on(made.node(), ["data", "data"], made.claim(), made.volume(), made.volume("pv-2")).rejections


@pytest.mark.parametrize(
    ("node", "records", "reason"),
    [
        pytest.param(made.node(), [DYNAMIC], None, id="anywhere"),
        pytest.param(made.node(zone="b"), [ZONED], None, id="topology-allowed"),
        pytest.param(made.node(zone="c"), [ZONED], Reason.TOPOLOGY_NOT_ALLOWED, id="topology-not-allowed"),
        pytest.param(made.node(), [DYNAMIC, COUNTED], Reason.INSUFFICIENT_STORAGE, id="no-capacity-said"),
        pytest.param(made.node(), [DYNAMIC, COUNTED, room("10Gi", zone="a")], None, id="just-enough"),
        pytest.param(
            made.node(), [DYNAMIC, COUNTED, room("9Gi", zone="a")], Reason.INSUFFICIENT_STORAGE, id="too-little"
        ),
        pytest.param(
            made.node(), [DYNAMIC, COUNTED, room("99Gi", zone="b")], Reason.INSUFFICIENT_STORAGE, id="elsewhere"
        ),
        pytest.param(
            made.node(),
            [DYNAMIC, COUNTED, room("99Gi", zone="a", most="5Gi")],
            Reason.INSUFFICIENT_STORAGE,
            id="largest-volume-counts",
        ),
        pytest.param(made.node(), [DYNAMIC, COUNTED, room("99Gi")], Reason.INSUFFICIENT_STORAGE, id="no-topology"),
        pytest.param(made.node(), [DYNAMIC, made.csi_driver()], None, id="driver-does-not-count"),
    ],
)
def test_a_volume_is_made_where_the_class_and_the_driver_can(
    node: model.Node, records: list[Record], reason: Reason | None
) -> None:
    choice = on(node, ["data"], made.claim(storage_class="made"), *records)
    assert [rejection.reason for rejection in choice.rejections] == ([] if reason is None else [reason])
    assert [claim.name for claim in choice.provision] == (["data"] if reason is None else [])


def test_only_the_node_selected_before_is_left() -> None:
    claim = made.claim(storage_class="made", annotations=SELECTED)
    assert on(made.node("node-1"), ["data"], claim).provision == (claim,)
    elsewhere = on(made.node("node-2"), ["data"], claim)
    assert [rejection.reason for rejection in elsewhere.rejections] == [Reason.PROVISIONING_ELSEWHERE]


def test_both_reasons_against_a_node_are_reported() -> None:
    bound = made.claim("a", volume_name="pv-1", annotations=BOUND)
    records = bound, made.claim("b"), made.volume("pv-1", zone="z", claim="default/a", phase="Bound")
    choice = on(made.node(zone="a"), ["a", "b"], *records)
    assert [rejection.reason for rejection in choice.rejections] == [Reason.VOLUME_UNREACHABLE, Reason.NO_VOLUME_FITS]


@pytest.mark.parametrize(
    ("records", "free"),
    [
        pytest.param([COUNTED, room("50Gi"), room("80Gi", zone="a")], (("made", 80 * 2**30),), id="the largest report"),
        pytest.param([COUNTED, room(None, most="50Gi")], (), id="a report without what is free"),
        pytest.param([made.csi_driver(), room("50Gi")], (), id="a driver that does not report"),
    ],
)
def test_what_is_free_is_known_as_far_as_it_is_reported(records: list[Record], free: tuple[object, ...]) -> None:
    snapshot = snapshot_of([DYNAMIC, *records])
    provisioning = NodeProvisioning(made.node(zone="a"), snapshot)
    assert provisioning.free([made.claim(name, storage_class="made") for name in ("data", "log")]) == free
