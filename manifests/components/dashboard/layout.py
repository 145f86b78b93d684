"""Lays panels out as a dashboard of Grafana: what every panel and variable has in JSON, and rows of three columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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
    """A graph, or by `kind` stat or heatmap. `unit` is one of Grafana's.

    `about` says what is good or bad about it, `page` is the page of docs/ to read when it is bad.
    """

    title: str
    queries: Sequence[Query]
    about: str
    page: str
    unit: str = "short"
    kind: str = "timeseries"


@dataclass(frozen=True)
class Row:
    """Panels below a title; a row that not every user needs is collapsed at first."""

    title: str
    panels: Sequence[Panel]
    closed: bool = field(default=False, kw_only=True)


def dashboard(rows: Sequence[Row]) -> dict[str, Any]:
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
    return {
        "uid": "pvc-prebinder",
        "title": "pvc-prebinder",
        "description": "Reservations, claims, volumes and their health, and the processes of pvc-prebinder.",
        "tags": ["kubernetes", "storage"],
        "schemaVersion": 39,
        # What is changed in the browser is lost at the next upgrade: save a copy instead.
        "editable": False,
        "graphTooltip": 1,
        "links": [_link("Documentation", "README.md"), _link("Alerts", "alerts.md")],
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_SOURCE, _place("cluster", ""), _place("namespace", 'cluster=~"$cluster"'), _DOCS]},
        "panels": panels,
    }


_SOURCE: Final = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
_DOCS: Final = {"name": "docs", "type": "constant", "query": "docs", "label": "Address of docs/", "hide": 2}
"""Where links lead: the constant is the value `alerts.runbookBaseURL` of the chart."""
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _place(label: str, selector: str) -> dict[str, Any]:
    """Return a variable with the values of a label; all at first, and then series without the label too."""
    query = f"label_values(pvc_prebinder_build_info{{{selector}}}, {label})"
    return {
        "name": label,
        "type": "query",
        "label": label.capitalize(),
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def _link(title: str, page: str) -> dict[str, Any]:
    return {"title": title, "type": "link", "icon": "doc", "url": f"${{docs}}/{page}", "targetBlank": True}


def _panel(panel: Panel, number: int, top: int) -> dict[str, Any]:
    width = _COLUMNS // 3
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "links": [_link(panel.page.rpartition("/")[2].removesuffix(".md"), panel.page)],
        "gridPos": _position(number % 3 * width, top + number // 3 * _HEIGHT, width, _HEIGHT),
        "targets": [_target(query, chr(ord("A") + place)) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0} | _causes(panel), "overrides": []},
        "options": {},
    }
    if panel.kind == "heatmap":
        made["options"] = {"calculate": False, "yAxis": {"unit": panel.unit}, "cellGap": 1}
    return made


def _causes(panel: Panel) -> dict[str, Any]:
    """Return the link from a series to the page of its cause, if the panel has a series for each."""
    if not all("{{reason}}" in query.legend for query in panel.queries):
        return {}
    return {"links": [_link("What it means", "causes/${__field.labels.reason}.md")]}


def _target(query: Query, letter: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": "heatmap" if query.heat else "time_series",
    }


def _position(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}
