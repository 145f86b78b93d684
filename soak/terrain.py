"""The objects of a soak: six nodes, five classes, a fixed set of names, all of it derived from numbers.

A name always means the same object: a pod that is recreated has the claims it had, a volume its zone and size. So
deleting and recreating under one name is the rule here, not the exception.
"""

from random import Random
from typing import Any, Final

Document = dict[str, Any]

NAMESPACE: Final = "soak"
PREFIX: Final = "scheduler.cloud.example/"
GATE: Final = PREFIX + "volumes"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
NODES: Final = tuple(f"node-{number}" for number in range(1, 7))
CLASSES: Final[dict[str, str]] = {
    **{"disks": "complete", "shares": "prebind", "local": "complete", "hints": "annotate"},
    "ranks": "prebind",
}
"""Class -> its initial mode."""
DRIVEN_CLASS: Final = "shares"
DRIVER: Final = "moody.csi.example"
"""The volumes of that class have a CSI driver which the controllers probe; those of the others have none."""
PODS: Final = 40
VOLUMES_OF_A_CLASS: Final = 14
_SIZES: Final = ("1Gi", "2Gi", "3Gi")
GROUPS: Final = 4
NODE_CPU: Final = "4"
_CPU: Final = ("10m", "500m", "1", "1", "2")
"""What pods request: more than the nodes have if most pods are there, so that room decides."""
OUR_SCHEDULER: Final = "zone-scheduler"
ABSENT_SCHEDULER: Final = "absent-scheduler"
"""A scheduler that never comes: once committed, its pods keep their room without a node."""

SET: Final = "db"
SET_TEMPLATES: Final = {"data": "1Gi", "log": "2Gi"}
SET_CLASS: Final = "ranks"
"""Local volumes, on each node one of each size: in a class that all pods use none would be left to be held."""
SET_REPLICAS: Final = 5
"""At most."""
_LOCAL: Final = frozenset({"local", SET_CLASS})
_OF_PODS: Final = tuple(name for name in CLASSES if name != SET_CLASS)
MAX_HELD: Final = 4
"""Volumes for the replicas to come in the namespace, by the controllers' flags."""


def stateful_set(replicas: int, hold: int) -> Document:
    """The set: its claims go when it is scaled down, so that volumes are held for the same replicas again."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        # No CPU, of which the other pods leave none: where its volumes are, the set's pods fit.
        "resources": {"requests": {"memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": NAMESPACE, "name": SET, "annotations": {PREFIX + "hold-replicas": str(hold)}},
        "spec": {
            "replicas": replicas,
            "serviceName": SET,
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "selector": {"matchLabels": {"set": SET}},
            "template": {
                "metadata": {"labels": {"set": SET}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
            "volumeClaimTemplates": [
                {"metadata": {"name": name}, "spec": _claim(name, SET_CLASS, size)["spec"]}
                for name, size in SET_TEMPLATES.items()
            ],
        },
    }


def set_claims(ordinal: int) -> list[str]:
    """The names of a replica's claims."""
    return [f"{template}-{SET}-{ordinal}" for template in SET_TEMPLATES]


POOL_CLASS: Final = "pools"
POOL_DRIVER: Final = "pools.csi.example"
POOL_GI: Final = 8
"""On each node, for volumes that are made when a node is selected for their claim."""
POOL_PODS: Final = 14
"""Their claims are more than the pools hold if most of them are there."""


