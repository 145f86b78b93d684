"""Pods that were promised volumes and are on no node yet: kube-scheduler will place them wherever these are accessible.

The ledger knows those of this process; what an earlier one committed is told by the claims and volumes themselves.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from binder.matching.matching import is_mine
from binder.model.view import View
from kube.objects.model import Claim, Pod, Volume


@dataclass(frozen=True, slots=True)
class PromisedPod:
    """A pod and the volumes that it has or was promised; its node must be able to access all of them."""

    pod: Pod
    volumes: tuple[Volume, ...]


def promised_pods(view: View, pods: Iterable[Pod], planned: Set[str]) -> Iterator[PromisedPod]:
    """Yield those of these pods that were promised volumes and wait for a node; `planned` ones are decided now."""
    for pod in pods:
        if pod.claims and not pod.node_name and not pod.deleting and not pod.finished and pod.key not in planned:
            volumes = tuple(_volumes(view, pod))
            if volumes:
                yield PromisedPod(pod, volumes)


def _volumes(view: View, pod: Pod) -> Iterator[Volume]:
    snapshot = view.snapshot
    for key in pod.claim_keys:
        claim = snapshot.claims.get(key)
        volume = None if claim is None else snapshot.volumes.get(claim.volume_name) or _promise(view, claim)
        if volume is not None:
            yield volume


def _promise(view: View, claim: Claim) -> Volume | None:
    """Return the volume whose own side names the claim, or that the ledger holds for it."""
    volumes = view.snapshot.volumes
    committed = (volumes[name] for name in sorted(view.snapshot.volumes_by_claim.get(claim.key, ())))
    holds = (hold for hold in view.ledger.of_claim(claim.key) if hold.claim_uid == claim.uid)
    held = (volumes[hold.volume] for hold in holds if hold.volume in volumes)
    return next((volume for volume in committed if is_mine(claim, volume)), None) or next(held, None)
