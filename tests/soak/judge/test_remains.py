"""What is left when all is quiet, and whether a pod could have been served: by brute force."""

from typing import Any

import pytest

from soak.judge.facts import GATE, SELECTED
from soak.judge.remains import judge_remains, servable_on
from soak.judge.writes import Party
from tests.soak.story import CONTROLLER, START, Story, claim, node, pod, reserved, storage_class, volume

LATER = START + 100


def violations(story: Story) -> list[str]:
    return [violation.text for violation in judge_remains(story.end(), LATER, "annotate")]


def scene(mode: str = "complete", **of_pod: Any) -> Story:
    story = Story()
    story.write(Party.OTHER, "StorageClass", "disks", storage_class(mode))
    story.write(Party.OTHER, "Node", "n1", node())
    story.write(Party.OTHER, "PersistentVolumeClaim", "soak/c1", claim())
    story.write(Party.OTHER, "Pod", "soak/p1", pod(**of_pod))
    return story


def test_a_reservation_for_a_pod_that_waits_may_stay() -> None:
    story = scene()
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(phase="Failed", **reserved()))
    story.write(
        CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(reserved_volume="v1", expires_at="2100-01-01T00:00:00Z")
    )
    assert violations(story) == []


@pytest.mark.parametrize(
    ("left", "words"),
    [
        pytest.param(volume(**reserved(expires_at="1970-01-01T00:00:00Z")), "broken or expired", id="expired"),
        pytest.param(volume(reserved_for="%%%"), "broken or expired", id="garbage"),
        pytest.param(volume(**reserved("c9")), "which is gone", id="claim gone"),
        pytest.param(volume(claim="c9"), "which is gone", id="claimRef of a claim that is gone"),
        pytest.param(
            volume(claim="quarantine-v1", quarantine="x", quarantined_at="x", health="Healthy"),
            "healthy and in quarantine",
            id="quarantine",
        ),
        pytest.param(volume(quarantine="DataLoss"), "marks of quarantine", id="marks"),
    ],
)
def test_what_is_left_on_a_volume_is_found(left: dict[str, Any], words: str) -> None:
    story = scene()
    story.write(CONTROLLER, "PersistentVolume", "v1", left)
    assert any(words in text for text in violations(story))


def test_a_claim_that_names_a_volume_which_is_not_held_for_it_is_found() -> None:
    story = scene()
    story.write(
        CONTROLLER, "PersistentVolumeClaim", "soak/c1", claim(reserved_volume="v1", expires_at="2100-01-01T00:00:00Z")
    )
    assert any("not held for it" in text for text in violations(story))


def test_a_claim_ref_of_a_claim_that_is_bound_elsewhere_is_found() -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolumeClaim", "soak/c1", claim(volume_name="v2", completed=True))
    story.write(CONTROLLER, "PersistentVolume", "v1", volume(claim="c1", uid="uid-c1"))
    assert any("bound to v2" in text for text in violations(story))


@pytest.mark.parametrize(
    ("mode", "gated", "wrong"),
    [("complete", False, True), ("annotate", True, True), ("annotate", False, False), ("off", True, False)],
)
def test_a_pod_that_waits_beside_a_volume_that_fits(mode: str, gated: bool, wrong: bool) -> None:
    story = scene(mode, gates=(GATE,) if gated else ())
    story.write(Party.OTHER, "PersistentVolume", "v1", volume())
    assert bool(violations(story)) is wrong


@pytest.mark.parametrize(
    "in_the_way",
    [
        pytest.param({"of_class": "others"}, id="class"),
        pytest.param({"health": "Degraded"}, id="unhealthy"),
        pytest.param({"claim": "c9"}, id="claimRef of another"),
        pytest.param({"phase": "Released"}, id="phase"),
        pytest.param({"was_for": "soak/data-db-3/uid"}, id="kept from a replacement"),
        pytest.param({"node": "n9"}, id="out of reach"),
    ],
)
def test_a_volume_that_does_not_fit_serves_no_claim(in_the_way: dict[str, str]) -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolume", "v1", volume(**in_the_way))
    cluster = story.end()
    assert servable_on(cluster.pods["soak/p1"], cluster) is None


