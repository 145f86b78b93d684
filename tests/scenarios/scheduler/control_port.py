"""`pvc-prebinder scheduler` as a process, and its control port as a tool uses it."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import cbor2
import yaml

from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

_numbers: Final = itertools.count(1)


@dataclass(frozen=True)
class ControlledScheduler:
    """A scheduler that answers to the name of the story's namespace."""

    session: aiohttp.ClientSession
    address: str
    token_file: Path
    component: Component

    async def request(self, method: str, path: str, body: bytes | None, kind: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.token_file.read_text().strip()}", "Content-Type": kind}
        url = f"http://{self.address}{path}"
        async with self.session.request(method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def call(self, method: str, world: World, pod: str, **others: str) -> Any:
        """Return the result of a call about a pod of the story, or the error."""
        params = {"namespace": world.namespace, "name": pod, **others}
        body = cbor2.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        status, content = await self.request("POST", "/rpc", body, "application/cbor")
        assert status == 200
        answer = cbor2.loads(content)
        return answer["result"] if "result" in answer else answer["error"]

    async def configure(self, name: str, scores: Mapping[str, int]) -> tuple[int, str]:
        profile = {"schedulerName": name, "scores": dict(scores)}
        document = {"apiVersion": "config.pvc-prebinder/v1alpha1", "kind": "SchedulerConfiguration"}
        body = yaml.safe_dump(document | {"profiles": [profile]}).encode()
        status, content = await self.request("PUT", "/config", body, "application/yaml")
        return status, content.decode()


@asynccontextmanager
async def controlled_scheduler(world: World, *flags: str) -> AsyncIterator[ControlledScheduler]:
    """Run one while inside; it is ready to be driven if it leads."""
    directory = world.cluster.directory / f"driven-{next(_numbers)}"
    directory.mkdir()
    control, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    token = directory / "token"
    command: list[str | Path] = [sys.executable, "-m", "prebinder.cli", "scheduler", f"--name={world.namespace}"]
    command += [f"--kubeconfig={world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    command += [f"--lease-namespace={world.namespace}", "--metrics-bind-address=0", f"--health-bind-address={health}"]
    command += [f"--control-bind-address={control}", f"--control-token-file={token}", *flags]
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def ready() -> bool:
            try:
                async with session.get(f"http://{health}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        component = await world.cluster.start_component(directory.name, command, ready)
        stack.push_async_callback(component.stop)
        yield ControlledScheduler(session, control, token, component)


async def leading(scheduler: ControlledScheduler, world: World) -> None:
    """Wait until it holds the Lease: then it knows which pods there are."""
    await eventually(
        lambda: scheduler.call("bind.pod", world, "nobody"), lambda error: error["code"] == -32002, "it leads"
    )


async def profile(scheduler: ControlledScheduler, *flags: str) -> str:
    """Return what `pvc-prebinder dev profile` prints about it."""
    command = [sys.executable, "-m", "prebinder.cli", "dev", "profile", f"--address={scheduler.address}"]
    command += [f"--token-file={scheduler.token_file}", *flags]
    run = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await run.communicate()
    assert run.returncode == 0
    return out.decode()
