"""What ties a pod without a node to places: volumes it has, volumes kept for it, nodes selected; or nothing does."""

from datetime import timedelta
from typing import Any

import pytest

from binder.model.ledger import Hold, Ledger
from binder.model.waiting_pod import WaitingPod, all_waiting, waiting_pod, with_ledger
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from binder.reservation.set_aside import set_aside
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, PodClaim, Record
from kube.store.store import snapshot_of
from tests.builders import claim, pod, reference, storage_class, volume
from tests.fake_clock import START

OURS = Annotations()
USER = pod(claims=["data"])
MADE = storage_class("made", provisioner="made.csi.example")
COMPLETED = {BIND_COMPLETED: "yes"}


def reserved_for(name: str = "data", uid: str = "uid-default-data", pod_uid: str = USER.uid) -> dict[str, str]:
    until = START + timedelta(minutes=5)
    return OURS.for_volume(VolumeReservation(f"default/{name}", uid, START, until, Holder("host", 1), pod_uid=pod_uid))


def seen(*records: Record, of: str = "default/web") -> WaitingPod | None:
    there = snapshot_of((storage_class(), MADE, *records))
    return waiting_pod(there, OURS, there.pods[of])


def aside() -> Record:
    written = set_aside(volume(), claim(), "prebinder", START, OURS)
    named = written["spec"]["claimRef"]
    return volume(
        claim=reference(f"{named['namespace']}/{named['name']}"), annotations=written["metadata"]["annotations"]
    )


@pytest.mark.parametrize(
    ("records", "ties"),
    [
        pytest.param(
            (claim(volume_name="pv-1", annotations=COMPLETED, phase="Bound"), volume(phase="Bound")),
            {"volumes": ["pv-1"], "bound": True},
            id="bound",
        ),
        pytest.param(
            (claim(volume_name="pv-1", annotations=COMPLETED), volume(phase="Bound")),
            {"volumes": ["pv-1"]},
            id="the claim's status is still to be written",
        ),
        pytest.param((claim(volume_name="pv-1"), volume()), {"volumes": ["pv-1"]}, id="asked for by name, and fits"),
        pytest.param((claim(volume_name="pv-1"), volume(size="1Gi")), None, id="asked for by name, and does not fit"),
        pytest.param(
            (claim(volume_name="pv-1", annotations=COMPLETED), volume(size="1Gi")),
            {"volumes": ["pv-1"]},
            id="bound, whatever the rules say now",
        ),
        pytest.param((claim(volume_name="pv-1"),), None, id="the volume does not exist"),
        pytest.param((claim(), volume(claim="default/data")), {"volumes": ["pv-1"], "begun": True}, id="named by one"),
        pytest.param(
            (claim(), volume(claim="default/data", annotations=reserved_for(pod_uid="uid-of-a-former-pod"))),
            {"volumes": ["pv-1"]},
            id="committed to a pod before it",
        ),
        pytest.param((claim(), volume(annotations=reserved_for())), {"hints": ["pv-1"]}, id="reserved by annotation"),
        pytest.param(
            (claim(), volume(annotations=reserved_for(uid="uid-of-a-former-claim"))), None, id="for a former claim"
        ),
        pytest.param(
            (claim(), volume(annotations=reserved_for(), claim="default/other")), None, id="given to another since"
        ),
        pytest.param((claim(), volume(annotations=reserved_for(), phase="Released")), None, id="released since"),
        pytest.param((claim(), aside()), {"volumes": ["pv-1"]}, id="set aside for it"),
        pytest.param(
            (claim(storage_class="made", annotations={SELECTED_NODE: "n1"}),),
            {"nodes": ["n1"], "made": ["data"]},
            id="being made for a node",
        ),
        pytest.param((claim(annotations={SELECTED_NODE: "n1"}),), None, id="of a class for which none is made"),
        pytest.param((claim(storage_class="gone", annotations={SELECTED_NODE: "n1"}),), None, id="of no class"),
        pytest.param((claim(), volume()), None, id="nothing but a free volume"),
        pytest.param((volume(claim="default/data"),), None, id="no claim"),
        pytest.param((claim(deleting=True), volume(claim="default/data")), None, id="the claim ends"),
    ],
)
def test_a_claim_ties_its_pod_by_what_it_has_or_is_kept_for_it(
    records: tuple[Record, ...], ties: dict[str, Any] | None
) -> None:
    waiting = seen(*records, pod(claims=["data"], created=START))
    if ties is None:
        assert waiting is None
        return
    assert waiting is not None
    shown: dict[str, Any] = {
        "volumes": [each.name for each in waiting.volumes],
        "hints": [each.name for _, each in waiting.hints],
        "nodes": sorted(waiting.nodes or ()),
        "made": [each.name for each in waiting.made],
        "bound": waiting.bound,
        "begun": waiting.begun,
    }
    assert {key: value for key, value in shown.items() if value} == ties


