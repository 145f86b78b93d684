"""A generated cluster: nodes in zones, volumes in the zones, and pods of all kinds, the same for the same seed.

The pods request some 70 % of the cluster's cores, none more than half a small node. One in ten has topology spread over
zones, one in twenty anti-affinity to its app, one in twenty a selector for fast disks. As long as there are volumes,
every other pod has a claim or two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from string import ascii_lowercase
from typing import Final

from kube.objects.constraints import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import (
    NO_PROVISIONER,
    READ_WRITE_ONCE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Node,
    Pod,
    PodClaim,
    Record,
    StorageClass,
    Taint,
    Toleration,
    Volume,
)
from kube.rules.quantity import NANO
from kube.rules.topology import ZONE_LABEL

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_HOSTNAME: Final = "kubernetes.io/hostname"
_CLASS: Final = "zonal"
_GI: Final = 1 << 30
_DEMAND: Final = 0.7
_NODE_SIZES: Final = (8, 16, 16, 32)
_MAX_REQUEST: Final = min(_NODE_SIZES) * NANO // 2
_SIZES: Final = (10, 20, 50, 100)
_MAX_APP_PODS: Final = 40


@dataclass(frozen=True, slots=True)
class Workload:
    """Its size. Volumes are in the zone of their node and accessible from the whole zone."""

    nodes: int = 16
    pods: int = 2000
    zones: int = 3
    volumes_per_node: int = 2


def workload(size: Workload, seed: int) -> list[Record]:
    """Return all objects, no pod placed yet."""
    random = Random(seed)
    nodes = list(_nodes(size, random))
    volumes = list(_volumes(size, nodes, random))
    pods = list(_pods(size, nodes, len(volumes), random))
    claims = [_claim(pod.namespace, used.name, random) for pod in pods for used in pod.claims]
    storage_class = StorageClass(_CLASS, "uid-zonal", 1, NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER)
    return [storage_class, *nodes, *volumes, *claims, *pods]


def zone_name(number: int) -> str:
    """Return zone-a, zone-b, ... and after zone-z zone-26."""
    return f"zone-{ascii_lowercase[number] if number < len(ascii_lowercase) else number}"


def _nodes(size: Workload, random: Random) -> Iterator[Node]:
    most_pods = max(110, size.pods * 5 // (4 * max(1, size.nodes)))
    for number in range(size.nodes):
        name, cpus = f"node-{number + 1:05}", random.choice(_NODE_SIZES)
        labels = {_HOSTNAME: name, ZONE_LABEL: zone_name(number % size.zones), "disk": random.choice(("fast", "large"))}
        offers = {"cpu": cpus, "memory": cpus * 4 * _GI, "pods": most_pods}
        yield Node(
            name=name,
            uid=f"uid-{name}",
            resource_version=1,
            labels=tuple(sorted(labels.items())),
            taints=(Taint("dedicated", "NoSchedule", "batch"),) if random.random() < 0.05 else (),
            allocatable=tuple(sorted((resource, amount * NANO) for resource, amount in offers.items())),
        )


def _volumes(size: Workload, nodes: list[Node], random: Random) -> Iterator[Volume]:
    for node in nodes:
        place = Requirement(ZONE_LABEL, "In", (dict(node.labels)[ZONE_LABEL],))
        for number in range(size.volumes_per_node):
            name = f"{node.name}-{number + 1}"
            yield Volume(
                name=name,
                uid=f"uid-{name}",
                resource_version=1,
                storage_class=_CLASS,
                capacity=random.choice(_SIZES) * _GI * NANO,
                access_modes=(READ_WRITE_ONCE,),
                node_affinity=NodeSelector((NodeSelectorTerm((place,)),)),
                phase="Available",
                source="csi",
                driver="disk.csi.example",
                handle=name,
            )


def _pods(size: Workload, nodes: list[Node], volumes: int, random: Random) -> Iterator[Pod]:
    cpus = sum(dict(node.allocatable)["cpu"] for node in nodes)
    mean = int(cpus * _DEMAND) // max(1, size.pods)
    made = left = app = 0
    template = Pod("default", "", "", 1)
    claims = min(volumes * 4 // 5, size.pods)
    while made < size.pods:
        if not left:
            app += 1
            left = random.randint(1, _MAX_APP_PODS)
            template = _template(f"app-{app}", left, mean, nodes, random)
        name = f"{dict(template.labels)['app']}-{left}"
        count = min(claims, random.choice((0, 0, 1, 2)))
        claims -= count
        yield Pod(
            namespace="default",
            name=name,
            uid=f"uid-{name}",
            resource_version=1,
            claims=tuple(PodClaim(f"{name}-{number}") for number in range(count)),
            requests=template.requests,
            node_selector=template.node_selector,
            tolerations=template.tolerations,
            priority=template.priority,
            labels=template.labels,
            created=START + timedelta(milliseconds=made),
            constraints=template.constraints,
        )
        made, left = made + 1, left - 1


def _template(app: str, replicas: int, mean: int, nodes: list[Node], random: Random) -> Pod:
    """Return what the pods of an app have in common. `mean` is the average CPU request of a pod."""
    cpu = max(NANO // 1000, min(_MAX_REQUEST, int(mean * random.choice((0.25, 0.5, 1, 1, 1.25, 2)))))
    wanted = {"cpu": cpu, "memory": cpu * random.choice((1, 2, 4)) * _GI}
    return Pod(
        namespace="default",
        name=app,
        uid="",
        resource_version=1,
        requests=tuple(sorted(wanted.items())),
        node_selector=(("disk", "fast"),) if random.random() < 0.05 else (),
        tolerations=(Toleration("dedicated", "Exists"),) if random.random() < 0.1 else (),
        priority=random.choice((0, 0, 0, 0, 100)),
        labels=(("app", app),),
        constraints=_constraints(app, replicas <= len(nodes) // 2, random),
    )


def _constraints(app: str, few: bool, random: Random) -> Constraints | None:
    alike, drawn = LabelSelector((("app", app),)), random.random()
    if drawn < 0.1:
        return Constraints(spread=(SpreadConstraint(1, ZONE_LABEL, SCHEDULE_ANYWAY, alike),))
    if drawn < 0.15:
        return Constraints(spread=(SpreadConstraint(2, ZONE_LABEL, DO_NOT_SCHEDULE, alike),))
    if drawn < 0.2 and few:
        return Constraints(anti_affinity=(PodTerm(_HOSTNAME, alike),))
    return None


def _claim(namespace: str, name: str, random: Random) -> Claim:
    return Claim(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}",
        resource_version=1,
        storage_class=_CLASS,
        request=random.choice(_SIZES[:-1]) * _GI * NANO,
        access_modes=(READ_WRITE_ONCE,),
        created=START,
    )
