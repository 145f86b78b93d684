"""Will it help here: by class, what the controller does and why not more."""

import pytest

from binder.matching.rejection import Reason
from binder.reservation.contract import Annotations
from kube.objects.model import StorageClass
from prebinder.preflight.class_outlook import class_checks, outlooks
from prebinder.preflight.doctor_checks import CheckState
from tests.builders import storage_class, volume

OURS = Annotations()


@pytest.mark.parametrize(
    ("subject", "available", "left_alone"),
    [
        pytest.param(storage_class(), 0, None, id="static"),
        pytest.param(storage_class(provisioner="csi.example.com"), 2, None, id="dynamic with volumes made ahead"),
        pytest.param(storage_class(provisioner="csi.example.com"), 0, Reason.DYNAMIC_CLASS, id="dynamic only"),
        pytest.param(
            storage_class(provisioner="csi.example.com", annotations={OURS.mode: "provision"}), 0, None, id="provision"
        ),
        pytest.param(storage_class(binding_mode="Immediate"), 2, Reason.IMMEDIATE_CLAIM, id="immediate"),
        pytest.param(storage_class(binding_mode=None), 2, Reason.IMMEDIATE_CLAIM, id="no binding mode"),
        pytest.param(storage_class(annotations={OURS.mode: "off"}), 2, Reason.MODE_OFF, id="off"),
    ],
)
def test_a_class_is_left_alone_for_a_reason(subject: StorageClass, available: int, left_alone: Reason | None) -> None:
    volumes = [volume(f"pv-{number}") for number in range(available)]
    bound = volume("bound", phase="Bound", claim="default/data")
    (outlook,) = outlooks([subject], [*volumes, bound, volume("other", storage_class="slow")], OURS)
    assert outlook.left_alone is left_alone
    first, *rest = class_checks([outlook])
    assert first.state is (CheckState.OK if left_alone is None else CheckState.NOTE)
    assert len(rest) == (left_alone is not None)


def test_one_class_that_it_helps_is_enough() -> None:
    classes = [storage_class("b"), storage_class("a", provisioner="csi.example.com")]
    checks = list(class_checks(outlooks(classes, [], OURS)))
    assert [check.subject for check in checks] == ["StorageClass a", "StorageClass b"]


@pytest.mark.parametrize(
    ("pools", "affinity", "reported", "gains"),
    [
        ({"fast": 3}, None, "dynamic, 3 pools reported", "would place all new volumes of a gated pod together"),
        ({"fast": 1}, None, "dynamic, 1 pool reported", "would place all new volumes of a gated pod together"),
        ({"other": 3}, "zone-a", "dynamic", "would select one place for all new volumes"),
        (None, "zone-a", "dynamic", "would select one place for all new volumes"),
        ({}, None, "dynamic", "`why`, `health`, the csi-agent"),
    ],
    ids=["pools", "one pool", "local volumes", "local volumes, reports not read", "reachable from everywhere"],
)
def test_a_dynamic_class_shows_what_mode_provision_would_gain(
    pools: dict[str, int] | None, affinity: str | None, reported: str, gains: str
) -> None:
    made = volume("made", phase="Bound", claim="default/data", zone=affinity)
    (outlook,) = outlooks([storage_class("fast", provisioner="csi.example.com")], [made], OURS, pools)
    assert outlook.found == reported
    assert gains in outlook.meaning
