"""The real command `pvc-prebinder controller` as a process, with the rights of manifests/ and nothing more."""

import re
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from devcluster.cluster import DevCluster
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from soak.stage import rights
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.world import World

MANIFESTS: Final = Path(__file__).parents[3] / "manifests"
COMPONENTS: Final = ("complete", "holds", "scheduling-gate")
SYSTEM: Final = "pvc-prebinder-system"
ACCOUNT: Final = "pvc-prebinder"
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_numbers: Final = count(1)


class Controller:
    """One process. It keeps its ports, flags and log file over restarts."""

    def __init__(self, component: Component, health: str, metrics: str) -> None:
        self.component = component
        self._health, self._metrics = health, metrics

    @property
    def metrics_address(self) -> str:
        return self._metrics

    @property
    def pid(self) -> int:
        return self.component.pid

    async def kill(self) -> None:
        """SIGKILL. Its Lease stays as it is: see `release_lease`."""
        await self.component.kill()

    async def stop(self) -> None:
        await self.component.stop()

    async def start(self) -> None:
        await self.component.start()

    def pause(self) -> None:
        self.component.pause()

    def resume(self) -> None:
        self.component.resume()

    async def ready(self) -> bool:
        return await answers_ok(f"http://{self._health}/readyz")

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of that name with those labels; 0 if there are none."""
        return sum(
            value for metric, has, value in await self.samples() if metric == name and labels.items() <= has.items()
        )

    async def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """Return all samples it serves: name, labels, value."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self._metrics}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        matches = (_SAMPLE.match(line) for line in lines if not line.startswith("#"))
        return [(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])) for match in matches if match]

    def log(self) -> str:
        return self.component.log_path.read_text(encoding="utf-8", errors="replace")


async def start_controller(
    world: World,
    *flags: str,
    kubeconfig: Path | None = None,
    wait: bool = True,
) -> Controller:
    """Start a controller for this story alone: its own Lease and prefix, mode off but for the story's classes.

    Flags come last, so they win. It runs as the ServiceAccount of manifests/base, whose rights the fixture `rights`
    gave it, unless another kubeconfig is given.
    """
    cluster = world.cluster
    kubeconfig = kubeconfig or await account(cluster)
    await lease_rights(world.admin, world.namespace)
    health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    command: list[str | Path] = [sys.executable, "-m", "prebinder.cli", "controller", f"--kubeconfig={kubeconfig}"]
    command += ["--mode=off", f"--annotation-prefix={world.prefix}", f"--lease-namespace={world.namespace}"]
    command += [f"--metrics-bind-address={metrics}", f"--health-bind-address={health}", *flags]

    async def ready() -> bool:
        return not wait or await answers_ok(f"http://{health}/readyz")

    component = await cluster.start_component(f"controller-{next(_numbers)}", command, ready)
    return Controller(component, health, metrics)


async def account(cluster: DevCluster) -> Path:
    """Return a kubeconfig of the controller's ServiceAccount."""
    return await cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)


async def apply_manifests(cluster: DevCluster, components: Sequence[str] = COMPONENTS) -> None:
    """`kubectl apply -k manifests/base` with these components, without the Deployment: there are no images here."""
    await rights.apply(cluster, components)


async def lease_rights(admin: Admin, namespace: str) -> None:
    """Give the ServiceAccount in this namespace the rights that lease_role.yaml gives it in its own."""
    if await admin.find("Role", ACCOUNT, namespace):
        return
    text = (MANIFESTS / "base" / "lease_role.yaml").read_text()
    role, binding = yaml.safe_load_all(text)
    for document in (role, binding):
        document["metadata"]["namespace"] = namespace
    for subject in binding["subjects"]:
        subject["namespace"] = SYSTEM
    await admin.create(role, binding)


async def release_lease(world: World) -> None:
    """Do by hand what time does after a crash: the Lease of the dead is over, and the next may take it at once."""
    await world.admin.patch("Lease", ACCOUNT, {"spec": {"holderIdentity": ""}}, world.namespace)


def policies(component: str) -> list[Document]:
    """What the component adds to everything else it is used with."""
    files = sorted((MANIFESTS / "components" / component).glob("*.yaml"))
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [document for document in documents if document["kind"].startswith("ValidatingAdmission")]
