"""Affinity, topology spread, host ports and inline disks of pods as records, decoded once for equal bytes."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec import UNSET, Struct
from msgspec.json import Decoder

from kube.decoding import wire, wire_compute
from kube.decoding.decode_parts import decoded_part, node_selector, node_selector_term, selector
from kube.decoding.interning import DecodedParts, pairs, shared, text, texts
from kube.objects.constraints import (
    AWS,
    AZURE,
    CINDER,
    DO_NOT_SCHEDULE,
    GCE,
    HONOR,
    IGNORE,
    ISCSI,
    NO_CONSTRAINTS,
    PORTWORX,
    RBD,
    Constraints,
    HostPort,
    InlineDisk,
    PodTerm,
    PreferredNodes,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.labels import LabelSelector, NodeSelector, Pairs
from kube.objects.model import Toleration


class Affinity(Struct, frozen=True, gc=False):
    """`spec.affinity`: what nodes must match, and everything else in it."""

    nodes: NodeSelector | None = None
    rest: Constraints = NO_CONSTRAINTS


MAX_AFFINITY_BYTES: Final = 128 * 2**10
"""Of `spec.affinity` as the API server sends it: the names of some 4,000 nodes. What namespace users write is decoded
on the event loop, and evaluated for every node or for every pod.
"""
MAX_SPREAD_BYTES: Final = 32 * 2**10
MAX_ENTRIES: Final = 500
"""Of tolerations, of a node selector, of host ports, and of a container's requests."""

_NO_AFFINITY: Final = Affinity()
_DEFAULT_RBD_POOL: Final = "rbd"


def affinity(raw: wire.RawPart) -> Affinity:
    """Return `spec.affinity`; one that is too large is not read."""
    if _size(raw) > MAX_AFFINITY_BYTES:
        return _NO_AFFINITY
    return decoded_part(_AFFINITIES, raw, "$.spec.affinity") or _NO_AFFINITY


def tolerations(spec: wire_compute.PodSpec) -> tuple[Toleration, ...]:
    """Return the pod's tolerations; none if there are too many."""
    if len(spec.tolerations or ()) > MAX_ENTRIES:
        return ()
    return shared(tuple(_toleration(toleration) for toleration in spec.tolerations or ()))


def selected_labels(spec: wire_compute.PodSpec) -> Pairs:
    """Return the pod's node selector; nothing if it is too large."""
    return pairs(spec.node_selector) if len(spec.node_selector or ()) <= MAX_ENTRIES else ()


def constraints(spec: wire_compute.PodSpec, affinity: Affinity) -> Constraints | None:
    """Return the pod's constraints, shared, or None if it has none."""
    spread: tuple[SpreadConstraint, ...] = ()
    if _size(spec.topology_spread_constraints) <= MAX_SPREAD_BYTES:
        spread = decoded_part(_SPREADS, spec.topology_spread_constraints, "$.spec.topologySpreadConstraints") or ()
    ports = tuple(islice(_host_ports(spec), MAX_ENTRIES))
    disks = _inline_disks(spec.volumes or ())
    preempts, unknown = spec.preemption_policy != "Never", tuple(_unsupported(spec))
    if not (spread or ports or disks or unknown) and preempts:
        return None if affinity.rest == NO_CONSTRAINTS else affinity.rest
    rest = affinity.rest
    return shared(
        Constraints(
            preferred_nodes=rest.preferred_nodes,
            affinity=rest.affinity,
            anti_affinity=rest.anti_affinity,
            preferred_affinity=rest.preferred_affinity,
            preferred_anti_affinity=rest.preferred_anti_affinity,
            spread=spread,
            ports=ports,
            disks=disks,
            preempts=preempts,
            unsupported=unknown,
        )
    )


def _unsupported(spec: wire_compute.PodSpec) -> Iterable[str]:
    """Yield the fields that affect kube-scheduler's choice of a node and are not supported here
    (kube.rules.unsupported).

    Whether a pod needs declared features of its node is inferred by component-helpers/nodedeclaredfeatures/features.
    """
    yield from _too_large(spec)
    for name, part in (("spec.resourceClaims", spec.resource_claims), ("spec.schedulingGroup", spec.scheduling_group)):
        if part is not UNSET and bytes(part) not in _EMPTY:
            yield name
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers false with hostNetwork"
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == _RESTART_ALL for container in containers for rule in container.restart_policy_rules or ()):
        yield f"spec.containers[*].restartPolicyRules with {_RESTART_ALL}"
    if any(mount.bind_mount_options for container in containers for mount in container.volume_mounts or ()):
        yield "spec.containers[*].volumeMounts with bindMountOptions"
    requested = (
        container.resources.requests or () for container in (*containers, spec) if container.resources is not None
    )
    if any(name.startswith(_OF_DEVICE_CLASS) for names in requested for name in names):
        yield f"requests of {_OF_DEVICE_CLASS}*"


def _too_large(spec: wire_compute.PodSpec) -> Iterable[str]:
    """Yield the fields that are not read because of their size."""
    for name, part, most in (
        ("spec.affinity", spec.affinity, MAX_AFFINITY_BYTES),
        ("spec.topologySpreadConstraints", spec.topology_spread_constraints, MAX_SPREAD_BYTES),
    ):
        if _size(part) > most:
            yield f"{name} of {_size(part):,} bytes (more than {most:,})"
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    for name, entries in (
        ("spec.tolerations", len(spec.tolerations or ())),
        ("spec.nodeSelector", len(spec.node_selector or ())),
        ("spec.containers[*].ports with hostPort", _ports_wanted(containers)),
        ("spec.containers[*].resources.requests", max(map(_resources_wanted, containers), default=0)),
    ):
        if entries > MAX_ENTRIES:
            yield f"{name}: {entries:,} entries (more than {MAX_ENTRIES})"


