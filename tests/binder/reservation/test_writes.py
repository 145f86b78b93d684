"""Bodies of writes say only what changes."""

import msgspec
import pytest

from binder.reservation.contract import Annotations
from binder.reservation.writes import (
    Patch,
    bind_claim,
    bind_volume,
    claim_status_bound,
    give_back_volume,
    release_claim,
    release_volume,
    select_node,
    take_volume,
)
from kube.objects.model import Volume
from tests.binder.world import reservation
from tests.builders import claim, reference, volume

NAMED = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
MARK = "pv.kubernetes.io/bound-by-controller"


def test_a_volume_that_named_the_claim_already_is_not_marked() -> None:
    """GetBindVolumeToClaim in component-helpers: only a volume that was not the claim's gets the mark."""
    ours = volume(claim=reference("default/data"))
    assert MARK in bind_volume(volume(), claim(), Annotations())["metadata"]["annotations"]
    assert bind_volume(ours, claim(resource_version=7), Annotations()) == {
        "metadata": {"annotations": {}},
        "spec": {"claimRef": NAMED | {"uid": "uid-default-data", "resourceVersion": "7"}},
    }


def test_a_volume_that_mode_prebind_committed_is_marked() -> None:
    record = Annotations().claim_ref_record(claim())
    ours = volume(claim=reference("default/data"), annotations=record)
    values = bind_volume(ours, claim(), Annotations())["metadata"]["annotations"]
    assert values == {MARK: "yes", Annotations().claim_ref: None}
    others = volume(claim=reference("default/data"), annotations=Annotations().claim_ref_record(claim("other")))
    assert MARK not in bind_volume(others, claim(), Annotations())["metadata"]["annotations"]


def test_a_claim_that_named_the_volume_already_is_only_completed() -> None:
    assert bind_claim(claim(volume_name="pv-1"), "pv-1", Annotations()) == {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    }


def test_a_release_removes_what_is_there_and_nothing_else() -> None:
    held = volume(annotations=reservation("data") | {MARK: "yes", "somebody.example/note": "x"})
    kept = release_volume(held, Annotations(), clear_reference=False)
    freed = release_volume(held, Annotations(), clear_reference=True)
    assert kept == {"metadata": {"annotations": dict.fromkeys(reservation("data"))}}
    assert freed == {
        "metadata": {"annotations": dict.fromkeys([*reservation("data"), MARK])},
        "spec": {"claimRef": None},
    }
    reserved = claim(annotations={Annotations().reserved_volume: "pv-1", "somebody.example/note": "x"})
    assert release_claim(reserved, Annotations()) == {
        "metadata": {"annotations": {Annotations().reserved_volume: None}}
    }


FULL = {"claimRef": NAMED | {"uid": "uid-default-data", "resourceVersion": "7"}}
GIVEN_BACK = {"spec": {"claimRef": None}}


@pytest.mark.parametrize(
    ("before", "taken", "given_back"),
    [
        pytest.param(
            volume(annotations=reservation("data")),
            {"metadata": {"annotations": {MARK: "yes"}}, "spec": FULL},
            {"metadata": {"annotations": {MARK: None}}, **GIVEN_BACK},
            id="free",
        ),
        pytest.param(volume(annotations={MARK: "yes"}), {"spec": FULL}, GIVEN_BACK, id="marked already"),
        pytest.param(
            volume(claim=reference("default/data")),
            {"spec": FULL},
            {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}},
            id="prebound by name",
        ),
    ],
)
def test_a_volume_is_taken_as_kube_scheduler_does_and_given_back_as_it_was(
    before: Volume, taken: Patch, given_back: Patch
) -> None:
    assert take_volume(before, claim(resource_version=7)) == taken
    assert give_back_volume(before) == given_back


def test_a_node_is_selected_and_the_selection_is_rolled_back() -> None:
    key = "volume.kubernetes.io/selected-node"
    assert select_node("node-1") == {"metadata": {"annotations": {key: "node-1"}}}
    assert select_node(None) == {"metadata": {"annotations": {key: None}}}


@pytest.mark.parametrize(
    ("volume", "status"),
    [
        pytest.param(
            {"metadata": {}, "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"]}},
            {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}},
            id="usual",
        ),
        pytest.param(
            {
                "metadata": {"annotations": {"volume.alpha.kubernetes.io/pre-resize-capacity": "5Gi"}},
                "spec": {
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteMany"],
                    "volumeAttributesClassName": "gold",
                },
            },
            {
                "phase": "Bound",
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "5Gi"},
                "currentVolumeAttributesClassName": "gold",
            },
            id="before its file system grew, with an attributes class",
        ),
    ],
)
def test_a_claims_status_says_what_its_volume_offers(volume: dict[str, object], status: dict[str, object]) -> None:
    assert claim_status_bound(msgspec.Raw(msgspec.json.encode(volume))) == {"status": status}
