"""What counts as taken on a node beside the pods that run there: what kube-scheduler would count as well."""

from dataclasses import replace

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Decision, Reject, Reserve
from binder.planning.plan import holds_of, plan
from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector
from kube.objects.model import BIND_COMPLETED, Record
from tests.binder.views import NOW, chosen, planned, view
from tests.builders import HOSTNAME, claim, csi_driver, csi_node, node, pod, storage_class, volume

MADE = "made.csi.example"
BOUND = {BIND_COMPLETED: "yes"}
CPU = {"cpu": "2"}
LOCAL = (volume("small", node="n1", source="local"), volume("large", node="n2", size="20Gi", source="local"))
"""A claim gets the small one if its node fits the pod."""


def made_claim(name: str) -> tuple[Record, ...]:
    """A claim of a class whose driver provisions anywhere."""
    return storage_class("made", provisioner=MADE), claim(name, storage_class="made")


def node_of(decision: Decision) -> str:
    assert isinstance(decision, Reserve), decision
    return decision.node


def two_nodes(**limits: int) -> tuple[Record, ...]:
    nodes = (node("n1"), node("n2"))
    return *nodes, *(csi_node(name, limits={MADE: limits.get(name)}) for name in ("n1", "n2"))


def test_a_claim_that_is_to_be_provisioned_needs_room_for_its_attachment() -> None:
    others = (*two_nodes(n1=1), *made_claim("scratch"), claim("data"), *LOCAL, pod("web", claims=("data", "scratch")))
    assert node_of(planned(view(*others))["web"]) == "n1"
    full = (claim("used", storage_class="made", volume_name="pv", phase="Bound", annotations=BOUND),)
    user = pod("user", claims=("used",), node="n1", phase="Running")
    attached = volume("pv", storage_class="made", driver=MADE, claim="default/used", phase="Bound")
    assert node_of(planned(view(*others, *full, user, attached))["web"]) == "n2"


def test_a_claim_left_to_others_needs_room_for_its_attachment() -> None:
    """kube-scheduler selected the node for it already."""
    selected = claim("scratch", storage_class="made", annotations={"volume.kubernetes.io/selected-node": "n1"})
    others = (*two_nodes(n1=0), made_claim("scratch")[0], selected, claim("data"), *LOCAL)
    decision = planned(view(*others, pod("web", claims=("data", "scratch"))))["web"]
    assert isinstance(decision, Reject)
    assert decision.reason is Reason.NO_NODE_FITS
    assert Reason.ATTACH_LIMIT_REACHED in {rejection.reason for rejection in decision.rejections}


def test_a_claim_that_is_to_be_provisioned_needs_its_driver_on_the_node() -> None:
    demanding = csi_driver(MADE, prevent_pod_scheduling_if_missing=True)
    nodes = (node("n1"), node("n2"), csi_node("n2", limits={MADE: None}))
    seen = view(
        *nodes, demanding, *made_claim("scratch"), claim("data"), *LOCAL, pod("web", claims=("data", "scratch"))
    )
    assert node_of(planned(seen)["web"]) == "n2"


def test_a_claim_that_gets_an_existing_volume_needs_no_other() -> None:
    existing = volume("existing", storage_class="made", driver="other.csi.example")
    seen = view(
        *two_nodes(n1=0, n2=0),
        *made_claim("scratch"),
        existing,
        claim("data"),
        *LOCAL,
        pod("web", claims=("data", "scratch")),
    )
    assert chosen(planned(seen)["web"]) == {"data": "small", "scratch": "existing"}


def test_pods_of_an_earlier_pass_attach_all_their_claims() -> None:
    """The first pod has a reserved volume on n1, a bound one of the driver, and one still to be provisioned."""
    bound = claim("bound", storage_class="made", volume_name="pv", phase="Bound", annotations=BOUND)
    pv = volume("pv", storage_class="made", driver=MADE, claim="default/bound", phase="Bound")
    seen = view(
        *two_nodes(n1=2),
        *made_claim("first-scratch"),
        claim("second-scratch", storage_class="made"),
        bound,
        pv,
        claim("first-data"),
        claim("second-data"),
        *LOCAL,
        volume("third", node="n1", size="15Gi", source="local"),
        pod("first", claims=("first-data", "first-scratch", "bound")),
        pod("second", claims=("second-data", "second-scratch")),
    )
    pods = seen.snapshot.pods
    (first,) = plan(seen, [pods["default/first"]], NOW)
    assert node_of(first) == "n1"
    assert isinstance(first, Reserve)
    later = replace(seen, ledger=seen.ledger.with_holds(holds_of(first)))
    (second,) = plan(later, [pods["default/second"]], NOW)
    assert node_of(second) == "n2"


@pytest.mark.parametrize(
    ("nominee", "where"),
    [
        pytest.param(pod("nominee", requests={"cpu": "7"}, nominated_node="n1"), "n2", id="nominated"),
        pytest.param(pod("nominee", requests={"cpu": "7"}, nominated_node="n1", deleting=True), "n1", id="leaving"),
        pytest.param(pod("nominee", requests={"cpu": "7"}), "n1", id="not-nominated"),
        pytest.param(pod("nominee", requests={"cpu": "1"}, nominated_node="n1"), "n1", id="small"),
    ],
)
def test_the_room_of_a_nominated_pod_is_not_given_away(nominee: Record, where: str) -> None:
    seen = view(node("n1"), node("n2"), nominee, claim("data"), *LOCAL, pod("web", claims=("data",), requests=CPU))
    assert node_of(planned(seen)["web"]) == where


def test_a_booked_pod_moves_to_leave_room_for_one_that_keeps_apart_from_others() -> None:
    apart = Constraints(anti_affinity=(PodTerm(HOSTNAME, LabelSelector((("app", "web"),))),))
    booked = (
        volume("wide", zone="a", claim="default/booked", phase="Bound"),
        claim("booked", volume_name="wide", phase="Bound", annotations=BOUND),
        pod("booked", claims=("booked",), requests={"cpu": "5"}),
    )
    asking = pod("web", claims=("data",), requests={"cpu": "5"}, labels={"app": "web"}, constraints=apart)
    for name in ("n1", "n2"):
        local = volume("local", node=name, source="local")
        seen = view(node("n1"), node("n2"), *booked, local, claim("data"), asking)
        (decision,) = plan(seen, [seen.snapshot.pods["default/web"]], NOW)
        assert node_of(decision) == name
