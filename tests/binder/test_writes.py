"""Bodies of writes say only what changes."""

from binder.reservation import DEFAULT_PREFIX
from binder.writes import bind_claim, bind_volume, release_claim, release_volume
from tests.binder.world import reservation
from tests.builders import claim, reference, volume

NAMED = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
MARK = "pv.kubernetes.io/bound-by-controller"


def test_a_volume_that_named_the_claim_already_is_not_marked() -> None:
    """GetBindVolumeToClaim in component-helpers: only a volume that was not the claim's gets the mark."""
    ours = volume(claim=reference("default/data"))
    assert MARK in bind_volume(volume(), claim(), DEFAULT_PREFIX)["metadata"]["annotations"]
    assert bind_volume(ours, claim(resource_version=7), DEFAULT_PREFIX) == {
        "metadata": {"annotations": {}},
        "spec": {"claimRef": NAMED | {"uid": "uid-default-data", "resourceVersion": "7"}},
    }


def test_a_claim_that_named_the_volume_already_is_only_completed() -> None:
    assert bind_claim(claim(volume_name="pv-1"), "pv-1", DEFAULT_PREFIX) == {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    }


def test_a_release_removes_what_is_there_and_nothing_else() -> None:
    held = volume(annotations=reservation("data") | {MARK: "yes", "somebody.example/note": "x"})
    kept = release_volume(held, DEFAULT_PREFIX, clear_reference=False)
    freed = release_volume(held, DEFAULT_PREFIX, clear_reference=True)
    assert kept == {"metadata": {"annotations": dict.fromkeys(reservation("data"))}}
    assert freed == {
        "metadata": {"annotations": dict.fromkeys([*reservation("data"), MARK])},
        "spec": {"claimRef": None},
    }
    said = claim(annotations={f"{DEFAULT_PREFIX}reserved-volume": "pv-1", "somebody.example/note": "x"})
    assert release_claim(said, DEFAULT_PREFIX) == {
        "metadata": {"annotations": {f"{DEFAULT_PREFIX}reserved-volume": None}}
    }
