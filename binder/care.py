"""What one volume needs because of its health, as one frozen value and one write. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime

from binder.published_health import health_annotations, unpublished
from binder.quarantine import Step, end_patch, quarantine_step, take_patch
from binder.writes import Patch
from csi.health import Finding, HealthRecord
from kube.model import Volume


@dataclass(frozen=True, slots=True)
class CareSettings:
    """What the user decided. `drivers` are those that are asked; without any there is nothing to react to.

    `quarantine`: put sick free volumes into quarantine, at most `max_share` of a class's Available volumes. Those that
    are in it are let out on recovery in any case. `namespace` is our own, of the placeholder claims.
    """

    prefix: str
    drivers: frozenset[str]
    namespace: str
    quarantine: bool = False
    max_share: float = 0.3
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Care:
    """The volume as it is, what it does not say yet, and the step of its quarantine that is due; None for neither.

    `finding` is what was found of the volume last, None if nothing was.
    """

    volume: Volume
    finding: Finding | None
    news: Finding | None
    step: Step | None

    @property
    def needed(self) -> bool:
        return self.news is not None or self.step is not None

    def without_quarantine(self) -> "Care":
        """Return what is left when the volume may not be put into quarantine now."""
        return replace(self, step=None) if self.step is Step.TAKE else self

    def patch(self, now: datetime, settings: CareSettings) -> Patch:
        """Return the one write that does it all."""
        annotations = {} if self.news is None else health_annotations(self.news, settings.prefix)
        if self.step is None:
            return {"metadata": {"annotations": annotations}}
        if self.step is Step.TAKE and self.finding is not None:
            body = take_patch(self.volume, self.finding, now, settings.namespace, settings.prefix)
        else:
            body = end_patch(self.volume, self.step, settings.prefix)
        return {**body, "metadata": {"annotations": body["metadata"]["annotations"] | annotations}}


def care_for(volume: Volume, record: HealthRecord | None, settings: CareSettings) -> Care:
    """Compare the volume with what is known of it. The cap on quarantine is the caller's to keep."""
    finding = record.finding if record is not None else None
    news = unpublished(volume, finding, settings.prefix)
    care = Care(volume, finding, news, quarantine_step(volume, finding, settings.prefix))
    return care if settings.quarantine else care.without_quarantine()
