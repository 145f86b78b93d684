"""Nodes for a cluster without kubelets: their resources and zones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_ZONES = ("zone-a", "zone-b", "zone-c")


@dataclass(frozen=True)
class NodeSpec:
    """A node to create. Quantities are written as in Kubernetes; taints are dicts of key, value and effect."""

    name: str
    zone: str
    cpu: str = "16"
    memory: str = "64Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    def manifest(self) -> dict[str, Any]:
        """Return the Node object, status included: the API server keeps the status of a node at its creation."""
        labels = {"kubernetes.io/hostname": self.name, "topology.kubernetes.io/zone": self.zone}
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels | dict(self.labels)},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": resources, "allocatable": resources},
        }


def spread(count: int, zones: tuple[str, ...] = DEFAULT_ZONES, prefix: str = "node") -> list[NodeSpec]:
    """Return that many nodes named prefix-1, prefix-2, ..., distributed over the zones in turn."""
    return [NodeSpec(f"{prefix}-{number + 1}", zones[number % len(zones)]) for number in range(count)]


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Whether the node is Ready and the not-ready taint, which every new node has, is removed."""
    conditions = node.get("status", {}).get("conditions", ())
    taints = node.get("spec", {}).get("taints", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) and not any(
        each["key"] == "node.kubernetes.io/not-ready" for each in taints
    )
