"""What keeps the volumes of a pod from being committed: what decides about its node and is not judged here.

A commitment is never taken back, so it needs every filter of kube-scheduler. Where one is not understood, or goes by
what only kube-scheduler will decide, the pod gets the hint of mode annotate and kube-scheduler chooses.
"""

from collections.abc import Iterator

from binder.matching.matching import class_of
from binder.model.view import View
from kube.objects.model import NO_PROVISIONER, Claim, Pod
from kube.pod_topology.pod_ties import asks_for_namespace_labels
from kube.rules.unsupported import not_understood


def hint_only(view: View, pod: Pod, left_alone: tuple[Claim, ...]) -> tuple[str, ...]:
    """Return everything for which the pod's volumes must not be committed, in words; nothing if they may be.

    `left_alone` are unbound claims of the pod for which others choose a volume whatever we do.
    """
    return tuple(_limits(view, pod, left_alone))


def _limits(view: View, pod: Pod, left_alone: tuple[Claim, ...]) -> Iterator[str]:
    yield from not_understood(pod)
    if asks_for_namespace_labels(pod.constraints):
        yield "namespaceSelector in spec.affinity"
    for claim in left_alone:
        if view.snapshot.classes[class_of(claim)].provisioner != NO_PROVISIONER:
            continue
        yield f"claim {claim.name} of class {class_of(claim)} in mode off"
    claims = (view.snapshot.claims.get(key) for key in pod.claim_keys)
    for claim in (found for found in claims if found is not None and not found.volume_name):
        if _is_made_in_places(view, claim):
            yield f"claim {claim.name} of class {class_of(claim)}, which provisions in some topologies only"


def _is_made_in_places(view: View, claim: Claim) -> bool:
    """Whether a volume may have to be provisioned for the claim that cannot be everywhere (checkVolumeProvisions)."""
    storage_class = view.snapshot.classes.get(class_of(claim))
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return False
    driver = view.snapshot.csi_drivers.get(storage_class.provisioner)
    return storage_class.allowed_topologies is not None or (driver is not None and driver.storage_capacity)
