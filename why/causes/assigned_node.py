"""Causes in the node that a pod was assigned to: it is gone, not ready, or does not respond any more."""

from binder.matching.rejection import Reason
from kube.objects.model import Pod
from kube.plain_text import shell
from why.causes.finding import Finding, Step
from why.causes.kubelets import NodeState, power_advice, shown, state_of
from why.causes.objects import pod_link, pod_object
from why.causes.reported import quoted
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def node_missing(facts: Facts, pod: Pod) -> Finding | None:
    """The pod is assigned to a node that does not exist: nothing starts it (gcOrphaned in podgc/gc_controller.go)."""
    if pod.node_name in facts.need(Source.NODES).nodes:
        return None
    return Finding(
        Reason.NO_NODE_FITS,
        f"The pod is assigned to node {pod.node_name}, which does not exist.",
        (pod_link(pod), Link("Node", pod.node_name, "not found")),
        (Evidence(pod_object(pod, "spec.nodeName"), "an existing node", pod.node_name),),
        (
            Step(
                "kubectl get nodes",
                f"if {pod.node_name} is gone, Kubernetes deletes the pod after a minute; claims and data stay. "
                "Create the pod again without nodeName unless its controller does",
            ),
        ),
    )


def node_unreachable(facts: Facts, pod: Pod) -> Finding | None:
    """The kubelet of the pod's node does not report at all: what it reported before is out of date."""
    node = facts.need(Source.NODES).nodes.get(pod.node_name)
    is_silent = node is not None and state_of(facts, node) is NodeState.SILENT
    return node_not_ready(facts, pod) if is_silent else None


def node_not_ready(facts: Facts, pod: Pod) -> Finding | None:
    """The kubelet of the pod's node is not ready, or does not report: it does not start the pod
    (node_lifecycle_controller.go).
    """
    node = facts.need(Source.NODES).nodes.get(pod.node_name)
    if node is None or state_of(facts, node) is NodeState.READY:
        return None
    return Finding(
        Reason.NO_NODE_FITS,
        f"The pod is assigned to node {node.name}, which {state_of(facts, node)}.",
        (pod_link(pod), Link("Node", node.name, "not ready")),
        shown(facts, node),
        (
            Step(
                shell("kubectl describe node {}", node.name),
                "the pod starts when the node is ready. If it is deleted, it stays until that node responds: a "
                "Deployment makes another one at once, a StatefulSet only then",
            ),
        ),
    )


def node_lost(facts: Facts, pod: Pod) -> Finding | None:
    """The pod has run, and its node is not ready any more: what its status says may be out of date.

    Source: processNoExecuteTaints in tainteviction/taint_eviction.go, and MarkPodsNotReady in controller_utils.go.
    """
    if not facts.has(Source.NODES):
        return _reported_lost(facts, pod)
    node = facts.snapshot.nodes.get(pod.node_name)
    state = NodeState.READY if node is None else state_of(facts, node)
    if node is None or state is NodeState.READY:
        return None
    evicted = "Kubernetes deletes the pod after five minutes, unless it tolerates this"
    message = f"The pod is on node {node.name}, which is not ready, so that the pod does not count as ready either."
    if state is NodeState.SILENT:
        message = f"The pod is on node {node.name}, which does not respond: the pod may still run, or not."
        evicted += ", and it is gone when the node responds again"
        evicted += "; its volumes stay attached to that node until then" if pod.claims else ""
    return _lost(pod, message, shown(facts, node), f"{evicted}; {power_advice(facts, node)}")


def _reported_lost(facts: Facts, pod: Pod) -> Finding | None:
    """As `node_lost` by the pod alone: kube-controller-manager has said so, and no kubelet has since."""
    details = facts.pods.get(pod.key)
    is_unready = details is not None and any(
        (each.type, each.status) == ("Ready", "False") for each in details.conditions
    )
    event = next((each for each in facts.events_of("Pod", pod.key) if each.reason == "NodeNotReady"), None)
    if not is_unready or event is None:
        return None
    message = f"The pod is on node {pod.node_name}, which is not ready or does not respond."
    note = "ask who may read nodes for the state of that one"
    return _lost(pod, message, (quoted(facts, event),), note)


def _lost(pod: Pod, message: str, evidence: tuple[Evidence, ...], note: str) -> Finding:
    links = (pod_link(pod), Link("Node", pod.node_name, "not ready"))
    step = Step(shell("kubectl describe node {}", pod.node_name), note)
    return Finding(Reason.NO_NODE_FITS, message, links, evidence, (step,))
