"""Each test of the matching rules by itself: what a volume fails first, on either caller's path."""

from datetime import timedelta

import pytest

from binder.matching.matching import (
    binding_mode,
    class_of,
    controller_rejection,
    default_class,
    is_mine,
    requested_rejection,
    scheduler_rejection,
)
from binder.matching.rejection import Reason
from kube.objects.labels import LabelSelector, NodeSelector, Requirement
from kube.objects.model import Claim, ClaimReference, Volume
from tests.builders import EPOCH, ZONE, claim, node_selector, reference, storage_class, volume

HERE = {ZONE: "a", "disks": "4"}
MINE = reference("default/data")
SELECTOR = LabelSelector((("tier", "gold"),), (Requirement("disk", "In", ("ssd", "nvme")),))

# What both paths test, in upstream's order.
COMMON = [
    pytest.param(claim(), volume(), None, id="fits"),
    pytest.param(claim(), volume(claim="other/data"), Reason.CLAIMED_BY_OTHER, id="claimed from another namespace"),
    pytest.param(claim(), volume(claim="default/other"), Reason.CLAIMED_BY_OTHER, id="claimed by another name"),
    pytest.param(claim(), volume(claim=ClaimReference()), Reason.CLAIMED_BY_OTHER, id="an empty claimRef is one"),
    pytest.param(
        claim(), volume(claim="data"), Reason.CLAIMED_BY_OTHER, id="claimRef without namespace is of no claim"
    ),
    pytest.param(claim(), volume(claim=reference("default/data", "x")), Reason.CLAIMED_BY_OTHER, id="another uid"),
    pytest.param(claim(), volume(claim=MINE), None, id="mine without uid"),
    pytest.param(claim(), volume(claim=reference("default/data", claim().uid)), None, id="mine with uid"),
    pytest.param(claim(), volume(claim=MINE, phase="Released"), None, id="mine in any phase"),
    pytest.param(claim(selector=SELECTOR), volume(claim=MINE), None, id="mine whatever the selector"),
    pytest.param(claim(), volume(claim=MINE, size="1Gi"), Reason.TOO_SMALL, id="mine but too small"),
    pytest.param(claim(), volume(claim=MINE, deleting=True), Reason.VOLUME_DELETING, id="mine but being deleted"),
    pytest.param(claim(size="10Gi"), volume(size="10G"), Reason.TOO_SMALL, id="10G is less than 10Gi"),
    pytest.param(claim(size="1001m"), volume(size="1"), Reason.TOO_SMALL, id="1001m is more than 1"),
    pytest.param(claim(size="999m"), volume(size="1"), None, id="999m is less than 1"),
    pytest.param(claim(size="1E3"), volume(size="1k"), None, id="1E3 is an exponent"),
    pytest.param(claim(size="1E"), volume(size="1E3"), Reason.TOO_SMALL, id="1E is an exa"),
    pytest.param(claim(size="200E"), volume(size="199E"), Reason.TOO_SMALL, id="beyond int64, too small"),
    pytest.param(claim(size="200E"), volume(size="200E"), None, id="beyond int64, equal"),
    pytest.param(claim(size="0"), volume(size="0"), None, id="nothing asked, nothing there"),
    pytest.param(claim(), volume(volume_mode="Block"), Reason.VOLUME_MODE_MISMATCH, id="volume mode"),
    pytest.param(claim(), volume(attributes_class="gold"), Reason.ATTRIBUTES_CLASS_MISMATCH, id="attributes class"),
    pytest.param(claim(attributes_class="gold"), volume(), Reason.ATTRIBUTES_CLASS_MISMATCH, id="no attributes class"),
    pytest.param(claim(), volume(deleting=True), Reason.VOLUME_DELETING, id="being deleted"),
    pytest.param(claim(), volume(phase=""), Reason.NOT_AVAILABLE, id="no phase"),
    pytest.param(claim(), volume(phase="Pending"), Reason.NOT_AVAILABLE, id="phase Pending"),
    pytest.param(claim(), volume(phase="Released"), Reason.NOT_AVAILABLE, id="phase Released"),
    pytest.param(claim(), volume(phase="Bound"), Reason.NOT_AVAILABLE, id="phase Bound without claimRef"),
    pytest.param(claim(selector=LabelSelector()), volume(), None, id="an empty selector matches everything"),
    pytest.param(claim(selector=SELECTOR), volume(labels={"tier": "gold"}), Reason.SELECTOR_MISMATCH, id="half of it"),
    pytest.param(claim(selector=SELECTOR), volume(labels={"tier": "gold", "disk": "ssd"}), None, id="selector"),
    pytest.param(
        claim(selector=LabelSelector((), (Requirement("disk", "NotIn", ("hdd",)),))), volume(), None, id="NotIn, absent"
    ),
    pytest.param(
        claim(selector=LabelSelector((), (Requirement("disk", "Near", ("ssd",)),))),
        volume(labels={"disk": "ssd"}),
        Reason.SELECTOR_MISMATCH,
        id="a selector with an operator that does not exist",
    ),
    pytest.param(
        claim(selector=LabelSelector((), (Requirement("disk", "Near", ("ssd",)),))),
        volume(claim=MINE),
        Reason.SELECTOR_MISMATCH,
        id="mine, but the selector is an error",
    ),
    pytest.param(
        claim(access_modes=["ReadWriteOnce", "ReadOnlyMany"]),
        volume(),
        Reason.ACCESS_MODES_MISMATCH,
        id="modes missing",
    ),
    pytest.param(claim(access_modes=[]), volume(), None, id="no mode asked for"),
    pytest.param(
        claim(access_modes=["ReadWriteOncePod"]), volume(), Reason.ACCESS_MODES_MISMATCH, id="RWO is not RWOP"
    ),
    pytest.param(
        claim(), volume(access_modes=["ReadWriteOncePod"]), Reason.ACCESS_MODES_MISMATCH, id="RWOP is not RWO"
    ),
    pytest.param(claim(), volume(access_modes=["ReadWriteMany"]), Reason.ACCESS_MODES_MISMATCH, id="RWX is not RWO"),
    pytest.param(claim(), volume(storage_class="slow"), Reason.CLASS_MISMATCH, id="another class"),
    pytest.param(claim(storage_class=None), volume(storage_class=""), None, id="no class is the empty class"),
    pytest.param(claim(storage_class=""), volume(), Reason.CLASS_MISMATCH, id="the empty class is not any class"),
    pytest.param(claim(), volume(reclaim_policy="Delete"), None, id="the reclaim policy does not matter"),
]


