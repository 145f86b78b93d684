import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kube.configuration.document import ConfigurationError
from scheduler.framework.config import Configuration, parse, render
from scheduler.framework.config_affinity import PREFERRED, REQUIRED
from scheduler.framework.containment import PluginFailed
from scheduler.framework.plugin import Filter, NodeRule
from scheduler.plugins.registry import DEFAULT_WEIGHTS, REGISTRY, default_data
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volumes import PodInfo

HEAD = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: SchedulerConfiguration\n"
ONE = HEAD + "profiles:\n- schedulerName: ours\n"
ADDED = f"""\
  addedAffinity:
    {REQUIRED}:
      nodeSelectorTerms:
      - matchExpressions: [{{key: cores, operator: Gt, values: ["8"]}}]
        matchFields: [{{key: metadata.name, operator: NotIn, values: [n1]}}]
    {PREFERRED}:
    - weight: 5
      preference: {{matchExpressions: [{{key: disk, operator: Exists}}]}}
"""


def read(text: str) -> Configuration:
    return parse(text, REGISTRY, default_data)


def test_what_is_left_out_has_its_default() -> None:
    profile = read(ONE).profiles["ours"]
    assert profile.queue_sort.name == "PrioritySort"
    assert [plugin.name for plugin in profile.filters] == list(REGISTRY.filters)
    assert {score.plugin.name: score.weight for score in profile.scores} == DEFAULT_WEIGHTS


