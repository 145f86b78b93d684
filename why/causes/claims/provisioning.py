"""Causes in provisioning: the provisioner, where its driver runs, and its capacity."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from binder.matching.evidence import affinity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from kube.objects.model import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Pod,
    StorageClass,
    value_of,
)
from kube.plain_text import shell
from kube.rules.csi_migration import driver_of_provisioner
from kube.rules.selectors import label_keys, node_matches
from why.causes.claims.silent_provisioner import has_pods, no_answer
from why.causes.drivers.workloads import look_for, registration
from why.causes.finding import Finding, Step
from why.causes.leases import ALIVE, has_lapsed, lapse_text, last_renewal, provisioner_leases
from why.causes.objects import (
    claim_link,
    claim_object,
    class_object,
    fits_some_volume,
    named,
    nodes_with,
    own_volume,
    pod_link,
    unannotate,
    with_default_class,
)
from why.facts.details import EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_PATIENCE: Final = timedelta(minutes=2)
"""How long a provisioner may report nothing about a claim: it writes an Event when it begins."""

_IN_TREE: Final = "kubernetes.io/"
_HOST_PATH: Final = "kubernetes.io/host-path"
"""The last in-tree provisioner, for clusters of developers (--enable-hostpath-provisioner)."""


def driver_of(storage_class: StorageClass) -> str:
    """Return the CSI driver that provisions volumes of the class."""
    return driver_of_provisioner(storage_class.provisioner)


def provisioner_of(facts: Facts, claim: Claim) -> StorageClass | None:
    """Return the class whose provisioner has to provision a volume for the claim, None if none has to."""
    if claim.volume_name:
        return None
    wanted = with_default_class(facts, claim)
    storage_class = facts.need(Source.CLASSES).classes.get(class_of(wanted))
    if storage_class is None or not storage_class.provisions:
        return None
    if own_volume(facts, claim) is not None:
        return None
    # With a selected node the scheduler has decided that a volume is provisioned, whatever fits elsewhere.
    is_decided = binds_late(storage_class) and value_of(claim.annotations, SELECTED_NODE) is not None
    return storage_class if is_decided or not fits_some_volume(facts, wanted) else None


def binds_late(storage_class: StorageClass) -> bool:
    """Whether the scheduler determines where volumes of the class are provisioned."""
    return storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER


def provisioner_missing(facts: Facts, claim: Claim) -> Finding | None:
    """There is no sign of the class's provisioner: no CSIDriver, no node with it, no Event of it.

    Source: ExternalProvisioning in pv_controller.go, which only reports that it waits. A provisioner without CSI leaves
    no trace of itself before it is asked: with WaitForFirstConsumer, once the scheduler has chosen a node.
    """
    storage_class = provisioner_of(facts, claim)
    if storage_class is None:
        return None
    driver = driver_of(storage_class)
    if _is_csi_driver(facts, driver):
        return None
    if driver.startswith(_IN_TREE) and driver != _HOST_PATH:
        return _removed(claim, storage_class, named(sorted(facts.snapshot.csi_drivers)) or "none")
    if "csi" not in driver and binds_late(storage_class) and value_of(claim.annotations, SELECTED_NODE) is None:
        return None
    return _without_trace(facts, claim, storage_class)


def provisioner_never_seen(facts: Facts, pod: Pod) -> Finding | None:
    """Nothing else keeps the pod from a node, and there is no sign of the provisioner without CSI of one of its claims.

    Source: as of `provisioner_missing`.
    """
    for claim in (facts.snapshot.claims.get(key) for key in pod.claim_keys):
        storage_class = None if claim is None else provisioner_of(facts, claim)
        if claim is None or storage_class is None or "csi" in driver_of(storage_class):
            continue
        if _is_csi_driver(facts, driver_of(storage_class)):
            continue
        # Without them it is not known that nothing else keeps the pod from a node.
        facts.need(Source.NODES, Source.ALL_PODS)
        finding = _without_trace(facts, claim, storage_class)
        if finding is not None:
            return replace(finding, links=(pod_link(pod), *finding.links))
    return None


def _is_csi_driver(facts: Facts, driver: str) -> bool:
    """Whether a CSI driver of that name is installed, or registered on a node."""
    return driver in facts.need(Source.CSI_DRIVERS, Source.CSI_NODES).csi_drivers or bool(nodes_with(facts, driver))


def _without_trace(facts: Facts, claim: Claim, storage_class: StorageClass) -> Finding | None:
    """Return that nothing shows a provisioner that has no CSIDriver and is on no node, None if something does."""
    driver = driver_of(storage_class)
    if "csi" not in driver:
        # The only traces of a provisioner without CSI are its Events and its Lease.
        facts.need(Source.EVENTS, Source.LEASES)
        renewed = last_renewal(facts, provisioner_leases(driver))
        if renewed is not None:  # It was there: `provisioner_stopped` tells whether it still is.
            return None
        if claim.created is None or facts.now - claim.created < _PATIENCE:
            return None
    if _has_worked(facts, claim, driver):
        return None
    if "csi" not in driver and has_pods(facts, driver):
        return no_answer(facts, claim, storage_class, "it wrote no Event about the claim")
    snapshot = facts.snapshot
    absence = "no such CSI driver is installed" if "csi" in driver else "nothing shows that it runs: it wrote no Event"
    return Finding(
        Reason.PROVISIONER_MISSING,
        f"Class {storage_class.name} provisions volumes with {driver}, and {absence}.",
        (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {driver}")),
        (
            Evidence("csidrivers", driver, named(sorted(snapshot.csi_drivers)) or "none"),
            Evidence("csinodes", f"a node with {driver}", f"0 of {len(snapshot.csi_nodes)}"),
        ),
        (Step(look_for(driver, "deploy,daemonset"), f"install or restart {driver}"),),
    )


def _removed(claim: Claim, storage_class: StorageClass, drivers: str) -> Finding:
    """An in-tree provisioner without a CSI driver in its place (`no volume plugin matched`, pv_controller.go)."""
    return Finding(
        Reason.PROVISIONER_MISSING,
        f"Class {storage_class.name} provisions volumes with {storage_class.provisioner}, which is not a part of "
        "Kubernetes any more.",
        (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {storage_class.provisioner}")),
        (Evidence("csidrivers", "a driver for such volumes", drivers),),
        (
            Step(
                "kubectl get storageclass",
                "a claim's class is immutable: delete this claim (it has no data yet) and create it with a class of a "
                "CSI driver",
            ),
        ),
    )


def driver_on_no_node(facts: Facts, claim: Claim) -> Finding | None:
    """The driver is installed, but runs on no node, or not on the one that was chosen for the claim.

    Source: GenerateAccessibilityRequirements in external-provisioner's topology.go. A driver without topology is called
    all the same: what it answers is the cause then.
    """
    storage_class = provisioner_of(facts, claim)
    if storage_class is None:
        return None
    driver = driver_of(storage_class)
    if driver not in facts.need(Source.CSI_DRIVERS, Source.CSI_NODES).csi_drivers:
        return None
    nodes = nodes_with(facts, driver)
    selected = value_of(claim.annotations, SELECTED_NODE)
    if nodes and (selected is None or selected in nodes or selected not in facts.need(Source.NODES).nodes):
        return None
    if _has_been_called(facts, claim, driver):
        return None
    if _has_no_node(facts):
        return _without_nodes(claim, storage_class)
    where = f"node {selected}" if nodes else "any node"
    step, runs = registration(facts, driver, selected if nodes and selected else "")
    return Finding(
        Reason.DRIVER_NOT_ON_NODE,
        f"CSI driver {driver} is not registered on {where}.",
        (
            claim_link(claim),
            Link("StorageClass", storage_class.name, f"provisioner {driver}"),
            *((Link("Node", selected, "chosen for the volume"),) if selected else ()),
        ),
        (Evidence("csinodes", f"{driver} on {where}", named(nodes) or "on no node"), *runs),
        (step, *_choose_again(claim, selected if nodes and binds_late(storage_class) else None)),
    )


def _choose_again(claim: Claim, selected: str | None) -> Iterator[Step]:
    """Yield how to let a claim go elsewhere that is pinned to a node: nothing takes the annotation back from it."""
    if selected is not None:
        note = (
            f"only if it will not run on {selected} again, and has made no volume for the claim: lets another node be "
        )
        yield Step(unannotate(claim, SELECTED_NODE), note + "chosen")


def _has_no_node(facts: Facts) -> bool:
    return not facts.snapshot.csi_nodes and facts.has(Source.NODES) and not facts.snapshot.nodes


def _without_nodes(claim: Claim, storage_class: StorageClass) -> Finding:
    """Without a node neither the driver runs nor the pods that use its volumes."""
    return Finding(
        Reason.NO_NODE_FITS,
        f"The cluster has no node, so {driver_of(storage_class)} runs nowhere and provisions nothing.",
        (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {driver_of(storage_class)}")),
        (Evidence("nodes", "a node", "none"),),
        (Step("kubectl get nodes", "add a node"),),
    )


def selected_node_stale(facts: Facts, claim: Claim) -> Finding | None:
    """The node that the scheduler chose for the new volume is gone (kubernetes#100485)."""
    selected = value_of(claim.annotations, SELECTED_NODE)
    if selected is None or claim.volume_name or selected in facts.need(Source.NODES).nodes:
        return None
    return Finding(
        Reason.SELECTED_NODE_STALE,
        f"The claim's volume is to be provisioned for node {selected}, which does not exist any more.",
        (claim_link(claim), Link("Node", selected, "not found")),
        (Evidence(claim_object(claim, f"annotation {SELECTED_NODE}"), "an existing node", selected),),
        (
            Step("kubectl get nodes", f"is {selected} gone? Only then:"),
            Step(
                unannotate(claim, SELECTED_NODE),
                "lets the scheduler choose a node again; check first that the driver has no volume for the claim",
            ),
        ),
    )


def no_allowed_topology(facts: Facts, claim: Claim) -> Finding | None:
    """No node matches the class's allowedTopologies (checkVolumeProvisions in volumebinding/binder.go)."""
    storage_class = provisioner_of(facts, claim)
    if storage_class is None or storage_class.allowed_topologies is None:
        return None
    allowed, nodes = storage_class.allowed_topologies, facts.need(Source.NODES).nodes
    if any(node_matches(allowed, dict(node.labels)) for node in nodes.values()):
        return None
    if not nodes:
        return _without_nodes(claim, storage_class)
    keys = label_keys(allowed)
    there = {f"{key}={value}" for node in nodes.values() for key, value in node.labels if key in keys}
    return Finding(
        Reason.TOPOLOGY_NOT_ALLOWED,
        f"Class {storage_class.name} provisions volumes only in topologies without a node.",
        (claim_link(claim), Link("StorageClass", storage_class.name, "allowedTopologies")),
        (
            Evidence(
                f"{class_object(storage_class.name)} allowedTopologies",
                affinity_text(allowed),
                named(sorted(there), 6) or "no node has such a label",
            ),
        ),
        (
            Step(
                shell("kubectl get nodes -L {}", ",".join(keys)),
                "add a node there, or create a class with other allowedTopologies: they are immutable",
            ),
        ),
    )


def provisioner_stopped(facts: Facts, claim: Claim) -> Finding | None:
    """The Lease of the driver's provisioner has expired, and it has reported nothing since.

    external-provisioner holds a Lease named after the driver (leader_election.go of csi-lib-utils).
    """
    storage_class = provisioner_of(facts, claim)
    if storage_class is None:
        return None
    driver = driver_of(storage_class)
    renewed = last_renewal(facts, provisioner_leases(driver))
    if renewed is None or not has_lapsed(facts, renewed):
        return None
    # A provisioner without leader election may be running although the Lease of an earlier one exists.
    facts.need(Source.VOLUMES)
    signs = [
        facts.derived.last_provisioned.get(driver),
        *(event.last for event in _of_provisioner(facts, claim, driver)),
    ]
    if any(sign is not None and sign - renewed > ALIVE for sign in signs):
        return None
    return no_answer(facts, claim, storage_class, lapse_text(facts, renewed))


def provisioner_silent(facts: Facts, claim: Claim) -> Finding | None:
    """The driver is installed and was triggered, and there is no sign of its provisioner.

    It writes the Event Provisioning when it begins with a claim (controller.go of
    sig-storage-lib-external-provisioner).
    """
    storage_class = provisioner_of(facts, claim)
    if storage_class is None or _has_worked(facts, claim, driver_of(storage_class)):
        return None
    age = facts.now - claim.created if claim.created is not None else timedelta()
    if last_renewal(facts, provisioner_leases(driver_of(storage_class))) is not None:
        return None
    waits = facts.events_of("PersistentVolumeClaim", claim.key)
    if age < _PATIENCE or not any(event.reason == "ExternalProvisioning" for event in waits):
        return None
    return no_answer(facts, claim, storage_class, "it has not started on the claim")


def _has_worked(facts: Facts, claim: Claim, driver: str) -> bool:
    return any(_of_provisioner(facts, claim, driver))


def _has_been_called(facts: Facts, claim: Claim, driver: str) -> bool:
    """Whether the provisioner's last report on the claim is an answer of its driver."""
    reports = (event for event in _of_provisioner(facts, claim, driver) if event.reason != "Provisioning")
    last = next(reports, None)
    return last is not None and "rpc error: code = " in last.note


def _of_provisioner(facts: Facts, claim: Claim, driver: str) -> Iterator[EventRecord]:
    """Yield the provisioner's Events about the claim, the latest first."""
    for event in facts.events_of("PersistentVolumeClaim", claim.key):
        if driver in event.reporter or event.reason == "Provisioning":
            yield event
