"""Causes in the free capacity that drivers report: too little of it, or none where the scheduler relies on it."""

from dataclasses import dataclass

from binder.matching.evidence import quantity_text
from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, Claim, StorageClass, value_of
from kube.plain_text import shell
from kube.rules.quantity import whole_units
from why.causes.claims.provisioning import binds_late, driver_of, provisioner_of
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link


def no_capacity(facts: Facts, claim: Claim) -> Finding | None:
    """No CSIStorageCapacity of the class is large enough (hasEnoughCapacity in volumebinding/binder.go)."""
    storage_class = provisioner_of(facts, claim)
    if storage_class is None or value_of(claim.annotations, SELECTED_NODE) is not None or not claim.request:
        return None
    driver = facts.need(Source.CSI_DRIVERS).csi_drivers.get(driver_of(storage_class))
    if driver is None or not driver.storage_capacity:
        return None
    capacities = facts.need(Source.CAPACITIES).capacities.values()
    sizes = [
        capacity.largest_volume
        for capacity in capacities
        if capacity.storage_class == storage_class.name and capacity.largest_volume is not None
    ]
    if any(whole_units(size) >= whole_units(claim.request) for size in sizes):
        return None
    if not sizes and not binds_late(storage_class):  # Only the scheduler depends on the objects.
        return None
    links = (claim_link(claim), Link("StorageClass", storage_class.name, f"provisioner {storage_class.provisioner}"))
    unpublished = unpublished_capacity(facts, storage_class)
    if unpublished is not None:
        evidence = (unpublished.evidence, Evidence(f"csidriver/{driver.name} spec.storageCapacity", "", "true"))
        return Finding(Reason.INSUFFICIENT_STORAGE, unpublished.message, links, evidence, (unpublished.step,))
    largest = f"at most {quantity_text(max(sizes))}" if sizes else "no size is reported"
    return Finding(
        Reason.INSUFFICIENT_STORAGE,
        f"{storage_class.provisioner} has no room for {quantity_text(claim.request)} anywhere: {largest}.",
        links,
        (Evidence("csistoragecapacities", f"{quantity_text(claim.request)} in one topology", largest),),
        (room_step(),),
    )


@dataclass(frozen=True, slots=True)
class Unpublished:
    """That a driver reports no free capacity for a class, as if it had none."""

    message: str
    evidence: Evidence
    step: Step


def unpublished_capacity(facts: Facts, storage_class: StorageClass) -> Unpublished | None:
    """Return that there is no CSIStorageCapacity of the class, which is not the same as no room; None if there is one.

    Source: external-provisioner's capacity controller (pkg/capacity), which runs with `--enable-capacity` only.
    """
    capacities = facts.need(Source.CAPACITIES).capacities.values()
    published = {capacity.storage_class for capacity in capacities}
    if storage_class.name in published:
        return None
    driver, classes = driver_of(storage_class), facts.snapshot.classes
    others = sorted(name for name in published if name in classes and driver_of(classes[name]) == driver)
    message = (
        f"{driver} has published no free capacity for class {storage_class.name}, and its CSIDriver says that it does: "
        "the scheduler finds room nowhere."
    )
    wanted = f"one of class {storage_class.name}"
    if others:
        note = (
            f"it publishes that of class {others[0]}: its provisioner's log says why not of this one, for example "
            "the driver rejects its parameters, or no node is in its allowedTopologies"
        )
        step = Step("kubectl get csistoragecapacities -A", note)
        return Unpublished(message, Evidence("csistoragecapacities", wanted, f"of class {others[0]} only"), step)
    note = (
        f"does external-provisioner of {driver} run with --enable-capacity? It needs the right to create "
        "csistoragecapacities in its namespace, too: without it its log says forbidden. Otherwise set "
        "spec.storageCapacity of the CSIDriver to false"
    )
    arguments = "NAMESPACE:.metadata.namespace,NAME:.metadata.name,ARGUMENTS:.spec.template.spec.containers[*].args"
    step = Step(shell("kubectl get deployment,statefulset,daemonset -A -o custom-columns={}", arguments), note)
    return Unpublished(message, Evidence("csistoragecapacities", wanted, f"none of {driver}"), step)


def room_step() -> Step:
    """Return where to see what room a driver has."""
    return Step(
        "kubectl get csistoragecapacities -A "
        "-o custom-columns=CLASS:.storageClassName,FREE:.capacity,TOPOLOGY:.nodeTopology.matchLabels",
        "add capacity, or request less",
    )
