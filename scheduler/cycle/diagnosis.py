"""Why no node was found for a pod: counted by reason, in the words kube-scheduler uses, and ours in the same style.

The text is that of FitError.Error in pkg/scheduler/framework/types.go, the reasons are those of its plugins. Every node
is counted with the first filter that refuses it, as there; only of resources all that are lacking are named.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Pod, PodClaim
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.refusals import Alike, numbers_of, refusals, states_of
from scheduler.plugins.resource_fit import NodeResourcesFit
from scheduler.plugins.volume_filters import VolumeBinding
from scheduler.state.node_info import NodeState
from scheduler.state.node_memory import NodeMemory

NO_NODES: Final = "no nodes available to schedule pods"
"""ErrNoNodesAvailable of pkg/scheduler/scheduler.go: before anything is asked about the pod."""


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
        if not self.nodes:
            return NO_NODES
        said = self.whole or ", ".join(sorted(f"{nodes} {text}" for text, nodes in self.counts.items()))
        parts = [f"0/{self.nodes} nodes are available:", f"{said}." if said else "", post_filter]
        return " ".join(part for part in parts if part)


def _said(text: str) -> str:
    return f"node(s) {text}"


_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.NODE_UNSCHEDULABLE: _said("were unschedulable"),
    Reason.TAINT_NOT_TOLERATED: _said("had untolerated taint(s)"),
    Reason.NODE_SELECTOR_MISMATCH: _said("didn't match Pod's node affinity/selector"),
    Reason.HOST_PORT_TAKEN: _said("didn't have free ports for the requested pod ports"),
    Reason.VOLUME_IN_USE: _said(
        "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    ),
    Reason.DISK_IN_USE: _said("had no available disk"),
    Reason.ENFORCED_NODE_AFFINITY: _said("didn't match scheduler-enforced node affinity"),
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
    Reason.UNHEALTHY: _said("had only volumes known to be unhealthy"),
    Reason.QUARANTINED: _said("had only volumes in quarantine"),
    Reason.HEALTH_UNKNOWN: _said("had only volumes whose health is unknown"),
    Reason.TOPOLOGY_CONTRADICTED: _said("had only volumes that are not where they say"),
    Reason.STORAGE_LABEL_MISSING: _said("didn't have the label for local volumes"),
    Reason.NO_JOINT_ASSIGNMENT: _said("didn't find persistent volumes for all claims of the pod together"),
}
"""One text for each reason against a node; a reason that is not here is told by its own word."""


@dataclass(slots=True)
class _Count:
    """Nodes by reason and by text so far."""

    texts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    refused_by: set[str] = field(default_factory=set)

    def add(self, reason: Reason, nodes: int) -> None:
        if nodes:
            self.reasons[reason] += nodes
            self.texts[_TEXTS.get(reason) or _said(f"were refused: {reason}")] += nodes

    def lack(self, counts: Mapping[tuple[str, ...], int]) -> None:
        """Add nodes by what they lack, if anything: of one node everything is named."""
        for texts, nodes in counts.items():
            if texts:
                self.reasons[Reason.INSUFFICIENT_RESOURCES] += nodes
            for text in texts:
                self.texts[text] += nodes


class Diagnoser:
    """Counts the reasons against all nodes without putting each into words; remembers what nodes lack."""

    def __init__(self) -> None:
        self._lacking: NodeMemory[tuple[str, ...]] = NodeMemory()

    def diagnose(self, found: Unschedulable) -> Diagnosis:
        """Return the reasons for which a decision found no node."""
        judgement, cluster = found.judgement, found.cluster
        if judgement.rejection is not None:
            # Without nodes any change may help, as that is what is told then.
            refused_by = frozenset({VolumeBinding.name}) if cluster.nodes else frozenset[str]()
            return Diagnosis(len(cluster.nodes), _whole(found), {}, judgement.rejection.reason, refused_by)
        count, left, alike = _Count(), cluster.index.everything, Alike(found)
        for name, rule in judgement.rules:
            before = left
            if name == NodeResourcesFit.name:
                left = self._without_room(left, found, count)
            else:
                for reason, refused in refusals(name, rule, left, alike):
                    count.add(reason, refused.bit_count())
                    left &= ~refused
            if left != before:
                count.refused_by.add(name)
        reason = max(count.reasons, key=lambda one: (count.reasons[one], one), default=Reason.NO_NODE_FITS)
        return Diagnosis(len(cluster.nodes), "", count.texts, reason, frozenset(count.refused_by))

    def _without_room(self, nodes: int, found: Unschedulable, count: _Count) -> int:
        """Count the nodes that lack something, and return the others."""
        pod, states = found.judgement.info.pod, states_of(nodes, found.cluster)
        lack = self._lacking.answers(pod.requests, states, lacking(pod))
        count.lack(Counter(lack))
        return numbers_of(state for state, lacks in zip(states, lack, strict=True) if not lacks)


def _whole(found: Unschedulable) -> str:
    """Return in kube-scheduler's words why no node was looked at (podHasPVCs of plugins/volumebinding)."""
    pod, rejection = found.judgement.info.pod, found.judgement.rejection
    assert rejection is not None
    key = rejection.subject
    name = key.rpartition("/")[2]
    if rejection.reason is Reason.CLAIM_NOT_FOUND and PodClaim(name, ephemeral=True) in pod.claims:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if rejection.reason is Reason.CLAIM_NOT_OWNED:
        return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
    claim = found.cluster.storage.snapshot.claims.get(key)
    if rejection.reason is Reason.CLAIM_LOST and claim is not None:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    return whole_text(rejection)


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


def lacking(pod: Pod) -> Callable[[NodeState], tuple[str, ...]]:
    """Return what tells of which resources a node has too little for the pod (fitsRequest in noderesources/fit.go)."""
    wanted = [(PODS, NANO, "Too many pods")]
    wanted += [(name, amount, f"Insufficient {name}") for name, amount in pod.requests if amount > 0 and name != PODS]

    def lacks(state: NodeState) -> tuple[str, ...]:
        free = state.free
        return tuple([text for name, amount, text in wanted if amount > free.get(name, 0)])

    return lacks
