"""The next step for a pod that no node can run: what makes the nearest node usable."""

from collections.abc import Iterable, Iterator
from typing import Final

from binder.matching.evidence import affinity_text
from binder.matching.node_fit import NOT_ALLOCATABLE
from binder.matching.rejection import Reason
from kube.objects.model import Claim, Node, Pod, Volume
from kube.plain_text import shell
from kube.rules.resource_fit import offered_nowhere
from kube.rules.selectors import label_keys
from kube.rules.topology import HOSTNAME_LABEL, ZONE_LABEL, is_a_node, is_on_one_node
from why.causes.finding import Step
from why.causes.lost_volume import given_up
from why.causes.objects import named, on_pod, place_of, pod_object
from why.causes.pods.node_verdicts import SET_BY_COMPONENTS, NodeVerdict, NodeVerdicts, short
from why.facts.facts import Facts
from why.report.report import Evidence

_OF_ROLES: Final = "node-role.kubernetes.io/"
_BY_OTHER_PODS: Final = frozenset(
    {
        Reason.POD_AFFINITY_MISMATCH,
        Reason.POD_ANTI_AFFINITY,
        Reason.EXISTING_POD_ANTI_AFFINITY,
        Reason.TOPOLOGY_SPREAD,
    }
)


def remedy(verdicts: NodeVerdicts, place: str) -> Step:
    """Return what makes the nearest node usable: one with access to the volumes and a single reason against it."""
    note = f"nodes in {named(verdicts.zones_far)} cannot help" if verdicts.zones_far else ""
    cordoned, tainted = verdicts.only_cordoned, verdicts.only_tainted
    if cordoned is not None:
        over = f"if its maintenance is over; {note}".rstrip("; ")
        return Step(shell("kubectl uncordon {}", cordoned.node.name), over)
    if tainted is not None:
        return _tolerate(tainted, note)
    # Where its claims would get volumes, if that is anywhere.
    near = [verdict for verdict in verdicts.near if not verdict.by_volumes] or verdicts.near
    if near and all(map(_is_not_selected, near)):
        step = _select(verdicts)
        return Step(step.command, f"{step.note}; {note}".rstrip("; "))
    if not verdicts.every and verdicts.only_on is not None:
        return Step(
            "kubectl get nodes", "a DaemonSet deletes such a pod itself; create any other without that affinity"
        )
    if near:
        nearest = min(near, key=_distance)
        look_for = _look_for(nearest, may_add=verdicts.only_on is None)
        return Step(shell("kubectl describe node {}", nearest.node.name), f"{look_for}; {note}".rstrip("; "))
    return Step("kubectl get nodes -L topology.kubernetes.io/zone", f"add a node in {place}" if place else "add a node")


def _tolerate(verdict: NodeVerdict, note: str) -> Step:
    """Return what to do about a taint that a person has set, mostly to keep the node for other pods: not to end it."""
    taint = verdict.by_others[0].offered.removeprefix("taint ")
    end = shell("kubectl taint node {} {}-", verdict.node.name, taint)
    why = f"{taint} keeps it for others: let this pod tolerate it, or, if it is there by mistake, `{end}` for all pods"
    return Step(shell("kubectl describe node {}", verdict.node.name), f"{why}; {note}".rstrip("; "))


def out_of_every_reach(facts: Facts, pod: Pod, claim: Claim, volume: Volume, nodes: Iterable[Node]) -> tuple[Step, ...]:
    """Return what gives some node access to a claim's volume to which none has."""
    keys = label_keys(volume.node_affinity)
    command = shell("kubectl get nodes -L {}", ",".join(keys or (ZONE_LABEL,)))
    labelled = {key for node in nodes for key, _ in node.labels}
    missing = [key for key in keys if key not in labelled]
    if keys == (HOSTNAME_LABEL,) or (is_a_node(place_of(volume)) and not missing):
        here = "its data is on that node only: bring the node back, or restore the data to a new volume"
        return given_up(Step(command, here), facts, pod, claim, volume)
    if missing:
        return (Step(command, f"no node has the label {missing[0]}: does the volume's driver run on any?"),)
    return (Step(command, f"add a node in {place_of(volume)}"),)


