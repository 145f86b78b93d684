"""What a node offers and what its pods use of it: resources and ports."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final

from bench.placement.cluster import Document, amount, key_of

Amounts = dict[str, Fraction]
Port = tuple[str, str, int]
"""Address, protocol, number."""

_OF_THE_POD: Final = ("cpu", "memory", "hugepages-")
"""Resources that spec.resources may state for the pod as a whole."""
_EVERYWHERE: Final = {"", "0.0.0.0", "::"}
_NAMED: Final = 3


def requests(pod: Document) -> Amounts:
    """Return what a pod counts as.

    Containers and restartable init containers run together; other init containers one after the other, each beside the
    restartable ones that were started before it. Overhead comes on top. KEP-753.
    """
    spec = pod["spec"]
    together = _sum(_of(container) for container in spec["containers"])
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = _sum([beside, _of(container)])
            peak = _greatest(peak, beside)
        else:
            peak = _greatest(peak, _sum([beside, _of(container)]))
    total = _greatest(_sum([together, beside]), peak)
    total |= {name: each for name, each in _of(spec).items() if name.startswith(_OF_THE_POD)}
    return _sum([total, _amounts(spec.get("overhead"))])


def overcommitted(node: Document, pods: Sequence[Document]) -> Iterator[str]:
    """Return which resources, the number of pods among them, exceed the node's allocatable ones."""
    offered = _amounts(node["status"].get("allocatable"))
    wanted = {key_of(pod): {**requests(pod), "pods": Fraction(1)} for pod in pods}
    for name, total in _sum(wanted.values()).items():
        if total > offered.get(name, 0):
            some = [key for key, each in wanted.items() if each.get(name)]
            yield (
                f"{name}: {float(total):g} requested by {len(some)} pods, {float(offered.get(name, 0)):g} allocatable; "
                f"{', '.join(some[-_NAMED:])}"
            )


def port_conflicts(pods: Sequence[Document]) -> Iterator[tuple[Document, Document, str]]:
    """Yield pairs of pods of one node that want the same port of it."""
    wanting = [(pod, port) for pod in pods for port in _ports(pod)]
    for (first, wanted), (second, other) in combinations(wanting, 2):
        if first is not second and _clash(wanted, other):
            yield first, second, f"{wanted[1]} {wanted[2]}"


def _clash(port: Port, other: Port) -> bool:
    return port[1:] == other[1:] and (port[0] == other[0] or bool({port[0], other[0]} & _EVERYWHERE))


def _ports(pod: Document) -> set[Port]:
    spec = pod["spec"]
    sidecars = [sidecar for sidecar in spec.get("initContainers") or () if sidecar.get("restartPolicy") == "Always"]
    return {
        (port.get("hostIP") or "", port.get("protocol") or "TCP", port["hostPort"])
        for container in [*spec["containers"], *sidecars]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _of(holder: Document) -> Amounts:
    return _amounts((holder.get("resources") or {}).get("requests"))


def _amounts(quantities: Mapping[str, object] | None) -> Amounts:
    return {name: amount(value) for name, value in (quantities or {}).items()}


def _sum(amounts: Iterable[Mapping[str, Fraction]]) -> Amounts:
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for each in amounts:
        for name, value in each.items():
            total[name] += value
    return dict(total)


def _greatest(left: Amounts, other: Amounts) -> Amounts:
    zero = Fraction()
    return {name: max(left.get(name, zero), other.get(name, zero)) for name in left.keys() | other.keys()}
