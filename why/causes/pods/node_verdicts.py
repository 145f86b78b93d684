"""The scheduler's verdict on every node for a pod: by its volumes, and by everything else."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from binder.matching.claim_shape import family_of
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import READ_WRITE_ONCE_POD, SELECTED_NODE, Claim, Node, Pod, value_of
from kube.rules.selectors import label_keys, named_nodes
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot
from scheduler.cycle.cycle import judge
from scheduler.framework.profile import Profile, ProfileData
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY
from scheduler.volumes.node_answer import on_nodes
from scheduler.volumes.volume_binding import PodClaims, choose_volumes, claims_of
from why.causes.objects import NOT_READY
from why.facts.facts import Facts, Source

_NOT_ABOUT_VOLUMES: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "DiskConflict",
    "VolumeRestrictions",
    "PodTopologySpread",
    "InterPodAffinity",
)
"""kube-scheduler's filters whose result does not depend on the claims' volumes."""

OUT_OF_REACH: Final = frozenset({Reason.VOLUME_UNREACHABLE, Reason.VOLUME_ZONE_MISMATCH})
"""Reasons for which a node can never run the pod with its present volumes."""

_OWN_LABELS: Final = frozenset({"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"})
"""Labels in which the replicas of a StatefulSet differ."""

SET_BY_COMPONENTS: Final = re.compile(
    r"(?:[^/=:]+\.)?(?:kubernetes|k8s)\.io/|karpenter\.sh/|ToBeDeletedByClusterAutoscaler|"
    r"DeletionCandidateOfClusterAutoscaler|[^:=]*(?:agent-not-ready|agentNotReady|not-ready|startup)"
)
"""Keys of labels and taints that Kubernetes, a cloud, an autoscaler or a driver sets: a taint goes with its cause."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Why a node does not fit the pod: because of its volumes, and because of anything else. Both empty: it fits."""

    node: Node
    by_volumes: tuple[Rejection, ...]
    by_others: tuple[Rejection, ...]

    @property
    def fits(self) -> bool:
        return not (self.by_volumes or self.by_others)

    @property
    def reaches(self) -> bool:
        """Whether the pod's volumes are accessible from the node."""
        return not any(rejection.reason in OUT_OF_REACH for rejection in self.by_volumes)


