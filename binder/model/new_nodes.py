"""What planning may know of nodes that do not exist yet."""

from dataclasses import dataclass

from kube.objects.node_pool import NodePool
from kube.persistent_map import Map

Place = tuple[str, str]
"""A class and a zone."""


@dataclass(frozen=True, slots=True)
class NewNodes:
    """`pools`: Karpenter's NodePools, None if there are none to be read. `ahead`: for how many pods volumes of a class
    in a zone may be committed before they have a node, one where nothing is said.
    """

    pools: tuple[NodePool, ...] | None = None
    ahead: Map[Place, int] = Map()
