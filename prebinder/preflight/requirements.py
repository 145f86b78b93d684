"""What each component needs of the API server, and what does not work without it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kube.objects.api_resource import (
    ATTACHMENTS,
    CAPACITIES,
    CLAIMS,
    CSI_DRIVERS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODE_POOLS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_SNAPSHOTS,
    VOLUMES,
    WATCHED,
    Resource,
)

KARPENTER: Final = "karpenter"
HOLDS: Final = "holds"
SNAPSHOTS: Final = "snapshots"
"""Components of manifests/."""

_READ: Final = ("list", "watch")
_UNLED: Final = "no replica becomes leader, and nothing is written"
_UNREADY: Final = "the controller does not become ready"
_BLIND: Final = "no decisions can be made"


@dataclass(frozen=True, slots=True)
class Need:
    """A right, and what does not work without it. One that is not `vital` is needed for a feature only.

    `part` is the component of manifests/ that grants it and that installations may well be without.
    """

    resource: Resource
    verb: str
    without: str
    vital: bool = True
    subresource: str = ""
    part: str = ""

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource.plural}{subresource}{group}"

    def attributes(self, lease: str, lease_namespace: str) -> dict[str, str]:
        """Return the right as the resourceAttributes of an access review; rights to Leases are to this one."""
        attributes = {"verb": self.verb, "group": self.resource.group, "resource": self.resource.plural}
        if self.subresource:
            attributes["subresource"] = self.subresource
        if self.resource is LEASES:
            attributes["namespace"] = lease_namespace
            if self.verb != "create":
                attributes["name"] = lease
        return attributes


@dataclass(frozen=True, slots=True)
class Lack:
    """The consequence of a kind that is not served. If it is not `vital`, the component works without it."""

    meaning: str
    vital: bool = True


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of a component: kinds, rights, and the name of the Lease for which rights are checked."""

    lease: str
    kinds: Mapping[Resource, Lack]
    rights: tuple[Need, ...]


def _controller_rights() -> Iterator[Need]:
    """Yield the rights that manifests/base and its components grant."""
    for resource in WATCHED:
        for verb in _READ:
            yield Need(resource, verb, _UNREADY)
    for resource in (CLAIMS, VOLUMES):
        yield Need(resource, "patch", "nothing can be reserved")
    yield from _everybodys_rights()
    yield Need(PODS, "patch", "pods with our scheduling gate stay gated (component scheduling-gate)", vital=False)
    without = "new nodes are expected to be like existing ones (component karpenter)"
    yield Need(NODE_POOLS, "list", without, vital=False, part=KARPENTER)
    without = "no volumes are held for replicas to come (component holds)"
    for resource in (STATEFUL_SETS, NAMESPACES, RESOURCE_QUOTAS):
        for verb in _READ:
            yield Need(resource, verb, without, vital=False, part=HOLDS)
    without = "pods with volumes from snapshots are left to Kubernetes in mode provision (component snapshots)"
    yield Need(VOLUME_SNAPSHOTS, "get", without, vital=False, part=SNAPSHOTS)
    for resource in (CLAIMS, VOLUMES):
        without = "binds of classes in mode complete are rejected (component complete)"
        yield Need(resource, "patch", without, vital=False, subresource="status")


def _scheduler_rights() -> Iterator[Need]:
    """Yield the rights that manifests/components/scheduler grants."""
    for resource in SCHEDULER_KINDS:
        if resource not in {LEASES, EVENTS}:
            for verb in _READ:
                yield Need(resource, verb, "the scheduler does not become ready")
    yield Need(PODS, "create", "no pod is bound to a node", subresource="binding")
    yield Need(PODS, "get", "a binding whose response was lost is not verified; no pod reports why it is pending")
    yield Need(PODS, "patch", "no pod reports why it is pending", subresource="status")
    yield Need(PODS, "create", "no pod is preempted", vital=False, subresource="eviction")
    for resource in (CLAIMS, VOLUMES):
        for verb in ("get", "patch"):
            yield Need(resource, verb, "pods with volumes that are not bound are not scheduled")
    yield from _everybodys_rights()


def _everybodys_rights() -> Iterator[Need]:
    for verb in ("create", "patch"):
        yield Need(EVENTS, verb, "no Events are written")
    for verb in ("get", "create", "patch"):
        yield Need(LEASES, verb, _UNLED)


def _controller_kinds() -> Iterator[tuple[Resource, Lack]]:
    deciding = {CLAIMS, VOLUMES, PODS, NODES, STORAGE_CLASSES}
    for resource in WATCHED:
        yield resource, Lack(_BLIND if resource in deciding else _UNREADY)
    yield LEASES, Lack(_UNLED)
    yield EVENTS, Lack("no Events are written")


_DISPENSABLE: Final = {
    CSI_DRIVERS: "storage capacity is ignored",
    CAPACITIES: "storage capacity is ignored",
    ATTACHMENTS: "volumes attached to a node count only while a pod there uses them",
    DISRUPTION_BUDGETS: "preemption ignores PodDisruptionBudgets",
    NAMESPACES: "a namespaceSelector matches namespaces by name only",
    EVENTS: "no Events are written",
}


def _scheduler_kinds() -> Iterator[tuple[Resource, Lack]]:
    for resource in (*WATCHED, DISRUPTION_BUDGETS, NAMESPACES, EVENTS):
        lacking = _DISPENSABLE.get(resource)
        yield resource, Lack(lacking or _BLIND, vital=lacking is None)
    yield LEASES, Lack(_UNLED)


SCHEDULER_KINDS: Final = dict(_scheduler_kinds())

CONTROLLER: Final = Requirements("pvc-prebinder", dict(_controller_kinds()), tuple(_controller_rights()))
SCHEDULER: Final = Requirements("pvc-prebinder-scheduler", SCHEDULER_KINDS, tuple(_scheduler_rights()))
