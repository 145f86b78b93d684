"""When a rejected pod is retried although no change was reported that helps it.

Reservations expire without any write. What is in flight in the driver's storage ends in many ways: the claim is
deleted, its volume is, the selected node is removed, a later report includes the volume, or it counts no longer.
"""

from datetime import datetime
from itertools import islice
from typing import Final

from binder.matching.matching import class_of
from binder.model.view import View
from scheduler.volumes.volumes import PodInfo

RECHECK_SECONDS: Final = 30.0
"""Seconds after which a pod is retried that waits for too much to check the end of each."""

VOLUMES_EXAMINED: Final = 256


def expires_in(info: PodInfo, storage: View, now: datetime) -> float | None:
    """Return in how many seconds the first reservation that may block the pod expires; None if there is none.

    Those are reservations for other claims of volumes that fit a claim of the pod, and its own, which confine it. If
    volumes are in flight where the pod's are to be provisioned, it is at most RECHECK_SECONDS.
    """
    ends = [reservation.expires_at for reservation in info.reserved.values()]
    candidates = 0
    for claim in info.claims.delayed:
        for volume in islice(storage.index.candidates(claim), VOLUMES_EXAMINED):
            candidates += 1
            reservation = storage.settings.annotations.reservation_of(volume)
            if reservation is not None and reservation.excludes(now, claim):
                ends.append(reservation.expires_at)
    first = (min(ends) - now).total_seconds() if ends else None
    if candidates < VOLUMES_EXAMINED and not _in_flight(info, storage):
        return first
    return RECHECK_SECONDS if first is None else min(first, RECHECK_SECONDS)


def sharing(info: PodInfo, storage: View) -> frozenset[str]:
    """Return the classes whose volumes are provisioned from the same storage as the pod's, its own included."""
    families = storage.pools.families
    mine = _families(info, storage)
    return frozenset(name for name, family in families.items() if family in mine) if mine else frozenset()


def _in_flight(info: PodInfo, storage: View) -> bool:
    """Whether volumes are being made, or not reported yet, in storage that the pod's would come from."""
    mine = _families(info, storage)
    return bool(mine) and any(pool.family in mine for homes in storage.pools.homes.values() for pool in homes)


def _families(info: PodInfo, storage: View) -> frozenset[str]:
    families = storage.pools.families
    return frozenset(families[name] for name in map(class_of, info.claims.delayed) if name in families)
