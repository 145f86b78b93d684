"""`pvc-prebinder replace`: the one writer of ours that has no Lease, and that deletes: claims, with both proofs."""

from collections.abc import Callable, Iterator
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import PREFIX, reference
from soak.judge.history import Object
from soak.judge.rules import GRACE, Moment, Violation, a_claim_ref_is_never_taken_over, no_unhealthy_volume_is_taken
from soak.judge.to_come.holds import no_kept_volume_is_handed_out

PROOFS: Final = "no claim is deleted without both proofs"
SWAPPED: Final = "a replacement is for the claim that lost its volume"


def a_claim_is_deleted_with_both_proofs(moment: Moment) -> Iterator[Violation]:
    """No node that reaches its volume exists, and no node of a pod that uses it. The soak gives no other proof."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolumeClaim" or change.after is None or not facts.deleting(change.after):
        return
    if change.before is not None and facts.deleting(change.before):
        return
    volume = cluster.volumes.get(facts.volume_name(change.after))
    there = [node for node in cluster.nodes.values() if _has_been_there(node, moment)]
    reaching = [facts.name(node) for node in there if volume is not None and facts.reachable_from(volume, node)]
    if volume is not None and reaching:
        yield moment.violation(PROOFS, f"deleted although {reaching} reach its volume {facts.name(volume)}")
    for pod in _users(change.key, cluster):
        on = pod["spec"].get("nodeName", "")
        if on in map(facts.name, there) and not facts.finished(pod):
            yield moment.violation(PROOFS, f"deleted although pod {facts.key_of(pod)} is on node {on}, which exists")


def a_replacement_is_for_the_claim_that_lost_its_volume(moment: Moment) -> Iterator[Violation]:
    """The volume names the claim in its claimRef, without uid, and in the annotation."""
    change = moment.change
    named = reference(change.after)
    if change.kind != "PersistentVolume" or named is None or not moment.commits_anew:
        return
    replaces = facts.annotation(change.after, PREFIX + "replaces") or ""
    if named[1] or not replaces.startswith(f"{named[0]}/"):
        yield moment.violation(
            SWAPPED, f"claimRef to {named[0]} ({named[1] or 'no uid'}), and it replaces {replaces!r}"
        )


REPLACEMENT_RULES: Final[tuple[Callable[[Moment], Iterator[Violation]], ...]] = (
    a_claim_is_deleted_with_both_proofs,
    a_replacement_is_for_the_claim_that_lost_its_volume,
    a_claim_ref_is_never_taken_over,
    no_unhealthy_volume_is_taken,
    no_kept_volume_is_handed_out,
)


def _has_been_there(node: Object, moment: Moment) -> bool:
    """Whether the node existed when the request was decided: one that has just returned was not seen."""
    return moment.cluster.nodes_since.get(facts.name(node), 0.0) < moment.write.received - GRACE


def _users(claim_key: str, cluster: Cluster) -> Iterator[Object]:
    for consumer in cluster.consumers[claim_key].values():
        if consumer.gone_at is None and consumer.key in cluster.pods:
            yield cluster.pods[consumer.key]
