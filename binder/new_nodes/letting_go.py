"""Which pods in mode provision may be left to kube-scheduler, so that an autoscaler sees them.

A volume is made for a node that exists: external-provisioner reads the node's labels and those of its CSINode. So none
can be selected ahead of its node. But autoscalers follow a claim that is still to be provisioned: they add a node where
its class allows volumes, and kube-scheduler selects that one for all claims of the pod. That is all that mode provision
promises where no capacity is reported (where it is, see `bringing`). Nothing is committed: the pod is left alone, as in
mode off.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from binder.matching.matching import class_of
from binder.matching.node_fit import reject_node
from binder.matching.rejection import Reason, Rejection
from binder.reservation.contract import STRICT, Annotations
from kube.objects.model import Claim, Pod, StorageClass, value_of
from kube.store.snapshot import Snapshot

_ADDED_WITHOUT_DISK: Final = (
    "a driver that reports no capacity: autoscalers judge only whether a node has room for pods"
)


def reject_letting_go(pod: Pod, claims: Sequence[Claim], snapshot: Snapshot, keys: Annotations) -> Rejection | None:
    """Return why the pod has to stay behind its gate although only a node is missing for its volumes, or None.

    `claims` are those whose volumes are still to be made. Capacity is what kube-scheduler compares for each claim
    alone; a provisioner that may choose another place than asked for splits the claims of a pod; and where a node
    without the driver has room, kube-scheduler would select that one, for good.
    """
    return next(_obstacles(pod, claims, snapshot, keys), None)


def _obstacles(pod: Pod, claims: Sequence[Claim], snapshot: Snapshot, keys: Annotations) -> Iterator[Rejection]:
    classes = {name: snapshot.classes[name] for name in map(class_of, claims)}
    for name, storage_class in sorted(classes.items()):
        driver = snapshot.csi_drivers.get(storage_class.provisioner)
        if driver is not None and driver.storage_capacity:
            yield Rejection(
                Reason.ROOM_WITHOUT_DISK, f"class {name}", _ADDED_WITHOUT_DISK, f"capacities of {driver.name}"
            )
        if len(claims) > 1 and value_of(storage_class.annotations, keys.topology) != STRICT:
            wanted = f"all volumes of the pod in one place ({keys.topology}: {STRICT})"
            yield Rejection(Reason.PROVISIONING_ELSEWHERE, f"class {name}", wanted, f"{len(claims)} claims")
    yield from _without_driver(pod, classes.values(), snapshot)


def _without_driver(pod: Pod, classes: Iterable[StorageClass], snapshot: Snapshot) -> Iterator[Rejection]:
    drivers = {each.provisioner for each in classes if each.provisioner in snapshot.csi_drivers}
    for name, node in snapshot.nodes.items():
        csi_node = snapshot.csi_nodes.get(name)
        there = {each.name for each in csi_node.drivers} if csi_node is not None else set()
        if drivers - there and reject_node(pod, node) is None:
            wanted = f"driver {min(drivers - there)}, or no room for the pod"
            yield Rejection(Reason.DRIVER_NOT_ON_NODE, name, wanted, "not registered there")
