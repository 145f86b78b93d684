from datetime import datetime, timedelta

import pytest

from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects import model
from kube.objects.model import Record
from scheduler.queue.expiry import RECHECK_SECONDS, VOLUMES_EXAMINED, expires_in
from scheduler.volumes.volumes import pod_info
from tests import builders
from tests.scheduler.plugin_results import storage

NOW = builders.EPOCH
CLASS = builders.storage_class()


def held(name: str, seconds: int, claim: str = "other") -> model.Volume:
    kept = VolumeReservation(f"default/{claim}", f"uid-default-{claim}", NOW, at(seconds), Holder("me", 1))
    return builders.volume(name, annotations=Annotations().for_volume(kept))


def promised(seconds: int) -> model.Claim:
    annotations = Annotations().for_claim(ClaimReservation("pv-1", NOW, at(seconds)))
    return builders.claim(annotations={key: value for key, value in annotations.items() if value is not None})


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("records", "seconds"),
    [
        pytest.param([builders.claim(), builders.volume()], None, id="nothing is held"),
        pytest.param([builders.claim(), held("a", 90), held("b", 40)], 40.0, id="the first that ends"),
        pytest.param([builders.claim(), held("a", 0), held("b", 40)], 40.0, id="one that ended stands in no way"),
        pytest.param([builders.claim(), held("a", 40, "data")], None, id="one for the pod's claim neither"),
        pytest.param([builders.claim(size="99Gi"), held("a", 40)], None, id="nor one of a volume too small"),
        pytest.param([promised(20), held("a", 40)], 20.0, id="the claim's own confines it"),
    ],
)
def test_when_the_first_reservation_ends(records: list[Record], seconds: float | None) -> None:
    view = storage(CLASS, *records)
    assert expires_in(pod_info(builders.pod(claims=["data"]), view, NOW), view, NOW) == seconds


def test_with_too_many_volumes_it_is_looked_again_soon() -> None:
    view = storage(CLASS, builders.claim(), *(held(f"pv-{number}", 90) for number in range(VOLUMES_EXAMINED + 1)))
    assert expires_in(pod_info(builders.pod(claims=["data"]), view, NOW), view, NOW) == RECHECK_SECONDS


def test_a_pod_without_claims_waits_for_no_end() -> None:
    view = storage(held("a", 40))
    assert expires_in(pod_info(builders.pod(), view, NOW), view, NOW) is None
