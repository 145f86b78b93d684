"""What every node says to a pod: by its volumes, and by everything else. The rules are the scheduler's."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod
from kube.rules.topology import zone_of
from prebinder.reports.match_pods import pod_answers
from prebinder.why.facts.facts import Facts, Source
from scheduler.cycle.cycle import judge
from scheduler.framework.profile import Profile, ProfileData
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY

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
"""kube-scheduler's filters whose answer does not follow from the claims' volumes."""

OUT_OF_REACH: Final = frozenset({Reason.VOLUME_UNREACHABLE, Reason.VOLUME_ZONE_MISMATCH})
"""Reasons for which a node can never have the pod while its volumes are what they are."""

_DOWN: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Why a node is not for the pod: because of its volumes, and because of anything else. Both empty: it fits."""

    node: Node
    by_volumes: tuple[Rejection, ...]
    by_others: tuple[Rejection, ...]

    @property
    def fits(self) -> bool:
        return not (self.by_volumes or self.by_others)

    @property
    def reaches(self) -> bool:
        """Whether the node reaches the volumes that the pod has."""
        return not any(rejection.reason in OUT_OF_REACH for rejection in self.by_volumes)


def node_verdicts(facts: Facts, pod: Pod) -> tuple[NodeVerdict, ...]:
    """Return what each node says. The pod's claims must all exist and be bound, or wait for a node."""
    snapshot = facts.need(Source.NODES, Source.CLAIMS, Source.VOLUMES, Source.CLASSES)
    facts.has(Source.ALL_PODS)  # What runs on the nodes; without it they count as empty.
    facts.has(Source.CSI_NODES)
    facts.has(Source.CSI_DRIVERS)
    facts.has(Source.CAPACITIES)
    facts.has(Source.ATTACHMENTS)
    cluster = facts.look.cluster
    rules = judge(pod, cluster, _profile()).rules
    answers = next(iter(pod_answers([pod], [state.node for state in cluster.nodes], snapshot)))
    by_volumes = {answer.node: answer.rejections for answer in answers.nodes}
    verdicts = []
    for state in cluster.nodes:
        refusals = (rule.why(state) for _, rule in rules)
        others = tuple(rejection for rejection in refusals if rejection is not None)
        verdicts.append(NodeVerdict(state.node, by_volumes.get(state.name, ()), others))
    return tuple(verdicts)


def short(rejection: Rejection) -> str:
    """Return a node's reason in two or three words, in those of kubectl and of kube-scheduler's Events."""
    if rejection.reason is Reason.NODE_UNSCHEDULABLE:
        return "cordoned"
    if rejection.reason is Reason.TAINT_NOT_TOLERATED:
        taint = rejection.offered.removeprefix("taint ")
        return "not ready" if taint.startswith(_DOWN) else f"tainted {taint}"
    if rejection.reason is Reason.INSUFFICIENT_RESOURCES:
        return f"Insufficient {rejection.wanted.split(' ')[0]}"
    words = {
        Reason.NODE_SELECTOR_MISMATCH: "excluded by the pod's node selector",
        Reason.ATTACH_LIMIT_REACHED: "at the volume limit",
        Reason.POD_ANTI_AFFINITY: "excluded by pod anti-affinity",
        Reason.EXISTING_POD_ANTI_AFFINITY: "excluded by pod anti-affinity",
        Reason.POD_AFFINITY_MISMATCH: "excluded by pod affinity",
        Reason.TOPOLOGY_SPREAD: "excluded by topology spread",
        Reason.HOST_PORT_TAKEN: "host port in use",
    }
    return words.get(rejection.reason, str(rejection.reason))


def by_place(verdicts: Iterable[NodeVerdict]) -> dict[str, list[NodeVerdict]]:
    """Return the verdicts by zone; nodes without a zone are under the empty name."""
    places: dict[str, list[NodeVerdict]] = {}
    for verdict in verdicts:
        places.setdefault(zone_of(verdict.node.labels), []).append(verdict)
    return dict(sorted(places.items()))


def usable_text(verdicts: list[NodeVerdict]) -> str:
    """Return `0 of 3 nodes usable: 2 cordoned, 1 Insufficient cpu`, by each node's first reason."""
    reasons: Counter[str] = Counter()
    for verdict in verdicts:
        first = next(iter((*verdict.by_others, *verdict.by_volumes)), None)
        if first is not None:
            reasons[short(first)] += 1
    usable = sum(1 for verdict in verdicts if verdict.fits)
    text = f"{usable} of {len(verdicts)} node{'' if len(verdicts) == 1 else 's'} usable"
    told = ", ".join(
        f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair))
    )
    return f"{text}: {told}" if told else text


def _profile() -> Profile:
    data = ProfileData("", "PrioritySort", (), _NOT_ABOUT_VOLUMES, {})
    return build(data, REGISTRY)
