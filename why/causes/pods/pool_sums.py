"""Causes in pools of storage: the volumes that a pod still lacks fit into one of them each, and not together.

kube-scheduler compares each claim alone with what a driver reports (hasEnoughCapacity in volumebinding/binder.go). Mode
provision, the extender and the standalone scheduler compare their sum, beside what is in flight, by the same rules as
here (binder.provisioning.sums). Claims in flight in namespaces that were not read do not count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from binder.model.decision import Mode
from binder.provisioning.sums import Sum, bytes_text, room_text, sums_on
from kube.objects.model import PROVISIONED_BY, SELECTED_NODE, Claim, Node, Pod, Volume, value_of
from kube.plain_text import shell
from scheduler.volumes.volume_binding import PodClaims, claims_of
from why.causes.claims.capacity import room_step
from why.causes.claims.provisioning import binds_late
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, claim_object, named, own_volume, place_of, pod_link
from why.causes.pods.node_verdicts import node_verdicts
from why.causes.reported import Failure, provisioner_failure, quoted
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_MAX_NODES_SHOWN: Final = 4
_ROOM_THERE: Final = Step(
    room_step().command, "free or add storage there: the pod goes on by itself when its driver reports the room"
)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A claim whose volume exists, or is being made for a node."""

    claim: Claim
    volume: Volume | None

    @property
    def where(self) -> str:
        if self.volume is not None:
            return f"volume {self.volume.name} in {place_of(self.volume)}"
        return f"being made for node {value_of(self.claim.annotations, SELECTED_NODE)}"


def partly_provisioned(facts: Facts, pod: Pod) -> Finding | None:
    """Some of the pod's volumes were made, and where they are there is no room for the others: it waits for ever.

    Upstream: kubernetes/kubernetes#111755 and topolvm/topolvm#117; a volume that exists is not made again elsewhere.
    """
    lacking = [] if pod.node_name else _lacking(facts, pod)
    begun = list(_begun(facts, pod)) if lacking else []
    if not begun or not facts.has(Source.CAPACITIES):
        return None
    failures = [failure for claim in lacking if (failure := _exhausted(facts, claim)) is not None]
    full = _full(facts, pod, lacking)
    if not full and not failures:
        return None
    missing = named(claim.name for claim in lacking)
    there = "; ".join(f"claim {each.claim.name}: {each.where}" for each in begun)
    short = f": {_short_of(full[0][1])}" if full else ": its driver rejects them, whatever it reports"
    others = "claim" if len(lacking) == 1 else "claims"
    return Finding(
        Reason.PARTLY_PROVISIONED,
        f"Only a part of the pod's volumes exists ({there}), and there is no room beside them for {others} {missing}"
        f"{short}.",
        (pod_link(pod), *(claim_link(claim, "no room") for claim in lacking)),
        (
            *(Evidence(claim_object(each.claim), "", each.where) for each in begun),
            *_of_nodes(full),
            *(quoted(facts, failure.event) for failure in failures),
        ),
        (_ROOM_THERE, _start_again(pod)),
    )


def no_room_for_all(facts: Facts, pod: Pod) -> Finding | None:
    """Each node that could run the pod lacks room for all of its new volumes together; for one by one some have it."""
    lacking = _lacking(facts, pod)
    if not lacking or not _is_summed(facts, pod, lacking) or not facts.has(Source.CAPACITIES):
        return None
    full = _full(facts, pod, lacking)
    gated = facts.annotations.carries_gate(pod)
    if not full or (not gated and any(_has_another_report(needed) for _, needed in full)):
        return None
    return Finding(
        Reason.INSUFFICIENT_STORAGE,
        _message(lacking, full),
        (pod_link(pod), *(claim_link(claim) for claim in lacking), Link("Node", full[0][0].name, "no room for all")),
        (*_of_nodes(full), *_not_counted(facts, full)),
        (_ROOM_THERE,),
    )


def _lacking(facts: Facts, pod: Pod) -> list[Claim]:
    """Return the claims for which a volume is to be made, and no node was selected yet."""
    snapshot = facts.need(Source.CLAIMS, Source.CLASSES)
    every = (snapshot.claims[key] for key in pod.claim_keys if key in snapshot.claims)
    open_ = (claim for claim in every if not claim.volume_name and not value_of(claim.annotations, SELECTED_NODE))
    return [claim for claim in open_ if _is_made_late(facts, claim) and own_volume(facts, claim) is None]


def _is_made_late(facts: Facts, claim: Claim) -> bool:
    storage_class = facts.snapshot.classes.get(class_of(claim))
    return storage_class is not None and storage_class.provisions and binds_late(storage_class)


