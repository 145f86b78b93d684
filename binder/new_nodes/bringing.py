"""Which pods may be let go for a node that brings the disk for their volume with it, as local NVMe of clouds does.

Tried with Karpenter 1.14, which knows nothing of disks: it launches a node for a pod that fits none, and keeps it while
the pod waits; kube-scheduler places the pod there once the driver has reported the capacity. But for a pod that fits a
node without its disk nothing is launched; and of two pods for which one node was launched the second waits for ever if
the disk has room for one. So only a pod that fits no node even without its disk is let go, one of a class at a time,
and only if its volume fits on a new disk as the class states it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Provision
from binder.model.view import View
from binder.planning.plan import Caches, plan
from binder.planning.pod_claims import open_claims
from binder.rebalance.integer_program import Solve
from binder.reservation.contract import Annotations
from kube.objects.model import Claim, Pod, StorageClass
from kube.store.snapshot import Snapshot

_ONE_CLAIM: Final = "a pod with one claim: kube-scheduler compares each alone with the capacity of a node"


def brings(storage_class: StorageClass, snapshot: Snapshot, keys: Annotations) -> bool:
    """Whether new nodes bring storage for the class, and its driver reports how much is free."""
    driver = snapshot.csi_drivers.get(storage_class.provisioner)
    states = keys.joins_new_nodes(storage_class) and keys.new_node_storage_of(storage_class) is not None
    return states and driver is not None and driver.storage_capacity


def is_brought(class_name: str, snapshot: Snapshot, keys: Annotations) -> bool:
    """Whether there is a class of this name, and `brings` says so of it."""
    storage_class = snapshot.classes.get(class_name)
    return storage_class is not None and brings(storage_class, snapshot, keys)


def without_disks(view: View) -> View:
    """Return the view as an autoscaler has it, which knows nothing of the disks that new nodes bring."""
    snapshot, keys = view.snapshot, view.settings.annotations
    brought = {each.provisioner for each in snapshot.classes.values() if brings(each, snapshot, keys)}
    drivers = snapshot.csi_drivers
    for name in brought:
        drivers = drivers.delete(name)
    return replace(view, snapshot=replace(snapshot, csi_drivers=drivers)) if brought else view


class Bringing:
    """The pods of one pass for which new nodes would bring the storage."""

    def __init__(self, view: View, now: datetime, solve: Solve) -> None:
        """`view` is that of the existing nodes."""
        self._view, self._now, self._solve = view, now, solve
        self._waiting: dict[str, str] | None = None
        self._node_of: dict[tuple[object, ...], str] = {}

    def reject(self, pod: Pod, claims: Sequence[Claim]) -> Rejection | None:
        """Return why the pod has to stay behind its gate, or None. `claims` are those still to be made."""
        keys, classes = self._view.settings.annotations, self._view.snapshot.classes
        claim, *others = claims
        name = class_of(claim)
        if others:
            return Rejection(Reason.PROVISIONING_ELSEWHERE, f"class {name}", _ONE_CLAIM, f"{len(claims)} claims")
        size = keys.new_node_storage_of(classes[name]) or 0
        if claim.request > size:
            wanted = f"{quantity_text(claim.request)} on a new node for {claim.key}"
            offered = f"{quantity_text(size)}, by {keys.new_node_storage}"
            return Rejection(Reason.ROOM_WITHOUT_DISK, f"class {name}", wanted, offered)
        before = self._let_go().get(name)
        if before is not None:
            wanted = f"a node for the pod of class {name} that was let go first"
            return Rejection(Reason.WAITING_FOR_NEW_NODE, before, wanted, "none yet")
        node = self._roomy(pod, name)
        if node:
            wanted = "no room for the pod on any node, or an autoscaler counts on that one"
            return Rejection(Reason.ROOM_WITHOUT_DISK, node, wanted, f"room for it, and no disk of class {name}")
        return None

    def take_turn(self, pod: Pod, claims: Iterable[Claim]) -> None:
        """The pod is let go: no other of its classes is before it has a node."""
        self._let_go().update({name: pod.key for name in map(class_of, claims) if self._brings(name)})

    def _let_go(self) -> dict[str, str]:
        """Return for each class a pod without a volume or a node whose gate is removed, or is being removed."""
        if self._waiting is None:
            snapshot, lifts = self._view.snapshot, self._view.ledger.lifts
            gated = self._view.settings.annotations.carries_gate
            self._waiting = {
                class_of(claim): pod.key
                for pod in snapshot.pods.values()
                if pod.claims and not (pod.node_name or pod.deleting or pod.finished)
                if not gated(pod) or lifts.get(pod.key) == pod.uid
                for claim in open_claims(pod, snapshot)
                if self._brings(class_of(claim))
            }
        return self._waiting

    def _brings(self, name: str) -> bool:
        return is_brought(name, self._view.snapshot, self._view.settings.annotations)

    def _roomy(self, pod: Pod, class_name: str) -> str:
        """Return an existing node that fits the pod if no disk is asked for, empty if there is none."""
        kind = (class_name, pod.requests, pod.node_selector, pod.node_affinity, pod.tolerations, pod.constraints)
        if kind not in self._node_of:
            (decision,) = plan(without_disks(self._view), [pod], self._now, Caches(), self._solve)
            self._node_of[kind] = decision.node if isinstance(decision, Provision) else ""
        return self._node_of[kind]
