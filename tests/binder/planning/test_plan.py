"""Which decision a batch gets: tables of small clusters, and batches with exactly as many volumes as they need."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Mode, Reject, Reserve, Wait
from binder.model.view import PlanSettings, UnknownHealth
from binder.planning.plan import Caches, holds_of, plan
from csi.health.verdict import HealthState, Segment, Verdict
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, ClaimReference
from tests.binder.views import NOW, HiddenSolution, chosen, planned, pods_of, view, without_a_clock
from tests.builders import ZONE, claim, csi_driver, csi_node, node, pod, storage_class, volume


def test_three_claims_get_their_volumes_in_the_one_zone_that_has_them() -> None:
    scattered = [volume(f"a{n}", zone="a") for n in range(2)] + [volume(f"c{n}", zone="c") for n in range(2)]
    seen = view(
        *(node(f"n-{zone}", zone=zone) for zone in "abc"),
        *scattered,
        *(volume(f"b{n}", zone="b", size="20Gi") for n in range(3)),
        *(claim(name) for name in ("x", "y", "z")),
        pod("web", claims=("x", "y", "z")),
    )
    decision = planned(seen)["web"]
    assert isinstance(decision, Reserve)
    assert (decision.zone, decision.node, decision.local_nodes) == ("b", "n-b", ())
    assert set(chosen(decision).values()) == {"b0", "b1", "b2"}


def test_none_is_reserved_when_no_zone_has_all() -> None:
    seen = view(
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        volume("a0", zone="a"),
        volume("b0", zone="b"),
        claim("x"),
        claim("y"),
        pod("web", claims=("x", "y")),
    )
    decision = planned(seen)["web"]
    assert isinstance(decision, Reject)
    assert decision.reason is Reason.NO_JOINT_ASSIGNMENT
    assert [rejection.subject for rejection in decision.rejections] == ["zone a, node n-a", "zone b, node n-b"]


@pytest.mark.parametrize(("completed", "gets"), [(True, "free"), (False, "named")])
def test_a_volume_that_a_bound_claim_names_is_never_reserved_for_another(completed: bool, gets: str) -> None:
    """The PV controller gives the claim its volume back at its next resync. A name alone is a user's wish."""
    seen = view(
        node(),
        volume("named", size="10Gi"),
        volume("free", size="20Gi"),
        claim("owner", volume_name="named", annotations={BIND_COMPLETED: "yes"} if completed else {}),
        claim("x"),
        pod("web", claims=("x",)),
    )
    assert chosen(planned(seen)["web"]) == {"x": gets}


def test_an_assignment_that_smallest_first_misses_is_found() -> None:
    # Smallest first gives x the volume that only y, with the additional mode, could use.
    seen = view(
        node(),
        volume("both", size="10Gi", access_modes=("ReadWriteOnce", "ReadOnlyMany")),
        volume("plain", size="20Gi"),
        claim("x", size="5Gi"),
        claim("y", size="6Gi", access_modes=("ReadWriteOnce", "ReadOnlyMany")),
        pod("web", claims=("x", "y")),
    )
    assert chosen(planned(seen)["web"]) == {"x": "plain", "y": "both"}


def test_of_two_pods_for_the_last_volume_the_more_urgent_gets_it_and_the_other_is_rejected() -> None:
    seen = view(
        node(),
        volume("last"),
        claim("x"),
        claim("y"),
        pod("early", claims=("x",)),
        pod("urgent", claims=("y",), priority=10),
    )
    decisions = planned(seen)
    assert chosen(decisions["urgent"]) == {"y": "last"}
    loser = decisions["early"]
    assert isinstance(loser, Reject)
    assert [(rejection.reason, rejection.subject) for rejection in loser.rejections] == [
        (Reason.RESERVED_FOR_OTHER, "last")
    ]
    assert "default/y" in loser.rejections[0].offered


def test_a_planned_pod_moves_to_another_zone_to_make_room() -> None:
    # The first pod fits anywhere and would take a's volume; only a's node fits the second.
    seen = view(
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        volume("a0", zone="a"),
        volume("b0", zone="b", size="11Gi"),
        claim("x"),
        claim("y"),
        pod("first", claims=("x",), priority=5),
        pod("second", claims=("y",), node_selector={ZONE: "a"}),
    )
    decisions = planned(seen)
    assert chosen(decisions["first"]) == {"x": "b0"}
    assert chosen(decisions["second"]) == {"y": "a0"}


def test_a_zone_without_a_node_for_the_pod_is_not_chosen() -> None:
    seen = view(
        node("n-a", zone="a", allocatable={"cpu": "1"}),
        node("n-b", zone="b"),
        volume("a0", zone="a"),
        volume("b0", zone="b", size="50Gi"),
        claim("x"),
        pod("web", claims=("x",), requests={"cpu": "2"}),
    )
    assert chosen(planned(seen)["web"]) == {"x": "b0"}


