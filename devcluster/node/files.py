"""Every configuration file of a real node: the settings of the kubelet, containerd, CNI and process 1, and why."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster.credentials import kubeconfig
from devcluster.credentials.certificates import Authority, KeyPair
from devcluster.node import images

NAME: Final = "node-1"
ZONE: Final = "zone-a"

# From the ranges for documentation: no real peer of the machine has these addresses.
ADDRESS: Final = "192.0.2.1"
_PODS: Final = "198.51.100.0/24"

SERVICE_ADDRESS: Final = "10.0.0.1"
"""The cluster address of the Service `kubernetes`; the node answers on it, so no kube-proxy is needed for that."""

_SERVICE_PORT: Final = 443
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
"""The name that pods of tests use too: holding a pod's namespaces can be all that a pod does."""

KUBELET_ROOT: Final = Path("/var/lib/kubelet")
"""Where CSI drivers expect it, as the node sees it; on the machine it is below the node's directory."""

VOLUMES: Final = Path("/var/lib/volumes")
"""Where the node has local volumes and those of drivers; on the machine it is `NodeFiles.volumes`."""

_STATE: Final[Mapping[str, str]] = {
    str(KUBELET_ROOT): "kubelet",
    str(VOLUMES): "volumes",
    "/var/lib/containerd": "containerd",
}


@dataclass(frozen=True)
class NodeFiles:
    """The files of a node, all in one directory below the cluster's."""

    directory: Path
    binaries: Mapping[str, Path]
    cgroup: str

    @property
    def containerd_socket(self) -> Path:
        return images.socket_in(self.directory)

    @property
    def server_socket(self) -> Path:
        """Leads to the API server, from inside the node."""
        return self.directory / "server.sock"

    @property
    def connect_socket(self) -> Path:
        """An HTTP proxy into the node's network, for the API server."""
        return self.directory / "connect.sock"

    @property
    def volumes(self) -> Path:
        return self.directory / "volumes"

    @property
    def plan(self) -> Path:
        return self.directory / "plan.json"

    @property
    def path(self) -> str:
        """PATH for the node's programs: containerd looks for its shim there, and the shim for runc."""
        return f"{self.binaries['containerd'].parent}:{os.environ.get('PATH', os.defpath)}"


def write(files: NodeFiles, python: str, authority: Authority) -> None:
    """Write the node's certificates and configuration."""
    directory = files.directory
    directory.mkdir()
    client = authority.client(f"system:node:{NAME}", ("system:nodes",))
    serving = authority.serving(NAME, (NAME,), (ADDRESS,))
    server = f"https://{SERVICE_ADDRESS}:{_SERVICE_PORT}"
    kubeconfig.write_for_certificate(directory / "kubelet.kubeconfig", server, authority.certificate, client)
    documents: dict[str, Any] = {
        "plan.json": plan(files, python),
        "kubelet.yaml": kubelet(files, authority.certificate, serving),
        "cni/10-pods.conflist": cni(),
        "egress.yaml": egress(files),
    }
    images.client_in(directory).symlink_to(files.binaries["ctr"])
    for name in ("cni", "static", "volumes"):
        (directory / name).mkdir()
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=2), encoding="utf-8")
    (directory / "containerd.toml").write_text(containerd(files), encoding="utf-8")


def plan(files: NodeFiles, python: str) -> dict[str, Any]:
    """Return the plan of process 1, see `inside`."""
    directory, binaries = files.directory, files.binaries
    relay = [python, "-I", "-S", str(Path(__file__).with_name("relay.py")), "inside", str(files.server_socket)]
    return {
        **arrangement(directory, files.cgroup),
        "socket": str(files.containerd_socket),
        "containerd": [str(binaries["containerd"]), "--config", str(directory / "containerd.toml")],
        "relay": [*relay, SERVICE_ADDRESS, str(_SERVICE_PORT), str(files.connect_socket)],
        "kubelet": [
            str(binaries["kubelet"]),
            f"--config={directory / 'kubelet.yaml'}",
            f"--kubeconfig={directory / 'kubelet.kubeconfig'}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
            f"--root-dir={KUBELET_ROOT}",
            f"--node-labels=topology.kubernetes.io/zone={ZONE}",
        ],
    }


def arrangement(directory: Path, cgroup: str) -> dict[str, Any]:
    """Return the part of the plan that is arranged before anything is started."""
    addresses = [ADDRESS, SERVICE_ADDRESS]
    return {"directory": str(directory), "state": dict(_STATE), "addresses": addresses, "cgroup": cgroup}


def kubelet(files: NodeFiles, authority: Path, serving: KeyPair) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{files.containerd_socket}",
        "staticPodPath": str(files.directory / "static"),
        # Machines without systemd as well, with either version of cgroups.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{files.cgroup}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # There is no iptables, no name server, and no route to anything outside.
        "makeIPTablesUtilChains": False,
        "clusterDNS": [],
        "resolvConf": "",
        # A full disk of the machine must neither evict pods nor remove the images, which cannot be pulled again.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "volumePluginDir": str(files.directory / "volume-plugins"),
        # Mounted volumes and terminated pods are noticed within moments: polling is cheap here.
        "nodeStatusUpdateFrequency": "4s",
    }


def containerd(files: NodeFiles) -> str:
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{files.containerd_socket}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.snapshotter.v1.overlayfs']
  # The end of a container does not wait for the disk.
  mount_options = ["volatile"]
[{runtime}]
  # Root in a container, or without CAP_SYS_RESOURCE, may not make a process less likely to be killed.
  restrict_oom_score_adj = true
[{runtime}.cni]
  bin_dirs = ["{files.binaries["bridge"].parent}"]
  conf_dir = "{files.directory / "cni"}"
[{runtime}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{runtime}.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def cni() -> dict[str, Any]:
    """Return the network of the pods: a bridge on which they reach each other and the node, and nothing else."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": _PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        # Lost at a boot, as the pods' networks are.
        "dataDir": "/run/cni",
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def egress(files: NodeFiles) -> dict[str, Any]:
    """Return how the API server reaches kubelet, pods and Services: for logs, exec and proxied requests."""
    uds = {"uds": {"udsName": str(files.connect_socket)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": uds}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


def apiserver_flags(files: NodeFiles, client: KeyPair, authority: Path) -> list[str]:
    """Return the API server's flags for a kubelet that it reaches; `client` is its client certificate for the
    kubelet.
    """
    return [
        "--allow-privileged",
        f"--egress-selector-config-file={files.directory / 'egress.yaml'}",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        f"--kubelet-certificate-authority={authority}",
        "--kubelet-preferred-address-types=InternalIP",
    ]
