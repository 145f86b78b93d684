"""Every annotation of ours is forged, wherever others can write it."""

import dataclasses
from functools import cached_property

from binder.reservation.contract import Annotations
from soak.forgeries import FORGERIES, forged

_KINDS = {kind for kinds in FORGERIES.values() for kind in kinds}


def test_every_key_of_ours_is_forged() -> None:
    ours = Annotations()
    names = [name for name, each in vars(Annotations).items() if isinstance(each, cached_property)]
    keys = {key for name in names if isinstance(key := getattr(ours, name), str)} - {ours.sweeps}
    assert keys <= {key for kind in _KINDS for key in forged(kind, "v", 1, "uid")}


def test_a_forged_reservation_is_complete() -> None:
    ours = Annotations()
    on_claim = ours.parse_claim(tuple(forged("reservation", "local-1", 3).items()))
    assert on_claim.reservation is not None
    assert on_claim.reservation.volume == "local-1"
    on_volume = ours.parse_volume(tuple(forged("volumes-side", "local-1", 3, "uid").items()))
    assert on_volume.reservation is not None
    assert dataclasses.astuple(on_volume.reservation)[:2] == ("soak/pod-3-0", "uid")