def test_pods_of_a_batch_use_up_nodes_and_attach_limits() -> None:
    seen = view(
        node("n1", allocatable={"cpu": "2"}),
        node("n2", allocatable={"cpu": "2"}),
        csi_node("n1", limits={"disk.csi.example": 1}),
        *(volume(f"v{n}", zone="a") for n in range(5)),
        *(claim(f"c{n}") for n in range(5)),
        *(pod(f"p{n}", claims=(f"c{n}",), requests={"cpu": "1"}) for n in range(5)),
    )
    nodes = sorted(decision.node for decision in planned(seen).values() if isinstance(decision, Reserve))
    assert nodes == ["n1", "n2", "n2"]


def test_a_node_without_the_driver_is_not_chosen_where_the_driver_has_to_be_there() -> None:
    others = (node("n1"), node("n2"), csi_node("n2"), volume("v", zone="a"), claim("c"), pod("p", claims=("c",)))
    for demanding, reserved in ((False, "n1"), (True, "n2")):
        decision = planned(view(csi_driver(prevent_pod_scheduling_if_missing=demanding), *others))["p"]
        assert isinstance(decision, Reserve)
        assert decision.node == reserved


def test_what_an_earlier_pass_reserved_is_neither_taken_nor_booked_twice() -> None:
    seen = view(
        node("n1", allocatable={"cpu": "2"}),
        *(volume(f"v{n}", zone="a") for n in range(3)),
        *(claim(f"c{n}") for n in range(3)),
        *(pod(f"p{n}", claims=(f"c{n}",), requests={"cpu": "1"}) for n in range(3)),
    )
    pods = seen.snapshot.pods
    (first,) = plan(seen, [pods["default/p0"]], NOW)
    assert isinstance(first, Reserve)
    later = replace(seen, ledger=seen.ledger.with_holds(holds_of(first)))
    again, second, third = plan(later, [pods[f"default/p{n}"] for n in range(3)], NOW)
    assert isinstance(again, Wait)
    assert again.reason is Reason.ALREADY_RESERVED
    assert chosen(second) == {"c1": "v1"}
    assert isinstance(third, Reject)
    assert third.reason in {Reason.NO_NODE_FITS, Reason.NO_JOINT_ASSIGNMENT}


def test_a_claim_two_pods_share_gets_one_volume_and_the_second_pod_waits_until_it_is_held() -> None:
    a0 = volume("a0", zone="a")
    rest = (
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        volume("a1", zone="a", size="90Gi"),
        volume("b1", zone="b"),
        claim("shared"),
        claim("own"),
        pod("first", claims=("shared",)),
        pod("second", claims=("shared", "own")),
    )
    decisions = planned(view(*rest, a0))
    first, second = decisions["first"], decisions["second"]
    assert isinstance(first, Reserve)
    assert chosen(first) == {"shared": "a0"}
    assert isinstance(second, Wait), "the promise may come to nothing before it is written"
    assert (second.reason, second.until is None) == (Reason.PROGRESSING, False)
    seen = view(*rest, msgspec.structs.replace(a0, claim=ClaimReference("default", "shared"), phase="Bound"))
    assert chosen(planned(seen)["second"]) == {"own": "a1"}


def verdict(state: HealthState, topology: tuple[Segment, ...] | None = None) -> Verdict:
    return Verdict(state, "VolumeLost", "gone", "ControllerGetVolume", NOW, topology)


UNHEALTHY = verdict(HealthState.INACCESSIBLE)
ELSEWHERE = verdict(HealthState.HEALTHY, (Segment(((ZONE, "b"),)),))
UNKNOWN = verdict(HealthState.UNKNOWN)
GATED = PlanSettings(gated_drivers=frozenset({"disk.csi.example"}))


@pytest.mark.parametrize(
    ("verdict", "settings", "reason"),
    [
        pytest.param(UNHEALTHY, GATED, Reason.UNHEALTHY, id="unhealthy"),
        pytest.param(ELSEWHERE, GATED, Reason.TOPOLOGY_CONTRADICTED, id="elsewhere"),
        pytest.param(UNKNOWN, GATED, Reason.HEALTH_UNKNOWN, id="unknown-of-a-gated-driver"),
        pytest.param(UNKNOWN, PlanSettings(), None, id="unknown-without-endpoint"),
        pytest.param(UNKNOWN, replace(GATED, unknown_health=UnknownHealth.ALLOW), None, id="unknown-allowed"),
        pytest.param(UNKNOWN, PlanSettings(unknown_health=UnknownHealth.BLOCK), Reason.HEALTH_UNKNOWN, id="blocked"),
        pytest.param(verdict(HealthState.UNSUPPORTED), GATED, None, id="unsupported"),
        pytest.param(
            replace(UNHEALTHY, observed_at=NOW - timedelta(hours=1)), GATED, None, id="too-old-to-say-anything"
        ),
    ],
)
def test_health(verdict: Verdict, settings: PlanSettings, reason: Reason | None) -> None:
    seen = view(
        node(),
        volume("v", zone="a"),
        claim("x"),
        pod("web", claims=("x",)),
        settings=settings,
        verdicts={("disk.csi.example", "handle-v"): verdict},
    )
    decision = planned(seen)["web"]
    if reason is None:
        assert chosen(decision) == {"x": "v"}
    else:
        assert isinstance(decision, Reject)
        assert {each.reason for each in decision.rejections if each.subject == "v"} == {reason}
        # A driver that could not report is the reason as a whole: without that the pod would be served.
        assert (decision.reason is Reason.HEALTH_UNKNOWN) is (reason is Reason.HEALTH_UNKNOWN)


