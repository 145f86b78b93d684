"""mixin.libsonnet has the rules and the dashboard that kustomize installs, by the conventions of kubernetes-mixin."""

import json
from pathlib import Path
from typing import Any, Final

import _jsonnet
import yaml

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
COMPONENTS: Final = MANIFESTS / "components"


def evaluated(expression: str) -> Any:
    mixin = f"local mixin = import '{MANIFESTS / 'mixin' / 'mixin.libsonnet'}'; {expression}"
    return json.loads(_jsonnet.evaluate_snippet("story", mixin))


def rules(key: str) -> list[Any]:
    """Return the rules of the component that have this key."""
    document = yaml.safe_load((COMPONENTS / "alerts" / "prometheus_rule.yaml").read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"] if key in rule]


def test_alerts_rules_and_dashboard_are_those_that_kustomize_installs() -> None:
    alerts, recorded = evaluated("[mixin.prometheusAlerts.groups, mixin.prometheusRules.groups]")
    assert [rule for group in alerts for rule in group["rules"]] == rules("alert")
    assert [rule for group in recorded for rule in group["rules"]] == rules("record")
    dashboard = json.loads((COMPONENTS / "dashboard" / "pvc-prebinder.json").read_text())
    assert evaluated("mixin.grafanaDashboards") == {"pvc-prebinder.json": dashboard}


def test_links_begin_with_the_address_of_the_configuration_and_alerts_get_its_labels() -> None:
    ours = "{ _config+:: { runbookBaseURL: 'https://docs.example.com/p', alertLabels: { team: 'storage' } } }"
    groups, dashboards = evaluated(f"local m = mixin + {ours}; [m.prometheusAlerts.groups, m.grafanaDashboards]")
    alerts = [rule for group in groups for rule in group["rules"]]
    assert {rule["labels"]["team"] for rule in alerts} == {"storage"}
    links = [value for rule in alerts for key, value in rule["annotations"].items() if key.endswith("_url")]
    assert all(link.startswith("https://docs.example.com/p/") for link in links)
    (address,) = (
        each["query"] for each in dashboards["pvc-prebinder.json"]["templating"]["list"] if each["name"] == "docs"
    )
    assert address == "https://docs.example.com/p"


def test_it_adds_to_what_another_mixin_has() -> None:
    other = "{ prometheusAlerts+:: { groups+: [{ name: 'other', rules: [] }] } }"
    names = [group["name"] for group in evaluated(f"(({other}) + mixin).prometheusAlerts.groups")]
    assert names[0] == "other"
    assert len(names) == 2
