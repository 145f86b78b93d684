"""A control plane ready for a measurement: nodes, a class, volumes that are Available, and our controller."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import yaml

from bench.control_plane.audit import write_policy
from bench.control_plane.documents import NAMESPACE, Document, ready_node, storage_class, unusable_volume
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.lifted_limits import LIFTED_CONFIGURATION, LIFTED_FLAGS
from devcluster.control_plane.nodes import DEFAULT_ZONES, NodeSpec
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.client.reflector import ObjectHead
from kube.decoding.decode import decode_volume
from kube.objects.api_resource import NODES, STORAGE_CLASSES, VOLUMES, Resource

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
RIGHTS: Final = (
    "base/namespace.yaml",
    "base/service_account.yaml",
    "base/cluster_role.yaml",
    "base/lease_role.yaml",
    "components/complete/cluster_role.yaml",
    "components/scheduling-gate/cluster_role.yaml",
)
SYSTEM: Final = "pvc-prebinder-system"
ACCOUNT: Final = "pvc-prebinder"
AT_ONCE: Final = 32
"""Requests in flight while objects are created."""
NODE_COUNT: Final = 12

OURS: Final = {"level": "Metadata", "users": [f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"]}
"""A rule of an audit policy: the requests of our controller."""

_HEAD: Final = msgspec.json.Decoder(ObjectHead)
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$")


def options(*, lifted: bool, audit: Path | None, audited: Mapping[str, Any] = OURS) -> Options:
    """Return a cluster without kubelets, at the default client limits of its components or with them lifted."""
    flags: dict[str, list[str]] = {}
    if audit is not None:
        policy = write_policy(audit, audited)
        flags["kube-apiserver"] = [f"--audit-log-path={audit}", f"--audit-policy-file={policy}"]
    if not lifted:
        return Options(kwok=False, flags=flags)
    flags["kube-controller-manager"] = list(LIFTED_FLAGS)
    return Options(kwok=False, flags=flags, scheduler_configuration=LIFTED_CONFIGURATION)


class Controller:
    """Our controller as a process, with the rights of manifests/ and nothing more."""

    def __init__(self, component: Component, address: str) -> None:
        self._component = component
        self._address = address

    @property
    def pid(self) -> int:
        return self._component.pid

    async def stop(self) -> None:
        await self._component.stop()

    async def metrics(self) -> dict[tuple[str, str], float]:
        """Return what it counts: (name, labels as served) -> value."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self._address}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        samples = (_SAMPLE.match(line) for line in lines if not line.startswith("#"))
        return {(match[1], match[2] or ""): float(match[3]) for match in samples if match}

    async def total(self, name: str, label: str = "") -> float:
        """Return the sum of the samples of that name whose labels contain the text."""
        return sum(
            value for (metric, labels), value in (await self.metrics()).items() if metric == name and label in labels
        )


class Stage:
    """One control plane and an administrator's access to it."""

    def __init__(self, cluster: DevCluster, api: KubeApi) -> None:
        self.cluster = cluster
        self.api = api

    async def create_all(self, resource: Resource, documents: Iterable[Document]) -> None:
        """Create objects, several at once."""
        await in_parallel(self._create(resource, each) for each in documents)

    async def add_volumes(self, documents: Sequence[Document]) -> None:
        """Create volumes and make them Available, instead of the controller manager with its 20 requests a second.

        Returns when the controller manager binds again: one that begins beside a measurement would find claims bound
        to volumes already, and be spared its Event about each.
        """
        await self.cluster.controller_manager.stop()
        await in_parallel(self._create_available(each) for each in documents)
        await self.cluster.controller_manager.start()
        await self._controller_manager_works(unusable_volume(f"{documents[-1]['metadata']['name']}-unusable"))

    async def _controller_manager_works(self, document: Document) -> None:
        """Create this volume, and return when the controller manager has made it Available."""
        await self._create(VOLUMES, document)
        name = document["metadata"]["name"]
        while decode_volume(await self.api.get(VOLUMES, name)).phase != "Available":  # noqa: ASYNC110 - a GET has no event
            await asyncio.sleep(0.1)

    async def _create(self, resource: Resource, document: Document) -> msgspec.Raw:
        return await self.api.create(resource, document, document["metadata"].get("namespace", ""))

    async def _create_available(self, document: Document) -> None:
        created = _HEAD.decode(await self._create(VOLUMES, document)).metadata
        await self.api.conditional_patch(
            VOLUMES,
            created.name,
            {"status": {"phase": "Available"}},
            resource_version=created.resource_version,
            subresource="status",
        )

    async def _grant_rights(self) -> None:
        """Apply what `kubectl apply -k` would, except the Deployment: there are no images here."""
        documents = [
            document
            for name in RIGHTS
            for document in yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8"))
        ]
        for document in documents:
            for subject in document.get("subjects", ()):
                subject["namespace"] = SYSTEM
        command = [
            str(self.cluster.kubectl),
            f"--kubeconfig={self.cluster.kubeconfig}",
            "apply",
            f"--namespace={SYSTEM}",
        ]
        await asyncio.to_thread(
            subprocess.run,
            [*command, "-f", "-"],
            input=yaml.safe_dump_all(documents),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def start_controller(self, mode: str, *flags: str) -> Controller:
        """Start our controller and return when it holds the Lease."""
        await self._grant_rights()
        kubeconfig = await self.cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)
        address = f"{LOOPBACK}:{free_ports(1)[0]}"
        arguments = ["controller", f"--kubeconfig={kubeconfig}", f"--mode={mode}", f"--lease-namespace={SYSTEM}"]
        arguments += [f"--metrics-bind-address={address}", f"--health-bind-address={address}", *flags]
        component = await self.cluster.start_component(
            "pvc-prebinder",
            [sys.executable, "-m", "prebinder.cli", *arguments],
            lambda: answers_ok(f"http://{address}/readyz"),
        )
        controller = Controller(component, address)
        while not await controller.total("leader_election_master_status"):  # noqa: ASYNC110 - a page has no event
            await asyncio.sleep(0.1)
        return controller


async def in_parallel(steps: Iterable[Awaitable[object]], at_once: int = AT_ONCE) -> None:
    """Await all, so many at a time, begun in their order."""
    rest = iter(steps)

    async def work() -> None:
        for step in rest:
            await step

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(work())


def _node(number: int, room: int) -> Document:
    zone = DEFAULT_ZONES[number % len(DEFAULT_ZONES)]
    return ready_node(NodeSpec(f"node-{number}", zone, pods=room))


@asynccontextmanager
async def stage(
    *, lifted: bool = False, pods: int = 1000, audit: Path | None = None, audited: Mapping[str, Any] = OURS
) -> AsyncIterator[Stage]:
    """Yield a control plane with nodes for so many pods in three zones, our class and our namespace.

    `audit` is a file for the API server's log of the requests that match `audited`, a rule of an audit policy.
    """
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(DevCluster(options(lifted=lifted, audit=audit, audited=audited)))
        transport = await stack.enter_async_context(await connect(str(cluster.kubeconfig)))
        await cluster.create_namespace(NAMESPACE)
        ready = Stage(cluster, KubeApi(transport))
        await ready.create_all(NODES, [_node(number, room=2 * pods // NODE_COUNT + 10) for number in range(NODE_COUNT)])
        await ready.create_all(STORAGE_CLASSES, [storage_class()])
        yield ready
