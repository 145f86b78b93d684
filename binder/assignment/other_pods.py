"""The pods that a pass sees but does not decide: those on nodes, and those with volumes reserved earlier.

Read only as far as some rule about other pods affects the pods of the pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from binder.booking.bookings import Bookings
from binder.model.demand import Demand
from binder.model.view import View
from kube.objects.labels import Pairs
from kube.objects.model import Node, Pod, Volume
from kube.persistent_map import Map
from kube.pod_topology.node_index import NodeIndex
from kube.pod_topology.placed_pods import Labelled, PlacedPods
from kube.pod_topology.pod_groups import PodGroups
from kube.pod_topology.pod_ties import TieKind, Ties, ties_of, widened

_NOWHERE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Labels:
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReservedPod:
    """A pod that waits for a node: all volumes that it has, or that are reserved for it, must be accessible from there.

    `node` is where its room is booked, `nodes` are the only ones possible for what is being provisioned for it.
    """

    pod: Pod
    volumes: tuple[Volume, ...]
    node: str
    nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes by name in the order of their numbers, with the pods on them that matter to the pass."""

    nodes: Sequence[Labelled]
    index: NodeIndex
    pod_groups: PodGroups
    namespaces: Mapping[str, Pairs] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class OtherPods:
    """The initial state of a pass; shared by every `Neighbourhood` of the pass, which decides so many pods."""

    view: View
    nodes: Sequence[Node]
    numbers: Mapping[str, int]
    placed: PlacedPods
    ties: Ties
    reserved: tuple[ReservedPod, ...]
    decided: int


def other_pods_of(view: View, demands: Iterable[Demand], bookings: Bookings) -> OtherPods | None:
    """Return what matters of other pods to these demands; None if no pod requires anything of them.

    Costs nothing in a cluster whose pods require nothing of others, and little if no term selects these pods.
    """
    pods = {demand.pod.key: demand.pod for demand in demands}
    required = [pod for pod in pods.values() if pod.constraints is not None and pod.constraints.is_required]
    constraining = [view.snapshot.pods[key] for key in view.snapshot.constraining_pods if key not in pods]
    if not required and not constraining:
        return None
    ties = Ties()
    for pod in (*required, *constraining):
        ties.add(tie for tie in ties_of(pod) if not pod.node_name or tie.kind is TieKind.APART)
    if not required and not any(map(ties.meaning, pods.values())):
        return None
    wanted = _namespaces_meant(required)
    others = constraining if wanted == _NOWHERE else view.snapshot.pods.values()
    placed = [pod for pod in others if pod.node_name and not pod.finished and _matters(pod, wanted)]
    relevant = view.snapshot.constraining_pods if wanted == _NOWHERE else view.snapshot.pods
    reserved = tuple(
        ReservedPod(booked.waiting.pod, booked.volumes, node, booked.waiting.nodes)
        for booked, node in bookings.placed()
        if booked.key not in pods and booked.key in relevant
    )
    nodes = [node for _, node in sorted(view.snapshot.nodes.items())]
    numbers = {node.name: number for number, node in enumerate(nodes)}
    groups = PodGroups.of((known(pod), numbers[pod.node_name]) for pod in placed if pod.node_name in numbers)
    stage = Placed([_Labels(dict(node.labels)) for node in nodes], NodeIndex.of(nodes), groups)
    return OtherPods(view, nodes, numbers, stage, ties, reserved, len(pods))


def _namespaces_meant(pods: Iterable[Pod]) -> frozenset[str] | None:
    """Return the namespaces that terms and constraints of these pods select; None means all of them."""
    namespaces: set[str] = set()
    for tie in (tie for pod in pods for tie in ties_of(pod)):
        if tie.term.namespace_selector is not None:
            return None
        namespaces.update(tie.term.namespaces or (tie.owner,))
    return frozenset(namespaces)


def _matters(pod: Pod, namespaces: frozenset[str] | None) -> bool:
    if namespaces is None or pod.namespace in namespaces:
        return True
    return pod.constraints is not None and bool(pod.constraints.anti_affinity)


def known(pod: Pod) -> Pod:
    """Return the pod as it is counted: its terms select all namespaces if they need labels that are not known."""
    constraints = widened(pod.constraints)
    return pod if constraints is pod.constraints else replace(pod, constraints=constraints)
