"""Changes to the storage of a simulated cluster: binds, new volumes, and volumes and drivers that fail."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as with_fields

from binder.model.view import View
from csi.health.sources import STORAGE_UNREACHABLE
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    Claim,
    ClaimReference,
    CSINode,
    Volume,
)
from kube.objects.reports import StorageCondition, StorageReports
from kube.persistent_map import Map
from kube.rules.csi_migration import driver_of_provisioner
from kube.rules.topology import ZONE_LABEL

FAILED: Final = "Failed"
"""Phase of a volume that no claim gets any more."""

_OF_A_BIND: Final = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)


class ImpossibleChange(ValueError):
    """A change that is not possible in this cluster: the object does not exist, or is taken."""


def with_bound(storage: View, claim: Claim, volume: Volume) -> View:
    """Return the storage after the bind of a claim is complete. Raises ImpossibleChange if either is bound
    otherwise.
    """
    before = storage.snapshot.volumes.get(volume.name)
    if claim.volume_name not in {"", volume.name}:
        raise ImpossibleChange(f"claim {claim.key} already has volume {claim.volume_name}")
    holder = None if before is None else before.claim
    if holder is not None and holder.key != claim.key:
        raise ImpossibleChange(f"volume {volume.name} already has claim {holder.key}")
    annotations = tuple(sorted({**dict(claim.annotations), BIND_COMPLETED: "yes"}.items()))
    holding = with_fields(claim, volume_name=volume.name, phase="Bound", annotations=annotations)
    held = with_fields(volume, claim=ClaimReference(claim.namespace, claim.name, claim.uid), phase="Bound")
    return _with_volume(_with_claim(storage, holding), held)


def made_volume(claim: Claim, provisioner: str, zone: str) -> Volume:
    """Return the volume that a provisioner creates for the claim: of exactly its size, in the zone of the node."""
    place = Requirement(ZONE_LABEL, "In", (zone,))
    return Volume(
        name=f"pvc-{claim.uid}",
        uid=f"pvc-{claim.uid}",
        resource_version=1,
        storage_class=claim.storage_class,
        capacity=claim.request,
        access_modes=claim.access_modes,
        volume_mode=claim.volume_mode,
        node_affinity=NodeSelector((NodeSelectorTerm((place,)),)) if zone else None,
        reclaim_policy="Delete",
        source="csi",
        driver=driver_of_provisioner(provisioner),
        handle=f"pvc-{claim.uid}",
    )


def with_failed_volume(storage: View, name: str) -> View:
    """Return the storage with a volume that no claim gets any more. Raises KeyError without such a volume."""
    return _with_volume(storage, with_fields(storage.snapshot.volumes[name], phase=FAILED))


def with_failed_driver(storage: View, driver: str, nodes: Iterable[str]) -> View:
    """Return the storage after a driver's storage has failed: its volumes are lost, and every node reports it.

    So none of its volumes is bound or provisioned. Raises KeyError if no volume, class or node has the driver.
    """
    snapshot, names = storage.snapshot, sorted(nodes)
    known = {storage_class.provisioner for storage_class in snapshot.classes.values()} | set(snapshot.csi_drivers)
    volumes = [volume.name for volume in snapshot.volumes.values() if volume.driver == driver]
    if not volumes and driver not in known:
        raise KeyError(driver)
    for name in volumes:
        storage = with_failed_volume(storage, name)
    reporting = {name: _reporting(snapshot.csi_nodes.get(name) or CSINode(name, name, 1), driver) for name in names}
    unhealthy = {**snapshot.csi_nodes_by_unhealthy_driver, driver: tuple(names)}
    csi_nodes = snapshot.csi_nodes.update(reporting)
    return replace(
        storage, snapshot=replace(storage.snapshot, csi_nodes=csi_nodes, csi_nodes_by_unhealthy_driver=unhealthy)
    )


def with_new_claim(storage: View, key: str) -> View:
    """Return the storage after a claim was deleted and recreated: the same spec, another uid, no volume.

    Raises KeyError without such a claim.
    """
    claim = storage.snapshot.claims[key]
    prefixes = (*_OF_A_BIND, storage.settings.annotations.prefix)
    kept = tuple(pair for pair in claim.annotations if not pair[0].startswith(prefixes))
    fresh = with_fields(claim, uid=f"{claim.uid}-again", volume_name="", phase="Pending", annotations=kept, health=None)
    return _with_claim(storage, fresh)


def _reporting(csi_node: CSINode, driver: str) -> CSINode:
    before = csi_node.storage.conditions if csi_node.storage is not None else ()
    report = StorageCondition(driver, STORAGE_UNREACHABLE, "Simulated")
    return with_fields(csi_node, storage=StorageReports((*before, report)))


def _with_claim(storage: View, claim: Claim) -> View:
    claims: Map[str, Claim] = storage.snapshot.claims.set(claim.key, claim)
    return replace(storage, snapshot=replace(storage.snapshot, claims=claims))


def _with_volume(storage: View, volume: Volume) -> View:
    before = storage.snapshot.volumes.get(volume.name)
    volumes = storage.snapshot.volumes.set(volume.name, volume)
    index = storage.index.with_volume(before, volume)
    return replace(storage, snapshot=replace(storage.snapshot, volumes=volumes), index=index)
