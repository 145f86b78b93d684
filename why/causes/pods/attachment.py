"""Causes after a node was chosen: a volume that cannot be attached there, or mounted."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import READ_WRITE_ONCE, READ_WRITE_ONCE_POD, Claim, Pod, Volume, VolumeAttachment
from kube.rules.duration import age_text
from why.causes.finding import Finding, Step
from why.causes.leases import lapsed_lease, lease_name
from why.causes.objects import (
    OUT_OF_SERVICE,
    claim_link,
    named,
    nodes_with,
    not_ready,
    pod_link,
    users_of,
    volume_link,
)
from why.causes.pods.mount_events import (
    FAILED,
    are_mounted,
    cause_in,
    failures,
    let_it_run,
    unavailable,
    volumes_of,
    without_driver,
)
from why.causes.reported import quoted
from why.causes.termination import held_up_by
from why.causes.volume_state import volume_terminating as terminating
from why.causes.volume_state import volume_unhealthy as unhealthy
from why.facts.details import AttachmentDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_MULTI_ATTACH: Final = re.compile(r"Multi-Attach error|already (?:exclusively )?(?:attached|used by pod)")
_PATIENCE: Final = timedelta(minutes=2)
"""How long an attacher may report nothing."""

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
        if not holders or len(holders) < len(attached):
            continue
        holder = holders[0].node_name
        user = _other_user(facts, claim, pod)
        state, step = _about_holder(facts, holders[0], user)
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
                Evidence(
                    f"volumeattachment/{holders[0].name}", f"attached to {pod.node_name}", f"attached to {holder}"
                ),
                *_detach_error(facts, holders[0].name),
            ),
            (step,),
        )
        # What helps against a node that is down is known already.
        return finding if user is None or state != _HAS_IT else held_up_by(facts, user, finding)
    return None


def _other_user(facts: Facts, claim: Claim, pod: Pod) -> Pod | None:
    """Return a pod on another node that uses the claim: its volume is not detached before that pod has ended."""
    others = (user for user in users_of(facts, claim) if user.node_name not in {"", pod.node_name})
    return next(others, None)


def _until_it_ends(user: Pod) -> Step:
    if user.deleting:
        note = f"it is being deleted: wait until node {user.node_name} has ended it"
        return Step(f"kubectl -n {user.namespace} get pod {user.name} --watch", note)
    return Step(
        f"kubectl -n {user.namespace} delete pod {user.name}",
        "ends what that pod does; a Deployment whose pods use a ReadWriteOnce claim needs one replica and strategy "
        "Recreate, or each update waits like this",
    )


def _about_holder(facts: Facts, attachment: VolumeAttachment, user: Pod | None) -> tuple[str, Step]:
    """Return the state of the node that has the volume, and what will detach it."""
    holder = attachment.node_name
    wait = Step(
        f"kubectl get pods -A --field-selector spec.nodeName={holder}",
        "wait: Kubernetes detaches it, after six minutes at the latest, once no pod on that node uses it",
    )
    if not facts.has(Source.NODES):
        return _HAS_IT, wait
    node = facts.snapshot.nodes.get(holder)
    if node is None:
        return "not found", Step(
            f"kubectl describe volumeattachment {attachment.name}",
            "the node is gone, and Kubernetes detaches the volume after six minutes at the latest; if it does not, "
            f"does {attachment.attacher} run?",
        )
    if not not_ready(node):
        if user is not None and user.node_name == holder:
            return _HAS_IT, _until_it_ends(user)
        if any(_detach_error(facts, attachment.name)):
            note = f"{attachment.attacher} cannot detach it: see the driver's logs"
            return _HAS_IT, Step(f"kubectl describe volumeattachment {attachment.name}", note)
        return _HAS_IT, wait
    return "not ready", Step(
        f"kubectl taint node {holder} {OUT_OF_SERVICE}",
        "only if that node is switched off: its pods are deleted at once, and unwritten data is lost",
    )


def _detach_error(facts: Facts, name: str) -> Iterator[Evidence]:
    details = facts.attachments.get(name)
    if details is not None and details.detach_error:
        words = " ".join(details.detach_error.split())
        yield Evidence(f"volumeattachment/{name} status.detachError", "", f'"{words}"')


def driver_not_on_node(facts: Facts, pod: Pod) -> Finding | None:
    """The kubelet of the pod's node has no driver of that name, and can neither attach nor mount the volume.

    Source: NewCSIDriverClient's caller in csi_plugin.go, "not found in the list of registered CSI drivers". A node
    without a CSINode is left out: its kubelet has reported nothing.
    """
    failing = next(failures(facts, pod), None)
    if failing is None:
        return None
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CSI_NODES)
    for claim, volume in volumes_of(pod, snapshot):
        driver, there = volume.driver, nodes_with(facts, volume.driver)
        if not driver or pod.node_name in there or pod.node_name not in snapshot.csi_nodes:
            continue
        return Finding(
            Reason.DRIVER_NOT_ON_NODE,
            f"CSI driver {driver} of volume {volume.name} is not registered on node {pod.node_name}: its node plugin "
            "does not run there.",
            (
                pod_link(pod, f"on node {pod.node_name}"),
                claim_link(claim),
                volume_link(volume),
                Link("Node", pod.node_name, f"without {driver}"),
            ),
            (
                Evidence("csinodes", f"{driver} on node {pod.node_name}", named(there) or "on no node"),
                quoted(facts, failing),
            ),
            (let_it_run(driver, pod),),
        )
    return None


def volume_unhealthy(facts: Facts, pod: Pod) -> Finding | None:
    """A volume of the pod is reported unhealthy: a failure to attach or mount it is a consequence."""
    failing = next(failures(facts, pod), None)
    if failing is None:
        return None
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES)
    for claim, volume in volumes_of(pod, snapshot):
        finding = unhealthy(facts, volume)
        if finding is not None:
            links = (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), *finding.links)
            return replace(
                finding,
                message=f"Volume {volume.name} of the pod is unhealthy: {finding.evidence[0].found}.",
                links=links,
                evidence=(*finding.evidence, quoted(facts, failing)),
            )
    return None


def attach_failed(facts: Facts, pod: Pod) -> Finding | None:
    """The driver cannot attach a volume to the pod's node: status.attachError of the VolumeAttachment."""
    for claim, volume, attachment, details in _not_attached(facts, pod):
        if not details.attach_error:
            continue
        if volume.deleting:
            return _being_deleted(facts, pod, claim, volume, details.attach_error)
        words = Evidence(
            f"volumeattachment/{attachment.name} status.attachError (of {attachment.attacher})",
            "",
            f'"{" ".join(details.attach_error.split())}"',
        )
        return without_driver(pod, words) or Finding(
            Reason.ATTACH_FAILED,
            f"{attachment.attacher} cannot attach volume {volume.name} to node {pod.node_name}.",
            (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), volume_link(volume)),
            (words,),
            (Step(f"kubectl describe volumeattachment {attachment.name}", "see the driver's logs"),),
        )
    return None


