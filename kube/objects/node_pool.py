"""A NodePool of Karpenter: which nodes it would add, and whether it may."""

from typing import Final

from msgspec import Struct

from kube.objects.labels import Pairs, Requirement
from kube.objects.model import Taint

POOL_LABEL: Final = "karpenter.sh/nodepool"
"""On a node: the pool that it belongs to."""


class NodePool(Struct, frozen=True, gc=False):
    """What decides about the nodes of a pool (karpenter.sh/v1).

    `labels` and `taints` are those of each node, startup taints left out; `requirements` what its labels have to
    satisfy. `limits` and `used` are in nano-units by resource. `fault` says why it adds no nodes now, empty if it does.
    """

    name: str
    labels: Pairs = ()
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    used: tuple[tuple[str, int], ...] = ()
    fault: str = ""
