"""The two proofs: that a pod cannot write to its volumes any more, and that a volume's data is lost.

A node that is merely not ready proves neither: it may come back, and its containers may still run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from binder.health.published_health import PublishedHealth, published_health
from binder.replacement.situation import Situation
from csi.health.complete_sweep import says_lost
from csi.health.verdict import HealthState
from kube.objects.model import Claim, Pod, Volume
from kube.rules.selectors import NAME_FIELD, node_matches
from kube.rules.topology import HOSTNAME_LABEL

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which a person states that a node is shut down (non-graceful node shutdown, KEP-2268)."""

_ONE_NODE: Final = frozenset({HOSTNAME_LABEL, NAME_FIELD})


class Ground(StrEnum):
    """On what a proof rests."""

    NODE_GONE = "node gone"
    OUT_OF_SERVICE = "out-of-service taint"
    NOT_RUNNING = "not running"
    KUBELET = "kubelet"
    """The node works, and ends the pod before its claim goes: enough if the driver says that the data is lost."""
    VOLUME_GONE = "volume gone"
    DATA_LOSS = "DataLoss"
    NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven, and by whose word."""

    ground: Ground
    words: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no proof, and what would be one."""

    why: str
    next: str = ""


def fenced(situation: Situation, losses: Iterable[Proof | Missing]) -> Proof | Missing:
    """Return the proof that the pod writes nothing any more. `losses` is what is known of the volumes to replace."""
    pod = situation.pod
    proof = _ended(situation, pod)
    if proof is not None or pod is None:
        return proof or Proof(Ground.NOT_RUNNING, "no such pod exists")
    grounds = {loss.ground if isinstance(loss, Proof) else None for loss in losses}
    if situation.is_ready and grounds != {Ground.DATA_LOSS}:
        return Missing("the pod is Ready, and no driver says that its data is lost", "it needs no other volume")
    node = pod.node_name
    if node not in situation.ready_nodes:
        return Missing(
            f"node {node} is not ready, which does not prove that the pod has ended",
            f"if the machine is off for good: kubectl delete node {node}; if it is off for now: kubectl taint node "
            f"{node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute",
        )
    if grounds <= {Ground.DATA_LOSS, Ground.NOT_FOUND}:
        return Proof(Ground.KUBELET, f"node {node} is ready: its kubelet ends the pod before the claim goes")
    return Missing(f"the pod is on node {node}, which is ready", "stop it first: scale its owner down")


def other_users(situation: Situation, claim_names: Iterable[str]) -> Missing | None:
    """Return which other pod may still write to one of these claims' volumes; None if none does."""
    for name in claim_names:
        key = f"{situation.namespace}/{name}"
        for user in sorted(situation.snapshot.pods_by_claim.get(key, ())):
            if user != situation.pod_key and _ended(situation, situation.snapshot.pods[user]) is None:
                return Missing(f"pod {user} uses claim {name} as well", "stop that pod first")
    return None


def _ended(situation: Situation, pod: Pod | None) -> Proof | None:
    if pod is None or pod.finished:
        return None if pod is None else Proof(Ground.NOT_RUNNING, f"the pod has ended: phase {pod.phase}")
    if not pod.node_name:
        return Proof(Ground.NOT_RUNNING, "the pod has no node")
    node = situation.snapshot.nodes.get(pod.node_name)
    if node is None:
        return Proof(Ground.NODE_GONE, f"node {pod.node_name} does not exist any more")
    if any(taint.key == OUT_OF_SERVICE for taint in node.taints):
        return Proof(Ground.OUT_OF_SERVICE, f"node {node.name} has the taint {OUT_OF_SERVICE}, which a person set")
    return None


