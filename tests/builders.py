"""Records with useful defaults: a test names only what it is about.

Sizes and requests are strings as in YAML ("10Gi", "500m"); labels and annotations are dicts; a claim or pod is in the
namespace `default`; uids are derived from names, so that equal names mean the same object.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from kube.decoding.decode import DECODERS
from kube.objects import model
from kube.objects.constraints import Constraints
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.reports import StorageCondition, StorageReports
from kube.rules.disruption import DisruptionBudget
from kube.rules.quantity import parse_quantity

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def decoded(document: Mapping[str, object]) -> model.Record | None:
    """Decode an object from YAML or JSON; None for a kind that is not read."""
    decode = DECODERS.get(str(document.get("kind")))
    return None if decode is None else decode(msgspec.json.encode(document))


def pairs(mapping: Mapping[str, str] | None) -> Pairs:
    return tuple(sorted((mapping or {}).items()))


def node_selector(*terms: Mapping[str, str | Sequence[str]]) -> NodeSelector:
    """A node selector of `In` terms: `node_selector({"zone": "a"}, {"zone": ["b", "c"]})`."""
    return NodeSelector(
        tuple(
            NodeSelectorTerm(
                tuple(
                    Requirement(key, "In", (values,) if isinstance(values, str) else tuple(values))
                    for key, values in term.items()
                )
            )
            for term in terms
        )
    )


def claim(
    name: str = "data",
    *,
    namespace: str = "default",
    uid: str | None = None,
    resource_version: int = 1,
    size: str = "10Gi",
    storage_class: str | None = "fast",
    access_modes: Iterable[str] = (model.READ_WRITE_ONCE,),
    volume_mode: str = "Filesystem",
    selector: LabelSelector | None = None,
    attributes_class: str = "",
    volume_name: str = "",
    phase: str = "Pending",
    deleting: bool = False,
    created: datetime | None = EPOCH,
    annotations: Mapping[str, str] | None = None,
) -> model.Claim:
    return model.Claim(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}" if uid is None else uid,
        resource_version=resource_version,
        storage_class=storage_class,
        request=parse_quantity(size),
        access_modes=tuple(access_modes),
        volume_mode=volume_mode,
        selector=selector,
        attributes_class=attributes_class,
        volume_name=volume_name,
        phase=phase,
        deleting=deleting,
        created=created,
        annotations=pairs(annotations),
    )


def reference(claim_key: str, uid: str = "") -> model.ClaimReference:
    """A claimRef from `namespace/name`; a bare name is a reference without namespace."""
    namespace, _, name = claim_key.rpartition("/")
    return model.ClaimReference(namespace=namespace, name=name, uid=uid)


def volume(
    name: str = "pv-1",
    *,
    uid: str | None = None,
    resource_version: int = 1,
    size: str = "10Gi",
    storage_class: str | None = "fast",
    access_modes: Iterable[str] = (model.READ_WRITE_ONCE,),
    volume_mode: str = "Filesystem",
    attributes_class: str = "",
    zone: str | None = None,
    node: str | None = None,
    node_affinity: NodeSelector | None = None,
    claim: str | model.ClaimReference | None = None,
    phase: str = "Available",
    reclaim_policy: str = "Retain",
    deleting: bool = False,
    source: str = "csi",
    driver: str = "disk.csi.example",
    handle: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: datetime | None = EPOCH,
) -> model.Volume:
    """An Available CSI volume. `zone` or `node` (or both) define its affinity; `claim="default/data"` its claimRef."""
    place = {key: value for key, value in ((ZONE, zone), (HOSTNAME, node)) if value is not None}
    return model.Volume(
        name=name,
        uid=f"uid-{name}" if uid is None else uid,
        resource_version=resource_version,
        storage_class=storage_class,
        capacity=parse_quantity(size),
        access_modes=tuple(access_modes),
        volume_mode=volume_mode,
        attributes_class=attributes_class,
        node_affinity=node_affinity if node_affinity is not None or not place else node_selector(place),
        claim=reference(claim) if isinstance(claim, str) else claim,
        phase=phase,
        reclaim_policy=reclaim_policy,
        deleting=deleting,
        source=source,
        driver=driver if source == "csi" else "",
        handle=(f"handle-{name}" if handle is None else handle) if source == "csi" else "",
        labels=pairs(labels),
        annotations=pairs(annotations),
        created=created,
    )


def storage_class(
    name: str = "fast",
    *,
    uid: str | None = None,
    resource_version: int = 1,
    provisioner: str = model.NO_PROVISIONER,
    binding_mode: str | None = model.WAIT_FOR_FIRST_CONSUMER,
    is_default: bool = False,
    created: datetime | None = EPOCH,
    annotations: Mapping[str, str] | None = None,
    allowed_topologies: NodeSelector | None = None,
    parameters: Mapping[str, str] | None = None,
) -> model.StorageClass:
    return model.StorageClass(
        name=name,
        uid=f"uid-{name}" if uid is None else uid,
        resource_version=resource_version,
        provisioner=provisioner,
        binding_mode=binding_mode,
        is_default=is_default,
        created=created,
        annotations=pairs(annotations),
        allowed_topologies=allowed_topologies,
        parameters=pairs(parameters),
    )


def resources(amounts: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, parse_quantity(amount)) for name, amount in amounts.items()))


def pod(
    name: str = "web",
    *,
    namespace: str = "default",
    uid: str | None = None,
    resource_version: int = 1,
    claims: Iterable[str | model.PodClaim] = (),
    requests: Mapping[str, str] | None = None,
    node: str = "",
    phase: str = "Pending",
    scheduler_name: str = "default-scheduler",
    node_selector: Mapping[str, str] | None = None,
    node_affinity: NodeSelector | None = None,
    tolerations: Iterable[model.Toleration] = (),
    scheduling_gates: Iterable[str] = (),
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    created: datetime | None = EPOCH,
    constraints: Constraints | None = None,
    nominated_node: str = "",
    started: datetime | None = None,
    evicted: bool = False,
    unschedulable: bool = False,
    per_node: bool = False,
) -> model.Pod:
    """A pending pod that uses the named claims."""
    return model.Pod(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}" if uid is None else uid,
        resource_version=resource_version,
        node_name=node,
        phase=phase,
        scheduler_name=scheduler_name,
        claims=tuple(model.PodClaim(used) if isinstance(used, str) else used for used in claims),
        requests=resources(requests or {}),
        node_selector=pairs(node_selector),
        node_affinity=node_affinity,
        tolerations=tuple(tolerations),
        scheduling_gates=tuple(scheduling_gates),
        priority=priority,
        labels=pairs(labels),
        deleting=deleting,
        created=created,
        constraints=constraints,
        nominated_node=nominated_node,
        started=started,
        evicted=evicted,
        unschedulable=unschedulable,
        per_node=per_node,
    )


def node(
    name: str = "node-1",
    *,
    uid: str | None = None,
    resource_version: int = 1,
    zone: str | None = "a",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[model.Taint] = (),
    unschedulable: bool = False,
    allocatable: Mapping[str, str] | None = None,
) -> model.Node:
    """A node with 8 cores, 32Gi and room for 110 pods, labelled with its hostname and zone."""
    own = {HOSTNAME: name} | ({} if zone is None else {ZONE: zone})
    return model.Node(
        name=name,
        uid=f"uid-{name}" if uid is None else uid,
        resource_version=resource_version,
        labels=pairs(own | dict(labels or {})),
        taints=tuple(taints),
        unschedulable=unschedulable,
        allocatable=resources({"cpu": "8", "memory": "32Gi", "pods": "110"} | dict(allocatable or {})),
    )


def budget(
    name: str = "budget", *, namespace: str = "default", labels: Mapping[str, str] | None = None, allowed: int = 0
) -> DisruptionBudget:
    """A disruption budget for the pods with these labels; None means all pods of the namespace."""
    selector = LabelSelector(pairs(labels))
    return DisruptionBudget(namespace, name, f"uid-budget-{namespace}-{name}", 1, selector, allowed)


def csi_node(
    name: str = "node-1",
    *,
    limits: Mapping[str, int | None] | None = None,
    topology_keys: Sequence[str] = (ZONE,),
    resource_version: int = 1,
    reports: Sequence[StorageCondition] = (),
) -> model.CSINode:
    """What the drivers registered on a node: driver name -> attach limit (None: no limit stated)."""
    drivers = {"disk.csi.example": None} if limits is None else limits
    return model.CSINode(
        name=name,
        uid=f"uid-csi-{name}",
        resource_version=resource_version,
        drivers=tuple(model.NodeDriver(driver, name, tuple(topology_keys), limit) for driver, limit in drivers.items()),
        storage=StorageReports(tuple(reports)) if reports else None,
    )


def csi_driver(
    name: str = "disk.csi.example",
    *,
    attach_required: bool = True,
    storage_capacity: bool = False,
    prevent_pod_scheduling_if_missing: bool = False,
    resource_version: int = 1,
) -> model.CSIDriver:
    return model.CSIDriver(
        name,
        f"uid-{name}",
        resource_version,
        attach_required=attach_required,
        storage_capacity=storage_capacity,
        prevent_pod_scheduling_if_missing=prevent_pod_scheduling_if_missing,
    )


def capacity(
    storage_class: str = "fast",
    topology: Mapping[str, str] | None = None,
    size: str | None = "100Gi",
    *,
    largest: str | None = None,
    name: str | None = None,
    resource_version: int = 1,
    written: datetime | None = None,
) -> model.CSIStorageCapacity:
    """A report of the class's driver; without a topology it is about every node."""
    place = pairs(topology)
    name = name or "-".join((storage_class, *(value for _, value in place)))
    return model.CSIStorageCapacity(
        namespace="driver",
        name=name,
        uid=f"uid-{name}",
        resource_version=resource_version,
        storage_class=storage_class,
        node_topology=LabelSelector(place),
        capacity=None if size is None else parse_quantity(size),
        maximum_volume_size=None if largest is None else parse_quantity(largest),
        written=written,
    )


def attachment(
    volume_name: str,
    node_name: str,
    *,
    attacher: str = "disk.csi.example",
    attached: bool = True,
    resource_version: int = 1,
) -> model.VolumeAttachment:
    name = f"attachment-{volume_name}-{node_name}"
    return model.VolumeAttachment(
        name, f"uid-{name}", resource_version, attacher, node_name, volume_name, attached=attached
    )
