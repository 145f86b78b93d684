"""The dashboard is what its generator makes, and asks for metrics that are exported, by labels that these have."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

from tests.generators import generator
from tests.manifests.test_alerts import SCRAPED, SELECTOR, exported, job_exists, names

FOLDER: Final = Path(__file__).parents[2] / "manifests" / "components" / "dashboard"
DASHBOARD: Final[dict[str, Any]] = json.loads((FOLDER / "pvc-prebinder.json").read_text())
ADDED: Final = frozenset({"job", "instance", "cluster", "namespace"})
"""Labels that every series has by being scraped."""


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield panel
        yield from panel.get("panels", ())


GRAPHS: Final = [panel for panel in panels() if panel["type"] != "row"]
QUERIES: Final = [target for panel in GRAPHS for target in panel["targets"]]


def test_it_is_what_the_generator_makes() -> None:
    """`python manifests/components/dashboard/panels.py` writes it."""
    assert (FOLDER / "pvc-prebinder.json").read_text() == generator(FOLDER / "panels.py").text()


def test_panels_have_numbers_titles_and_places_of_their_own() -> None:
    assert [panel["id"] for panel in panels()] == list(range(1, len(list(panels())) + 1))
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    for first, other in combinations([panel["gridPos"] for panel in panels()], 2):
        apart = first["x"] + first["w"] <= other["x"] or other["x"] + other["w"] <= first["x"]
        assert apart or first["y"] + first["h"] <= other["y"] or other["y"] + other["h"] <= first["y"], (first, other)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["expr"])
async def test_a_query_names_metrics_and_labels_that_exist(query: dict[str, Any]) -> None:
    series = await exported()
    metrics = names(query["expr"])
    assert metrics, "a query without a metric"
    assert metrics <= series.keys() | SCRAPED.keys()
    for name, selector in SELECTOR.findall(query["expr"]):
        operator, job = re.findall(r'job(=~|=)"([^"]*)"', selector)[0]
        assert job_exists(operator, job), f"{name}: no job {job}"
    labels = {label for name in metrics for label_set in series[name] for label in label_set} | ADDED
    grouped = {word.strip() for group in re.findall(r"by \(([^)]*)\)", query["expr"]) for word in group.split(",")}
    assert grouped <= labels
    assert set(re.findall(r"{{(\w+)}}", query["legendFormat"])) <= grouped


@pytest.mark.parametrize("panel", GRAPHS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_is_good_or_bad_and_links_to_what_helps(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    (link,) = panel["links"]
    assert (FOLDER.parents[2] / link["url"].replace("${docs}", "docs")).is_file(), link["url"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_a_series_of_a_cause_links_to_its_page() -> None:
    linked = [panel for panel in GRAPHS if panel["fieldConfig"]["defaults"].get("links")]
    assert linked == [panel for panel in GRAPHS if "{{reason}}" in panel["targets"][0]["legendFormat"]]
    for panel in linked:
        (link,) = panel["fieldConfig"]["defaults"]["links"]
        assert link["url"] == "${docs}/causes/${__field.labels.reason}.md"


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["expr"])
def test_a_query_is_of_the_chosen_clusters_and_keeps_them_apart(query: dict[str, Any]) -> None:
    selectors = [selector for _, selector in SELECTOR.findall(query["expr"])]
    assert selectors
    for selector in selectors:
        assert 'cluster=~"$cluster",namespace=~"$namespace"' in selector
    # A heat map has one scale of buckets for all.
    assert query["format"] == "heatmap" or re.findall(r"by \(([^,)]*)", query["expr"]) == ["cluster"]
    assert "[$__rate_interval]" in query["expr"] or "rate(" not in query["expr"]


def test_its_variables_are_the_data_source_the_place_and_where_links_lead() -> None:
    source, cluster, namespace, docs = DASHBOARD["templating"]["list"]
    assert (source["type"], docs["type"], docs["hide"]) == ("datasource", "constant", 2)
    assert [cluster["name"], namespace["name"]] == ["cluster", "namespace"]
    # Where there is one cluster its series have no such label, and ".*" selects them all the same.
    assert cluster["allValue"] == namespace["allValue"] == ".*"
    assert 'cluster=~"$cluster"' in namespace["definition"]
    assert all("${docs}/" in link["url"] for link in DASHBOARD["links"])
    assert not DASHBOARD["editable"]
