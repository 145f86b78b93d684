"""Pods as records, with the requests the scheduler reckons with, and the budgets of their disruption."""

from collections.abc import Iterable, Mapping, Set
from typing import Final

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from kube.decoding import wire, wire_compute
from kube.decoding.decode_affinity import (
    MAX_ENTRIES,
    affinity,
    constraints,
    is_inline_disk,
    selected_labels,
    tolerations,
)
from kube.decoding.decode_parts import amounts, identity, label_selector, labels, present
from kube.decoding.interning import DecodedParts, shared, text, texts
from kube.objects import model
from kube.objects.constraints import Constraints
from kube.objects.labels import NodeSelector, Pairs
from kube.rules.disruption import DisruptionBudget
from kube.rules.quantity import NANO
from kube.rules.resource_fit import in_scheduler_units

Requests = dict[str, int]
_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
_SCORED_DEFAULTS: Final[Mapping[str, int]] = {"cpu": NANO // 10, "memory": 200 * 2**20 * NANO}
"""What a container without requests counts as when nodes are scored (pkg/scheduler/util/pod_resources.go)."""

_EVICTIONS: Final = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI"})
"""Reasons of the condition DisruptionTarget; the API writes the second one for every eviction."""

_PER_NODE: Final = frozenset({"DaemonSet", "Node"})
"""Controllers of pods that belong to their node; a Node owns a static pod's mirror."""

_RESIZE: Final = "PodResizePending"

_NO_DEFAULTS: Final[Mapping[str, int]] = {}

_TEMPLATES: Final = 16 * 2**20
"""Templates cached; a template is cached once for each state of resizing."""


class _Wants(Struct, frozen=True, gc=False):
    """What a pod requests. Pods of one template request the same, whatever their names, nodes and volumes."""

    requests: tuple[tuple[str, int], ...]
    scored: tuple[int, int] | None
    node_selector: Pairs
    node_affinity: NodeSelector | None
    tolerations: tuple[model.Toleration, ...]
    constraints: Constraints | None


def pod(raw: wire_compute.Pod) -> model.Pod:
    """Read a pod. A pod without a spec is malformed."""
    who = identity(raw.metadata)
    metadata, spec = present(raw.metadata, "$.metadata"), present(raw.spec, "$.spec")
    status = raw.status or wire_compute.PodStatus()
    wants = _wants(spec, status)
    return model.Pod(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        node_name=text(spec.node_name),
        phase=text(status.phase) or "Pending",
        scheduler_name=text(spec.scheduler_name) or "default-scheduler",
        claims=tuple(_claims(who.name, spec.volumes or ())),
        requests=wants.requests,
        node_selector=wants.node_selector,
        node_affinity=wants.node_affinity,
        tolerations=wants.tolerations,
        scheduling_gates=texts(gate.name or "" for gate in spec.scheduling_gates or ()),
        priority=spec.priority or 0,
        labels=labels(metadata),
        deleting=metadata.deletion_timestamp is not None,
        created=shared(metadata.creation_timestamp),
        constraints=wants.constraints,
        scored=wants.scored,
        nominated_node=text(status.nominated_node_name),
        started=shared(status.start_time),
        evicted=any(map(_says_evicted, status.conditions or ())),
        unschedulable=any(map(_says_unschedulable, status.conditions or ())),
        per_node=any(owner.controller and owner.kind in _PER_NODE for owner in metadata.owner_references or ()),
    )


def _wants(spec: wire_compute.PodSpec, status: wire_compute.PodStatus) -> _Wants:
    """Compute what a pod requests, or return it from the cache: everything read here is part of the cache key."""
    asking = replace(
        spec,
        node_name=None,
        scheduler_name=None,
        priority=None,
        volumes=[item for item in spec.volumes or () if is_inline_disk(item)] or None,
        scheduling_gates=None,
    )
    sized = wire_compute.PodStatus(
        conditions=[item for item in status.conditions or () if item.type == _RESIZE] or None,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )
    wants = _WANTS.of(Raw(_ENCODER.encode(wire_compute.Pod(spec=asking, status=sized))))
    assert wants is not None
    return wants


def _worked_out(template: bytes) -> _Wants:
    pod = _TEMPLATE.decode(template)
    assert pod.spec is not None
    assert pod.status is not None
    spec, status = pod.spec, pod.status
    wanted = affinity(spec.affinity)
    requests = in_scheduler_units(effective_requests(spec, status))
    return _Wants(
        requests=shared(requests),
        scored=_scored(spec, status, dict(requests)),
        node_selector=selected_labels(spec),
        node_affinity=wanted.nodes,
        tolerations=tolerations(spec),
        constraints=constraints(spec, wanted),
    )


_ENCODER: Final = Encoder()
_TEMPLATE: Final = Decoder(wire_compute.Pod)
_WANTS: Final = DecodedParts(_worked_out, _TEMPLATES)


def _says_evicted(condition: wire_compute.Condition) -> bool:
    """Whether the condition reports an eviction. Node controllers disrupt pods too (KEP-3329)."""
    return condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason in _EVICTIONS


def _says_unschedulable(condition: wire_compute.Condition) -> bool:
    """Whether the condition reports that no node was found (updatePod in pkg/scheduler/schedule_one.go), and not a
    gate.
    """
    return (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")


def _claims(pod_name: str, volumes: Iterable[wire_compute.PodVolume]) -> Iterable[model.PodClaim]:
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield model.PodClaim(volume.persistent_volume_claim.claim_name or "")
        elif volume.ephemeral is not None:
            yield model.PodClaim(f"{pod_name}-{volume.name or ''}", ephemeral=True)


def _scored(spec: wire_compute.PodSpec, status: wire_compute.PodStatus, requests: Requests) -> tuple[int, int] | None:
    if all(
        _SCORED_DEFAULTS.keys() <= _named(container)
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
    ):
        return None
    counted = dict(in_scheduler_units(effective_requests(spec, status, _SCORED_DEFAULTS)))
    scored = (counted.get("cpu", 0), counted.get("memory", 0))
    return None if scored == (requests.get("cpu", 0), requests.get("memory", 0)) else shared(scored)


def effective_requests(
    spec: wire_compute.PodSpec, status: wire_compute.PodStatus, defaults: Mapping[str, int] = _NO_DEFAULTS
) -> Requests:
    """Return the effective requests of the pod, as PodRequests of component-helpers/resource does with status
    resources.

    Containers add up; an init container needs its own plus those of the restartable ones before it (KEP-753), and the
    larger of both counts; a pod-level request replaces the sum (KEP-2837); overhead is added. A container or a pod that
    is resized in place counts with the largest of desired, actual and allocated resources, and without the desired ones
    if they are infeasible (KEP-1287, KEP-5419). `defaults` is what a container counts as for a resource that it does
    not request.

    Kubernetes 1.36 adds up the largest of each container. 1.37 takes the largest of the sums, which the status of the
    pod may state as a whole, and counts the allocated resources of init containers, and of containers without actual
    ones, too. The result is no less than either.
    """
    resized = _Resized(status, defaults)
    total: Requests = {}
    for container in spec.containers or ():
        _add(total, resized.requests(container))
    restartable: Requests = {}
    initial: Requests = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            wanted = resized.requests(container)
            _add(total, wanted)
            _add(restartable, wanted)
            _raise(initial, restartable)
        else:
            running = resized.initial_requests(container)
            _add(running, restartable)
            _raise(initial, running)
    _raise(total, initial)
    _raise(total, resized.whole)
    total.update(resized.pod_level(spec.resources))
    _add(total, amounts(spec.overhead, "$.spec.overhead"))
    return total


class _Resized:
    """The actual and allocated resources of the pod and its containers, as reported by the kubelet."""

    def __init__(self, status: wire_compute.PodStatus, defaults: Mapping[str, int]) -> None:
        self._defaults = defaults
        statuses = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
        self._held = {
            container.name: self._read(container)
            for container in statuses
            if not (container.resources is None and container.allocated_resources is None)
        }
        self._pod_held = None
        if status.resources is not None:
            self._pod_held = _held(status.resources, status.allocated_resources, "$.status")
        stated = status.resources is not None and status.resources.requests is not None
        self.whole = self._pod_held or {} if stated and status.allocated_resources is not None else {}
        """What the pod as a whole has, if its status says so."""
        pending = next((condition for condition in status.conditions or () if condition.type == _RESIZE), None)
        self._infeasible = pending is not None and pending.reason == "Infeasible"

    @staticmethod
    def _read(status: wire_compute.ContainerStatus) -> Requests:
        return _held(status.resources, status.allocated_resources, f"$.status.containerStatuses[{status.name}]")

    def requests(self, container: wire_compute.Container) -> Requests:
        return {**self._defaults, **self._effective(_requests(container), self._held.get(container.name))}

    def initial_requests(self, container: wire_compute.Container) -> Requests:
        counted = dict(_requests(container))
        _raise(counted, self._held.get(container.name, {}))
        return {**self._defaults, **counted}

    def pod_level(self, resources: wire.Resources | None) -> Requests:
        """Return what replaces the containers' sum: the resources that the spec names, restricted to those allowed for
        pods.
        """
        wanted = amounts(resources.requests if resources else None, "$.spec.resources.requests")
        counted = self._effective(wanted, self._pod_held)
        return {name: counted.get(name, 0) for name in wanted if name.startswith(_POD_LEVEL)}

    def _effective(self, wanted: Requests, held: Requests | None) -> Requests:
        if held is None:
            return wanted
        if self._infeasible:
            return held
        counted = dict(wanted)
        _raise(counted, held)
        return counted


def _held(resources: wire.Resources | None, allocated: wire.Amounts, path: str) -> Requests:
    held = amounts(resources.requests if resources else None, f"{path}.resources.requests")
    _raise(held, amounts(allocated, f"{path}.allocatedResources"))
    return held


def _requests(container: wire_compute.Container) -> Requests:
    """Return what a container requests. Of too many resources those count that every node has: they have no prefix."""
    path = f"$.spec.containers[{container.name}].resources.requests"
    requests = (container.resources.requests if container.resources else None) or {}
    if len(requests) > MAX_ENTRIES:
        requests = {name: wanted for name, wanted in requests.items() if "/" not in name}
    return amounts(requests, path)


def _named(container: wire_compute.Container) -> Set[str]:
    return ((container.resources.requests if container.resources else None) or {}).keys()


def _add(total: Requests, more: Requests) -> None:
    for name, wanted in more.items():
        total[name] = total.get(name, 0) + wanted


def _raise(total: Requests, least: Requests) -> None:
    for name, wanted in least.items():
        total[name] = max(total.get(name, wanted), wanted)


def disruption_budget(budget: wire.PodDisruptionBudget) -> DisruptionBudget:
    """Read a budget. If its controller has not processed the current spec yet, it allows no disruption."""
    who = identity(budget.metadata)
    spec, status = budget.spec or wire.BudgetSpec(), budget.status or wire.BudgetStatus()
    generation = budget.metadata.generation if budget.metadata is not None else None
    is_current = (status.observed_generation or 0) >= (generation or 0)
    return DisruptionBudget(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        selector=label_selector(spec.selector, "$.spec.selector"),
        allowed=max(status.disruptions_allowed or 0, 0) if is_current else 0,
    )
