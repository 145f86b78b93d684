"""Which pods have to leave a node for a pod to fit."""

from datetime import timedelta

import pytest

from kube.objects import model
from kube.objects.constraints import Constraints, HostPort, InlineDisk, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Record
from scheduler.preemption.preemption import NO_VICTIMS, NOT_ENOUGH, NOT_HELPFUL, PROTECTED
from tests import builders
from tests.scheduler.preemptions import NOW, chosen

WEB = LabelSelector((("app", "web"),))
APART = Constraints(anti_affinity=(PodTerm(builders.HOSTNAME, WEB),))
TOGETHER = Constraints(affinity=(PodTerm(builders.HOSTNAME, WEB),))
PORT = Constraints(ports=(HostPort(80),))
SPREAD = Constraints(spread=(SpreadConstraint(1, builders.HOSTNAME, selector=WEB),))
DISK = Constraints(disks=(InlineDisk("awsElasticBlockStore", ("vol",)),))
DRIVER = "disk.csi.example"


def on(name: str, priority: int = 0, cpu: str = "2", **more: object) -> model.Pod:
    return builders.pod(name, node="n1", phase="Running", priority=priority, requests={"cpu": cpu}, **more)  # type: ignore[arg-type]


def wanting(cpu: str = "2", **more: object) -> model.Pod:
    return builders.pod("new", priority=10, requests={"cpu": cpu}, **more)  # type: ignore[arg-type]


def none(*reasons: str, nodes: int = 1) -> str:
    return f"preemption: 0/{nodes} nodes are available: {', '.join(reasons)}."


def bound(name: str, **more: object) -> model.Claim:
    completed = {model.BIND_COMPLETED: "yes"}
    return builders.claim(name, volume_name=f"pv-{name}", phase="Bound", annotations=completed, **more)  # type: ignore[arg-type]


NODE = builders.node("n1", allocatable={"cpu": "8"})
FULL = [on("a", 1), on("b", 2), on("c", 3), on("d", 4)]


@pytest.mark.parametrize(
    ("pod", "records", "expected"),
    [
        pytest.param(wanting("2"), FULL, ("n1", ["a"]), id="the-least-important-one"),
        pytest.param(wanting("4"), FULL, ("n1", ["b", "a"]), id="two-the-more-important-first"),
        pytest.param(
            wanting("4"),
            [on("a", 1, "1"), on("b", 2, "1"), on("c", 3, "4"), on("d", 4, "2")],
            ("n1", ["c"]),
            id="one-large-spares-the-small-ones-only-if-it-must-go-anyway",
        ),
        pytest.param(wanting("2"), [on("a", 10, "8")], none(f"1 {NO_VICTIMS}"), id="equals-stay"),
        pytest.param(wanting("2"), [on("a", 11, "4"), on("b", 10, "4")], none(f"1 {NO_VICTIMS}"), id="betters-stay"),
        pytest.param(wanting("4"), [on("a", 11, "6"), on("b", 1, "2")], none(f"1 {NOT_ENOUGH}"), id="not-enough"),
        pytest.param(wanting("9"), FULL, none(f"1 {NOT_HELPFUL}"), id="larger-than-the-node"),
        pytest.param(
            wanting("1", constraints=DISK),
            [on("a", 1, "1", constraints=DISK), on("b", 0, "1")],
            ("n1", ["a"]),
            id="the-one-that-uses-the-disk",
        ),
        pytest.param(
            wanting("2", node_selector={"disk": "ssd"}), FULL, none(f"1 {NOT_HELPFUL}"), id="a-label-does-not-come"
        ),
        pytest.param(
            wanting("1", constraints=PORT), [on("a", 1, "1", constraints=PORT), on("b", 0)], ("n1", ["a"]), id="port"
        ),
        pytest.param(
            wanting("1", constraints=APART),
            [on("a", 1, "1", labels={"app": "web"}), on("b", 0)],
            ("n1", ["a"]),
            id="anti-affinity",
        ),
        pytest.param(
            wanting("1", labels={"app": "web"}),
            [on("a", 1, "1", constraints=APART), on("b", 0)],
            ("n1", ["a"]),
            id="anti-affinity-of-the-other-one",
        ),
        pytest.param(
            wanting("1", constraints=TOGETHER), [on("a", 1)], none(f"1 {NOT_HELPFUL}"), id="affinity-cannot-be-made"
        ),
    ],
)
def test_victims_on_a_node(pod: model.Pod, records: list[Record], expected: object) -> None:
    assert chosen(pod, NODE, *records) == expected


def test_of_equal_priority_the_longest_running_pod_stays() -> None:
    pods = [on(name, 1, "4", started=NOW - timedelta(hours=hours)) for name, hours in (("old", 2), ("young", 1))]
    assert chosen(wanting("4"), NODE, *pods) == ("n1", ["young"])
    waiting = on("not-started", 1, "4")
    assert chosen(wanting("4"), NODE, waiting, pods[1]) == ("n1", ["not-started"])


def test_spread_is_cured_by_fewer_pods_in_the_domain() -> None:
    web = {"app": "web"}
    others = [builders.node("n2", allocatable={"cpu": "1"})]
    pods = [on("a", 1, "1", labels=web), on("b", 2, "1", labels=web)]
    # One more on n1 makes a skew of 3, and n2 has no room.
    assert chosen(wanting("2", labels=web, constraints=SPREAD), NODE, *others, *pods) == ("n1", ["b", "a"])


