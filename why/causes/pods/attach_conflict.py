"""A volume for one node that is still attached to another one, and what will detach it from there.

attachdetach-controller detaches a volume once no pod on the node uses it and its kubelet has unmounted it. It waits for
the latter for ever while the node is ready, and for six minutes otherwise (reconcile in
attachdetach/reconciler/reconciler.go).
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import READ_WRITE_ONCE, READ_WRITE_ONCE_POD, Claim, Node, Pod, Volume, VolumeAttachment
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.drivers.logs import ATTACHER, logs_or_workloads
from why.causes.finding import Finding, Step
from why.causes.kubelets import NodeState, power_advice, shown, state_of
from why.causes.leases import lease_name, look_for_pv_controller
from why.causes.objects import claim_link, pod_link, pods_on, users_of, volume_link
from why.causes.pods.mount_events import are_mounted, volumes_of
from why.causes.pods.other_users import end_of
from why.causes.termination import held_up_by
from why.facts.details import AttachmentDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_FORCED: Final = timedelta(minutes=6)
"""After which a volume is detached from a node that is not ready, mounted or not (maxWaitForUnmountDuration)."""

_USUAL: Final = timedelta(minutes=2)
"""How long a detach may take that nothing is in the way of."""

_HAS_IT: Final = "has the volume"
"""Of a node that is ready, or of which that is not known."""

_ONE_NODE: Final = frozenset({READ_WRITE_ONCE, READ_WRITE_ONCE_POD})


def attach_conflict(facts: Facts, pod: Pod) -> Finding | None:
    """A volume for one node is still attached to another (Multi-Attach error, reconciler.go of attachdetach)."""
    if are_mounted(facts, pod):
        return None
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.ATTACHMENTS)
    for claim, volume in volumes_of(pod, snapshot):
        if not set(volume.access_modes) <= _ONE_NODE:
            continue
        attached = [
            attachment
            for attachment in snapshot.attachments.values()
            if attachment.volume_name == volume.name and attachment.attached
        ]
        holders = [attachment for attachment in attached if attachment.node_name != pod.node_name]
        if holders and len(holders) == len(attached):
            return _conflict(facts, pod, claim, volume, holders[0])
    return None


def _conflict(facts: Facts, pod: Pod, claim: Claim, volume: Volume, attachment: VolumeAttachment) -> Finding:
    holder, user = attachment.node_name, other_user(facts, claim, pod)
    state, step, evidence = _about_holder(facts, pod, volume, attachment, user)
    finding = Finding(
        Reason.ATTACH_CONFLICT,
        f"Volume {volume.name} is still attached to node {holder}, and may be attached to one node only.",
        (
            pod_link(pod, f"on node {pod.node_name}"),
            claim_link(claim),
            volume_link(volume),
            Link("Node", holder, state),
            *((pod_link(user, "uses it there"),) if user is not None and user.node_name == holder else ()),
        ),
        (
            Evidence(f"volumeattachment/{attachment.name}", f"attached to {pod.node_name}", f"attached to {holder}"),
            *evidence,
            *_detach_error(facts, attachment.name),
        ),
        (step,),
    )
    # What helps against a node that is down is known already.
    return finding if user is None or state != _HAS_IT else held_up_by(facts, user, finding)


def other_user(facts: Facts, claim: Claim, pod: Pod) -> Pod | None:
    """Return a pod on another node that uses the claim: its volume is not detached before that pod has ended."""
    others = (user for user in users_of(facts, claim) if user.node_name not in {"", pod.node_name})
    return next(others, None)


def user_elsewhere(facts: Facts, pod: Pod) -> Pod | None:
    """Return a pod on another node that uses a claim of this one for one node."""
    claims = (facts.snapshot.claims.get(key) for key in pod.claim_keys)
    for claim in claims:
        if claim is not None and set(claim.access_modes) <= _ONE_NODE:
            user = other_user(facts, claim, pod)
            if user is not None:
                return user
    return None


_About = tuple[str, Step, tuple[Evidence, ...]]
"""The state of the node that has the volume, what will detach it, and what shows that."""


def _about_holder(facts: Facts, pod: Pod, volume: Volume, attachment: VolumeAttachment, user: Pod | None) -> _About:
    holder = attachment.node_name
    node = facts.snapshot.nodes.get(holder) if facts.has(Source.NODES) else None
    is_known = facts.has(Source.NODES)
    state = NodeState.READY if node is None else state_of(facts, node)
    evidence = () if node is None or state is NodeState.READY else shown(facts, node)
    says = "not found" if is_known and node is None else _HAS_IT if state is NodeState.READY else "not ready"
    hanging = _hanging(facts, attachment)
    if hanging is not None:
        step, shows = hanging
        return says, step, (*evidence, *shows)
    if is_known and node is None:
        return says, _of_absent_node(facts, pod, attachment), ()
    if node is not None and state is not NodeState.READY:
        return says, _of_failing_node(facts, node, user), evidence
    if user is not None and user.node_name == holder:
        return says, end_of(facts, user, pod), ()
    return (says, *_of_ready_node(facts, pod, volume, holder))


def _hanging(facts: Facts, attachment: VolumeAttachment) -> tuple[Step, tuple[Evidence, ...]] | None:
    """Return what to do about an attachment that is being deleted, and whose driver does not confirm that it detached.

    Source: syncDetach in csi_handler.go of external-attacher, which removes the finalizer last.
    """
    details = facts.attachments.get(attachment.name)
    if details is None or details.deleted is None:
        if details is None or not details.detach_error:
            return None
        note = f"{attachment.attacher} cannot detach it: see the driver's logs"
        return logs_or_workloads(facts, attachment.attacher, ATTACHER, note), ()
    age = facts.now - details.deleted
    if age < _USUAL:
        note = f"{attachment.attacher} is detaching it: wait until this is gone"
        return Step(shell("kubectl get volumeattachment {}", attachment.name), note), ()
    deleted = Evidence(
        f"volumeattachment/{attachment.name} metadata.deletionTimestamp", "gone by now", f"{age_text(age)} ago"
    )
    return _of_hanging_attachment(attachment, details), (deleted,)


def _of_hanging_attachment(attachment: VolumeAttachment, details: AttachmentDetails) -> Step:
    finalizer = next(iter(details.finalizers), f"external-attacher/{lease_name(attachment.attacher)}")
    says = "its detachError says why" if details.detach_error else "without one, does its external-attacher run?"
    return Step(
        shell("kubectl describe volumeattachment {}", attachment.name),
        f"it waits for {attachment.attacher} to detach the volume; {says}. Waiting longer does not help. Before its "
        f"finalizer {finalizer} is removed by hand, see in the storage itself that no machine has the volume attached: "
        "otherwise two write to it and destroy the file system",
    )


def _of_absent_node(facts: Facts, pod: Pod, attachment: VolumeAttachment) -> Step:
    waited = _waited(facts, pod)
    if waited is None or waited < _FORCED + _USUAL:
        return Step(
            shell("kubectl describe volumeattachment {}", attachment.name),
            "the node is gone, and Kubernetes detaches the volume after six minutes at the latest; if it does not, "
            f"does {attachment.attacher} run?",
        )
    return Step(
        look_for_pv_controller().command,
        f"the node is gone, so kube-controller-manager should have detached the volume after six minutes, and the pod "
        f"has waited for {age_text(waited)}: does it run, without --disable-force-detach-on-timeout?",
    )


def _of_failing_node(facts: Facts, node: Node, user: Pod | None) -> Step:
    keeps = ""
    if user is not None and user.node_name == node.name and not user.deleting:
        keeps = f". Pod {user.namespace}/{user.name} uses the volume there, and keeps it until it is deleted"
    return Step(shell("kubectl describe node {}", node.name), f"{power_advice(facts, node)}{keeps}")


def _of_ready_node(facts: Facts, pod: Pod, volume: Volume, holder: str) -> tuple[Step, tuple[Evidence, ...]]:
    """Return what to do about a node that is ready, or may be, on which no pod is known to use the volume."""
    pods = pods_on(holder)
    details = facts.nodes.get(holder)
    mounted = f"kubernetes.io/csi/{volume.driver}^{volume.handle}"
    if details is not None and mounted in details.in_use:
        shows = (Evidence(f"node/{holder} status.volumesInUse", f"without {volume.name}", mounted),)
        note = "its kubelet still has it mounted: end the pod that uses it; if none does, that kubelet's log says what "
        return Step(pods, f"{note}it cannot unmount"), shows
    waited = _waited(facts, pod)
    if waited is None or waited < _FORCED + _USUAL:
        return Step(pods, "wait: Kubernetes detaches it once no pod there uses it and that node has unmounted it"), ()
    return Step(
        pods,
        f"the pod has waited for {age_text(waited)}, and waiting longer does not help: end what uses the volume there; "
        "if nothing does, that node's kubelet and the driver's node plugin there log what they cannot unmount",
    ), ()


def _waited(facts: Facts, pod: Pod) -> timedelta | None:
    """Return for how long the pod has been on its node, None if that is not known."""
    details = facts.pods.get(pod.key)
    conditions = () if details is None else details.conditions
    since = next((each.since for each in conditions if each.type == "PodScheduled" and each.status == "True"), None)
    since = since or pod.created
    return None if since is None else facts.now - since


def _detach_error(facts: Facts, name: str) -> Iterator[Evidence]:
    details = facts.attachments.get(name)
    if details is not None and details.detach_error:
        words = " ".join(details.detach_error.split())
        yield Evidence(f"volumeattachment/{name} status.detachError", "", f'"{words}"')
