"""The scheduler's process against servers that are not there, or lack something."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import cbor2
import msgspec
import pytest
from aiohttp import web

from devcluster.processes.ports import LOOPBACK, free_ports
from kube.client.transport import Request, Response, StreamResponse
from kube.clock import SystemClock
from kube.errors import Unavailable
from prebinder.config.scheduler_settings import ControlSettings, SchedulerSettings, SchedulingSettings
from prebinder.config.settings import ServingSettings
from prebinder.control.pod_binding_rpc import CODES
from prebinder.errors import CommandError
from prebinder.preflight.requirements import SCHEDULER
from prebinder.scheduler.process import SchedulerProcess
from scheduler.binding.pod_binding import RejectionReason
from tests.command_process import command
from tests.kube.scripted_server import kubeconfig, serving

SCHEDULING = SchedulingSettings(scheduler_names=("ours",))


class Server:
    """An API server that serves some kinds, says its version, and has nothing else to say. None: no server is there."""

    def __init__(self, served: dict[str, list[str]] | None) -> None:
        self.served = served

    async def send(self, request: Request) -> Response:
        if self.served is None:
            raise Unavailable(request.method, request.path, 0, "", "no route")
        if request.path == "/version":
            return _answer({"gitVersion": "v1.36.3"})
        for api_version, plurals in self.served.items():
            if request.path == (f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"):
                return _answer({"resources": [{"name": plural} for plural in plurals]})
        return Response(404, b"{}", {})

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise Unavailable("GET", request.path, 0, "", "no route")


def _answer(body: object) -> Response:
    return Response(200, msgspec.json.encode(body), {})


def everything(*, without: str = "") -> dict[str, list[str]]:
    served: dict[str, list[str]] = {}
    for kind in SCHEDULER.kinds:
        if kind.plural != without:
            served.setdefault(kind.api_version, []).append(kind.plural)
    return served


class Running:
    """A process that runs, and its pages."""

    def __init__(self, address: str, task: asyncio.Task[None], session: aiohttp.ClientSession) -> None:
        self.task = task
        self._address, self._session = address, session

    async def page(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://{self._address}{path}") as answer:
            return answer.status, await answer.text()

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        while not self.task.done():
            try:
                if await condition():
                    return
            except aiohttp.ClientConnectionError:
                pass  # it does not listen yet
            await asyncio.sleep(0.01)
        self.task.result()


@asynccontextmanager
async def running(server: Server, **groups: object) -> AsyncIterator[Running]:
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    serving = ServingSettings(metrics_bind_address=address, health_bind_address=address)
    settings = replace(SchedulerSettings(), serving=serving, scheduling=SCHEDULING)
    process = SchedulerProcess(replace(settings, **groups), server, SystemClock())  # type: ignore[arg-type]
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    async with aiohttp.ClientSession() as session:
        yield Running(address, task, session)
        stop.set()
        await task


async def test_without_a_server_it_lives_is_not_ready_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Server(None)) as process:

        async def lives() -> bool:
            return (await process.page("/livez"))[0] == 200

        await process.until(lives)
        status, text = await process.page("/readyz")
        assert status == 503
        assert "waiting for the API server to list pods/waiting-ours, pods/assigned" in text
        status, text = await process.page("/metrics")
        assert 'leader_election_master_status{name="pvc-prebinder-scheduler-ours"} 0.0' in text
        assert 'scheduler_schedule_attempts_total{profile="ours",result="scheduled"} 0.0' in text
        assert "Waiting for the API server" in caplog.text


async def test_a_kind_that_can_be_missed_is_taken_to_be_empty(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Server(everything(without="poddisruptionbudgets"))) as process:

        async def dispensed() -> bool:
            text = (await process.page("/readyz"))[1]
            return "pods/assigned" in text and "poddisruptionbudgets" not in text

        await process.until(dispensed)
    assert "ignores PodDisruptionBudgets" in str([record.__dict__ for record in caplog.records])


async def test_a_kind_that_cannot_be_missed_ends_it() -> None:
    with pytest.raises(ExceptionGroup) as ended:
        async with running(Server(everything(without="nodes"))) as process:
            await process.task
    (error,) = ended.value.exceptions
    assert isinstance(error, CommandError)
    assert str(error) == "the API server does not serve nodes (v1); run `pvc-prebinder doctor` for details"


async def test_the_command_ends_with_one_line_that_says_what_is_missing(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        response = await Server(everything(without="nodes")).send(Request(request.method, request.path))
        return web.Response(status=response.status, body=response.body, content_type="application/json")

    async with serving(answer) as server:
        code, out, errors = await command(
            "scheduler",
            "--name=ours",
            f"--kubeconfig={kubeconfig(tmp_path, server.url)}",
            "--metrics-bind-address=0",
            "--health-bind-address=0",
        )
    assert (code, out) == (1, "")
    complaint = [line for line in errors.splitlines() if line.startswith("pvc-prebinder: ")]
    assert complaint == [
        "pvc-prebinder: the API server does not serve nodes (v1); run `pvc-prebinder doctor` for details"
    ]
    assert "Traceback" not in errors


async def test_the_control_port_says_that_it_does_not_schedule_yet(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    control = ControlSettings(f"{LOOPBACK}:{port}", str(tmp_path / "token"))
    content = b""
    async with running(Server(None), control=control) as process, aiohttp.ClientSession() as session:

        async def answers() -> bool:
            nonlocal content
            if not (tmp_path / "token").exists():
                return False
            token = (tmp_path / "token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/cbor"}
            call = {"jsonrpc": "2.0", "id": 1, "method": "bind.pod", "params": {"namespace": "default", "name": "p"}}
            url = f"http://{LOOPBACK}:{port}/rpc"
            async with session.post(url, data=cbor2.dumps(call), headers=headers) as answer:
                content = await answer.read()
            return True

        await process.until(answers)
    assert cbor2.loads(content)["error"]["code"] == CODES[RejectionReason.NOT_READY]