@dataclass(frozen=True)
class NodeVerdicts:
    """The verdicts on every node for equal pods, and conclusions for all nodes.

    `only_on` are the nodes that the pods' affinity names, as for a DaemonSet: only these count then. None if it names
    none. `selecting` are the labels that the pods' node selector and affinity use.
    """

    every: tuple[NodeVerdict, ...]
    only_on: frozenset[str] | None = None
    selecting: tuple[str, ...] = ()

    @cached_property
    def any_fits(self) -> bool:
        return any(verdict.fits for verdict in self.every)

    @cached_property
    def near(self) -> tuple[NodeVerdict, ...]:
        """Nodes from which the pod's volumes are accessible."""
        return tuple(verdict for verdict in self.every if verdict.reaches)

    @cached_property
    def far(self) -> tuple[NodeVerdict, ...]:
        """Nodes from which they are not."""
        return tuple(verdict for verdict in self.every if not verdict.reaches)

    @cached_property
    def usable(self) -> tuple[NodeVerdict, ...]:
        """Nodes that could run the pod apart from its volumes."""
        return tuple(verdict for verdict in self.every if not verdict.by_others)

    @cached_property
    def served(self) -> tuple[NodeVerdict, ...]:
        """Nodes that could run the pod as far as its volumes are concerned."""
        return tuple(verdict for verdict in self.every if not verdict.by_volumes)

    @cached_property
    def only_cordoned(self) -> NodeVerdict | None:
        """The first node that only its cordon excludes."""
        return self._only(Reason.NODE_UNSCHEDULABLE)

    @cached_property
    def only_tainted(self) -> NodeVerdict | None:
        """The first node that only a taint excludes which a person has set, and may end."""
        return self._only(Reason.TAINT_NOT_TOLERATED)

    def _only(self, reason: Reason) -> NodeVerdict | None:
        alone = (verdict for verdict in self.served if len(verdict.by_others) == 1)
        return next((verdict for verdict in alone if _may_be_lifted(verdict.by_others[0], reason)), None)

    @cached_property
    def zones_far(self) -> tuple[str, ...]:
        """Zones without a node from which the pod's volumes are accessible."""
        near = {zone_of(verdict.node.labels) for verdict in self.near} if self.far else set()
        return tuple(sorted({zone_of(verdict.node.labels) for verdict in self.far} - near - {""}))

    @cached_property
    def some_far_usable(self) -> bool:
        return any(not verdict.by_others for verdict in self.far)

    @cached_property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Zones with their number of usable nodes; nodes without a zone are last."""
        return _by_place(self.every)

    @cached_property
    def places_near(self) -> tuple[tuple[str, str], ...]:
        """As `places`, for the nodes from which the volumes are accessible only."""
        return _by_place(self.near)

    @cached_property
    def against_usable(self) -> tuple[Rejection, ...]:
        """Why volumes exclude nodes that are usable otherwise, each distinct text once."""
        rejections = (rejection for verdict in self.usable for rejection in verdict.by_volumes)
        return tuple({(each.reason, each.wanted, each.offered): each for each in rejections}.values())

    @cached_property
    def lack_driver(self) -> bool:
        """Whether a node is excluded because a driver is not registered on it, as far as its CSINode was read."""
        rejections = (each for verdict in self.every for each in (*verdict.by_volumes, *verdict.by_others))
        return any(rejection.reason is Reason.DRIVER_NOT_ON_NODE for rejection in rejections)

    @cached_property
    def in_words(self) -> str:
        return usable_text(self.every)


def node_verdicts(facts: Facts, pod: Pod) -> NodeVerdicts:
    """Return the verdict on each node. The pod's claims must all exist and be bound, or wait for a node."""
    snapshot = facts.need(Source.NODES, Source.CLAIMS, Source.VOLUMES, Source.CLASSES)
    facts.has(Source.ALL_PODS)  # What runs on the nodes; without it they count as empty.
    facts.has(Source.CSI_NODES)
    facts.has(Source.CSI_DRIVERS)
    facts.has(Source.CAPACITIES)
    facts.has(Source.ATTACHMENTS)
    claims = claims_of(pod, snapshot)
    if not isinstance(claims, PodClaims):
        return NodeVerdicts(())
    kind = _kind_of(pod, claims, snapshot)
    known: NodeVerdicts | None = facts.derived.verdicts.get(kind)
    if known is None:
        only_on = named_nodes(pod.node_affinity) or None
        selecting = {key for key, _ in pod.node_selector}.union(label_keys(pod.node_affinity))
        every = tuple(_verdicts(facts, pod, claims, only_on))
        known = facts.derived.verdicts[kind] = NodeVerdicts(every, only_on, tuple(sorted(selecting)))
    if known.lack_driver:
        facts.need(Source.CSI_NODES)
    return known


@dataclass(frozen=True, slots=True)
class ClaimVerdicts:
    """The verdicts of the nodes that could run a pod on one of its claims without a volume, as if it were the only one.

    `served` are the nodes where it would have a volume, `reasons` those of the others.
    """

    claim: Claim
    served: frozenset[str]
    reasons: frozenset[Reason]


def claim_verdicts(facts: Facts, pod: Pod, claims: PodClaims) -> tuple[ClaimVerdicts, ...]:
    """Return the verdicts of usable nodes on each of the claims that wait for a node, in the pod's order."""
    key = ("each", _kind_of(pod, claims, facts.snapshot))
    known: list[tuple[frozenset[str], frozenset[Reason]]] | None = facts.derived.verdicts.get(key)
    if known is None:
        usable = node_verdicts(facts, pod).usable
        known = facts.derived.verdicts[key] = [_alone(facts, claim, usable) for claim in claims.delayed]
    return tuple(ClaimVerdicts(claim, *verdict) for claim, verdict in zip(claims.delayed, known, strict=True))


def _alone(facts: Facts, claim: Claim, usable: Iterable[NodeVerdict]) -> tuple[frozenset[str], frozenset[Reason]]:
    only = PodClaims(delayed=(claim,), wanted=(claim,))
    served: set[str] = set()
    reasons: set[Reason] = set()
    for verdict in usable:
        choice = choose_volumes(only, verdict.node, facts.snapshot, facts.derived.view.index)
        rejections = _known(facts, choice.rejections)
        reasons.update(rejection.reason for rejection in rejections)
        if not rejections:
            served.add(verdict.node.name)
    return frozenset(served), frozenset(reasons)


def _verdicts(facts: Facts, pod: Pod, claims: PodClaims, only_on: Set[str] | None) -> Iterator[NodeVerdict]:
    derived = facts.derived
    states = [state for state in derived.cluster.nodes if only_on is None or state.name in only_on]
    rules = judge(pod, derived.cluster, _profile()).rules
    uses = ((state.node, state.attach) for state in states)
    for state, answer in zip(states, on_nodes(pod, claims, uses, facts.snapshot, derived.view.index), strict=True):
        rejections = (rule.why(state) for _, rule in rules)
        by_others = tuple(rejection for rejection in rejections if rejection is not None)
        yield NodeVerdict(state.node, _known(facts, answer.rejections), by_others)


