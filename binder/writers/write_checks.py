"""What is checked right before a write: the volume in the version that is about to be written, never as it was planned.

`binder.writers.preconditions` checks the decision before, when its turn begins.
"""

from binder.assignment.volume_policy import reject_health
from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.model.decision import Placement
from binder.model.view import PlanSettings, View
from binder.model.waiting_pod import waiting_pod
from binder.planning.let_go import leaves_a_node
from binder.writers.attempt import LostPlacement, OutdatedDecision
from binder.writers.health_gate import HealthGate
from binder.writers.object_client import LiveVolume, ObjectClient
from kube.client.api import Check
from kube.clock import Now
from kube.objects.model import Pod, Volume


class WriteChecks:
    """Checks a volume, and the pod that it is for."""

    def __init__(self, client: ObjectClient, gate: HealthGate, clock: Now, settings: PlanSettings) -> None:
        self._client, self._gate, self._clock, self._settings = client, gate, clock, settings
        self._no_index = VolumeIndex()
        self._node_storage = NodeStorage()

    async def reread(self, placement: Placement, name: str) -> LiveVolume:
        """Read a volume of the placement that changed. Raises LostPlacement if it is gone."""
        live = await self._client.volume(name)
        if live is None:
            raise LostPlacement(placement, f"volume {name} was deleted")
        return live

    def usable(self, placement: Placement, volume: Volume, check: Check) -> Check:
        """Return what is to be checked right before this volume is written: `check`, and `require_healthy`."""

        def usable() -> None:
            check()
            self.require_healthy(placement, volume)

        return usable

    def require_healthy(self, placement: Placement, volume: Volume) -> None:
        """Evaluate the version of the volume that is about to be written, or a newer one that is known.

        Raises LostPlacement if the volume must not be used, OutdatedDecision if it has to be probed again.
        """
        snapshot = self._client.snapshot()
        known = snapshot.volumes.get(volume.name)
        if known is not None and known.uid == volume.uid and known.resource_version > volume.resource_version:
            volume = known
        view = View(
            snapshot,
            self._no_index,
            verdicts=self._gate.verdicts,
            settings=self._settings,
            node_storage=self._node_storage,
        )
        rejected = reject_health(view, volume, self._clock.now())
        if rejected is not None:
            raise LostPlacement(placement, f"volume {volume.name}: {rejected.offered}", rejected.reason)
        if volume.driver and (volume.driver, volume.handle) not in self._gate.verdicts:
            raise OutdatedDecision(f"new health information about volume {volume.name} arrived since the probe")

    def require_reach(self, pod: Pod, node: str = "") -> None:
        """Raise OutdatedDecision if the pod's volumes, as known now, leave it no node; `node` is the likeliest one.

        The affinity of a volume may change after it was committed (MutablePVNodeAffinity, KEP-5381).
        """
        snapshot = self._client.snapshot()
        seen = snapshot.pods.get(pod.key, pod)
        waiting = waiting_pod(snapshot, self._settings.annotations, seen)
        if waiting is not None and not leaves_a_node(waiting, snapshot.nodes, node):
            raise OutdatedDecision(f"no node that fits pod {pod.key} reaches all of its volumes any more")
