"""Causes in the location of volumes and nodes: no usable node has access to the pod's volumes, or none fits at all."""

from collections.abc import Iterable
from shlex import quote
from typing import Final

from binder.matching.evidence import affinity_text
from binder.matching.rejection import Reason
from kube.objects.model import Node, Pod, Volume
from kube.rules.selectors import label_keys, node_matches
from kube.rules.topology import HOSTNAME_LABEL, ZONE_LABEL, volume_zone
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import claim_link, named, pod_link, volume_link, volume_object
from prebinder.why.causes.pods.node_verdicts import NodeVerdict, NodeVerdicts, node_verdicts, short
from prebinder.why.facts.facts import Facts, Source
from prebinder.why.report.report import Evidence, Link
from scheduler.volumes.volume_binding import PodClaims, claims_of

_MOST_NODES_SHOWN: Final = 4
_BY_OTHER_PODS: Final = frozenset(
    {
        Reason.POD_AFFINITY_MISMATCH,
        Reason.POD_ANTI_AFFINITY,
        Reason.EXISTING_POD_ANTI_AFFINITY,
        Reason.TOPOLOGY_SPREAD,
    }
)


def volumes_in_different_zones(facts: Facts, pod: Pod) -> Finding | None:
    """Each of the pod's volumes is accessible from some node, and no node has access to all (checkBoundClaims in
    binder.go).
    """
    claims = settled(facts, pod)
    if claims is None or len(claims.bound) < 2:
        return None
    verdicts = node_verdicts(facts, pod)
    places = {volume.name: place_of(volume) for _, volume in claims.bound}
    if verdicts.near or len(set(places.values())) < 2:
        return None
    where = ", ".join(f"{name} in {place}" for name, place in places.items())
    return Finding(
        Reason.VOLUMES_IN_DIFFERENT_ZONES,
        f"No node has access to all of the pod's volumes: {where}.",
        (pod_link(pod), *_volume_links(claims)),
        tuple(Evidence(volume_object(volume, "spec.nodeAffinity"), "", place_of(volume)) for _, volume in claims.bound),
        (
            Step(
                f"kubectl -n {pod.namespace} get pvc {' '.join(claim.name for claim, _ in claims.bound)}",
                "restore one of the volumes from a snapshot in the other's zone; a class with WaitForFirstConsumer "
                "avoids this",
            ),
        ),
    )


def topology_conflict(facts: Facts, pod: Pod) -> Finding | None:
    """Nodes with access to the pod's volumes cannot run it, and others could if they had access.

    Source: `node(s) didn't match PersistentVolume's node affinity`, volumebinding/binder.go and volumezone.
    """
    claims = settled(facts, pod)
    if claims is None or not claims.bound:
        return None
    verdicts = node_verdicts(facts, pod)
    near = verdicts.near
    if verdicts.any_fits or not verdicts.far or (near and not verdicts.some_far_usable):
        return None
    if any(verdict.reaches for verdict in verdicts.usable):  # What such a node lacks is a volume for another claim.
        return None
    volumes = [volume for _, volume in claims.bound if volume.node_affinity is not None] or [claims.bound[0][1]]
    pinned = ", ".join(dict.fromkeys(place_of(volume) for volume in volumes))
    if near:
        message = f"The pod's volume is in {pinned}, and no node with access to it can run the pod."
    else:
        message = f"The pod's volume is in {pinned}, and no node of the cluster has access to it."
    evidence = [Evidence(place, "", words) for place, words in verdicts.places_near]
    evidence += [
        Evidence(volume_object(volume, "spec.nodeAffinity"), "a usable node with access to it", place_of(volume))
        for volume in volumes
    ]
    return Finding(
        Reason.TOPOLOGY_CONFLICT,
        message,
        (pod_link(pod), *_volume_links(claims)),
        tuple(evidence),
        (way_out(verdicts, pinned) if near else _out_of_every_reach(volumes[0], facts.snapshot.nodes.values()),),
    )


def assigned_out_of_reach(facts: Facts, pod: Pod) -> Finding | None:
    """The pod was assigned, past the scheduler, to a node without access to its volume.

    Source: CheckNodeAffinity when a volume is mounted (operation_generator.go of the kubelet).
    """
    claims = settled(facts, pod)
    node = facts.need(Source.NODES).nodes.get(pod.node_name)
    if claims is None or node is None:
        return None
    labels = dict(node.labels)
    volume = next((volume for _, volume in claims.bound if not node_matches(volume.node_affinity, labels)), None)
    if volume is None:
        return None
    return Finding(
        Reason.TOPOLOGY_CONFLICT,
        f"The pod is assigned to node {node.name}, and its volume is in {place_of(volume)}.",
        (pod_link(pod, f"on node {node.name}"), *_volume_links(claims)),
        (Evidence(volume_object(volume, "spec.nodeAffinity"), f"access from node {node.name}", place_of(volume)),),
        (
            Step(
                f"kubectl -n {pod.namespace} delete pod {pod.name}",
                "create it again without nodeName, so that a scheduler chooses the node; the volume and its data stay",
            ),
        ),
    )


