"""What the API shows of one pod, its claims, and what recreates both, as one frozen value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from binder.health.published_sweeps import PublishedSweep
from binder.replacement.turn import Swap, Turn, parse_turn
from binder.reservation.contract import Annotations
from binder.reservation.pins import KeptVolume, Replacement, pins_of
from kube.objects.model import Claim, Pod, Volume, value_of
from kube.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Replicas:
    """A StatefulSet. `ordered`: it creates a pod only when those of lower ordinals are ready (OrderedReady).

    `first` is the lowest ordinal; `templates` are the claims that it creates, each named after its template. `turn` is
    the replacement that its annotation records.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    first: int = 0
    count: int = 1
    ordered: bool = True
    templates: tuple[Claim, ...] = ()
    turn: Turn | None = None

    def pod_name(self, ordinal: int) -> str:
        """Return the name of the pod with this ordinal."""
        return f"{self.name}-{ordinal}"

    def claim_key(self, template: Claim, ordinal: int) -> str:
        """Return the key of the claim that the set creates from a template (getPersistentVolumeClaimName)."""
        return f"{self.namespace}/{template.name}-{self.name}-{ordinal}"

    def ordinal_of(self, pod_name: str) -> int:
        """Return the pod's ordinal, -1 if the set has no pod of this name."""
        name, _, ordinal = pod_name.rpartition("-")
        valid = name == self.name and ordinal.isdecimal() and len(ordinal) < 10 and str(int(ordinal)) == ordinal
        return int(ordinal) if valid else -1


@dataclass(frozen=True)
class Situation:
    """The pod named `pod_name`, or its absence, and everything that decides about its volumes.

    `template` is the pod, and `next_claims` are its claims, as they are created next. `replicas` is the StatefulSet
    that it belongs to; `owner` is what creates it again otherwise, as `Kind/name`, empty if nothing does. `ready_pods`
    are keys, `ready_nodes` names, by their condition Ready. `max_lost_share`: if a driver says of a larger share of its
    volumes that they are lost, it is not believed.
    """

    snapshot: Snapshot
    now: datetime
    namespace: str
    namespace_uid: str
    pod_name: str
    template: Pod
    next_claims: tuple[Claim, ...] = ()
    replicas: Replicas | None = None
    owner: str = ""
    ready_pods: frozenset[str] = frozenset()
    ready_nodes: frozenset[str] = frozenset()
    sweeps: Sequence[PublishedSweep] = ()
    annotations: Annotations = field(default_factory=Annotations)
    max_lost_share: float = 0.3

    @property
    def pod_key(self) -> str:
        return f"{self.namespace}/{self.pod_name}"

    @property
    def pod(self) -> Pod | None:
        """The pod, if one of this name exists."""
        return self.snapshot.pods.get(self.pod_key)

    @property
    def is_ready(self) -> bool:
        """Whether the pod exists and works."""
        return self.pod is not None and self.pod_key in self.ready_pods

    @property
    def ordinal(self) -> int:
        """The pod's ordinal in its StatefulSet, -1 without one."""
        return -1 if self.replicas is None else self.replicas.ordinal_of(self.pod_name)

    @cached_property
    def claim_keys(self) -> tuple[str, ...]:
        """The claims that the pod uses, generic ephemeral ones aside: these belong to the pod."""
        pod = self.template
        return tuple(dict.fromkeys(f"{self.namespace}/{used.name}" for used in pod.claims if not used.ephemeral))

    @property
    def first_claim(self) -> Claim | None:
        """The first of the pod's claims that exists: of a pod without StatefulSet it carries the turn."""
        claims = (self.snapshot.claims.get(key) for key in sorted(self.claim_keys))
        return next((claim for claim in claims if claim is not None), None)

    @property
    def recorded_turn(self) -> Turn | None:
        """The replacement that is recorded, of this pod or of another replica."""
        if self.replicas is not None:
            return self.replicas.turn
        claim = self.first_claim
        return None if claim is None else parse_turn(value_of(claim.annotations, self.annotations.replaces))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the pod that exist, in its order."""
        claims = (self.snapshot.claims.get(key) for key in self.claim_keys)
        return tuple(claim for claim in claims if claim is not None)

    def claim(self, name: str) -> Claim | None:
        """Return a claim of the pod's namespace."""
        return self.snapshot.claims.get(f"{self.namespace}/{name}")

    def volume_of(self, claim: Claim) -> Volume | None:
        """Return the volume that the claim is bound to, if that exists."""
        return self.snapshot.volumes.get(claim.volume_name)

    def replacement_on(self, volume: Volume | None) -> Replacement | None:
        """Return what the volume replaces; nothing that a tenant before this one left."""
        pins = None if volume is None else pins_of(volume, self.annotations)
        mark = None if pins is None else pins.replacement
        return mark if mark is not None and mark.namespace_uid == self.namespace_uid else None

    def kept_on(self, volume: Volume | None) -> KeptVolume | None:
        """Return whose data the volume keeps since it was replaced; nothing that a tenant before this one left."""
        pins = None if volume is None else pins_of(volume, self.annotations)
        mark = None if pins is None else pins.kept
        return mark if mark is not None and mark.namespace_uid == self.namespace_uid else None

    def naming(self, claim_key: str) -> Iterator[Volume]:
        """Yield the volumes whose claimRef names the claim by its name alone."""
        for name in sorted(self.snapshot.volumes_by_claim.get(claim_key, ())):
            volume = self.snapshot.volumes[name]
            if volume.claim is not None and not volume.claim.uid:
                yield volume

    def begun(self) -> tuple[Swap, ...]:
        """Return the replacements of this pod's volumes that the new volumes themselves record."""
        return tuple(
            Swap(key.partition("/")[2], mark.claim_uid, mark.volume, name)
            for key in self.claim_keys
            for name in sorted(self.snapshot.volumes_by_claim.get(key, ()))
            if (mark := self.replacement_on(self.snapshot.volumes[name])) is not None and mark.claim == key
        )
