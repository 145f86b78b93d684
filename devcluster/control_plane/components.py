"""The command line of every component: which flags, and why. Nothing here starts anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.credentials.certificates import KeyPair
from devcluster.node.files import NodeFiles, apiserver_flags
from devcluster.processes.ports import LOOPBACK
from devcluster.processes.reaper import cgroup_of

SERVICE_RANGE = "10.0.0.0/24"
STAGES = Path(__file__).with_name("stages.yaml")


@dataclass(frozen=True)
class Options:
    """The parts of a cluster and how its components are started.

    `flags` are added to a component's command line, where a later flag wins: keys are etcd, kube-apiserver,
    kube-controller-manager, kube-scheduler and kwok. `scheduler_configuration` is laid over the
    KubeSchedulerConfiguration (profiles, extenders, clientConnection with qps and burst). A real node runs containers
    (devcluster.node); kwok would simulate that node too, so they exclude each other. Without kubectl, which is only
    there for users, it need not be built.
    """

    controller_manager: bool = True
    scheduler: bool = True
    kwok: bool = True
    kubectl: bool = True
    real_node: bool = False
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    scheduler_configuration: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ready_nodes(self) -> bool:
        """Whether anything makes nodes ready and sends their heartbeats."""
        return self.kwok or self.real_node


@dataclass(frozen=True)
class Ports:
    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """The locations of a cluster's binaries, files and ports."""

    binaries: Mapping[str, Path]
    directory: Path
    ports: Ports
    authority: Path
    serving: KeyPair
    service_account_key: Path

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.apiserver}"

    @property
    def kubectl(self) -> Path:
        """A link to kubectl, in a directory of its own that can be put on PATH."""
        return self.directory / "bin" / "kubectl"

    @property
    def node(self) -> NodeFiles:
        """The files of a real node, if there is one."""
        return NodeFiles(self.directory / "node", self.binaries, cgroup_of(self.directory))

    @property
    def administrator(self) -> KeyPair:
        return KeyPair(self.authority.with_name("admin.crt"), self.authority.with_name("admin.key"))

    def kubeconfig(self, user: str) -> Path:
        return self.directory / f"{user}.kubeconfig"


def etcd(layout: Layout, options: Options) -> list[str]:
    client, peer = (_url("http", port) for port in (layout.ports.etcd, layout.ports.etcd_peer))
    return [
        str(layout.binaries["etcd"]),
        "--name=devcluster",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=devcluster={peer}",
        # The data survives a crash of etcd, not of the machine: waiting for the disk would dominate every write.
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
        *options.flags.get("etcd", ()),
    ]


def apiserver(layout: Layout, options: Options) -> list[str]:
    return [
        str(layout.binaries["kube-apiserver"]),
        f"--etcd-servers={_url('http', layout.ports.etcd)}",
        *_serving(layout, layout.ports.apiserver),
        f"--advertise-address={LOOPBACK}",
        # A loopback address is not a valid endpoint of the service "kubernetes", and nothing here uses that service.
        "--endpoint-reconciler-type=none",
        f"--client-ca-file={layout.authority}",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        # If nothing makes a node ready, the taint of new nodes would stay for ever.
        *([] if options.ready_nodes else ["--disable-admission-plugins=TaintNodesByCondition"]),
        *(apiserver_flags(layout.node, layout.administrator, layout.authority) if options.real_node else []),
        *_feature_gates(options),
        *options.flags.get("kube-apiserver", ()),
    ]


def controller_manager(layout: Layout, options: Options) -> list[str]:
    kubeconfig = layout.kubeconfig("controller-manager")
    return [
        str(layout.binaries["kube-controller-manager"]),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *_client_authentication(layout),
        *_serving(layout, layout.ports.controller_manager),
        f"--root-ca-file={layout.authority}",
        f"--service-account-private-key-file={layout.service_account_key}",
        "--leader-elect=false",
        # Without a heartbeat their pods would be evicted.
        *([] if options.ready_nodes else ["--controllers=*,-node-lifecycle-controller"]),
        # Simulated nodes do not fail. On a loaded machine, or after an outage of the API server, kwok renews their
        # Leases late; after the default of 50 s they would all be tainted as unreachable.
        *(["--node-monitor-grace-period=10m"] if options.kwok else []),
        *_feature_gates(options),
        *options.flags.get("kube-controller-manager", ()),
    ]


def scheduler(
    layout: Layout, options: Options, configuration: str = "scheduler.yaml", port: int | None = None
) -> list[str]:
    """`configuration` is the name of a file in the directory; a second scheduler has its own, and its own port."""
    kubeconfig = layout.kubeconfig("scheduler")
    return [
        str(layout.binaries["kube-scheduler"]),
        f"--config={layout.directory / configuration}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *_client_authentication(layout),
        *_serving(layout, port or layout.ports.scheduler),
        *_feature_gates(options),
        *options.flags.get("kube-scheduler", ()),
    ]


def scheduler_configuration(layout: Layout, options: Options) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration: a single scheduler, overridden by the caller's settings."""
    settings = dict(options.scheduler_configuration)
    connection = {"kubeconfig": str(layout.kubeconfig("scheduler"))}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **settings,
        "clientConnection": connection | settings.get("clientConnection", {}),
    }


def kwok(layout: Layout, options: Options) -> list[str]:
    return [
        str(layout.binaries["kwok"]),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={STAGES}",
        "--manage-all-nodes",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
        *options.flags.get("kwok", ()),
    ]


def _serving(layout: Layout, port: int) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
    ]


def _client_authentication(layout: Layout) -> list[str]:
    """Name the CA explicitly: looked up in the cluster it would cause a retry, and an error, every few seconds, because
    this API server has no front proxy to trust.
    """
    return [f"--client-ca-file={layout.authority}", "--authentication-skip-lookup"]


def _feature_gates(options: Options) -> list[str]:
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in options.feature_gates.items())
    return [f"--feature-gates={gates}"] if gates else []


def _url(scheme: str, port: int) -> str:
    return f"{scheme}://{LOOPBACK}:{port}"