def volume_limit_reached(facts: Facts, pod: Pod) -> Finding | None:
    """Nodes that could run the pod cannot attach its volumes any more (`exceed max volume count`, csi.go)."""
    if settled(facts, pod) is None:
        return None
    verdicts = node_verdicts(facts, pod)
    full = [verdict for verdict in verdicts.usable if _only(verdict, Reason.ATTACH_LIMIT_REACHED)]
    if not full or verdicts.any_fits:
        return None
    first = next(rejection for rejection in full[0].by_volumes if rejection.reason is Reason.ATTACH_LIMIT_REACHED)
    return Finding(
        Reason.ATTACH_LIMIT_REACHED,
        f"The nodes that could run the pod cannot attach more volumes: {len(full)} at their driver's limit.",
        (pod_link(pod), Link("Node", full[0].node.name, first.offered)),
        tuple(
            Evidence(f"csinode/{verdict.node.name}", rejection.wanted, rejection.offered)
            for verdict in full[:_MOST_NODES_SHOWN]
            for rejection in verdict.by_volumes
        ),
        (
            Step(
                f"kubectl get pods -A --field-selector spec.nodeName={full[0].node.name}",
                "move a pod with volumes away, or add a node",
            ),
        ),
    )


def _only(verdict: NodeVerdict, *reasons: Reason) -> bool:
    return bool(verdict.by_volumes) and all(rejection.reason in reasons for rejection in verdict.by_volumes)


def no_node_fits(facts: Facts, pod: Pod) -> Finding | None:
    """No node fits the pod, and its volumes are not the cause: what kube-scheduler's FailedScheduling reports by
    node.
    """
    if settled(facts, pod) is None and pod.claims:
        return None
    verdicts = node_verdicts(facts, pod)
    if verdicts.any_fits:
        return None
    message = f"No node fits the pod: {verdicts.in_words}." if verdicts.every else "The cluster has no node."
    return Finding(
        Reason.NO_NODE_FITS,
        message,
        (pod_link(pod),),
        tuple(Evidence(place, "", words) for place, words in verdicts.places),
        (way_out(verdicts, ""),),
    )


def place_of(volume: Volume) -> str:
    """Return where a volume is: its zone, or its node affinity."""
    zone = volume_zone(volume)
    if zone:
        return f"zone {zone}"
    return "any topology" if volume.node_affinity is None else affinity_text(volume.node_affinity)


def settled(facts: Facts, pod: Pod) -> PodClaims | None:
    """Return the pod's claims if each has a volume or waits for a node; None if one of them is the cause itself."""
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CLASSES)
    claims = claims_of(pod, snapshot)
    return claims if isinstance(claims, PodClaims) else None


def _volume_links(claims: PodClaims) -> tuple[Link, ...]:
    return tuple(link for claim, volume in claims.bound for link in (claim_link(claim), volume_link(volume)))


def _first_reason(verdict: NodeVerdict) -> Reason | None:
    first = next(iter((*verdict.by_others, *verdict.by_volumes)), None)
    return None if first is None else first.reason


def _lacks_room(verdict: NodeVerdict) -> bool:
    return not verdict.by_volumes and {each.reason for each in verdict.by_others} == {Reason.INSUFFICIENT_RESOURCES}


def _look_for(verdict: NodeVerdict) -> str:
    """Return what to look for on a node that does not fit."""
    first = next(iter(verdict.by_others), None)
    if first is not None and short(first) == "not ready":
        return "find out why it is not ready"
    if first is not None and first.reason is Reason.TAINT_NOT_TOLERATED:
        return "find out what has tainted it; the taint goes with its cause"
    if first is not None and first.reason in _BY_OTHER_PODS:
        return "other pods exclude it there: compare their affinity and spread rules with those of this pod"
    return "make room there, or add a node"


def way_out(verdicts: NodeVerdicts, place: str) -> Step:
    """Return what makes the nearest node usable: one with access to the volumes and a single reason against it."""
    note = f"nodes in {named(verdicts.zones_far)} cannot help" if verdicts.zones_far else ""
    cordoned, tainted = verdicts.only_cordoned, verdicts.only_tainted
    if cordoned is not None:
        return Step(f"kubectl uncordon {cordoned.node.name}", note)
    if tainted is not None:
        taint = quote(tainted.by_others[0].offered.removeprefix("taint "))
        why = "ends the taint for all pods; or let this pod tolerate it"
        return Step(f"kubectl taint node {tainted.node.name} {taint}-", f"{why}; {note}".rstrip("; "))
    if verdicts.near and all(_first_reason(verdict) is Reason.NODE_SELECTOR_MISMATCH for verdict in verdicts.near):
        why = "label a node so that the pod's nodeSelector and affinity select it, or create the pod with others"
        return Step("kubectl get nodes --show-labels", f"{why}; {note}".rstrip("; "))
    if verdicts.near:
        nearest = next((verdict for verdict in verdicts.near if _lacks_room(verdict)), verdicts.near[0])
        return Step(f"kubectl describe node {nearest.node.name}", f"{_look_for(nearest)}; {note}".rstrip("; "))
    return Step("kubectl get nodes -L topology.kubernetes.io/zone", f"add a node in {place}" if place else "add a node")


def _out_of_every_reach(volume: Volume, nodes: Iterable[Node]) -> Step:
    """Return what gives some node access to a volume to which none has."""
    keys = label_keys(volume.node_affinity)
    command = f"kubectl get nodes -L {','.join(keys or (ZONE_LABEL,))}"
    if keys == (HOSTNAME_LABEL,):
        return Step(command, "its data is on that node only: bring the node back, or restore the data to a new volume")
    labelled = {key for node in nodes for key, _ in node.labels}
    missing = [key for key in keys if key not in labelled]
    if missing:
        return Step(command, f"no node has the label {missing[0]}: does the volume's driver run on any?")
    return Step(command, f"add a node in {place_of(volume)}")