def on_dead_node(
    step: Step, facts: Facts, pod: Pod, verdicts: NodeVerdicts, bound: tuple[Claim, Volume]
) -> tuple[Step, ...]:
    """Return the step with what else is left if the only node of a local volume is not ready: to give it up."""
    claim, volume = bound
    if not is_on_one_node(volume) or not verdicts.near:
        return (step,)
    first = (next(iter(verdict.by_others), None) for verdict in verdicts.near)
    if not all(each is not None and short(each) == "not ready" for each in first):
        return (step,)
    here = Step(step.command, f"{step.note}. The data of {volume.name} is on that node only")
    return given_up(here, facts, pod, claim, volume)


def out_of_reach_of_its_node(facts: Facts, pod: Pod) -> Step:
    """Return what gives a volume to a pod that may run on one node only, which has no access to its present one."""
    details = facts.pods.get(pod.key)
    if details is not None and details.owner is not None and details.owner[0] == "DaemonSet":
        return Step(
            shell("kubectl -n {} get daemonset {} -o yaml", pod.namespace, details.owner[1]),
            "it has a pod on every node it selects: select only nodes with access to the volume, or give each pod a "
            "volume of its own, such as a generic ephemeral one",
        )
    return Step(
        f"{on_pod('get', pod)} -o yaml",
        "its node affinity names the node: create it again without that, or with a volume that the node has access to",
    )


def _select(verdicts: NodeVerdicts) -> Step:
    """Return what to do if the pod's node selector or affinity excludes every node that would do."""
    keys = verdicts.selecting
    if any(SET_BY_COMPONENTS.match(key) is None for key in keys):
        why = "label a node so that the pod's nodeSelector and affinity select it, or create the pod with others"
    else:
        why = "the pod's nodeSelector or affinity excludes these nodes: create it with others, or add such a node"
    return Step(shell("kubectl get nodes -L {}", ",".join(keys)) if keys else "kubectl get nodes", why)


def _is_not_selected(verdict: NodeVerdict) -> bool:
    first = next(iter((*verdict.by_others, *verdict.by_volumes)), None)
    return first is not None and first.reason is Reason.NODE_SELECTOR_MISMATCH


def selection_of(pod: Pod, verdicts: NodeVerdicts) -> Iterator[Evidence]:
    """Yield what the pod's node selector and affinity ask for, if they exclude a node."""
    if not any(map(_is_not_selected, verdicts.every)):
        return
    wanted = [f"{key}={value}" for key, value in pod.node_selector]
    wanted += [affinity_text(pod.node_affinity)] if pod.node_affinity is not None else []
    yield Evidence(pod_object(pod, "spec.nodeSelector and affinity"), "", ", ".join(wanted))


def devices_of(pod: Pod, verdicts: NodeVerdicts) -> Iterator[Evidence]:
    """Yield the extended resources that no node has: one of a DeviceClass looks like one that nothing provides."""
    for name in offered_nowhere(pod.requests, (dict(verdict.node.allocatable) for verdict in verdicts.every)):
        yield Evidence(
            pod_object(pod, "spec.containers[*].resources.requests"),
            "a node or a DeviceClass (spec.extendedResourceName) that provides it",
            f"{name}, which no node has; DeviceClasses are not read",
        )


def _distance(verdict: NodeVerdict) -> tuple[bool, bool, int]:
    """Order nodes by how likely they become usable: a node that the pod does not select never does."""
    reasons = {rejection.reason for rejection in (*verdict.by_others, *verdict.by_volumes)}
    return Reason.NODE_SELECTOR_MISMATCH in reasons, reasons != {Reason.INSUFFICIENT_RESOURCES}, len(reasons)


def _look_for(verdict: NodeVerdict, *, may_add: bool) -> str:
    """Return what to look for on a node that does not fit. `may_add`: another node would do as well."""
    first = next(iter(verdict.by_others), None)
    if first is not None and short(first) == "not ready":
        return "find out why it is not ready"
    if first is not None and first.offered.startswith(f"taint {_OF_ROLES}"):
        return "it is kept for pods of the control plane: add a node for others"
    if first is not None and first.reason is Reason.TAINT_NOT_TOLERATED:
        return "find out what has tainted it; the taint goes with its cause"
    if first is not None and first.offered == NOT_ALLOCATABLE:
        return "no node has this resource: install what provides it, or see whether a DeviceClass does"
    if first is not None and first.reason is Reason.HOST_PORT_TAKEN:
        return "another pod has the host port there"
    if first is not None and first.reason is Reason.DISK_IN_USE:
        return "another pod uses the same disk there: give this pod one of its own"
    if first is not None and first.reason in _BY_OTHER_PODS:
        return "other pods exclude it there: compare their affinity and spread rules with those of this pod"
    return "make room there, or add a node" if may_add else "make room there"
