"""Room on nodes, by brute force over the objects: resources, taints, anti-affinity, and what volumes are accessible.

A pod is committed if volumes are bound or committed for all of its claims, and no gate but ours holds it back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from soak.judge import facts
from soak.judge.history import Object

_MAX_TRIES: Final = 20_000
_UNITS: Final = {"cpu": 1000, "memory": 1}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node, and the nodes that would take it if they were empty."""

    pod: Object
    nodes: tuple[str, ...]


def requests(pod: Object) -> dict[str, int]:
    """Return what a pod requests, in thousandths of a CPU and bytes, and itself."""
    wanted: list[dict[str, str]] = [
        (each.get("resources") or {}).get("requests") or {} for each in pod["spec"].get("containers") or ()
    ]
    sums = {name: sum(amount(name, each.get(name, "0")) for each in wanted) for name in _UNITS}
    return {**sums, "pods": 1}


def amount(resource: str, text: str) -> int:
    """Read a quantity as the soak's objects have it: `10m`, `2`, `64Gi`."""
    return int(text[:-1]) if text.endswith("m") else facts.size(text) * _UNITS.get(resource, 1)


def allocatable(node: Object) -> dict[str, int]:
    """Return what a node has; a resource that it does not name counts as without limit."""
    known = node.get("status", {}).get("allocatable") or {}
    return {name: amount(name, known[name]) for name in (*_UNITS, "pods") if name in known}


def usable(node: Object | None) -> bool:
    """Whether the node takes pods without tolerations at all."""
    if node is None or facts.deleting(node) or node.get("spec", {}).get("unschedulable"):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    tainted = any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints") or ())
    return ready and not tainted


def takes(node: Object, there: Sequence[Object], pod: Object) -> bool:
    """Whether the node takes the pod beside those that are there."""
    wanted = [requests(each) for each in (*there, pod)]
    enough = all(sum(each[name] for each in wanted) <= has for name, has in allocatable(node).items())
    return enough and not any(keep_apart(pod, each) for each in there)


def has_place(node: Object, pods: Iterable[Object], pod: Object, booked: Iterable[Object] = ()) -> bool:
    """Whether the node takes pods, and this one beside those of all pods that are on it, and beside what is booked."""
    there = by_node(pods, lambda _: True).get(facts.name(node), [])
    return usable(node) and takes(node, [*there, *booked], pod)


def keep_apart(pod: Object, other: Object) -> bool:
    """Whether one of them excludes the other from its node (required anti-affinity by hostname)."""
    return _excludes(pod, other) or _excludes(other, pod)


def placeable(pods: Sequence[Waiting], nodes: Mapping[str, Object], there: Mapping[str, Sequence[Object]]) -> bool:
    """Whether all of the pods have a place at once beside those that are there; True also if it takes too long."""
    tries = _MAX_TRIES

    def seated(left: Sequence[Waiting], taken: Mapping[str, tuple[Object, ...]]) -> bool:
        nonlocal tries
        if not left:
            return True
        for name in left[0].nodes:
            tries -= 1
            if tries < 0:
                return True
            beside = (*there.get(name, ()), *taken.get(name, ()))
            if takes(nodes[name], beside, left[0].pod):
                more = {**taken, name: (*taken.get(name, ()), left[0].pod)}
                if seated(left[1:], more):
                    return True
        return False

    return seated(sorted(pods, key=lambda each: len(each.nodes)), {})


def all_that_fit(
    pods: Iterable[Waiting], nodes: Mapping[str, Object], there: Mapping[str, Sequence[Object]]
) -> list[Waiting]:
    """Return the pods that have a place at once, the first ones first: a pod without a place takes no room."""
    fitting: list[Waiting] = []
    for each in pods:
        if placeable([*fitting, each], nodes, there):
            fitting.append(each)
    return fitting


def by_node(pods: Iterable[Object], counts: Callable[[Object], bool]) -> dict[str, list[Object]]:
    """Return the pods that are on nodes and not finished, by node."""
    there: dict[str, list[Object]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and not facts.finished(pod) and counts(pod):
            there.setdefault(str(name), []).append(pod)
    return there


def _excludes(pod: Object, other: Object) -> bool:
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity", {})
    terms = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    labels: dict[str, Any] = other["metadata"].get("labels") or {}
    return any(
        (term["labelSelector"].get("matchLabels") or {}).items() <= labels.items()
        for term in terms
        if term["labelSelector"].get("matchLabels")
    )
