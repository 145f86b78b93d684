"""Which volumes are withheld from a pod only because their driver could not report: then that is why it gets none."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from binder.assignment.node_booking import NodeBooking
from binder.assignment.placing import Offers, Placing
from binder.assignment.topologies import Topologies
from binder.assignment.volume_policy import reject_health
from binder.booking.node_sets import NodeSets
from binder.matching.rejection import Reason, Rejection
from binder.model.demand import Demand
from binder.model.view import UnknownHealth, View
from binder.provisioning.pass_pools import PassPools
from csi.health.verdict import HealthState
from kube.objects.model import Volume


class WithheldVolumes:
    """Places the pods that a pass does not serve once more, as if volumes of unknown health could be used."""

    def __init__(self, view: View, now: datetime, topologies: Topologies, booking: NodeBooking, sets: NodeSets) -> None:
        self._view, self._now = view, now
        settings = replace(view.settings, unknown_health=UnknownHealth.ALLOW)
        offers, pools = Offers(replace(view, settings=settings), now, sets), PassPools(view.snapshot, view.pools, now)
        self._placing = Placing(topologies, offers, booking, pools)
        self._any = bool(view.silent) or HealthState.UNKNOWN in {verdict.state for verdict in view.verdicts.values()}
        self._known: dict[tuple[object, ...], tuple[Rejection, ...]] = {}

    def rejections(self, demand: Demand) -> tuple[Rejection, ...]:
        """Return why the volumes that would serve the pod are withheld; nothing if none would."""
        if not self._any:
            return ()
        if demand.kind not in self._known:
            placed = self._placing.best(demand)
            self._known[demand.kind] = self._withheld({} if placed is None else placed.volumes)
        return self._known[demand.kind]

    def _withheld(self, volumes: Mapping[str, Volume]) -> tuple[Rejection, ...]:
        rejected = [reject_health(self._view, volume, self._now) for volume in volumes.values()]
        return tuple(each for each in rejected if each is not None and each.reason is Reason.HEALTH_UNKNOWN)
