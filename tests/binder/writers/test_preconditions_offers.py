"""When a volume that changed since it was chosen is still the one that was chosen."""

import pytest

from binder.reservation.contract import Annotations
from binder.writers.preconditions import same_offer
from kube.objects.model import Volume
from tests.binder.world import reservation
from tests.builders import claim, volume
from tests.fake_clock import START

DATA = claim("data", uid="uid-persistentvolumeclaims-default/data")


@pytest.mark.parametrize(
    ("fresh", "same"),
    [
        pytest.param(volume(resource_version=9), True, id="only its version"),
        pytest.param(volume(annotations={"somebody.example/note": "x"}), True, id="an annotation of others"),
        pytest.param(volume(annotations=reservation("data")), True, id="reserved for the claim"),
        pytest.param(volume(annotations=reservation("other")), False, id="reserved for another"),
        pytest.param(volume(annotations=reservation("other", minutes=-10)), True, id="reserved for another till now"),
        pytest.param(volume(claim="ns/other"), False, id="taken"),
        pytest.param(volume(phase="Failed"), False, id="failed"),
        pytest.param(volume(deleting=True), False, id="being deleted"),
        pytest.param(volume(size="1Gi"), False, id="shrunk"),
        pytest.param(volume(labels={"tier": "gold"}), False, id="relabelled"),
        pytest.param(volume(uid="other"), False, id="recreated"),
    ],
)
def test_same_offer(fresh: Volume, same: bool) -> None:
    assert same_offer(volume(), fresh, DATA, Annotations(), START) is same