BOUND = (claim(volume_name="pv-1", annotations=COMPLETED, phase="Bound"), volume(phase="Bound"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"node": "n1"}, id="on a node"),
        pytest.param({"deleting": True}, id="ending"),
        pytest.param({"phase": "Succeeded"}, id="finished"),
        pytest.param({"scheduling_gates": ["other.example/gate"]}, id="behind another's gate"),
        pytest.param({"claims": []}, id="without claims"),
        pytest.param({"claims": ["data", "missing"]}, id="one of its claims is missing"),
        pytest.param({"claims": [PodClaim("data", ephemeral=True)]}, id="its ephemeral claim is another's"),
    ],
)
def test_a_pod_that_waits_for_no_place_is_none(changes: dict[str, Any]) -> None:
    assert seen(*BOUND, USER) is not None
    assert seen(*BOUND, pod(**{"claims": ["data"]} | changes)) is None


def test_one_claim_that_may_get_any_volume_stays_open_beside_one_that_has_one() -> None:
    waiting = seen(*BOUND, claim("log"), pod(claims=["data", "log"]))
    assert waiting is not None
    assert [each.name for each in waiting.open] == ["log"]
    assert not waiting.bound, "all of its claims have to be"


def test_claims_made_for_two_nodes_leave_none() -> None:
    made = [claim(name, storage_class="made", annotations={SELECTED_NODE: f"n-{name}"}) for name in "ab"]
    waiting = seen(*made, pod(claims=["a", "b"]))
    assert waiting is not None
    assert waiting.nodes == frozenset()


def test_our_gate_holds_a_pod_back_until_it_is_lifted() -> None:
    gated = pod(claims=["data"], scheduling_gates=[OURS.gate])
    there = snapshot_of((storage_class(), *BOUND, gated))
    free = seen(*BOUND, USER)
    assert free is not None
    assert free.released
    held = waiting_pod(there, OURS, gated)
    assert held is not None
    assert not held.released
    released = waiting_pod(there, OURS, gated, Ledger().with_lift(gated.key, gated.uid))
    assert released is not None
    assert released.released
    recreated = waiting_pod(there, OURS, gated, Ledger().with_lift(gated.key, "uid-of-a-former-pod"))
    assert recreated is not None
    assert not recreated.released


def test_a_hint_counts_as_long_as_it_is_in_force() -> None:
    waiting = seen(claim(), volume(annotations=reserved_for()), USER)
    assert waiting is not None
    assert [each.name for each in waiting.reserved(OURS, START)] == ["pv-1"]
    assert waiting.reserved(OURS, START + timedelta(minutes=5)) == ()


def test_all_pods_of_a_snapshot_that_wait_are_found() -> None:
    there = snapshot_of((storage_class(), *BOUND, USER, pod("idle"), pod("lost", claims=["missing"])))
    assert set(all_waiting(there, OURS)) == {"default/web"}


def test_a_volume_whose_write_is_under_way_is_the_claims_already() -> None:
    there = snapshot_of((storage_class(), claim(), volume("pv-1"), volume("pv-2"), USER))
    holds = [Hold("gone", "default/data", "uid-default-data", USER.key, "n1"),
             Hold("pv-2", "default/data", "uid-default-data", USER.key, "n1"),
             Hold("pv-1", "default/data", "uid-of-a-former-claim", USER.key, "n1")]  # fmt: skip
    waiting = waiting_pod(there, OURS, USER, Ledger().with_holds(holds))
    assert waiting is not None
    assert [each.name for each in waiting.volumes] == ["pv-2"]
    assert dict(with_ledger(all_waiting(there, OURS), Ledger().with_holds(holds), there, OURS)) == {USER.key: waiting}
