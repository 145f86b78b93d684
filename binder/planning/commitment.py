"""For which pods volumes are committed, for which they are only hinted, and which binds of other writers are finished.

The controller never races kube-scheduler for a pod that it may be working on: it commits volumes claim by claim and
does not roll back what it committed before it lost, so that two concurrent writers may split a pod's claims between
them. It does not consider pods with a scheduling gate or a node, and it is done with a pod that it has reported as
unschedulable.

A bind has begun if the volume names the claim and the claim does not name the volume yet. kube-scheduler begins one for
each claim of a pod that it schedules, and so does a process of ours that dies in the middle. The PV controller finishes
them one after the other at its own rate; in mode complete we do, with the same writes. No volume is chosen here: the
checks are those of the PV controller for a volume that names an unbound claim (syncUnboundClaim in pv_controller.go),
and our own before any write that gives a volume to a pod.

A commitment is never revoked, so it needs every filter of kube-scheduler. If one is not supported, or depends on what
only kube-scheduler will decide, the pod gets the hint of mode annotate and kube-scheduler chooses.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from binder.assignment.volume_policy import reject_health
from binder.matching.matching import class_of, controller_rejection
from binder.matching.rejection import Rejection
from binder.model.decision import Finish, Placement, Reject
from binder.model.view import View
from binder.planning.let_go import unreached
from binder.reservation.release import UNUSED_PHASES
from kube.objects.model import Claim, Pod
from kube.pod_topology.pod_ties import asks_for_namespace_labels
from kube.rules.unsupported import not_understood
from kube.store.snapshot import Snapshot


def scheduler_may_serve(pod: Pod) -> bool:
    """Whether the pod's scheduler could be choosing volumes for it at this moment."""
    return not (pod.scheduling_gates or pod.node_name or pod.unschedulable)


def may_commit(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether volumes may be committed to the pod's claims: no scheduler may be working on any pod that uses them."""
    others = (snapshot.pods.get(key) for claim in pod.claim_keys for key in snapshot.pods_by_claim.get(claim, ()))
    users = (other for other in others if other is not None and other.key != pod.key)
    return not scheduler_may_serve(pod) and not any(map(scheduler_may_serve, users))


def all_gated(claim: str, snapshot: Snapshot) -> bool:
    """Whether pods use the claim (`namespace/name`) and no scheduler considers any of them: each has a gate."""
    users = [snapshot.pods.get(key) for key in snapshot.pods_by_claim.get(claim, ())]
    return bool(users) and all(user is not None and user.scheduling_gates for user in users)


def decisive(pod: Pod) -> tuple[object, ...]:
    """Return the fields of a pod whose change after planning makes another plan necessary.

    A pod with a gate may still get a narrower node selector or affinity (KEP-3838), and any pod more tolerations, other
    labels, and other requests by a resize.
    """
    state = (pod.uid, pod.deleting, pod.finished, pod.node_name, pod.scheduling_gates, pod.unschedulable)
    wishes = (pod.node_selector, pod.node_affinity, pod.tolerations, pod.requests, pod.constraints, pod.labels)
    return (*state, *wishes)


def finish_of(view: View, pod: Pod, begun: Sequence[Placement], now: datetime) -> Finish | Reject | None:
    """Return the binds to finish; a rejection if all that are left are of volumes that must not be used; else None."""
    rejected: list[Rejection] = []
    sound: list[Placement] = []
    for placement in begun:
        if not _may_finish(view, placement, now):
            continue
        unhealthy = reject_health(view, placement.volume, now)
        if unhealthy is None:
            sound.append(placement)
        else:
            rejected.append(unhealthy)
    if sound:
        return unreached(view, pod) or Finish(pod, tuple(sound))
    return Reject(pod, rejected[0].reason, tuple(rejected), begun=True) if rejected else None


def _may_finish(view: View, placement: Placement, now: datetime) -> bool:
    claim, volume = placement.claim, placement.volume
    if volume.phase not in UNUSED_PHASES | {"Bound"} or controller_rejection(claim, volume, delayed=True) is not None:
        return False
    if volume.reclaim_policy != "Retain" and not view.settings.allow_delete_policy:
        return False
    reservation = view.settings.annotations.reservation_of(volume)
    # A reservation for another claim of that name, or an expired one, is being rolled back.
    return reservation is None or reservation.holds(now, claim)


def hint_only(view: View, pod: Pod, left_alone: tuple[Claim, ...]) -> tuple[str, ...]:
    """Return every reason, in words, why the pod's volumes must not be committed; empty if they may be.

    `left_alone` are unbound claims of the pod for which other components choose a volume in any case.
    """
    return tuple(_limits(view, pod, left_alone))


def unsupported(pod: Pod) -> tuple[str, ...]:
    """Return the fields that restrict the pod's nodes and are not evaluated here."""
    namespaces = ("namespaceSelector in spec.affinity",) if asks_for_namespace_labels(pod.constraints) else ()
    return (*not_understood(pod), *namespaces)


def _limits(view: View, pod: Pod, left_alone: tuple[Claim, ...]) -> Iterator[str]:
    yield from unsupported(pod)
    for claim in left_alone:
        if view.snapshot.classes[class_of(claim)].provisions:
            continue
        yield f"claim {claim.name} of class {class_of(claim)} in mode off"
    claims = (view.snapshot.claims.get(key) for key in pod.claim_keys)
    for claim in (claim for claim in claims if claim is not None and not claim.volume_name):
        if _is_made_in_places(view, claim):
            yield f"claim {claim.name} of class {class_of(claim)}, which provisions in some topologies only"


def _is_made_in_places(view: View, claim: Claim) -> bool:
    """Whether the claim may need a provisioned volume that cannot be created everywhere (checkVolumeProvisions)."""
    storage_class = view.snapshot.classes.get(class_of(claim))
    if storage_class is None or not storage_class.provisions:
        return False
    driver = view.snapshot.csi_drivers.get(storage_class.provisioner)
    return storage_class.allowed_topologies is not None or (driver is not None and driver.storage_capacity)