def test_a_claim_only_one_pod_may_use_comes_free() -> None:
    claim = bound("data", access_modes=["ReadWriteOncePod"])
    volume = builders.volume("pv-data", claim="default/data", access_modes=["ReadWriteOncePod"], phase="Bound")
    storage: list[Record] = [builders.storage_class(), claim, volume, builders.node("n2")]
    user = on("user", 1, "1", claims=["data"])
    assert chosen(wanting("1", claims=["data"]), NODE, *storage, user, on("other", 0, "1")) == ("n1", ["user"])


def test_an_attached_volume_makes_room() -> None:
    claims = [bound(name) for name in ("old", "new")]
    volumes = [builders.volume(f"pv-{name}", claim=f"default/{name}", phase="Bound") for name in ("old", "new")]
    limit = builders.csi_node("n1", limits={DRIVER: 1})
    pods = [on("user", 1, "1", claims=["old"]), on("other", 0, "1")]
    records: list[Record] = [NODE, builders.storage_class(), *claims, *volumes, builders.csi_driver(), limit, *pods]
    assert chosen(wanting("1", claims=["new"]), *records) == ("n1", ["user"])
    # As upstream: while the volume is attached, losing its pod does not help.
    attached = builders.attachment("pv-old", "n1")
    assert chosen(wanting("1", claims=["new"]), *records, attached) == none(f"1 {NOT_ENOUGH}")


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param({}, ("n1", ["a"]), id="no-budget"),
        pytest.param({"a": 0}, ("n1", ["b"]), id="who-is-protected-stays"),
        pytest.param({"a": 0, "b": 0, "c": 0}, ("n1", ["d"]), id="the-only-one-left"),
        pytest.param({"a": 0, "b": 0, "c": 0, "d": 0}, none(f"1 {PROTECTED}"), id="all-protected"),
        pytest.param({"a": 1}, ("n1", ["a"]), id="room-for-one"),
    ],
)
def test_a_budget_is_never_exceeded(allowed: dict[str, int], expected: object) -> None:
    pods = [on(pod.name, pod.priority, labels={"app": pod.name}) for pod in FULL]
    budgets = [builders.budget(name, labels={"app": name}, allowed=left) for name, left in allowed.items()]
    assert chosen(wanting("2"), NODE, *pods, budgets=budgets) == expected


def test_a_budget_is_named_only_where_the_pod_would_fit_without_it() -> None:
    pods = [on("large", 11, "6"), on("a", 1, "1", labels={"app": "a"}), on("b", 1, "1")]
    budget = builders.budget(labels={"app": "a"})
    assert chosen(wanting("2"), NODE, *pods, budgets=[budget]) == none(f"1 {PROTECTED}")
    assert chosen(wanting("3"), NODE, *pods, budgets=[budget]) == none(f"1 {NOT_ENOUGH}")


def test_a_pod_may_count_on_the_neighbourhood_of_one_that_stays() -> None:
    web = on("web", 1, "1", labels={"app": "web"})
    first = wanting("4", constraints=TOGETHER)
    assert chosen(first, NODE, web, on("large", 2, "7")) == none(f"1 {NOT_ENOUGH}")
    guarded = builders.budget(labels={"app": "web"})
    assert chosen(first, NODE, web, on("large", 2, "7"), budgets=[guarded]) == ("n1", ["large"])


def test_a_budget_counts_for_all_victims_together() -> None:
    web = {"app": "web"}
    pods = [on("a", 1, labels=web), on("b", 2, labels=web), on("c", 3), on("d", 4)]
    budget = builders.budget(labels=web, allowed=1)
    assert chosen(wanting("4"), NODE, *pods, budgets=[budget]) == ("n1", ["c", "b"])
    others = [on("c", 10), on("d", 10)]
    assert chosen(wanting("4"), NODE, *pods[:2], *others, budgets=[budget]) == none(f"1 {PROTECTED}")


def test_room_that_is_being_made_for_a_better_pod_is_not_taken() -> None:
    better = builders.pod("better", priority=10, requests={"cpu": "2"})
    assert chosen(wanting("2"), NODE, *FULL, nominated={"n1": [better]}) == ("n1", ["b", "a"])
    worse = builders.pod("worse", priority=9, requests={"cpu": "2"})
    assert chosen(wanting("2"), NODE, *FULL, nominated={"n1": [worse]}) == ("n1", ["a"])
    near = builders.pod("near", priority=10, constraints=Constraints(anti_affinity=(PodTerm(builders.HOSTNAME, WEB),)))
    rejected = chosen(wanting("2", labels={"app": "web"}), NODE, *FULL, nominated={"n1": [near]})
    assert rejected == none(f"1 {NOT_ENOUGH}")
    # Nor does a pod count on the neighbourhood of one that is not there yet.
    first = wanting("2", constraints=TOGETHER)
    lonely = on("only", 1, "1", labels={"app": "web"})
    better = builders.pod("better", priority=10, labels={"app": "web"})
    rejected = chosen(first, NODE, lonely, on("large", 2, "7"), nominated={"n1": [better]})
    assert rejected == none(f"1 {NOT_ENOUGH}")
