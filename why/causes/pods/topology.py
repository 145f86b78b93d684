"""Causes in the location of volumes and nodes: no usable node has access to the pod's volumes, or none fits at all."""

from collections.abc import Set
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod, Volume
from kube.plain_text import shell
from kube.rules.selectors import node_matches
from kube.rules.topology import is_on_one_node, within
from scheduler.volumes.volume_binding import PodClaims, claims_of
from why.causes.drivers.workloads import registration
from why.causes.finding import Finding, Step
from why.causes.objects import (
    claim_link,
    named,
    nodes_with,
    on_pod,
    place_object,
    place_of,
    pod_link,
    pods_on,
    volume_link,
)
from why.causes.pods.node_verdicts import NodeVerdict, NodeVerdicts, node_verdicts
from why.causes.pods.remedy import (
    devices_of,
    on_dead_node,
    out_of_every_reach,
    out_of_reach_of_its_node,
    remedy,
    selection_of,
)
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_MAX_NODES_SHOWN: Final = 4


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
    where = ", ".join(f"{name} {within(place)}" for name, place in places.items())
    return Finding(
        Reason.VOLUMES_IN_DIFFERENT_ZONES,
        f"No node has access to all of the pod's volumes: {where}.",
        (pod_link(pod), *_volume_links(claims)),
        tuple(Evidence(place_object(volume), "", place_of(volume)) for _, volume in claims.bound),
        (
            Step(
                shell("kubectl -n {} get pvc {}", pod.namespace, [claim.name for claim, _ in claims.bound]),
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
    pinning = [pair for pair in claims.bound if pair[1].node_affinity is not None] or [claims.bound[0]]
    volumes = [volume for _, volume in pinning]
    places = dict.fromkeys(place_of(volume) for volume in volumes)
    pinned = ", ".join(map(within, places))
    if near:
        message = f"The pod's volume is {pinned}, and no node with access to it can run the pod."
        steps = on_dead_node(remedy(verdicts, ", ".join(places)), facts, pod, verdicts, pinning[0])
    elif verdicts.only_on is not None:
        message = f"The pod may run on {node_names(verdicts.only_on)} only, without access to its volume {pinned}."
        steps = (out_of_reach_of_its_node(facts, pod),)
    else:
        message = f"The pod's volume is {pinned}, and no node of the cluster has access to it."
        steps = out_of_every_reach(facts, pod, *pinning[0], facts.snapshot.nodes.values())
    evidence = [Evidence(place, "", words) for place, words in verdicts.places_near]
    evidence += selection_of(pod, verdicts)
    evidence += [
        Evidence(place_object(volume), "a usable node with access to it", place_of(volume)) for volume in volumes
    ]
    return Finding(
        Reason.TOPOLOGY_CONFLICT,
        message,
        (pod_link(pod), *_volume_links(claims)),
        tuple(evidence),
        steps,
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
        f"The pod is assigned to node {node.name}, and its volume is {within(place_of(volume))}.",
        (pod_link(pod, f"on node {node.name}"), *_volume_links(claims)),
        (Evidence(place_object(volume), f"access from node {node.name}", place_of(volume)),),
        (
            Step(
                on_pod("delete", pod),
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
            for verdict in full[:_MAX_NODES_SHOWN]
            for rejection in verdict.by_volumes
        ),
        (
            Step(
                pods_on(full[0].node.name),
                "move a pod with volumes away, or add a node",
            ),
        ),
    )


def without_driver(facts: Facts, pod: Pod) -> Finding | None:
    """Nodes that could run the pod have not registered its volumes' driver, and it demands that (KEP-5030, csi.go)."""
    if settled(facts, pod) is None:
        return None
    verdicts = node_verdicts(facts, pod)
    without = [verdict for verdict in verdicts.usable if _only(verdict, Reason.DRIVER_NOT_ON_NODE)]
    if not without or verdicts.any_fits:
        return None
    rejection, names = without[0].by_volumes[0], {verdict.node.name for verdict in without}
    driver = rejection.wanted.removeprefix("CSI driver ").partition(" ")[0]
    step, runs = registration(facts, driver, min(names), "; while it starts, this is normal")
    return Finding(
        Reason.DRIVER_NOT_ON_NODE,
        f"CSI driver {driver} of the pod's volumes is not registered on {node_names(names)}, which could run the pod.",
        (pod_link(pod), Link("Node", without[0].node.name, f"without {driver}")),
        (
            Evidence("csinodes", f"{driver} on {node_names(names)}", named(nodes_with(facts, driver)) or "on no node"),
            *runs,
            *(Evidence(place, "", words) for place, words in verdicts.places),
        ),
        (step,),
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
    only_on = "" if verdicts.only_on is None else f"The pod may run on {node_names(verdicts.only_on)} only"
    excluding = _excluding(facts, pod, verdicts)
    if verdicts.every:
        message = f"{only_on or 'No node fits the pod'}: {verdicts.in_words}."
        message += "".join(f" {_exclusion(volume, verdicts)}" for _, volume in excluding)
    else:
        message = f"{only_on}, which does not exist." if only_on else "The cluster has no node."
    return Finding(
        Reason.NO_NODE_FITS,
        message,
        (pod_link(pod), *(link for claim, volume in excluding for link in (claim_link(claim), volume_link(volume)))),
        (
            *(Evidence(place, "", words) for place, words in verdicts.places),
            *(Evidence(place_object(volume), "access from every node", place_of(volume)) for _, volume in excluding),
            *selection_of(pod, verdicts),
            *devices_of(pod, verdicts),
        ),
        _remedies(facts, pod, verdicts),
    )


def _excluding(facts: Facts, pod: Pod, verdicts: NodeVerdicts) -> list[tuple[Claim, Volume]]:
    """Return the claims with a volume to which some nodes have no access."""
    claims = claims_of(pod, facts.snapshot)
    bound = claims.bound if isinstance(claims, PodClaims) and verdicts.far else ()
    far = [dict(verdict.node.labels) for verdict in verdicts.far]
    return [pair for pair in bound if not all(node_matches(pair[1].node_affinity, labels) for labels in far)]


def _exclusion(volume: Volume, verdicts: NodeVerdicts) -> str:
    where = f" in zones {named(verdicts.zones_far)}" if len(verdicts.zones_far) > 1 else ""
    where = where or (f" in zone {verdicts.zones_far[0]}" if verdicts.zones_far else "")
    count = len(verdicts.far)
    return f"Volume {volume.name} is {within(place_of(volume))}, which excludes {count} node{'s' * (count > 1)}{where}."


def _remedies(facts: Facts, pod: Pod, verdicts: NodeVerdicts) -> tuple[Step, ...]:
    step, claims = remedy(verdicts, ""), claims_of(pod, facts.snapshot)
    bound = claims.bound if isinstance(claims, PodClaims) else ()
    local = next((pair for pair in bound if is_on_one_node(pair[1])), None)
    return (step,) if local is None else on_dead_node(step, facts, pod, verdicts, local)


def settled(facts: Facts, pod: Pod) -> PodClaims | None:
    """Return the pod's claims if each has a volume or waits for a node; None if one of them is the cause itself."""
    snapshot = facts.need(Source.CLAIMS, Source.VOLUMES, Source.CLASSES)
    claims = claims_of(pod, snapshot)
    return claims if isinstance(claims, PodClaims) else None


def _volume_links(claims: PodClaims) -> tuple[Link, ...]:
    return tuple(link for claim, volume in claims.bound for link in (claim_link(claim), volume_link(volume)))


def node_names(names: Set[str]) -> str:
    """Return nodes by name: `node a1`, `nodes a1, b1`."""
    return f"node{'' if len(names) == 1 else 's'} {named(sorted(names))}"
