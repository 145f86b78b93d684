"""Whether the health of each driver's volumes is known, and who probes them. Pure rules."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from binder.health.published_sweeps import PublishedSweep
from csi.health.capabilities import HealthProtocol, Negotiation
from kube.objects.model import Volume
from kube.rules.duration import age_text
from prebinder.preflight.class_outlook import volumes_text
from prebinder.preflight.doctor_checks import Check, CheckState

_UNPROBED = "reserved without a probe"
_REMEDY = "probe its driver with --csi-endpoint, or add components/csi-agent to it"
_NO_HEALTH = f"the driver reports no volume health: its volumes are Unsupported and {_UNPROBED}"


def subject_of(driver: str) -> str:
    """Return what a check of this driver is called."""
    return f"CSI driver {driver}"


def response_check(driver: str, agreed: Negotiation) -> Check:
    """Evaluate what a driver that responds offers."""
    subject = subject_of(driver)
    if agreed.protocol is None:
        return Check(subject, CheckState.NOTE, "responds", _NO_HEALTH)
    existence = agreed.protocol is HealthProtocol.EXISTENCE
    meaning = "the driver reports a deleted volume, and no other problem" if existence else ""
    return Check(subject, CheckState.OK, f"responds; volumes are probed by {agreed.protocol}", meaning)


def driver_checks(
    volumes: Iterable[Volume], responding: Collection[str], sweeps: Sequence[PublishedSweep] | None, now: datetime
) -> Iterator[Check]:
    """Yield a check for each driver that is not probed by this command, and for each type of volume without a driver.

    `responding` are the drivers with a check of their own; `sweeps` are those that other processes report on their
    Leases, None if these may not be read.
    """
    kinds = Counter((volume.driver, volume.source) for volume in volumes)
    for (driver, source), count in sorted(kinds.items()):
        if not driver:
            meaning = f"not CSI: no driver reports their health; {_UNPROBED}"
            yield Check(f"volumes of type {source or 'unknown'}", CheckState.NOTE, volumes_text(count), meaning)
        elif driver not in responding:
            yield _driver_check(driver, count, sweeps, now)


def _driver_check(driver: str, count: int, sweeps: Sequence[PublishedSweep] | None, now: datetime) -> Check:
    subject, volumes = subject_of(driver), volumes_text(count)
    if sweeps is None:
        meaning = f"you are not permitted to list leases: which process probes them is unknown; if none does, {_REMEDY}"
        return Check(subject, CheckState.NOTE, volumes, meaning)
    own = [sweep for sweep in sweeps if sweep.report.driver == driver]
    if not own:
        return Check(subject, CheckState.NOTE, f"{volumes}, not probed", f"{_UNPROBED}: {_REMEDY}")
    latest = max(own, key=lambda sweep: (sweep.report.ended, sweep.lease))
    probed = f"{volumes}, last probed {age_text(now - latest.report.ended)} ago, as reported on Lease {latest.lease}"
    if not latest.report.recent(now):
        meaning = "outdated: no process probes the driver, or it does not respond; see `pvc-prebinder health`"
        return Check(subject, CheckState.NOTE, probed, meaning)
    if 0 < latest.report.volumes == latest.report.unsupported:
        return Check(subject, CheckState.NOTE, probed, _NO_HEALTH)
    unhealthy = latest.report.unhealthy
    return Check(
        subject, CheckState.OK, probed, f"{unhealthy} unhealthy: see `pvc-prebinder health`" if unhealthy else ""
    )
