"""The controller and the agent as they ship, in processes of their own, beside CSI drivers that answer anything.

The API server is one of lists and watches only. `python -m bench --only o` measures each kind of driver for longer.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from bench.control_plane.documents import csi_volume, storage_class
from bench.hostile.cluster import HostileCluster
from bench.hostile.csi_driver import running as driver
from bench.hostile.driver_kinds import KINDS
from csi.client.endpoint import Endpoint
from csi.health.size_limit import SizeLimit
from tests.controller_process import Process, running
from tests.driver_process import eventually

VOLUMES = 100
MAX_MB = 200
GOOD = "good.csi.example"
GROUPS: Mapping[str, Mapping[str, SizeLimit | None]] = {
    "lists": {
        "page tokens of 4 MiB": SizeLimit.PAGE_TOKEN,
        "volume ids of 4 MiB": SizeLimit.ANSWER,
        "volume ids of 1 KiB, new in each page": SizeLimit.LIST,
        "pages without end": SizeLimit.LIST,
        "slow pages without end": None,
        "pages of 2 million entries": SizeLimit.LIST,
    },
    "answers": {
        "30,000 topology segments": SizeLimit.TOPOLOGY,
        "256 topology segments, new in each answer": SizeLimit.REPORTS,
        "answers of 2.6 MiB": SizeLimit.ANSWER,
        "answers of 512 KiB without content": SizeLimit.TOPOLOGY,
        "messages of 500 kB, new in each answer": None,
        "1,000 health entries": SizeLimit.HEALTH_ENTRIES,
    },
    "errors": {
        "100,000 unknown capabilities": SizeLimit.ANSWER,
        "900 unknown capabilities": None,
        "errors of 1 MiB": SizeLimit.METADATA,
        "trailers of 1 MiB": SizeLimit.METADATA,
        "10,000 trailers": SizeLimit.METADATA,
        "gzip of 40 MB": SizeLimit.ANSWER,
    },
    "silence": {
        "no answer": None,
        "one byte a millisecond": None,
        "connections cut": None,
        "bytes that are no answer": None,
        "ready and not ready in turn": None,
    },
}


def kubeconfig(directory: Path, url: str) -> Path:
    """Write one for a server on loopback that asks for no credentials."""
    path = directory / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": url}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]
    users = [{"name": "u", "user": {}}]
    content = {"clusters": clusters, "contexts": contexts, "users": users, "current-context": "c"}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **content}))
    return path


@asynccontextmanager
async def beside(directory: Path, command: str, kinds: Mapping[str, str]) -> AsyncIterator[Process]:
    """Run the command with a driver of each kind, by name; all have as many volumes."""
    documents = [
        csi_volume(f"{name.partition('.')[0]}-{number}", "zone-a", name, f"handle-{number}")
        for name in kinds
        for number in range(VOLUMES)
    ]
    cluster = HostileCluster([storage_class(), *documents], [])
    async with AsyncExitStack() as stack:
        # The path of a socket has at most 107 bytes: with the name of a worker and of a test pytest's is too long.
        sockets = Path(stack.enter_context(TemporaryDirectory()))
        url = await stack.enter_async_context(cluster.serving())
        endpoints: list[Endpoint] = []
        for name, kind in kinds.items():
            endpoints.append(await stack.enter_async_context(driver(sockets, name, kind)))
        flags = [flag for each in endpoints for flag in ("--csi-endpoint", f"{each.driver}={each}")]
        flags += ["--health-sweep-interval", "2s"]
        yield await stack.enter_async_context(running(command, kubeconfig(directory, url), *flags))


async def counted(process: Process, metric: str, **labels: str) -> float:
    """Return the sum of a metric over the series with these labels."""
    _, page = await process.page("/metrics")
    lines = [line for line in page.splitlines() if re.match(rf"{metric}[ {{]", line)]
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))


def peak_mb(process: Process) -> float:
    status = Path(f"/proc/{process.process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def swept(process: Process, name: str, sweeps: int) -> None:
    """Wait until the driver has answered for so many sweeps."""

    async def enough() -> bool:
        return await counted(process, "csi_volume_health_probe_total", driver_name=name) >= sweeps * VOLUMES

    await eventually(enough, f"{sweeps} sweeps of {name}", 90)


async def swept_in_time(process: Process, name: str) -> None:
    """Wait for a sweep of 100 volumes, at 200 a second, that took less than 5 s.

    One may be slow because the machine stood still for other tests; beside a driver that takes the time all are.
    """

    async def in_time() -> bool:
        return await counted(process, "pvc_prebinder_health_sweep_last_duration_seconds", driver_name=name) < 5

    await eventually(in_time, f"a sweep of {name} in less than 5 s", 60)


@pytest.mark.parametrize("group", GROUPS)
async def test_no_driver_takes_the_memory_or_the_time_of_the_others(tmp_path: Path, group: str) -> None:
    kinds = {f"hostile-{number}.csi.example": kind for number, kind in enumerate(GROUPS[group])}
    async with beside(tmp_path, "controller", {GOOD: "", **kinds}) as process:
        await swept(process, GOOD, 4)
        for name, kind in kinds.items():
            await noticed(process, name, GROUPS[group][kind])
        assert await counted(process, "csi_volume_health_probe_total", driver_name=GOOD, result="Healthy") > 0
        assert await counted(process, "csi_volume_health_probe_total", driver_name=GOOD, result="Unknown") == 0
        assert await counted(process, "pvc_prebinder_csi_limit_exceeded_total", driver_name=GOOD) == 0
        await swept_in_time(process, GOOD)
        assert (await process.page("/livez"))[0] == 200
        assert peak_mb(process) < MAX_MB
        code, log = await process.stop()
    assert code == 0
    assert "Traceback" not in log
    assert len(log) < 200_000
    assert max(map(len, log.splitlines())) < 4_000


async def noticed(process: Process, name: str, limit: SizeLimit | None) -> None:
    """Wait until the limit was exceeded, if the driver exceeds one."""
    if limit is None:
        return

    async def exceeded() -> bool:
        metric = "pvc_prebinder_csi_limit_exceeded_total"
        return await counted(process, metric, driver_name=name, limit=limit) > 0

    await eventually(exceeded, f"{limit} of {name}", 90)


AGENTS: Sequence[str] = ("page tokens of 4 MiB", "256 topology segments, new in each answer", "answers of 2.6 MiB")


@pytest.mark.parametrize("kind", AGENTS)
async def test_no_driver_takes_the_memory_of_its_agent(tmp_path: Path, kind: str) -> None:
    async with beside(tmp_path, "csi-agent", {"hostile.csi.example": kind}) as process:
        await swept_list_or_not(process)
        assert (await process.page("/livez"))[0] == 200
        assert peak_mb(process) < MAX_MB
        code, log = await process.stop()
    assert code == 0
    assert "Traceback" not in log


async def swept_list_or_not(process: Process) -> None:
    async def exceeded() -> bool:
        return await counted(process, "pvc_prebinder_csi_limit_exceeded_total") >= 3

    await eventually(exceeded, "limits exceeded in three calls", 90)


def test_every_kind_of_driver_is_in_a_group() -> None:
    assert {kind for group in GROUPS.values() for kind in group} == set(KINDS)
