"""Changes that wake a pod in kube-scheduler, and those that do not, as its own tests state them.

Facts: plugin_test.go of podtopologyspread and interpodaffinity and csi_test.go of nodevolumelimits, all of Kubernetes
1.37. Where ours has to be wider or may be narrower, the case says why.
"""

from dataclasses import replace

import pytest
from msgspec import structs

from kube.objects.constraints import DO_NOT_SCHEDULE, HONOR, IGNORE, Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import Node, Pod, Record, Taint
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.queue.hints import may_help
from tests import builders
from tests.builders import HOSTNAME, ZONE
from tests.scheduler.wakeups import hints_of

FOO, BAR = LabelSelector((), (Requirement("foo", "Exists"),)), LabelSelector((), (Requirement("bar", "Exists"),))
DRIVER, OTHER_DRIVER = "disk.csi.example", "other.csi.example"
SEEN = Wanted(drivers=frozenset({DRIVER}), topology_keys=frozenset())


def spreading(*constraints: SpreadConstraint, **fields: object) -> Pod:
    return builders.pod(labels={"foo": ""}, constraints=Constraints(spread=constraints), **fields)  # type: ignore[arg-type]


def over(
    key: str, selector: LabelSelector = FOO, *, affinity_policy: str = HONOR, taints_policy: str = IGNORE
) -> SpreadConstraint:
    return SpreadConstraint(
        1, key, DO_NOT_SCHEDULE, selector, node_affinity_policy=affinity_policy, node_taints_policy=taints_policy
    )


def there(labels: dict[str, str], namespace: str = "default", **fields: object) -> Pod:
    return builders.pod("other", namespace=namespace, node="n1", labels=labels, **fields)  # type: ignore[arg-type]


