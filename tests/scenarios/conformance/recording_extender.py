"""A kube-scheduler whose extender records the nodes that passed every filter."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

from aiohttp import web

from devcluster.cluster import DevCluster
from devcluster.processes.ports import LOOPBACK, free_ports


class Recording:
    """`passed` are the nodes that were left for a pod, by its name; `chosen` the one that it had to take.

    `requests` has the bodies of the requests.
    """

    def __init__(self) -> None:
        self.requests: dict[str, bytes] = {}
        self.passed: dict[str, set[str]] = {}
        self.chosen: dict[str, str] = {}

    async def filter(self, request: web.Request) -> web.Response:
        """Leave one node of those that passed, always the same one for a pod."""
        content = await request.read()
        body = json.loads(content)
        pod, names = body["Pod"]["metadata"]["name"], sorted(body["NodeNames"])
        if pod not in self.passed:
            self.requests[pod] = content
            self.passed[pod] = set(names)
            self.chosen[pod] = names[sha256(pod.encode()).digest()[0] % len(names)]
        return web.json_response({"NodeNames": [name for name in names if name == self.chosen[pod]]})


@asynccontextmanager
async def recording_scheduler(cluster: DevCluster, name: str) -> AsyncIterator[Recording]:
    """Start a kube-scheduler of that name; stop it at the end."""
    recording = Recording()
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/filter", recording.filter)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        (port,) = free_ports(1)
        await web.TCPSite(runner, LOOPBACK, port).start()
        extender = {"urlPrefix": f"http://{LOOPBACK}:{port}", "filterVerb": "filter", "nodeCacheCapable": True}
        fast = {"qps": 500, "burst": 500}
        scheduler = await cluster.start_scheduler(name, {"extenders": [extender], "clientConnection": fast})
        yield recording
        await scheduler.stop()
    finally:
        await runner.cleanup()
