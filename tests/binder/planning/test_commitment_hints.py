"""Volumes are committed only where all that decides about the pod's node is understood; otherwise it is a hint."""

import pytest
from msgspec.structs import replace

from binder.matching.rejection import Reason
from binder.model.decision import Mode, Reject, Reserve
from binder.model.view import PlanSettings
from binder.reporting.announce import Announcer
from kube.client.event_recorder import EventDraft
from kube.objects.constraints import Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import READ_WRITE_ONCE_POD, SELECTED_NODE, Record, Toleration
from tests.binder.views import planned, view
from tests.builders import HOSTNAME, ZONE, claim, csi_driver, node, node_selector, pod, storage_class, volume
from tests.fake_clock import FakeClock

COMPLETE = PlanSettings(default_mode=Mode.COMPLETE)
PLACE: list[Record] = [node("n1"), node("n2"), volume("v1", node="n1"), volume("v2", node="n2"), claim("data")]
GATE = COMPLETE.annotations.gate


def reserved(*records: Record, **more: object) -> Reserve:
    user = pod("web", claims=["data"], scheduling_gates=[GATE])
    decision = planned(view(*PLACE, *records, replace(user, **more), settings=COMPLETE))["web"]
    assert isinstance(decision, Reserve), decision
    return decision


def selecting(labels: dict[str, str]) -> Constraints:
    term = PodTerm(HOSTNAME, LabelSelector(), namespace_selector=LabelSelector(tuple(labels.items())))
    return Constraints(anti_affinity=(term,))


@pytest.mark.parametrize(
    ("more", "limit"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param(
            {"constraints": Constraints(unsupported=("spec.resourceClaims",))}, "spec.resourceClaims", id="resources"
        ),
        pytest.param({"tolerations": (Toleration("a", "Gt"),)}, "spec.tolerations[0].operator", id="toleration"),
        pytest.param(
            {"constraints": Constraints(spread=(SpreadConstraint(1, ZONE, "DoNotScheduleUnlessAsked"),))},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            id="spread",
        ),
        pytest.param({"constraints": selecting({"team": "a"})}, "namespaceSelector", id="namespace-labels"),
        pytest.param({"constraints": selecting({"kubernetes.io/metadata.name": "a"})}, "", id="namespace-name"),
        pytest.param({"constraints": selecting({})}, "", id="every-namespace"),
    ],
)
def test_what_is_not_understood_makes_it_a_hint(more: dict[str, object], limit: str) -> None:
    decision = reserved(**more)
    assert decision.mode is (Mode.ANNOTATE if limit else Mode.COMPLETE)
    assert limit in " ".join(decision.limits)
    assert bool(decision.limits) == bool(limit)


def test_the_event_says_so() -> None:
    sent: list[EventDraft] = []

    class Sink:
        def publish(self, draft: EventDraft) -> None:
            sent.append(draft)

    Announcer(Sink(), FakeClock()).reserved(reserved(constraints=Constraints(unsupported=("spec.resourceClaims",))))
    assert "kube-scheduler binds them" in sent[-1].note
    assert "(spec.resourceClaims)" in sent[-1].note


def both(*records: Record) -> Reserve:
    """A pod with a claim of ours and another one."""
    user = pod("web", claims=["data", "other"], scheduling_gates=[GATE])
    decision = planned(view(*PLACE, *records, user, settings=COMPLETE))["web"]
    assert isinstance(decision, Reserve), decision
    return decision


def test_beside_a_static_claim_in_mode_off_kube_scheduler_has_the_choice() -> None:
    off = storage_class("off", annotations={f"{COMPLETE.annotations.prefix}mode": "off"})
    assert both(off, claim("other", storage_class="off")).mode is Mode.ANNOTATE


@pytest.mark.parametrize("limited", [False, True])
def test_beside_a_claim_that_is_provisioned_in_some_topologies_only(limited: bool) -> None:
    allowed = node_selector({ZONE: "a"}) if limited else None
    made = replace(storage_class("made", provisioner="disk.csi.example"), allowed_topologies=allowed)
    decision = both(made, claim("other", storage_class="made"))
    assert decision.mode is (Mode.ANNOTATE if limited else Mode.COMPLETE)


def test_beside_a_claim_whose_driver_states_its_capacities() -> None:
    made, driver = storage_class("made", provisioner="disk.csi.example"), replace(csi_driver(), storage_capacity=True)
    assert both(made, driver, claim("other", storage_class="made")).mode is Mode.ANNOTATE


def test_where_a_volume_is_being_provisioned_the_pod_will_be() -> None:
    made = storage_class("made", provisioner="disk.csi.example")
    assert both(made, claim("other", storage_class="made", annotations={SELECTED_NODE: "n2"})).node == "n2"


def test_nothing_beside_the_user_of_a_claim_for_one_pod() -> None:
    exclusive = claim("other", volume_name="v9", phase="Bound", access_modes=[READ_WRITE_ONCE_POD])
    exclusive = replace(exclusive, annotations=(("pv.kubernetes.io/bind-completed", "yes"),))
    there: list[Record] = [
        exclusive,
        volume("v9", claim="default/other", phase="Bound", access_modes=[READ_WRITE_ONCE_POD]),
    ]
    user, first = pod("web", claims=["data", "other"]), pod("first", claims=["other"], node="n1")
    decision = planned(view(*PLACE, *there, user, first, settings=COMPLETE))["web"]
    assert isinstance(decision, Reject)
    assert decision.reason is Reason.VOLUME_IN_USE
    assert isinstance(planned(view(*PLACE, *there, user, settings=COMPLETE))["web"], Reserve)
