"""PodDisruptionBudgets as the API server sends them, and which pods they cover."""

from typing import Any

import msgspec
import pytest

from kube.decoding.decode import MalformedObject, decode_budget
from kube.objects.labels import LabelSelector
from kube.rules.disruption import DisruptionBudget
from kube.store.store import Store
from tests import builders

METADATA = {"name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2}


def budget(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> DisruptionBudget:
    return decode_budget(msgspec.json.encode({"metadata": METADATA, "spec": spec, "status": status}))


def test_a_budget() -> None:
    decoded = budget(
        {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        {"disruptionsAllowed": 3, "observedGeneration": 2, "disruptedPods": {"web-0": "2026-01-01T00:00:00Z"}},
    )
    assert decoded == DisruptionBudget("ns", "web", "u", 7, LabelSelector((("app", "web"),)), 3)
    assert decoded.key == "ns/web"


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        pytest.param(None, 0, id="not-processed-yet"),
        pytest.param({"disruptionsAllowed": 3, "observedGeneration": 1}, 0, id="out-of-date"),
        pytest.param({"disruptionsAllowed": 3}, 0, id="without-a-generation"),
        pytest.param({"disruptionsAllowed": -1, "observedGeneration": 2}, 0, id="negative"),
        pytest.param({"disruptionsAllowed": 1, "observedGeneration": 3}, 1, id="newer-than-the-object"),
    ],
)
def test_only_a_status_that_is_current_permits_something(status: dict[str, Any] | None, allowed: int) -> None:
    assert budget({"selector": {}}, status).allowed == allowed


@pytest.mark.parametrize(
    ("selector", "namespace", "labels", "covered"),
    [
        pytest.param(None, "ns", {"app": "web"}, False, id="no-selector-selects-nothing"),
        pytest.param({}, "ns", {}, True, id="the-empty-one-all-of-the-namespace"),
        pytest.param({}, "other", {}, False, id="and-no-other-namespace"),
        pytest.param({"matchLabels": {"app": "web"}}, "ns", {"app": "web"}, True, id="labels"),
        pytest.param({"matchLabels": {"app": "web"}}, "ns", {"app": "db"}, False, id="other-labels"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Near"}]}, "ns", {}, False, id="malformed"),
    ],
)
def test_covers(selector: dict[str, Any] | None, namespace: str, labels: dict[str, str], covered: bool) -> None:
    decoded = budget({"selector": selector})
    assert decoded.covers(builders.pod(namespace=namespace, labels=labels)) is covered


def test_a_field_of_another_type_fails_its_object_only() -> None:
    with pytest.raises(MalformedObject, match="PodDisruptionBudget ns/web"):
        budget(status={"disruptionsAllowed": "three"})


def test_is_read_from_files_and_kept_where_it_is_needed() -> None:
    decoded = builders.decoded({"kind": "PodDisruptionBudget", "metadata": METADATA})
    assert isinstance(decoded, DisruptionBudget)
    store = Store()
    store.budgets.replace([decoded], "8")
    assert dict(store.budgets.items) == {"ns/web": decoded}
