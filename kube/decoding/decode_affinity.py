"""Affinity, topology spread, host ports and inline disks of pods as records, decoded once for those of equal bytes."""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct
from msgspec.json import Decoder

from kube.decoding import wire, wire_compute
from kube.decoding.decode_parts import decoded_part, node_selector, node_selector_term, selector
from kube.decoding.inline_disks import inline_disks
from kube.decoding.interning import DecodedParts, shared, text, texts
from kube.objects.constraints import (
    DO_NOT_SCHEDULE,
    HONOR,
    IGNORE,
    NO_CONSTRAINTS,
    Constraints,
    HostPort,
    PodTerm,
    PreferredNodes,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.model import LabelSelector, NodeSelector


class Affinity(Struct, frozen=True, gc=False):
    """`spec.affinity`: what nodes must match, and everything else in it."""

    nodes: NodeSelector | None = None
    rest: Constraints = NO_CONSTRAINTS


_NO_AFFINITY: Final = Affinity()


def affinity(raw: wire.RawPart) -> Affinity:
    return decoded_part(_AFFINITIES, raw, "$.spec.affinity") or _NO_AFFINITY


def constraints(spec: wire_compute.PodSpec, found: Affinity) -> Constraints | None:
    """Return what the pod says, shared, or None when it says nothing. `found` is its affinity."""
    spread = decoded_part(_SPREADS, spec.topology_spread_constraints, "$.spec.topologySpreadConstraints") or ()
    ports = tuple(_host_ports(spec))
    disks = inline_disks(spec.volumes or ())
    preempts, unknown = spec.preemption_policy != "Never", tuple(_unsupported(spec))
    if not (spread or ports or disks or unknown) and preempts:
        return None if found.rest == NO_CONSTRAINTS else found.rest
    rest = found.rest
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
    """Yield the fields by which kube-scheduler chooses a node and that are not understood (kube.rules.unsupported).

    That a pod needs declared features of its node is inferred by component-helpers/nodedeclaredfeatures/features.
    """
    for name, part in (("spec.resourceClaims", spec.resource_claims), ("spec.schedulingGroup", spec.scheduling_group)):
        if part is not UNSET and bytes(part) not in _EMPTY:
            yield name
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers false with hostNetwork"
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == _RESTART_ALL for one in containers for rule in one.restart_policy_rules or ()):
        yield f"spec.containers[*].restartPolicyRules with {_RESTART_ALL}"
    requested = (one.resources.requests or () for one in (*containers, spec) if one.resources is not None)
    if any(name.startswith(_OF_DEVICE_CLASS) for names in requested for name in names):
        yield f"requests of {_OF_DEVICE_CLASS}*"


_EMPTY: Final = frozenset({b"null", b"[]", b"{}"})
_RESTART_ALL: Final = "RestartAllContainers"
_OF_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"


def _host_ports(spec: wire_compute.PodSpec) -> Iterable[HostPort]:
    """Yield what containers and restartable init containers take of the node (GetHostPorts in pkg/scheduler/util)."""
    lasting = (one for one in spec.init_containers or () if one.restart_policy == "Always")
    for container in (*(spec.containers or ()), *lasting):
        for port in container.ports or ():
            if port.host_port:
                yield shared(HostPort(port.host_port, text(port.protocol) or "TCP", text(port.host_ip) or "0.0.0.0"))


def _affinity(found: wire_compute.Affinity) -> Affinity:
    nodes = found.node_affinity or wire_compute.NodeAffinity()
    near = found.pod_affinity or wire_compute.PodAffinity()
    apart = found.pod_anti_affinity or wire_compute.PodAffinity()
    preferred = nodes.preferred_during_scheduling_ignored_during_execution or ()
    rest = Constraints(
        preferred_nodes=tuple(
            PreferredNodes(one.weight or 0, node_selector_term(one.preference or wire.NodeSelectorTerm()))
            for one in preferred
        ),
        affinity=_terms(near),
        anti_affinity=_terms(apart),
        preferred_affinity=_weighted(near),
        preferred_anti_affinity=_weighted(apart),
    )
    return Affinity(node_selector(nodes.required_during_scheduling_ignored_during_execution), shared(rest))


def _terms(found: wire_compute.PodAffinity) -> tuple[PodTerm, ...]:
    return tuple(map(_term, found.required_during_scheduling_ignored_during_execution or ()))


def _weighted(found: wire_compute.PodAffinity) -> tuple[WeightedPodTerm, ...]:
    return tuple(
        WeightedPodTerm(one.weight or 0, _term(one.pod_affinity_term or wire_compute.PodAffinityTerm()))
        for one in found.preferred_during_scheduling_ignored_during_execution or ()
    )


def _term(found: wire_compute.PodAffinityTerm) -> PodTerm:
    return PodTerm(
        text(found.topology_key),
        _selector(found.label_selector),
        texts(found.namespaces),
        _selector(found.namespace_selector),
    )


def _spread(found: list[wire_compute.SpreadConstraint]) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            max_skew=one.max_skew or 0,
            topology_key=text(one.topology_key),
            when_unsatisfiable=text(one.when_unsatisfiable) or DO_NOT_SCHEDULE,
            selector=_selector(one.label_selector),
            min_domains=1 if one.min_domains is None else one.min_domains,
            node_affinity_policy=text(one.node_affinity_policy) or HONOR,
            node_taints_policy=text(one.node_taints_policy) or IGNORE,
            match_label_keys=texts(one.match_label_keys),
        )
        for one in found
    )


def _selector(found: wire.LabelSelector | None) -> LabelSelector | None:
    return None if found is None else selector(found)


_AFFINITY: Final = Decoder(wire_compute.Affinity)
_SPREAD: Final = Decoder(list[wire_compute.SpreadConstraint])
_AFFINITIES: Final = DecodedParts(lambda part: _affinity(_AFFINITY.decode(part)))
_SPREADS: Final = DecodedParts(lambda part: _spread(_SPREAD.decode(part)))