@pytest.mark.parametrize(("wanted", "offered", "rejection"), COMMON)
def test_both_paths(wanted: Claim, offered: Volume, rejection: Reason | None) -> None:
    assert scheduler_rejection(wanted, offered, HERE) == rejection
    assert controller_rejection(wanted, offered, delayed=False) == rejection


FIRST_FAILURE = [
    pytest.param(
        volume(size="1Gi", storage_class="slow", access_modes=["ReadOnlyMany"]),
        Reason.CLASS_MISMATCH,
        Reason.ACCESS_MODES_MISMATCH,
        id="each path asks its index first",
    ),
    pytest.param(
        volume(claim=MINE, storage_class="slow"),
        Reason.CLASS_MISMATCH,
        None,
        id="mine of another class: controller only",
    ),
    pytest.param(
        volume(claim=MINE, access_modes=[]), None, Reason.ACCESS_MODES_MISMATCH, id="mine without modes: scheduler only"
    ),
    pytest.param(volume(access_modes=["ReadWriteOnce", "Odd"]), None, None, id="an unknown mode does not matter"),
    pytest.param(
        volume(size="1Gi", volume_mode="Block", deleting=True),
        Reason.TOO_SMALL,
        Reason.TOO_SMALL,
        id="size before mode",
    ),
    pytest.param(
        volume(phase="Failed", labels={}, zone="b", access_modes=[]),
        Reason.NOT_AVAILABLE,
        Reason.ACCESS_MODES_MISMATCH,
        id="phase before affinity before modes",
    ),
]


@pytest.mark.parametrize(("offered", "scheduler", "controller"), FIRST_FAILURE)
def test_says_the_first_failure_of_each_path(
    offered: Volume, scheduler: Reason | None, controller: Reason | None
) -> None:
    assert scheduler_rejection(claim(), offered, HERE) == scheduler
    assert controller_rejection(claim(), offered, delayed=False) == controller


def test_a_mode_only_we_do_not_know_is_seen_by_the_scheduler_alone() -> None:
    odd = claim(access_modes=["Odd"])
    assert scheduler_rejection(odd, volume(access_modes=["Odd"]), HERE) is None
    assert controller_rejection(odd, volume(access_modes=["Odd"]), delayed=False) == Reason.ACCESS_MODES_MISMATCH


AFFINITIES = [
    pytest.param(None, True, id="no affinity"),
    pytest.param(NodeSelector(), False, id="no terms"),
    pytest.param(node_selector({}), False, id="an empty term"),
    pytest.param(node_selector({ZONE: "a"}), True, id="this zone"),
    pytest.param(node_selector({ZONE: "b"}), False, id="another zone"),
    pytest.param(node_selector({ZONE: "b"}, {ZONE: "a"}), True, id="either term"),
    pytest.param(node_selector({ZONE: "a", "rack": "1"}), False, id="both requirements"),
]


