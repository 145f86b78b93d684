"""What `why` says of a StatefulSet's replicas to come, by the volumes that are held for them and the Events."""

from typing import Any

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import NAMESPACE, NONE_FOR_FOUR, Document, event, facts_of, held_for, pod, volume
from why.errors import WhyError
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Source
from why.report.report import Item

HELD = event("StatefulSet", "db", "VolumesHeld", "Volumes are held for replica 3", type="Normal")


def about(name: str, *documents: Document, **how: Any) -> Item | None:
    """What is said of the set itself, beside its pods."""
    report = report_on(facts_of(*documents, **how), (parse_target(f"statefulset/{name}"),), NAMESPACE)
    items = [item for item in report.items if item.kind == "StatefulSet"]
    return items[0] if items else None


def replica(owner: str, ordinal: int, template: str = "data") -> Document:
    reference = {"kind": "StatefulSet", "name": owner, "controller": True}
    about = {"ownerReferences": [reference]}
    return pod(f"{owner}-{ordinal}", f"{template}-{owner}-{ordinal}", metadata=about)


def volumes_named(item: Item | None) -> list[str]:
    assert item is not None
    return [each.object for each in item.evidence if each.object.startswith("pv/")]


def said_of(uid: str) -> Document:
    return {**HELD, "involvedObject": {**HELD["involvedObject"], "uid": uid}}


def test_it_names_the_volume_and_the_claim_of_each_replica() -> None:
    held = [held_for("db", 4, "pv-4"), held_for("db", 3, "pv-7"), held_for("db", 3, "pv-8", template="log")]
    item = about("db", *held, volume("free"), HELD)
    assert item is not None
    assert (item.code, item.problem) == (Reason.VOLUMES_HELD, False)
    assert item.message == "Volumes are held for replicas 3-4."
    assert [(each.object, each.found) for each in item.evidence] == [
        ("pv/pv-7", "held for claim data-db-3, zone a"),
        ("pv/pv-8", "held for claim log-db-3, zone a"),
        ("pv/pv-4", "held for claim data-db-4, zone a"),
    ]


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([held_for("db", 3, "pv-3")], "Volumes are held for replica 3; none for replica 4."),
        ([], "No volumes are held; none for replica 4."),
    ],
)
def test_it_says_which_replica_gets_none_and_quotes_why(held: list[Document], message: str) -> None:
    item = about("db", *held, NONE_FOR_FOUR)
    assert item is not None
    assert (item.code, item.problem, item.message) == (Reason.VOLUMES_NOT_HELD, True, message)
    assert "at most 1 of 2 volumes of class fast are held" in item.evidence[0].found
    assert item.next == ("pvc-prebinder simulate -n web --fill statefulset/db",)


def test_a_set_without_pods_is_explained_by_its_holds_alone_and_is_an_error_without() -> None:
    assert about("db", held_for("db", 0, "pv-1")) is not None
    with pytest.raises(WhyError, match='no pod of statefulset "db"'):
        about("db", HELD, volume("free"))


def test_fulfilled_holds_are_not_mentioned() -> None:
    bound = held_for("db", 3, "pv-3")
    bound["status"] = {"phase": "Bound"}
    assert about("db", replica("db", 0), bound, HELD) is None


def test_holds_of_a_set_whose_name_ends_alike_are_its_own() -> None:
    other = held_for("my-db", 3, "pv-3")
    assert volumes_named(about("my-db", other, replica("my-db", 0), replica("db", 0))) == ["pv/pv-3"]
    assert about("db", other, replica("my-db", 0), replica("db", 0)) is None
    assert about("db", other, said_of("uid-db"), replica("db", 0)) is None
    own = held_for("db", 3, "pv-9", "uid-db")
    assert volumes_named(about("db", other, own, said_of("uid-db"))) == ["pv/pv-9"]


def test_holds_of_another_namespace_are_left_out() -> None:
    elsewhere = held_for("db", 3, "pv-3")
    elsewhere["metadata"]["annotations"]["scheduler.cloud.example/held-for"] = "other/data-db-3"
    assert about("db", elsewhere, replica("db", 0)) is None


def test_what_may_not_be_read_is_named() -> None:
    item = about("db", NONE_FOR_FOUR, without=[Source.VOLUMES])
    assert item is not None
    assert [each.resource for each in item.skipped] == ["persistentvolumes"]
    assert item.message == "No volumes are known to be held; none for replica 4."