def node(taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    return structs.replace(builders.node("n1", taints=taints), labels=tuple(sorted(labels.items())))


BOTH = spreading(over("zone"), over("node"))
ZONAL = spreading(over("zone"))
GOLD = spreading(over("zone"), node_selector={"tier": "gold"})
NEAR = builders.pod(constraints=Constraints(affinity=(PodTerm("zone", FOO), PodTerm("zone", BAR))))
APART = builders.pod(constraints=Constraints(anti_affinity=(PodTerm("zone", FOO),)))
APART_TWICE = builders.pod(constraints=Constraints(anti_affinity=(PodTerm("zone", FOO), PodTerm("node", BAR))))
ATTACHING = builders.pod(claims=["data"])
TAINT = Taint("gpu", "NoSchedule")

Case = tuple[str, Pod, Record | None, Record | None, bool]


def limits(**by_driver: int | None) -> Record:
    names = {"own": DRIVER, "other": OTHER_DRIVER}
    return builders.csi_node("n1", limits={names[name]: limit for name, limit in by_driver.items()})


SPREAD_CASES: dict[str, Case] = {
    "add pod with labels that match": ("PodTopologySpread", ZONAL, None, there({"foo": ""}), True),
    "add unrelated pod": ("PodTopologySpread", ZONAL, None, there({"bar": ""}), False),
    "add pod of another namespace": ("PodTopologySpread", ZONAL, None, there({"foo": ""}, namespace="ns"), False),
    "update pod that gains a matching label": ("PodTopologySpread", ZONAL, there({}), there({"foo": ""}), True),
    "update pod that loses the matching label": ("PodTopologySpread", ZONAL, there({"foo": ""}), there({}), True),
    "update of a label that no constraint selects": (
        "PodTopologySpread",
        ZONAL,
        there({"foo": ""}),
        there({"foo": "", "bar": ""}),
        False,
    ),
    "update of the value of a label that matches either way": (
        "PodTopologySpread",
        ZONAL,
        there({"foo": "1"}),
        there({"foo": "2"}),
        False,
    ),
    "update that matches one of two constraints otherwise": (
        "PodTopologySpread",
        spreading(over("zone"), over("node", BAR)),
        there({"foo": ""}),
        there({"foo": "", "bar": ""}),
        True,
    ),
    "delete a matching pod": ("PodTopologySpread", ZONAL, there({"foo": ""}), None, True),
    "delete an unrelated pod": ("PodTopologySpread", ZONAL, there({"bar": ""}), None, False),
    "delete a pod that was ending: it did not count": (
        "PodTopologySpread",
        ZONAL,
        there({"foo": ""}, deleting=True),
        None,
        False,
    ),
    "create node with all topology keys": ("PodTopologySpread", BOTH, None, node(zone="z", node="n"), True),
    "create node that lacks a topology key": ("PodTopologySpread", BOTH, None, node(zone="z"), False),
    "delete node with all topology keys": ("PodTopologySpread", BOTH, node(zone="z", node="n"), None, True),
    "delete node that lacks a topology key": ("PodTopologySpread", BOTH, node(zone="z"), None, False),
    "update node with other labels only": (
        "PodTopologySpread",
        BOTH,
        node(zone="z", node="n", foo="1"),
        node(zone="z", node="n", foo="2"),
        False,
    ),
    "update node to have all keys": (
        "PodTopologySpread",
        BOTH,
        node(zone="z"),
        node(zone="z", node="n"),
        True,
    ),
    "update node to lack a key": ("PodTopologySpread", BOTH, node(zone="z", node="n"), node(zone="z"), True),
    "update node to be in another domain": ("PodTopologySpread", ZONAL, node(zone="y"), node(zone="z"), True),
    "update node that lacks a key to be in another domain": (
        "PodTopologySpread",
        BOTH,
        node(zone="y"),
        node(zone="z"),
        False,
    ),
    "update of taints that constraints ignore: wider upstream": (
        "PodTopologySpread",
        ZONAL,
        node((TAINT,), zone="z"),
        node(zone="z"),
        False,
    ),
    "update of taints that a constraint honours": (
        "PodTopologySpread",
        spreading(over("zone", taints_policy=HONOR)),
        node((TAINT,), zone="z"),
        node(zone="z"),
        True,
    ),
    "a node is not selected any more and its domain not counted: missed upstream": (
        "PodTopologySpread",
        GOLD,
        node(zone="z", tier="gold"),
        node(zone="z", tier="tin"),
        True,
    ),
    "a node is not selected any more, which the constraint ignores": (
        "PodTopologySpread",
        spreading(over("zone", affinity_policy=IGNORE), node_selector={"tier": "gold"}),
        node(zone="z", tier="gold"),
        node(zone="z", tier="tin"),
        False,
    ),
}

AFFINITY_CASES: dict[str, Case] = {
    "add a pod that matches all terms": ("InterPodAffinity", NEAR, None, there({"foo": "", "bar": ""}), True),
    "add a pod that matches one of two terms": ("InterPodAffinity", NEAR, None, there({"foo": ""}), False),
    "update a pod to match": ("InterPodAffinity", NEAR, there({"foo": ""}), there({"foo": "", "bar": ""}), True),
    "update a pod that matched before": (
        "InterPodAffinity",
        NEAR,
        there({"foo": "", "bar": ""}),
        there({"foo": "1", "bar": ""}),
        False,
    ),
    "update a pod not to match anti-affinity": ("InterPodAffinity", APART, there({"foo": ""}), there({}), True),
    "update a pod that still matches anti-affinity": (
        "InterPodAffinity",
        APART,
        there({"foo": ""}),
        there({"foo": "1"}),
        False,
    ),
    "update a pod not to match one of two terms of other domains: missed upstream": (
        "InterPodAffinity",
        APART_TWICE,
        there({"foo": "", "bar": ""}),
        there({"foo": ""}),
        True,
    ),
    "a pod that matches anti-affinity begins to end: it counts until it is gone": (
        "InterPodAffinity",
        APART,
        there({"foo": ""}),
        there({"foo": ""}, deleting=True),
        False,
    ),
    "delete a pod that matches anti-affinity": ("InterPodAffinity", APART, there({"foo": ""}), None, True),
    "delete an unrelated pod": ("InterPodAffinity", APART, there({"bar": ""}), None, False),
    "delete a pod whose anti-affinity matches": (
        "InterPodAffinity",
        builders.pod(labels={"foo": ""}),
        there({}, constraints=APART.constraints),
        None,
        True,
    ),
    "update the label of a pod whose anti-affinity matches": (
        "InterPodAffinity",
        builders.pod(labels={"foo": ""}),
        there({}, constraints=APART.constraints),
        there({"a": "b"}, constraints=APART.constraints),
        False,
    ),
    "add node with the key of affinity": ("InterPodAffinity", NEAR, None, node(zone="z"), True),
    "add node without the key of affinity": ("InterPodAffinity", NEAR, None, node(), False),
    "add node, for anti-affinity": ("InterPodAffinity", APART, None, node(), True),
    "update node to get the key of affinity": ("InterPodAffinity", NEAR, node(), node(zone="z"), True),
    "update node to lose the key of affinity": ("InterPodAffinity", NEAR, node(zone="z"), node(), False),
    "update node to be in another domain of affinity": ("InterPodAffinity", NEAR, node(zone="y"), node(zone="z"), True),
    "update node with other labels, affinity": (
        "InterPodAffinity",
        NEAR,
        node(zone="z", a="1"),
        node(zone="z", a="2"),
        False,
    ),
    "update node to lose the key of anti-affinity": ("InterPodAffinity", APART, node(zone="z"), node(), True),
    "update node to get the key of anti-affinity": ("InterPodAffinity", APART, node(), node(zone="z"), False),
    "update node to be in another domain of anti-affinity": (
        "InterPodAffinity",
        APART,
        node(zone="y"),
        node(zone="z"),
        True,
    ),
    "update node with other labels, anti-affinity": (
        "InterPodAffinity",
        APART,
        node(zone="z", a="1"),
        node(zone="z", a="2"),
        False,
    ),
}

LIMIT_CASES: dict[str, Case] = {
    "limit increased": ("NodeVolumeLimits", ATTACHING, limits(own=1), limits(own=2), True),
    "limit decreased": ("NodeVolumeLimits", ATTACHING, limits(own=2), limits(own=1), False),
    "limit unchanged": ("NodeVolumeLimits", ATTACHING, limits(own=2), limits(own=2), False),
    "driver added": ("NodeVolumeLimits", ATTACHING, limits(), limits(own=2), True),
    "limit of another driver increased: wider upstream": (
        "NodeVolumeLimits",
        ATTACHING,
        limits(own=2, other=1),
        limits(own=2, other=2),
        False,
    ),
    "limit is not stated any more: missed upstream": (
        "NodeVolumeLimits",
        ATTACHING,
        limits(own=2),
        limits(own=None),
        True,
    ),
    "limit stated from now on": ("NodeVolumeLimits", ATTACHING, limits(own=None), limits(own=2), False),
    "driver removed with its limit: missed upstream": ("NodeVolumeLimits", ATTACHING, limits(own=2), limits(), True),
    "driver without a limit removed": ("NodeVolumeLimits", ATTACHING, limits(own=None), limits(), False),
    "CSINode added": ("NodeVolumeLimits", ATTACHING, None, limits(own=1), True),
}

CASES = {
    **{f"spread: {name}": case for name, case in SPREAD_CASES.items()},
    **{f"affinity: {name}": case for name, case in AFFINITY_CASES.items()},
    **{f"limits: {name}": case for name, case in LIMIT_CASES.items()},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_wakes_the_pods_that_it_may_help_and_no_others(case: Case) -> None:
    plugin, pod, old, new, wakes = case
    assert may_help(pod, hints_of(plugin), ClusterEvent(old, new), SEEN) is wakes


@pytest.mark.parametrize(
    ("keys", "wakes"), [(frozenset({HOSTNAME}), False), (frozenset({ZONE}), True), (None, True)], ids=str
)
def test_a_node_that_leaves_the_domain_of_a_pod_that_keeps_others_out(
    keys: frozenset[str] | None, *, wakes: bool
) -> None:
    """Missed upstream: the pod has no terms of its own."""
    old, new = builders.node("n1", zone="a"), builders.node("n1", zone="b")
    change, wanted = ClusterEvent(old, new), replace(SEEN, topology_keys=keys)
    assert may_help(builders.pod(), hints_of("InterPodAffinity"), change, wanted) is wakes
