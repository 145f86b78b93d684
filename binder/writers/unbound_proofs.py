"""Proof that a committed volume was never bound, so that it may be used again after its claim was deleted.

Kubernetes considers a volume Released as soon as the claim that its claimRef names by uid is gone, whether or not the
claim ever had it (syncVolume in pv_controller.go). A volume that was Bound holds the data of its claim. That this one
was not is shown only by every event since our write: a list shows the last state and not what was before it, so a new
list of any of the kinds ends all proofs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum

from kube.objects.model import Claim, Pod, Volume, VolumeAttachment
from kube.store.snapshot import Snapshot
from kube.store.store import Store


class PastBind(Enum):
    """Whether a Released volume was bound to its claim. `NOT_SEEN_YET`: the watch has not shown this version."""

    NEVER = "never"
    NOT_SEEN_YET = "not seen yet"
    POSSIBLY = "possibly"


@dataclass(slots=True)
class _Proof:
    """The claim to which we committed the volume, the version of that write, and the last one that the watch showed."""

    volume_uid: str
    claim_key: str
    claim_uid: str
    since: int
    seen: int


@dataclass(slots=True)
class UnboundProofs:
    """Follows the events of volumes that this term of the leader committed. Each is forgotten once it is Bound."""

    store: Store
    _proofs: dict[str, _Proof] = field(default_factory=dict)
    _by_claim: dict[str, set[str]] = field(default_factory=dict)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the watches while inside the context."""
        store = self.store
        with ExitStack() as stack:
            stack.enter_context(store.volumes.witnessed(self._saw_volume, self._missed_volume))
            stack.enter_context(store.claims.witnessed(self._saw_claim, self._missed))
            stack.enter_context(store.pods.witnessed(self._saw_pod, self._missed))
            stack.enter_context(store.attachments.witnessed(self._saw_attachment, self._missed))
            yield

    def committed(self, volume: Volume) -> None:
        """The API server has confirmed that we committed the volume, in this version, to a claim by its uid."""
        reference = volume.claim
        if reference is None or not reference.uid or volume.phase == "Bound":
            return
        self._forget(volume.name)
        version = volume.resource_version
        self._proofs[volume.name] = _Proof(volume.uid, reference.key, reference.uid, version, version)
        self._by_claim.setdefault(reference.key, set()).add(volume.name)

    def bound(self, volume: Volume, snapshot: Snapshot) -> PastBind:
        """Return whether the volume, Released in this version, was ever bound to the claim that it names."""
        proof = self._proofs.get(volume.name)
        if proof is None or not _is_about(proof, volume) or _is_in_use(proof, volume, snapshot):
            return PastBind.POSSIBLY
        if proof.seen < volume.resource_version:
            return PastBind.NOT_SEEN_YET
        return PastBind.NEVER if proof.seen == volume.resource_version else PastBind.POSSIBLY

    def _saw_volume(self, volume: Volume) -> None:
        proof = self._proofs.get(volume.name)
        if proof is None or volume.resource_version <= proof.since:
            return
        if volume.phase in {"Bound", "Failed"} or not _is_about(proof, volume):
            self._forget(volume.name)
        else:
            proof.seen = volume.resource_version

    def _saw_claim(self, claim: Claim) -> None:
        if claim.volume_name and claim.key in self._by_claim:
            self._forget_claim(claim.key)

    def _saw_pod(self, pod: Pod) -> None:
        if not pod.node_name or not self._by_claim:
            return
        for key in pod.claim_keys:
            self._forget_claim(key)

    def _saw_attachment(self, attachment: VolumeAttachment) -> None:
        self._forget(attachment.volume_name)

    def _missed_volume(self, name: str | None) -> None:
        if name is None:
            self._missed(None)
        else:
            self._forget(name)

    def _missed(self, key: str | None) -> None:
        """Events may have been missed. A single claim, pod or attachment that is gone proves nothing either way."""
        if key is None:
            self._proofs.clear()
            self._by_claim.clear()

    def _forget_claim(self, key: str) -> None:
        for name in tuple(self._by_claim.get(key, ())):
            self._forget(name)

    def _forget(self, name: str) -> None:
        proof = self._proofs.pop(name, None)
        if proof is None:
            return
        names = self._by_claim[proof.claim_key]
        names.discard(name)
        if not names:
            del self._by_claim[proof.claim_key]


def _is_about(proof: _Proof, volume: Volume) -> bool:
    reference = volume.claim
    named = reference is not None and (reference.key, reference.uid) == (proof.claim_key, proof.claim_uid)
    return named and volume.uid == proof.volume_uid


def _is_in_use(proof: _Proof, volume: Volume, snapshot: Snapshot) -> bool:
    """Whether a claim names the volume, a node has it attached, or a pod that may use it has a node."""
    if snapshot.claims_by_volume.get(volume.name):
        return True
    if any(attachment.volume_name == volume.name for attachment in snapshot.attachments.values()):
        return True
    users = (snapshot.pods.get(key) for key in snapshot.pods_by_claim.get(proof.claim_key, ()))
    return any(user is not None and user.node_name for user in users)
