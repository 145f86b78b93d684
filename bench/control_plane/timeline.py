"""When each claim got its volume and each pod its node, as seen by a watcher of the API server."""

from typing import Final

from bench.cluster_watch import ClusterWatch, SeenObject
from bench.control_plane.documents import NAMESPACE
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES

_KEY: Final = f"{NAMESPACE}/"


class Timeline(ClusterWatch):
    """Moments by the monotonic clock; keys are names of claims and pods in our namespace."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, {VOLUMES: self._volume, CLAIMS: self._claim, PODS: self._pod})
        self.created: dict[str, float] = {}
        """Pod -> when it was sent to the API server. The caller records it."""
        self.reserved: dict[str, float] = {}
        """Claim -> when a volume first named the claim: by our annotation, or by any claimRef."""
        self.bound: dict[str, float] = {}
        self.placed: dict[str, float] = {}

    def _volume(self, seen: SeenObject, now: float) -> None:
        reserved_for = seen.metadata.annotations.get(Annotations().reserved_for, "").removeprefix(_KEY)
        if claim := seen.spec.claim_ref.name or reserved_for:
            self.reserved.setdefault(claim, now)

    def _claim(self, seen: SeenObject, now: float) -> None:
        if seen.status.phase == "Bound":
            self.bound.setdefault(seen.metadata.name, now)

    def _pod(self, seen: SeenObject, now: float) -> None:
        if seen.spec.node:
            self.placed.setdefault(seen.metadata.name, now)