def _ports_wanted(containers: Iterable[wire_compute.Container]) -> int:
    return sum(bool(port.host_port) for container in containers for port in container.ports or ())


def _resources_wanted(container: wire_compute.Container) -> int:
    return len((container.resources.requests if container.resources else None) or ())


def _size(part: wire.RawPart) -> int:
    return 0 if part is UNSET else len(bytes(part))


_EMPTY: Final = frozenset({b"null", b"[]", b"{}"})
_RESTART_ALL: Final = "RestartAllContainers"
_OF_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"


def _host_ports(spec: wire_compute.PodSpec) -> Iterable[HostPort]:
    """Yield the host ports of containers and restartable init containers (GetHostPorts in pkg/scheduler/util)."""
    lasting = (container for container in spec.init_containers or () if container.restart_policy == "Always")
    for container in (*(spec.containers or ()), *lasting):
        for port in container.ports or ():
            if port.host_port:
                yield shared(HostPort(port.host_port, text(port.protocol) or "TCP", text(port.host_ip) or "0.0.0.0"))


def _affinity(affinity: wire_compute.Affinity) -> Affinity:
    nodes = affinity.node_affinity or wire_compute.NodeAffinity()
    near = affinity.pod_affinity or wire_compute.PodAffinity()
    apart = affinity.pod_anti_affinity or wire_compute.PodAffinity()
    preferred = nodes.preferred_during_scheduling_ignored_during_execution or ()
    rest = Constraints(
        preferred_nodes=tuple(
            PreferredNodes(term.weight or 0, node_selector_term(term.preference or wire.NodeSelectorTerm()))
            for term in preferred
        ),
        affinity=_terms(near),
        anti_affinity=_terms(apart),
        preferred_affinity=_weighted(near),
        preferred_anti_affinity=_weighted(apart),
    )
    return Affinity(node_selector(nodes.required_during_scheduling_ignored_during_execution), shared(rest))


def _terms(affinity: wire_compute.PodAffinity) -> tuple[PodTerm, ...]:
    return tuple(map(_term, affinity.required_during_scheduling_ignored_during_execution or ()))


def _weighted(affinity: wire_compute.PodAffinity) -> tuple[WeightedPodTerm, ...]:
    return tuple(
        WeightedPodTerm(term.weight or 0, _term(term.pod_affinity_term or wire_compute.PodAffinityTerm()))
        for term in affinity.preferred_during_scheduling_ignored_during_execution or ()
    )


def _term(term: wire_compute.PodAffinityTerm) -> PodTerm:
    return PodTerm(
        text(term.topology_key),
        _selector(term.label_selector),
        texts(term.namespaces),
        _selector(term.namespace_selector),
    )


def _spread(constraints: list[wire_compute.SpreadConstraint]) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            max_skew=constraint.max_skew or 0,
            topology_key=text(constraint.topology_key),
            when_unsatisfiable=text(constraint.when_unsatisfiable) or DO_NOT_SCHEDULE,
            selector=_selector(constraint.label_selector),
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            node_affinity_policy=text(constraint.node_affinity_policy) or HONOR,
            node_taints_policy=text(constraint.node_taints_policy) or IGNORE,
            match_label_keys=texts(constraint.match_label_keys),
        )
        for constraint in constraints
    )


def _toleration(toleration: wire_compute.Toleration) -> Toleration:
    operator = text(toleration.operator) or "Equal"
    return Toleration(text(toleration.key), operator, text(toleration.value), text(toleration.effect))


def _selector(label_selector: wire.LabelSelector | None) -> LabelSelector | None:
    return None if label_selector is None else selector(label_selector)


_AFFINITY: Final = Decoder(wire_compute.Affinity)
_SPREAD: Final = Decoder(list[wire_compute.SpreadConstraint])
_AFFINITIES: Final = DecodedParts(lambda part: _affinity(_AFFINITY.decode(part)))
_SPREADS: Final = DecodedParts(lambda part: _spread(_SPREAD.decode(part)))


def _inline_disks(volumes: Iterable[wire_compute.PodVolume]) -> tuple[InlineDisk, ...]:
    """Return the disks among a pod's volumes, in their order; claims and all other kinds are left out.

    Source: isVolumeConflict in pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, and for those
    that only count towards attach limits `kube.rules.csi_migration`.
    """
    return tuple(shared(disk) for volume in volumes if (disk := _disk(volume)) is not None)


def is_inline_disk(volume: wire_compute.PodVolume) -> bool:
    """Whether the volume is of a kind that pods cannot share freely, or that counts towards attach limits."""
    return _disk(volume) is not None


def _disk(volume: wire_compute.PodVolume) -> InlineDisk | None:
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        return InlineDisk(GCE, (text(gce.pd_name),), read_only=bool(gce.read_only))
    if volume.aws_elastic_block_store is not None:
        return InlineDisk(AWS, (text(volume.aws_elastic_block_store.volume_id),))
    if volume.azure_disk is not None:
        return InlineDisk(AZURE, (text(volume.azure_disk.disk_uri),))
    if volume.cinder is not None:
        return InlineDisk(CINDER, (text(volume.cinder.volume_id),))
    if volume.portworx_volume is not None:
        return InlineDisk(PORTWORX, (text(volume.portworx_volume.volume_id),))
    if volume.iscsi is not None:
        return InlineDisk(ISCSI, (text(volume.iscsi.iqn),), read_only=bool(volume.iscsi.read_only))
    if volume.rbd is not None:
        rbd = volume.rbd
        identity = (text(rbd.pool) or _DEFAULT_RBD_POOL, text(rbd.image))
        return InlineDisk(RBD, identity, texts(rbd.monitors), bool(rbd.read_only))
    return None
