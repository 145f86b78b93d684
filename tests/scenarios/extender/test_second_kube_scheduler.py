"""components/second-kube-scheduler beside the cluster's own kube-scheduler: its file, its account, its rights."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest_asyncio
import yaml

from devcluster.credentials.certificates import Authority
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from tests.scenarios.environment.documents import ZONES, Document, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.extender.extender_process import start_extender
from tests.scenarios.extender.sized_volumes import sized_volumes
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM, apply_manifests, start_controller

COMPONENT: Final = "second-kube-scheduler"
FILE: Final = MANIFESTS / "components" / COMPONENT / "config.yaml"
OWN_NAME: Final = "pvc-prebinder-kube-scheduler"
PODS: Final = 4


@dataclass(frozen=True)
class Second:
    """The component's kube-scheduler, not started yet, and its extender. `name` is for pods' schedulerName."""

    world: World
    name: str
    extender: Component
    file: Path

    async def start(self) -> None:
        """Start it with the ServiceAccount of the component and no other rights; return when it leads."""
        world, account = self.world, await self.world.cluster.kubeconfig_for_service_account(SYSTEM, OWN_NAME)
        content = yaml.safe_load(self.file.read_text()) | {"clientConnection": {"kubeconfig": str(account)}}
        self.file.write_text(yaml.safe_dump(content))
        command = [str(world.cluster.kubectl.resolve().with_name("kube-scheduler")), f"--config={self.file}"]
        command += [f"--{kind}-kubeconfig={account}" for kind in ("authentication", "authorization")]
        command += [f"--bind-address={LOOPBACK}", f"--secure-port={free_ports(1)[0]}", f"--cert-dir={self.file.parent}"]
        await world.cluster.start_component(f"{world.namespace}-second", command, self._leads)

    async def _leads(self) -> bool:
        lease = await self.world.admin.find("Lease", OWN_NAME, SYSTEM)
        return bool(lease and lease["spec"].get("holderIdentity"))


@pytest_asyncio.fixture
async def second(own_world: World) -> AsyncIterator[Second]:
    """What differs from the Deployment: it calls the extender by an address, because no Service leads to it here, and
    waits longer for it, because the machine may be busy.
    """
    world = own_world
    await apply_manifests(world.cluster, ("extender", COMPONENT))
    files = world.cluster.directory / f"{world.namespace}-second"
    files.mkdir()
    authority = Authority(files, datetime.now(UTC))
    address, health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(3))
    extender = await start_extender(world, authority, address, health, metrics)
    configuration = as_shipped(authority, address)
    (files / "config.yaml").write_text(yaml.safe_dump(configuration))
    yield Second(world, configuration["profiles"][0]["schedulerName"], extender, files / "config.yaml")
    await extender.stop()


def as_shipped(authority: Authority, address: str) -> Document:
    client = authority.client("kube-scheduler")
    text = FILE.read_text().replace("pvc-prebinder-extender.pvc-prebinder-system.svc", address)
    mounted = "/etc/kubernetes/extender/"
    for name, path in (("ca.crt", authority.certificate), ("tls.crt", client.certificate), ("tls.key", client.key)):
        text = text.replace(mounted + name, str(path))
    assert mounted not in text
    configuration: Document = yaml.safe_load(text.replace("httpTimeout: 500ms", "httpTimeout: 30s"))
    assert configuration["extenders"][0]["urlPrefix"] == f"https://{address}"
    return configuration


async def test_pods_of_both_schedulers_run_and_reservations_lead_the_second_one(second: Second) -> None:
    """Mode annotate writes nothing that a kube-scheduler alone heeds: by chance it would agree once in 3 ** 4."""
    world, name = second.world, second.name
    controller = await start_controller(world)
    disks = await world.storage_class("annotate")
    sizes = await sized_volumes(world, disks, PODS)
    for pod, size in sizes.items():
        await world.pod(pod, {f"{pod}-data": claim_spec(disks, size)}, extra={"schedulerName": name})
    reserved = await eventually(world.reserved, lambda reserved: len(reserved) == PODS, "all are reserved")
    await second.start()
    await world.pod("plain", {})
    await world.all_run(*sizes, "plain")
    assert await world.bound() == reserved
    schedulers = {pod: each["spec"]["schedulerName"] for pod, each in (await world.pods()).items()}
    assert schedulers == {**dict.fromkeys(sizes, name), "plain": "default-scheduler"}
    await controller.stop()


async def test_it_schedules_on_while_the_extender_is_gone(second: Second) -> None:
    world = second.world
    await second.extender.kill()
    await second.start()
    disks = await world.storage_class("off")
    await world.volumes(disks, *(world.volume(zone, disks, zone=zone) for zone in ZONES))
    await world.pod("app", {"data": claim_spec(disks)}, extra={"schedulerName": second.name})
    await world.all_run("app")
