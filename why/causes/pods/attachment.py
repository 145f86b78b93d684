"""Causes after a node was chosen: a volume that cannot be attached there, or mounted."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod, Volume, VolumeAttachment
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.drivers.crashes import broken_sidecar
from why.causes.drivers.logs import ATTACHER, log_of_node_plugin, logs_or_workloads
from why.causes.drivers.workloads import look_for, registration
from why.causes.finding import Finding, Step
from why.causes.leases import attacher_lease, lapsed_lease
from why.causes.objects import (
    claim_link,
    named,
    nodes_with,
    on_pod,
    pod_link,
    volume_link,
)
from why.causes.pods.attach_conflict import user_elsewhere
from why.causes.pods.mount_events import (
    FAILED,
    are_mounted,
    cause_in,
    failures,
    let_it_run,
    unavailable,
    volume_in,
    volumes_of,
    without_driver,
)
from why.causes.pods.other_users import end_of
from why.causes.reported import quoted
from why.causes.texts.table import explained
from why.causes.volume_state import volume_terminating as terminating
from why.causes.volume_state import volume_unhealthy as unhealthy
from why.facts.details import AttachmentDetails, EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_MULTI_ATTACH: Final = re.compile(
    r"Multi-Attach error|^(?!.*\b[Mm]ax(?:imum)? number of).*already (?:exclusively )?(?:attached|used by pod)",
    re.DOTALL,
)
"""A volume, not the number of them that a machine takes."""
_PATIENCE: Final = timedelta(minutes=2)
"""How long an attacher may report nothing."""


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
        step, runs = registration(facts, driver, pod.node_name, "; the kubelet then tries again")
        return Finding(
            Reason.DRIVER_NOT_ON_NODE,
            f"CSI driver {driver} of volume {volume.name} is not registered on node {pod.node_name}.",
            (
                pod_link(pod, f"on node {pod.node_name}"),
                claim_link(claim),
                volume_link(volume),
                Link("Node", pod.node_name, f"without {driver}"),
            ),
            (
                Evidence("csinodes", f"{driver} on node {pod.node_name}", named(there) or "on no node"),
                quoted(facts, failing),
                *runs,
            ),
            (step,),
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
        finding = Finding(
            Reason.ATTACH_FAILED,
            f"{attachment.attacher} cannot attach volume {volume.name} to node {pod.node_name}.",
            (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), volume_link(volume)),
            (words,),
            (logs_or_workloads(facts, attachment.attacher, ATTACHER, "an error of the driver or of its storage"),),
        )
        return without_driver(facts, pod, words) or _explained(finding, "attach", details.attach_error, pod)
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
        return _no_answer(facts, (pod, claim, volume), attachment, age)
    return None


def _no_answer(facts: Facts, about: tuple[Pod, Claim, Volume], attachment: VolumeAttachment, age: timedelta) -> Finding:
    """Return that an attacher does not respond, and why if its pod shows that it does not run."""
    pod, claim, volume = about
    broken = broken_sidecar(facts, attachment.attacher, ATTACHER)
    links = (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), volume_link(volume))
    lease = lapsed_lease(facts, attacher_lease(attachment.attacher))
    evidence = (Evidence(f"volumeattachment/{attachment.name} status", "attached, or an error", "neither"), *lease)
    message = (
        f"{attachment.attacher} has not attached volume {volume.name} to node {pod.node_name} for {age_text(age)}, and "
        "reports no error: "
    )
    if broken is None:
        message += "its attacher does not respond."
        return Finding(Reason.ATTACH_FAILED, message, links, evidence, (_let_it_attach(facts, attachment),))
    words, link, shows, step = broken
    return Finding(Reason.ATTACH_FAILED, f"{message}{words}.", (*links, link), (shows, *evidence), (step,))


def _let_it_attach(facts: Facts, attachment: VolumeAttachment) -> Step:
    """Return what lets the volume be attached. Without a CSIDriver Kubernetes waits for an attacher in any case
    (skipAttach in csi_plugin.go), also for a driver that has none.
    """
    driver = attachment.attacher
    if not facts.has(Source.CSI_DRIVERS) or driver in facts.snapshot.csi_drivers:
        note = f"does external-attacher run in the controller of {driver}?"
        return logs_or_workloads(facts, driver, ATTACHER, note)
    return Step(
        shell("kubectl get csidriver {}", driver),
        "there is no such object, so Kubernetes waits for an attacher: create it as in the driver's manifests, with "
        "attachRequired: false for a driver that attaches nothing; if it does, its external-attacher has to run",
    )


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
    every = list(failures(facts, pod))
    causes = (cause_in(facts, pod, event) for event in every)
    cause = next((each for each in causes if each is not None), None)
    if cause is not None:
        return cause
    for event in every:
        code = FAILED.get(event.reason, Reason.MOUNT_FAILED)
        if _MULTI_ATTACH.search(event.note):
            code = Reason.ATTACH_CONFLICT
        state = "cannot be mounted" if code is Reason.MOUNT_FAILED else "cannot be attached"
        if event.reason == "VolumePermissionChangeInProgress":
            state = "is not mounted yet"
        user = user_elsewhere(facts, pod) if code is Reason.ATTACH_CONFLICT else None
        driver = unavailable(facts, pod, event)
        step = _beyond_event(facts, pod, event, code) if not driver else let_it_run(driver, pod)
        finding = Finding(
            code,
            f"A volume of the pod {state} on node {pod.node_name}.",
            (
                pod_link(pod, f"on node {pod.node_name}"),
                *((pod_link(user, f"on node {user.node_name}"),) if user is not None else ()),
            ),
            (quoted(facts, event),),
            (step if user is None else end_of(facts, user, pod),),
        )
        is_explained = user is not None or bool(driver)
        during = "mount" if code is Reason.MOUNT_FAILED else "attach"
        return finding if is_explained else _explained(finding, during, event.note, pod)
    return None


def _beyond_event(facts: Facts, pod: Pod, event: EventRecord, code: Reason) -> Step:
    """Return what tells more than an Event that is quoted: the driver's log, or the volume that is not a driver's."""
    about = volume_in(facts, pod, event)
    if about is None:
        return Step(f"{on_pod('get', pod)} -o yaml", "its spec.volumes name what is to be mounted")
    if not about.driver:
        return Step(shell("kubectl get pv {} -o yaml", about.name), "its spec names what is mounted, and where from")
    if code is Reason.ATTACH_FAILED:
        return logs_or_workloads(facts, about.driver, ATTACHER, "an error of the driver or of its storage")
    note = "an error of the driver or of its storage"
    log = log_of_node_plugin(facts, about.driver, pod.node_name)
    return Step(look_for(about.driver, "daemonset"), note) if log is None else replace(log, note=note)


def _explained(finding: Finding, during: str, error: str, pod: Pod) -> Finding:
    return explained(finding, during, error, namespace=pod.namespace, pod=pod.name, node=pod.node_name)
