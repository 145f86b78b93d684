"""Quarantine: an Available volume that has lost its data or is inaccessible is withheld from every claim.

Its claimRef names a placeholder claim that does not exist, without a uid. So it stays Available, no claim matches it
(pkg/volume/persistentvolume/index.go and FindMatchingVolume skip volumes with another's claimRef), nothing can be
reclaimed because of it, and one conditional write undoes it. Annotations in the same write record why and since when,
and prove that the claimRef is ours. A placeholder without them is left to the administrator (`pvc-prebinder quarantine
release`): it may have been kept on purpose when the annotations were removed.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from binder.matching.index import is_free
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations, format_time
from binder.reservation.release import UNUSED_PHASES
from binder.reservation.writes import Patch
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.objects.model import Volume, value_of

_PLACEHOLDER: Final = "quarantine-"
_DANGEROUS: Final = frozenset({HealthState.INACCESSIBLE, HealthState.DATA_LOSS})
_AVAILABLE: Final = "Available"


class QuarantineStep(StrEnum):
    """What to do about a volume's quarantine. FORGET: only our annotations are removed, the claimRef is not ours."""

    TAKE = "take"
    RELEASE = "release"
    FORGET = "forget"


def quarantine_step(volume: Volume, finding: HealthFinding | None, annotations: Annotations) -> QuarantineStep | None:
    """Return what to do, None for nothing.

    A volume is quarantined when it is reported as Inaccessible or DataLoss while it is Available, not reserved and not
    kept for a name. It
    is released when it is reported as Healthy: a driver that does not respond, or reports it as Degraded by now, has
    not reported a recovery. The annotations are removed only if the claimRef is not the placeholder any more: a volume
    that was restored from a backup is Pending at first, and nothing would restore annotations lost then.
    """
    if not marks(volume, annotations):
        free = is_free(volume) and not annotations.keys_on_volume(volume) and not annotations.pin_keys(volume)
        return QuarantineStep.TAKE if free and finding is not None and finding.state in _DANGEROUS else None
    if not has_placeholder(volume):
        return QuarantineStep.FORGET
    healthy = finding is not None and finding.state is HealthState.HEALTHY
    return QuarantineStep.RELEASE if healthy and holds(volume) else None


def in_quarantine(volume: Volume, annotations: Annotations) -> bool:
    """Whether the volume is withheld from claims by any process of ours."""
    return bool(marks(volume, annotations)) and holds(volume)


def marks(volume: Volume, annotations: Annotations) -> tuple[str, ...]:
    """Return the keys of our quarantine annotations on the volume."""
    keys = (annotations.quarantine, annotations.quarantined_at)
    return tuple(key for key in keys if value_of(volume.annotations, key) is not None)


def has_placeholder(volume: Volume) -> bool:
    """Whether the claimRef is the volume's placeholder, in whatever namespace it was written."""
    reference = volume.claim
    return reference is not None and reference.name == _PLACEHOLDER + volume.name and not reference.uid


def holds(volume: Volume) -> bool:
    """Whether a placeholder withholds the volume from claims, and the volume is as unused as when it was
    quarantined.
    """
    return has_placeholder(volume) and volume.phase in UNUSED_PHASES


def take_patch(
    volume: Volume, finding: HealthFinding, now: datetime, namespace: str, annotations: Annotations
) -> Patch:
    """Return the write that quarantines a volume; the placeholder is named in our own `namespace`."""
    words = f"{finding.state}: {finding.reason}" if finding.reason else str(finding.state)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        # One for each volume: a claim never has two, not even one that does not exist.
        "name": _PLACEHOLDER + volume.name,
    }
    why = {annotations.quarantine: words, annotations.quarantined_at: format_time(now)}
    return {"metadata": {"annotations": why}, "spec": {"claimRef": reference}}


def end_patch(volume: Volume, step: QuarantineStep, annotations: Annotations) -> Patch:
    """Return the write that ends a quarantine; the claimRef is removed only if it is still the placeholder."""
    removed = {"annotations": dict.fromkeys(marks(volume, annotations))}
    return (
        {"metadata": removed, "spec": {"claimRef": None}} if step is QuarantineStep.RELEASE else {"metadata": removed}
    )


@dataclass(slots=True)
class Pools:
    """For each class the names of its volumes that are Available and not kept for a name, and of those in quarantine.

    The values are not used: of 40,000 names a dict takes 1 MB, a set 4 MB.
    """

    annotations: Annotations
    available: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    quarantined: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def changed(self, old: Volume | None, new: Volume | None) -> None:
        """Apply a change. Applying the same one twice is harmless."""
        if old is not None:
            self.available[class_of(old)].pop(old.name, None)
            self.quarantined[class_of(old)].pop(old.name, None)
        if new is not None and new.phase == _AVAILABLE and not new.deleting and not self.annotations.pin_keys(new):
            self.available[class_of(new)][new.name] = None
            if in_quarantine(new, self.annotations):
                self.quarantined[class_of(new)][new.name] = None

    def has_room(self, class_name: str, share: float) -> bool:
        """Whether another volume of the class may be quarantined: at most that share of its Available ones, but always
        one.
        """
        allowed = max(1, int(share * len(self.available[class_name])))
        return len(self.quarantined[class_name]) < allowed
