"""What a pod's scheduler reports about it: enough for a user who may not read nodes, volumes or classes.

The scheduler has read them, and its message is as old as its last attempt. A text counts only if it names one cause:
where it fits several of them, or only a symptom such as `unbound immediate PersistentVolumeClaims`, nothing is guessed.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, Claim, Pod, Volume, value_of
from kube.rules.topology import volume_zone
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, named, on_pod, pod_link, volume_link
from why.causes.reported import of_scheduler
from why.facts.facts import Facts, Source
from why.report.report import Link


class _Text(NamedTuple):
    """A text of kube-scheduler, its cause, and that in words; the pattern's group is the name of a claim."""

    pattern: re.Pattern[str]
    code: Reason
    clause: str


_SEEN_BY_SCHEDULER: Final = (
    Source.NODES,
    Source.ALL_PODS,
    Source.VOLUMES,
    Source.CLASSES,
    Source.CLAIMS,
    Source.CSI_NODES,
)
_VERDICT: Final = re.compile(r"\d+/\d+ nodes are available:? \S|no nodes available to schedule pods")

_OF_CLAIMS: Final = (
    _Text(
        re.compile(r'(?:create the )?persistentvolumeclaim "([^"]+)"(?: not found|$|\.)'),
        Reason.CLAIM_NOT_FOUND,
        "claim {claim} of the pod does not exist",
    ),
    _Text(
        re.compile(r'persistentvolumeclaim "([^"]+)" is being deleted'),
        Reason.CLAIM_DELETING,
        "claim {claim} of the pod is being deleted",
    ),
    _Text(
        re.compile(r'persistentvolumeclaim "([^"]+)" bound to non-existent persistentvolume'),
        Reason.CLAIM_LOST,
        "claim {claim} of the pod is bound to a volume that does not exist",
    ),
)
"""About the pod as a whole (podHasPVCs in volumebinding/volume_binding.go)."""

_OF_NODES: Final = (
    _Text(
        re.compile(r"bound to non-existent pv"),
        Reason.CLAIM_LOST,
        "a claim of the pod is bound to a volume that does not exist",
    ),
    _Text(
        re.compile(r"ReadWriteOncePod access mode"),
        Reason.VOLUME_IN_USE,
        "another pod uses a ReadWriteOncePod claim of the pod",
    ),
    _Text(
        re.compile(r"exceed max volume count"),
        Reason.ATTACH_LIMIT_REACHED,
        "nodes that could run the pod cannot attach more volumes",
    ),
    _Text(
        re.compile(r"did not have enough free storage"),
        Reason.INSUFFICIENT_STORAGE,
        "no node that could run the pod has room for its new volumes",
    ),
    _Text(
        re.compile(
            r"volume node affinity conflict|didn't match PersistentVolume's node affinity|no available volume zone"
        ),
        Reason.TOPOLOGY_CONFLICT,
        "no node with access to the pod's volumes can run it",
    ),
    _Text(
        re.compile(r"didn't find available persistent volumes to bind"),
        Reason.NO_VOLUME_FITS,
        "no node that could run the pod has a volume for its claims",
    ),
)
"""About nodes and volumes, in the words of every release in use: VolumeBinding (binder.go), VolumeZone,
VolumeRestrictions and NodeVolumeLimits.
"""

_NO_NODE: Final = _Text(_VERDICT, Reason.NO_NODE_FITS, "no node fits the pod, for reasons other than its volumes")
_SYMPTOM: Final = "unbound immediate PersistentVolumeClaims"

_REFINED: Final[Mapping[Reason, str]] = {
    Reason.SELECTED_NODE_STALE: "the node for which a volume of the pod is to be provisioned cannot run the pod",
    Reason.TOPOLOGY_NOT_ALLOWED: "no node that could run the pod is where its class provisions volumes",
    Reason.VOLUMES_IN_DIFFERENT_ZONES: "no node has access to all of the pod's volumes",
}


def reported_by_scheduler(facts: Facts, pod: Pod) -> Finding | None:
    """The scheduler's last message about the pod names one cause (FitError in framework/types.go)."""
    unread = [source for source in _SEEN_BY_SCHEDULER if source in facts.used and source in facts.skipped]
    words = None if pod.nominated_node or not unread else of_scheduler(facts, pod, _VERDICT)
    if words is None:
        return None
    verdict = words.found.partition(" preemption: ")[0].strip('"')
    text = _named_by(verdict)
    if text is None:
        return None
    match = text.pattern.search(verdict)
    name = match[1] if match is not None and match.re.groups else ""
    snapshot = facts.snapshot
    claims = [snapshot.claims[key] for key in pod.claim_keys if key in snapshot.claims]
    volumes = [snapshot.volumes[claim.volume_name] for claim in claims if claim.volume_name in snapshot.volumes]
    code = _refined(facts, text.code, claims, volumes)
    if code is None:
        return None
    clause = _REFINED.get(code, text.clause).format(claim=name)
    missing = named((f"{source} ({facts.skipped[source]})" for source in unread), len(unread))
    return Finding(
        code,
        f"{pod.scheduler_name} reports that {clause}. That cannot be confirmed without {missing}.",
        (
            pod_link(pod),
            *(claim_link(claim) for claim in claims if name in {"", claim.name}),
            *(volume_link(volume) for volume in volumes),
            Link("Scheduler", pod.scheduler_name, "reports it"),
        ),
        (words,),
        (
            Step(
                on_pod("describe", pod),
                f"shows the whole message; with {named(unread, len(unread))} this command names the cause in full",
            ),
        ),
    )


def _named_by(verdict: str) -> _Text | None:
    """Return the one cause that the text names, None if it names several, or only a symptom."""
    of_claim = next((text for text in _OF_CLAIMS if text.pattern.search(verdict)), None)
    if of_claim is not None or _SYMPTOM in verdict:
        return of_claim
    of_nodes = [text for text in _OF_NODES if text.pattern.search(verdict)]
    if len(of_nodes) > 1:
        return None
    return of_nodes[0] if of_nodes else _NO_NODE


def _refined(facts: Facts, code: Reason, claims: list[Claim], volumes: list[Volume]) -> Reason | None:
    """Return the cause that fits what was read besides, None if the text has more than one meaning then."""
    if code is Reason.TOPOLOGY_CONFLICT:
        zones = {volume_zone(volume) for volume in volumes} - {""}
        is_apart = len(zones) > 1 and all("__" not in zone for zone in zones)
        return Reason.VOLUMES_IN_DIFFERENT_ZONES if is_apart else code
    if code is not Reason.NO_VOLUME_FITS:
        return code
    # checkVolumeProvisions in binder.go has one text for static volumes, another selected node, allowedTopologies.
    unbound = [claim for claim in claims if not claim.fully_bound]
    if any(value_of(claim.annotations, SELECTED_NODE) is not None for claim in unbound):
        return Reason.SELECTED_NODE_STALE
    classes = (facts.snapshot.classes.get(class_of(claim)) for claim in unbound)
    dynamic = [known for known in classes if known is not None and known.provisions]
    if not dynamic:
        return code
    return Reason.TOPOLOGY_NOT_ALLOWED if any(known.allowed_topologies is not None for known in dynamic) else None
