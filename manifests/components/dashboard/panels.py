"""Writes pvc-prebinder.json, the dashboard for Grafana: rows of panels as values, laid out in three columns.

`python manifests/components/dashboard/panels.py` writes it; a test fails when it is not what this makes, and another
runs every query on a real Prometheus.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("pvc-prebinder.json")
CONTROLLER: Final = 'job="pvc-prebinder-controller"'
PROBING: Final = 'job=~"pvc-prebinder-(controller|csi-agent)"'
ANY: Final = 'job=~"pvc-prebinder-.+"'
SCHEDULER: Final = 'job="pvc-prebinder-scheduler"'
RATE: Final = "[$__rate_interval]"
_COLUMNS: Final = 24
_HEIGHT: Final = 8


@dataclass(frozen=True)
class Query:
    """An expression, and how its series are named; `heat` for the buckets of a histogram."""

    expr: str
    legend: str
    heat: bool = False


@dataclass(frozen=True)
class Panel:
    """A graph, or by `kind` stat or heatmap. `unit` is one of Grafana's."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""


@dataclass(frozen=True)
class Row:
    """Panels below a title; a row that not every user needs is collapsed at first."""

    title: str
    panels: Sequence[Panel]
    closed: bool = field(default=False, kw_only=True)


def heat(title: str, metric: str, about: str) -> tuple[Panel, Panel]:
    """Return the heat map of a histogram, and beside it its median and 99th percentile."""
    buckets = f"sum by (le) (increase({metric}_bucket{{{CONTROLLER}}}{RATE}))"
    share = f"sum by (le, storage_class) (rate({metric}_bucket{{{CONTROLLER}}}{RATE}))"
    percentiles = [
        Query(f"histogram_quantile({quantile}, {share})", f"p{round(quantile * 100)} {{{{storage_class}}}}")
        for quantile in (0.5, 0.99)
    ]
    return (
        Panel(title, [Query(buckets, "{{le}}", heat=True)], "s", "heatmap", about),
        Panel(f"{title}: p50 and p99", percentiles, "s"),
    )


def single(title: str, expr: str, legend: str, unit: str = "short", about: str = "", kind: str = "timeseries") -> Panel:
    """Return a panel with one query."""
    return Panel(title, [Query(expr, legend)], unit, kind, about)


