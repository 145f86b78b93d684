"""How many orders are written at once."""

import asyncio

from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from binder.writers.object_client import ObjectClient
from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from scheduler.binding.volume_orders import AT_ONCE, VolumeOrders
from tests.fakes.kube_api import Connection, FakeKubeApi
from tests.scheduler.storage import Cluster


class Slow(Connection):
    """Answers only after a while; `most` is how many requests were under way at once."""

    def __init__(self, server: FakeKubeApi) -> None:
        super().__init__(server)
        self.under_way = self.most = 0

    async def send(self, request: Request) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(10):
            await asyncio.sleep(0)
        self.under_way -= 1
        return await super().send(request)


async def test_many_pods_with_volumes_leave_room_for_other_requests() -> None:
    cluster, crowd = Cluster(), AT_ONCE + 20
    for number in range(crowd):
        cluster.pair(f"data-{number}", f"pv-{number}")
    instance, slow = cluster.instance(), Slow(cluster.server)
    client = ObjectClient(KubeApi(slow), instance.store, Annotations())
    orders = VolumeOrders(client, instance.store, cluster.clock, PlanSettings())
    placements = [
        instance.placement({f"data-{number}": f"pv-{number}"}, pod=f"web-{number}") for number in range(crowd)
    ]
    rejected = await asyncio.gather(*(orders.write(placement) for placement in placements))
    assert rejected == [None] * crowd
    assert len(cluster.writes()) == crowd
    assert slow.most == AT_ONCE
