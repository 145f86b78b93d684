"""A real node leaves nothing on the machine, even when its owner and the process that cleans up after it are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.node import isolation
from devcluster.processes.state import remove_if_abandoned
from tests.devcluster.liveness import eventually

# Starts a cluster with a real node and a pod that runs there; prints its directory and the pid of the node.
OWNER = """\
import asyncio
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from tests.e2e.test_nothing_remains import POD, POD_PATH
async def main():
    cluster = DevCluster(Options(kwok=False, real_node=True))
    await cluster.start()
    async with cluster.api() as api:
        await api.create("/api/v1/namespaces/default/pods", POD)
        while (await api.get(POD_PATH))["status"].get("phase") != "Running":
            await asyncio.sleep(0.2)
    print(cluster.directory, cluster.node.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
POD_PATH = "/api/v1/namespaces/default/pods/resident"
POD = {
    "metadata": {"name": "resident"},
    "spec": {
        "containers": [
            {"name": "main", "image": "registry.k8s.io/pause:3.10", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
        ],
        "volumes": [{"name": "d", "emptyDir": {"medium": "Memory"}}],
    },
}


@pytest.fixture
def owner() -> Iterator["subprocess.Popen[str]"]:
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=root)
    yield process
    process.kill()
    process.communicate()


def test_nothing_remains_of_a_rehearsal() -> None:
    before = traces()
    isolation.require()
    assert traces() - before == set()


@pytest.mark.parametrize("reaper_too", [False, True], ids=["the owner is killed", "owner and reaper are killed"])
def test_nothing_remains_of_a_node(owner: "subprocess.Popen[str]", reaper_too: bool) -> None:
    before = traces()
    assert owner.stdout is not None
    directory, node = owner.stdout.readline().split()
    reaper = (Path(directory) / "pids").read_text(encoding="ascii").split()[0]
    namespace = os.readlink(f"/proc/{node}/ns/pid_for_children")
    assert members(namespace)
    if reaper_too:
        os.kill(int(reaper), signal.SIGKILL)
    owner.kill()
    owner.wait()
    if reaper_too:
        # The next cluster does this to what others left.
        assert remove_if_abandoned(Path(directory))
    assert eventually(lambda: not Path(directory).exists() and not members(namespace))
    assert eventually(lambda: not traces() - before), traces() - before


def members(namespace: str) -> list[int]:
    """Return the processes in a process namespace."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if namespace_of(pid) == namespace]


def namespace_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # it has ended
        return ""


def traces() -> set[str]:
    """Return what a node could leave: mounts, interfaces, named networks, cgroups, and the places it cannot choose."""
    places = ("/run", "/run/netns", "/var/lib", "/var/log", "/opt", "/etc/cni")
    kept = {str(path) for place in places for path in Path(place).glob("*")}
    cgroups = {str(path) for path in Path("/sys/fs/cgroup").glob("**/pvc-prebinder-*")}
    interfaces = {path.name for path in Path("/sys/class/net").iterdir()}
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    return kept | cgroups | interfaces | mounts
