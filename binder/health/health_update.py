"""The update of a volume that its health requires, as a frozen value and a single write. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from binder.health.published_health import health_annotations, published_finding, unpublished
from binder.health.quarantine import QuarantineStep, end_patch, quarantine_step, take_patch
from binder.reservation.contract import Annotations
from binder.reservation.writes import Patch
from csi.health.health import HealthFinding, HealthRecord
from csi.health.sources import combined_finding
from kube.objects.model import Volume


@dataclass(frozen=True, slots=True)
class HealthUpdateSettings:
    """The user's settings. `drivers` are those that are probed, and for whose volumes their health is published.

    Volumes of other drivers are handled by what is reported of them, unless `only_probed`: then health is only
    published (the agent, which leaves quarantine to the controller). `quarantine`: quarantine unhealthy Available
    volumes, at most `max_share` of a class's Available volumes. Those in quarantine are released on recovery in any
    case. `namespace` is our own, of the placeholder claims.
    """

    annotations: Annotations
    drivers: frozenset[str]
    namespace: str
    quarantine: bool = False
    max_share: float = 0.3
    only_probed: bool = False


@dataclass(frozen=True, slots=True)
class HealthUpdate:
    """The present volume, the finding that is not published yet, and the due step of its quarantine; None for neither.

    `finding` is the worst of all sources, None if there is none; `own` is the driver's last one, probed by us or by an
    agent beside it: quarantine depends on that alone, because only a source that watches the volume itself reports its
    recovery.
    """

    volume: Volume
    finding: HealthFinding | None
    own: HealthFinding | None
    news: HealthFinding | None
    step: QuarantineStep | None

    @property
    def needed(self) -> bool:
        return self.news is not None or self.step is not None

    def without_quarantine(self) -> "HealthUpdate":
        """Return what is left if the volume may not be quarantined now."""
        return replace(self, step=None) if self.step is QuarantineStep.TAKE else self

    def patch(self, now: datetime, settings: HealthUpdateSettings) -> Patch:
        """Return the single write that does all of it."""
        published = {} if self.news is None else health_annotations(self.news, settings.annotations)
        if self.step is None:
            return {"metadata": {"annotations": published}}
        if self.step is QuarantineStep.TAKE and self.own is not None:
            body = take_patch(self.volume, self.own, now, settings.namespace, settings.annotations)
        else:
            body = end_patch(self.volume, self.step, settings.annotations)
        return {**body, "metadata": {"annotations": body["metadata"]["annotations"] | published}}


def health_update_for(
    volume: Volume,
    record: HealthRecord | None,
    others: Sequence[HealthFinding],
    settings: HealthUpdateSettings,
    now: datetime,
) -> HealthUpdate:
    """Compare the volume with what is known of it. The caller enforces the cap on quarantine.

    `record` is the health record of its driver; `others` is what neither the driver nor an agent of ours reported.
    """
    probed = volume.driver in settings.drivers
    answered = record.finding if record is not None else None
    own = answered if probed else published_finding(volume, settings.annotations, now)
    finding = combined_finding([*([own] if own is not None else []), *others])
    # The driver's own report and nothing else, so that every process that probes the driver, the agent too, writes the
    # same.
    news = unpublished(volume, own, settings.annotations) if probed else None
    step = None if settings.only_probed else quarantine_step(volume, own, settings.annotations)
    update = HealthUpdate(volume, finding, own, news, step)
    return update if settings.quarantine else update.without_quarantine()
