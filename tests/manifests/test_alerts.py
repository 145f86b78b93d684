"""Every rule asks for metrics that the controller or the scheduler exports, by labels and values that these have."""

import re
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from binder.matching.rejection import Reason
from binder.reservation.contract import DEFAULT_PREFIX
from binder.reservation.release import Cause
from csi.health.health import Debounce
from csi.health.verdict import HealthState, Verdict
from csi.records import HealthRecords
from csi.sweep import SweepProgress
from kube.objects.model import BIND_COMPLETED, Record
from kube.store.store import snapshot_of
from prebinder.command_line.flags import FLAGS
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.collectors.scheduler import SchedulerState
from prebinder.metrics.instruments import Instruments
from prebinder.metrics.scheduler import SchedulerInstruments
from tests.builders import EPOCH, claim, pod, storage_class, volume

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests" / "components" / "alerts"
COMPONENTS = ("controller", "extender", "scheduler")
WITHOUT_METRICS = ("view", "kube-scheduler")
"""The page has none, and kube-scheduler serves its own by TLS to clients with a token."""
SCRAPED = {"up": frozenset[str]()}
"""What Prometheus adds by itself; `job` comes with every series."""
PLACE = ("cluster", "namespace")
"""Whose series it is: `namespace` is what the Operator adds, `cluster` what those add who collect from several."""
AGGREGATION = re.compile(r"\b(?:count|max|min|sum|group|avg)\b(?: by \(([^)]*)\))?")
AGGREGATIONS = frozenset(["by", "count", "max", "min", "sum", "without"])
FUNCTIONS = frozenset(
    ["on", "absent", "histogram_quantile", "increase", "last_over_time", "min_over_time", "rate", "time"]
)
PROMQL = AGGREGATIONS | FUNCTIONS | {"and", "or", "unless"}
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
LABEL = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')


def job_exists(operator: str, job: str) -> bool:
    """Whether a selector of the label `job` selects what the PodMonitor scrapes, or an agent beside a driver."""
    jobs = [f"pvc-prebinder-{component}" for component in (*COMPONENTS, "csi-agent")]
    return job in jobs if operator == "=" else any(re.fullmatch(job, name) for name in jobs)


@cache
def rules() -> tuple[dict[str, Any], ...]:
    document = yaml.safe_load((COMPONENT / "prometheus_rule.yaml").read_text())
    return tuple(rule for group in document["spec"]["groups"] for rule in group["rules"])


ALERTS = [rule for rule in rules() if "alert" in rule]
RECORDED = frozenset(rule["record"] for rule in rules() if "record" in rule)


def known_volumes() -> HealthRecords:
    records = HealthRecords(Debounce())
    for handle, state in (("1", HealthState.DATA_LOSS), ("2", HealthState.INACCESSIBLE), ("3", HealthState.DEGRADED)):
        records.observe("d", handle, Verdict(state, "r", "", "s", EPOCH))
    return records


def own(annotations: dict[str, str]) -> dict[str, str]:
    return {DEFAULT_PREFIX + key: text for key, text in annotations.items()}


def ahead_of_its_node() -> list[Record]:
    """A pod whose volume was bound for a node that has not come, and its class."""
    waiting = pod("ahead", claims=["ahead"])
    since = own({"awaits-node": f"{waiting.uid} 2025-12-31T00:00:00Z"})
    return [
        storage_class("fast", annotations=own({"new-nodes": "join-volumes"})),
        waiting,
        claim("ahead", volume_name="pv-5", phase="Bound", annotations={BIND_COMPLETED: "yes"}),
        volume("pv-5", driver="d", claim="default/ahead", phase="Bound", annotations=since),
    ]


