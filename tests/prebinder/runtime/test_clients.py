"""Which requests may wait behind others on the way to the API server, and the connections that are opened ahead."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from kube.client.transport import Request, Response
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import VOLUMES
from prebinder.config.settings import ClusterSettings, LeaderElectionSettings
from prebinder.runtime.clients import CONNECTIONS, Clients
from prebinder.runtime.leader_loop import Candidate
from tests.fake_clock import FakeClock
from tests.kube.counted import CountedRequests, CountedTerms
from tests.kube.lease_server import LeaseServer
from tests.kube.scripted_server import connected
from tests.kube.scripted_transport import ScriptedTransport, answer


async def test_all_requests_of_the_elector_are_urgent() -> None:
    server = LeaseServer(clock := FakeClock())
    access = Clients(server, clock, ClusterSettings(), CountedRequests())
    elector = Candidate("me", "ns", Random(1)).elector(access, LeaderElectionSettings(), CountedTerms())
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
    access = Clients(wire, FakeClock(), ClusterSettings(), CountedRequests())
    for api in (access.api(), access.fenced(Leadership.unelected(FakeClock(), "me"))):
        await api.get(VOLUMES, "pv")
    assert not any(request.urgent for request in wire.requests)


class Together(ScriptedTransport):
    """Answers when so many requests have come."""

    def __init__(self, number: int) -> None:
        super().__init__(lambda _: answer(403, {}))
        self.number, self.all_came = number, asyncio.Event()

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if len(self.requests) == self.number:
            self.all_came.set()
        await self.all_came.wait()
        return response


@pytest.mark.parametrize(("burst", "opened"), [(2000, CONNECTIONS), (3, 3)])
async def test_connections_are_opened_at_once_as_far_as_the_limit_allows(burst: int, opened: int) -> None:
    """Also if the Lease is not readable."""
    wire = Together(opened)
    await Clients(wire, FakeClock(), ClusterSettings(burst=burst), CountedRequests()).connect_ahead("lease", "ns")
    assert {request.path for request in wire.requests} == {"/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease"}
    assert len(wire.requests) == opened


async def test_a_server_that_is_silent_delays_nothing_for_long() -> None:
    wire = Together(CONNECTIONS + 1)
    await Clients(wire, FakeClock(), ClusterSettings(), CountedRequests()).connect_ahead("lease", "ns", seconds=0.01)
    assert len(wire.requests) == CONNECTIONS


async def test_connections_that_were_opened_together_are_used_in_turn(tmp_path: Path) -> None:
    """So those that a process opens ahead stay open by the renewals of its Lease alone."""
    together, all_came, ports = 4, asyncio.Event(), list[int]()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        if len(ports) == together:
            all_came.set()
        await all_came.wait()
        return web.json_response({})

    async with connected(tmp_path, handler) as (transport, _):
        await asyncio.gather(*(transport.send(Request("GET", "/ahead")) for _ in range(together)))
        opened = set(ports)
        assert len(opened) == together
        for _ in range(2):
            ports.clear()
            for _ in range(together):
                await transport.send(Request("GET", "/renewal"))
            assert sorted(ports) == sorted(opened)