def _known(facts: Facts, rejections: tuple[Rejection, ...]) -> tuple[Rejection, ...]:
    """Return the rejections that rest on what was read: unread capacities exclude no node."""
    if facts.has(Source.CAPACITIES):
        return rejections
    return tuple(rejection for rejection in rejections if rejection.reason is not Reason.INSUFFICIENT_STORAGE)


def _kind_of(pod: Pod, claims: PodClaims, snapshot: Snapshot) -> Hashable:
    """Return what pods with the same verdict on every node have in common, the names of their claims aside."""
    labels = tuple(pair for pair in pod.labels if pair[0] not in _OWN_LABELS)
    named = tuple(name for name in pod.claim_keys if _is_alone(name, claims, snapshot))
    return (
        pod.namespace,
        labels,
        pod.requests,
        pod.node_selector,
        pod.node_affinity,
        pod.tolerations,
        pod.constraints,
        tuple((volume.node_affinity, volume.labels, volume.driver) for _, volume in claims.bound),
        tuple((family_of(claim), claim.request, value_of(claim.annotations, SELECTED_NODE)) for claim in claims.wanted),
        tuple(claim.volume_name for claim in claims.orphaned),
        named,
    )


def _is_alone(key: str, claims: PodClaims, snapshot: Snapshot) -> bool:
    """Whether volumes that name the claim, or other pods that use it, may matter."""
    if key in snapshot.volumes_by_claim and any(claim.key == key for claim in claims.delayed):
        return True
    every = (*(claim for claim, _ in claims.bound), *claims.delayed)
    return any(claim.key == key and READ_WRITE_ONCE_POD in claim.access_modes for claim in every)


def _may_be_lifted(rejection: Rejection, reason: Reason) -> bool:
    taint = rejection.offered.removeprefix("taint ")
    return rejection.reason is reason and not (reason is Reason.TAINT_NOT_TOLERATED and SET_BY_COMPONENTS.match(taint))


def short(rejection: Rejection) -> str:
    """Return a node's reason in two or three words, in those of kubectl and of kube-scheduler's Events."""
    if rejection.reason is Reason.NODE_UNSCHEDULABLE:
        return "cordoned"
    if rejection.reason is Reason.TAINT_NOT_TOLERATED:
        taint = rejection.offered.removeprefix("taint ")
        return "not ready" if taint.startswith(NOT_READY) else f"tainted {taint}"
    if rejection.reason is Reason.INSUFFICIENT_RESOURCES:
        return f"Insufficient {rejection.wanted.split(' ')[0]}"
    words = {
        Reason.NODE_SELECTOR_MISMATCH: "excluded by the pod's node selector",
        Reason.ATTACH_LIMIT_REACHED: "at the volume limit",
        Reason.DRIVER_NOT_ON_NODE: "without the volumes' CSI driver",
        Reason.POD_ANTI_AFFINITY: "excluded by pod anti-affinity",
        Reason.EXISTING_POD_ANTI_AFFINITY: "excluded by pod anti-affinity",
        Reason.POD_AFFINITY_MISMATCH: "excluded by pod affinity",
        Reason.TOPOLOGY_SPREAD: "excluded by topology spread",
        Reason.HOST_PORT_TAKEN: "host port in use",
    }
    return words.get(rejection.reason, str(rejection.reason))


def _by_place(verdicts: Iterable[NodeVerdict]) -> tuple[tuple[str, str], ...]:
    places: dict[str, list[NodeVerdict]] = {}
    for verdict in verdicts:
        places.setdefault(zone_of(verdict.node.labels), []).append(verdict)
    return tuple((zone or "nodes without a zone", usable_text(group)) for zone, group in sorted(places.items()))


def usable_text(verdicts: Sequence[NodeVerdict]) -> str:
    """Return `0 of 3 nodes usable: 2 cordoned, 1 Insufficient cpu`, by each node's first reason."""
    reasons: Counter[str] = Counter()
    for verdict in verdicts:
        first = next(iter((*verdict.by_others, *verdict.by_volumes)), None)
        if first is not None:
            reasons[short(first)] += 1
    usable = sum(1 for verdict in verdicts if verdict.fits)
    text = f"{usable} of {len(verdicts)} node{'' if len(verdicts) == 1 else 's'} usable"
    counts_text = ", ".join(
        f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair))
    )
    return f"{text}: {counts_text}" if counts_text else text


def _profile() -> Profile:
    data = ProfileData("", "PrioritySort", (), _NOT_ABOUT_VOLUMES, {})
    return build(data, REGISTRY)