def _begun(facts: Facts, pod: Pod) -> Iterator[_Begun]:
    snapshot = facts.need(Source.VOLUMES)
    for claim in (snapshot.claims[key] for key in pod.claim_keys if key in snapshot.claims):
        volume = snapshot.volumes.get(claim.volume_name) or own_volume(facts, claim)
        if volume is not None and value_of(volume.annotations, PROVISIONED_BY) is not None:
            yield _Begun(claim, volume)
        elif volume is None and value_of(claim.annotations, SELECTED_NODE) and _is_made_late(facts, claim):
            yield _Begun(claim, None)


def _exhausted(facts: Facts, claim: Claim) -> Failure | None:
    failure = provisioner_failure(facts, claim)
    return failure if failure is not None and failure.code is Reason.INSUFFICIENT_STORAGE else None


def _is_summed(facts: Facts, pod: Pod, lacking: Sequence[Claim]) -> bool:
    """Whether sums are what keeps the pod waiting: kube-scheduler, without the extender, would have placed it."""
    if not facts.annotations.carries_gate(pod):
        return pod.unschedulable and node_verdicts(facts, pod).any_fits
    mode, classes = facts.annotations.mode, facts.snapshot.classes
    return any(value_of(classes[class_of(claim)].annotations, mode) == Mode.PROVISION for claim in lacking)


def _full(facts: Facts, pod: Pod, lacking: Sequence[Claim]) -> list[tuple[Node, Sum]]:
    """Return the nodes that could run the pod, with the pool that is too full, the emptiest first; none if one fits."""
    facts.need(Source.CSI_DRIVERS)
    claims = claims_of(pod, facts.need(Source.VOLUMES))
    if not isinstance(claims, PodClaims):
        return []
    certain = facts.annotations.carries_gate(pod)
    full: list[tuple[Node, Sum]] = []
    for verdict in node_verdicts(facts, pod).usable:
        if any(rejection.reason is not Reason.INSUFFICIENT_STORAGE for rejection in verdict.by_volumes):
            continue
        pools, labels = facts.derived.pools, dict(verdict.node.labels)
        sums = sums_on(lacking, labels, facts.snapshot, pools, facts.now)
        over = [each for each in sums if not (each.room.fits if certain else each.room.may_fit)(*each.sizes)]
        if not over:
            return []
        full.append((verdict.node, over[0]))
    return sorted(full, key=lambda pair: (-(pair[1].room.left or 0), pair[0].name))


def _has_another_report(needed: Sum) -> bool:
    """Whether the least of several reports is too small for one volume, on a node that kube-scheduler accepts: it
    believes a larger one.
    """
    return needed.room.left is not None and any(size > needed.room.reported for size in needed.sizes)


def _message(lacking: Sequence[Claim], full: Sequence[tuple[Node, Sum]]) -> str:
    alone = [pair for pair in full if len(pair[1].sizes) > 1 and all(pair[1].room.fits(size) for size in pair[1].sizes)]
    if alone:
        node, needed = alone[0]
        count, both = len(needed.sizes), "both" if len(needed.sizes) == 2 else "all"
        number = "two" if count == 2 else str(count)
        return f"Each of the {number} claims fits on {node.name}, {both} together do not: {_short_of(needed)}."
    node, needed = full[0]
    what = "the pod's new volumes" if len(lacking) > 1 else f"a volume for claim {lacking[0].name}"
    return f"No node that could run the pod has room for {what}; on {node.name}: {_short_of(needed)}."


def _short_of(needed: Sum) -> str:
    return f"{bytes_text(needed.size)} wanted, {room_text(needed.room)}"


def _of_nodes(full: Sequence[tuple[Node, Sum]]) -> Iterator[Evidence]:
    for node, needed in full[:_MAX_NODES_SHOWN]:
        keys = named(claim.key for claim in needed.claims)
        wanted = f"{bytes_text(needed.size)} for {keys}{' together' if len(needed.claims) > 1 else ''}"
        yield Evidence(f"csistoragecapacities for node {node.name}", wanted, room_text(needed.room))
    if len(full) > _MAX_NODES_SHOWN:
        yield Evidence("csistoragecapacities", "", f"as little for {len(full) - _MAX_NODES_SHOWN} more nodes")


def _not_counted(facts: Facts, full: Sequence[tuple[Node, Sum]]) -> Iterator[Evidence]:
    """Yield claims for which these nodes are selected, and that take no room there: nothing will be made for them."""
    nodes = {node.name for node, _ in full}
    dropped = [each for each in facts.derived.pools.not_counted(facts.now) if each.node in nodes]
    for each in dropped[:_MAX_NODES_SHOWN]:
        yield Evidence(f"pvc/{each.claim} on node {each.node}", "", f"not counted as in flight: {each.why}")


def _start_again(pod: Pod) -> Step:
    return Step(
        shell("kubectl -n {} get pvc {}", pod.namespace, [key.partition("/")[2] for key in pod.claim_keys]),
        "or, only if the volumes that exist hold no data yet, delete the pod and these claims and create them again: "
        "lost with a claim is the data of its volume, if its class has the reclaim policy Delete",
    )
