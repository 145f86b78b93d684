"""Binds that somebody began and nobody finished: the volume names the claim, and the claim does not say so yet.

kube-scheduler begins one when it is faster than we are, and so does a process of ours that dies in the middle. The PV
controller finishes them one after the other at its own rate; in mode complete we do, with the same writes. No volume
is chosen here: what is asked is what the PV controller asks of a volume that names an unbound claim (syncUnboundClaim
in pv_controller.go), and what we ask of any volume before a write of ours gives it to a pod.
"""

from collections.abc import Sequence
from datetime import datetime

from binder.decision import Finish, Placement, Refuse
from binder.matching import controller_refusal
from binder.rejection import Rejection
from binder.release import UNUSED_PHASES
from binder.reservation import reservation_of
from binder.usable import refuse_health
from binder.view import View
from kube.model import Pod


def finish_of(view: View, pod: Pod, begun: Sequence[Placement], now: datetime) -> Finish | Refuse | None:
    """Return the binds to finish; a refusal if all that are left are of volumes that must not be used; else None."""
    refused: list[Rejection] = []
    sound: list[Placement] = []
    for placement in begun:
        if not _may_finish(view, placement, now):
            continue
        sick = refuse_health(view, placement.volume, now)
        if sick is None:
            sound.append(placement)
        else:
            refused.append(sick)
    if sound:
        return Finish(pod, tuple(sound))
    return Refuse(pod, refused[0].reason, tuple(refused)) if refused else None


def _may_finish(view: View, placement: Placement, now: datetime) -> bool:
    claim, volume = placement.claim, placement.volume
    if volume.phase not in UNUSED_PHASES | {"Bound"} or controller_refusal(claim, volume, delayed=True) is not None:
        return False
    if volume.reclaim_policy != "Retain" and not view.settings.allow_delete_policy:
        return False
    reservation = reservation_of(volume, view.settings.prefix)
    # A reservation for another claim of that name, or one whose time is over, is being taken back.
    return reservation is None or (reservation.is_for(claim) and not reservation.expired(now))
