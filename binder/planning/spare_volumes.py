"""Which volumes a pod would get next if none of the chosen ones can be used: they are probed before that is known."""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain, islice
from typing import Final

from binder.assignment.volume_policy import reject_use
from binder.model.decision import Provision, Reserve
from binder.model.view import View
from kube.objects.model import Claim, Volume

_MAX_EVALUATED: Final = 500
"""Volumes evaluated for one claim."""


def spare_volumes(view: View, decision: Reserve | Provision, now: datetime, most: int) -> tuple[Volume, ...]:
    """Return at most so many volumes without a recent verdict for each of the claims, the likeliest first.

    As in a plan smaller ones come first, but those that the chosen node reaches before all others; whether they could
    be combined is not decided here.
    """
    chosen = {volume.name for volume in decision.volumes}
    spare: dict[str, Volume] = {}
    for placement in decision.placements:
        candidates = _candidates(view, placement.claim, decision.node)
        fitting = (
            volume
            for volume in candidates
            if volume.name not in chosen and _may_be_probed(view, volume, placement.claim, now)
        )
        spare |= {volume.name: volume for volume in islice(fitting, most)}
    return tuple(spare.values())


def _candidates(view: View, claim: Claim, node: str) -> Iterable[Volume]:
    known = view.snapshot.nodes.get(node)
    reached = view.index.candidates(claim, dict(known.labels)) if known is not None else ()
    first = islice(chain(reached, view.index.candidates(claim)), _MAX_EVALUATED)
    return {volume.name: volume for volume in first}.values()


def _may_be_probed(view: View, volume: Volume, claim: Claim, now: datetime) -> bool:
    verdict = view.verdicts.get((volume.driver, volume.handle))
    probed = verdict is not None and verdict.stands(now, view.settings.health_max_age)
    return bool(volume.driver) and not probed and reject_use(view, volume, now, claim) is None
