"""Writes pvc-prebinder.json, the dashboard for Grafana: rows of panels as values.

`python manifests/components/dashboard/panels.py` writes it; a test fails when it is not what this makes, and another
runs every query on a real Prometheus.
"""

import json
from pathlib import Path
from typing import Final

from manifests.components.dashboard.layout import Panel, Query, Row, dashboard

FILE: Final = Path(__file__).with_name("pvc-prebinder.json")
PLACE: Final = 'cluster=~"$cluster",namespace=~"$namespace"'
CONTROLLER: Final = f'job="pvc-prebinder-controller",{PLACE}'
PROBING: Final = f'job=~"pvc-prebinder-(controller|csi-agent)",{PLACE}'
ANY: Final = f'job=~"pvc-prebinder-.+",{PLACE}'
SCHEDULER: Final = f'job="pvc-prebinder-scheduler",{PLACE}'
RATE: Final = "[$__rate_interval]"


def heat(title: str, metric: str, about: str, page: str) -> tuple[Panel, Panel]:
    """Return the heat map of a histogram, and beside it its median and 99th percentile."""
    buckets = f"sum by (le) (increase({metric}_bucket{{{CONTROLLER}}}{RATE}))"
    share = f"sum by (cluster, le, storage_class) (rate({metric}_bucket{{{CONTROLLER}}}{RATE}))"
    percentiles = [
        Query(f"histogram_quantile({quantile}, {share})", f"p{round(quantile * 100)} {{{{storage_class}}}}")
        for quantile in (0.5, 0.99)
    ]
    return (
        Panel(title, [Query(buckets, "{{le}}", heat=True)], about, page, "s", "heatmap"),
        Panel(f"{title}: p50 and p99", percentiles, about, page, "s"),
    )


def single(title: str, query: Query, about: str, page: str, unit: str = "short", kind: str = "timeseries") -> Panel:
    """Return a panel with one query."""
    return Panel(title, [query], about, page, unit, kind)


def grouped(operation: str, labels: str, expr: str) -> Query:
    """Return an aggregation by these labels, which name its series, within each cluster."""
    legend = " ".join(f"{{{{{label}}}}}" for label in (*labels.split(", "), "cluster"))
    return Query(f"{operation} by (cluster, {labels}) ({expr})", legend)


def rate(metric: str, selector: str) -> str:
    return f"rate({metric}{{{selector}}}{RATE})"


