"""The writes by which a pod's claims get their volumes, and their rollback. Each of them is conditional.

Several pods in flight may need one claim. What was written for it is rolled back when the last of them is done, and
only as far as it has had no effect.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason, Rejection
from binder.model.view import PlanSettings, View
from binder.reservation.release import may_clear
from binder.reservation.writes import give_back_volume, select_node, take_volume
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, TRIES, ObjectClient
from kube.clock import Now
from kube.errors import KubeError, Unavailable
from kube.objects.model import Claim, Volume
from kube.store.store import Store
from scheduler.binding.volume_commitment import is_written, may_deselect, reject_selecting, reject_taking
from scheduler.framework.plugin import ScheduleResult

AT_ONCE: Final = 50
"""Orders written concurrently. More would be no faster, and assignments and the Lease would wait behind them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """What a claim is to get: a volume, or None for one that is provisioned for the node."""

    claim: Claim
    volume: Volume | None
    node: str


class VolumeOrders:
    """Writes orders for pods and remembers which of them are its own."""

    def __init__(self, client: ObjectClient, store: Store, clock: Now, settings: PlanSettings) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._settings = settings
        self._node_storage = NodeStorage()
        self._locks = KeyedLocks()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._pods: dict[str, set[str]] = {}
        self._written: dict[str, Order] = {}

    async def write(self, placement: ScheduleResult) -> Rejection | None:
        """Write all orders of the pod, existing volumes first; return why one of them is not possible, or None.

        After that, whatever the result, `leave` must be called. Raises KubeError if the API server fails.
        """
        orders = orders_of(placement)
        for order in orders:
            self._pods.setdefault(order.claim.key, set()).add(placement.pod.uid)
        async with self._locks.held(order.claim.key for order in orders):
            # All are checked before the first write: what is known to fail needs no rollback.
            rejected = next((rejection for order in orders if (rejection := self._rejection(order)) is not None), None)
            for order in orders if rejected is None else ():
                async with self._room:
                    rejected = await self._write(order)
                if rejected is not None:
                    return rejected
        return rejected

    async def leave(self, placement: ScheduleResult) -> None:
        """The pod does not need its orders any more, or has got its volumes: roll back those that have had no effect.

        What the API server prevents now stays as kube-scheduler would leave it: the claim keeps its volume or node.
        """
        for order in reversed(orders_of(placement)):
            key = order.claim.key
            async with self._locks.held([key]):
                users = self._pods.get(key, set())
                users.discard(placement.pod.uid)
                if users:
                    continue
                self._pods.pop(key, None)
                written = self._written.pop(key, None)
                if written is not None and not self._served(written):
                    await self._take_back_if_possible(written)

    def _rejection(self, order: Order) -> Rejection | None:
        view = View(self._store.snapshot(), VolumeIndex(), settings=self._settings, node_storage=self._node_storage)
        if is_written(order.claim, order.volume, order.node, view.snapshot):
            return None
        if order.volume is None:
            return reject_selecting(order.claim, order.node, view.snapshot)
        return reject_taking(order.claim, order.volume, order.node, view, self._clock.now())

    async def _write(self, order: Order) -> Rejection | None:
        in_doubt = False
        for _ in range(TRIES):
            rejected, snapshot = self._rejection(order), self._store.snapshot()
            if rejected is not None or is_written(order.claim, order.volume, order.node, snapshot):
                return rejected
            claim = snapshot.claims[order.claim.key]
            volume = None if order.volume is None else snapshot.volumes[order.volume.name]
            self._written[claim.key] = Order(claim, volume, order.node)
            try:
                if volume is None:
                    await self._client.patch_claim(claim, select_node(order.node))
                else:
                    await self._client.patch_volume(volume, take_volume(volume, claim))
            except FASTER:
                if not in_doubt:
                    del self._written[claim.key]
            except Unavailable:
                # It may have been executed, or may be yet. The present state shows it, or the next write does.
                in_doubt = True
            else:
                return None
            gone = await self._look_again(order)
            if gone is not None:
                return gone
        what = order.claim.key if order.volume is None else f"volume {order.volume.name}"
        return Rejection(Reason.KEPT_CHANGING, order.claim.key, f"{what} not being changed", "kept changing")

    async def _look_again(self, order: Order) -> Rejection | None:
        """Update claim and volume. The store learns of deletions from the watch only."""
        claim = await self._client.claim(order.claim.key)
        if claim is None:
            return Rejection(Reason.CLAIM_NOT_FOUND, order.claim.key, "the claim that was scheduled", "deleted")
        if order.volume is not None and await self._client.volume(order.volume.name) is None:
            wanted = f"volume {order.volume.name}"
            return Rejection(Reason.VOLUME_MISSING, order.claim.key, wanted, "deleted")
        return None

    def _served(self, order: Order) -> bool:
        """Whether the claim has the volume that was ordered for it."""
        claim = self._store.snapshot().claims.get(order.claim.key)
        if claim is None or claim.uid != order.claim.uid or not claim.volume_name:
            return False
        return order.volume is None or claim.volume_name == order.volume.name

    async def _take_back_if_possible(self, order: Order) -> None:
        name = "" if order.volume is None else order.volume.name
        fields = {"pv": name, "pvc": order.claim.key, "node": order.node}
        try:
            done = await (self._deselect(order) if order.volume is None else self._give_back(order.claim, order.volume))
        except KubeError as error:
            logger.warning("Could not revert the volume chosen for a claim", extra={**fields, "error": str(error)})
            return
        if done:
            logger.info("Reverted the volume chosen for a claim", extra=fields)
        else:
            logger.info("Kept the volume chosen for a claim", extra=fields)

    async def _give_back(self, claim: Claim, before: Volume) -> bool:
        """Remove the claimRef that we wrote, unless it has had an effect or another writer has replaced it."""
        for _ in range(TRIES):
            live = await self._client.volume(before.name)
            if live is None or not live.record.claim or live.record.claim.uid != claim.uid:
                return False
            if not may_clear(live.record, await self._client.claim(claim.key)):
                return False
            try:
                await self._client.patch_volume(live.record, give_back_volume(before))
            except FASTER:
                continue
            return True
        return False

    async def _deselect(self, order: Order) -> bool:
        """Remove the selected node, unless a provisioner has been triggered already."""
        for _ in range(TRIES):
            claim = await self._client.claim(order.claim.key)
            if claim is None or not may_deselect(claim, order.claim.uid, order.node):
                return False
            try:
                await self._client.patch_claim(claim, select_node(None))
            except FASTER:
                continue
            return True
        return False


def orders_of(placement: ScheduleResult) -> Sequence[Order]:
    """Return what the pod's claims are to get, in the order of writing."""
    choice, node = placement.volumes, placement.node
    taken = [Order(claim, volume, node) for claim, volume in choice.volumes]
    return [*taken, *(Order(claim, None, node) for claim in choice.provision)]
