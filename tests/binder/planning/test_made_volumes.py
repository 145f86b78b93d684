"""What a pod needs whose volumes are still to be made, and what of it is set aside or under way already."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Finish, Mode, Reject, Wait
from binder.model.demand import Demand
from binder.planning.claim_standing import mode_of
from binder.planning.pod_demand import demand_of
from binder.reservation.contract import STRICT, Annotations, format_time
from csi.health.verdict import HealthState, Verdict
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, ClaimReference, Pod, Record, Volume
from tests.binder.views import NOW, view
from tests.builders import claim, csi_driver, csi_node, node, pod, storage_class, volume

OURS = Annotations()
DRIVER = "disk.csi.example"
MADE = storage_class("made", provisioner=DRIVER, annotations={OURS.mode: "provision", OURS.topology: STRICT})
PREBOUND = storage_class("kept", annotations={OURS.mode: "prebind"})
NODES = (node("n1", zone="a"), node("n2", zone="b"))
UNHEALTHY = Verdict(HealthState.DATA_LOSS, "VolumeLost", "gone", "ControllerGetVolume", NOW)


def gated(*claims: str) -> Pod:
    return pod("web", claims=claims, scheduling_gates=(OURS.gate,))


def begun(name: str, where: str) -> Record:
    """A claim whose volume is being made on the node since a minute."""
    selected_at = format_time(NOW - timedelta(minutes=1))
    return claim(name, storage_class="made", annotations={SELECTED_NODE: where, OURS.selected_at: selected_at})


def aside(name: str, zone: str, of: str) -> Volume:
    """A volume that is set aside for the claim."""
    record = {
        OURS.set_aside_for: f"default/{of}",
        OURS.set_aside_for_uid: f"uid-default-{of}",
        OURS.set_aside_at: format_time(NOW),
    }
    placeholder = ClaimReference("ours", f"set-aside-{name}", "")
    return volume(name, storage_class="kept", zone=zone, claim=placeholder, annotations=record)


def outcome(of: Pod, *records: Record, unhealthy: str = "") -> Demand | Finish | Wait | Reject:
    verdicts = {(DRIVER, f"handle-{unhealthy}"): UNHEALTHY} if unhealthy else {}
    return demand_of(view(*NODES, MADE, PREBOUND, of, *records, verdicts=verdicts), of, NOW)


@pytest.mark.parametrize("under_way", [False, True])
def test_a_pod_has_begun_when_a_volume_is_under_way_for_it(under_way: bool) -> None:
    other = begun("a", "n1") if under_way else claim("a", storage_class="made")
    demand = outcome(gated("a", "b"), other, claim("b", storage_class="made"))
    assert isinstance(demand, Demand)
    assert demand.begun is under_way
    assert demand.nodes == (frozenset({"n1"}) if under_way else None)


@pytest.mark.parametrize(
    ("where", "records", "reason"),
    [
        pytest.param("n1", (), Reason.PROVISIONING, id="no list of drivers"),
        pytest.param("gone", (), Reason.SELECTED_NODE_STALE, id="the node is gone"),
        pytest.param("n1", (csi_driver(), csi_node("n1")), Reason.PROVISIONING, id="its driver is there"),
        pytest.param("n1", (csi_driver(), csi_node("n1", limits={})), Reason.DRIVER_NOT_ON_NODE, id="it is not"),
    ],
)
def test_what_is_under_way_is_waited_for_where_its_driver_can_make_it(
    where: str, records: tuple[Record, ...], reason: Reason
) -> None:
    result = outcome(gated("a"), begun("a", where), *records)
    assert isinstance(result, Wait if reason is Reason.PROVISIONING else Reject)
    assert result.reason is reason


@pytest.mark.parametrize("unhealthy", ["", "kept-a"])
def test_a_volume_stays_set_aside_for_its_claim_while_it_may_be_used(unhealthy: str) -> None:
    records = (aside("kept-a", "a", of="log"), claim("log", storage_class="kept"), claim("data", storage_class="made"))
    demand = outcome(gated("data", "log"), *records, unhealthy=unhealthy)
    assert isinstance(demand, Demand)
    assert demand.pins == (() if unhealthy else (("default/log", "kept-a"),))


@pytest.mark.parametrize(("zone", "stays"), [("a", True), ("b", False)])
def test_a_volume_set_aside_is_given_up_where_no_node_reaches_the_one_that_was_made(zone: str, stays: bool) -> None:
    """A provisioner that is not strict may have made it elsewhere than asked for."""
    made = volume("pvc-1", storage_class="made", zone=zone, claim="default/data", phase="Bound")
    bound = claim("data", storage_class="made", volume_name="pvc-1", phase="Bound", annotations={BIND_COMPLETED: "yes"})
    records = (made, bound, aside("kept-a", "a", of="log"), claim("log", storage_class="kept"))
    demand = outcome(gated("data", "log"), *records)
    assert isinstance(demand, Demand)
    assert [each.name for each in demand.required] == ["log"]
    assert demand.pins == ((("default/log", "kept-a"),) if stays else ())


def test_without_provision_no_class_is_in_that_mode() -> None:
    plain = storage_class("plain", provisioner=DRIVER)
    allowed = replace(view().settings, dynamic_mode=Mode.PROVISION)
    for given in (MADE, plain):
        assert mode_of(given, allowed) is Mode.PROVISION
        assert mode_of(given, replace(allowed, provision=False)) is allowed.default_mode
