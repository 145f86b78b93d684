"""Which requests may wait behind others on the way to the API server."""

import asyncio
from random import Random

from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import VOLUMES
from prebinder.config.settings import ClusterSettings, LeaderElectionSettings
from prebinder.runtime.clients import Clients
from prebinder.runtime.leader_loop import Candidate
from tests.fake_clock import FakeClock
from tests.kube.lease_server import LeaseServer
from tests.kube.scripted_transport import ScriptedTransport, answer


class Uncounted:
    def request_done(self, method: str, status: int, seconds: float) -> None: ...

    def leading(self, leads: bool) -> None: ...


async def test_all_requests_of_the_elector_are_urgent() -> None:
    server = LeaseServer(clock := FakeClock())
    access = Clients(server, clock, ClusterSettings(), Uncounted())
    elector = Candidate("me", "ns", Random(1)).elector(access, LeaderElectionSettings(), Uncounted())
    assert elector is not None

    async def work(_: Leadership) -> None:
        await clock.sleep(60)

    running = asyncio.ensure_future(elector.run(work))
    await clock.advance(120)
    await running
    assert {request.method for request in server.requests} == {"GET", "POST", "PATCH"}
    assert all(request.urgent for request in server.requests)


async def test_no_other_requests_are_urgent() -> None:
    wire = ScriptedTransport(lambda _: answer(200, {}))
    access = Clients(wire, FakeClock(), ClusterSettings(), Uncounted())
    for api in (access.api(), access.fenced(Leadership.unelected(FakeClock(), "me"))):
        await api.get(VOLUMES, "pv")
    assert not any(request.urgent for request in wire.requests)