def test_what_is_there_replaces_the_default_as_a_whole() -> None:
    text = ONE + "  filters: [NodePorts, NodeResourcesFit]\n  scores: {BinPack: 5}\n  percentageOfNodesToScore: 30\n"
    profile = read(text + "- schedulerName: theirs\n").profiles["ours"]
    assert [plugin.name for plugin in profile.filters] == ["NodePorts", "NodeResourcesFit"]
    assert [(score.plugin.name, score.weight) for score in profile.scores] == [("BinPack", 5)]
    assert profile.percentage_of_nodes_to_score == 30


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        pytest.param("", "", "expected a mapping with apiVersion and kind, found nothing", id="empty"),
        pytest.param("a: [", "", "invalid YAML", id="not-yaml"),
        pytest.param(ONE.replace("v1alpha1", "v9"), "apiVersion", "v1alpha1", id="version"),
        pytest.param(ONE.replace("Scheduler", "Other", 1), "kind", "SchedulerConfiguration", id="kind"),
        pytest.param(HEAD, "profiles", "is required", id="no-profiles"),
        pytest.param(HEAD + "profiles: []\n", "profiles", "expected at least 1 entries, found 0", id="empty-profiles"),
        pytest.param(HEAD + "profiles: {a: b}\n", "profiles", "expected a list, found a mapping", id="mapping"),
        pytest.param(HEAD + "profiles:\n- \n", "profiles[0]", "expected a mapping, found nothing", id="no-profile"),
        pytest.param(HEAD + "profiles:\n- scores: {}\n", "profiles[0].schedulerName", "is required", id="no-name"),
        pytest.param(
            ONE + "  weights: {}\n", "profiles[0].weights", "unknown key; expected schedulerName,", id="unknown-key"
        ),
        pytest.param(ONE + "weights: {}\n", "weights", "unknown key; expected profiles", id="unknown-key-on-top"),
        pytest.param(
            ONE + "  thresholds: {cpu: 1}\n",
            "profiles[0].thresholds.cpu",
            "unknown key; expected storageLabel, resources",
            id="unknown-threshold",
        ),
        pytest.param(ONE + "  scores: {1: 5}\n", "profiles[0].scores", "expected a string as a key, found 1", id="key"),
        pytest.param(ONE + "  scores: {BinPack: }\n", "profiles[0].scores.BinPack", "found nothing", id="null"),
        pytest.param(ONE + "  scores: {BinPack: true}\n", "profiles[0].scores.BinPack", "found true", id="boolean"),
        pytest.param(
            ONE + "  scores: {BinPack: 0}\n", "profiles[0].scores.BinPack", "from 1 to 100, found 0", id="no-weight"
        ),
        pytest.param(ONE + "  scores: {BinPack: '5'}\n", "profiles[0].scores.BinPack", 'found "5"', id="text"),
        pytest.param(ONE + "  scores: {Best: 5}\n", "profiles[0].scores", 'there is no "Best"', id="unknown-score"),
        pytest.param(ONE + "  filters: [Nope]\n", "profiles[0].filters", 'there is no "Nope"', id="unknown-filter"),
        pytest.param(
            ONE + "  filters: [NodePorts, NodePorts]\n", "profiles[0].filters", "listed twice", id="filter-twice"
        ),
        pytest.param(ONE + "  queueSort: Random\n", "profiles[0].queueSort", 'there is no "Random"', id="unknown-sort"),
        pytest.param(
            ONE + "  thresholds: {storageLabel: 'a b'}\n",
            "profiles[0].thresholds.storageLabel",
            "a label key",
            id="label",
        ),
        pytest.param(
            ONE + "  addedAffinity: {required: {}}\n",
            "profiles[0].addedAffinity.required",
            f"unknown key; expected {REQUIRED}, {PREFERRED}",
            id="affinity-key",
        ),
        pytest.param(
            ONE + f"  addedAffinity: {{{REQUIRED}: {{nodeSelectorTerms: []}}}}\n",
            f"profiles[0].addedAffinity.{REQUIRED}.nodeSelectorTerms",
            "expected at least 1 entries, found 0",
            id="affinity-empty",
        ),
        pytest.param(
            ONE
            + f"  addedAffinity: {{{PREFERRED}: [{{weight: 1, preference: {{matchExpressions: [{{name: a}}]}}}}]}}\n",
            f"profiles[0].addedAffinity.{PREFERRED}[0].preference.matchExpressions[0].name",
            "unknown key; expected key, operator, values",
            id="affinity-requirement",
        ),
        pytest.param(
            ONE + f"  addedAffinity: {{{PREFERRED}: [{{weight: 0, preference: {{}}}}]}}\n",
            f"profiles[0].addedAffinity.{PREFERRED}[0].weight",
            "from 1 to 100, found 0",
            id="affinity-weight",
        ),
        pytest.param(
            ONE + ADDED.replace("Gt", "Near"),
            f"profiles[0].addedAffinity.{REQUIRED}.nodeSelectorTerms[0]",
            "'Near' is not an operator",
            id="affinity-operator",
        ),
        pytest.param(
            ONE + ADDED.replace("Exists", "Near"),
            f"profiles[0].addedAffinity.{PREFERRED}[0].preference",
            "'Near' is not an operator",
            id="affinity-operator-of-a-preference",
        ),
        pytest.param(
            ONE + "- schedulerName: ours\n", "profiles[1].schedulerName", "duplicate profile", id="name-twice"
        ),
        pytest.param(ONE + "  filters: []\n  filters: []\n", "", "duplicate key", id="key-twice"),
        pytest.param(
            ONE + "  percentageOfNodesToScore: 101\n",
            "profiles[0].percentageOfNodesToScore",
            "from 0 to 100, found 101",
            id="percent",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert caught.value.place == place
    assert message in caught.value.problem


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ONE, id="defaults"),
        pytest.param(
            ONE + "  scores: {BinPack: 5, Balanced: 2}\n  filters: [NodePorts]\n  preFilters: []\n", id="chosen"
        ),
        pytest.param(ONE + "  thresholds: {storageLabel: a/b, resources: {gpu: 3}}\n- schedulerName: x\n", id="limits"),
        pytest.param(ONE + "  percentageOfNodesToScore: 30\n- schedulerName: 'on'\n", id="a name to be quoted"),
        pytest.param(ONE + ADDED, id="affinity"),
    ],
)
def test_what_is_rendered_reads_back(text: str) -> None:
    configuration = read(text)
    again = read(render(configuration))
    assert list(again.profiles) == list(configuration.profiles)
    for name, profile in configuration.profiles.items():
        other = again.profiles[name]
        assert other.thresholds == profile.thresholds
        assert other.percentage_of_nodes_to_score == profile.percentage_of_nodes_to_score
        assert other.queue_sort.name == profile.queue_sort.name
        assert [plugin.name for plugin in other.pre_filters] == [plugin.name for plugin in profile.pre_filters]
        assert [plugin.name for plugin in other.filters] == [plugin.name for plugin in profile.filters]
        scores = [(score.plugin.name, score.weight) for score in profile.scores]
        assert [(score.plugin.name, score.weight) for score in other.scores] == scores
    assert render(again) == render(configuration)