@pytest.mark.parametrize(
    ("policy", "allowed", "mode"),
    [
        pytest.param("Retain", False, Mode.COMPLETE, id="retain"),
        pytest.param("Delete", False, Mode.PREBIND, id="delete-gets-the-prebind-form"),
        pytest.param("Delete", True, Mode.COMPLETE, id="delete-allowed"),
    ],
)
def test_complete_mode_and_the_reclaim_policy(policy: str, allowed: bool, mode: Mode) -> None:
    seen = view(
        node(),
        volume("v", reclaim_policy=policy),
        claim("x"),
        pod("web", claims=("x",), unschedulable=True),
        settings=PlanSettings(default_mode=Mode.COMPLETE, allow_delete_policy=allowed),
    )
    decision = planned(seen)["web"]
    assert isinstance(decision, Reserve)
    assert decision.mode is mode


def test_a_static_volume_of_a_dynamic_class_is_taken_and_its_lack_is_no_rejection() -> None:
    seen = view(
        storage_class("cloud", provisioner="disk.csi.example"),
        node(),
        volume("v", zone="a"),
        volume("static", zone="a", storage_class="cloud"),
        *(claim(name, storage_class="cloud") for name in ("d1", "d2")),
        claim("x"),
        pod("web", claims=("x", "d1", "d2")),
    )
    assert chosen(planned(seen)["web"]) == {"x": "v", "d1": "static"}


def test_a_selected_node_is_the_only_one_considered() -> None:
    seen = view(
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        volume("a0", zone="a"),
        volume("b0", zone="b", size="70Gi"),
        claim("x", annotations={SELECTED_NODE: "n-b"}),
        pod("web", claims=("x",)),
    )
    assert chosen(planned(seen)["web"]) == {"x": "b0"}


def test_a_local_volume_names_its_node() -> None:
    seen = view(node("n1"), node("n2"), volume("v", zone="a", node="n2"), claim("x"), pod("web", claims=("x",)))
    decision = planned(seen)["web"]
    assert isinstance(decision, Reserve)
    assert (decision.node, decision.local_nodes) == ("n2", ("n2",))


@pytest.mark.parametrize("mixed", [False, True], ids=["sizes", "selectors-and-modes"])
@pytest.mark.parametrize("seed", range(30))
def test_every_pod_of_a_batch_with_a_hidden_solution_is_placed(seed: int, mixed: bool) -> None:
    seen = view(*HiddenSolution(seed, mixed=mixed).records())
    decisions = plan(seen, pods_of(seen), NOW, solve=without_a_clock)
    assert sum(isinstance(decision, Reserve) for decision in decisions) == 100


def test_a_rejection_in_a_large_cluster_names_the_nearest_volumes_and_counts_the_others() -> None:
    small = (volume(f"v{n:05}", size=f"{1 + n % 9}Gi") for n in range(6000))
    seen = view(node(), *small, claim("x", size="10Gi"), pod("web", claims=("x",)))
    decision = planned(seen)["web"]
    assert isinstance(decision, Reject)
    summary, *nearest = decision.rejections
    assert summary.offered == "6000 volumes of the class: 6000 TooSmall"
    assert {rejection.offered for rejection in nearest} == {"9Gi"}


def test_a_rejection_says_once_what_holds_for_several_claims_and_health_before_size() -> None:
    unhealthy = volume("v9", size="10Gi", zone="a", handle="h9")
    verdicts = {
        (unhealthy.driver, unhealthy.handle): Verdict(HealthState.DATA_LOSS, "Gone", "", "ControllerGetVolume", NOW)
    }
    small = (volume(f"v{number}", size="1Gi", zone="a") for number in range(3))
    claims = [claim(name, size="10Gi") for name in ("x", "y")]
    seen = view(node(zone="a"), unhealthy, *small, *claims, pod("web", claims=("x", "y")), verdicts=verdicts)
    decision = planned(seen)["web"]
    assert isinstance(decision, Reject)
    summary, *volumes = decision.rejections
    assert summary.subject == "default/x, default/y"
    assert [(rejection.subject, rejection.reason) for rejection in volumes] == [
        ("v9", Reason.UNHEALTHY),
        *((f"v{number}", Reason.TOO_SMALL) for number in range(3)),
    ]


def test_passes_with_the_same_caches_number_the_nodes_once() -> None:
    before, caches = view(node("n1"), volume("v"), claim("x"), pod("web", claims=("x",))), Caches()
    plan(before, pods_of(before), NOW, caches)
    index, later = caches.node_sets.index, msgspec.structs.replace(node("n1"), resource_version=2)
    after = replace(before, snapshot=replace(before.snapshot, nodes=before.snapshot.nodes.set("n1", later)))
    plan(after, pods_of(after), NOW, caches)
    assert caches.node_sets.index is index
    assert caches.node_sets.nodes == [later]