async def exported() -> dict[str, list[dict[str, str]]]:
    """Return the series of a controller to which everything has happened once, and of a scheduler: name -> labels."""
    instruments = Instruments("lease", ("drift",))
    instruments.binding.expect_class("fast", "WaitForFirstConsumer")
    instruments.reservations.expect_class("fast")
    instruments.reservations.released("fast", Cause.EXPIRED, 1.0)
    instruments.binding.bound("fast", "WaitForFirstConsumer", 1.0)
    instruments.binding.failed("fast", Reason.NO_VOLUME_FITS)
    instruments.requests.request_done("GET", 200, 0.1)
    instruments.drivers.expect_drivers(["d"])
    for code in ("OK", "NotFound", "Unimplemented", "Unavailable"):
        instruments.drivers.operation("d", "/csi.v1.Identity/Probe", code, 0.1)
    instruments.drivers.swept(SweepProgress("d", 1, 1, 1.0, True, timedelta(seconds=1)))
    instruments.events.event_dropped("Warning", "VolumeConditionAbnormal")
    instruments.watches.event_seen("pods", EPOCH)
    instruments.queues.of("pods").added(1)
    waits = ("Progressing", "DynamicClass", "ModeOff", "ImmediateUnbound", "SchedulingGated", "AlreadyReserved")
    held = {"bound-at": "2026-01-01T00:00:00Z", "expires-at": "2026-01-02T00:00:00Z"}
    held_volume = held | {"reserved-for": "default/held", "reserved-for-uid": "uid-held", "reserved-by": "holder/1"}
    claims = [
        claim("idle"),
        claim("held", annotations=own(held | {"reserved-volume": "pv-4"})),
        *(claim(f"told-{reason.lower()}") for reason in waits),
    ]
    for status in (200, 500):
        instruments.extender.answered("filter", status, 0.1)
    volumes = [volume(f"pv-{handle}", driver="d", handle=handle) for handle in "123"]
    volumes.append(volume("pv-4", driver="d", annotations=own(held_volume)))
    state = ClusterState(
        snapshot=snapshot_of([*claims, *volumes, *ahead_of_its_node()]),
        health=known_volumes().state,
        reasons={f"default/told-{reason.lower()}": Reason(reason) for reason in waits},
        endpoints_up={"d": True},
        synced={"pods": True},
        queues={"pods": (1.0, 1.0)},
        quarantine={"fast": (1, 1)},
    )
    series: dict[str, list[dict[str, str]]] = {}
    scheduler = SchedulerInstruments("scheduler-lease", (), EPOCH)
    scheduler.attempts.expect_profiles(["ours"])
    for rendered in (
        await instruments.render(replace(state), EPOCH + timedelta(seconds=90)),
        await scheduler.render(SchedulerState(queues={"active": 1})),
    ):
        for family in text_string_to_metric_families(rendered.decode()):
            for sample in family.samples:
                series.setdefault(sample.name, []).append(dict(sample.labels))
    return series


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\boffset \d+[smhd]|\b(by|without|on) \([^)]*\)", " ", expression)
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare)) - PROMQL


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
async def test_a_rule_names_metrics_with_labels_and_values_that_exist(rule: dict[str, Any]) -> None:
    series = await exported()
    assert names(rule["expr"]), "a rule without a metric"
    assert names(rule["expr"]) <= series.keys() | SCRAPED.keys() | RECORDED
    for name, selector in SELECTOR.findall(rule["expr"]):
        labels = {label: (operator, value) for label, operator, value in LABEL.findall(selector)}
        operator, job = labels.pop("job", ("", ""))
        assert job_exists(operator, job), f"{name}: no job {job}"
        for label, (_, value) in labels.items():
            seen = {label_set.get(label) for label_set in series[name]}
            assert set(value.split("|")) <= seen, f"{name}: {label} is one of {seen}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