def lost(situation: Situation, claim: Claim) -> Proof | Missing:
    """Return the proof that what is on the claim's volume is lost."""
    volume = situation.volume_of(claim)
    if volume is None:
        if claim.volume_name:
            return Proof(Ground.VOLUME_GONE, f"PersistentVolume {claim.volume_name} does not exist any more")
        return Missing(f"claim {claim.name} has no volume")
    nodes = only_nodes(volume)
    if nodes and not _exists(situation, volume, nodes):
        words = f"only node {', '.join(sorted(nodes))} reaches the volume, and it does not exist any more"
        return Proof(Ground.NODE_GONE, words)
    return _by_driver(situation, volume)


def only_nodes(volume: Volume) -> frozenset[str]:
    """Return the one node that reaches a volume, as its affinity names it; empty if that is not one node.

    Keys of drivers' own topologies do not tell how many nodes have them.
    """
    terms = volume.node_affinity.terms if volume.node_affinity is not None else ()
    names: set[str] = set()
    for term in terms:
        values = [
            requirement.values
            for requirement in (*term.match_expressions, *term.match_fields)
            if requirement.key in _ONE_NODE and requirement.operator == "In"
        ]
        if not values:
            return frozenset()
        names.update(*values)
    return frozenset(names) if len(names) == 1 else frozenset()


def _exists(situation: Situation, volume: Volume, names: Iterable[str]) -> bool:
    """Whether a node of that name exists, or one with that host name: a label may be wrong for a moment."""
    nodes = situation.snapshot.nodes
    return any(name in nodes for name in names) or any(
        node_matches(volume.node_affinity, dict(node.labels)) for node in nodes.values() if _host_of(node.labels, names)
    )


def _host_of(labels: Iterable[tuple[str, str]], names: Iterable[str]) -> bool:
    return dict(labels).get(HOSTNAME_LABEL) in set(names)


def _by_driver(situation: Situation, volume: Volume) -> Proof | Missing:
    """Return what two complete sweeps of its driver prove of a volume."""
    health = published_health(volume, situation.annotations)
    if health is None or not says_lost(health.state, health.reason):
        reported = f"reported as {health.state}" if health is not None else "not reported as unhealthy"
        return Missing(f"volume {volume.name} is {reported}, and its node exists")
    recent = [
        sweep.report
        for sweep in situation.sweeps
        if sweep.report.driver == volume.driver and sweep.report.recent(situation.now)
    ]
    if not recent:
        return Missing(
            f"volume {volume.name} is reported as {health.state}, but no sweep of {volume.driver} is recent",
            "check the controller, or the agent, that probes the driver",
        )
    if not all(report.lost_twice is not None and volume.handle in report.lost_twice for report in recent):
        return Missing(
            f"volume {volume.name} is reported as {health.state}, but not yet by two complete sweeps in a row",
            "wait for the next sweep, and run this command again",
        )
    for report in recent:
        count = max(report.lost, _reported_lost(situation, volume.driver))
        if count > max(1, int(situation.max_lost_share * report.volumes)):
            return Missing(
                f"{volume.driver} says so of {count} of its {report.volumes} volumes, more than "
                f"{situation.max_lost_share:.0%}: rather the driver is wrong",
                "check the driver and its storage",
            )
    return _proof_of(health, volume)


def _reported_lost(situation: Situation, driver: str) -> int:
    published = (published_health(volume, situation.annotations) for volume in _of_driver(situation, driver))
    return sum(health is not None and says_lost(health.state, health.reason) for health in published)


def _of_driver(situation: Situation, driver: str) -> Iterator[Volume]:
    return (volume for volume in situation.snapshot.volumes.values() if volume.driver == driver)


def _proof_of(health: PublishedHealth, volume: Volume) -> Proof:
    ground = Ground.DATA_LOSS if health.state is HealthState.DATA_LOSS else Ground.NOT_FOUND
    since = f" since {health.since:%Y-%m-%dT%H:%M:%SZ}" if health.since is not None else ""
    words = f"{volume.driver} reports {health.state} ({health.reason}){since}, in two complete sweeps"
    return Proof(ground, words)
