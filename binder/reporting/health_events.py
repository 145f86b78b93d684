"""Events about changes of volume health: one for each change, on the volume and on the claim and pods that use it.

The reasons VolumeConditionAbnormal and VolumeConditionNormal are those of kubernetes-csi/external-health-monitor.
"""

from collections.abc import Iterable
from typing import Final

from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.objects.model import Pod, Volume
from kube.store.snapshot import Snapshot

ABNORMAL: Final = "VolumeConditionAbnormal"
NORMAL: Final = "VolumeConditionNormal"
QUARANTINED: Final = "Quarantined"
RELEASED: Final = "QuarantineReleased"
RESERVATION_ENDED: Final = "ReservationLost"
WRITE_REJECTED: Final = "WriteRejected"

_ACTION: Final = "CheckHealth"


class HealthAnnouncer:
    """Publishes them. The caller knows that something changed."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink

    def changed(self, volume: Volume, finding: HealthFinding, snapshot: Snapshot) -> None:
        """Report on the volume, and if it is bound on its claim and the claim's pods."""
        recovered = finding.state is HealthState.HEALTHY
        kind, reason = ("Normal", NORMAL) if recovered else ("Warning", ABNORMAL)
        note = f"Volume {volume.name} is {described(finding)}"
        about = ObjectRef.of_volume(volume)
        self._publish(about, None, kind, reason, note)
        if volume.phase == "Bound" and volume.claim is not None:
            key = volume.claim.key
            for reference in _users(volume, key, snapshot):
                self._publish(reference, about, kind, reason, note)

    def quarantined(self, volume: Volume, finding: HealthFinding) -> None:
        note = f"No claim can use this volume until its driver reports it healthy: it is {described(finding)}. "
        note += f"Repair it, or release it with `pvc-prebinder quarantine release {volume.name}`."
        self._publish(ObjectRef.of_volume(volume), None, "Warning", QUARANTINED, note)

    def released(self, volume: Volume) -> None:
        note = "Claims can use the volume again: its driver reports it healthy"
        self._publish(ObjectRef.of_volume(volume), None, "Normal", RELEASED, note)

    def reservation_ended(self, volume: Volume, claim_key: str, finding: HealthFinding, snapshot: Snapshot) -> None:
        """Report on the claim, and its pods, that its volume became unhealthy before it was bound."""
        note = f"Reservation of volume {volume.name} ended: it is {described(finding)}. Another volume is being chosen"
        for reference in _users(volume, claim_key, snapshot):
            self._publish(reference, ObjectRef.of_volume(volume), "Warning", RESERVATION_ENDED, note)

    def write_rejected(self, volume: Volume, why: str) -> None:
        """Report on the volume that its health, or its quarantine, cannot be written to it; `why` is the API server's
        message.
        """
        note = f"The API server rejected a write to this volume; it is retried: {why}"
        self._publish(ObjectRef.of_volume(volume), None, "Warning", WRITE_REJECTED, note)

    def _publish(self, regarding: ObjectRef, related: ObjectRef | None, kind: str, reason: str, note: str) -> None:
        self._sink.publish(EventDraft(regarding, related, kind, reason, _ACTION, note))


def described(finding: HealthFinding) -> str:
    """Return state, reason, message and source, as far as known."""
    words = " ".join(word for word in (str(finding.state), f"({finding.reason})" if finding.reason else "") if word)
    text = f"{words}: {finding.message}" if finding.message else words
    return f"{text} (reported by {finding.source})"


def _users(volume: Volume, claim_key: str, snapshot: Snapshot) -> Iterable[ObjectRef]:
    """Yield the claim and its pods. An agent sees neither, but a bound volume names its claim."""
    claim = snapshot.claims.get(claim_key)
    uid = claim.uid if claim is not None else volume.claim.uid if volume.claim is not None else ""
    if uid:
        namespace, _, name = claim_key.partition("/")
        yield ObjectRef("v1", "PersistentVolumeClaim", name, namespace, uid)
    for key in snapshot.pods_by_claim.get(claim_key, ()):
        pod: Pod | None = snapshot.pods.get(key)
        if pod is not None:
            yield ObjectRef.of_pod(pod)
