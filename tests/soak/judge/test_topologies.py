"""One topology for all volumes of a pod: which volumes count when one is committed, or the gate removed."""

import pytest

from soak.judge.facts import GATE
from soak.judge.writes import Party
from tests.soak.judge.test_rules import stage
from tests.soak.story import CONTROLLER, Story, claim, node, pod, reserved, volume

OTHER = Party.OTHER


def committed_instead_of_hints(story: Story) -> None:
    """The class came to mode complete: both claims had a hint on n2, and are committed on n1, one after the other."""
    story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2"))
    story.write(OTHER, "Pod", "soak/p1", pod("p1", "c1", "c2", gates=(GATE,)))
    story.write(OTHER, "Node", "n2", node("n2"))
    story.write(CONTROLLER, "PersistentVolume", "v3", volume("v3", node="n2", **reserved("c2")))
    story.wait(10)
    story.renew(CONTROLLER)
    for number in ("1", "2"):
        there = volume(f"v{number}", claim=f"c{number}", uid=f"uid-c{number}", node="n1")
        story.write(CONTROLLER, "PersistentVolume", f"v{number}", there)


def committed_beside_a_volume_that_is_too_small(story: Story) -> None:
    """A user wrote that a small volume on n2 is for the claim, which is bound to none."""
    story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2"))
    story.write(OTHER, "Pod", "soak/p1", pod("p1", "c1", "c2", gates=(GATE,)))
    story.write(OTHER, "Node", "n2", node("n2"))
    story.write(OTHER, "PersistentVolume", "v2", volume("v2", claim="c2", node="n2", storage="1Mi"))
    story.wait(10)
    story.renew(CONTROLLER)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume("v1", claim="c1", uid="uid-c1", node="n1"))


def split_by_others(story: Story, *, last_is_bound: bool) -> None:
    """A pod made with claims that others bound, or are binding, to volumes of two nodes; then its gate is lifted."""
    story.write(OTHER, "Node", "n2", node("n2"))
    for number in ("1", "2"):
        there = volume(f"v{number}", claim=f"c{number}", uid=f"uid-c{number}", node=f"n{number}")
        story.write(OTHER, "PersistentVolume", f"v{number}", there)
        done = number == "1" or last_is_bound
        bound = claim(f"c{number}", volume_name=f"v{number}" if done else "", completed=done)
        story.write(OTHER, "PersistentVolumeClaim", f"soak/c{number}", bound)
    story.write(OTHER, "Pod", "soak/p1", pod("p1", "c1", "c2", gates=(GATE,)))
    story.wait(10)
    story.renew(CONTROLLER)
    story.write(CONTROLLER, "Pod", "soak/p1", pod("p1", "c1", "c2"))


def test_a_volume_that_never_can_be_bound_to_its_claim_is_not_held_for_it() -> None:
    story = stage()
    committed_beside_a_volume_that_is_too_small(story)
    assert "one topology" not in story.rules()


def test_a_hint_on_another_node_does_not_count_once_volumes_are_committed() -> None:
    story = stage()
    committed_instead_of_hints(story)
    assert story.rules().isdisjoint({"one topology", "no pod is committed without room"})


@pytest.mark.parametrize(("last_is_bound", "violated"), [(True, False), (False, True)])
def test_a_gate_is_lifted_for_claims_that_others_bound_apart(last_is_bound: bool, violated: bool) -> None:
    story = stage()
    split_by_others(story, last_is_bound=last_is_bound)
    assert ("one topology" in story.rules()) is violated
