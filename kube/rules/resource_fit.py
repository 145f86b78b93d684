"""What a node has left and whether a pod's requests fit, as the scheduler's NodeResourcesFit plugin computes it.

Amounts are nano-units by resource name (`cpu`, `memory`, `pods`, `example.com/gpu`, ...).
"""

import re
from collections.abc import Container, Iterable, Mapping
from typing import Final

from kube.objects.model import Node, Pod
from kube.rules.quantity import NANO

PODS: Final = "pods"
_OF_KUBERNETES: Final = re.compile(r"(^|\.)kubernetes\.io/")
"""Names that are no extended resources (IsExtendedResourceName in pkg/apis/core/helper)."""

_CPU_STEP: Final = NANO // 1000


def in_scheduler_units(requests: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Round up to the scheduler's units, cores to thousandths and all else to whole units; sorted by name."""
    return tuple(sorted((name, _rounded_up(name, wanted)) for name, wanted in requests.items()))


def _rounded_up(name: str, wanted: int) -> int:
    step = _CPU_STEP if name == "cpu" else NANO
    return -(-wanted // step) * step


def free_resources(node: Node, pods: Iterable[Pod]) -> dict[str, int]:
    """Return allocatable minus the requests of the pods on the node; finished pods count nothing.

    Each pod uses one of `pods`. A resource that the node does not offer appears, negative, if a pod requests it.
    """
    free = dict(node.allocatable)
    free.setdefault(PODS, 0)
    for pod in pods:
        if pod.finished:
            continue
        free[PODS] -= NANO
        for name, wanted in pod.requests:
            free[name] = free.get(name, 0) - wanted
    return free


def fits(free: Mapping[str, int], requests: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Return (resource, wanted, free) for every resource that a pod with these requests lacks; empty if it fits."""
    wanted = {PODS: NANO} | {name: amount for name, amount in requests if amount > 0}
    return [(name, amount, free.get(name, 0)) for name, amount in wanted.items() if amount > free.get(name, 0)]


def offered_nowhere(requests: Iterable[tuple[str, int]], offers: Iterable[Container[str]]) -> tuple[str, ...]:
    """Return the extended resources among the requests that no node offers. `offers` has the names of each node's.

    A DeviceClass may provide such a resource (`spec.extendedResourceName`, KEP-5004), which is not counted here.
    """
    missing = [name for name, amount in requests if amount > 0 and "/" in name and not _OF_KUBERNETES.search(name)]
    for names in offers:
        if not missing:
            break
        missing = [name for name in missing if name not in names]
    return tuple(missing)


def has_room(free: Mapping[str, int], requests: Iterable[tuple[str, int]]) -> bool:
    """Whether `fits` would return nothing."""
    if free.get(PODS, 0) < NANO:
        return False
    for name, amount in requests:  # noqa: SIM110 - a generator takes twice as long, and this is run for each node
        if amount > 0 and amount > free.get(name, 0):
            return False
    return True
