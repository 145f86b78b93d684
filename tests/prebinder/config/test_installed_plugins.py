"""A plugin of another distribution, installed, configured and run; the example is the one of docs/plugins.md."""

import json
from pathlib import Path

import pytest

from tests.prebinder.distributions import FILES, install, run

CONFIGURATION = FILES["scheduler.yaml"]
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
"""


@pytest.fixture(scope="module")
def licenses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "packages"
    install(target, FILES["pyproject.toml"], {"licenses.py": FILES["licenses.py"]})
    return target


def simulated(target: Path, directory: Path, configuration: str, *flags: str) -> tuple[int, dict[str, object], str]:
    (directory / "scheduler.yaml").write_text(configuration)
    (directory / "cluster.yaml").write_text(FILES["cluster.yaml"])
    arguments = ("-f", "cluster.yaml", "--config", "scheduler.yaml", "-o", "json", *flags)
    done = run(target, "simulate", *arguments, cwd=directory)
    return done.returncode, json.loads(done.stdout)["result"] if done.stdout else {}, done.stderr


def test_the_example_of_the_page_runs_in_the_simulator(licenses: Path, tmp_path: Path) -> None:
    code, result, errors = simulated(licenses, tmp_path, CONFIGURATION)
    assert (code, result["placed"], result["failures"]) == (3, 2, {"RejectedByPlugin": 1}), errors
    code, result, errors = simulated(licenses, tmp_path, CONFIGURATION.replace("perNode: 2", "perNode: 3"))
    assert (code, result["placed"]) == (0, 3), errors


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(
            "perNode: 2",
            "perNod: 2",
            'profiles[0].pluginConfig[0].args.perNod: unknown key; did you mean "perNode"? (line 8)',
            id="key",
        ),
        pytest.param(
            "perNode: 2",
            "perNode: many",
            'profiles[0].pluginConfig[0].args.perNode: expected a whole number, found "many" (line 8)',
            id="type",
        ),
        pytest.param(
            "perNode: 2",
            "perNode: 0",
            "profiles[0].pluginConfig[0].args: expected at least 1 license per node (line 8)",
            id="value",
        ),
        pytest.param(
            "podLabel: licensed, ", "", "profiles[0].pluginConfig[0].args.podLabel: is required (line 8)", id="missing"
        ),
        pytest.param(
            "VolumeBinding, Licenses]",
            "VolumeBinding, Licences]",
            'profiles[0].filters: there is no "Licences"; did you mean "Licenses"?',
            id="unknown-plugin",
        ),
        pytest.param(
            "- name: Licenses",
            "- name: License",
            'profiles[0].pluginConfig[0].name: there is no "License"; did you mean "Licenses"?',
            id="unknown-entry",
        ),
        pytest.param(
            "VolumeBinding, Licenses]",
            "VolumeBinding]",
            "profiles[0].pluginConfig[0].name: Licenses is none of this profile's preFilters, filters and scores",
            id="not-used",
        ),
        pytest.param(
            "- name: Licenses",
            "- name: NodePorts",
            "profiles[0].pluginConfig[0].name: NodePorts takes no args",
            id="no-args",
        ),
        pytest.param(
            CONFIGURATION[CONFIGURATION.index("  pluginConfig") :],
            "",
            "profiles[0].pluginConfig: Licenses has no args here, and needs podLabel (line 4)",
            id="no-entry",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    licenses: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in CONFIGURATION
    code, _, errors = simulated(licenses, tmp_path, CONFIGURATION.replace(old, new))
    assert (code, errors) == (2, f"pvc-prebinder: --config scheduler.yaml: {message}\n")


def test_the_scheduler_reads_the_same_configuration(licenses: Path, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION.replace("perNode: 2", "perNode: 0"))
    done = run(licenses, "scheduler", "--config=scheduler.yaml", "--kubeconfig=kubeconfig", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "configuration file scheduler.yaml: profiles[0].pluginConfig[0].args: expected at least 1 license per node "
        "(line 8)"
    )


BROKEN = """\
[project]
name = "broken"
version = "2.1"
[project.entry-points."pvc_prebinder.plugins"]
Broken = "broken:Broken"
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere\n", "broken:Broken cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit(1)\n", "broken:Broken cannot be imported: SystemExit: 1"),
        ("Broken = 1\n", "broken:Broken is not a class that extends PreFilter, Filter or Score"),
        (
            "from scheduler.framework.plugin import Filter\nclass Broken(Filter):\n    name = 'Broken'\n",
            "broken:Broken does not define rule",
        ),
    ],
    ids=["import", "exit", "no-class", "abstract"],
)
def test_a_plugin_that_cannot_be_used_is_one_line_with_its_distribution(
    tmp_path: Path, source: str, message: str
) -> None:
    install(tmp_path / "site", BROKEN, {"broken.py": source})
    code, _, errors = simulated(tmp_path / "site", tmp_path, CONFIGURATION)
    problem = f"plugin Broken of distribution broken 2.1: {message}"
    assert (code, errors) == (2, f"pvc-prebinder: --config scheduler.yaml: {problem}\n")


def test_two_plugins_of_one_name_are_rejected(tmp_path: Path) -> None:
    named = BROKEN.replace("Broken = ", "NodePorts = ")
    install(tmp_path / "site", named, {"broken.py": "raise AssertionError\n"})
    done = run(tmp_path / "site", "simulate", "--weights=BestFit=1", cwd=tmp_path)
    problem = "plugin NodePorts of distribution broken 2.1: pvc-prebinder has a plugin of this name"
    assert (done.returncode, done.stderr) == (2, f"pvc-prebinder: {problem}\n")


def test_a_plugin_that_raises_costs_its_pods_and_no_others(tmp_path: Path) -> None:
    counting = "            there = sum"
    source = FILES["licenses.py"].replace(counting, f"            raise KeyError(node.name)\n{counting}")
    install(tmp_path / "site", FILES["pyproject.toml"], {"licenses.py": source})
    unlicensed = CONFIGURATION.replace("podLabel: licensed", "podLabel: other")
    assert simulated(tmp_path / "site", tmp_path, unlicensed)[1]["placed"] == 3
    code, result, errors = simulated(tmp_path / "site", tmp_path, CONFIGURATION)
    assert (code, result["failures"]) == (3, {"PluginFailed": 3})
    assert errors == "pvc-prebinder simulate: plugin Licenses failed in Filter: KeyError: 'node-1'\n"


def test_installed_plugins_are_chosen_by_flags_too(licenses: Path, tmp_path: Path) -> None:
    done = run(licenses, "simulate", "--plugins=Licenses", cwd=tmp_path)
    assert done.returncode == 2
    assert "Licenses takes args: give them in the pluginConfig of a file that --config names" in done.stderr
