"""The extender's process before it has read the cluster: it is alive, not ready, and says 503 at once."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import aiohttp

from devcluster.processes.ports import LOOPBACK, free_ports
from kube.client.transport import Request, Response, StreamResponse
from kube.clock import SystemClock
from kube.errors import Unavailable
from prebinder.config.settings import ExtenderSettings, ServingSettings, Settings
from prebinder.extender.process import ExtenderProcess
from tests.scheduler.extender_requests import arguments


class Unreachable:
    """An API server that cannot be reached."""

    async def send(self, request: Request) -> Response:
        raise Unavailable("GET", "/", 0, "", "no route")

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise Unavailable("GET", "/", 0, "", "no route")


async def test_until_the_cluster_is_read_it_is_not_ready() -> None:
    extender, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    settings = replace(
        Settings(),
        extender=ExtenderSettings(bind_address=extender),
        serving=ServingSettings(metrics_bind_address=health, health_bind_address=health),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(ExtenderProcess(settings, Unreachable(), SystemClock()).run(stop))
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://{health}{path}") as answer:
                return answer.status, await answer.text()

        while not running.done():
            try:
                async with session.post(f"http://{extender}/filter", data=arguments(["n1"])) as answer:
                    assert answer.status == 503
                    assert "waiting for the API server to list" in await answer.text()
                break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)  # it does not listen yet
        status, text = await get("/readyz")
        assert status == 503
        kinds = "persistentvolumeclaims, persistentvolumes, storageclasses, nodes, csinodes, csidrivers, "
        kinds += "csistoragecapacities, volumeattachments"
        assert f"waiting for the API server to list {kinds}" in text
        assert (await get("/livez"))[0] == 200
        assert (
            'pvc_prebinder_extender_request_duration_seconds_count{code="503",verb="filter"} 1.0'
            in (await get("/metrics"))[1]
        )
    stop.set()
    await running
