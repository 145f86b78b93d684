"""The Helm chart installs what kustomize installs: its templates are made from the same files."""

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from binder.model.decision import Mode
from binder.reservation.contract import DEFAULT_PREFIX
from devcluster.build.modules import control_plane
from manifests.chart_generator.names import WORKLOADS
from manifests.chart_generator.templates import COMPONENTS
from manifests.chart_generator.values import explained
from prebinder.config.config_file import CONTROLLER
from prebinder.preflight.doctor_checks import CheckState
from prebinder.preflight.kube_scheduler_checks import scheduler_file_checks
from tests.generators import generator
from tests.manifests.chart.helm import CHART, EVERYTHING, SYSTEM, Helm, needs_helm, notes, pods_of
from tests.manifests.tools import MANIFESTS, Document, binary, built, by_name, overlay_of_base

BY_HELM: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart")
"""Labels that say which release an object belongs to."""
NEEDED: Final = {
    "gatePolicy": "schedulingGate",
    "extenderCertManager": "extender",
    "secondKubeScheduler": "extender",
}
"""A component -> the one without which it is of no use."""


def comparable(documents: list[Document]) -> dict[tuple[str, str, str], Any]:
    """Leave out what differs by design: the namespace, who manages, and how a new configuration restarts the pods."""
    kept: list[Document] = []
    for document in deepcopy(documents):
        if document["kind"] == "Namespace":
            continue
        without_release(document["metadata"])
        if document["kind"] == "ConfigMap":
            document["metadata"]["name"] = unhashed(document["metadata"]["name"])
        if document["kind"] == "ConfigMap" and "config.yaml" in document["data"]:
            document["data"] = yaml.safe_load(document["data"]["config.yaml"])
        if document["kind"] == "Deployment":
            metadata, pod = document["spec"]["template"]["metadata"], document["spec"]["template"]["spec"]
            without_release(metadata)
            metadata.pop("annotations", None)
            for volume in pod["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = unhashed(volume["configMap"]["name"])
        if document.get("metadata", {}).get("annotations", {}).get("helm.sh/hook") != "test":
            kept.append(document)
    return dict(by_name(kept))


def without_release(metadata: dict[str, Any]) -> None:
    for label in BY_HELM:
        metadata["labels"].pop(label, None)


def unhashed(name: str) -> str:
    """Return the name of a ConfigMap as it is in a file of kustomize."""
    return re.sub(r"-[a-z0-9]{10}$", "", name)


def test_the_generated_files_are_those_that_the_manifests_make() -> None:
    """`python manifests/chart/generate.py` writes them again."""
    made = generator(CHART / "generate.py").files([binary(control_plane(), "kubectl"), "kustomize"])
    for path, text in made.items():
        assert path.read_text() == text, path
    by_hand = {"_helpers.tpl", "checks.yaml", "config.yaml", "doctor.yaml", "NOTES.txt"}
    files = {path.name for path in (CHART / "templates").rglob("*") if path.is_file()}
    assert files == {path.name for path in made if path.parent.name == "templates"} | by_hand


def test_the_generator_works_outside_the_manifests() -> None:
    """Other tests list that directory at the same time."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        generator(CHART / "generate.py").files(["false"])
    assert not Path(failed.value.cmd[-1]).is_relative_to(MANIFESTS)


def test_there_is_one_switch_for_each_component_and_only_limits_are_on() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert {key: values[key]["enabled"] for key in COMPONENTS} == {key: key == "accountLimits" for key in COMPONENTS}
    assert schema["properties"].keys() == values.keys() | {"global"}
    for key in values.keys() - {"config", "podSecurityContext"}:
        properties = schema["properties"][key].get("properties")
        assert properties is None or properties.keys() == values[key].keys(), key
    directories = {path.name for path in (MANIFESTS / "components").iterdir()}
    # The agent is added to somebody else's Deployment, and the priority is a value.
    assert set(COMPONENTS.values()) == directories - {"csi-agent", "csi-agent-limits", "cluster-critical"}
    assert values["config"] == yaml.safe_load((MANIFESTS / "base" / "config.yaml").read_text())
    scheduler = MANIFESTS / "components" / "scheduler" / "config.yaml"
    assert values["scheduler"]["config"] == yaml.safe_load(scheduler.read_text())


def paths(values: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value that is no mapping, or an empty one."""
    if not isinstance(values, dict) or not values:
        yield path
        return
    for key, value in values.items():
        yield from paths(value, (*path, key))


def test_every_value_is_explained() -> None:
    """By a comment of its own or of the key above it; what a component repeats, at the controller."""
    text = (CHART / "values.yaml").read_text()
    known = {path for path, comment in explained(text) if comment}
    for path in paths(yaml.safe_load(text)):
        above = {path[:length] for length in range(1, len(path) + 1)}
        assert above & known or path[1:] in known or path[1:-1] in known, path


@needs_helm
@pytest.mark.parametrize("kubernetes", ["1.30.0", "1.36", "1.30.4-eks-0123abc", "v1.33.1+k3s1"])
def test_the_defaults_install_the_base_and_limit_its_accounts(helm: Helm, kubernetes: str) -> None:
    assert comparable(helm.template(kubernetes=kubernetes)) == comparable(overlay_of_base(["account-limits"]))


@needs_helm
@pytest.mark.parametrize(
    ("kubernetes", "flags"),
    [
        ("1.29.14", ()),
        ("1.27.0", ("--set=accountLimits.enabled=true",)),
        ("1.36", ("--set=accountLimits.enabled=false",)),
    ],
    ids=["1.29", "wanted-on-1.27", "not-wanted"],
)
def test_without_limits_the_base_alone_is_installed(helm: Helm, kubernetes: str, flags: tuple[str, ...]) -> None:
    assert comparable(helm.template(*flags, kubernetes=kubernetes)) == comparable(overlay_of_base())


@needs_helm
@pytest.mark.parametrize(
    ("kubernetes", "flags", "words"),
    [
        ("1.36", (), "Its accounts are limited to what they do"),
        ("1.29.14", (), "NOT limited to what they do: Kubernetes v1.29.14 has no ValidatingAdmissionPolicies"),
        ("1.36", ("--set=accountLimits.enabled=false",), "accountLimits.enabled is false"),
    ],
    ids=["limited", "old-kubernetes", "not-wanted"],
)
def test_the_notes_say_whether_accounts_are_limited(
    helm: Helm, kubernetes: str, flags: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    assert words in notes(helm, tmp_path, *flags, kubernetes=kubernetes)


@needs_helm
def test_every_object_has_the_labels_that_helm_recommends(helm: Helm) -> None:
    """https://helm.sh/docs/chart_best_practices/labels"""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    expected = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "release"}
    expected |= {"helm.sh/chart": f"pvc-prebinder-{version}", "app.kubernetes.io/name": "pvc-prebinder"}
    for document in helm.template(*EVERYTHING, "--set=dryRun=false"):
        labels = document["metadata"]["labels"]
        assert expected.items() <= labels.items(), (document["kind"], document["metadata"]["name"])


@needs_helm
def test_a_dry_run_installs_what_the_overlay_for_a_trial_does(helm: Helm) -> None:
    overlay = MANIFESTS / "overlays" / "try"
    config = json.dumps(yaml.safe_load((overlay / "config.yaml").read_text()))
    documents = helm.template("--set=dryRun=true", f"--set-json=config={config}", "--set=replicas=3")
    assert comparable(documents) == comparable(built(overlay))


@needs_helm
@pytest.mark.parametrize("key", COMPONENTS)
def test_a_switch_adds_what_its_component_does(helm: Helm, key: str) -> None:
    switches, components = {key}, [COMPONENTS[key]]
    if key in NEEDED:
        switches, components = switches | {NEEDED[key]}, [COMPONENTS[NEEDED[key]], *components]
    flags = [flag for name in sorted(switches) for flag in ("--set", f"{name}.enabled=true")]
    if key != "accountLimits":
        flags += ["--set", "accountLimits.enabled=false"]
    if key == "secondKubeScheduler":
        flags += ["--set", "secondKubeScheduler.image.tag=v1.37.1"]
    assert comparable(helm.template(*flags)) == comparable(overlay_of_base(components))


@needs_helm
def test_another_namespace_image_and_priority_are_used_everywhere(helm: Helm) -> None:
    documents = helm.template(
        *EVERYTHING,
        "--set",
        f"image.repository=registry.example.com/ours,image.digest=sha256:{'0' * 64},priorityClassName=high",
        namespace="elsewhere",
    )
    text = yaml.safe_dump_all(documents)
    assert SYSTEM not in text
    images = [line for line in text.splitlines() if " image: " in line]
    ours = f"registry.example.com/ours@sha256:{'0' * 64}"
    assert {line.split("image: ")[1] for line in images} == {ours, "registry.k8s.io/kube-scheduler:v1.36.0"}
    priorities = {component: pod.get("priorityClassName") for component, pod in pods_of(documents).items()}
    # No pod waits for the view.
    assert priorities == {name: None if name == "view" else "high" for name in WORKLOADS}


@needs_helm
def test_pods_of_every_component_are_placed_and_pulled_as_the_values_say(helm: Helm) -> None:
    placed = {
        "imagePullSecrets": [{"name": "registry-credentials"}],
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    pods = pods_of(helm.template(*EVERYTHING, *(f"--set-json={key}={json.dumps(placed[key])}" for key in placed)))
    assert pods.keys() == WORKLOADS.keys()
    for pod in pods.values():
        assert {key: pod[key] for key in placed} == placed


@needs_helm
def test_ids_are_left_to_openshift_and_the_rest_of_restricted_stays(helm: Helm) -> None:
    ids = [f"--set=podSecurityContext.{key}=null" for key in ("fsGroup", "runAsGroup", "runAsUser")]
    for pod in pods_of(helm.template(*EVERYTHING, *ids)).values():
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@needs_helm
def test_replicas_and_resources_are_those_of_the_component(helm: Helm) -> None:
    values = {name: where.removeprefix(".Values").removeprefix(".") for name, where in WORKLOADS.items()}
    flags: list[str] = []
    for number, (name, key) in enumerate(values.items(), 3):
        where = f"{key}." if key else ""
        flags.append(f"--set={where}resources.limits.memory={number}Gi")
        flags += [f"--set={where}replicas={number}"] if name != "view" else []
    deployments = [each for each in helm.template(*EVERYTHING, *flags) if each["kind"] == "Deployment"]
    replicas = {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"] for each in deployments}
    pods = pods_of(deployments)
    for number, name in enumerate(values, 3):
        assert replicas[name]["replicas"] == (1 if name == "view" else number)
        assert pods[name]["containers"][0]["resources"] == {"limits": {"memory": f"{number}Gi"}}


@needs_helm
def test_the_schedulers_profiles_and_the_annotation_prefix_are_values(helm: Helm) -> None:
    profiles = json.dumps([{"schedulerName": "ours"}])
    prefix = "storage.example.com/"
    flags = [f"--set-json=scheduler.config.profiles={profiles}", f"--set=config.binding.annotationPrefix={prefix}"]
    documents = helm.template(*EVERYTHING, *flags)
    config = by_name(documents)["ConfigMap", SYSTEM, "pvc-prebinder-scheduler-config"]["data"]["config.yaml"]
    assert yaml.safe_load(config)["profiles"] == [{"schedulerName": "ours"}]
    assert DEFAULT_PREFIX not in yaml.safe_dump(documents)
    for component, pod in pods_of(documents).items():
        given = f"--annotation-prefix={prefix}" in pod["containers"][0]["args"]
        assert given is (component not in {"controller", "kube-scheduler"})
    policy = by_name(documents)["MutatingAdmissionPolicy", "", "pvc-prebinder-gate"]["spec"]
    assert policy["matchConstraints"]["namespaceSelector"]["matchLabels"] == {f"{prefix}gate": "enabled"}


@needs_helm
def test_the_extender_gets_a_fixed_address(helm: Helm) -> None:
    documents = by_name(helm.template("--set=extender.enabled=true", "--set=extender.clusterIP=10.96.0.42"))
    assert documents["Service", SYSTEM, "pvc-prebinder-extender"]["spec"]["clusterIP"] == "10.96.0.42"


@needs_helm
def test_a_prometheus_that_selects_by_labels_is_given_them(helm: Helm) -> None:
    documents = by_name(helm.template(*EVERYTHING, "--set=alerts.labels.release=monitoring"))
    for kind in ("PodMonitor", "PrometheusRule"):
        assert documents[kind, SYSTEM, "pvc-prebinder"]["metadata"]["labels"]["release"] == "monitoring"


@needs_helm
@pytest.mark.parametrize(
    ("flag", "missing"),
    [
        ("gatePolicy.enabled=true", "schedulingGate.enabled"),
        ("config.binding.mode=complete", "complete.enabled=true"),
        ("extenderCertManager.enabled=true", "extender.enabled=true"),
        ("secondKubeScheduler.enabled=true", "set extender.enabled=true"),
        ("serviceAccount.create=false", "set serviceAccount.name"),
        ("view.serviceAccount.create=false", "set view.serviceAccount.name"),
        ("dryRun=true,gatePolicy.enabled=true,schedulingGate.enabled=true", "gatePolicy.enabled to false"),
        ("dryRun=true,complete.enabled=true", "complete.enabled"),
    ],
)
def test_what_would_not_work_is_rejected_with_what_is_missing(helm: Helm, flag: str, missing: str) -> None:
    assert missing in helm.run("template", "release", CHART, "--kube-version", "1.36", "--set", flag, fails=True)


@needs_helm
def test_the_policy_that_gates_is_rejected_where_the_api_server_has_none(helm: Helm) -> None:
    flags = ("--kube-version", "1.35", "--set=gatePolicy.enabled=true,schedulingGate.enabled=true")
    assert "gatePolicy needs Kubernetes 1.36, and this is v1.35" in helm.run(
        "template", "release", CHART, *flags, fails=True
    )


@needs_helm
@pytest.mark.parametrize(
    ("kubernetes", "tag"), [("1.33.4", "v1.33.4"), ("v1.33.4-eks-0123abc", "v1.33.4"), ("v1.34.1+k3s1", "v1.34.1")]
)
def test_the_second_kube_scheduler_is_the_stock_one_of_the_clusters_version(
    helm: Helm, kubernetes: str, tag: str
) -> None:
    enabled = ("--set=secondKubeScheduler.enabled=true", "--set=extender.enabled=true")
    pod = pods_of(helm.template(*enabled, kubernetes=kubernetes))["kube-scheduler"]
    assert pod["containers"][0]["image"] == f"registry.k8s.io/kube-scheduler:{tag}"


@needs_helm
def test_the_second_kube_scheduler_has_the_profiles_of_the_values_and_calls_our_extender(helm: Helm) -> None:
    profiles = [{"schedulerName": "ours", "percentageOfNodesToScore": 100}]
    flags = (f"--set-json=secondKubeScheduler.profiles={json.dumps(profiles)}", "--set=fullnameOverride=binder")
    documents = helm.template(*EVERYTHING, *flags, namespace="elsewhere")
    config = by_name(documents)["ConfigMap", "elsewhere", "binder-kube-scheduler-config"]["data"]["config.yaml"]
    content = yaml.safe_load(config)
    assert content["profiles"] == profiles
    assert content["leaderElection"]["resourceNamespace"] == "elsewhere"
    assert content["extenders"][0]["urlPrefix"] == "https://binder-extender.elsewhere.svc"
    assert not [check for check in scheduler_file_checks(config) if check.state is CheckState.PROBLEM]
    certificate = by_name(documents)["Certificate", "elsewhere", "binder-extender"]
    assert certificate["spec"]["dnsNames"] == ["binder-extender.elsewhere.svc"]


@needs_helm
def test_the_package_has_no_program(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()
    with tarfile.open(package) as archive:
        names = {Path(name).relative_to("pvc-prebinder").parts[0] for name in archive.getnames()}
    assert names == {"Chart.yaml", "README.md", "templates", "values.schema.json", "values.yaml", ".helmignore"}


@needs_helm
@pytest.mark.parametrize("where", ["", "config.binding.", "config.health.", "scheduler.config."])
def test_a_value_that_there_is_not_is_rejected_by_its_name(helm: Helm, where: str) -> None:
    flag = f"--set={where}complte=true"
    assert "complte" in helm.run("template", "release", CHART, "--kube-version", "1.36", flag, fails=True)


@needs_helm
def test_a_configuration_is_taken_as_the_program_takes_it(helm: Helm) -> None:
    values = ("complete.enabled=true", "config.binding.mode=complete", "config.binding.reservationTTL=15m")
    documents = helm.template(*(f"--set={value}" for value in (*values, "config.health.quarantine=true")))
    config = by_name(documents)["ConfigMap", SYSTEM, "pvc-prebinder-config"]["data"]["config.yaml"]
    settings = CONTROLLER.parse(config)
    assert (settings.binding.mode, settings.binding.reservation_ttl) == (Mode.COMPLETE, timedelta(minutes=15))
    assert settings.health.quarantine


def test_the_chart_says_where_it_comes_from() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert all(chart[key] for key in ("home", "icon", "sources", "maintainers", "keywords"))
    (image,) = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert image["image"] == f"{values['image']['repository']}:{values['image']['tag']}"
    assert chart["annotations"]["artifacthub.io/license"] == chart["annotations"]["licenses"]
    assert chart["version"] == chart["appVersion"] == metadata.version("pvc-prebinder")


@needs_helm
def test_helm_has_nothing_to_complain_about(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", CHART)