async def test_a_rule_groups_by_labels_that_its_metrics_have(rule: dict[str, Any]) -> None:
    series = await exported()
    labels = {
        label for name in names(rule["expr"]) & series.keys() for label_set in series[name] for label in label_set
    } or {"storage_class"}
    labels |= set(PLACE)
    grouped = {word.strip() for group in re.findall(r"by \(([^)]*)\)", rule["expr"]) for word in group.split(",")}
    assert grouped <= labels
    mentioned = set(re.findall(r"\$labels\.([a-z_]+)", rule.get("annotations", {}).get("description", "")))
    assert mentioned <= (grouped or labels)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_never_mixes_clusters(rule: dict[str, Any]) -> None:
    """Two clusters with one leader each have one leader each, not two."""
    expression = re.sub(r"\{[^}]*\}", "", rule["expr"])
    for grouped in AGGREGATION.findall(expression):
        assert tuple(grouped.split(", ")[:2]) == PLACE, expression
    matched = re.findall(r"\bon \(([^)]*)\)", expression)
    assert all(tuple(labels.split(", ")[:2]) == PLACE for labels in matched), expression


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_how_bad(rule: dict[str, Any]) -> None:
    page = ROOT / rule["annotations"]["runbook_url"]
    assert page.name == f"{rule['alert']}.md"
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        f"# {rule['alert']}",
        "## Meaning",
        "## Impact",
        "## Diagnosis",
        "## Mitigation",
    ]
    assert f"Severity: {rule['labels']['severity']}." in text
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert "{{" not in rule["annotations"]["summary"]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_with_a_cause_links_to_its_page(rule: dict[str, Any]) -> None:
    """tests/why/test_causes_pages.py checks that each reason has one."""
    has_cause = bool(re.search(r"by \([^)]*\breason\b", rule["expr"])) and "pending" in rule["expr"]
    expected = "docs/causes/{{ $labels.reason }}.md" if has_cause else None
    assert rule["annotations"].get("cause_url") == expected
    assert (ROOT / "docs" / "causes" / f"{Reason.NO_JOINT_ASSIGNMENT}.md").is_file()


def test_each_alert_is_explained() -> None:
    explained = re.findall(r"^\| ([A-Z]\w+) \| (\w+) \|", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert explained == [(rule["alert"], rule["labels"]["severity"]) for rule in ALERTS]


def test_the_rules_select_what_the_monitor_scrapes() -> None:
    monitor = yaml.safe_load((COMPONENT / "pod_monitor.yaml").read_text())["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (relabeling,) = endpoint["relabelings"]
    assert relabeling["sourceLabels"] == ["__meta_kubernetes_pod_label_app_kubernetes_io_component"]
    assert relabeling["replacement"].replace("$1", "controller") == "pvc-prebinder-controller"
    pods = [
        document["spec"]["template"]
        for file in (ROOT / "manifests").glob("*/**/deployment.yaml")
        for document in yaml.safe_load_all(file.read_text())
    ]
    scraped = [pod for pod in pods if endpoint["port"] in {port["name"] for port in ports_of(pod)}]
    assert {component_of(pod) for pod in scraped} == set(COMPONENTS)
    assert {component_of(pod) for pod in pods} == {*COMPONENTS, *WITHOUT_METRICS}
    for each in scraped:
        assert monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()


def component_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def ports_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return list(pod["spec"]["containers"][0]["ports"])


def test_runbooks_name_flags_that_exist() -> None:
    flags = {flag.name for flags in FLAGS.values() for flag in flags}
    others = {"--as", "--field-selector", "--ignore-not-found", "--previous", "--replicas", "--sort-by", "--tail"}
    others |= {"--only", "--scheduler-config"}
    for page in (ROOT / "docs" / "runbooks").glob("*.md"):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()))
        assert named <= flags | others, page.name


def test_each_runbook_is_of_an_alert() -> None:
    assert {page.stem for page in (ROOT / "docs" / "runbooks").glob("*.md")} == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "runbooks").glob("*.md")), ids=lambda page: str(page.stem))
def test_a_runbook_quotes_what_each_command_prints(page: Path) -> None:
    lines = [
        line
        for block in re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)
        for line in (*block.splitlines(), "$")
    ]
    silent = [line for line, below in pairwise(lines) if line.startswith("$ ") and below.startswith("$")]
    assert silent == []
