"""The demo as a person runs it: to its end, interrupted, and kept."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import expect

from devcluster.build.binaries import ensure
from devcluster.build.modules import KWOK, control_plane
from devcluster.command import down
from tests.prebinder.view.chromium import installed, launched, opened
from tests.scenarios.environment.waiting import eventually

pytestmark = pytest.mark.cluster

COMMAND = [sys.executable, "-m", "prebinder.cli", "demo"]


STORY = [
    line.split()
    for line in """\
        N s N pods are held by a scheduling gate; each needs a volume of the class of a-fast
        N s a-fast becomes unhealthy: its directory was removed
        N s a-fast is quarantined: no claim can use it; the gates are removed
        N s shop-N has X, shop-N has X; shop-N waits
        N s a-fast recovers: its directory was restored
        N s a-fast is released, N s after it recovered
        N s shop-N has a-fast and runs
    """.splitlines()
    if line.strip()
]
"""What is printed about the volume that becomes unhealthy, without the numbers."""


@pytest.fixture(autouse=True)
def binaries() -> None:
    ensure([control_plane(), KWOK])


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory with a short name: the path of a unix socket below it has to fit into 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        yield Path(directory)


async def start(home: Path, *flags: str) -> asyncio.subprocess.Process:
    """Start the demo with a temporary directory of its own, so that what it leaves behind can be seen."""
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(home), "COLUMNS": "140"},
        # Ignored for all that a shell starts in the background, these tests included.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def clusters(home: Path) -> list[Path]:
    return [directory for parent in home.glob("pvc-prebinder-*") for directory in parent.iterdir()]


def alive(directory: Path) -> list[int]:
    """Return the processes whose command line names the directory."""
    pids = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory).encode() in process.read_bytes():
                pids.append(int(process.parent.name))
        except OSError:
            continue
    return pids


async def shell(output: str, beginning: str, home: Path) -> int | None:
    """Run the line of the output that begins so, as a person would who copied it; return its exit code."""
    exports = re.findall(r"^ +(export .*|alias .*)$", output, re.MULTILINE)
    (line,) = re.findall(rf"^ +({beginning}.*)$", output, re.MULTILINE)
    script = "shopt -s expand_aliases\n" + "\n".join([*exports, line])
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, env=os.environ | {"HOME": str(home)}, stdout=-1
    )
    await process.communicate()
    return process.returncode


@asynccontextmanager
async def page_of(output: str, home: Path) -> AsyncIterator[str]:
    """Serve the page of the demo's cluster with the command that the output names, and return its address."""
    (kubeconfig,) = re.findall(r"export KUBECONFIG=(\S+)", output)
    (command,) = re.findall(r"^ +(\S.* why --serve)  ", output, re.MULTILINE)
    process = await asyncio.create_subprocess_shell(
        f"exec {command} --port 0 pod/vault -n demo",
        env=os.environ | {"HOME": str(home), "KUBECONFIG": kubeconfig},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        assert line.startswith("Open http://127.0.0.1:"), line
        yield line.split()[1]
    finally:
        process.kill()
        await process.wait()


async def seen_in_the_page(address: str) -> None:
    """What waits in the demo's cluster is on its page, with its cause: in a browser if there is one."""
    origin, _, route = address.partition("#")
    question = f"{origin}api/v1alpha1/why?kind=pod&namespace=demo&name=vault"
    async with aiohttp.ClientSession() as session, session.get(question) as response:
        (item,) = (await response.json())["report"]["items"]
        assert item["problem"], item
    if installed() is None:
        return
    async with launched() as browser, opened(browser, f"{origin}#{route}") as page:
        await expect(page.locator(".zone h2")).to_contain_text(["zone-a", "zone-b", "zone-c"])
        await expect(page.locator("#waiting h3").first).to_contain_text(item["code"])
        await expect(page.locator("#why")).to_contain_text(item["code"])


def ending(output: str) -> str:
    """Return what a demo that was late says of it, or all if it does not."""
    return output[max(0, output.find("\nNot finished")) :]


def processes_of(directory: Path) -> Callable[[], Awaitable[list[int]]]:
    async def look() -> list[int]:
        return alive(directory)

    return look


async def test_the_demo_runs_to_its_end_and_leaves_nothing(home: Path) -> None:
    demo = await start(home, "--timeout=180")
    output, errors = (stream.decode() for stream in await demo.communicate())
    assert demo.returncode == 0, ending(output) + errors
    assert "15 of 17 claims bound, 2 rejected; 8 pods running." in output
    placed = re.findall(r"^  (db-\d) +(zone-[abc]) +(.*)$", output, re.MULTILINE)
    assert len({zone for _, zone, _ in placed}) == 3
    assert all("unhealthy" not in volumes and "elsewhere" not in volumes for _, _, volumes in placed)
    assert "a-small-0-elsewhere" in output.partition("Rejected, although")[2]
    assert "a-small-0-unhealthy" in output.partition("In quarantine")[2]
    assert "faster" not in output
    lines = output.partition("A volume became unhealthy while pods waited:\n")[2].partition("\n\n")[0].splitlines()
    assert [re.sub(r"\d+\.\d|\d", "N", re.sub("[bc]-fast", "X", line)).split() for line in lines] == STORY
    seconds = [float(line.split()[0]) for line in lines]
    assert seconds == sorted(seconds)
    waiting = re.findall(r"; (shop-\d) waits$", output, re.MULTILINE)
    assert re.findall(r"(shop-\d) has a-fast and runs$", output, re.MULTILINE) == waiting
    assert re.search(r"^ +\d+\.\ds +a-fast +Quarantined .*✗ Inaccessible$", output, re.MULTILINE)
    assert re.findall(r"^(\S+) is pending:$", output, re.MULTILINE) == ["demo/vault"]
    twins = re.findall(r"^  (ledger|archive)-\d +(\S+) +(zone-[abc]|-) +(\S+) +(.*)$", output, re.MULTILINE)
    assert len(twins) == 8
    ours = [(name, volumes) for name, scheduler, *_, volumes in twins if scheduler == "zone-scheduler"]
    assert ours == [("ledger", "10Gi, 20Gi")] * 3 + [("archive", "100Gi, 120Gi")], "each with volumes of its size"
    assert clusters(home) == []
    assert alive(home) == []


@pytest.mark.parametrize("after", ["starting etcd", "adding 6 nodes", "watching", "is quarantined"])
async def test_ctrl_c_at_any_time_leaves_nothing_behind(home: Path, after: str) -> None:
    demo = await start(home)
    assert demo.stdout is not None
    assert demo.stderr is not None
    while after not in (line := (await demo.stdout.readline()).decode()):
        assert line, (await demo.stderr.read()).decode()
    demo.send_signal(signal.SIGINT)
    _, errors = await demo.communicate()
    assert demo.returncode == 130, errors.decode()
    assert errors.decode().splitlines()[-1] == "Interrupted; the cluster was removed."
    assert clusters(home) == []
    assert alive(home) == []


async def test_keep_leaves_a_cluster_that_can_be_used_and_stopped(home: Path) -> None:
    demo = await start(home, "--keep", "--timeout=180")
    output, errors = (stream.decode() for stream in await demo.communicate())
    assert demo.returncode == 0, ending(output) + errors
    (directory,) = clusters(home)
    try:
        kubeconfig = re.findall(r"export KUBECONFIG=(\S+)", output)[0]
        kubectl = re.findall(r"alias kubectl=(\S+)", output)[0]
        reading = await asyncio.create_subprocess_exec(
            kubectl,
            "get",
            "pvc",
            "-n",
            "demo",
            "-o",
            "json",
            env={"KUBECONFIG": kubeconfig, "HOME": str(home)},
            stdout=-1,
        )
        claims, _ = await reading.communicate()
        assert len(json.loads(claims)["items"]) == 17
        assert await shell(output, "kubectl get pv,pvc", home) == 3, "vault cannot be served"
        assert await shell(output, "kubectl -n demo describe", home) == 0
        async with page_of(output, home) as address:
            await seen_in_the_page(address)
    finally:
        await asyncio.to_thread(down, directory)
    assert clusters(home) == []
    await eventually(processes_of(home), lambda left: left == [], "every process to be gone")
