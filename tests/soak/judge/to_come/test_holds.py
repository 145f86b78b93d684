"""The rules about holds and kept volumes: what violates each, and the nearest thing that does not."""

from collections.abc import Callable

import pytest

from soak import terrain
from soak.judge.deeds import HOLDS_USED
from soak.judge.facts import MAX_HELD
from soak.judge.remains import judge_remains
from soak.judge.to_come.holds import CAP, HOLDS, KEPT
from soak.judge.writes import Party
from tests.soak.story import CONTROLLER, START, Story, claim, reserved, storage_class, volume

OTHER = Party.OTHER
COMMITTED_FOR_NOBODY = "only gated or unschedulable pods are committed"
Write = Callable[[Story], None]


def stage() -> Story:
    story = Story()
    story.write(OTHER, "StorageClass", "disks", storage_class("complete"))
    for number in range(MAX_HELD + 2):
        story.write(OTHER, "PersistentVolume", f"v{number}", volume(f"v{number}"))
    story.wait(10)
    story.renew(CONTROLLER)
    return story


def hold(story: Story, number: int = 0, name: str = "", party: Party = CONTROLLER, **how: str) -> None:
    held = name or f"data-db-{number}"
    made = volume(f"v{number}", **{"claim": held, "held_for": f"soak/{held}", **how})
    story.write(party, "PersistentVolume", f"v{number}", made)


def held(story: Story) -> None:
    for number in range(MAX_HELD):
        hold(story, number)


def held_beyond_the_cap(story: Story) -> None:
    held(story)
    hold(story, MAX_HELD)


def held_beyond_what_others_have_just_marked(story: Story) -> None:
    hold(story, 0, party=OTHER)
    for number in range(1, MAX_HELD + 1):
        hold(story, number)


def held_again_after_one_has_ended(story: Story) -> None:
    held(story)
    story.write(CONTROLLER, "PersistentVolume", "v0", volume("v0"))
    hold(story, MAX_HELD)


def held_beside_one_that_is_bound(story: Story) -> None:
    held(story)
    hold(story, 0, party=OTHER, phase="Bound", uid="uid-data-db-0")
    hold(story, MAX_HELD)


def held_beside_one_that_a_user_has_just_freed(story: Story) -> None:
    held(story)
    hold(story, 0, party=OTHER, phase="Bound", uid="uid-data-db-0")
    story.wait(10)
    story.renew(CONTROLLER)
    hold(story, 0, party=OTHER, uid="uid-data-db-0")
    hold(story, MAX_HELD)


def held_by_uid(story: Story) -> None:
    hold(story, uid="uid-data-db-0")


def held_for_another_name_than_its_claim_ref_has(story: Story) -> None:
    hold(story, claim="data-db-7")


def held_twice(story: Story) -> None:
    hold(story, 0)
    hold(story, 1, "data-db-0")


def held_for_a_claim_that_exists(story: Story) -> None:
    story.write(OTHER, "PersistentVolumeClaim", "soak/data-db-0", claim("data-db-0"))
    story.wait(5)
    hold(story)


def held_for_a_claim_that_has_just_been_created(story: Story) -> None:
    story.write(OTHER, "PersistentVolumeClaim", "soak/data-db-0", claim("data-db-0"))
    hold(story)


def committed_without_a_hold(story: Story) -> None:
    story.write(CONTROLLER, "PersistentVolume", "v0", volume("v0", claim="data-db-0"))


def kept(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v0", volume("v0", was_for="soak/data-db-3/uid"))


def kept_and_held(story: Story) -> None:
    kept(story)
    hold(story, was_for="soak/data-db-3/uid")


def kept_and_reserved(story: Story) -> None:
    kept(story)
    story.write(CONTROLLER, "PersistentVolume", "v0", volume("v0", was_for="soak/data-db-3/uid", **reserved()))


def kept_and_published_as_unhealthy(story: Story) -> None:
    kept(story)
    marked = volume("v0", was_for="soak/data-db-3/uid", health="DataLoss")
    story.write(CONTROLLER, "PersistentVolume", "v0", marked)


@pytest.mark.parametrize(
    ("deed", "broken"),
    [
        (held, set()),
        (held_beyond_the_cap, {CAP}),
        (held_beyond_what_others_have_just_marked, set()),
        (held_again_after_one_has_ended, set()),
        (held_beside_one_that_is_bound, set()),
        (held_beside_one_that_a_user_has_just_freed, set()),
        (held_by_uid, {HOLDS}),
        (held_for_another_name_than_its_claim_ref_has, {HOLDS, COMMITTED_FOR_NOBODY}),
        (held_twice, {HOLDS}),
        (held_for_a_claim_that_exists, {HOLDS}),
        (held_for_a_claim_that_has_just_been_created, set()),
        (committed_without_a_hold, {COMMITTED_FOR_NOBODY}),
        (kept_and_held, {KEPT}),
        (kept_and_reserved, {KEPT}),
        (kept_and_published_as_unhealthy, set()),
    ],
)
def test_what_violates_a_rule(deed: Write, broken: set[str]) -> None:
    story = stage()
    deed(story)
    assert story.rules() == broken


def bound_by_name(story: Story, number: int = 0) -> None:
    """Kubernetes gives the volume to the claim that has been created."""
    hold(story, number, party=OTHER, uid=f"uid-data-db-{number}")


def test_holds_that_a_claim_used_are_counted_beside_those_written() -> None:
    story = stage()
    for number in range(2):
        hold(story, number)
    bound_by_name(story, 1)
    deeds = story.judged().deeds
    assert (deeds["holds written"], deeds[HOLDS_USED]) == (2, 1)


def test_a_hold_that_others_wrote_is_not_counted() -> None:
    story = stage()
    hold(story, party=OTHER)
    bound_by_name(story)
    assert story.judged().deeds == {}


def wanting(hold: int) -> Write:
    """The StatefulSet wants volumes held for so many replicas."""
    return lambda story: _write_set(story, hold)


def _write_set(story: Story, hold: int) -> None:
    story.write(OTHER, "StatefulSet", "soak/db", terrain.stateful_set(0, hold))


def stripped_by_a_user(story: Story) -> None:
    _write_set(story, 1)
    story.write(OTHER, "PersistentVolume", "v0", volume("v0", claim="data-db-0"))


def stripped_by_us(story: Story) -> None:
    _write_set(story, 1)
    story.write(CONTROLLER, "PersistentVolume", "v0", volume("v0", claim="data-db-0"))


@pytest.mark.parametrize(
    ("then", "left"),
    [
        (wanting(1), 0),
        (wanting(0), 1),
        (stripped_by_a_user, 0),
        (stripped_by_us, 1),
        (lambda story: hold(story, phase="Bound", uid="uid-data-db-0", party=OTHER), 0),
    ],
    ids=["wanted", "not wanted", "stripped by a user", "stripped by us", "without a set"],
)
def test_at_the_end_only_holds_that_a_set_wants_are_left(then: Write, left: int) -> None:
    story = stage()
    hold(story)
    then(story)
    assert len(list(judge_remains(story.end(), START, "annotate"))) == left


def test_the_judge_knows_the_limit_that_the_controllers_have() -> None:
    assert MAX_HELD == terrain.MAX_HELD