@pytest.mark.parametrize(("affinity", "reached"), AFFINITIES)
@pytest.mark.parametrize("reference_", [None, MINE], ids=["free", "mine"])
def test_affinity_is_evaluated_where_there_is_a_node(
    affinity: NodeSelector | None, reached: bool, reference_: ClaimReference | None
) -> None:
    offered = volume(node_affinity=affinity, claim=reference_)
    assert scheduler_rejection(claim(), offered, HERE) == (None if reached else Reason.NODE_AFFINITY_MISMATCH)
    assert scheduler_rejection(claim(), offered, None) is None
    assert controller_rejection(claim(), offered, delayed=False) is None


def test_free_volumes_of_a_class_that_waits_are_left_to_the_scheduler() -> None:
    assert controller_rejection(claim(), volume(), delayed=True) == Reason.DELAYED_BINDING
    assert controller_rejection(claim(), volume(claim=MINE), delayed=True) is None
    assert controller_rejection(claim(), volume(size="1Gi"), delayed=True) == Reason.TOO_SMALL


def test_a_volume_taken_by_another_claim_of_the_pod() -> None:
    assert scheduler_rejection(claim(), volume("pv-1"), HERE, {"pv-1"}) == Reason.TAKEN_BY_OTHER_CLAIM_OF_POD
    assert scheduler_rejection(claim(), volume("pv-2"), HERE, {"pv-1"}) is None


REQUESTED = [
    pytest.param(claim(), volume(), None, id="fits"),
    pytest.param(claim(), volume(phase="Released", zone="b"), None, id="neither phase nor affinity matter"),
    pytest.param(claim(selector=SELECTOR), volume(), None, id="the selector does not matter"),
    pytest.param(claim(), volume(claim=MINE, size="1Gi", deleting=True, storage_class="x"), None, id="mine: no test"),
    pytest.param(claim(), volume(claim="default/other", size="1Gi"), Reason.CLAIMED_BY_OTHER, id="another's"),
    pytest.param(claim(), volume(deleting=True, size="1Gi"), Reason.VOLUME_DELETING, id="being deleted"),
    pytest.param(claim(), volume(size="1Gi", storage_class="x"), Reason.TOO_SMALL, id="too small"),
    pytest.param(claim(size="1001m"), volume(size="2"), None, id="rounded up to whole bytes"),
    pytest.param(claim(size="2"), volume(size="1001m"), None, id="rounded up on the volume too"),
    pytest.param(claim(), volume(storage_class="x", attributes_class="y"), Reason.CLASS_MISMATCH, id="class"),
    pytest.param(
        claim(), volume(attributes_class="y", volume_mode="Block"), Reason.ATTRIBUTES_CLASS_MISMATCH, id="attributes"
    ),
    pytest.param(claim(), volume(volume_mode="Block", access_modes=[]), Reason.VOLUME_MODE_MISMATCH, id="volume mode"),
    pytest.param(claim(), volume(access_modes=[]), Reason.ACCESS_MODES_MISMATCH, id="access modes"),
]


@pytest.mark.parametrize(("wanted", "offered", "rejection"), REQUESTED)
def test_a_volume_requested_by_name(wanted: Claim, offered: Volume, rejection: Reason | None) -> None:
    assert requested_rejection(wanted, offered) == rejection


def test_class_none_and_empty_are_the_same_for_matching() -> None:
    assert class_of(claim(storage_class=None)) == class_of(volume(storage_class="")) == ""


def test_mine_needs_a_reference() -> None:
    assert not is_mine(claim(), volume())


MODES = [
    pytest.param("Immediate", "Immediate", id="immediate"),
    pytest.param("WaitForFirstConsumer", "WaitForFirstConsumer", id="waits"),
    pytest.param("Odd", "Immediate", id="anything else is not waiting"),
    pytest.param(None, None, id="unset is an error"),
]


@pytest.mark.parametrize(("stated", "mode"), MODES)
def test_binding_mode(stated: str | None, mode: str | None) -> None:
    assert binding_mode(claim(), {"fast": storage_class(binding_mode=stated)}) == mode


@pytest.mark.parametrize("name", [None, "", "gone"])
def test_without_a_class_object_binding_is_immediate(name: str | None) -> None:
    assert binding_mode(claim(storage_class=name), {"": storage_class("")}) == "Immediate"


def test_the_default_class_is_the_newest_then_the_first_by_name() -> None:
    later = EPOCH + timedelta(seconds=1)
    old, late_b = storage_class("a", is_default=True), storage_class("b", is_default=True, created=later)
    late_c, plain = storage_class("c", is_default=True, created=later), storage_class("d", created=later)
    undated = storage_class("e", is_default=True, created=None)
    assert default_class([old, late_c, late_b, plain, undated]) == late_b
    assert default_class([undated, old]) == old
    assert default_class([plain]) is None
