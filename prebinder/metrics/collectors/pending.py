"""Gauges of what is pending: claims that are not bound, and pods with our scheduling gate."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric

from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from binder.planning.pending import pending_reason, pending_zone
from binder.reporting.metrics import OTHER
from binder.reservation.contract import Annotations
from kube.objects.model import Claim, Volume
from kube.store.snapshot import Snapshot
from prebinder.metrics.collectors.gauges import ZoneLabel, gauge_family


def pending_gauges(
    snapshot: Snapshot, reasons: Mapping[str, Reason], annotations: Annotations, now: datetime
) -> Iterator[Metric]:
    """Yield how many claims are not bound, since when, and in how many namespaces, by class and reason.

    Namespaces are counted and not named: claims of one tenant that can never be bound differ from a cluster in which no
    claim is bound, and no label holds what users choose.
    """
    labels = ["storage_class", "reason"]
    counts: Counter[tuple[str, ...]] = Counter()
    ages: dict[tuple[str, ...], float] = {}
    namespaces: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    zones = ZoneLabel(snapshot)
    for claim in snapshot.claims.values():
        if claim.phase != "Pending":
            continue
        key = (class_label_of(claim, snapshot), str(pending_reason(claim, snapshot, reasons)))
        counts[(*key, zones.of(pending_zone(claim, snapshot, annotations)))] += 1
        ages[key] = max(ages.get(key, 0.0), _age(claim.created, now))
        namespaces[key].add(claim.namespace)
    yield gauge_family(
        "pvc_prebinder_pending_claims",
        "Claims that are not bound, by reason, and by zone once only one is possible.",
        [*labels, "zone"],
        counts,
    )
    yield gauge_family(
        "pvc_prebinder_oldest_pending_claim_seconds", "Age of the oldest claim that is not bound.", labels, ages
    )
    yield gauge_family(
        "pvc_prebinder_pending_namespaces",
        "Namespaces with claims that are not bound, by reason.",
        labels,
        {key: len(names) for key, names in namespaces.items()},
    )


def gated_gauges(snapshot: Snapshot, annotations: Annotations, now: datetime) -> Iterator[Metric]:
    """Yield how many pods carry our scheduling gate, and the age of the oldest of them."""
    gated = [pod for pod in snapshot.pods.values() if annotations.carries_gate(pod) and not pod.deleting]
    yield GaugeMetricFamily(
        "pvc_prebinder_gated_pods", "Pods with the scheduling gate of pvc-prebinder.", value=len(gated)
    )
    yield GaugeMetricFamily(
        "pvc_prebinder_oldest_gated_pod_seconds",
        "Age of the oldest pod with the scheduling gate of pvc-prebinder; 0 if there is none.",
        value=max((_age(pod.created, now) for pod in gated), default=0.0),
    )


def class_label_of(claim: Claim | Volume, snapshot: Snapshot) -> str:
    """Return the label's value for a claim's or volume's class: only StorageClasses that exist are named."""
    name = class_of(claim)
    return name if not name or name in snapshot.classes else OTHER


def _age(created: datetime | None, now: datetime) -> float:
    return (now - created).total_seconds() if created else 0.0
