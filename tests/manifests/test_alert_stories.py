"""Each alert fires by its cause and by nothing else: stories for promtool, where there is one."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.manifests.test_alerts import ALERTS, COMPONENT

STORIES: Final[list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("alert_stories.yaml").read_text())
PROMTOOL: Final = os.environ.get("PROMTOOL") or shutil.which("promtool")
(QUIET,) = (story for story in STORIES if story["story"] == "A cluster with nothing to do, for hours")
_BY_NAME: Final = {rule["alert"]: rule for rule in ALERTS}


def test_every_alert_has_a_story_in_which_it_fires() -> None:
    firing = {name for story in STORIES for names in story["at"].values() for name in names}
    assert firing == set(_BY_NAME)


def test_every_alert_has_a_story_in_which_it_resolves() -> None:
    resolved = {
        name
        for story in STORIES
        for earlier, later in pairwise(story["at"].values())
        for name in set(earlier) - set(later)
    }
    assert resolved == set(_BY_NAME)


def test_no_dry_run_and_no_single_tenant_pages_anyone() -> None:
    calm = [story for story in STORIES if "page" in story["story"]]
    assert len(calm) == 2
    for story in calm:
        fired = {name for names in story["at"].values() for name in names}
        assert {_BY_NAME[name]["labels"]["severity"] for name in fired} <= {"warning"}


needs_promtool: Final = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool on PATH, nor in PROMTOOL; Debian's prometheus has it"
)


@needs_promtool
@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story["story"]))
def test_the_alerts_fire_when_they_should_and_not_otherwise(story: dict[str, Any], tmp_path: Path) -> None:
    expect(tmp_path, story["series"], {time: [(name, "") for name in names] for time, names in story["at"].items()})


@needs_promtool
@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story["story"]))
def test_an_alert_is_of_the_cluster_that_causes_it(story: dict[str, Any], tmp_path: Path) -> None:
    """One Prometheus, or what stands for many, has the series of two clusters: the other one works."""
    series = {labelled(name, "east"): values for name, values in story["series"].items()}
    series |= {labelled(name, "west"): values for name, values in QUIET["series"].items()}
    expect(tmp_path, series, {time: [(name, "east") for name in names] for time, names in story["at"].items()})


@needs_promtool
def test_one_leader_in_each_of_two_clusters_is_as_it_should_be(tmp_path: Path) -> None:
    """Without the cluster there are two leaders, and an alert that pages for nothing."""
    both = {labelled(name, cluster): values for cluster in ("east", "west") for name, values in QUIET["series"].items()}
    expect(tmp_path, both, {time: [] for time in QUIET["at"]})


def labelled(series: str, cluster: str) -> str:
    return series.replace("{", f'{{cluster="{cluster}",namespace="pvc-prebinder-system",')


def expect(directory: Path, series: Mapping[str, str], fires: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Have promtool check which alerts fire at which time, and of which cluster; "" for a series without one."""
    groups = yaml.safe_load((COMPONENT / "prometheus_rule.yaml").read_text())["spec"]
    # promtool compares annotations as well, which are another test's concern.
    for rule in (rule for group in groups["groups"] for rule in group["rules"] if "alert" in rule):
        rule["annotations"] = {}
        rule["expr"] = f"count by (cluster) ({rule['expr']})"
    (directory / "rules.yaml").write_text(yaml.safe_dump(groups))
    expected = [
        {
            "eval_time": time,
            "alertname": name,
            "exp_alerts": [
                {"exp_labels": rule["labels"] | ({"cluster": cluster} if cluster else {})}
                for firing, cluster in at
                if firing == name
            ],
        }
        for time, at in fires.items()
        for name, rule in _BY_NAME.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": inputs, "alert_rule_test": expected}
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (directory / "test.yaml").write_text(yaml.safe_dump(document))
    assert PROMTOOL is not None
    command = [PROMTOOL, "test", "rules", "test.yaml"]
    ended = subprocess.run(command, cwd=directory, capture_output=True, check=False, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