ROWS: Final = (
    Row(
        "Overview",
        [
            single(
                "Leaders",
                f"sum by (name) (leader_election_master_status{{{ANY}}})",
                "{{name}}",
                about="Each Lease should have exactly one holder.",
                kind="stat",
            ),
            single(
                "Version",
                f"count by (version, job) (pvc_prebinder_build_info{{{ANY}}})",
                "{{job}} {{version}}",
                kind="stat",
            ),
            single(
                "Pods with the scheduling gate",
                f"max(pvc_prebinder_gated_pods{{{CONTROLLER}}})",
                "gated pods",
                kind="stat",
            ),
        ],
    ),
    Row(
        "Claims",
        [
            single(
                "Pending claims by cause",
                f"sum by (reason) (pvc_prebinder_pending_claims{{{CONTROLLER}}})",
                "{{reason}}",
                about="docs/causes has a page for each cause.",
            ),
            single(
                "Pending claims by zone",
                f"sum by (zone) (pvc_prebinder_pending_claims{{{CONTROLLER}}})",
                "{{zone}}",
                about="Without a zone: more than one is possible.",
            ),
            single(
                "Oldest pending claim by cause",
                f"max by (reason) (pvc_prebinder_oldest_pending_claim_seconds{{{CONTROLLER}}})",
                "{{reason}}",
                "s",
            ),
        ],
    ),
    Row(
        "Reservations",
        [
            single(
                "Attempts",
                f"sum by (result) (rate(pvc_prebinder_reservation_attempts_total{{{CONTROLLER}}}{RATE}))",
                "{{result}}",
                "ops",
            ),
            single(
                "Failures by reason",
                f"sum by (reason) (rate(pvc_prebinder_reservation_failures_total{{{CONTROLLER}}}{RATE}))",
                "{{reason}}",
                "ops",
            ),
            single(
                "Reservations by zone and class",
                f"sum by (zone, storage_class) (pvc_prebinder_reservations{{{CONTROLLER}}})",
                "{{storage_class}} {{zone}}",
            ),
            *heat(
                "Time to reserve",
                "pvc_prebinder_reservation_duration_seconds",
                "From when a pod was first seen to the reservation.",
            ),
            single(
                "Ended reservations by cause",
                f"sum by (cause) (rate(pvc_prebinder_reservation_releases_total{{{CONTROLLER}}}{RATE}))",
                "{{cause}}",
                "ops",
            ),
            *heat(
                "Time to bind",
                "pvc_prebinder_bind_duration_seconds",
                "From the first decision about a claim to its being Bound.",
            ),
            single(
                "Write conflicts",
                f"sum by (resource, kind) (rate(pvc_prebinder_write_conflicts_total{{{CONTROLLER}}}{RATE}))",
                "{{resource}} {{kind}}",
                "ops",
                about="Writes that failed because another writer was faster.",
            ),
        ],
    ),
    Row(
        "Volumes",
        [
            single(
                "Free capacity by zone and class",
                f"sum by (zone, storage_class) (pvc_prebinder_available_volume_bytes{{{CONTROLLER}}})",
                "{{storage_class}} {{zone}}",
                "bytes",
                about="Available volumes that are neither claimed, reserved nor quarantined.",
            ),
            single(
                "Available volumes by zone and class",
                f"sum by (zone, storage_class) (pvc_prebinder_available_volumes{{{CONTROLLER}}})",
                "{{storage_class}} {{zone}}",
            ),
            Panel(
                "Quarantine",
                [
                    Query(
                        f"sum by (storage_class) (pvc_prebinder_quarantined_volumes{{{CONTROLLER}}})",
                        "{{storage_class}} in quarantine",
                    ),
                    Query(
                        f"sum by (storage_class) (pvc_prebinder_quarantine_held_back_volumes{{{CONTROLLER}}})",
                        "{{storage_class}} unhealthy, above the cap",
                    ),
                ],
            ),
            single(
                "Volumes by driver and health",
                f"sum by (driver_name, health) (pvc_prebinder_volumes{{{CONTROLLER}}})",
                "{{driver_name}} {{health}}",
            ),
            single(
                "Changes of health",
                f"sum by (driver_name, to) (rate(pvc_prebinder_volume_health_transitions_total{{{PROBING}}}{RATE}))",
                "{{driver_name}} {{to}}",
                "ops",
            ),
            single(
                "Drivers that answer",
                f"max by (driver_name) (pvc_prebinder_csi_endpoint_up{{{PROBING}}})",
                "{{driver_name}}",
            ),
            single(
                "Duration of the last sweep",
                f"max by (driver_name) (pvc_prebinder_health_sweep_last_duration_seconds{{{PROBING}}})",
                "{{driver_name}}",
                "s",
            ),
            single(
                "CSI calls by status",
                "sum by (driver_name, grpc_status_code) "
                f"(rate(csi_sidecar_operations_seconds_count{{{PROBING}}}{RATE}))",
                "{{driver_name}} {{grpc_status_code}}",
                "ops",
            ),
        ],
    ),
    Row(
        "Processes",
        [
            single(
                "API requests by method and code",
                f"sum by (method, code) (rate(rest_client_requests_total{{{ANY}}}{RATE}))",
                "{{method}} {{code}}",
                "reqps",
            ),
            single(
                "Duration of API requests: p99",
                "histogram_quantile(0.99, sum by (le, verb) "
                f"(rate(rest_client_request_duration_seconds_bucket{{{ANY}}}{RATE})))",
                "{{verb}}",
                "s",
            ),
            single(
                "Event loop lag",
                f"max by (job, instance) (pvc_prebinder_event_loop_lag_seconds{{{ANY}}})",
                "{{job}} {{instance}}",
                "s",
            ),
            single("Work queue depth", f"max by (name) (workqueue_depth{{{CONTROLLER}}})", "{{name}}"),
            single(
                "Longest running key",
                f"max by (name) (workqueue_longest_running_processor_seconds{{{CONTROLLER}}})",
                "{{name}}",
                "s",
            ),
            single(
                "Age of the last watch event",
                f"max by (resource) (time() - pvc_prebinder_cache_last_event_timestamp_seconds{{{ANY}}})",
                "{{resource}}",
                "s",
            ),
            single(
                "Events sent and dropped",
                f"sum by (type, result) (rate(pvc_prebinder_events_total{{{ANY}}}{RATE}))",
                "{{type}} {{result}}",
                "ops",
            ),
            single(
                "Processor",
                f"sum by (job, instance) (rate(process_cpu_seconds_total{{{ANY}}}{RATE}))",
                "{{job}} {{instance}}",
            ),
            single(
                "Memory",
                f"max by (job, instance) (process_resident_memory_bytes{{{ANY}}})",
                "{{job}} {{instance}}",
                "bytes",
            ),
        ],
    ),
    Row(
        "Standalone scheduler and extender",
        [
            single(
                "Attempts by result",
                f"sum by (profile, result) (rate(scheduler_schedule_attempts_total{{{SCHEDULER}}}{RATE}))",
                "{{profile}} {{result}}",
                "ops",
            ),
            single("Pending pods by queue", f"max by (queue) (scheduler_pending_pods{{{SCHEDULER}}})", "{{queue}}"),
            single(
                "Extender: p99 by verb",
                "histogram_quantile(0.99, sum by (le, verb) "
                f"(rate(pvc_prebinder_extender_request_duration_seconds_bucket{{{ANY}}}{RATE})))",
                "{{verb}}",
                "s",
            ),
        ],
        closed=True,
    ),
)


def dashboard(rows: Sequence[Row] = ROWS) -> dict[str, Any]:
    """Return the dashboard as Grafana imports it (schema version 39, Grafana 11 and newer)."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        title = {"type": "row", "title": row.title, "gridPos": _position(0, top, _COLUMNS, 1)}
        inside = [_panel(panel, number, top + 1) for number, panel in enumerate(row.panels)]
        panels.append({**title, "collapsed": row.closed, "panels": inside if row.closed else []})
        panels += [] if row.closed else inside
        top += 1 + (0 if row.closed else -(-len(row.panels) // 3) * _HEIGHT)
    for number, made in enumerate(each for panel in panels for each in (panel, *panel.get("panels", ()))):
        made["id"] = number + 1
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    return {
        "uid": "pvc-prebinder",
        "title": "pvc-prebinder",
        "tags": ["kubernetes", "storage"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, top: int) -> dict[str, Any]:
    width = _COLUMNS // 3
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": _position(number % 3 * width, top + number // 3 * _HEIGHT, width, _HEIGHT),
        "targets": [_target(query, chr(ord("A") + place)) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
    }
    if panel.kind == "heatmap":
        made["options"] = {"calculate": False, "yAxis": {"unit": panel.unit}, "cellGap": 1}
    return {**made, "description": panel.about} if panel.about else made


def _target(query: Query, letter: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": "heatmap" if query.heat else "time_series",
    }


def _position(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