def _being_deleted(facts: Facts, pod: Pod, claim: Claim, volume: Volume, error: str) -> Finding | None:
    """The volume is being deleted, and is not attached any more (csiAttach in csi_handler.go of external-attacher)."""
    finding = terminating(facts, volume)
    if finding is None:
        return None
    quote = Evidence("volumeattachment status.attachError", "", f'"{" ".join(error.split())}"')
    links = (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), *finding.links)
    message = f"Volume {volume.name} of the pod is being deleted, and is not attached any more."
    return replace(finding, message=message, links=links, evidence=(*finding.evidence, quote))


def attacher_silent(facts: Facts, pod: Pod) -> Finding | None:
    """A volume is to be attached to the pod's node, and the driver's attacher neither does it nor reports an error.

    external-attacher reports an error after 15 seconds (its --timeout) and holds a Lease (main.go there).
    """
    for claim, volume, attachment, details in _not_attached(facts, pod):
        if details.created is None or details.deleted:
            continue
        age = facts.now - details.created
        if age < _PATIENCE:
            continue
        return Finding(
            Reason.ATTACH_FAILED,
            f"{attachment.attacher} has not attached volume {volume.name} to node {pod.node_name} for "
            f"{age_text(age)}, and reports no error: its attacher does not respond.",
            (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), volume_link(volume)),
            (
                Evidence(f"volumeattachment/{attachment.name} status", "attached, or an error", "neither"),
                *lapsed_lease(facts, f"external-attacher-leader-{lease_name(attachment.attacher)}"),
            ),
            (
                Step(
                    f"kubectl describe volumeattachment {attachment.name}",
                    f"does external-attacher run in the controller of {attachment.attacher}?",
                ),
            ),
        )
    return None


def _not_attached(facts: Facts, pod: Pod) -> Iterator[tuple[Claim, Volume, VolumeAttachment, AttachmentDetails]]:
    """Yield the pod's volumes that are to be attached to its node and are not yet; none if all are mounted."""
    if are_mounted(facts, pod):
        return
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.ATTACHMENTS)
    for claim, volume in volumes_of(pod, snapshot):
        for attachment in snapshot.attachments.values():
            details = facts.attachments.get(attachment.name)
            here = (attachment.volume_name, attachment.node_name) == (volume.name, pod.node_name)
            if here and not attachment.attached and details is not None:
                yield claim, volume, attachment, details


def reported_by_kubelet(facts: Facts, pod: Pod) -> Finding | None:
    """Attaching or mounting fails, by the Events of attachdetach-controller and kubelet."""
    facts.need(Source.EVENTS)
    for event in failures(facts, pod):
        code = FAILED.get(event.reason, Reason.MOUNT_FAILED)
        if _MULTI_ATTACH.search(event.note):
            code = Reason.ATTACH_CONFLICT
        reported = cause_in(facts, pod, event)
        if reported is not None:
            return reported
        verb = "mounted" if code is Reason.MOUNT_FAILED else "attached"
        user = _user_elsewhere(facts, pod) if code is Reason.ATTACH_CONFLICT else None
        driver = unavailable(facts, pod, event)
        step = Step(f"kubectl -n {pod.namespace} describe pod {pod.name}") if not driver else let_it_run(driver, pod)
        return Finding(
            code,
            f"A volume of the pod cannot be {verb} on node {pod.node_name}.",
            (
                pod_link(pod, f"on node {pod.node_name}"),
                *((pod_link(user, f"on node {user.node_name}"),) if user is not None else ()),
            ),
            (quoted(facts, event),),
            (step if user is None else _until_it_ends(user),),
        )
    return None


def _user_elsewhere(facts: Facts, pod: Pod) -> Pod | None:
    """Return a pod on another node that uses a claim of this one for one node."""
    claims = (facts.snapshot.claims.get(key) for key in pod.claim_keys)
    for claim in claims:
        if claim is not None and set(claim.access_modes) <= _ONE_NODE:
            user = _other_user(facts, claim, pod)
            if user is not None:
                return user
    return None
