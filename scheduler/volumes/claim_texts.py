"""Why a pod fits no node at all, in kube-scheduler's words.

Source: podHasPVCs and PreFilter of plugins/volumebinding, and PreFilter of plugins/volumezone.
"""

from collections.abc import Mapping

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Claim, Pod, PodClaim


def whole_text(rejection: Rejection) -> str:
    """Return the text of a reason against a pod as a whole."""
    name = rejection.subject.rpartition("/")[2]
    texts: Mapping[Reason, str] = {
        Reason.CLAIM_NOT_FOUND: f'persistentvolumeclaim "{name}" not found',
        Reason.CLAIM_DELETING: f'persistentvolumeclaim "{name}" is being deleted',
        Reason.IMMEDIATE_CLAIM: "pod has unbound immediate PersistentVolumeClaims",
    }
    detail = f"{rejection.subject}: expected {rejection.wanted}, found {rejection.offered}"
    return texts.get(rejection.reason, detail)


def claim_text(rejection: Rejection, pod: Pod, claims: Mapping[str, Claim]) -> str:
    """Return the same where it depends on the pod and its claims too."""
    key = rejection.subject
    name = key.rpartition("/")[2]
    if rejection.reason is Reason.CLAIM_NOT_FOUND and PodClaim(name, ephemeral=True) in pod.claims:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if rejection.reason is Reason.CLAIM_NOT_OWNED:
        return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
    claim = claims.get(key)
    if rejection.reason is Reason.VOLUME_MISSING and claim is not None:
        return f'persistentvolume "{claim.volume_name}" not found'
    if rejection.reason is Reason.CLAIM_LOST and claim is not None:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    return whole_text(rejection)
