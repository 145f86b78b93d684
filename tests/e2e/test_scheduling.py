"""What schedules: the extender over TLS, beside a kube-scheduler in a static pod and beside the component's second one;
the standalone scheduler.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from devcluster.credentials import kubeconfig
from devcluster.credentials.certificates import Authority, KeyPair
from devcluster.node import archive
from tests.e2e.driver import Driver
from tests.e2e.installation import (
    COMPONENTS,
    SCHEDULING,
    SECONDS,
    ensure_installed,
    rolled_out,
    with_configuration,
    write_overlay,
)
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM

SERVER: Final = "pvc-prebinder-extender.pvc-prebinder-system.svc"
IMAGE: Final = "registry.k8s.io/kube-scheduler:v1.37.1"
EXTENDED: Final = "extended-scheduler"
SECOND: Final = "volume-scheduler"
"""The profile of components/second-kube-scheduler."""
IN_CLUSTER: Final = "https://10.0.0.1:443"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def schedulers(real: DevCluster) -> None:
    """As Deployments the extender, the standalone scheduler and a second kube-scheduler, and another kube-scheduler in
    a static pod; both ask the extender.
    """
    await ensure_installed(real)
    directory = real.directory / "node" / "kube-scheduler"
    client = await install_extender(real, directory)
    selector = "app.kubernetes.io/component=extender"
    shown = await real.run_kubectl("-n", SYSTEM, "get", "pods", "--selector", selector, "--output", "json")
    url = f"https://{json.loads(shown)['items'][0]['status']['podIP']}:8443"
    await start_kube_scheduler(real, directory, configuration(directory, url, client))
    await install_schedulers(real, url)


async def install_extender(cluster: DevCluster, directory: Path, *others: str) -> KeyPair:
    """Add the extender, and other components, to base; return the certificate of the extender's client."""
    authority = authority_in(directory)
    client = authority.client("kube-scheduler")
    for name, keys in (("tls", authority.serving("extender", (SERVER,), ())), ("client", client)):
        given = json.dumps(secret(f"pvc-prebinder-extender-{name}", authority.certificate, keys))
        await cluster.run_kubectl("apply", "-f", "-", given=given)
    await cluster.run_kubectl("apply", "-k", str(write_overlay(cluster.directory, (*COMPONENTS, "extender", *others))))
    await rolled_out(cluster, "deployment/pvc-prebinder-extender")
    return client


async def install_schedulers(cluster: DevCluster, url: str) -> None:
    """Add the standalone scheduler and the second kube-scheduler, as shipped but for how it reaches the extender: on
    this node nothing leads from a Service to its pods. And nothing is scheduled without the extender's answer.
    """
    file = yaml.safe_load((MANIFESTS / "components" / "second-kube-scheduler" / "config.yaml").read_text())
    (extender,) = file["extenders"]
    assert extender["urlPrefix"] == f"https://{SERVER}"
    extender |= {"urlPrefix": url, "ignorable": False, "httpTimeout": "20s"}
    extender["tlsConfig"]["serverName"] = SERVER
    shipped = write_overlay(cluster.directory, (*COMPONENTS, *SCHEDULING))
    overlay = with_configuration(shipped, "pvc-prebinder-kube-scheduler-config", file)
    await cluster.run_kubectl("apply", "-k", str(overlay))
    for name in ("pvc-prebinder-scheduler", "pvc-prebinder-kube-scheduler"):
        await rolled_out(cluster, f"deployment/{name}")


def authority_in(directory: Path) -> Authority:
    directory.mkdir()
    return Authority(directory, datetime.now(UTC))


def secret(name: str, authority: Path, keys: KeyPair) -> dict[str, Any]:
    files = {"ca.crt": authority, "tls.crt": keys.certificate, "tls.key": keys.key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM},
        "stringData": {file: path.read_text(encoding="ascii") for file, path in files.items()},
    }


