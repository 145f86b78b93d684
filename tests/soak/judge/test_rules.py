"""Each rule of the judge: what violates it, and the nearest thing that does not."""

from collections.abc import Callable

import pytest

from soak.judge.facts import GATE
from soak.judge.writes import Party
from tests.soak.story import CONTROLLER, SCHEDULER, Story, claim, node, pod, reserved, storage_class, volume

OTHER = Party.OTHER


def stage(mode: str = "complete", *, gated: bool = True) -> Story:
    """A gated pod with the claim c1, two volumes, a node."""
    story = Story()
    story.write(OTHER, "StorageClass", "disks", storage_class(mode))
    story.write(OTHER, "Node", "n1", node())
    for name in ("v1", "v2"):
        story.write(OTHER, "PersistentVolume", name, volume(name))
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", claim())
    story.write(OTHER, "Pod", "soak/p1", pod(gates=(GATE,) if gated else ()))
    story.wait(10)
    for party in (CONTROLLER, SCHEDULER):
        story.renew(party)
    return story


def commit(story: Story, name: str, party: Party | None = CONTROLLER, **how: str) -> None:
    story.write(party, "PersistentVolume", name, volume(name, claim="c1", uid="uid-c1", **how))


def two_volumes_by_us(story: Story) -> None:
    commit(story, "v1")
    commit(story, "v2")


def two_volumes_the_first_by_others_long_ago(story: Story) -> None:
    commit(story, "v1", OTHER)
    story.wait(5)
    commit(story, "v2")


def two_reservations(story: Story) -> None:
    for name in ("v1", "v2"):
        story.write(CONTROLLER, "PersistentVolume", name, volume(name, **reserved()))


def two_bound_volumes(story: Story) -> None:
    for name in ("v1", "v2"):
        commit(story, name, OTHER)
        commit(story, name, phase="Bound")


def two_claims(story: Story) -> None:
    story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2", "v1"))
    story.write(CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))


def taken_over(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(claim="c2"))
    commit(story, "v1")


def too_small_committed(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(storage="1Mi"))
    commit(story, "v1", storage="1Mi")


def of_another_class_reserved(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(of_class="others"))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(of_class="others", **reserved()))


def with_another_mode_committed(story: Story) -> None:
    block = volume(claim="c1", **reserved())
    block["spec"]["volumeMode"] = "Block"
    story.write(CONTROLLER, "PersistentVolume", "v1", block)


def unhealthy_reserved(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(health="Inaccessible"))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(health="Inaccessible", **reserved()))


def unhealthy_committed(story: Story) -> None:
    story.write(OTHER, "PersistentVolume", "v1", volume(health="DataLoss"))
    commit(story, "v1", health="DataLoss")


def unhealthy_bound(story: Story) -> None:
    commit(story, "v1")
    commit(story, "v1", OTHER, health="DataLoss")
    commit(story, "v1", health="DataLoss", phase="Bound")


def volume_name_alone(story: Story) -> None:
    commit(story, "v1")
    story.write(CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1"))


def volume_name_of_a_volume_that_is_not_ours(story: Story) -> None:
    story.write(CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))


def others_claim_ref_cleared(story: Story) -> None:
    commit(story, "v1", OTHER)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume())


def bind_undone(story: Story) -> None:
    commit(story, "v1")
    story.write(CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume())


def bind_undone_that_others_finished_long_ago(story: Story) -> None:
    commit(story, "v1")
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))
    story.wait(5)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume())


def the_volume_of_a_bound_claim_given_to_another(story: Story) -> None:
    story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2", "v1", completed=True))
    story.wait(5)
    commit(story, "v1")


def two_topologies(story: Story) -> None:
    story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2"))
    story.write(OTHER, "Pod", "soak/p1", pod("p1", "c1", "c2", gates=(GATE,)))
    story.write(OTHER, "Node", "n2", node("n2"))
    story.wait(10)
    story.renew(CONTROLLER)
    for number in ("1", "2"):
        there = volume(f"v{number}", claim=f"c{number}", uid=f"uid-c{number}", node=f"n{number}")
        story.write(CONTROLLER, "PersistentVolume", f"v{number}", there)


def a_label(story: Story) -> None:
    changed = volume()
    changed["metadata"]["labels"] = {"mine": "now"}
    story.write(CONTROLLER, "PersistentVolume", "v1", changed)


def another_gate(story: Story) -> None:
    story.write(OTHER, "Pod", "soak/p1", pod(gates=(GATE, "other.example/gate")))
    story.write(CONTROLLER, "Pod", "soak/p1", pod())


