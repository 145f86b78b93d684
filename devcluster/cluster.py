"""A whole control plane: certificates, etcd, API server, controller manager, scheduler, and kwok instead of
kubelets.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from devcluster.build.binaries import ensure
from devcluster.build.modules import KWOK, MOCK_DRIVER, NODE, SIDECARS, Module, control_plane
from devcluster.control_plane import components
from devcluster.control_plane.api import Api
from devcluster.control_plane.assembly import administrator_trust, assemble, prepare
from devcluster.control_plane.components import Layout, Options
from devcluster.control_plane.nodes import NodeSpec, is_schedulable
from devcluster.credentials import kubeconfig
from devcluster.driver.generation import Generation
from devcluster.driver.process import Driver, directory_driver, mock_driver
from devcluster.driver.sidecars import sidecar
from devcluster.errors import AddressInUseError, ClusterError
from devcluster.node import prerequisites
from devcluster.node.real_node import RealNode, relay_outside
from devcluster.processes.component import Component, Probe
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from devcluster.processes.state import State, new_directory

_ATTEMPTS = 4
_NODES_READY_SECONDS = 60.0
_CONTROLLERS_SECONDS = 60.0
_TOKEN_SECONDS = 24 * 3600


class DevCluster:
    """A control plane in one directory, on loopback. Use it as an async context manager, or `start` and `stop`.

    Nothing of it survives its owner process, and the directory is removed when it stops. Components can be stopped,
    killed, paused and restarted individually; they keep their ports and their data.
    """

    etcd: Component
    apiserver: Component
    controller_manager: Component
    scheduler: Component
    kwok: Component
    node: RealNode

    def __init__(self, options: Options | None = None, directory: Path | None = None) -> None:
        """Prepare a cluster; by default complete and in a temporary directory."""
        self.options = options or Options()
        self._requested = directory
        self._state: State | None = None
        self._layout: Layout | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def directory(self) -> Path:
        """The directory that holds all of it: certificates, kubeconfigs, data, sockets and logs."""
        return self._running_state().directory

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, with a client certificate."""
        return self._running_layout().kubeconfig("admin")

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._running_layout().server

    @property
    def kubectl(self) -> Path:
        """The kubectl built with the cluster."""
        return self._running_layout().kubectl

    async def run_kubectl(self, *arguments: str, given: str = "") -> str:
        """Run kubectl as the administrator with this on its standard input; return what it prints.

        Raises ClusterError with its complaint.
        """
        process = await asyncio.create_subprocess_exec(
            self.kubectl,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig)},
        )
        printed, complaint = await process.communicate(given.encode())
        if process.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {complaint.decode()}")
        return printed.decode()

    async def start(self) -> None:
        """Build what is missing, start everything and return when it is ready; ClusterError has the reason of a
        failure.
        """
        if self.options.real_node:
            prerequisites.require(prerequisites.PROGRAMS)
        programs = await asyncio.to_thread(ensure, modules(self.options))
        for attempt in range(_ATTEMPTS):
            self._state = State(self._requested or new_directory())
            try:
                await self._start_in(self._state, programs)
            except AddressInUseError:
                await self.stop()
                if attempt == _ATTEMPTS - 1:
                    raise
            except BaseException:
                await self.stop()
                raise
            else:
                return

    async def stop(self) -> None:
        """End every process and remove the directory. It is safe to call twice."""
        state, self._state, self._layout = self._state, None, None
        if state is not None:
            await asyncio.to_thread(state.release)

    def components(self) -> list[Component]:
        """Return the control plane's components in the order they are started."""
        names = ["etcd", "apiserver"]
        names += [name for name in ("controller_manager", "scheduler", "kwok") if getattr(self.options, name)]
        return [getattr(self, name) for name in names]

    @property
    def trust(self) -> ssl.SSLContext:
        """TLS settings that trust this cluster only and come with the administrator's certificate."""
        return administrator_trust(self._running_layout())

    def api(self) -> Api:
        """Return a client with an administrator's rights, to be used as an async context manager."""
        return Api(self.server, self.trust)

    async def add_nodes(self, nodes: Sequence[NodeSpec]) -> None:
        """Create nodes and, if kwok runs, return when pods can be scheduled on all of them."""
        async with self.api() as api:
            await api.create_all("/api/v1/nodes", (node.manifest() for node in nodes))
            if not self.options.kwok:
                return
            try:
                async with asyncio.timeout(_NODES_READY_SECONDS):
                    while waiting := await self._not_schedulable(api, nodes):  # noqa: ASYNC110 - there is no event
                        await asyncio.sleep(0.1)
            except TimeoutError:
                raise ClusterError(f"nodes not ready within {_NODES_READY_SECONDS:.0f} s: {waiting}") from None

    async def create_namespace(self, name: str) -> None:
        """Create a namespace and return when pods can be created in it, which takes its default service account."""
        async with self.api() as api:
            await api.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        await self._service_account_exists(name)

    async def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a fresh token of this service account, valid for a day, and return its path."""
        layout = self._running_layout()
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        async with self.api() as api:
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
            answer = await api.create(path, body)
        file = layout.kubeconfig(f"{namespace}-{name}")
        return kubeconfig.write_for_token(file, layout.server, layout.authority, answer["status"]["token"])

    async def start_mock_driver(self, name: str, volumes: int = 3) -> Driver:
        """Start the CSI mock driver of Kubernetes' end-to-end tests, with volumes of ids "1" to that number."""
        binary = (await asyncio.to_thread(ensure, [MOCK_DRIVER]))["mockcsi"]
        driver = mock_driver(binary, name, volumes, self._running_state(), self.directory)
        await driver.start()
        return driver

    async def start_driver(
        self,
        name: str,
        root: Path | None = None,
        topology: Mapping[str, str] | None = None,
        generation: Generation = Generation.CONDITION,
        capacity: int | None = None,
        flags: Sequence[str] = (),
    ) -> Driver:
        """Start the directory-backed CSI driver; its volumes live below `root`, by default in this directory.

        `capacity` is the size of all volumes together, in bytes, None for no limit; `flags` are more of its flags.
        """
        root = root or self.directory / f"volumes-{name}"
        root.mkdir(parents=True, exist_ok=True)
        given = [f"--generation={generation}", *([] if capacity is None else [f"--capacity={capacity}"]), *flags]
        driver = directory_driver(name, root, topology or {}, self._running_state(), self.directory, given)
        await driver.start()
        return driver

    async def start_sidecar(self, program: str, *flags: str, driver: Driver | None = None) -> Component:
        """Start a sidecar of a CSI driver, such as csi-provisioner, or the snapshot-controller, which has no driver."""
        module = next(module for module in SIDECARS if program in module.packages)
        binary = (await asyncio.to_thread(ensure, [module]))[program]
        component = sidecar(binary, flags, driver, self.kubeconfig, self._running_state(), self.directory)
        await component.start()
        return component

    async def start_scheduler(self, name: str, configuration: Mapping[str, Any]) -> Component:
        """Start another kube-scheduler beside the first, for pods that name it; `configuration` as in Options."""
        layout, options = self._running_layout(), replace(self.options, scheduler_configuration=configuration)
        profiles = {"profiles": [{"schedulerName": name}]}
        file, port = f"{name}.yaml", free_ports(1)[0]
        content = profiles | components.scheduler_configuration(layout, options)
        (self.directory / file).write_text(json.dumps(content), encoding="utf-8")
        command = components.scheduler(layout, options, file, port)
        url = f"https://{LOOPBACK}:{port}/readyz"
        return await self.start_component(name, command, lambda: answers_ok(url, self.trust))

    async def start_component(self, name: str, command: Sequence[str | Path], probe: Probe) -> Component:
        """Start another process beside the cluster, such as the controller; it logs to NAME.log and ends with the
        cluster.
        """
        component = Component(name, command, owner=self._running_state(), directory=self.directory, probe=probe)
        await component.start()
        return component

    async def _start_in(self, state: State, binaries: Mapping[str, Path]) -> None:
        layout = await asyncio.to_thread(prepare, state.directory, binaries, self.options)
        self._layout = layout
        for name, component in assemble(layout, self.options, state, self.trust).items():
            setattr(self, name, component)
        await self.etcd.start()
        await self.apiserver.start()
        others = (component.start() for component in self.components()[2:])
        # Not a task group: the caller needs the error of the first component that failed, not a group of them.
        for outcome in await asyncio.gather(*others, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        if self.options.controller_manager:
            # The first result of the controllers that others wait for; their health check reports ready before it.
            await self._service_account_exists("default")
        if self.options.real_node:
            await self._start_node(layout, state)

    async def _start_node(self, layout: Layout, state: State) -> None:
        await relay_outside(layout.node, layout.ports.apiserver, state, state.directory).start()
        self.node = RealNode(layout.node, self._schedulable, state, state.directory)
        await self.node.start()

    async def _schedulable(self, name: str) -> bool:
        async with self.api() as api:
            nodes = (await api.get("/api/v1/nodes"))["items"]
        return any(node["metadata"]["name"] == name and is_schedulable(node) for node in nodes)

    async def _not_schedulable(self, api: Api, nodes: Sequence[NodeSpec]) -> list[str]:
        answer = await api.get("/api/v1/nodes")
        ready = {node["metadata"]["name"] for node in answer["items"] if is_schedulable(node)}
        return [node.name for node in nodes if node.name not in ready]

    async def _service_account_exists(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
        async with self.api() as api, asyncio.timeout(_CONTROLLERS_SECONDS):
            while not (await api.get(path))["items"]:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.05)

    def _running_state(self) -> State:
        if self._state is None:
            raise ClusterError("the cluster is not running")
        return self._state

    def _running_layout(self) -> Layout:
        if self._layout is None:
            raise ClusterError("the cluster is not running")
        return self._layout


def modules(options: Options) -> list[Module]:
    """Return the modules needed for a cluster with these options."""
    plane = control_plane() if options.kubectl else control_plane().without("kubectl")
    kwok, node = [KWOK] if options.kwok else [], NODE if options.real_node else ()
    return [plane, *kwok, *node]
