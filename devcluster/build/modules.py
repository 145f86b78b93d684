"""What is built: the Go modules under devcluster/go, the versions they pin, and the packages taken from each.

There is a control plane for each minor version of Kubernetes that has a directory there; PVC_PREBINDER_KUBERNETES
chooses another than the default.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from devcluster.errors import ClusterError

DEFAULT_KUBERNETES: Final = "1.37"
KUBERNETES_VARIABLE: Final = "PVC_PREBINDER_KUBERNETES"

_SOURCES: Final = Path(__file__).parents[1] / "go"
_CONTROL_PLANE: Final = "controlplane-"
_KUBERNETES: Final = re.compile(
    r"^\s*(?:require )?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)(?: // indirect)?$", re.MULTILINE
)


@dataclass(frozen=True)
class Module:
    """A Go module under devcluster/go and the packages built from it, by the name of the binary."""

    name: str
    packages: Mapping[str, str]
    linker_flags: str = "-s -w"

    @property
    def source(self) -> Path:
        return _SOURCES / self.name

    def only(self, names: Iterable[str]) -> Self:
        """Return the module with these binaries only."""
        chosen = frozenset(names)
        return replace(self, packages={name: path for name, path in self.packages.items() if name in chosen})

    def without(self, name: str) -> Self:
        """Return the module without this binary."""
        return self.only(self.packages.keys() - {name})


def control_plane(kubernetes: str | None = None) -> Module:
    """Return the control plane of a minor version of Kubernetes such as `1.36`, by default of the chosen one."""
    name = f"{_CONTROL_PLANE}{kubernetes or chosen_kubernetes()}"
    packages = {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    }
    return Module(name, packages, _kubernetes_flags(name))


def chosen_kubernetes() -> str:
    """Return the minor version that PVC_PREBINDER_KUBERNETES names, else the default; ClusterError if it has none."""
    chosen = os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    offered = kubernetes_versions()
    if chosen not in offered:
        raise ClusterError(f"{KUBERNETES_VARIABLE} is {chosen}; it must be one of {', '.join(offered)}")
    return chosen


def kubernetes_versions() -> list[str]:
    """Return the minor versions that can be built, the oldest first."""
    names = (directory.name.removeprefix(_CONTROL_PLANE) for directory in _SOURCES.glob(f"{_CONTROL_PLANE}*"))
    return sorted(names, key=minor_version)


def minor_version(kubernetes: str) -> tuple[int, ...]:
    """Return `1.36` as (1, 36), so that versions can be compared."""
    return tuple(map(int, kubernetes.split(".")))


def _kubernetes_flags(module: str) -> str:
    """Return linker flags with the version; without it the API server says v0.0.0, which clients and gates believe."""
    pinned = _KUBERNETES.search((_SOURCES / module / "go.mod").read_text(encoding="utf-8"))
    if pinned is None:
        raise ClusterError(f"devcluster/go/{module}/go.mod requires no k8s.io/kubernetes")
    version, major, minor = pinned.groups()
    of_component = "-X k8s.io/component-base/version"
    return f"-s -w {of_component}.gitVersion={version} {of_component}.gitMajor={major} {of_component}.gitMinor={minor}"


MOCK_DRIVER: Final = Module("mockcsi", {"mockcsi": "./"})
"""Pinned to Kubernetes 1.36, the last whose mock driver reports VolumeCondition: it stands for drivers that do."""

KWOK: Final = Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
NODE: Final = (
    Module("kubelet", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}, _kubernetes_flags("kubelet")),
    Module(
        "containerd",
        {
            "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
            "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "ctr": "github.com/containerd/containerd/v2/cmd/ctr",
        },
    ),
    Module(
        "node",
        {
            "bridge": "github.com/containernetworking/plugins/plugins/main/bridge",
            "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
            "loopback": "github.com/containernetworking/plugins/plugins/main/loopback",
            "pause": "./pause",
        },
    ),
)
"""What a real node runs, but for runc, which needs a C library to limit system calls."""

PROVISIONER: Final = Module(
    "provisioner", {"csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"}
)
"""Of the release before, which is for client-go of Kubernetes 1.36."""

SIDECARS: Final = (
    PROVISIONER,
    Module(
        "sidecars",
        {
            "csi-attacher": "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
            "csi-resizer": "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
            "csi-snapshotter": "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
            "snapshot-controller": "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
        },
    ),
)
"""What runs beside a CSI driver in most clusters, and the controller of VolumeSnapshots."""

KARPENTER: Final = Module("karpenter", {"karpenter": "./"})
"""An autoscaler: Karpenter with its provider kwok."""

SANITY: Final = Module("sanity", {"csi-sanity": "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"})
