"""The rules about volumes that are still to be made: what violates each, and the nearest thing that does not."""

from collections.abc import Callable

import pytest

from soak import terrain
from soak.judge.deeds import MADE
from soak.judge.facts import GATE, NAMED_BY, POOL_BYTES, POOL_CLASS, SELECTED
from soak.judge.history import Object
from soak.judge.to_come.provisioning import (
    APART,
    EARLY,
    NAMED,
    OVERCOMMITTED,
    PARTLY,
    REPORTED_WITHIN,
    judge_partly_provisioned,
)
from soak.judge.writes import Party
from tests.soak.story import CONTROLLER, Story, node, pod, storage_class, volume

OTHER = Party.OTHER
HALF = f"{POOL_BYTES // 2**31}Gi"
Write = Callable[[Story], None]


def stage(mode: str = "provision") -> Story:
    """Two nodes, and gated pods of two claims; each claim is half of a pool."""
    story = Story()
    story.write(OTHER, "StorageClass", POOL_CLASS, storage_class(mode, POOL_CLASS))
    for name in ("n1", "n2"):
        story.write(OTHER, "Node", name, node(name))
    for name in ("red", "blue"):
        story.write(OTHER, "Pod", f"soak/{name}", pod(name, f"{name}-0", f"{name}-1", gates=(GATE,)))
        for number in range(2):
            story.write(OTHER, "PersistentVolumeClaim", f"soak/{name}-{number}", to_be_made(f"{name}-{number}"))
    story.wait(100)
    story.renew(CONTROLLER)
    return story


def to_be_made(name: str, on: str = "", *, volume_name: str = "", by: str = "") -> Object:
    annotations = ({SELECTED: on} if on else {}) | (dict.fromkeys(NAMED_BY, by) if by else {})
    spec: Object = {
        "storageClassName": POOL_CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": HALF}},
    }
    if volume_name:
        spec["volumeName"] = volume_name
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return {
        "metadata": {"namespace": "soak", "name": name, "uid": f"uid-{name}", "annotations": annotations},
        "spec": spec,
        "status": {"phase": "Bound" if volume_name else "Pending"},
    }


def select(story: Story, name: str, on: str = "n1", party: Party = CONTROLLER) -> None:
    story.write(party, "PersistentVolumeClaim", f"soak/{name}", to_be_made(name, on))


def make(story: Story, name: str, on: str = "n1") -> None:
    """The provisioner makes the volume, and Kubernetes binds it."""
    made = volume(
        f"pv-{name}", claim=name, uid=f"uid-{name}", phase="Bound", storage=HALF, node=on, of_class=POOL_CLASS
    )
    story.write(OTHER, "PersistentVolume", f"pv-{name}", made)
    bound = to_be_made(name, on, volume_name=f"pv-{name}")
    story.write(OTHER, "PersistentVolumeClaim", f"soak/{name}", bound)


def delete(story: Story, name: str) -> None:
    story.write(OTHER, "PersistentVolumeClaim", f"soak/{name}", None)


def full(story: Story) -> None:
    select(story, "red-0")
    select(story, "red-1")


def beyond(story: Story) -> None:
    full(story)
    select(story, "blue-0")


def beyond_what_was_made(story: Story) -> None:
    for name in ("red-0", "red-1"):
        make(story, name)
    select(story, "blue-0")


def again_after_a_deletion(story: Story) -> None:
    full(story)
    delete(story, "red-0")
    select(story, "blue-0")


def beside_what_users_selected(story: Story) -> None:
    for name in ("red-0", "red-1"):
        select(story, name, party=OTHER)
    select(story, "blue-0")


def elsewhere(story: Story) -> None:
    full(story)
    select(story, "blue-0", "n2")


def apart(story: Story) -> None:
    select(story, "red-0", "n1")
    select(story, "red-1", "n2")


def apart_from_what_was_made(story: Story) -> None:
    make(story, "red-0", "n2")
    story.wait(10)
    story.renew(CONTROLLER)
    select(story, "red-1", "n1")


def apart_from_what_a_user_has_just_selected(story: Story) -> None:
    select(story, "red-0", "n2", OTHER)
    select(story, "red-1", "n1")


def name(story: Story, claim: str, on: str = "n1", by: str = "pools", party: Party = CONTROLLER) -> None:
    story.write(party, "PersistentVolumeClaim", f"soak/{claim}", to_be_made(claim, on, by=by))


def named(story: Story) -> None:
    full(story)
    for claim in ("red-0", "red-1"):
        name(story, claim)


def named_with_the_last_selection(story: Story) -> None:
    select(story, "red-0")
    name(story, "red-1")
    name(story, "red-0")


def named_before_the_last_selection(story: Story) -> None:
    name(story, "red-0")


def named_without_a_node(story: Story) -> None:
    full(story)
    name(story, "red-0", on="")


def named_again(story: Story) -> None:
    full(story)
    name(story, "red-0", by="another", party=OTHER)
    name(story, "red-0")


def let_go(story: Story) -> None:
    for name in ("red-0", "red-1"):
        make(story, name)
    story.write(CONTROLLER, "Pod", "soak/red", pod("red", "red-0", "red-1"))


