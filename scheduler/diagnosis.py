"""Why no node was found for a pod: counted by reason, in the words kube-scheduler uses, and ours in the same style.

The text is that of FitError.Error in pkg/scheduler/framework/types.go, the reasons are those of its plugins. Every node
is counted with the first filter that refuses it, as there; only of resources all that are lacking are named.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from binder.rejection import Reason, Rejection
from kube.model import Pod
from kube.resources import PODS, fits
from kube.taints import tolerates_unschedulable
from scheduler.cycle import Judgement, Unschedulable
from scheduler.node_memory import NodeMemory
from scheduler.node_rules import NodeAffinity, NodeReady, TaintToleration
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule
from scheduler.reservation_filters import LocalStorage
from scheduler.resource_fit import NodePorts, NodeResourcesFit
from scheduler.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is said of a node."""

    reason: Reason
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reasons against all nodes. `whole` is the one against the pod itself, empty when nodes were looked at.

    `counts` are nodes by text. `reason` is the commonest, for metrics; `refused_by` are the plugins that refused
    some node.
    """

    nodes: int
    whole: str
    counts: Mapping[str, int]
    reason: Reason
    refused_by: frozenset[str]

    def text(self, post_filter: str = "") -> str:
        """Return the sentence for the pod's condition and Event. `post_filter` is what preemption had to say."""
        said = self.whole or ", ".join(sorted(f"{nodes} {text}" for text, nodes in self.counts.items()))
        parts = [f"0/{self.nodes} nodes are available:", f"{said}." if said else "", post_filter]
        return " ".join(part for part in parts if part)


def _said(text: str) -> str:
    return f"node(s) {text}"