OVERVIEW: Final = Row(
    "Overview",
    [
        single(
            "Leaders",
            grouped("sum", "name", f"leader_election_master_status{{{ANY}}}"),
            "Each Lease should have exactly one holder.",
            "runbooks/PVCPrebinderNoLeader.md",
            kind="stat",
        ),
        single(
            "Version",
            grouped("count", "job, version", f"pvc_prebinder_build_info{{{ANY}}}"),
            "Replicas of each version. Two versions at once only during an upgrade.",
            "upgrade.md",
            kind="stat",
        ),
        single(
            "Pods with the scheduling gate",
            Query(f"max by (cluster) (pvc_prebinder_gated_pods{{{CONTROLLER}}})", "gated pods {{cluster}}"),
            "Pods that wait for their volumes. Those that stay for long have an Event that says why.",
            "runbooks/PVCPrebinderPodsGated.md",
            kind="stat",
        ),
    ],
)
CLAIMS: Final = Row(
    "Claims",
    [
        single(
            "Pending claims by cause",
            grouped("sum", "reason", f"pvc_prebinder_pending_claims{{{CONTROLLER}}}"),
            "WaitForFirstConsumer and Progressing are as they should be. Each cause links to its page.",
            "causes/README.md",
        ),
        single(
            "Pending claims by zone",
            grouped("sum", "zone", f"pvc_prebinder_pending_claims{{{CONTROLLER}}}"),
            "Without a zone: more than one is possible.",
            "runbooks/PVCPendingTooLong.md",
        ),
        single(
            "Oldest pending claim by cause",
            grouped("max", "reason", f"pvc_prebinder_oldest_pending_claim_seconds{{{CONTROLLER}}}"),
            "Above 15 minutes an alert fires, except for claims that wait for a pod.",
            "runbooks/PVCPendingTooLong.md",
            "s",
        ),
    ],
)
RESERVATIONS: Final = Row(
    "Reservations",
    [
        single(
            "Attempts",
            grouped("sum", "result", rate("pvc_prebinder_reservation_attempts_total", CONTROLLER)),
            "Attempts to reserve the volumes of a pod, by how they ended.",
            "concepts.md",
            "ops",
        ),
        single(
            "Failures by reason",
            grouped("sum", "reason", rate("pvc_prebinder_reservation_failures_total", CONTROLLER)),
            "Why volumes were not reserved. Each reason links to its page.",
            "runbooks/PVCReservationsFailing.md",
            "ops",
        ),
        single(
            "Reservations by zone and class",
            grouped("sum", "storage_class, zone", f"pvc_prebinder_reservations{{{CONTROLLER}}}"),
            "Claims that are not bound yet and for which a volume is reserved.",
            "concepts.md",
        ),
        *heat(
            "Time to reserve",
            "pvc_prebinder_reservation_duration_seconds",
            "From when a pod was first seen to the reservation.",
            "performance.md",
        ),
        single(
            "Ended reservations by cause",
            grouped("sum", "cause", rate("pvc_prebinder_reservation_releases_total", CONTROLLER)),
            "Bound is the rule. Many that are expired belong to pods that are not scheduled.",
            "runbooks/PVCReservationExpiryHigh.md",
            "ops",
        ),
        *heat(
            "Time to bind",
            "pvc_prebinder_bind_duration_seconds",
            "From the first decision about a claim to its being Bound.",
            "runbooks/PVCBindLatencyHigh.md",
        ),
        single(
            "Write conflicts",
            grouped("sum", "resource, kind", rate("pvc_prebinder_write_conflicts_total", CONTROLLER)),
            "Writes that failed because another writer was faster. They are planned again.",
            "reliability.md",
            "ops",
        ),
    ],
)
VOLUMES: Final = Row(
    "Volumes",
    [
        single(
            "Free capacity by zone and class",
            grouped("sum", "storage_class, zone", f"pvc_prebinder_available_volume_bytes{{{CONTROLLER}}}"),
            "Available volumes that are neither claimed, reserved nor quarantined.",
            "operate.md",
            "bytes",
        ),
        single(
            "Available volumes by zone and class",
            grouped("sum", "storage_class, zone", f"pvc_prebinder_available_volumes{{{CONTROLLER}}}"),
            "As many as can still be reserved. At 0 claims of the class wait.",
            "operate.md",
        ),
        Panel(
            "Quarantine",
            [
                Query(
                    f"sum by (cluster, storage_class) (pvc_prebinder_quarantined_volumes{{{CONTROLLER}}})",
                    "{{storage_class}} in quarantine {{cluster}}",
                ),
                Query(
                    f"sum by (cluster, storage_class) (pvc_prebinder_quarantine_held_back_volumes{{{CONTROLLER}}})",
                    "{{storage_class}} unhealthy, above the cap {{cluster}}",
                ),
            ],
            "Unhealthy volumes that no claim can get, and those that any claim can get because the cap is reached.",
            "runbooks/CSIQuarantineCapReached.md",
        ),
        single(
            "Volumes by driver and health",
            grouped("sum", "driver_name, health", f"pvc_prebinder_volumes{{{CONTROLLER}}}"),
            "Unknown are volumes that were not probed, or whose driver cannot report their health.",
            "runbooks/CSIVolumeUnhealthy.md",
        ),
        single(
            "Changes of health",
            grouped("sum", "driver_name, to", rate("pvc_prebinder_volume_health_transitions_total", PROBING)),
            "The first state of a volume that is known counts too.",
            "health.md",
            "ops",
        ),
        single(
            "Drivers that answer",
            grouped("max", "driver_name", f"pvc_prebinder_csi_endpoint_up{{{PROBING}}}"),
            "1 if the driver answers the controller or its agent, 0 if not.",
            "runbooks/CSIEndpointDown.md",
        ),
        single(
            "Duration of the last sweep",
            grouped("max", "driver_name", f"pvc_prebinder_health_sweep_last_duration_seconds{{{PROBING}}}"),
            "How long it took to probe all volumes of a driver once.",
            "runbooks/CSIHealthOutdated.md",
            "s",
        ),
        single(
            "CSI calls by status",
            grouped("sum", "driver_name, grpc_status_code", rate("csi_sidecar_operations_seconds_count", PROBING)),
            "NotFound and Unimplemented are answers; other codes than OK are failures.",
            "runbooks/CSIRPCErrorsHigh.md",
            "ops",
        ),
    ],
)
PROCESSES: Final = Row(
    "Processes",
    [
        single(
            "API requests by method and code",
            grouped("sum", "method, code", rate("rest_client_requests_total", ANY)),
            "Requests to the API server. Nothing is written without need, so idle clusters have few.",
            "performance.md",
            "reqps",
        ),
        single(
            "Duration of API requests: p99",
            Query(
                "histogram_quantile(0.99, sum by (cluster, le, verb) "
                f"({rate('rest_client_request_duration_seconds_bucket', ANY)}))",
                "{{verb}} {{cluster}}",
            ),
            "A slow API server makes every reservation slow.",
            "performance.md",
            "s",
        ),
        single(
            "Event loop lag",
            grouped("max", "job, instance", f"pvc_prebinder_event_loop_lag_seconds{{{ANY}}}"),
            "How late a timer fires. Seconds endanger the Lease: give the pod more processor.",
            "performance.md",
            "s",
        ),
        single(
            "Work queue depth",
            grouped("max", "name", f"workqueue_depth{{{CONTROLLER}}}"),
            "Keys that wait for a worker. It should come back to 0.",
            "runbooks/PVCPrebinderWorkqueueStuck.md",
        ),
        single(
            "Longest running key",
            grouped("max", "name", f"workqueue_longest_running_processor_seconds{{{CONTROLLER}}}"),
            "How long the key that is in progress longest has been so.",
            "runbooks/PVCPrebinderWorkqueueStuck.md",
            "s",
        ),
        single(
            "Age of the last watch event",
            grouped("max", "resource", f"time() - pvc_prebinder_cache_last_event_timestamp_seconds{{{ANY}}}"),
            "Bookmarks come about once a minute, so minutes without any mean that the watch is broken.",
            "runbooks/PVCPrebinderCacheStale.md",
            "s",
        ),
        single(
            "Events sent and dropped",
            grouped("sum", "type, result", rate("pvc_prebinder_events_total", ANY)),
            "Dropped Events are lost; annotations and metrics have the same facts.",
            "runbooks/PVCPrebinderEventsDropped.md",
            "ops",
        ),
        single(
            "Processor",
            grouped("sum", "job, instance", rate("process_cpu_seconds_total", ANY)),
            "In processors. No limit is set, because it would delay the Lease.",
            "performance.md",
        ),
        single(
            "Memory",
            grouped("max", "job, instance", f"process_resident_memory_bytes{{{ANY}}}"),
            "The limit of the manifests is 512 MiB.",
            "performance.md",
            "bytes",
        ),
    ],
)
SCHEDULING: Final = Row(
    "Standalone scheduler and extender",
    [
        single(
            "Attempts by result",
            grouped("sum", "profile, result", rate("scheduler_schedule_attempts_total", SCHEDULER)),
            "Attempts of the standalone scheduler to schedule a pod.",
            "runbooks/PodScheduleFailuresHigh.md",
            "ops",
        ),
        single(
            "Pending pods by queue",
            grouped("max", "queue", f"scheduler_pending_pods{{{SCHEDULER}}}"),
            "Pods without a node; unschedulable ones wait for a change that may help.",
            "scheduler.md",
        ),
        single(
            "Extender: p99 by verb",
            Query(
                "histogram_quantile(0.99, sum by (cluster, le, verb) "
                f"({rate('pvc_prebinder_extender_request_duration_seconds_bucket', ANY)}))",
                "{{verb}} {{cluster}}",
            ),
            "Past httpTimeout, 500 ms as documented, kube-scheduler goes on without the answer.",
            "runbooks/PVCPrebinderExtenderSlow.md",
            "s",
        ),
    ],
    closed=True,
)
ROWS: Final = (OVERVIEW, CLAIMS, RESERVATIONS, VOLUMES, PROCESSES, SCHEDULING)


def text() -> str:
    return json.dumps(dashboard(ROWS), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
