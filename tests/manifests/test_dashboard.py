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
ADDED: Final = frozenset({"job", "instance"})
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
