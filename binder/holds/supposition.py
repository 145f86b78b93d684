"""The cluster as it would be with the replicas to come: where the rules of mode prebind find volumes for one more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from msgspec import structs

from binder.holds.wanted import ComingReplica
from binder.holds.zones import Zones
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
        self._exact = _exact_modes(view.snapshot, claims)
        classes = _as_if_delayed(view.snapshot, self._exact)
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
            return decision if self._are_exact(decision.placements) else "no volume has exactly its access modes"
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
                if volume.name in seen or not self._is_exact(claim, volume):
                    continue
                if self.zones.reaches(volume, zone) and not self.zones.may_vanish(volume):
                    seen[volume.name] = volume
        return seen.values()

    def _are_exact(self, placements: Iterable[Placement]) -> bool:
        """Whether volumes for Immediate claims have exactly their access modes: the PV controller prefers such ones,
        so that the claim would get another volume than the held one (findByClaim in persistentvolume/index.go).
        """
        return all(self._is_exact(each.claim, each.volume) for each in placements)

    def _is_exact(self, claim: Claim, volume: Volume) -> bool:
        return class_of(claim) not in self._exact or set(claim.access_modes) == set(volume.access_modes)


def _objects(replicas: Iterable[ComingReplica]) -> tuple[list[Claim], list[Pod]]:
    replicas = list(replicas)
    return [claim for replica in replicas for claim in replica.missing], [replica.pod for replica in replicas]


def _exact_modes(snapshot: Snapshot, claims: Iterable[Claim]) -> frozenset[str]:
    """Return the Immediate classes of these claims."""
    classes = (snapshot.classes.get(class_of(claim)) for claim in claims)
    return frozenset(each.name for each in classes if each is not None and each.binding_mode == IMMEDIATE)


def _as_if_delayed(snapshot: Snapshot, names: Iterable[str]) -> Map[str, StorageClass]:
    """Return the classes, these as if they waited for a pod: only of such ones volumes are planned."""
    mutation = snapshot.classes.mutate()
    for name in names:
        mutation[name] = structs.replace(snapshot.classes[name], binding_mode=WAIT_FOR_FIRST_CONSUMER)
    return mutation.finish()
