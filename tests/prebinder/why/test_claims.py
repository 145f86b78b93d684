"""Each cause in a claim, its class or the volumes that are there: alone, and hidden under another."""

from typing import Any

import pytest

from binder.matching.rejection import Reason
from prebinder.why.facts.facts import Source
from tests.prebinder.why.documents import (
    DRIVER,
    Document,
    claim,
    csi_node,
    default_class,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)

IMMEDIATE = storage_class(mode="Immediate")
DYNAMIC = storage_class(provisioner=DRIVER, mode="Immediate")
SELECTOR = {"selector": {"matchLabels": {"tier": "gold"}}}


def requesting(name: str, **how: Any) -> Document:
    """A claim that asks for a volume by name and is not bound to it."""
    return claim(spec={"volumeName": name, **how.pop("spec", {})}, **how)


CASES = [
    pytest.param(Reason.CLAIM_LOST, [claim(volume="gone", status={"phase": "Lost"})], id="lost"),
    pytest.param(Reason.NO_STORAGE_CLASS, [claim(storage_class=None)], id="no class, no default"),
    pytest.param(Reason.NO_STORAGE_CLASS, [claim(storage_class=""), default_class("slow")], id="opted out of classes"),
    pytest.param(Reason.CLASS_NOT_FOUND, [claim(storage_class="fsat"), storage_class()], id="class not found"),
    pytest.param(Reason.REQUESTED_VOLUME_MISSING, [requesting("pv-9"), storage_class()], id="requested: missing"),
    pytest.param(
        Reason.REQUESTED_VOLUME_MISMATCH, [requesting("pv-1", size="20Gi"), volume(), IMMEDIATE], id="requested: small"
    ),
    pytest.param(
        Reason.VOLUME_STILL_CLAIMED,
        [requesting("pv-1"), volume(claim="data", claim_uid="old", phase="Released"), IMMEDIATE],
        id="requested: released",
    ),
    pytest.param(Reason.PREBOUND_INCOMPLETE, [requesting("pv-1"), volume(), IMMEDIATE], id="requested: on its way"),
    pytest.param(
        Reason.SELECTOR_ON_DYNAMIC_CLASS, [claim(spec=SELECTOR), DYNAMIC, driver()], id="selector on a dynamic class"
    ),
    pytest.param(Reason.NO_VOLUME_FITS, [claim(), volume(size="5Gi"), IMMEDIATE], id="no volume fits"),
    pytest.param(Reason.PROVISIONER_MISSING, [claim(), DYNAMIC, driver("other.csi.example")], id="no such driver"),
    pytest.param(
        Reason.POD_BYPASSES_SCHEDULER,
        [claim(), storage_class(), pod("db-0", "data", spec={"nodeName": "n1"}), node("n1")],
        id="nodeName",
    ),
    # One hidden under another.
    pytest.param(
        Reason.CLASS_NOT_FOUND,
        [claim(storage_class="fsat", spec=SELECTOR), storage_class(), pod("db-0", "data")],
        id="no class, and a selector",
    ),
    pytest.param(
        Reason.SELECTOR_ON_DYNAMIC_CLASS, [claim(spec=SELECTOR), DYNAMIC], id="a selector, and no such driver either"
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [claim(), storage_class(provisioner=DRIVER), pod("db-0", "data"), node("n1", cordoned=True)],
        id="no driver, and the pod's only node is cordoned",
    ),
]


@pytest.mark.parametrize(("code", "documents"), CASES)
def test_the_cause_of_a_pending_claim(code: Reason, documents: list[Document]) -> None:
    item = why("pvc/data", *documents)
    assert (item.code, item.problem) == (code, True), item
    assert item.next
    assert all(command.startswith("kubectl ") for command in item.next)
    assert len(item.advice) == len(item.next)
    assert item.causes[0].name == "web/data"


NORMAL = [
    pytest.param(Reason.WAIT_FOR_FIRST_CONSUMER, [claim(), storage_class(), volume()], id="nobody uses it"),
    pytest.param(
        Reason.WAIT_FOR_FIRST_CONSUMER,
        [claim(), storage_class(provisioner=DRIVER), driver()],
        id="nobody uses it, and its driver would make a volume",
    ),
    pytest.param(Reason.BOUND, [claim(volume="pv-1"), volume(claim="data"), storage_class()], id="bound"),
    pytest.param(Reason.PROGRESSING, [claim(), volume(), IMMEDIATE], id="a volume fits"),
]


@pytest.mark.parametrize(("code", "documents"), NORMAL)
def test_what_is_no_problem(code: Reason, documents: list[Document]) -> None:
    item = why("pvc/data", *documents)
    assert (item.code, item.problem) == (code, False), item


@pytest.mark.parametrize(
    "forbidden", [Source.CLASSES, Source.VOLUMES], ids=["storageclasses forbidden", "persistentvolumes forbidden"]
)
def test_without_a_right_nothing_is_guessed(forbidden: Source) -> None:
    item = why("pvc/data", claim(), volume(size="5Gi"), IMMEDIATE, without=[forbidden])
    assert (item.code, item.problem) == (Reason.INCONCLUSIVE, False)
    assert forbidden in item.message
    assert forbidden in {skipped.resource for skipped in item.skipped}


def test_a_class_that_is_not_readable_is_not_a_class_that_does_not_exist() -> None:
    assert why("pvc/data", claim(), without=[Source.CLASSES]).code is Reason.INCONCLUSIVE


def test_a_provisioner_that_reported_on_the_claim_is_there() -> None:
    told = event(
        "PersistentVolumeClaim", "data", "Provisioning", "External provisioner is provisioning", reporter=DRIVER
    )
    assert why("pvc/data", claim(), DYNAMIC, csi_node("n1"), told).code is not Reason.PROVISIONER_MISSING


def test_the_nearest_class_is_named() -> None:
    item = why("pvc/data", claim(storage_class="fsat"), storage_class())
    assert item.message == 'StorageClass "fsat" does not exist. Did you mean "fast"?'


def test_the_claim_of_another_namespace_is_not_named_to_who_may_not_read_it() -> None:
    held = volume(claim="theirs", phase="Released")
    held["spec"]["claimRef"]["namespace"] = "secret"
    item = why("pvc/data", requesting("pv-1"), held, IMMEDIATE)
    assert item.code is Reason.VOLUME_STILL_CLAIMED
    assert "theirs" not in str(item)
