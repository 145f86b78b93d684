"""How objects are named in a report, and what several families of checks need to know about a claim."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from binder.matching.evidence import affinity_text
from binder.matching.matching import class_of, controller_rejection, default_class
from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod, Volume
from kube.plain_text import field_value, shell
from kube.rules.duration import age_text
from kube.rules.topology import place_text, volume_zone
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

CLAIM = "PersistentVolumeClaim"
VOLUME = "PersistentVolume"
POD = "Pod"
STATEFUL_SET = "StatefulSet"

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = ("node.kubernetes.io/not-ready", UNREACHABLE)
"""Taints of nodes whose kubelet does not report, or reports that it is not ready (node_lifecycle_controller.go)."""


def claim_link(claim: Claim, says: str = "") -> Link:
    """Return the claim as a part of the chain, with its phase unless another text is given."""
    return Link(CLAIM, claim.key, says or phase_of(claim))


def volume_link(volume: Volume, says: str = "") -> Link:
    place = _named_place(volume)
    state = "Terminating" if volume.deleting else place or volume.phase
    return Link(VOLUME, volume.name, says or state)


def pod_link(pod: Pod, says: str = "") -> Link:
    return Link(POD, pod.key, says or pod.phase)


def phase_of(claim: Claim) -> str:
    return "Terminating" if claim.deleting else claim.phase


def class_object(name: str) -> str:
    return f"storageclass/{name}"


def claim_object(claim: Claim, field: str = "") -> str:
    """Return the place of a field on a claim, as kubectl names the object."""
    return f"pvc/{claim.key}{' ' + field if field else ''}"


def pod_object(pod: Pod, field: str = "") -> str:
    return f"pod/{pod.key}{' ' + field if field else ''}"


def volume_object(volume: Volume, field: str = "") -> str:
    return f"pv/{volume.name}{' ' + field if field else ''}"


def on_claim(verb: str, claim: Claim) -> str:
    """Return the command of kubectl that does that to a claim."""
    return shell("kubectl -n {} {} pvc {}", claim.namespace, verb, claim.name)


def on_pod(verb: str, pod: Pod) -> str:
    """Return the command of kubectl that does that to a pod."""
    return shell("kubectl -n {} {} pod {}", pod.namespace, verb, pod.name)


def unannotate(claim: Claim, *keys: str) -> str:
    """Return the command that removes annotations from a claim."""
    return shell("kubectl -n {} annotate pvc {} {}", claim.namespace, claim.name, [f"{key}-" for key in keys])


def pods_on(node: str) -> str:
    """Return the command that lists the pods of a node."""
    return shell("kubectl get pods -A --field-selector spec.nodeName={}", field_value(node))


def with_default_class(facts: Facts, claim: Claim) -> Claim:
    """Return the claim with the class that the PV controller writes into it if it names none (KEP-3333)."""
    if claim.storage_class is not None:
        return claim
    default = default_class(facts.need(Source.CLASSES).classes.values())
    return claim if default is None else replace(claim, storage_class=default.name)


def users_of(facts: Facts, claim: Claim) -> Iterator[Pod]:
    """Yield the pods that use the claim and have not ended, by name."""
    # Of all namespaces only the pending pods are listed at first.
    snapshot = facts.need(Source.ALL_PODS if facts.everywhere and claim.fully_bound else Source.PODS)
    for key in sorted(snapshot.pods_by_claim.get(claim.key, ())):
        yield snapshot.pods[key]


def place_of(volume: Volume) -> str:
    """Return where a volume is: its zone, or its node affinity."""
    if volume.node_affinity is None:
        return _named_place(volume) or "any topology"
    return _named_place(volume) or affinity_text(volume.node_affinity)


def _named_place(volume: Volume) -> str:
    """Return the zone of a volume, or other places that its affinity names; empty without such."""
    zone = volume_zone(volume).replace("__", " or ")
    return f"zone {zone}" if zone else place_text(volume.node_affinity) if volume.node_affinity is not None else ""


def place_object(volume: Volume) -> str:
    """Return the field that says where a volume is: its node affinity, or the labels that VolumeZone reads."""
    return volume_object(volume, "spec.nodeAffinity" if volume.node_affinity is not None else "metadata.labels")


def own_volume(facts: Facts, claim: Claim) -> Volume | None:
    """Return the volume that a claimRef ties to the claim and that is bound to it, whatever else fits.

    A claimRef with the uid of an earlier claim of that name ties it to nothing.
    """
    snapshot = facts.need(Source.VOLUMES)
    tied = (snapshot.volumes[name] for name in sorted(snapshot.volumes_by_claim.get(claim.key, ())))
    fitting = (volume for volume in tied if controller_rejection(claim, volume, delayed=False) is None)
    return next((volume for volume in fitting if volume.claim is not None), None)


def smallest_fitting(facts: Facts, claim: Claim) -> Volume | None:
    """Return the smallest Available volume that Kubernetes would give to the claim on some node."""
    facts.need(Source.VOLUMES)
    return facts.derived.view.index.smallest(claim)


def fits_some_volume(facts: Facts, claim: Claim) -> bool:
    return smallest_fitting(facts, claim) is not None


def of_another_class(facts: Facts, claim: Claim) -> Iterator[Evidence]:
    """Yield an Available volume that would fit the claim but for its class, if there is one."""
    facts.need(Source.VOLUMES)
    index = facts.derived.view.index
    classes = {pool.storage_class for pool in index.shelves} - {class_of(claim)}
    for name in sorted(classes):
        volume = index.smallest(replace(claim, storage_class=name))
        if volume is not None:
            subject = f"pv/{volume.name} ({Reason.CLASS_MISMATCH})"
            yield Evidence(subject, class_of(claim) or "no class", name or "no class")
            return


def older_than_a_minute(facts: Facts, created: datetime | None) -> bool:
    return created is not None and facts.now - created > timedelta(minutes=1)


def named(words: Iterable[str], most: int = 3) -> str:
    """Return a list in words, truncated after so many: `a, b, c and 4 more`."""
    every = list(words)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def age_of(created: datetime | None, now: datetime) -> str:
    return "" if created is None else age_text(now - created)


def nodes_with(facts: Facts, driver: str) -> list[str]:
    """Return the nodes on which the CSI driver is registered, by name."""
    csi_nodes = facts.need(Source.CSI_NODES).csi_nodes.values()
    return sorted(node.name for node in csi_nodes if any(registered.name == driver for registered in node.drivers))
