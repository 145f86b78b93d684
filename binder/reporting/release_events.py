"""Events on a volume whose claim was deleted while it was being bound: that it is free again, or who has to free it."""

from typing import Final

from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.objects.model import Volume

MADE_AVAILABLE: Final = "VolumeMadeAvailable"
STAYS_RELEASED: Final = "VolumeReleased"


class ReleaseAnnouncer:
    """Publishes them, once for each release."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink

    def made_available(self, volume: Volume) -> None:
        note = f"The volume was never bound: claim {_claim_of(volume)} was deleted before. Claims can use it again."
        self._publish(volume, "Normal", MADE_AVAILABLE, note)

    def stays_released(self, volume: Volume) -> None:
        """Report that the volume may hold data of its claim, as far as the controller knows, and the next step."""
        unnamed = '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'
        note = (
            f"The volume stays Released: its claim {_claim_of(volume)} was deleted, and the controller has not seen"
            " every event since it committed the volume, so the volume may hold data. Check it. If a new claim of that"
            f" name may have it: kubectl patch pv {volume.name} --type=merge -p '{unnamed}'"
        )
        self._publish(volume, "Warning", STAYS_RELEASED, note)

    def _publish(self, volume: Volume, kind: str, reason: str, note: str) -> None:
        self._sink.publish(EventDraft(ObjectRef.of_volume(volume), None, kind, reason, "Release", note))


def _claim_of(volume: Volume) -> str:
    return volume.claim.key if volume.claim is not None else "of the volume"
