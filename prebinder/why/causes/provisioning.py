"""Causes in making a volume: the provisioner, and what it reports."""

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from kube.objects.model import NO_PROVISIONER, Claim, StorageClass
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import claim_link, class_object, fits_some_volume, named, with_default_class
from prebinder.why.facts.facts import Facts, Source
from prebinder.why.report.report import Evidence, Link


def provisioner_of(facts: Facts, claim: Claim) -> StorageClass | None:
    """Return the class whose provisioner has to make a volume for the claim, None if none has to."""
    if claim.volume_name:
        return None
    wanted = with_default_class(facts, claim)
    storage_class = facts.need(Source.CLASSES).classes.get(class_of(wanted))
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return None
    snapshot = facts.need(Source.VOLUMES)
    if claim.key in snapshot.volumes_by_claim or fits_some_volume(facts, wanted):
        return None
    return storage_class


def provisioner_missing(facts: Facts, claim: Claim) -> Finding | None:
    """Nobody answers to the class's provisioner: no CSIDriver, no node with it, no Event of it.

    Source: ExternalProvisioning in pv_controller.go, which only says to wait.
    """
    storage_class = provisioner_of(facts, claim)
    if storage_class is None:
        return None
    driver = storage_class.provisioner
    snapshot = facts.need(Source.CSI_DRIVERS, Source.CSI_NODES)
    nodes = [
        csi_node for csi_node in snapshot.csi_nodes.values() if any(one.name == driver for one in csi_node.drivers)
    ]
    if driver in snapshot.csi_drivers or nodes or _has_worked(facts, claim, driver):
        return None
    there = named(sorted(snapshot.csi_drivers)) or "none"
    return Finding(
        Reason.PROVISIONER_MISSING,
        f"Class {storage_class.name} wants volumes from {driver}, and no such CSI driver is installed.",
        (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {driver}")),
        (
            Evidence(class_object(storage_class.name), "", f"provisioner {driver}"),
            Evidence("csidrivers", driver, there),
            Evidence("csinodes", f"a node with {driver}", f"0 of {len(snapshot.csi_nodes)}"),
        ),
        (Step(f"kubectl get deploy,daemonset -A | grep -i {_stem(driver)}", f"install or restart {driver}"),),
    )


def _has_worked(facts: Facts, claim: Claim, driver: str) -> bool:
    events = facts.events_of("PersistentVolumeClaim", claim.key)
    return any(driver in event.reporter or event.reason == "Provisioning" for event in events)


def _stem(driver: str) -> str:
    """Return the word of a driver's name by which its workloads are usually called: `ebs` of `ebs.csi.aws.com`."""
    words = driver.rsplit("/", maxsplit=1)[-1].split(".")
    return next((word for word in words if word not in {"csi", "com", "io", "org", "disk"}), words[0])
