"""Which pods and claims are planned at all: one case for each way out, and what is left of the others."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from binder.matching.rejection import Reason
from binder.model.decision import Finish, Mode, Reject, Wait
from binder.model.demand import MAX_CLAIMS, Demand
from binder.model.view import PlanSettings
from binder.planning.claim_standing import unknown_mode
from binder.planning.pod_demand import demand_of
from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects.labels import LabelSelector
from kube.objects.model import BIND_COMPLETED, READ_WRITE_ONCE, SELECTED_NODE, Pod, PodClaim, Record
from tests.binder.views import NOW, view
from tests.builders import claim, node, pod, storage_class, volume

LATER = NOW + timedelta(minutes=5)
POD = pod("web", claims=("data",))
CLAIM = claim("data")
BY = Holder("me", 1)
ON_VOLUME = Annotations().for_volume(VolumeReservation("default/data", CLAIM.uid, NOW, LATER, BY))
ON_CLAIM = {key: value for key, value in Annotations().for_claim(ClaimReservation("v", NOW, LATER)).items() if value}


def mode_class(name: str, mode: str) -> Record:
    return storage_class(name, annotations={"scheduler.cloud.example/mode": mode})


def outcome(*records: Record, of: Pod = POD, settings: PlanSettings | None = None) -> Demand | Finish | Wait | Reject:
    return demand_of(view(node(), of, *records, settings=settings), of, NOW)


@pytest.mark.parametrize(
    ("records", "of", "reason"),
    [
        pytest.param([], POD, Reason.CLAIM_NOT_FOUND, id="claim-missing"),
        pytest.param([CLAIM], pod("web", claims=("data",), deleting=True), Reason.POD_ENDED, id="deleting"),
        pytest.param([CLAIM], pod("web", claims=("data",), phase="Succeeded"), Reason.POD_ENDED, id="finished"),
        pytest.param([CLAIM], pod("web", claims=("data",), scheduling_gates=("g",)), Reason.POD_GATED, id="gated"),
        pytest.param([], pod("web"), Reason.NO_UNBOUND_CLAIM, id="no-claims"),
        pytest.param([claim("data", storage_class="nowhere")], POD, Reason.CLASS_NOT_FOUND, id="class-missing"),
        pytest.param([claim("data", storage_class=None)], POD, Reason.IMMEDIATE_CLAIM, id="no-class"),
        pytest.param(
            [storage_class("now", binding_mode="Immediate"), claim("data", storage_class="now")],
            POD,
            Reason.IMMEDIATE_CLAIM,
            id="immediate",
        ),
        pytest.param(
            [storage_class("odd", binding_mode=None), claim("data", storage_class="odd")],
            POD,
            Reason.BINDING_MODE_MISSING,
            id="no-binding-mode",
        ),
        pytest.param(
            [mode_class("hands-off", "off"), claim("data", storage_class="hands-off")], POD, Reason.MODE_OFF, id="off"
        ),
        pytest.param([claim("data", volume_name="gone")], POD, Reason.REQUESTED_VOLUME_MISSING, id="asks-for-none"),
        pytest.param([claim("data", volume_name="v"), volume("v")], POD, Reason.IMMEDIATE_CLAIM, id="asks-for-one"),
        pytest.param(
            [claim("data", volume_name="v", annotations={BIND_COMPLETED: "yes"}), volume("v", claim="default/data")],
            POD,
            Reason.NO_UNBOUND_CLAIM,
            id="bound",
        ),
        pytest.param([CLAIM, volume("v", claim="default/data")], POD, Reason.ALREADY_RESERVED, id="committed"),
        pytest.param(
            [
                storage_class("cloud", provisioner="disk.csi.example"),
                claim("data", storage_class="cloud", annotations={SELECTED_NODE: "node-1"}),
            ],
            POD,
            Reason.DYNAMIC_CLASS,
            id="being-provisioned",
        ),
    ],
)
def test_waits(records: list[Record], of: Pod, reason: Reason) -> None:
    result = outcome(*records, of=of)
    assert isinstance(result, Wait)
    assert result.reason is reason


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        pytest.param([claim("data", deleting=True)], Reason.CLAIM_DELETING, id="deleting"),
        pytest.param([claim("data", phase="Lost")], Reason.CLAIM_LOST, id="lost"),
        pytest.param(
            [claim("data", volume_name="v"), volume("v", size="1Gi")],
            Reason.REQUESTED_VOLUME_MISMATCH,
            id="asks-for-one-too-small",
        ),
        pytest.param(
            [claim("data", selector=LabelSelector(dropped_bytes=1_279_168)), volume("v")],
            Reason.SELECTOR_TOO_LARGE,
            id="selector-too-large",
        ),
    ],
)
def test_rejections(records: list[Record], reason: Reason) -> None:
    result = outcome(*records)
    assert isinstance(result, Reject)
    assert result.reason is reason
    assert result.rejections


def test_a_valid_reservation_stands_until_it_expires() -> None:
    both = (claim("data", annotations=ON_CLAIM), volume("v", annotations=ON_VOLUME))
    assert outcome(*both) == Wait(POD, Reason.ALREADY_RESERVED, LATER)
    assert isinstance(demand_of(view(POD, *both), POD, LATER), Demand)


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(volume("v"), id="volume-says-nothing"),
        pytest.param(volume("v", annotations=ON_VOLUME, claim="default/other"), id="volume-taken"),
        pytest.param(volume("v", annotations=ON_VOLUME, phase="Failed"), id="volume-failed"),
        pytest.param(
            volume("v", annotations=ON_VOLUME | {"scheduler.cloud.example/reserved-for-uid": "earlier"}), id="other-uid"
        ),
    ],
)
def test_a_reservation_the_volume_does_not_confirm_is_planned_again(lost: Record) -> None:
    result = outcome(claim("data", annotations=ON_CLAIM), lost)
    assert isinstance(result, Demand)
    assert result.pins == ()


@pytest.mark.parametrize(
    "passed_over",
    [
        pytest.param(volume("a", size="1Gi", claim="default/data", zone="zone-a"), id="too-small"),
        pytest.param(
            volume("a", access_modes=(READ_WRITE_ONCE, "ReadWriteMany"), claim="default/data", zone="zone-a"),
            id="more-access-modes",
        ),
    ],
)
def test_of_several_volumes_that_name_a_claim_the_one_that_the_pv_controller_binds_decides_where_the_pod_runs(
    passed_over: Record,
) -> None:
    two = pod("web", claims=("data", "more"))
    bound = volume("b", claim="default/data", zone="zone-b")
    result = outcome(CLAIM, claim("more"), passed_over, bound, of=two)
    assert isinstance(result, Demand)
    assert result.anchors == (bound,)


def test_half_a_reservation_is_finished_with_the_same_volume() -> None:
    result = outcome(CLAIM, volume("v", annotations=ON_VOLUME))
    assert isinstance(result, Demand)
    assert result.pins == (("default/data", "v"),)


def test_the_weakest_mode_holds_for_the_whole_pod_and_off_is_left_out() -> None:
    two = pod("web", claims=("whole", "hint", "none"))
    result = outcome(
        mode_class("complete", "complete"),
        mode_class("annotate", "annotate"),
        mode_class("off", "off"),
        claim("whole", storage_class="complete"),
        claim("hint", storage_class="annotate"),
        claim("none", storage_class="off"),
        of=two,
        settings=PlanSettings(default_mode=Mode.PREBIND),
    )
    assert isinstance(result, Demand)
    assert result.mode is Mode.ANNOTATE
    assert [claim.name for claim in result.required] == ["whole", "hint"]


@pytest.mark.parametrize("provisioner", ["disk.csi.example", ""])
def test_a_claim_without_an_existing_volume_counts_for_the_driver_that_will_make_one(provisioner: str) -> None:
    made, left = storage_class("made", provisioner="disk.csi.example"), mode_class("off", "off")
    off = structs.replace(left, provisioner=provisioner)
    claims = (claim("scratch", storage_class="made"), claim("other", storage_class="off"), CLAIM)
    result = outcome(made, off, *claims, of=pod("web", claims=("data", "scratch", "other")))
    assert isinstance(result, Demand)
    counted = {"default/scratch"} | ({"default/other"} if provisioner else set())
    assert dict(result.drivers) == dict.fromkeys(counted, "disk.csi.example")


def test_an_unknown_mode_counts_as_none_and_is_noticed() -> None:
    odd = storage_class("odd", annotations={"scheduler.cloud.example/mode": "yes please"})
    settings = PlanSettings(default_mode=Mode.PREBIND)
    waiting = pod("web", claims=("data",), unschedulable=True)
    result = outcome(odd, claim("data", storage_class="odd"), of=waiting, settings=settings)
    assert isinstance(result, Demand)
    assert result.mode is Mode.PREBIND
    assert unknown_mode(odd, settings.annotations) == "yes please"
    assert (
        unknown_mode(storage_class(annotations={"scheduler.cloud.example/mode": "off"}), settings.annotations) is None
    )
    assert unknown_mode(storage_class(), settings.annotations) is None


def test_a_pod_put_on_a_node_by_hand_is_planned_there_only() -> None:
    result = outcome(CLAIM, of=pod("web", claims=("data",), node="node-1"))
    assert isinstance(result, Demand)
    assert result.nodes == frozenset({"node-1"})


@pytest.mark.parametrize("over", [False, True])
def test_so_many_claims_of_a_pod_are_planned_and_no_more(over: bool) -> None:
    names = [f"c{number}" for number in range(MAX_CLAIMS + over)]
    many = pod("web", claims=(*names, "bound"))
    bound = claim("bound", volume_name="v", annotations={BIND_COMPLETED: "yes"}, phase="Bound")
    result = outcome(volume("v"), bound, *(claim(name) for name in names), of=many)
    if over:
        assert isinstance(result, Reject)
        assert result.reason is Reason.TOO_MANY_CLAIMS
        assert str(MAX_CLAIMS) in result.rejections[0].wanted
    else:
        assert isinstance(result, Demand)
        assert len(result.required) == MAX_CLAIMS


def test_bound_claims_are_not_counted() -> None:
    names = [f"c{number}" for number in range(2 * MAX_CLAIMS)]
    bound = [claim(name, volume_name="v", annotations={BIND_COMPLETED: "yes"}, phase="Bound") for name in names]
    result = outcome(volume("v"), *bound, of=pod("web", claims=names))
    assert isinstance(result, Wait)
    assert result.reason is Reason.NO_UNBOUND_CLAIM


EPHEMERAL = pod("web", claims=(PodClaim("web-scratch", ephemeral=True),))


@pytest.mark.parametrize("owner", ["", "uid-of-another"])
def test_a_claim_that_only_has_the_name_of_an_ephemeral_volume_is_not_planned(owner: str) -> None:
    result = outcome(structs.replace(claim("web-scratch"), owner=owner), of=EPHEMERAL)
    assert isinstance(result, Reject)
    assert result.reason is Reason.CLAIM_NOT_OWNED


def test_a_claim_made_for_an_ephemeral_volume_is_planned() -> None:
    result = outcome(structs.replace(claim("web-scratch"), owner=EPHEMERAL.uid), of=EPHEMERAL)
    assert isinstance(result, Demand)


@pytest.mark.parametrize(
    ("of", "others", "mode"),
    [
        pytest.param(POD, [], Mode.ANNOTATE, id="kube-scheduler-may-be-serving-it"),
        pytest.param(structs.replace(POD, scheduling_gates=(Annotations().gate,)), [], Mode.COMPLETE, id="our-gate"),
        pytest.param(structs.replace(POD, unschedulable=True), [], Mode.COMPLETE, id="no-node-was-found"),
        pytest.param(structs.replace(POD, node_name="node-1"), [], Mode.COMPLETE, id="has-a-node"),
        pytest.param(
            structs.replace(POD, unschedulable=True),
            [pod("other", claims=("data",))],
            Mode.ANNOTATE,
            id="kube-scheduler-may-be-serving-another-that-uses-the-claim",
        ),
        pytest.param(
            structs.replace(POD, unschedulable=True),
            [pod("other", claims=("data",), scheduling_gates=("anybody",)), pod("third", claims=("log",))],
            Mode.COMPLETE,
            id="no-scheduler-looks-at-others-that-use-the-claim",
        ),
    ],
)
def test_for_which_pods_volumes_are_committed(of: Pod, others: list[Record], mode: Mode) -> None:
    result = outcome(CLAIM, *others, of=of, settings=PlanSettings(default_mode=Mode.COMPLETE))
    assert isinstance(result, Demand)
    assert result.mode is mode


@pytest.mark.parametrize("unschedulable", [False, True])
def test_a_hint_is_enough_until_the_volume_may_be_committed(unschedulable: bool) -> None:
    of = structs.replace(POD, unschedulable=unschedulable)
    hinted = (volume("v", annotations=ON_VOLUME), claim("data", annotations=ON_CLAIM))
    result = outcome(*hinted, of=of, settings=PlanSettings(default_mode=Mode.PREBIND))
    assert isinstance(result, Demand if unschedulable else Wait)


@pytest.mark.parametrize(
    ("holder", "ends"),
    [
        pytest.param(CLAIM.uid, NOW - timedelta(seconds=1), id="expired"),
        pytest.param("uid-of-its-predecessor", LATER, id="for an earlier claim of the name"),
    ],
)
def test_a_claim_whose_annotation_the_volume_does_not_confirm_is_planned(holder: str, ends: datetime) -> None:
    """Every user who may change a claim can write its annotation: the one on the volume counts."""
    made = VolumeReservation("default/data", holder, NOW - timedelta(minutes=5), ends, BY)
    unconfirmed = volume("v", annotations=Annotations().for_volume(made))
    demand = outcome(claim("data", annotations=ON_CLAIM), unconfirmed)
    assert isinstance(demand, Demand)
    assert ([each.name for each in demand.required], demand.anchors) == (["data"], ())
