"""The volumes, claims and nodes of the matching measurement; `match_test.go` in upstream/ creates the same ones."""

from typing import Final

from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import READ_WRITE_ONCE, Claim, ClaimReference, Volume
from kube.rules.quantity import parse_quantity

QUERIES: Final = 64
LAYOUTS: Final = ("zonal", "local")
QUESTIONS: Final = ("nowhere", "node", "node+selector")

_CLASS: Final = "fast"
_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"


def volumes(count: int, layout: str) -> list[Volume]:
    """Two of five are Available; an eighth is in each zone, or each is local to a node of its own; one of 20 is
    gold.
    """
    return [_volume(number, layout) for number in range(count)]


def query(number: int, count: int, layout: str, question: str) -> tuple[Claim, dict[str, str] | None]:
    """Return a claim and the labels of the node it is to be matched on, None for no node."""
    at = number * 1580 % count // 20 * 20
    size = _size(at) if layout == "local" else 1 + number * 37 % 400
    claim = Claim(
        namespace="default",
        name=f"data-{number}",
        uid="data",
        resource_version=1,
        storage_class=_CLASS,
        request=parse_quantity(f"{size}Gi"),
        access_modes=(READ_WRITE_ONCE,),
        selector=LabelSelector((("tier", "gold"),)) if question == "node+selector" else None,
    )
    labels = {_ZONE: _zone(number), _HOSTNAME: _node(at)}
    return claim, None if question == "nowhere" else labels


def _volume(number: int, layout: str) -> Volume:
    key, value = (_HOSTNAME, _node(number)) if layout == "local" else (_ZONE, _zone(number))
    taken = number % 5 >= 2
    return Volume(
        name=f"pv-{number:06}",
        uid=f"uid-{number}",
        resource_version=1,
        storage_class=_CLASS,
        capacity=parse_quantity(f"{_size(number)}Gi"),
        access_modes=(READ_WRITE_ONCE,),
        node_affinity=NodeSelector((NodeSelectorTerm((Requirement(key, "In", (value,)),)),)),
        claim=ClaimReference("default", f"taken-{number:06}", "taken") if taken else None,
        phase="Bound" if taken else "Available",
        labels=(("tier", "silver" if number % 20 else "gold"),),
    )


def _size(number: int) -> int:
    return 1 + number * 7919 % 499


def _zone(number: int) -> str:
    return f"zone-{number % 8}"


def _node(number: int) -> str:
    return f"node-{number:06}"
