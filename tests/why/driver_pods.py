"""Pods of drivers, as their manifests make them: a controller with sidecars, a node plugin, one without CSI."""

from collections.abc import Sequence
from typing import Any, Final

from tests.why.documents import DRIVER, Document, metadata, pod

SIDECARS: Final = ("csi-provisioner", "csi-attacher", "csi-resizer")
STORAGE: Final = "storage"


def container(name: str, *args: str, env: Sequence[tuple[str, str]] = ()) -> Document:
    variables = [{"name": key, "value": value} for key, value in env]
    return {"name": name, "image": f"registry.example/sig-storage/{name}:v6.3.0", "args": list(args), "env": variables}


def waiting(name: str, reason: str, restarts: int = 12, message: str = "") -> Document:
    """The status of a container that does not run."""
    return {"name": name, "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": message}}}


def workload(name: str, *containers: Document, namespace: str = STORAGE, **how: Any) -> Document:
    """A pod of a driver; `node` is where it runs, `per_node` whether a DaemonSet owns it, `status` is laid over."""
    owner = {"kind": "DaemonSet" if how.get("per_node") else "ReplicaSet", "name": "w", "uid": "w", "controller": True}
    made = pod(name, node=how.get("node", "a1"), status=how.get("status", {}), spec={"containers": list(containers)})
    return {**made, "metadata": metadata(name, namespace, ownerReferences=[owner])}


def controller(name: str, driver: str = "", **how: Any) -> Document:
    """A driver's controller: its own container, and the sidecars. Only `driver` is named in its arguments, if given."""
    own = container("plugin", *([f"--drivername={driver}"] if driver else []))
    return workload(name, own, *(container(each, "--csi-address=/csi/csi.sock") for each in SIDECARS), **how)


def node_plugin(name: str, driver: str, **how: Any) -> Document:
    path = f"--kubelet-registration-path=/var/lib/kubelet/plugins/{driver}/csi.sock"
    registrar = container("node-driver-registrar", "--csi-address=/csi/csi.sock", path)
    return workload(name, registrar, container("plugin"), per_node=True, **how)


CONTROLLER: Final = controller("example-csi-controller-7d4b9c6f5-x2x8p", DRIVER)
NODE_PLUGIN: Final = node_plugin("example-csi-node-x7k2p", DRIVER)
