"""How many volumes may be held: shares of a class and of its zones, a number for each namespace, ResourceQuotas.

A share is one of the volumes that claims could have: held or free, and neither in quarantine nor kept from an earlier
replacement. Held ones are part of it, so that the limit does not move with each hold, nor with a restart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from binder.health.quarantine import in_quarantine
from binder.holds.ending import HoldWorld
from binder.matching.index import is_free
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from binder.reservation.pins import hold_keys, pins_of
from kube.objects.model import Claim, Volume
from kube.objects.stateful_set import ResourceQuota
from kube.rules.quantity import NANO
from kube.rules.topology import volume_zone


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """`max_share`: of a class's volumes that are held or free, and of those of the class in one zone. Of each at least
    one volume may be held. `max_per_namespace`: volumes.
    """

    max_share: float = 0.5
    max_per_namespace: int = 50


@dataclass(slots=True)
class HoldCounts:
    """What is held, counted on; `usable` are the volumes that are held or free. Keys: class, zone or ""."""

    limits: HoldLimits
    world: HoldWorld
    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    usable: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_namespace: Counter[str] = field(default_factory=Counter)
    coming: dict[str, Claim] = field(default_factory=dict)
    """Claims to come that have a held volume: a quota counts them when they are created."""

    def count_volume(self, volume: Volume, annotations: Annotations) -> None:
        """Count a volume of the cluster."""
        is_held = bool(hold_keys(volume, annotations))
        if not is_held and (not is_free(volume) or annotations.pin_keys(volume)):
            return
        if volume.phase != "Available" or in_quarantine(volume, annotations):
            return
        for key in _keys(volume):
            self.usable[key] += 1
            self.held[key] += is_held
        pins = pins_of(volume, annotations) if is_held else None
        if pins is not None and pins.claim:
            self.by_namespace[pins.claim.partition("/")[0]] += 1

    def hold(self, pairs: Iterable[tuple[Claim, Volume]]) -> None:
        """Count volumes as held that were counted as free."""
        for claim, volume in pairs:
            self.coming[claim.key] = claim
            self.by_namespace[claim.namespace] += 1
            for key in _keys(volume):
                self.held[key] += 1

    def against(self, pairs: Iterable[tuple[Claim, Volume]]) -> str:
        """Return which limit holding these volumes would exceed; empty if none."""
        pairs = list(pairs)
        more = Counter(key for _, volume in pairs for key in _keys(volume))
        for (name, zone), count in sorted(more.items()):
            usable, held = self.usable[name, zone], self.held[name, zone]
            most = max(1, int(self.limits.max_share * usable))
            if held + count > most:
                where = f" in zone {zone}" if zone else ""
                return f"at most {most} of {usable} volumes of class {name}{where} are held, {held} are"
        for namespace, count in Counter(claim.namespace for claim, _ in pairs).items():
            if self.by_namespace[namespace] + count > self.limits.max_per_namespace:
                return f"at most {self.limits.max_per_namespace} volumes are held for namespace {namespace}"
        return next(self._over_quota([claim for claim, _ in pairs]), "")

    def _over_quota(self, claims: list[Claim]) -> Iterator[str]:
        """Yield the quotas that the claims, with those that have a held volume already, will exceed:
        pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
        """
        coming = {claim.key: claim for claim in (*self.coming.values(), *claims)}
        for quota in self.world.quotas:
            used, wanted = dict(quota.used), _usage(coming.values(), quota)
            for resource, hard in quota.hard:
                if wanted[resource] and used.get(resource, 0) + wanted[resource] > hard:
                    yield f"ResourceQuota {quota.name} allows no more {resource}"


def _keys(volume: Volume) -> tuple[tuple[str, str], ...]:
    name, zone = class_of(volume), volume_zone(volume)
    return ((name, ""), (name, zone)) if zone else ((name, ""),)


def _usage(claims: Iterable[Claim], quota: ResourceQuota) -> Mapping[str, int]:
    usage: Counter[str] = Counter()
    for claim in claims:
        if claim.namespace != quota.namespace:
            continue
        of_class = f"{class_of(claim)}.storageclass.storage.k8s.io/"
        for prefix in ("", of_class) if class_of(claim) else ("",):
            usage[f"{prefix}persistentvolumeclaims"] += NANO
            usage[f"{prefix}requests.storage"] += claim.request
    return usage