def gate_lifted_too_early(story: Story) -> None:
    story.write(CONTROLLER, "Pod", "soak/p1", pod())


def a_delete(story: Story) -> None:
    story.request(CONTROLLER, "delete", "PersistentVolume", "v1")


def no_condition(story: Story) -> None:
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(**reserved()), conditional=False)


def without_the_lease(story: Story) -> None:
    story.write(OTHER, "Lease", "pvc-prebinder-system/pvc-prebinder", {"metadata": {}, "spec": {"holderIdentity": "x"}})
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(**reserved()))


def with_a_lease_that_ran_out(story: Story) -> None:
    story.wait(17)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(**reserved()))


VIOLATIONS: tuple[tuple[Callable[[Story], None], str], ...] = (
    (two_volumes_by_us, "one claim, one volume"),
    (two_volumes_the_first_by_others_long_ago, "one claim, one volume"),
    (two_reservations, "one claim, one reservation"),
    (two_bound_volumes, "one claim, one Bound volume"),
    (two_claims, "one volume, one claim"),
    (taken_over, "no claimRef is replaced"),
    (too_small_committed, "a volume fits its claim"),
    (of_another_class_reserved, "a volume fits its claim"),
    (with_another_mode_committed, "a volume fits its claim"),
    (unhealthy_reserved, "no unhealthy volume"),
    (unhealthy_committed, "no unhealthy volume"),
    (unhealthy_bound, "no unhealthy volume"),
    (volume_name_alone, "volumeName"),
    (volume_name_of_a_volume_that_is_not_ours, "volumeName"),
    (others_claim_ref_cleared, "claimRefs of others stay"),
    (bind_undone, "a bind is never undone"),
    (bind_undone_that_others_finished_long_ago, "a bind is never undone"),
    (the_volume_of_a_bound_claim_given_to_another, "one volume, one claim"),
    (two_topologies, "one topology"),
    (a_label, "only our fields"),
    (another_gate, "only our gate"),
    (gate_lifted_too_early, "gated is guaranteed"),
    (a_delete, "nothing is deleted"),
    (no_condition, "every write is conditional"),
    (without_the_lease, "no write without the Lease"),
    (with_a_lease_that_ran_out, "no write without the Lease"),
)


@pytest.mark.parametrize(("plant", "rule"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", None))
def test_a_violation_is_found(plant: Callable[[Story], None], rule: str) -> None:
    story = stage()
    plant(story)
    assert rule in story.rules()


def test_a_whole_bind_for_a_gated_pod_violates_nothing() -> None:
    story = stage()
    commit(story, "v1")
    commit(story, "v1", phase="Bound")
    story.write(CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))
    story.write(CONTROLLER, "Pod", "soak/p1", pod())
    assert story.judged().violations == []


def test_a_volume_given_back_to_a_claim_that_was_bound_a_moment_ago_violates_nothing() -> None:
    story = stage()
    commit(story, "v1")
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v1", completed=True))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(health="Degraded"))
    commit(story, "v1", health="Degraded")
    assert story.judged().violations == []


@pytest.mark.parametrize(("seconds", "violated"), [(1, False), (5, True)])
def test_a_gate_removed_just_after_the_claim_was_recreated_violates_nothing(seconds: float, violated: bool) -> None:
    """The controller of ephemeral volumes recreates a claim within milliseconds."""
    story = stage()
    commit(story, "v1")
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", None)
    recreated = claim()
    recreated["metadata"]["uid"] = "uid-of-the-next"
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", recreated)
    story.wait(seconds)
    story.write(CONTROLLER, "Pod", "soak/p1", pod())
    assert ("gated is guaranteed" in story.rules()) is violated


@pytest.mark.parametrize(
    ("first", "completed_by", "violated"),
    [
        pytest.param("c1", SCHEDULER, False, id="its own"),
        pytest.param("c1", OTHER, True, id="completed by others"),
        pytest.param("", SCHEDULER, True, id="not there before"),
    ],
)
def test_the_uid_that_a_scheduler_added_to_a_claim_ref_it_may_take_back(
    first: str, completed_by: Party, violated: bool
) -> None:
    story = stage()
    story.write(OTHER, "PersistentVolume", "v1", volume(claim=first))
    story.write(completed_by, "PersistentVolume", "v1", volume(claim="c1", uid="uid-c1"))
    story.write(SCHEDULER, "PersistentVolume", "v1", volume(claim="c1"))
    assert ("no claimRef is replaced" in story.rules()) is violated


def test_a_reservation_that_moves_violates_nothing() -> None:
    story = stage("annotate")
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(**reserved()))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume())
    story.write(CONTROLLER, "PersistentVolume", "v2", volume("v2", **reserved()))
    assert story.judged().violations == []


