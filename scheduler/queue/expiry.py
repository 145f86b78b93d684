"""When time alone may make a rejected pod schedulable: reservations expire without any write."""

from datetime import datetime
from itertools import islice
from typing import Final

from binder.model.view import View
from scheduler.volumes.volumes import PodInfo

RECHECK_SECONDS: Final = 30.0
"""Seconds after which a pod is retried when there are too many volumes to check the expiry of each."""

VOLUMES_EXAMINED: Final = 256


def expires_in(info: PodInfo, storage: View, now: datetime) -> float | None:
    """Return in how many seconds the first reservation that may block the pod expires; None if there is none.

    Those are reservations for other claims of volumes that fit a claim of the pod, and its own, which confine it.
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
    if candidates < VOLUMES_EXAMINED:
        return first
    return RECHECK_SECONDS if first is None else min(first, RECHECK_SECONDS)