def test_the_documented_file_is_valid_and_names_every_plugin() -> None:
    page = (Path(__file__).parents[3] / "docs" / "scheduling.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert read(example).profiles.keys() == {"zone-scheduler"}
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == list(REGISTRY.filters)
    assert dict(re.findall(r"`(\w+)` (\d+)[,.]", page)) == {
        name: str(weight) for name, weight in DEFAULT_WEIGHTS.items()
    }


@dataclass(frozen=True)
class PickyArgs:
    node_name: str
    most: int = 3


class Picky(Filter):
    name = "Picky"
    args = PickyArgs

    def __init__(self, args: PickyArgs) -> None:
        if args.most > 9:
            raise ValueError("too many")

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        return None


class _Untold:
    def plugin_failed(self, failure: PluginFailed) -> None: ...


def read_with_picky(text: str) -> Configuration:
    return parse(text, REGISTRY.with_installed([Picky], _Untold()), default_data)


PICKY = ONE + "  filters: [NodePorts, Picky]\n  pluginConfig:\n  - {name: Picky, args: {nodeName: n1}}\n"


def test_args_are_decoded_and_rendered() -> None:
    configuration = read_with_picky(PICKY)
    args = configuration.profiles["ours"].args["Picky"]
    assert isinstance(args, PickyArgs)
    assert (args.node_name, args.most) == ("n1", 3)
    rendered = render(configuration)
    assert "pluginConfig:\n  - name: Picky\n    args:\n      nodeName: n1\n      most: 3\n" in rendered
    assert render(read_with_picky(rendered)) == rendered


def test_a_plugin_that_rejects_its_args_is_an_error_of_the_profile() -> None:
    with pytest.raises(ConfigurationError) as rejected:
        read_with_picky(PICKY.replace("nodeName: n1", "nodeName: n1, most: 10"))
    assert str(rejected.value) == "profiles[0]: plugin Picky failed in its constructor: ValueError: too many"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Pick", 'there is no "Pick"; did you mean "Picky"?'),
        ("Picky, args: {nodeName: n1}}\n  - {name: Picky", '"Picky" is listed twice'),
        ("NodePorts", "NodePorts takes no args"),
        ("BinPack", "BinPack takes no args"),
    ],
)
def test_an_entry_for_a_plugin_that_takes_no_args_here_is_rejected(name: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as rejected:
        read_with_picky(PICKY.replace("name: Picky", f"name: {name}"))
    assert rejected.value.problem == problem
    assert rejected.value.place.endswith("].name")


def test_args_of_a_plugin_that_the_profile_does_not_use_are_rejected() -> None:
    with pytest.raises(ConfigurationError) as rejected:
        read_with_picky(PICKY.replace(", Picky", ""))
    assert rejected.value.problem == "Picky is none of this profile's preFilters, filters and scores"


def test_a_plugin_that_is_not_installed_is_unknown() -> None:
    with pytest.raises(ConfigurationError, match=re.escape('profiles[0].filters: there is no "Picky"')):
        read(PICKY)
