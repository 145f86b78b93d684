"""A volume that keeps the data of a deleted claim: whose data it is, and that one claim alone is given it."""

import json
import shlex
from datetime import timedelta
from typing import Any

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    NAMESPACE,
    Document,
    assert_problem,
    at,
    claim,
    metadata,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source
from why.report.report import Item

NOW_CLASS = storage_class(mode="Immediate")
HOUR = timedelta(hours=1)


def released(owner: str = "data", namespace: str = NAMESPACE) -> Document:
    """A volume that was released an hour ago."""
    status = {"lastPhaseTransitionTime": at(HOUR)}
    made = volume(claim=owner, claim_uid="old", phase="Released", status=status)
    made["spec"]["claimRef"]["namespace"] = namespace
    return made


def namespace(name: str, ago: timedelta) -> Document:
    about = {**metadata(name, None), "creationTimestamp": at(ago)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": about}


OLD, NEW = namespace(NAMESPACE, 9 * HOUR), namespace(NAMESPACE, HOUR / 2)


def patch_of(item: Item) -> list[dict[str, Any]]:
    """Return the patch as the shell passes it on."""
    words = shlex.split(item.next[0])
    assert words[:6] == ["kubectl", "patch", "pv", "pv-1", "--type=json", "-p"]
    patch: list[dict[str, Any]] = json.loads(words[6])
    return patch


@pytest.mark.parametrize(
    ("wanted", "held", "whose"),
    [
        pytest.param(claim(), released(), "an earlier claim of the same name", id="its namesake's"),
        pytest.param(claim(), released("other"), "claim web/other", id="another claim's"),
        pytest.param(
            claim(), released("theirs", "bank"), "claim bank/theirs, of another namespace than data", id="a tenant's"
        ),
        pytest.param(
            claim(spec={"volumeName": "pv-1"}),
            released("theirs", "bank"),
            "claim bank/theirs",
            id="one that it requests",
        ),
    ],
)
def test_the_volume_goes_to_the_claim_alone_and_the_owner_of_the_data_is_named(
    wanted: Document, held: Document, whose: str
) -> None:
    item = why("pvc/data", wanted, held, NOW_CLASS, OLD)
    assert_problem(item, Reason.VOLUME_STILL_CLAIMED)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "web", "name": "data"}
    assert patch_of(item) == [
        {"op": "test", "path": "/spec/claimRef/uid", "value": "old"},
        {"op": "replace", "path": "/spec/claimRef", "value": reference},
    ]
    assert whose in item.message
    assert whose in item.advice[0]


def test_the_data_of_an_earlier_namespace_is_given_to_no_claim_of_its_name() -> None:
    item = why("pvc/data", claim(), released(), NOW_CLASS, NEW)
    assert_problem(item, Reason.VOLUME_STILL_CLAIMED)
    assert item.next == ("kubectl get pv pv-1 -o yaml",)
    assert "namespace web was created again" in item.advice[0]


@pytest.mark.parametrize("unread", [[OLD], []], ids=["namespaces are not read", "neither is the namespace"])
def test_a_namespace_of_unknown_age_is_to_be_looked_at_first(unread: list[Document]) -> None:
    item = why("pvc/data", claim(), released(), NOW_CLASS, *unread, without=[Source.NAMESPACES])
    assert "See first that namespace web was not created again" in item.advice[0]


def test_a_released_volume_is_kept_for_the_name_of_its_claim() -> None:
    item = why("pv/pv-1", released(), OLD)
    assert_problem(item, Reason.VOLUME_RELEASED)
    assert patch_of(item) == [
        {"op": "test", "path": "/spec/claimRef/uid", "value": "old"},
        {"op": "remove", "path": "/spec/claimRef/uid"},
    ]
    assert "for a claim that is called web/data, and for no other" in item.advice[0]


@pytest.mark.parametrize(
    ("others", "says"),
    [
        pytest.param([claim(volume="pv-2"), OLD], "claim web/data has volume pv-2", id="its name is bound elsewhere"),
        pytest.param([NEW], "namespace web was created again", id="its namespace is another one"),
    ],
)
def test_a_released_volume_whose_name_another_has_is_kept_for_none(others: list[Document], says: str) -> None:
    item = why("pv/pv-1", released(), *others)
    assert_problem(item, Reason.VOLUME_RELEASED)
    assert item.next == ("kubectl get pv pv-1 -o yaml",)
    assert says in item.advice[0]


def test_without_claims_it_is_to_be_looked_at_first_that_the_name_is_free() -> None:
    item = why("pv/pv-1", released(), OLD, without=[Source.CLAIMS])
    assert "See first that no claim web/data has another volume" in item.advice[0]