@pytest.mark.parametrize(
    ("mode", "gated", "unschedulable", "violated"),
    [
        pytest.param("complete", True, False, False, id="gated"),
        pytest.param("prebind", False, True, False, id="reported unschedulable"),
        pytest.param("complete", False, False, True, id="kube-scheduler is looking at it"),
        pytest.param("annotate", True, False, True, id="mode annotate"),
        pytest.param("off", True, False, True, id="mode off"),
    ],
)
def test_only_gated_or_unschedulable_pods_may_be_committed(
    mode: str, gated: bool, unschedulable: bool, violated: bool
) -> None:
    story = stage(mode, gated=gated)
    if unschedulable:
        story.write(SCHEDULER, "Pod", "soak/p1", pod(unschedulable=True))
    commit(story, "v1")
    assert ("only gated or unschedulable pods are committed" in story.rules()) is violated


@pytest.mark.parametrize("owned", [True, False])
def test_an_ephemeral_claim_is_committed_for_the_pod_that_owns_it(owned: bool) -> None:
    story = stage()
    consumer = pod(gates=(GATE,))
    consumer["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {}}]
    story.write(OTHER, "Pod", "soak/p1", consumer)
    scratch = claim("p1-scratch")
    if owned:
        scratch["metadata"]["ownerReferences"] = [{"uid": "uid-p1"}]
    story.write(OTHER, "PersistentVolumeClaim", "soak/p1-scratch", scratch)
    there = volume("v1", claim="p1-scratch", uid="uid-p1-scratch")
    story.write(CONTROLLER, "PersistentVolume", "v1", there)
    assert ("only gated or unschedulable pods are committed" in story.rules()) is not owned


def test_a_pod_that_has_been_gated_for_long_still_is() -> None:
    story = stage()
    story.wait(200)
    story.renew(CONTROLLER)
    commit(story, "v1")
    assert story.judged().violations == []


@pytest.mark.parametrize("how", [{"of_class": "others"}, {"storage": "1Mi"}])
def test_a_volume_that_kubernetes_passes_over_is_no_second_one(how: dict[str, str]) -> None:
    story = stage()
    story.write(OTHER, "PersistentVolume", "v1", volume(claim="c1", **how))
    story.wait(5)
    commit(story, "v2")
    assert story.judged().violations == []


def test_a_volume_that_fitted_a_claim_of_that_name_violates_nothing() -> None:
    story = stage("annotate")
    recreated = claim()
    recreated["metadata"]["uid"], recreated["spec"]["accessModes"] = "uid-of-another", ["ReadWriteMany"]
    story.write(OTHER, "PersistentVolumeClaim", "soak/c1", recreated)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(**reserved()))
    assert story.judged().violations == []


def test_a_mode_that_was_in_force_a_moment_ago_explains_a_commit() -> None:
    story = stage()
    story.write(OTHER, "StorageClass", "disks", storage_class("off"))
    story.wait(5)
    story.renew(CONTROLLER)
    commit(story, "v1")
    assert story.judged().violations == []
    late = stage()
    late.write(OTHER, "StorageClass", "disks", storage_class("off"))
    late.wait(100)
    late.renew(CONTROLLER)
    commit(late, "v1")
    assert late.rules() == {"only gated or unschedulable pods are committed"}


def test_what_another_party_wrote_an_instant_before_could_not_be_known() -> None:
    story = stage()
    commit(story, "v1", OTHER)
    commit(story, "v2")
    assert story.judged().violations == []


def test_the_uid_in_a_claim_ref_of_the_same_name_is_no_new_commitment() -> None:
    story = stage(gated=False)
    story.write(OTHER, "PersistentVolume", "v1", volume(claim="c1", health="DataLoss"))
    commit(story, "v1", health="DataLoss")
    assert story.judged().violations == []


def test_a_write_whose_author_is_not_known_is_no_violation() -> None:
    story = stage()
    commit(story, "v1", None)
    story.write(CONTROLLER, "PersistentVolume", "v1", volume())
    assert story.judged().violations == []


def test_a_violation_names_the_two_writes_that_matter() -> None:
    story = stage()
    two_volumes_by_us(story)
    (violation,) = story.judged().violations
    first, second = story.changes[-2:]
    assert violation.revisions == (first.revision, second.revision)
