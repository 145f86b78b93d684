"""The cluster as it would be with the replicas to come: where the rules of mode prebind find volumes for one more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from msgspec import structs

from binder.holds.wanted import ComingReplica
from binder.holds.zones import Zones
from binder.matching.controller_match import is_certain_by_name
from binder.matching.index import VolumeIndex
from binder.matching.matching import IMMEDIATE, class_of
from binder.matching.rejection import Reason
from binder.model.decision import Mode, Placement, Reject, Reserve, Wait
from binder.model.view import View
from binder.model.waiting_pod import all_waiting, refreshed
from binder.planning.plan import Caches, plan
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Claim, ClaimReference, Pod, StorageClass, Volume
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot
from kube.store.store import supposing


class Supposition:
    """Replicas in `begun` have volumes already: they exist here, and take room like pods that wait for a node."""

    def __init__(
        self, view: View, begun: Sequence[ComingReplica], coming: Sequence[ComingReplica], now: datetime
    ) -> None:
        self._now, self._caches = now, Caches()
        claims = [claim for replica in coming for claim in replica.claims]
        self._classes = view.snapshot.classes
        classes = _as_if_delayed(view.snapshot, claims)
        snapshot = supposing(replace(view.snapshot, classes=classes), *_objects(begun))
        waiting = all_waiting(snapshot, view.settings.annotations)
        self._view = replace(view, snapshot=snapshot, waiting=waiting, new_nodes=None)
        self._indexes: dict[str, VolumeIndex] = {}
        self._claims = claims
        self.zones = Zones(view.snapshot.nodes)

    @property
    def snapshot(self) -> Snapshot:
        """The supposed cluster."""
        return self._view.snapshot

    def without_node(self, replica: ComingReplica) -> str:
        """Return why no node fits a replica with the volumes that it has; empty if one does."""
        (decision,) = plan(self._view, [replica.pod], self._now, self._caches)
        if not isinstance(decision, Reject) or decision.reason is not Reason.NO_NODE_FITS:
            return ""
        return "; ".join(map(str, decision.rejections))

    def volumes_for(self, replica: ComingReplica, zone: str) -> Reserve | str:
        """Return the volumes for a replica in a zone, or why there are none."""
        view = self._view_in(zone, replica)
        (decision,) = plan(view, [replica.pod], self._now, self._caches)
        if isinstance(decision, Reserve):
            if decision.mode is Mode.ANNOTATE:
                return f"its pod's {', '.join(decision.limits)} cannot be evaluated before it exists"
            certain = all(is_certain_by_name(each.claim, each.volume, self._classes) for each in decision.placements)
            return decision if certain else "no volume has exactly its access modes"
        if isinstance(decision, Reject):
            return "; ".join(map(str, decision.rejections[:2])) or str(decision.reason)
        return str(decision.reason) if isinstance(decision, Wait) else "its claims need no volume that exists"

    def hold(self, replica: ComingReplica, placements: Iterable[Placement]) -> None:
        """From now on the replica has these volumes, and nothing else gets them."""
        volumes = []
        for each in placements:
            reference = ClaimReference(each.claim.namespace, each.claim.name)
            volumes.append(structs.replace(each.volume, claim=reference))
            self._indexes = {zone: index.with_volume(each.volume, None) for zone, index in self._indexes.items()}
        self._view = self._with([replica], volumes)

    def _with(self, replicas: Sequence[ComingReplica], volumes: Iterable[Volume] = ()) -> View:
        claims, pods = _objects(replicas)
        snapshot = supposing(self._view.snapshot, claims, pods, volumes)
        keys = [pod.key for pod in pods]
        known = self._view.waiting or all_waiting(self._view.snapshot, self._view.settings.annotations)
        waiting = refreshed(known, keys, snapshot, self._view.settings.annotations)
        return replace(self._view, snapshot=snapshot, waiting=waiting)

    def _view_in(self, zone: str, replica: ComingReplica) -> View:
        if zone not in self._indexes:
            self._indexes[zone] = VolumeIndex.of(self._usable_in(zone))
        return replace(self._with([replica]), index=self._indexes[zone])

    def _usable_in(self, zone: str) -> Iterable[Volume]:
        """Yield the free volumes that some claim to come could have in the zone, each once."""
        seen: dict[str, Volume] = {}
        for claim in self._claims:
            for volume in self._view.index.candidates(claim):
                if volume.name in seen or not is_certain_by_name(claim, volume, self._classes):
                    continue
                if self.zones.reaches(volume, zone) and not self.zones.may_vanish(volume):
                    seen[volume.name] = volume
        return seen.values()


def _objects(replicas: Iterable[ComingReplica]) -> tuple[list[Claim], list[Pod]]:
    replicas = list(replicas)
    return [claim for replica in replicas for claim in replica.missing], [replica.pod for replica in replicas]


def _as_if_delayed(snapshot: Snapshot, claims: Iterable[Claim]) -> Map[str, StorageClass]:
    """Return the classes, those of these claims as if they waited for a pod: only of such ones volumes are planned."""
    mutation = snapshot.classes.mutate()
    for storage_class in map(snapshot.classes.get, map(class_of, claims)):
        if storage_class is not None and storage_class.binding_mode == IMMEDIATE:
            delayed = structs.replace(storage_class, binding_mode=WAIT_FOR_FIRST_CONSUMER)
            mutation[storage_class.name] = delayed
    return mutation.finish()
