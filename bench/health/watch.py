"""The health annotations of volumes, as seen by a watcher of the API server."""

from typing import NamedTuple

from bench.cluster_watch import ClusterWatch, SeenObject
from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState
from kube.client.api import KubeApi
from kube.objects.api_resource import VOLUMES


class Seen(NamedTuple):
    """A version of a volume, and when it was seen by the monotonic clock. Volumes without annotations are healthy."""

    at: float
    name: str
    unhealthy: bool
    quarantined: bool


class HealthWatch(ClusterWatch):
    """`versions` are all that were seen since the beginning; `now` is the last one of each volume that changed."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, {VOLUMES: self._volume})
        self.versions: list[Seen] = []
        self.now: dict[str, Seen] = {}

    def unhealthy(self) -> int:
        return sum(seen.unhealthy for seen in self.now.values())

    def quarantined(self) -> int:
        return sum(seen.quarantined for seen in self.now.values())

    def _volume(self, seen: SeenObject, now: float) -> None:
        metadata = seen.metadata
        health = metadata.annotations.get(Annotations().health, HealthState.HEALTHY)
        inside = Annotations().quarantine in metadata.annotations
        version = Seen(now, metadata.name, health != HealthState.HEALTHY, inside)
        self.versions.append(version)
        self.now[version.name] = version
