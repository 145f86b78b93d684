"""The one word that metrics have for a claim that is not bound."""

import pytest

from binder.matching.rejection import Reason
from binder.planning.pending import pending_reason
from kube.objects.model import Claim, Record
from kube.store.store import snapshot_of
from tests.builders import claim, pod, storage_class

OBJECTS: list[Record] = [
    storage_class("fast"),
    storage_class("now", binding_mode="Immediate"),
    pod("consumer", claims=("used", "told", "named")),
]


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        pytest.param(claim("idle"), Reason.WAIT_FOR_FIRST_CONSUMER, id="no consumer"),
        pytest.param(claim("idle", storage_class="now"), Reason.IMMEDIATE_CLAIM, id="Immediate"),
        pytest.param(claim("idle", storage_class=None), Reason.IMMEDIATE_CLAIM, id="no class binds at once"),
        pytest.param(claim("idle", storage_class="gone"), Reason.CLASS_NOT_FOUND, id="class missing"),
        pytest.param(claim("used"), Reason.PROGRESSING, id="its pod was not looked at yet"),
        pytest.param(claim("told"), Reason.NO_NODE_FITS, id="its pod was rejected"),
        pytest.param(claim("named", volume_name="gone"), Reason.REQUESTED_VOLUME_MISSING, id="names a missing volume"),
    ],
)
def test_reason(subject: Claim, reason: Reason) -> None:
    snapshot = snapshot_of([*OBJECTS, subject])
    assert pending_reason(subject, snapshot, {"default/told": Reason.NO_NODE_FITS}) is reason
