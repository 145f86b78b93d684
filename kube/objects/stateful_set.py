"""StatefulSets and what limits their claims: the kinds that are read to hold volumes for replicas to come."""

from typing import Final

from msgspec.structs import replace

from kube.objects.labels import Pairs
from kube.objects.model import Claim, Namespaced, Pod, PodClaim

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


class StatefulSet(Namespaced, frozen=True, gc=False):
    """A StatefulSet.

    `start` is `spec.ordinals.start`. `ordered`: a pod is created only when those of lower ordinals are ready.
    `templates` are its volumeClaimTemplates, each as a claim with the template's name, in the set's namespace. `pod`
    is its pod template as a pod with the set's name; None if it cannot be read.
    """

    replicas: int = 1
    start: int = 0
    ordered: bool = True
    templates: tuple[Claim, ...] = ()
    pod: Pod | None = None
    deleting: bool = False
    annotations: Pairs = ()

    def claim_name(self, template: str, ordinal: int) -> str:
        """Return the name of a replica's claim (getPersistentVolumeClaimName in stateful_set_utils.go)."""
        return f"{template}-{self.name}-{ordinal}"

    def claims_of(self, ordinal: int) -> tuple[Claim, ...]:
        """Return the claims that the set creates for a replica, as they will be: without a uid."""
        return tuple(replace(each, name=self.claim_name(each.name, ordinal), uid="") for each in self.templates)

    def pod_of(self, ordinal: int) -> Pod | None:
        """Return the pod that the set creates for a replica, as it will be; None if the template cannot be read.

        Its generic ephemeral volumes are left out: their claims come and go with the pod.
        """
        if self.pod is None:
            return None
        name = f"{self.name}-{ordinal}"
        claims = (*(PodClaim(claim.name) for claim in self.claims_of(ordinal)), *_named(self.pod))
        labels = dict(self.pod.labels) | {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}
        return replace(self.pod, name=name, uid="", claims=claims, labels=tuple(sorted(labels.items())))


class ResourceQuota(Namespaced, frozen=True, gc=False):
    """A ResourceQuota: what it limits and what is used, in nano-units by resource name."""

    hard: tuple[tuple[str, int], ...] = ()
    used: tuple[tuple[str, int], ...] = ()


def _named(pod: Pod) -> tuple[PodClaim, ...]:
    return tuple(claim for claim in pod.claims if not claim.ephemeral)