def let_go_with_a_part(story: Story) -> None:
    make(story, "red-0")
    story.write(CONTROLLER, "Pod", "soak/red", pod("red", "red-0", "red-1"))


@pytest.mark.parametrize(
    ("deed", "broken"),
    [
        (full, set()),
        (beyond, {OVERCOMMITTED}),
        (beyond_what_was_made, {OVERCOMMITTED}),
        (again_after_a_deletion, set()),
        (beside_what_users_selected, set()),
        (elsewhere, set()),
        (apart, {APART}),
        (apart_from_what_was_made, {APART}),
        (apart_from_what_a_user_has_just_selected, set()),
        (named, set()),
        (named_with_the_last_selection, set()),
        (named_before_the_last_selection, {NAMED}),
        (named_without_a_node, {NAMED}),
        (named_again, {NAMED}),
        (let_go, set()),
        (let_go_with_a_part, {EARLY}),
    ],
)
def test_what_violates_a_rule(deed: Write, broken: set[str]) -> None:
    story = stage()
    deed(story)
    assert story.rules() == broken


def test_a_node_is_selected_in_mode_provision_only() -> None:
    story = stage("annotate")
    select(story, "red-0")
    assert story.rules() == {OVERCOMMITTED}


def only_partly(story: Story) -> None:
    make(story, "red-0")


def partly_where_users_took_the_rest(story: Story) -> None:
    make(story, "red-0")
    make(story, "blue-0")


def partly_because_we_gave_the_rest_away(story: Story) -> None:
    make(story, "red-0")
    story.wait(10)
    story.renew(CONTROLLER)
    select(story, "blue-0")
    make(story, "blue-0")
    story.write(OTHER, "Pod", "soak/blue", None)


def partly_on_a_node_that_is_gone(story: Story) -> None:
    make(story, "red-0")
    story.write(OTHER, "Node", "n1", None)


def partly_on_a_node_that_is_tainted(story: Story) -> None:
    make(story, "red-0")
    story.write(OTHER, "Node", "n1", node("n1", taints=[{"key": "keep-away", "effect": "NoSchedule"}]))


@pytest.mark.parametrize(
    ("deed", "left"),
    [
        (full, []),
        (only_partly, [PARTLY]),
        (partly_where_users_took_the_rest, []),
        (partly_because_we_gave_the_rest_away, [PARTLY]),
        (partly_on_a_node_that_is_gone, []),
        (partly_on_a_node_that_is_tainted, []),
    ],
)
def test_a_pod_that_stays_partly_provisioned_at_the_end(deed: Write, left: list[str]) -> None:
    story = stage()
    deed(story)
    story.wait(REPORTED_WITHIN + 1)
    assert [violation.rule for violation in judge_partly_provisioned(story.end(), story.now)] == left


def a_quarter(claim: Object) -> Object:
    claim["spec"]["resources"]["requests"]["storage"] = f"{POOL_BYTES // 2**32}Gi"
    return claim


def after_a_made_half(story: Story) -> None:
    make(story, "red-0")


def after_a_made_quarter(story: Story) -> None:
    """What was made a moment ago, counted twice, leaves room for the other half."""
    make(story, "red-0")
    bound = a_quarter(to_be_made("red-0", "n1", volume_name="pv-red-0"))
    story.write(OTHER, "PersistentVolumeClaim", "soak/red-0", bound)


def beside_a_quarter_of_another(story: Story) -> None:
    """Only together what both have twice leaves no room."""
    after_a_made_quarter(story)
    make(story, "blue-0")
    bound = a_quarter(to_be_made("blue-0", "n1", volume_name="pv-blue-0"))
    story.write(OTHER, "PersistentVolumeClaim", "soak/blue-0", bound)
    story.write(OTHER, "Pod", "soak/blue", None)


@pytest.mark.parametrize(
    ("deed", "seconds", "left"),
    [
        (after_a_made_half, 0.0, []),
        (after_a_made_half, REPORTED_WITHIN - 1, []),
        (after_a_made_half, REPORTED_WITHIN + 1, [PARTLY]),
        (after_a_made_quarter, 0.0, [PARTLY]),
        (beside_a_quarter_of_another, REPORTED_WITHIN - 1, []),
        (beside_a_quarter_of_another, REPORTED_WITHIN + 1, [PARTLY]),
        (partly_because_we_gave_the_rest_away, 0.0, [PARTLY]),
    ],
)
def test_a_volume_made_lately_may_count_beside_a_report_that_includes_it(
    deed: Write, seconds: float, left: list[str]
) -> None:
    """A process that began since cannot tell, and waits: soak 9010."""
    story = stage()
    deed(story)
    story.wait(seconds)
    assert [violation.rule for violation in judge_partly_provisioned(story.end(), story.now)] == left


def test_volumes_that_were_made_where_we_selected_are_counted() -> None:
    story = stage()
    full(story)
    make(story, "red-0")
    make(story, "blue-0")
    deeds = story.judged().deeds
    assert (deeds["nodes selected"], deeds[MADE]) == (2, 1)


def test_the_judge_knows_the_class_and_the_size_of_its_pools() -> None:
    assert POOL_CLASS == terrain.POOL_CLASS
    assert POOL_BYTES == terrain.POOL_GI * 2**30
