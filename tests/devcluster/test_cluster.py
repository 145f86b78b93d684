"""Clusters of their own, because these tests stop, pause and kill what others share."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from devcluster.control_plane.api import Api
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from devcluster.errors import AddressInUseError, ClusterError, ComponentFailedError
from devcluster.processes.probes import answers_ok
from tests.devcluster.liveness import eventually, is_alive

pytestmark = pytest.mark.cluster

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"

# Starts a cluster and prints its directory and the ids of all its processes.
OWNER = """\
import asyncio
from devcluster.cluster import DevCluster
async def main():
    cluster = DevCluster()
    await cluster.start()
    print(cluster.directory, *(component.pid for component in cluster.components()), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own() -> AsyncIterator[DevCluster]:
    async with DevCluster() as cluster:
        yield cluster


async def test_nodes_are_ready_and_in_their_zones(own: DevCluster) -> None:
    await own.add_nodes(spread(3, prefix="ready"))
    async with own.api() as api:
        nodes = (await api.get("/api/v1/nodes"))["items"]
    zones = {node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}
    assert zones == {"ready-1": "zone-a", "ready-2": "zone-b", "ready-3": "zone-c"}


async def test_a_pod_can_be_created_in_a_new_namespace_and_runs(own: DevCluster) -> None:
    await own.create_namespace("fresh")
    await own.add_nodes(spread(1, prefix="runs"))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none.example/none"}]}}
    async with own.api() as api, asyncio.timeout(30):
        await api.create("/api/v1/namespaces/fresh/pods", pod)
        while await phase(api, "/api/v1/namespaces/fresh/pods/p") != "Running":  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_service_accounts_kubeconfig_has_that_accounts_rights_only(own: DevCluster) -> None:
    kubeconfig = await own.kubeconfig_for_service_account("default", "default")
    kubectl = await asyncio.create_subprocess_exec(
        own.kubectl, f"--kubeconfig={kubeconfig}", "get", "nodes", stderr=asyncio.subprocess.PIPE
    )
    _, errors = await kubectl.communicate()
    assert kubectl.returncode == 1
    assert 'User "system:serviceaccount:default:default" cannot list resource "nodes"' in errors.decode()


@pytest.mark.parametrize("name", ["etcd", "apiserver"])
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_data_and_address_outlive_a_restart(name: str, end: str, own: DevCluster) -> None:
    server, component = own.server, getattr(own, name)
    async with own.api() as api:
        await api.create(CONFIGMAPS, {"metadata": {"name": f"before-{name}-{end}"}})
    await getattr(component, end)()
    await component.start()
    assert own.server == server
    async with own.api() as api, asyncio.timeout(30):
        kept = await api.get(f"{CONFIGMAPS}/before-{name}-{end}")
    assert kept["metadata"]["uid"]


async def test_a_paused_api_server_does_not_answer_until_it_is_resumed(own: DevCluster) -> None:
    own.apiserver.pause()
    assert not await answers_ok(f"{own.server}/livez", own.trust)
    own.apiserver.resume()
    assert await answers_ok(f"{own.server}/livez", own.trust)


async def test_the_mock_driver_serves_and_comes_back_after_a_kill(own: DevCluster) -> None:
    driver = await own.start_mock_driver("mock.csi.example", volumes=5)
    assert driver.endpoint == f"unix://{own.directory}/mock.csi.example.sock"
    await driver.kill()
    await driver.start()
    assert driver.running
    await driver.stop()


async def test_two_clusters_side_by_side_know_nothing_of_each_other(own: DevCluster) -> None:
    async with DevCluster(Options(kwok=False)) as other:
        assert other.server != own.server
        assert other.directory != own.directory
        async with other.api() as api:
            await api.create(CONFIGMAPS, {"metadata": {"name": "only-there"}})
        async with own.api() as api:
            with pytest.raises(ClusterError, match="404"):
                await api.get(f"{CONFIGMAPS}/only-there")
        assert not await answers_ok(f"{other.server}/livez", own.trust)


async def test_after_a_stop_neither_processes_nor_files_are_left() -> None:
    cluster = DevCluster(Options(kwok=False))
    await cluster.start()
    directory, pids = cluster.directory, [component.pid for component in cluster.components()]
    await cluster.stop()
    await cluster.stop()
    assert not directory.exists()
    assert eventually(lambda: not any(is_alive(pid) for pid in pids))
    with pytest.raises(ClusterError, match="not running"):
        _ = cluster.kubeconfig


def test_kill_9_of_the_owner_leaves_neither_processes_nor_files() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory, *pids = owner.stdout.readline().split()
    assert len(pids) == 5
    assert all(is_alive(int(pid)) for pid in pids)
    owner.kill()
    owner.communicate()
    assert eventually(lambda: not any(is_alive(int(pid)) for pid in pids))
    assert eventually(lambda: not Path(directory).exists())


async def test_an_unknown_flag_is_an_error_with_the_end_of_the_log(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    options = Options(flags={"kube-apiserver": ["--no-such-flag"]})
    with pytest.raises(ComponentFailedError, match=r"kube-apiserver ended(?s:.*)unknown flag: --no-such-flag"):
        await DevCluster(options, directory).start()
    assert not directory.exists()


async def test_a_port_that_stays_taken_is_an_error_after_some_tries() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = Options(flags={"etcd": [f"--listen-peer-urls=http://127.0.0.1:{port}"]})
        with pytest.raises(AddressInUseError, match="etcd"):
            await DevCluster(options).start()


def test_the_shared_cluster_has_two_nodes_in_each_zone(cluster: DevCluster, kubeconfig: Path) -> None:
    assert kubeconfig == cluster.kubeconfig
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    assert document["clusters"][0]["cluster"]["server"] == cluster.server
    command = [str(cluster.kubectl), f"--kubeconfig={kubeconfig}", "get", "nodes", "-o", "name"]
    nodes = subprocess.run([*command, "-l", "topology.kubernetes.io/zone=zone-a"], capture_output=True, check=True)
    assert nodes.stdout.split() == [b"node/node-1", b"node/node-4"]


async def phase(api: Api, path: str) -> str:
    return str((await api.get(path))["status"]["phase"])
