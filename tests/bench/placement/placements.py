"""Small clusters in plain JSON, right in every respect, in which tests plant one mistake."""

from typing import Any

from bench.placement.cluster import Cluster

Document = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(name: str, zone: str = "a", **spec: Any) -> Document:
    """A ready node of 4 cpu, 8Gi and 10 pods."""
    return {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone, "size": "4"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, on: str = "n1", *, labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A pod in namespace `ns` with one container of 1 cpu; `spec` is laid over its own."""
    return {
        "metadata": {"namespace": "ns", "name": name, "labels": labels or {}},
        "spec": {"nodeName": on, "containers": [container()], **spec},
        "status": {"phase": "Running"},
    }


def container(cpu: str = "1", **more: Any) -> Document:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}, **more}


def on_port(number: int, address: str = "") -> Document:
    return container(cpu="0", ports=[{"containerPort": number, "hostPort": number, "hostIP": address}])


def using(*claims: str) -> list[Document]:
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]


def claim(name: str, volume: str = "", **spec: Any) -> Document:
    wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {**wanted, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume, **spec},
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(name: str, claim: str = "", zone: str = "a", **spec: Any) -> Document:
    """A CSI volume of 1Gi in a zone, for this claim."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    reference = {"claimRef": {"namespace": "ns", "name": claim, "uid": f"uid-{claim}"}} if claim else {}
    return {
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "disks", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **reference,
            **spec,
        },
    }


def csi_node(name: str, volumes: int) -> Document:
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": "disks", "allocatable": {"count": volumes}}]}}


def with_two_nodes(*pods: Document, **more: Any) -> Cluster:
    """n1 in zone a and n2 in zone b."""
    namespaces = [{"metadata": {"name": "ns", "labels": {"team": "one"}}}]
    return Cluster(**{"nodes": [node("n1"), node("n2", "b")], "pods": pods, "namespaces": namespaces, **more})


def near(key: str = ZONE, **labels: str) -> Document:
    """A term of (anti-)affinity to pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def wants(kind: str, *terms: Document) -> Document:
    """The affinity of a pod: `kind` is podAffinity or podAntiAffinity."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def by_node(*expressions: tuple[str, str, list[str]], field: str = "matchExpressions") -> Document:
    """Required node affinity with one term."""
    match_expressions = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{field: match_expressions}]}
        }
    }


def spread(key: str = ZONE, skew: int = 1, **more: Any) -> list[Document]:
    rule = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}, **more}]


def at(pod: Document, moment: str) -> Document:
    """The pod, placed at that time."""
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
    return {**pod, "status": {"phase": "Running", "conditions": [placed]}}
