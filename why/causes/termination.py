"""Why a pod that is being deleted does not go: its finalizers, its node, its containers, or its volumes.

A pod on a node is removed by the kubelet, after its containers have ended and then its volumes are unmounted
(SyncTerminatedPod in kubelet.go). Who waits for such a pod has the same cause: the claim that it protects, a pod that
needs its volume, its node's room, or its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Pod, Volume
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.assigned_node import node_lost
from why.causes.drivers.workloads import registration
from why.causes.finding import Finding, Step
from why.causes.kubelets import NodeState, power_advice, shown, state_of
from why.causes.leases import look_for_pv_controller, without_controller_manager
from why.causes.objects import (
    named,
    nodes_with,
    on_pod,
    pod_link,
    pod_object,
    volume_link,
)
from why.causes.reported import quoted
from why.causes.volume_state import volume_unhealthy
from why.facts.details import PodDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_PATIENCE: Final = timedelta(minutes=2)
"""After the grace period: how long containers may take to be killed and volumes to be unmounted."""

_OF_ENDING: Final = frozenset({"FailedKillPod", "FailedPreStopHook", "ExceededGracePeriod", "FailedSync"})
"""What a kubelet reports about a pod that it cannot end (events/event.go there)."""


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What keeps a pod from being removed: a clause that follows its age, and what shows it."""

    clause: str
    step: Step
    links: tuple[Link, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def terminating_too_long(facts: Facts, pod: Pod) -> Finding | None:
    """The pod is being deleted, and is there although its grace period is over."""
    details, age = facts.pods.get(pod.key), overdue(facts, pod)
    if details is None or age is None:
        return None
    obstacle = _finalizers(pod, details) or _of_node(facts, pod) or _on_node(facts, pod)
    ended = Evidence(pod_object(pod, "metadata.deletionTimestamp"), "the pod gone by then", f"{age_text(age)} ago")
    return Finding(
        Reason.POD_TERMINATING,
        f"The pod should have been gone for {age_text(age)}, and {obstacle.clause}.",
        (pod_link(pod, "Terminating"), *obstacle.links),
        (ended, *obstacle.evidence),
        (obstacle.step,),
    )


def overdue(facts: Facts, pod: Pod) -> timedelta | None:
    """Return for how long a pod that is being deleted should have been gone; None if it may still go by itself."""
    details = facts.pods.get(pod.key)
    if not pod.deleting or details is None or details.deleted is None:
        return None
    age = facts.now - details.deleted
    return age if age >= _PATIENCE else None


def behind(facts: Facts, pod: Pod, *links: Link) -> Finding | None:
    """Return why a pod does not go for which something else waits, None if it may still end by itself.

    `links` lead from what waits to the pod.
    """
    finding = terminating_too_long(facts, pod)
    if finding is None:
        return None
    message = finding.message.replace("The pod", f"Pod {pod.name}", 1)
    return replace(finding, message=message, links=(*links, *finding.links))


def held_up_by(facts: Facts, pod: Pod, finding: Finding) -> Finding:
    """Return a finding about what waits for the pod to go, with why it cannot: it should have gone long ago, or its
    node is lost, which has to confirm that it has ended.
    """
    root = behind(facts, pod) or _on_lost_node(facts, pod)
    if root is None:
        return finding
    links = tuple(link for link in finding.links if (link.kind, link.name) != ("Pod", pod.key))
    return replace(
        finding,
        message=f"{finding.message} {root.message}",
        links=(*links, *root.links),
        evidence=(*finding.evidence, *root.evidence),
        next=root.next,
    )


def _on_lost_node(facts: Facts, pod: Pod) -> Finding | None:
    lost = node_lost(facts, pod)
    return None if lost is None else replace(lost, message=lost.message.replace("The pod", f"Pod {pod.name}", 1))


def _finalizers(pod: Pod, details: PodDetails) -> _Obstacle | None:
    """Nothing has to end any more, and the object stays for its finalizers (CheckGracefulDelete in pod/strategy.go)."""
    if not details.finalizers or (details.grace != 0 and pod.node_name):
        return None
    return _Obstacle(
        f"its finalizers are not removed: {named(details.finalizers)}",
        Step(
            f"{on_pod('get', pod)} -o yaml",
            "the component that set each finalizer has to remove it: does it run? Removed by hand, what it protects is "
            "lost to it",
        ),
        evidence=(Evidence(pod_object(pod, "metadata.finalizers"), "none", ", ".join(details.finalizers)),),
    )


def _of_node(facts: Facts, pod: Pod) -> _Obstacle | None:
    """The pod's node is gone, or its kubelet does not respond: nothing confirms that the containers have ended."""
    if not pod.node_name:
        # The API server, or else podgc/gc_controller.go, deletes a pod at once that no kubelet has.
        return _Obstacle(
            "it has neither a node nor a finalizer: kube-controller-manager, which removes such pods, has not",
            look_for_pv_controller(),
            evidence=without_controller_manager(facts),
        )
    if not facts.has(Source.NODES):
        return None
    node = facts.snapshot.nodes.get(pod.node_name)
    if node is None:
        # Kubernetes deletes such a pod after some 40 seconds (gcOrphaned in podgc/gc_controller.go).
        return _Obstacle(
            f"its node {pod.node_name} does not exist: kube-controller-manager, which removes such pods, has not",
            look_for_pv_controller(),
            (Link("Node", pod.node_name, "not found"),),
            without_controller_manager(facts),
        )
    state = state_of(facts, node)
    if state is NodeState.READY:
        return None
    return _Obstacle(
        f"the kubelet of its node {node.name}, which has to end it, {state}",
        Step(
            shell("kubectl describe node {}", node.name),
            f"the pod goes when the node is ready again; {power_advice(facts, node)}",
        ),
        (Link("Node", node.name, "not ready"),),
        shown(facts, node),
    )


def _on_node(facts: Facts, pod: Pod) -> _Obstacle:
    """The kubelet responds, as far as is known: containers that do not end, or volumes that are not unmounted."""
    node = Link("Node", pod.node_name, "has to end the pod")
    events = facts.events_of("Pod", pod.key)
    evidence = tuple(quoted(facts, event) for event in events if event.reason in _OF_ENDING)[:2]
    unread = "" if facts.has(Source.NODES) else "; whether that node is ready is unknown: nodes may not be read"
    if pod.finished:
        ends = f"on node {pod.node_name} its containers have ended and its volumes are not unmounted"
    elif unread:
        ends = f"node {pod.node_name} has not confirmed that its containers have ended"
    else:
        ends = f"on node {pod.node_name} its containers have not ended"
    culprit = _culprit(facts, pod)
    if culprit is not None:
        return replace(
            culprit,
            clause=f"{ends}: {culprit.clause}{unread}",
            links=(node, *culprit.links),
            evidence=(*evidence, *culprit.evidence),
        )
    note = (
        "look in the log of that node's kubelet for what is not unmounted, and of the driver's node plugin"
        if pod.finished
        else "its Events tell what fails; a process that waits for its storage ends only when that responds"
    )
    step = Step(on_pod("describe", pod), note)
    return _Obstacle(ends + unread, step, (node,), evidence)


def _culprit(facts: Facts, pod: Pod) -> _Obstacle | None:
    """Return the volume without which neither containers that use it end nor volumes are unmounted."""
    for volume in _volumes_of(facts, pod):
        unhealthy = volume_unhealthy(facts, volume)
        if unhealthy is not None:
            state = unhealthy.evidence[0].found
            return _Obstacle(
                f"volume {volume.name} is unhealthy: {state}", unhealthy.next[0], unhealthy.links, unhealthy.evidence
            )
        if pod.finished and _has_lost_driver(facts, pod, volume):
            driver = volume.driver
            step, runs = registration(facts, driver, pod.node_name, "; the kubelet then tries again")
            return _Obstacle(
                f"CSI driver {driver} is not registered there, which has to unmount {volume.name}",
                step,
                (volume_link(volume),),
                (
                    Evidence(
                        "csinodes", f"{driver} on node {pod.node_name}", named(nodes_with(facts, driver)) or "none"
                    ),
                    *runs,
                ),
            )
    return None


def _has_lost_driver(facts: Facts, pod: Pod, volume: Volume) -> bool:
    if not volume.driver or not facts.has(Source.CSI_NODES) or pod.node_name not in facts.snapshot.csi_nodes:
        return False
    return pod.node_name not in nodes_with(facts, volume.driver)


def _volumes_of(facts: Facts, pod: Pod) -> Iterator[Volume]:
    if not (pod.claim_keys and facts.has(Source.CLAIMS) and facts.has(Source.VOLUMES)):
        return
    snapshot = facts.snapshot
    for claim in (snapshot.claims.get(key) for key in pod.claim_keys):
        volume = None if claim is None else snapshot.volumes.get(claim.volume_name)
        if volume is not None:
            yield volume
