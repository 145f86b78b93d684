"""The rules about `pvc-prebinder replace`: what violates each, and the nearest thing that does not."""

from collections.abc import Callable

import pytest

from soak.judge.deeds import REPLACED
from soak.judge.to_come.holds import KEPT
from soak.judge.to_come.replacements import PROOFS, SWAPPED
from soak.judge.writes import Party
from tests.soak.story import Story, claim, node, pod, volume

OTHER, REPLACE = Party.OTHER, Party.REPLACE
CLAIM = "soak/data-db-0"
DELETED = "nothing is deleted"
CONDITIONAL = "every write is conditional"
Write = Callable[[Story], None]


def stage() -> Story:
    """A replica on a node, with a local volume; another volume is free."""
    story = Story()
    story.write(OTHER, "Node", "n1", node())
    story.write(
        OTHER, "PersistentVolume", "v1", volume(claim="data-db-0", uid="uid-data-db-0", phase="Bound", node="n1")
    )
    story.write(OTHER, "PersistentVolume", "v2", volume("v2", node="n2"))
    story.write(OTHER, "PersistentVolumeClaim", CLAIM, claim("data-db-0", "v1", completed=True))
    running = pod("db-0", "data-db-0")
    running["spec"]["nodeName"] = "n1"
    story.write(OTHER, "Pod", "soak/db-0", running)
    story.wait(10)
    return story


def delete_claim(story: Story, party: Party = REPLACE, **preconditions: str) -> None:
    known = preconditions or {"uid": "uid-data-db-0", "resourceVersion": "1"}
    gone = claim("data-db-0", "v1", completed=True)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    revision = story.write(None, "PersistentVolumeClaim", CLAIM, gone)
    story.request(party, "delete", "PersistentVolumeClaim", CLAIM, {"preconditions": known}, revision)


def without_its_node(story: Story) -> None:
    story.write(OTHER, "Node", "n1", None)


def deleted_after_its_node(story: Story) -> None:
    without_its_node(story)
    delete_claim(story)


def deleted_beside_its_node(story: Story) -> None:
    delete_claim(story)


def deleted_when_its_node_had_just_returned(story: Story) -> None:
    without_its_node(story)
    story.wait(10)
    story.write(OTHER, "Node", "n1", node())
    delete_claim(story)


def deleted_although_its_volume_is_within_reach(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(claim="data-db-0", uid="uid-data-db-0", phase="Bound"))
    story.write(OTHER, "Node", "n2", node("n2"))
    without_its_node(story)
    story.wait(10)
    delete_claim(story)


def deleted_with_its_volume_while_the_pod_runs(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", None)
    delete_claim(story)


def deleted_whatever_it_has_become(story: Story) -> None:
    without_its_node(story)
    delete_claim(story, uid="uid-data-db-0")


def deleted_by_the_controller(story: Story) -> None:
    without_its_node(story)
    delete_claim(story, Party.CONTROLLER)


def a_volume_deleted(story: Story) -> None:
    story.request(REPLACE, "delete", "PersistentVolume", "v1", {"preconditions": {"uid": "a", "resourceVersion": "1"}})


def evicted(story: Story) -> None:
    options = {"preconditions": {"uid": "uid-db-0", "resourceVersion": "1"}}
    _request_eviction(story, {"deleteOptions": options})


def evicted_whatever_it_has_become(story: Story) -> None:
    _request_eviction(story, {})


def _request_eviction(story: Story, body: dict[str, object]) -> None:
    story.request(REPLACE, "create", "Pod", "soak/db-0", body, subresource="eviction")


def reserve(story: Story, **how: str) -> None:
    marks = {"claim": "data-db-0", "replaces": f"{CLAIM}/uid-data-db-0/v1", "node": "n2", **how}
    story.write(REPLACE, "PersistentVolume", "v2", volume("v2", **marks))


def reserved_for_another_replica(story: Story) -> None:
    reserve(story, claim="data-db-1")


def reserved_by_uid(story: Story) -> None:
    reserve(story, uid="uid-data-db-0")


def reserved_although_kept(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v2", volume("v2", was_for="soak/data-db-3/uid"))
    reserve(story, was_for="soak/data-db-3/uid")


def reserved_although_unhealthy(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v2", volume("v2", health="DataLoss"))
    reserve(story, health="DataLoss")


@pytest.mark.parametrize(
    ("deed", "broken"),
    [
        (deleted_after_its_node, set()),
        (deleted_beside_its_node, {PROOFS}),
        (deleted_when_its_node_had_just_returned, set()),
        (deleted_although_its_volume_is_within_reach, {PROOFS}),
        (deleted_with_its_volume_while_the_pod_runs, {PROOFS}),
        (deleted_whatever_it_has_become, {CONDITIONAL}),
        (deleted_by_the_controller, {DELETED, "only our fields"}),
        (a_volume_deleted, {DELETED}),
        (evicted, set()),
        (evicted_whatever_it_has_become, {CONDITIONAL}),
        (reserve, set()),
        (reserved_for_another_replica, {SWAPPED}),
        (reserved_by_uid, {SWAPPED}),
        (reserved_although_kept, {KEPT}),
        (reserved_although_unhealthy, {"no unhealthy volume"}),
    ],
)
def test_what_violates_a_rule(deed: Write, broken: set[str]) -> None:
    story = stage()
    deed(story)
    assert story.rules() == broken


def test_a_volume_that_the_claim_has_got_in_place_of_another_is_counted() -> None:
    story = stage()
    reserve(story)
    story.write(OTHER, "PersistentVolume", "v2", volume("v2", claim="data-db-0", uid="uid-of-the-next", phase="Bound"))
    assert story.judged().deeds == {REPLACED: 1}