_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.NODE_NOT_READY: _said("were not ready"),
    Reason.NODE_UNSCHEDULABLE: _said("were unschedulable"),
    Reason.TAINT_NOT_TOLERATED: _said("had untolerated taint(s)"),
    Reason.NODE_SELECTOR_MISMATCH: _said("didn't match Pod's node affinity/selector"),
    Reason.HOST_PORT_TAKEN: _said("didn't have free ports for the requested pod ports"),
    Reason.VOLUME_IN_USE: _said(
        "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    ),
    Reason.ATTACH_LIMIT_REACHED: _said("exceed max volume count"),
    Reason.VOLUME_UNREACHABLE: _said("didn't match PersistentVolume's node affinity"),
    Reason.VOLUME_MISSING: _said("unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    Reason.NO_VOLUME_FITS: _said("didn't find available persistent volumes to bind"),
    Reason.PROVISIONING_ELSEWHERE: _said("didn't match the node chosen to make a volume of the pod"),
    Reason.TOPOLOGY_NOT_ALLOWED: _said("didn't find available persistent volumes to bind"),
    Reason.INSUFFICIENT_STORAGE: _said("did not have enough free storage"),
    Reason.STORAGE_UNREACHABLE: _said("didn't reach the storage of the pod's volumes"),
    Reason.VOLUME_ZONE_MISMATCH: _said("had no available volume zone"),
    Reason.TOPOLOGY_SPREAD: _said("didn't match pod topology spread constraints"),
    Reason.TOPOLOGY_LABEL_MISSING: _said("didn't match pod topology spread constraints (missing required label)"),
    Reason.POD_AFFINITY_MISMATCH: _said("didn't match pod affinity rules"),
    Reason.POD_ANTI_AFFINITY: _said("didn't match pod anti-affinity rules"),
    Reason.EXISTING_POD_ANTI_AFFINITY: _said("didn't satisfy existing pods anti-affinity rules"),
    Reason.RESERVED_FOR_OTHER: _said("had only volumes reserved for other claims"),
    Reason.UNHEALTHY: _said("had only volumes known to be sick"),
    Reason.QUARANTINED: _said("had only volumes in quarantine"),
    Reason.HEALTH_UNKNOWN: _said("had only volumes whose health is unknown"),
    Reason.TOPOLOGY_CONTRADICTED: _said("had only volumes that are not where they say"),
    Reason.STORAGE_LABEL_MISSING: _said("didn't have the label for local volumes"),
    Reason.NO_JOINT_ASSIGNMENT: _said("didn't find persistent volumes for all claims of the pod together"),
}
"""One text for each reason against a node; a reason that is not here is told by its own word."""

_UNIFORM: Final = frozenset(
    plugin.name
    for plugin in (NodeReady, NodeAffinity, NodePorts, VolumeRestrictions, NodeVolumeLimits, LocalStorage, VolumeZone)
)
"""Filters that have one reason only: it is enough to ask about one node."""


@dataclass(slots=True)
class _Count:
    """Complaints so far."""

    texts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    refused_by: set[str] = field(default_factory=set)

    def add(self, plugin: str, complaint: Complaint, nodes: int = 1) -> None:
        self.refused_by.add(plugin)
        self.reasons[complaint.reason] += nodes
        for text in complaint.texts:
            self.texts[text] += nodes


class Diagnoser:
    """Counts the reasons against all nodes without putting each into words; remembers what nodes lack."""

    def __init__(self) -> None:
        self._lacking: NodeMemory[Complaint] = NodeMemory()

    def diagnose(self, found: Unschedulable) -> Diagnosis:
        """Return the reasons for which a decision found no node."""
        judgement, nodes = found.judgement, found.cluster.nodes
        if judgement.rejection is not None:
            return refused_whole(judgement.rejection, len(nodes), frozenset({VolumeBinding.name}))
        count = _Count()
        left: Sequence[NodeState] = nodes
        for name, rule in judgement.rules:
            if not left:
                break
            left = self._count(name, rule, left, judgement, count)
        reason = max(count.reasons, key=lambda one: (count.reasons[one], one), default=Reason.NO_NODE_FITS)
        return Diagnosis(len(nodes), "", count.texts, reason, frozenset(count.refused_by))

    def _count(
        self, name: str, rule: NodeRule, nodes: Sequence[NodeState], judgement: Judgement, count: _Count
    ) -> Sequence[NodeState]:
        """Count the nodes that the rule refuses, and return the others."""
        if rule.among is None and rule.fitting is None:
            return [state for state in nodes if not _complain(name, rule.why(state), count)]
        left = _fitting(rule, nodes)
        if len(left) == len(nodes):
            return left
        fit = {state.number for state in left}
        refused = [state for state in nodes if state.number not in fit]
        for complaint, number in self._complaints(name, rule, refused, judgement.info.pod):
            count.add(name, complaint, number)
        return left

    def _complaints(
        self, name: str, rule: NodeRule, refused: Sequence[NodeState], pod: Pod
    ) -> Iterable[tuple[Complaint, int]]:
        if name == NodeResourcesFit.name:
            return Counter(self._lacking.answers(pod.requests, refused, lambda state: lacking(state, pod))).items()
        if name == TaintToleration.name:
            return _tainted(refused, pod)
        if name in _UNIFORM:
            found = rule.why(refused[0])
            return ((_complaint(found.reason), len(refused)),) if found is not None else ()
        return _counted(rule.why(state) for state in refused)


def refused_whole(rejection: Rejection, nodes: int, refused_by: frozenset[str]) -> Diagnosis:
    """Return the diagnosis of a pod that is refused before any node is looked at."""
    return Diagnosis(nodes, whole_text(rejection), {}, rejection.reason, refused_by)


def whole_text(rejection: Rejection) -> str:
    """Return a reason against a pod as a whole in words. Source: podHasPVCs and PreFilter of plugins/volumebinding."""
    name = rejection.subject.rpartition("/")[2]
    texts: Mapping[Reason, str] = {
        Reason.CLAIM_NOT_FOUND: f'persistentvolumeclaim "{name}" not found',
        Reason.CLAIM_DELETING: f'persistentvolumeclaim "{name}" is being deleted',
        Reason.IMMEDIATE_CLAIM: "pod has unbound immediate PersistentVolumeClaims",
    }
    detail = f"{rejection.subject}: expected {rejection.wanted}, found {rejection.offered}"
    return texts.get(rejection.reason, detail)


def lacking(state: NodeState, pod: Pod) -> Complaint:
    """Return every resource of which the node has too little for the pod (fitsRequest in noderesources/fit.go)."""
    names = (name for name, _, _ in fits(state.free, pod.requests))
    texts = tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in names)
    return Complaint(Reason.INSUFFICIENT_RESOURCES, texts)


def _fitting(rule: NodeRule, nodes: Sequence[NodeState]) -> Sequence[NodeState]:
    if rule.among is not None:
        among = rule.among
        return [state for state in nodes if among >> state.number & 1]
    return rule.fitting(nodes) if rule.fitting is not None else nodes


def _complain(plugin: str, rejection: Rejection | None, count: _Count) -> bool:
    if rejection is None:
        return False
    count.add(plugin, _complaint(rejection.reason))
    return True


def _counted(rejections: Iterable[Rejection | None]) -> Iterator[tuple[Complaint, int]]:
    reasons = Counter(rejection.reason for rejection in rejections if rejection is not None)
    return ((_complaint(reason), number) for reason, number in reasons.items())


def _complaint(reason: Reason) -> Complaint:
    return Complaint(reason, (_TEXTS.get(reason) or _said(f"were refused: {reason}"),))


def _tainted(refused: Sequence[NodeState], pod: Pod) -> Iterator[tuple[Complaint, int]]:
    cordoned = 0 if tolerates_unschedulable(pod.tolerations) else sum(state.node.unschedulable for state in refused)
    counts = {Reason.NODE_UNSCHEDULABLE: cordoned, Reason.TAINT_NOT_TOLERATED: len(refused) - cordoned}
    return ((_complaint(reason), number) for reason, number in counts.items() if number)
