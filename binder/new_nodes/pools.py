"""Which nodes a NodePool of Karpenter would add.

Karpenter makes a node from the pool's labels and requirements, in a zone that these allow, of a size that suits the
pods. A label that it does not know makes a pod unschedulable for it ("does not have known values").
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kube.objects.labels import Pairs, Requirement
from kube.objects.model import Node, Pod
from kube.objects.node_pool import POOL_LABEL, NodePool
from kube.rules.label_test import ValueTest, label_test
from kube.rules.quantity import NANO, format_quantity
from kube.rules.resource_fit import PODS
from kube.rules.topology import ZONE_LABEL, zone_of

_OS_LABEL: Final = "kubernetes.io/os"
_NODES: Final = "nodes"
"""The limit on the number of nodes."""
_SIZED: Final = ("cpu", "memory", "ephemeral-storage")
"""What Karpenter chooses an instance type by: as much of it as the pods request."""
_UNLIMITED: Final = 2**62 * NANO
_MAX_PODS: Final = 110 * NANO
"""The kubelet's default."""
_READ: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""Operators that decide about labels that pods select; the others compare sizes of instances."""


def fault_of(pool: NodePool) -> str:
    """Return why the pool adds no node now, empty if it may."""
    if pool.fault:
        return pool.fault
    used = dict(pool.used)
    for name, limit in pool.limits:
        if used.get(name, 0) + (NANO if name == _NODES else 1) > limit:
            return f"its limit of {name} {format_quantity(limit, binary=name == 'memory')} is reached"
    return ""


def zones_of(pool: NodePool, nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the zones in which the pool is known to add nodes: those that it names, else those where it has some."""
    named = {value for each in pool.requirements if each.key == ZONE_LABEL for value in _values(each)}
    named |= {value for key, value in pool.labels if key == ZONE_LABEL}
    known = named or {zone_of(node.labels) for node in nodes if dict(node.labels).get(POOL_LABEL) == pool.name}
    test = _tests(pool).get(ZONE_LABEL)
    return tuple(sorted(zone for zone in known if zone and (test is None or test.holds(zone))))


def labels_of(pool: NodePool, pod: Pod) -> dict[str, str]:
    """Return the labels of a node that the pool would add for the pod, besides those of a zone and of the node itself.

    Of several values that the pool allows the node has the one that the pod selects.
    """
    labels = {_OS_LABEL: "linux", POOL_LABEL: pool.name} | dict(pool.labels)
    for each in pool.requirements:
        values = _values(each)
        if len(values) == 1:
            labels[each.key] = values[0]
    tests = _tests(pool)
    selected = {key: value for key, value in pod.node_selector if key in tests and tests[key].holds(value)}
    return labels | {key: value for key, value in selected.items() if key not in dict(pool.labels)}


def allocatable_of(pool: NodePool, like: Node | None) -> tuple[tuple[str, int], ...]:
    """Return what a node could offer at most: what the limits leave, and of other resources what `like` offers."""
    used = dict(pool.used)
    left = {name: limit - used.get(name, 0) for name, limit in pool.limits if name != _NODES}
    sized = {name: min(left.get(name, _UNLIMITED), _UNLIMITED) for name in _SIZED}
    others = dict(like.allocatable) if like is not None else {}
    return tuple(sorted(({PODS: _MAX_PODS} | others | sized).items()))


def _values(requirement: Requirement) -> tuple[str, ...]:
    return requirement.values if requirement.operator == "In" else ()


def _tests(pool: NodePool) -> Mapping[str, ValueTest]:
    return label_test(_readable(pool.requirements)).tests


def _readable(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    return (each for each in requirements if each.operator in _READ)


def zone_aliases(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the label keys that name the zone too, as of a CSI driver: on every node that has it, it equals the zone.

    Providers of Karpenter translate them (NormalizedLabels in pkg/apis/v1/labels.go).
    """
    same: dict[str, bool] = {}
    for node in nodes:
        zone = zone_of(node.labels)
        for key, value in node.labels:
            if key.endswith("zone") and key != ZONE_LABEL:
                same[key] = same.get(key, True) and value == zone
    return frozenset(key for key, is_same in same.items() if is_same)


def regions_of(nodes: Iterable[Node], zone: str, keys: Iterable[str]) -> Pairs:
    """Return the labels of these keys that the nodes of a zone agree on, or else all nodes."""
    everywhere = list(nodes)
    there = [node for node in everywhere if zone_of(node.labels) == zone] or everywhere
    agreed: list[tuple[str, str]] = []
    for key in keys:
        values = {value for node in there for name, value in node.labels if name == key}
        if len(values) == 1:
            agreed.append((key, values.pop()))
    return tuple(agreed)
