"""Binds a pod's claims before the pod is assigned: writes what kube-scheduler writes, and waits for the other
controllers.

An existing volume gets the claimRef, a claim that needs a new one gets the selected node; the PV controller and the
provisioner do the rest (BindPodVolumes in pkg/scheduler/framework/plugins/volumebinding/binder.go). Every write is
decided on the latest known state and conditional on it. Unlike kube-scheduler, a failed attempt rolls back what it
wrote, as far as it has had no effect: a bind that the PV controller has continued is never undone.
"""

from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason, Rejection
from binder.model.view import PlanSettings
from binder.writers.object_client import ObjectClient
from kube.clock import Clock, within
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.binding.store_waits import StoreWaits
from scheduler.binding.volume_commitment import progress
from scheduler.binding.volume_orders import VolumeOrders, orders_of
from scheduler.framework.plugin import ScheduleResult


class BindVolumes:
    """The PreBind plugin. `pods` are those that wait to be scheduled: if a pod is removed from them, its attempt ends.

    `limit` is how long the claims may take to be bound (bindTimeoutSeconds of kube-scheduler's VolumeBinding).
    """

    name: Final = "BindVolumes"

    def __init__(
        self,
        client: ObjectClient,
        store: Store,
        pods: Collection[Pod],
        clock: Clock,
        settings: PlanSettings,
        limit: timedelta,
    ) -> None:
        self._orders = VolumeOrders(client, store, clock, settings)
        self._waits = StoreWaits(store, pods)
        self._store = store
        self._pods = pods
        self._clock = clock
        self._limit = limit.total_seconds()

    def has_work(self, placement: ScheduleResult) -> bool:
        """Whether a claim of the pod has to be bound."""
        return bool(orders_of(placement))

    async def pre_bind(self, placement: ScheduleResult) -> Rejection | None:
        """Return None once all claims of the pod are bound, else why they will not be.

        Then, and after a KubeError or a cancellation, `roll_back` must be called. Not after LeadershipLost: what was
        written stays, for the PV controller and for the next leader.
        """
        if not self.has_work(placement):
            return None
        rejected = await self._orders.write(placement) or await self._all_bound(placement)
        if rejected is None:
            await self._orders.leave(placement)
        return rejected

    async def roll_back(self, placement: ScheduleResult) -> None:
        """Roll back the writes of `pre_bind` that have had no effect. After a successful `pre_bind` there are none."""
        await self._orders.leave(placement)

    async def _all_bound(self, placement: ScheduleResult) -> Rejection | None:
        try:
            return await within(self._clock, self._limit, self._wait(placement))
        except TimeoutError:
            wanted = f"all claims bound within {self._limit:.0f} s"
            return Rejection(Reason.BIND_TIMEOUT, placement.pod.key, wanted, f"unbound: {self._unbound(placement)}")

    async def _wait(self, placement: ScheduleResult) -> Rejection | None:
        with self._waits.changes(placement) as changed:
            while True:
                changed.clear()
                outcome = progress(placement, self._pods.items.get(placement.pod.key), self._store.snapshot())
                if outcome is not False:
                    return outcome if isinstance(outcome, Rejection) else None
                await changed.wait()

    def _unbound(self, placement: ScheduleResult) -> str:
        claims = self._store.snapshot().claims
        keys = [order.claim.key for order in orders_of(placement)]
        return ", ".join(key for key in keys if key not in claims or not claims[key].volume_name)
