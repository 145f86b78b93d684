"""No pod is committed where committed pods have left no room: two pods of 3 CPUs, one node of 4, or two."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from soak.judge.facts import GATE
from soak.judge.history import Object
from soak.judge.placement.commitments import NO_ROOM, judge_stuck
from soak.judge.writes import Party
from tests.soak.story import CONTROLLER, SCHEDULER, Story, claim, node, pod, storage_class, volume

OTHER = Party.OTHER


def roomy(name: str = "n1", cpu: str = "4", **spec: Any) -> Object:
    made = node(name, **spec)
    made["status"]["allocatable"] = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return made


def of_size(name: str, claim_name: str, cpu: str = "3", *, on: str = "", nominated: str = "", **how: Any) -> Object:
    made = pod(name, claim_name, **how)
    made["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    if on:
        made["spec"]["nodeName"] = on
    if nominated:
        made["status"]["nominatedNodeName"] = nominated
    return made


class Place:
    """Pods p1, p2, ... with the claims c1, c2, ..., and volumes v1, v2, ... of the class, each on one of the nodes."""

    def __init__(self, nodes: Sequence[str] = ("n1",), where: Sequence[str] = ("n1", "n1")) -> None:
        self.story, self.where = Story(), where
        self.story.write(OTHER, "StorageClass", "disks", storage_class("complete"))
        for name in nodes:
            self.story.write(OTHER, "Node", name, roomy(name))
        for number, name in enumerate(where, 1):
            self.story.write(OTHER, "PersistentVolume", f"v{number}", volume(f"v{number}", node=name))
            self.story.write(OTHER, "PersistentVolumeClaim", f"soak/c{number}", claim(f"c{number}"))
            self.pod(number, OTHER, gates=(GATE,))
        self.wait(10)

    def wait(self, seconds: float) -> None:
        self.story.wait(seconds)
        for party in (CONTROLLER, SCHEDULER):
            self.story.renew(party)

    def pod(self, number: int, party: Party = CONTROLLER, **how: Any) -> None:
        self.story.write(party, "Pod", f"soak/p{number}", of_size(f"p{number}", f"c{number}", **how))

    def commit(self, number: int, party: Party = CONTROLLER) -> None:
        held = volume(f"v{number}", claim=f"c{number}", uid=f"uid-c{number}", node=self.where[number - 1])
        self.story.write(party, "PersistentVolume", f"v{number}", held)

    def serve(self, number: int) -> None:
        """Commit the volume and let the pod go."""
        self.commit(number)
        self.pod(number)

    @property
    def violated(self) -> bool:
        return NO_ROOM in self.story.rules()


def second_after(place: Place) -> bool:
    """Whether it is a violation to commit the second pod, and to let it go, after what happened so far."""
    assert not place.violated
    place.serve(2)
    return place.violated


def test_a_second_pod_has_no_room_beside_one_that_was_let_go() -> None:
    place = Place()
    place.serve(1)
    assert second_after(place)


def test_nor_beside_one_that_came_ungated_with_a_bound_volume() -> None:
    place = Place()
    place.commit(1)
    place.pod(1, OTHER)
    place.wait(10)
    assert second_after(place)


def test_a_volume_too_small_for_the_claim_that_it_names_commits_no_pod() -> None:
    """A user wrote that; the PV controller never binds it."""
    place = Place()
    small = volume("v1", claim="c1", node="n1", storage="1Mi")
    place.story.write(OTHER, "PersistentVolume", "v1", small)
    place.pod(1, OTHER)
    place.wait(10)
    assert not second_after(place)


def test_nor_beside_one_that_is_on_the_node() -> None:
    place = Place()
    place.serve(1)
    place.pod(1, OTHER, on="n1")
    place.wait(10)
    assert second_after(place)


@pytest.mark.parametrize(("seconds", "wrong"), [(1, False), (10, True)])
def test_a_pod_that_ended_a_moment_ago_still_kept_the_first_one_from_running(seconds: float, wrong: bool) -> None:
    """So the first one took no room, and the second, smaller one was served."""
    place = Place(where=("n1", "n1", "n1"))
    place.serve(1)
    third = of_size("p3", "c3", "2", on="n1")
    place.story.write(OTHER, "Pod", "soak/p3", third)
    place.wait(10)
    place.story.write(OTHER, "Pod", "soak/p3", None)
    place.wait(seconds)
    small = of_size("p2", "c2", "2", gates=(GATE,))
    place.story.write(OTHER, "Pod", "soak/p2", small)
    place.commit(2)
    assert place.violated is wrong


def test_what_others_did_a_moment_ago_is_not_seen_yet() -> None:
    place = Place(where=("n1", "n1", "n1"))
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", on="n1"))
    place.wait(1)
    assert not second_after(place)


def test_what_others_did_before_the_pod_was_created_is_seen_with_it() -> None:
    """One watch shows both pods, in order."""
    place = Place(where=("n1", "n1", "n1"))
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", on="n1"))
    place.wait(1)
    late = of_size("p2", "c2", gates=(GATE,))
    late["metadata"]["creationTimestamp"] = datetime.fromtimestamp(place.story.now, UTC).isoformat()
    place.story.write(OTHER, "Pod", "soak/p2", late)
    place.commit(2)
    assert place.violated


def test_a_node_that_was_cordoned_a_moment_ago_counts_and_one_cordoned_long_ago_does_not() -> None:
    place = Place()
    place.story.write(OTHER, "Node", "n1", roomy(unschedulable=True))
    place.wait(1)
    assert not second_after(place)
    place.wait(10)
    place.commit(1)
    assert place.violated


@pytest.mark.parametrize(("second", "wrong"), [("n2", False), ("n1", True)])
def test_only_pods_that_can_go_nowhere_else_take_a_node_s_room(second: str, wrong: bool) -> None:
    place = Place(nodes=("n1", "n2"), where=("n1", second))
    place.serve(1)
    assert second_after(place) is wrong


def test_a_pod_that_can_move_makes_room() -> None:
    place = Place(nodes=("n1", "n2"), where=("", "n1"))
    place.serve(1)
    assert not second_after(place)


def test_a_committed_pod_without_a_place_takes_no_room() -> None:
    place = Place(where=("n1", "n1", "n1"))
    place.serve(1)
    place.pod(3, OTHER, gates=())
    place.commit(3, OTHER)
    place.pod(1, OTHER, on="n1")
    place.wait(10)
    place.story.write(OTHER, "Pod", "soak/p1", None)
    assert not place.violated
    place.pod(3, OTHER, cpu="5")
    place.wait(10)
    assert not second_after(place)


def test_what_was_known_between_two_things_that_others_did_counts() -> None:
    """The first pod has left n1, may go to n2 now, and no watch shows yet that it came back to n1."""
    place = Place(nodes=("n1", "n2"), where=("", "n1"))
    place.serve(1)
    place.pod(1, OTHER, on="n1")
    place.wait(10)
    place.story.write(OTHER, "Pod", "soak/p1", None)
    place.wait(0.1)
    place.pod(1)
    place.wait(0.1)
    place.pod(1, OTHER, on="n1")
    place.wait(0.01)
    assert not second_after(place)


@pytest.mark.parametrize(("seconds", "wrong"), [(1, False), (10, True)])
def test_a_volume_that_others_gave_the_claim_a_moment_ago_is_not_seen_yet(seconds: float, wrong: bool) -> None:
    """It is on a node that is gone."""
    place = Place()
    place.story.write(OTHER, "PersistentVolume", "v0", volume("v0", claim="c2", uid="uid-c2", node="n2"))
    place.story.write(OTHER, "PersistentVolumeClaim", "soak/c2", claim("c2", volume_name="v0", completed=True))
    place.wait(seconds)
    place.commit(2)
    assert place.violated is wrong


@pytest.mark.parametrize(("on", "wrong"), [("n1", False), ("n2", True)])
def test_a_volume_may_be_for_another_pod_that_shares_the_claim_and_is_on_a_node_already(on: str, wrong: bool) -> None:
    """Its claim was created again meanwhile; the volume is accessible from n1 alone."""
    place = Place(nodes=("n1", "n2"))
    place.serve(1)
    place.story.write(OTHER, "Pod", "soak/sharer", of_size("sharer", "c2", cpu="1", on=on))
    place.wait(10)
    assert not place.violated
    place.commit(2)
    assert place.violated is wrong


def test_a_node_that_a_scheduler_keeps_for_a_pod_has_no_room() -> None:
    place = Place(where=("n1", "n1", "n1"))
    place.pod(3, SCHEDULER, nominated="n1")
    place.wait(10)
    assert second_after(place)


def test_a_pod_that_lost_its_place_to_a_nominated_one_takes_no_room() -> None:
    place = Place(where=("n1", "n1", "n1"))
    place.serve(1)
    place.pod(3, SCHEDULER, cpu="2", nominated="n1")
    place.pod(2, OTHER, cpu="2", gates=(GATE,))
    place.wait(10)
    place.commit(2)
    assert not place.violated


def test_a_pod_that_is_gated_takes_no_room() -> None:
    place = Place()
    place.commit(1, OTHER)
    place.wait(10)
    assert not second_after(place)


def test_a_pod_is_let_go_where_only_pods_on_nodes_have_left_no_room() -> None:
    """kube-scheduler may preempt them, or an autoscaler add a node."""
    place = Place(where=("n1", "n1", "n1"))
    place.commit(2)
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", on="n1"))
    place.wait(10)
    place.pod(2)
    assert not place.violated


@pytest.mark.parametrize(("seconds", "wrong"), [(20, True), (31, False)])
def test_its_gate_is_kept_for_the_room_of_others_for_half_a_minute(seconds: float, wrong: bool) -> None:
    place = Place()
    place.commit(2, OTHER)
    place.serve(1)
    since = datetime.fromtimestamp(place.story.now, UTC).isoformat()
    for party, gates in ((OTHER, (GATE,)), (CONTROLLER, ())):
        second = of_size("p2", "c2", gates=gates)
        second["metadata"]["creationTimestamp"] = since
        place.story.write(party, "Pod", "soak/p2", second)
        assert place.violated == (wrong and party is CONTROLLER)
        place.wait(seconds)


def test_anti_affinity_takes_room_as_well() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"group": "g"}}}
    place = Place()
    for number in (1, 2):
        apart = of_size(f"p{number}", f"c{number}", "1", gates=(GATE,))
        apart["metadata"]["labels"] = {"group": "g"}
        apart["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        place.story.write(OTHER, "Pod", f"soak/p{number}", apart)
        assert not place.violated
        place.commit(number)
        place.story.write(
            CONTROLLER, "Pod", f"soak/p{number}", {**apart, "spec": {**apart["spec"], "schedulingGates": []}}
        )
    assert place.violated


def stuck(later: str) -> Story:
    """The first pod is let go, then the second, with volumes on n1 and `later`; only the second gets a node, n1."""
    place = Place(nodes=("n1", "n2"), where=("n1", later))
    place.serve(1)
    place.wait(1)
    place.serve(2)
    place.pod(2, OTHER, on="n1")
    place.pod(1, OTHER, unschedulable=True)
    return place.story


@pytest.mark.parametrize(("later", "wrong"), [("n1", True), ("", False)])
def test_a_pod_that_kube_scheduler_cannot_place_lost_its_room_to_one_let_go_later(later: str, wrong: bool) -> None:
    assert bool(list(judge_stuck(stuck(later).end()))) is wrong


def test_room_that_an_ungated_pod_took_after_both_were_let_go_was_not_given_twice() -> None:
    place = Place(where=("n1", "n1", "n1"))
    for number in (1, 2):
        place.commit(number)
        place.story.write(CONTROLLER, "Pod", f"soak/p{number}", of_size(f"p{number}", f"c{number}", "1"))
        place.wait(1)
    place.story.write(OTHER, "Pod", "soak/p2", of_size("p2", "c2", "1", on="n1"))
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", "3", on="n1"))
    place.story.write(OTHER, "Pod", "soak/p1", of_size("p1", "c1", "1", unschedulable=True))
    assert list(judge_stuck(place.story.end())) == []