def pool_driver() -> list[Document]:
    """The class, its driver, and the driver's plugin on each node."""
    about = {"apiVersion": "storage.k8s.io/v1"}
    marks = {PREFIX + "mode": "provision", PREFIX + "topology": "strict"}
    storage_class = {"metadata": {"name": POOL_CLASS, "annotations": marks}, "provisioner": POOL_DRIVER}
    spec = {"attachRequired": False, "storageCapacity": True}
    documents: list[Document] = [
        {**about, "kind": "CSIDriver", "metadata": {"name": POOL_DRIVER}, "spec": spec},
        {**about, "kind": "StorageClass", **storage_class, "volumeBindingMode": "WaitForFirstConsumer"},
    ]
    for node in NODES:
        entry = {"name": POOL_DRIVER, "nodeID": node, "topologyKeys": [HOSTNAME]}
        documents.append({**about, "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [entry]}})
    return documents


def pool_pod_name(number: int) -> str:
    return f"made-{number}"


def pool_claims(number: int) -> list[Document]:
    """One to three claims of 1 to 4 Gi."""
    throw = Random(3000 + number)
    sizes = [throw.choice(("1Gi", "2Gi", "3Gi", "4Gi")) for _ in range(throw.choice((1, 2, 2, 3)))]
    return [_claim(f"{pool_pod_name(number)}-{index}", POOL_CLASS, size) for index, size in enumerate(sizes)]


def pool_pod(number: int, *, gated: bool) -> Document:
    """A pod that requests no CPU, so that storage decides where it goes."""
    claims = [claim["metadata"]["name"] for claim in pool_claims(number)]
    spec: Document = {
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in claims],
                "resources": {"requests": {"memory": "16Mi"}},
            }
        ],
        "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
        "terminationGracePeriodSeconds": 0,
        **({"schedulingGates": [{"name": GATE}]} if gated else {}),
    }
    metadata = {"namespace": NAMESPACE, "name": pool_pod_name(number), "labels": {"app": pool_pod_name(number)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def storage_class(name: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {PREFIX + "mode": CLASSES[name]}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume_name(class_name: str, number: int) -> str:
    return f"{class_name}-{number}"


def volumes() -> list[tuple[str, int]]:
    counts = dict.fromkeys(CLASSES, VOLUMES_OF_A_CLASS) | {SET_CLASS: len(_SIZES) * len(NODES)}
    return [(name, number) for name, count in counts.items() for number in range(count)]


def driven_volumes() -> list[str]:
    return [volume_name(name, number) for name, number in volumes() if name == DRIVEN_CLASS]


def segment(number: int) -> dict[str, str]:
    """Where a volume that is not local is accessible; empty: everywhere."""
    return {} if number % 8 == 7 else {ZONE: ZONES[number % len(ZONES)]}


def volume(class_name: str, number: int) -> Document:
    """A volume of 1 to 3 Gi; a local one on a node, one in eight of the others accessible everywhere, the rest in a
    zone.
    """
    name = volume_name(class_name, number)
    size = number // len(NODES) if class_name == SET_CLASS else number
    spec: Document = {
        "capacity": {"storage": _SIZES[size % len(_SIZES)]},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": class_name,
        "csi": {"driver": DRIVER if class_name == DRIVEN_CLASS else "none.csi.example", "volumeHandle": name},
    }
    if class_name in _LOCAL:
        spec["nodeAffinity"] = _only(HOSTNAME, NODES[number % len(NODES)])
    elif place := segment(number):
        spec["nodeAffinity"] = _only(ZONE, place[ZONE])
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def pod_name(number: int) -> str:
    return f"pod-{number}"


def is_ephemeral(number: int) -> bool:
    """Whether Kubernetes creates the pod's claims and deletes them with it (generic ephemeral volumes)."""
    return number % 8 == 5


def waits_for_ever(number: int) -> bool:
    """Whether the pod has a scheduler that never comes. It requests half a node."""
    return number % 4 == 2


def _rivals_the_set(number: int) -> bool:
    """Whether the pod uses the class of the StatefulSet: it competes for the volumes that are held."""
    return number % 13 == 7


def _cpu(number: int) -> str:
    return "2" if waits_for_ever(number) else Random(2000 + number).choice(_CPU)


def claims(number: int) -> list[Document]:
    """The claims of a pod: one to three, mostly of one class. Also those that Kubernetes creates for it.

    One pod in ten shares its first claim with the pod before it.
    """
    throw = Random(number)
    main = SET_CLASS if _rivals_the_set(number) else throw.choice(_OF_PODS)
    count = throw.choice((1, 1, 2, 2, 2, 3))
    documents = []
    for index in range(count):
        other = index > 0 and throw.random() < 0.25
        class_name = throw.choice(_OF_PODS) if other else main
        if index == 0 and number % 10 == 9 and not is_ephemeral(number):
            documents.append(claims(number - 1)[0])
            continue
        documents.append(_claim(f"{pod_name(number)}-{index}", class_name, throw.choice(("1Gi", "1Gi", "2Gi", "3Gi"))))
    return documents


def pod(number: int, *, gated: bool) -> Document:
    """A pod that mounts its claims. Some have anti-affinity to others of their group, some name another
    scheduler."""
    throw = Random(1000 + number)
    name = pod_name(number)
    mounts = [_mounted(name, claim)["name"] for claim in claims(number)]
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in mounts],
        "resources": {"requests": {"cpu": _cpu(number), "memory": "16Mi"}},
    }
    spec: Document = {
        "containers": [container],
        "volumes": [_mounted(name, claim) for claim in claims(number)],
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": name}
    if throw.random() < 0.3:
        labels["group"] = f"group-{throw.randrange(GROUPS)}"
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"group": labels["group"]}}}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    if waits_for_ever(number):
        spec["schedulerName"] = ABSENT_SCHEDULER
    elif throw.random() < 0.25:
        spec["schedulerName"] = OUR_SCHEDULER
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    metadata = {"namespace": NAMESPACE, "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _mounted(pod: str, claim: Document) -> Document:
    name = claim["metadata"]["name"]
    if is_ephemeral(int(pod.rpartition("-")[2])):
        # Kubernetes names the claim POD-VOLUME.
        own = name.removeprefix(f"{pod}-")
        return {"name": own, "ephemeral": {"volumeClaimTemplate": {"spec": claim["spec"]}}}
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def _claim(name: str, class_name: str, size: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        },
    }


def _only(key: str, value: str) -> Document:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {"required": {"nodeSelectorTerms": terms}}
