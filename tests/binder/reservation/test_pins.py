"""What keeps a volume for a name: what is written is read back, and what cannot be read is named."""

import pytest

from binder.reservation.contract import Annotations, Holder
from binder.reservation.pins import (
    MAX_NAME,
    KeptVolume,
    Pins,
    Replacement,
    ReplicaHold,
    for_hold,
    for_kept,
    for_replacement,
    may_end,
    names_as_pinned,
    pins_of,
)
from binder.reservation.writes import bind_volume, end_hold, hold_volume
from kube.objects.model import BOUND_BY_CONTROLLER, ClaimReference
from tests.builders import claim, reference, volume

OURS = Annotations()
HOLD = ReplicaHold("ns/data-db-3", "uid-set", Holder("host_1", 7))
REPLACEMENT = Replacement("ns/data-db-3", "uid-claim", "pv-old", "uid-ns")
KEPT = KeptVolume("ns/data-db-3", "uid-claim", "uid-ns")
COMING = claim("data-db-3", namespace="ns", uid="")


@pytest.mark.parametrize("ours", [Annotations(), Annotations("other.example/")])
def test_what_is_written_is_read_back(ours: Annotations) -> None:
    assert pins_of(volume(annotations=for_hold(HOLD, ours)), ours) == Pins(hold=HOLD)
    assert pins_of(volume(annotations=for_replacement(REPLACEMENT, ours)), ours) == Pins(replacement=REPLACEMENT)
    assert pins_of(volume(annotations=for_kept(KEPT, ours)), ours) == Pins(kept=KEPT)
    both = for_kept(KEPT, ours) | for_replacement(REPLACEMENT, ours)
    assert pins_of(volume(annotations=both), ours) == Pins(replacement=REPLACEMENT, kept=KEPT)
    assert pins_of(volume(annotations=for_hold(HOLD, Annotations("third.example/"))), ours) is None


@pytest.mark.parametrize(
    ("written", "key", "value"),
    [
        pytest.param(for_hold(HOLD, OURS), "held-for", None, id="no claim"),
        pytest.param(for_hold(HOLD, OURS), "held-for", "data-db-3", id="a claim without a namespace"),
        pytest.param(for_hold(HOLD, OURS), "held-for", "ns/" + "x" * (MAX_NAME + 1), id="a claim that is too long"),
        pytest.param(for_hold(HOLD, OURS), "held-set-uid", "", id="no set"),
        pytest.param(for_hold(HOLD, OURS), "held-by", "host_1", id="a holder without a transition"),
        pytest.param(for_hold(HOLD, OURS), "held-by", "h" * 600 + "/1", id="a holder that is too long"),
        pytest.param(for_replacement(REPLACEMENT, OURS), "replaces", "ns/data/uid", id="no volume replaced"),
        pytest.param(for_replacement(REPLACEMENT, OURS), "replaces", "ns/data/uid/pv/1", id="one part too many"),
        pytest.param(for_replacement(REPLACEMENT, OURS), "namespace-uid", None, id="no uid of the namespace"),
        pytest.param(for_kept(KEPT, OURS), "was-for", "ns/data", id="no uid of the claim"),
        pytest.param(for_kept(KEPT, OURS), "namespace-uid", "u" * (MAX_NAME + 1), id="a uid that is too long"),
    ],
)
def test_what_cannot_be_read_pins_the_volume_all_the_same(written: dict[str, str], key: str, value: str | None) -> None:
    broken = {name: text for name, text in written.items() if name != OURS.prefix + key}
    broken |= {} if value is None else {OURS.prefix + key: value}
    pins = pins_of(volume(annotations=broken), OURS)
    assert pins is not None
    assert (pins.hold, pins.replacement, pins.kept) == (None, None, None)
    assert pins.garbage
    assert "cannot be read" in str(pins)


@pytest.mark.parametrize(
    ("named", "phase", "bound_to", "ends"),
    [
        pytest.param("ns/data-db-3", "Available", None, True, id="as it was written"),
        pytest.param("ns/data-db-3", "Pending", None, True, id="restored from a backup"),
        pytest.param("ns/data-db-3", "Available", "", True, id="the claim has appeared"),
        pytest.param("ns/data-db-3", "Available", "pv-2", True, id="the claim has another volume"),
        pytest.param("ns/data-db-3", "Available", "pv-1", False, id="the claim names it"),
        pytest.param("ns/data-db-3", "Bound", None, False, id="bound"),
        pytest.param("ns/data-db-3", "Released", None, False, id="released: it may hold data"),
        pytest.param("ns/other", "Available", None, False, id="an administrator gave it to another name"),
    ],
)
def test_a_claim_ref_ends_with_its_hold_only_while_it_had_no_effect(
    named: str, phase: str, bound_to: str | None, *, ends: bool
) -> None:
    held = volume("pv-1", annotations=for_hold(HOLD, OURS), claim=named, phase=phase)
    owner = None if bound_to is None else claim("data-db-3", namespace="ns", volume_name=bound_to)
    assert may_end(held, owner, OURS) is ends


def test_a_claim_ref_with_a_uid_is_not_the_holds() -> None:
    held = volume(annotations=for_hold(HOLD, OURS), claim=reference("ns/data-db-3", "uid-1"))
    assert not may_end(held, None, OURS)


def test_a_hold_is_written_without_a_uid_and_removed_with_every_key() -> None:
    body = hold_volume(HOLD, COMING, OURS)
    named = ClaimReference("ns", "data-db-3")
    assert body["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "ns",
        "name": "data-db-3",
    }
    held = volume(annotations=body["metadata"]["annotations"], claim=named)
    assert end_hold(held, OURS, clear_reference=True) == {
        "metadata": {"annotations": dict.fromkeys(body["metadata"]["annotations"])},
        "spec": {"claimRef": None},
    }
    assert "spec" not in end_hold(held, OURS, clear_reference=False)


def test_a_bind_fulfils_a_hold_and_keeps_what_a_replacement_needs() -> None:
    owner = claim("data-db-3", namespace="ns", uid="uid-new")
    held = volume(annotations=for_hold(HOLD, OURS), claim="ns/data-db-3")
    written = bind_volume(held, owner, OURS)["metadata"]["annotations"]
    assert written == {**dict.fromkeys(for_hold(HOLD, OURS)), BOUND_BY_CONTROLLER: "yes"}
    replacing = volume(annotations=for_replacement(REPLACEMENT, OURS), claim="ns/data-db-3")
    assert bind_volume(replacing, owner, OURS)["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}
    assert not names_as_pinned(volume(annotations=for_kept(KEPT, OURS), claim="ns/data-db-3"), OURS)
