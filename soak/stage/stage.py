"""A control plane with everything on it: two controllers with networks of their own, the scheduler, volumes, rights."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import NodeSpec, spread
from devcluster.credentials import kubeconfig
from devcluster.processes.ports import LOOPBACK, free_ports
from soak import terrain
from soak.schedule import Setting
from soak.stage import rights
from soak.stage.client import Client, Document
from soak.stage.driver import DRIVER_RECORD, PROBE_FLAGS, MoodyDriver, start_driver
from soak.stage.gateway import Gateway, gateway_to
from soak.stage.network import Network, network_to
from soak.stage.operator import Operator, appointed
from soak.stage.pools import Pools, start_pools
from soak.stage.recorder import FLAGS, Recorder, recording
from soak.stage.replica import Replica
from soak.stage.rights import SYSTEM

_TOKENS: Final = 60
"""More starts than a process has in half an hour."""
_AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "namespaces": ["kube-node-lease", "kube-system"]},
        {"level": "Metadata", "resources": [{"group": "", "resources": ["events", "serviceaccounts/token"]}]},
        {"level": "Metadata", "resources": [{"group": "events.k8s.io"}]},
        {
            "level": "RequestResponse",
            "resources": [
                {
                    "group": "",
                    "resources": [
                        "persistentvolumes",
                        "persistentvolumes/status",
                        "persistentvolumeclaims",
                        "persistentvolumeclaims/status",
                        "pods",
                        "pods/*",
                    ],
                },
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "storage.k8s.io", "resources": ["storageclasses"]},
            ],
        },
        {"level": "Metadata"},
    ],
}


@dataclass(slots=True)
class Stage:
    """Everything that runs, for the code that uses it and the code that disturbs it."""

    cluster: DevCluster
    client: Client
    recorder: Recorder
    replicas: tuple[Replica, ...]
    networks: tuple[Network, ...]
    gateways: tuple[Gateway, ...]
    schedulers: tuple[Replica, ...]
    nodes: dict[str, Document]
    audit_log: Path
    driver: MoodyDriver | None
    operator: Operator
    pools: Pools | None = None

    @property
    def processes(self) -> tuple[Replica, ...]:
        """All processes of ours."""
        return (*self.replicas, *self.schedulers)


@asynccontextmanager
async def staged(setting: Setting, directory: Path, *, processes: bool = True) -> AsyncIterator[Stage]:
    """Start everything and yield when volumes exist and the replicas have been started; files go below `directory`.

    Without `processes` nothing of ours runs, and no admission policy restricts our credentials.
    """
    policy, audit = directory / "audit-policy.json", directory / "audit.log"
    policy.write_text(json.dumps(_AUDIT), encoding="utf-8")
    flags = [*FLAGS, f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]
    # kwok's nodes have no heartbeat: without this each would be lost for a moment every 50 s, and nothing would settle.
    patience = ["--node-monitor-grace-period=24h"]
    options = Options(flags={"kube-apiserver": flags, "kube-controller-manager": patience})
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(DevCluster(options))
        etcd = next(word for word in cluster.etcd.command if word.startswith("--listen-client-urls="))
        recorder = await stack.enter_async_context(recording(etcd.partition("=")[2], directory / "history.jsonl"))
        client = await stack.enter_async_context(Client(cluster.server, cluster.trust))
        components = (*rights.COMPONENTS, rights.LIMITS) if processes else rights.COMPONENTS
        nodes = [replace(node, cpu=terrain.NODE_CPU) for node in spread(len(terrain.NODES))]
        await _terrain(cluster, client, nodes, components)
        gateways = [await stack.enter_async_context(_gateway(cluster)) for _ in setting.skews]
        networks = [await stack.enter_async_context(network_to(gateway.address)) for gateway in gateways]
        driver: MoodyDriver | None = None
        replicas: tuple[Replica, ...] = ()
        schedulers: tuple[Replica, ...] = ()
        if processes:
            driver = await start_driver(cluster, directory / DRIVER_RECORD)
            stack.callback(driver.close)
            replicas = await _controllers(cluster, client, networks, setting, driver)
            schedulers = (await _scheduler(cluster, client),)
        yield Stage(
            cluster,
            client,
            recorder,
            replicas,
            tuple(networks),
            tuple(gateways),
            schedulers,
            {node.name: node.manifest() for node in nodes},
            audit,
            driver,
            await appointed(cluster, client, directory / "replace.log"),
            await start_pools(cluster, client) if setting.pools else None,
        )


def _gateway(cluster: DevCluster) -> AbstractAsyncContextManager[Gateway]:
    certificates = cluster.directory / "certificates"
    trust = ssl.create_default_context(cafile=certificates / "ca.crt")
    serving = certificates / "serving.crt"
    return gateway_to(cluster.server, trust, serving, serving.with_suffix(".key"))


def controller_flags(number: int, setting: Setting) -> list[str]:
    """Return the flags in which replicas differ."""
    flags = [f"--reservation-ttl={setting.reservation_ttl}"]
    if setting.sets:
        flags += ["--hold-volumes", "--hold-max-share=1", f"--hold-max-per-namespace={terrain.MAX_HELD}"]
    if setting.quarantine:
        flags.append("--quarantine")
    if setting.slow_replica == number:
        # One request a second widens every window between a read and a write.
        flags += ["--kube-api-qps=1", "--kube-api-burst=1"]
    return flags


async def _terrain(cluster: DevCluster, client: Client, nodes: Sequence[NodeSpec], components: Sequence[str]) -> None:
    await cluster.add_nodes(nodes)
    await asyncio.gather(rights.apply(cluster, components), cluster.create_namespace(terrain.NAMESPACE))
    for name in terrain.CLASSES:
        await client.create(terrain.storage_class(name))
    await asyncio.gather(*(client.create(terrain.volume(*each)) for each in terrain.volumes()))


async def _controllers(
    cluster: DevCluster, client: Client, networks: Sequence[Network], setting: Setting, driver: MoodyDriver
) -> tuple[Replica, ...]:
    probed = [f"--csi-endpoint={driver.endpoint}", *PROBE_FLAGS]
    numbered = enumerate(networks)
    return tuple([await _controller(cluster, client, each, at.address, setting, probed) for each, at in numbered])


async def _controller(
    cluster: DevCluster, client: Client, number: int, server: str, setting: Setting, probed: list[str]
) -> Replica:
    skew = setting.skews[number]
    program = ["-m", "soak.stage.skewed_replica", str(skew)] if skew else ["-m", "prebinder.cli", "controller"]
    renew = await _tokens(cluster, client, f"replica-{number}", "pvc-prebinder", server)
    flags = ["--mode=annotate", *probed, *controller_flags(number, setting)]
    return await _process(cluster, f"controller-{number}", [*program, *flags], renew)


async def _scheduler(cluster: DevCluster, client: Client) -> Replica:
    renew = await _tokens(cluster, client, "scheduler-replica", "pvc-prebinder-scheduler", cluster.server)
    flags = [f"--name={terrain.OUR_SCHEDULER}", "--lease-name=pvc-prebinder-scheduler"]
    return await _process(cluster, "scheduler-0", ["-m", "prebinder.cli", "scheduler", *flags], renew)


async def _process(cluster: DevCluster, name: str, arguments: list[str], renew: Callable[[], Path]) -> Replica:
    health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    command: list[str | Path] = [sys.executable, *arguments, f"--kubeconfig={renew()}", f"--lease-namespace={SYSTEM}"]
    command += [f"--metrics-bind-address={metrics}", f"--health-bind-address={health}"]

    async def started() -> bool:
        return True

    replica = Replica(await cluster.start_component(name, command, started), metrics, renew)
    replica.wanted = True
    return replica


async def _tokens(cluster: DevCluster, client: Client, name: str, account: str, server: str) -> Callable[[], Path]:
    """Return a function that writes a kubeconfig with the account's next token. Created in advance: the API server may
    be unavailable.
    """
    tokens = await asyncio.gather(*(client.token(SYSTEM, account) for _ in range(_TOKENS)))
    numbers = count()
    authority = cluster.directory / "certificates" / "ca.crt"

    def renew() -> Path:
        token = tokens[next(numbers) % len(tokens)]
        return kubeconfig.write_for_token(cluster.directory / f"{name}.kubeconfig", server, authority, token)

    return renew