def configuration(directory: Path, url: str, client: KeyPair) -> dict[str, Any]:
    """Return kube-scheduler's file as docs/extender.md shows it."""
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 5,
        "nodeCacheCapable": True,
        # Nothing is scheduled here without its answer.
        "ignorable": False,
        "httpTimeout": "20s",
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": str(directory / "ca.crt"),
            "serverName": SERVER,
            "certFile": str(client.certificate),
            "keyFile": str(client.key),
        },
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(directory / "kubeconfig")},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": EXTENDED}],
        "extenders": [extender],
    }


async def start_kube_scheduler(cluster: DevCluster, directory: Path, config: dict[str, Any]) -> None:
    """Start it as kubeadm does, by a file in the kubelet's directory of static pods."""
    archive.write(directory / "image.tar", IMAGE, cluster.kubectl.resolve().with_name("kube-scheduler"))
    await cluster.node.load(directory / "image.tar")
    certificates = cluster.directory / "certificates"
    user = "system-kube-scheduler"
    keys = KeyPair(certificates / f"{user}.crt", certificates / f"{user}.key")
    kubeconfig.write_for_certificate(directory / "kubeconfig", IN_CLUSTER, certificates / "ca.crt", keys)
    (directory / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    flags = [f"--{kind}-kubeconfig={directory / 'kubeconfig'}" for kind in ("authentication", "authorization")]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": EXTENDED, "namespace": "kube-system"},
        "spec": {
            "hostNetwork": True,
            "containers": [
                {
                    "name": "kube-scheduler",
                    "image": IMAGE,
                    "args": [f"--config={directory / 'config.yaml'}", "--secure-port=0", *flags],
                    "volumeMounts": [{"name": "files", "mountPath": str(directory), "readOnly": True}],
                }
            ],
            "volumes": [{"name": "files", "hostPath": {"path": str(directory)}}],
        },
    }
    (cluster.directory / "node" / "static" / "kube-scheduler.yaml").write_text(yaml.safe_dump(pod), encoding="utf-8")


@pytest.mark.parametrize("scheduler", [EXTENDED, SECOND], ids=["in a static pod", "second one"])
async def test_kube_scheduler_heeds_the_extender(
    world: World, driver: Driver, schedulers: None, scheduler: str
) -> None:
    disks = await world.storage_class("off")
    (name,) = await world.volumes(disks, driver.volume(world, "v", disks))
    health = f"{PREFIX}health"
    await world.admin.patch("PersistentVolume", name, {"metadata": {"annotations": {health: "Degraded"}}})
    await world.pod("app", {"data": claim_spec(disks)}, extra={"schedulerName": scheduler})

    async def condition() -> str:
        conditions = (await world.pods())["app"]["status"].get("conditions", [])
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    await eventually(condition, lambda text: f"would get volume {name}: Unhealthy" in text, "it is rejected", SECONDS)
    await world.admin.patch("PersistentVolume", name, {"metadata": {"annotations": {health: "Healthy"}}})

    async def phase() -> str:
        # As docs/extender.md says: kube-scheduler may ask before the extender has seen the recovery, and then asks only
        # after the next change of any kind.
        await world.admin.patch("PersistentVolume", name, {"metadata": {"labels": {"looked-at": f"{monotonic():.3f}"}}})
        return str((await world.pods())["app"]["status"]["phase"])

    await eventually(phase, lambda phase: phase == "Running", "it runs", SECONDS)
    assert await world.bound() == {"data": name}


async def test_the_standalone_scheduler_schedules_pods_with_volumes(
    world: World, driver: Driver, schedulers: None
) -> None:
    disks = await world.storage_class("off")
    await world.volumes(disks, *(driver.volume(world, word, disks) for word in ("a", "b")))
    await world.pod(
        "app", {"data": claim_spec(disks), "log": claim_spec(disks)}, extra={"schedulerName": "zone-scheduler"}
    )
    await world.all_run("app", seconds=SECONDS)
    assert set((await world.bound()).values()) == {world.name("a"), world.name("b")}
