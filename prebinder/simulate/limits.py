"""What a simulation of a dump cannot answer, because the dump lacks what the rules would read. Pure."""

from collections.abc import Iterator

from kube.objects.constraints import NO_CONSTRAINTS
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Pod
from kube.store.snapshot import Snapshot


def unanswered(snapshot: Snapshot, *, has_namespaces: bool) -> tuple[str, ...]:
    """Return sentences for the user, each with what to dump as well."""
    return (*_capacities(snapshot), *_attach_limits(snapshot), *_namespaces(snapshot, has_namespaces))


def _capacities(snapshot: Snapshot) -> Iterator[str]:
    published = {capacity.storage_class for capacity in snapshot.capacities.values()}
    for name, storage_class in sorted(snapshot.classes.items()):
        driver = snapshot.csi_drivers.get(storage_class.provisioner)
        delayed = storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER
        if delayed and driver is not None and driver.storage_capacity and name not in published:
            yield (
                f"class {name}: {driver.name} publishes capacity, but the dump has no CSIStorageCapacity: nothing "
                "can be provisioned; dump csistoragecapacity too"
            )


def _attach_limits(snapshot: Snapshot) -> Iterator[str]:
    if not snapshot.csi_nodes and any(volume.driver for volume in snapshot.volumes.values()):
        yield "the dump has no CSINode: every node can attach any number of volumes; dump csinode too"


def _namespaces(snapshot: Snapshot, has_namespaces: bool) -> Iterator[str]:
    if not has_namespaces and any(map(_selects_namespaces, snapshot.pods.values())):
        yield (
            "pods select namespaces by labels and the dump has no Namespace: each has its name as its only label; "
            "dump ns too"
        )


def _selects_namespaces(pod: Pod) -> bool:
    constraints = pod.constraints or NO_CONSTRAINTS
    wishes = (*constraints.preferred_affinity, *constraints.preferred_anti_affinity)
    terms = (*constraints.affinity, *constraints.anti_affinity, *(wish.term for wish in wishes))
    return any(term.namespace_selector is not None for term in terms)