def test_a_claim_with_a_selected_node_gets_no_existing_volume() -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolume", "v1", volume(node="n1"))
    assert servable_on(story.end().pods["soak/p1"], story.end()) == "n1"
    selected = claim("c1")
    selected["metadata"]["annotations"] = {SELECTED: "n1"}
    story.write(Party.OTHER, "PersistentVolumeClaim", "soak/c1", selected)
    assert servable_on(story.end().pods["soak/p1"], story.end()) is None


def test_two_claims_need_two_volumes_that_one_node_reaches() -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2"))
    story.write(Party.OTHER, "Pod", "soak/p1", pod("p1", "c1", "c2"))
    story.write(Party.OTHER, "PersistentVolume", "v1", volume(node="n1"))
    story.write(Party.OTHER, "Node", "n2", node("n2"))
    story.write(Party.OTHER, "PersistentVolume", "v2", volume("v2", node="n2"))
    assert servable_on(story.end().pods["soak/p1"], story.end()) is None
    story.write(Party.OTHER, "PersistentVolume", "v3", volume("v3", node="n2"))
    assert servable_on(story.end().pods["soak/p1"], story.end()) == "n2"


@pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}])
def test_a_node_without_room_serves_no_pod(spec: dict[str, Any]) -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolume", "v1", volume())
    story.write(Party.OTHER, "Node", "n1", node(**spec))
    assert servable_on(story.end().pods["soak/p1"], story.end()) is None


@pytest.mark.parametrize(("elsewhere", "fits"), [("n1", False), ("n2", True)])
def test_a_pod_is_not_served_where_others_on_the_node_or_booked_there_leave_no_room(elsewhere: str, fits: bool) -> None:
    story = scene()
    full = node()
    full["status"]["allocatable"] = {"cpu": "2", "memory": "1Gi", "pods": "110"}
    story.write(Party.OTHER, "Node", "n1", full)
    story.write(Party.OTHER, "PersistentVolume", "v1", volume())
    wants = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]}
    for name, its_claim in (("p1", "c1"), ("p2", "c2")):
        made = pod(name, its_claim)
        story.write(Party.OTHER, "Pod", f"soak/{name}", {**made, "spec": {**made["spec"], **wants}})
    assert servable_on(story.end().pods["soak/p1"], story.end()) == "n1"
    story.write(Party.OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2", "v2", completed=True))
    story.write(Party.OTHER, "PersistentVolume", "v2", volume("v2", claim="c2", uid="uid-c2", node=elsewhere))
    assert (servable_on(story.end().pods["soak/p1"], story.end()) is not None) is fits


def test_a_pod_with_anti_affinity_is_not_served_beside_one_of_its_group() -> None:
    story = scene()
    story.write(Party.OTHER, "PersistentVolume", "v1", volume())
    apart = pod("p1")
    apart["metadata"]["labels"] = {"group": "g"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"group": "g"}}}
    apart["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    story.write(Party.OTHER, "Pod", "soak/p1", apart)
    assert servable_on(story.end().pods["soak/p1"], story.end()) == "n1"
    there = pod("p2", "c2")
    there["metadata"]["labels"] = {"group": "g"}
    there["spec"]["nodeName"] = "n1"
    story.write(Party.OTHER, "Pod", "soak/p2", there)
    assert servable_on(story.end().pods["soak/p1"], story.end()) is None


@pytest.mark.parametrize(("gates", "wrong"), [((GATE,), True), ((), False)])
def test_a_pod_whose_scheduler_never_comes_is_only_let_go(gates: tuple[str, ...], wrong: bool) -> None:
    story = scene(gates=gates)
    story.write(Party.OTHER, "PersistentVolume", "v1", volume())
    waits = pod(gates=gates)
    waits["spec"]["schedulerName"] = "absent-scheduler"
    story.write(Party.OTHER, "Pod", "soak/p1", waits)
    assert bool(violations(story)) is wrong
